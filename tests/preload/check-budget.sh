#!/bin/bash
# The budget on real programs under the real preload, on the stand-in driver. Each program
# (tests/programs/budget_*.c) prints its own cases; here they get their limits.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"

programs=$build/tests/programs
# How much: GB_TEST_LENGTH is long, short (sanitizers) or unset.
case ${GB_TEST_LENGTH:-} in
long) rounds=1000 model=1000000 forks=1000 captures=1000 loops=100000 ;;
short) rounds=20 model=10000 forks=50 captures=50 loops=2000 ;;
*) rounds=200 model=100000 forks=300 captures=200 loops=20000 ;;
esac

# A context's size on the simulated card, as the program itself would see it.
context=$("$source_tree/scripts/with-standin" -- "$programs/budget_contexts" size) || context=
if [ -z "$context" ]; then
    not_ok start "no answer from budget_contexts size"
    finish
fi
gib=$((1024 * 1024 * 1024))
mib=$((1024 * 1024))

# run CASE LIMIT CHARGE [NAME=VALUE]... -- PROGRAM [ARGUMENT]...: its cases become ours.
run()
{
    local name=$1 limit=$2 charge=$3 line status
    local settings=()
    shift 3
    while [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    shift
    (
        cd "$build" &&
            exec "$source_tree/scripts/with-standin" -- env "${settings[@]}" \
                LD_PRELOAD="$sanitizer$preload" GPUBUDGET_LIMIT="$limit" \
                GPUBUDGET_CHARGE="$charge" GPUBUDGET_LOG=quiet \
                timeout 300 "$programs/$1" "${@:2}"
    ) >"$work/out" 2>"$work/err"
    status=$?
    while IFS= read -r line; do
        case $line in
        'ok '*) ok "$name-$charge-${line#ok }" ;;
        'not ok '*)
            line=${line#not ok }
            not_ok "$name-$charge-${line%%: *}" "${line#*: }"
            ;;
        'skip '*)
            line=${line#skip }
            skip "$name-$charge-${line%%: *}" "${line#*: }"
            ;;
        esac
    done <"$work/out"
    if [ "$status" -ne 0 ] && ! grep -q '^not ok' "$work/out"; then
        not_ok "$name-$charge" "status $status: $(tail -n 3 "$work/err" | tr '\n' ' ')"
    elif [ -s "$work/err" ]; then
        not_ok "$name-$charge-quiet" "on stderr: $(head -n 1 "$work/err")"
    fi
}

# Room for `bytes` of the program's own in either mode.
limit()
{
    case $1 in
    footprint) echo $(($2 + context)) ;;
    *) echo "$2" ;;
    esac
}

for charge in footprint requested; do
    room=$(limit $charge $gib)
    run routes "$room" $charge -- budget_routes 4
    for kind in direct async pool mixed small step; do
        run "race-$kind" "$room" $charge -- budget_race $kind $rounds
    done
    for pattern in order order-idle small halve; do
        run loop "$room" $charge -- budget_loop $pattern $loops
    done
    while IFS= read -r sequence; do
        run "faults-$sequence" "$room" $charge -- budget_faults "$sequence"
    done < <(cd "$build" && "$source_tree/scripts/with-standin" -- "$programs/budget_faults" list)
    run capture "$room" $charge -- budget_capture $captures
    run ends "$room" $charge -- budget_ends
    run fork "$room" $charge -- budget_fork before 16
    run fork "$room" $charge -- budget_fork after
    run fork "$room" $charge -- budget_fork storm $forks
    # A limit that a random run meets, but does not live at.
    if [ $charge = requested ]; then room=$((80 * mib)); else room=$((400 * mib + context)); fi
    for seed in 1 2 3; do
        run "model-$seed" "$room" $charge -- budget_model $model $seed
    done
done
run routes-managed $((gib + context + 64 * mib)) footprint -- budget_routes 4 managed

run contexts 256MiB footprint -- budget_contexts small
run contexts 8GiB footprint -- budget_contexts sizes
run contexts-no-nvml 8GiB footprint GPUSTANDIN_NO_NVML=1 -- budget_contexts sizes 640
run contexts $((context + context / 2)) footprint -- budget_contexts second
run contexts $((context + 2 * mib)) footprint -- budget_contexts fits

run info 4GiB footprint -- budget_info agree 4096
run info-devices 0=2GiB,1=4GiB,2=8GiB,3=1GiB footprint GPUSTANDIN_DEVICES=4 \
    -- budget_info agree 2048 4096 8192 1024
run info-first 2GiB footprint GPUSTANDIN_MEMORY=3GiB -- budget_info first 2048
run info-over 600MiB footprint GPUBUDGET_ON_LIMIT=report -- budget_info over
run info-neighbours 4GiB footprint -- budget_info neighbours
run info-card 20GiB footprint GPUSTANDIN_OTHER=10GiB -- budget_info card
run info-physical 4GiB footprint GPUBUDGET_CAPACITY=physical -- budget_info physical

# Wrong calls are answered as without the library, with an empty budget and a full one.
errors()
{
    (cd "$build" && "$source_tree/scripts/with-standin" -- env "$@") 2>&1
}
for full in '' full; do
    errors "$programs/budget_errors" ${full:+"$full"} >"$work/raw"
    for charge in footprint requested; do
        errors LD_PRELOAD="$sanitizer$preload" GPUBUDGET_LIMIT="$(limit $charge $gib)" \
            GPUBUDGET_CHARGE=$charge GPUBUDGET_LOG=quiet \
            "$programs/budget_errors" ${full:+"$full"} >"$work/with"
        if diff "$work/raw" "$work/with" >"$work/diff"; then
            ok "errors-$charge${full:+-$full}"
        else
            not_ok "errors-$charge${full:+-$full}" "$(grep '^[<>]' "$work/diff" | head -n 4 | tr '\n' ' ')"
        fi
    done
done
finish
