#!/bin/bash
# check-race.sh: threads that race for the last bites: exactly as many succeed as fit.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

# Without delays threads rarely meet inside the driver.
delays=cuMemAlloc_v2:20,cuMemAllocAsync:20,cuMemAllocFromPoolAsync:20,cuMemPoolGetAttribute:10
# On a busy machine a thread may come to rest in the middle of a call.
wait=GPUBUDGET_WAIT=60s
for charge in footprint requested; do
    for kind in direct async pool mixed small step; do
        run "race-$kind" "$(limit $charge $gib)" $charge $wait \
            -- budget_race $kind "$rounds"
        run "race-$kind-slowly" "$(limit $charge $gib)" $charge $wait \
            GPUSTANDIN_DELAY=$delays -- budget_race $kind $((rounds / 20))
    done
done
finish
