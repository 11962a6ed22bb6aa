#!/bin/bash
# check-stream-order.sh: GPUBUDGET_STREAM_ORDER. What each form of a copy, a memset and a launch
# does to the free of the block it touches, by every route, and that nothing of that is there
# without the setting.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

# one_line NAME PATTERN: stderr is that one line of ours
one_line()
{
    if [ "$(wc -l <"$work/err")" -eq 1 ] && grep -q "^gpubudget: .*$2" "$work/err"; then
        ok "$1"
    else
        not_ok "$1" "on stderr: $(head -n 3 "$work/err" | tr '\n' ' ')"
    fi
}

for charge in footprint requested; do
    for order in off copies all; do
        run "$order" 2GiB $charge GPUBUDGET_STREAM_ORDER=$order -- budget_stream_order $order
    done
    run unset 2GiB $charge -- budget_stream_order off

    # What is not limited is not followed.
    run no-limit none $charge GPUBUDGET_STREAM_ORDER=all -- budget_stream_order off

    # Our own calls fail: the program's do not, and one line says so.
    program GPUBUDGET_LIMIT=2GiB GPUBUDGET_CHARGE=$charge GPUBUDGET_STREAM_ORDER=copies \
        "$programs/budget_stream_order" failing
    status=$?
    one_line "failing-$charge-line" 'could not be followed'
    : >"$work/err"
    take_cases "failing-$charge" $status

    run devices 0=2GiB,1=2GiB $charge GPUBUDGET_STREAM_ORDER=copies GPUSTANDIN_DEVICES=2 -- \
        budget_stream_order devices both
    run one-device '*=none,0=2GiB' $charge GPUBUDGET_STREAM_ORDER=copies GPUSTANDIN_DEVICES=2 -- \
        budget_stream_order devices one

    for order in copies all; do
        run "threads-$order" 2GiB $charge GPUBUDGET_STREAM_ORDER=$order \
            ORDER_ROUNDS=$((rounds * 2)) -- budget_stream_order threads 6
    done

    # The budget is as exact as without it.
    for order in copies all; do
        run "pools-$order" "$(limit $charge $gib)" $charge GPUBUDGET_STREAM_ORDER=$order -- \
            budget_pools
        case $charge in footprint) small=964MiB ;; *) small=60MiB ;; esac
        run "model-$order" $small $charge GPUBUDGET_STREAM_ORDER=$order MODEL_FAILURES=300 \
            MODEL_CONTEXTS=1 GPUSTANDIN_FREE_STREAMS=32 -- budget_model $((model > 20000 ? 20000 : model)) 1
        run "ends-$order" "$(limit $charge $gib)" $charge GPUBUDGET_STREAM_ORDER=$order -- \
            budget_ends
        run "launch-$order" "$(limit $charge $gib)" $charge GPUBUDGET_STREAM_ORDER=$order -- \
            budget_launch 20
    done
done

# Drivers that do not tell the parameters of kernels.
for version in 11.4 12.4; do
    (cd "$build" && exec "$source_tree/scripts/with-standin" --driver $version -- env \
        LD_PRELOAD="$sanitizer$preload" GPUBUDGET_LIMIT=2GiB GPUBUDGET_STREAM_ORDER=all \
        timeout 120 "$programs/budget_stream_order" copies) >"$work/out" 2>"$work/err"
    status=$?
    one_line "driver-$version-line" 'STREAM_ORDER=all acts as copies'
    : >"$work/err"
    take_cases "driver-$version" $status
done
finish
