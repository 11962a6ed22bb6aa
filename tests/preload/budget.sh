# budget.sh: runs the programs of tests/programs/budget_*.c under the preload on the stand-in;
# their cases become the script's. Sourced after cases.sh, not run.
# shellcheck shell=bash
# shellcheck disable=SC2154

programs=$build/tests/programs
mib=$((1024 * 1024))
# shellcheck disable=SC2034
gib=$((1024 * mib))

# How much: GB_TEST_LENGTH is long, short (sanitizers) or unset.
# shellcheck disable=SC2034
case ${GB_TEST_LENGTH:-} in
long) rounds=1000 model=900000 families=640000 forks=1000 captures=2000 loops=100000 ;;
short) rounds=20 model=10000 families=4000 forks=50 captures=50 loops=2000 ;;
*) rounds=1000 model=300000 families=100000 forks=1000 captures=500 loops=100000 ;;
esac

# As scripts/with-standin does it, which takes longer to start than most of the programs.
on_standin()
{
    (cd "$build" && LD_LIBRARY_PATH=$build/tests/standin/13.0 exec env "$@")
}

# What one context takes of the simulated card.
context=$(on_standin "$programs/budget_contexts" size) || context=
if [ -z "$context" ]; then
    skip start "the test programs are missing: make check builds them"
    finish
fi

# The default would take a part of each limit here, which are exact; check-settings.sh and
# check-escape.sh have cases of it.
export GPUBUDGET_RESERVE=0

# program NAME=VALUE... PROGRAM [ARGUMENT]...: under the preload; stdout and stderr to out and err.
# The program alone is: a sanitizer takes longer to start in timeout and env than they run.
program()
{
    on_standin timeout 120 env LD_PRELOAD="$sanitizer$preload" "$@" >"$work/out" 2>"$work/err"
}

# take_cases LABEL STATUS: the lines of `out`, and whatever else went wrong.
take_cases()
{
    local name=$1 status=$2 line
    while IFS= read -r line; do
        case $line in
        'ok '*) ok "$name-${line#ok }" ;;
        'not ok '*)
            line=${line#not ok }
            not_ok "$name-${line%%: *}" "${line#*: }"
            ;;
        'skip '*)
            line=${line#skip }
            skip "$name-${line%%: *}" "${line#*: }"
            ;;
        esac
    done <"$work/out"
    if [ "$status" -ne 0 ] && ! grep -q '^not ok' "$work/out"; then
        not_ok "$name" "status $status: $(tail -n 3 "$work/err" | tr '\n' ' ')"
    elif [ -s "$work/err" ]; then
        not_ok "$name-quiet" "on stderr: $(head -n 1 "$work/err")"
    fi
}

# run LABEL LIMIT CHARGE [NAME=VALUE]... -- PROGRAM [ARGUMENT]...
run()
{
    local name=$1 limit=$2 charge=$3
    local settings=()
    shift 3
    while [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    program "${settings[@]}" GPUBUDGET_LIMIT="$limit" GPUBUDGET_CHARGE="$charge" \
        GPUBUDGET_LOG=quiet "$programs/$2" "${@:3}"
    take_cases "$name-$charge" $?
}

# limit CHARGE BYTES: room for so many of the program's own.
limit()
{
    case $1 in
    footprint) echo $(($2 + context)) ;;
    *) echo "$2" ;;
    esac
}
