#!/bin/bash
# check-handles.sh: physical handles: what keeps them charged, and how frameworks use them.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

# Without delays threads rarely meet inside the driver.
delays=cuMemCreate:20,cuMemRelease:20
for charge in footprint requested; do
    room=$(limit $charge "$gib")
    run handles "$room" $charge -- budget_handles cases
    # With room for a second context.
    run handles "$(limit $charge $((gib + context)))" $charge -- budget_handles shared
    run handles "$room" $charge -- budget_handles patterns
    run handles "$room" $charge -- budget_handles full
    run handles "$room" $charge -- budget_hidden
    run handles 0=2GiB,1=4GiB $charge GPUSTANDIN_DEVICES=2 -- budget_handles devices
    run handles "$room" $charge GPUBUDGET_ON_LIMIT=report -- budget_handles report
    run handles "$room" $charge GPUBUDGET_WAIT=60s -- budget_handles race "$rounds"
    run handles-slowly "$room" $charge GPUBUDGET_WAIT=60s GPUSTANDIN_DELAY=$delays \
        -- budget_handles race $((rounds / 20))
    for seed in 1 2; do
        run handles "$room" $charge -- budget_handles random "$model" \
            $((${GB_TEST_SEED:-0} + seed))
    done
    run handles-no-faults "$room" $charge HANDLE_FAILURES=0 -- budget_handles random "$model"
done

# A limit that cannot be kept: no device memory, but host memory as before.
run handles-denied 12parsecs footprint GPUBUDGET_LOG=quiet -- budget_handles denied

# The words for a refusal, once.
program GPUBUDGET_LIMIT="$(limit footprint "$gib")" "$programs/budget_handles" full
if grep -q 'refused 100 MiB (cuMemCreate): ' "$work/err" && [ "$(wc -l <"$work/err")" -eq 1 ]; then
    ok handles-message
else
    not_ok handles-message "$(head -n 2 "$work/err" | tr '\n' ' ')"
fi
finish
