#!/bin/bash
# check-contexts.sh: contexts are charged as measured, or as estimated without NVML.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

for charge in footprint requested; do
    # The oldest cuCtxCreate needs a card of less than 4 GiB.
    run contexts 1536MiB $charge GPUSTANDIN_MEMORY=3G -- budget_contexts sizes
    run contexts-large-card 8GiB $charge -- budget_contexts sizes
done
# Without NVML nothing tells of the card before there is a context.
run contexts-no-nvml 1536MiB footprint GPUSTANDIN_MEMORY=3G GPUSTANDIN_NO_NVML=1 \
    GPUBUDGET_RESERVE=0 -- budget_contexts sizes 640
run contexts-no-process-list 8GiB footprint GPUSTANDIN_NVML_NOT_SUPPORTED=1 \
    GPUBUDGET_RESERVE=0 -- budget_contexts sizes
run contexts $((context + context / 2)) footprint -- budget_contexts second
run contexts 200MiB footprint -- budget_contexts small

# The line names the smallest useful limit, and with that limit the program works.
program GPUBUDGET_LIMIT=200MiB "$programs/budget_contexts" small
smallest=$(sed -n 's/.* The smallest useful limit here is \([0-9]*MiB\)\.$/\1/p' "$work/err")
if [ "$(wc -l <"$work/err")" -ne 1 ] || [ -z "$smallest" ]; then
    not_ok smallest-limit "$(head -n 2 "$work/err" | tr '\n' ' ')"
else
    ok smallest-limit
    run contexts-smallest "$smallest" footprint -- budget_contexts fits
    run contexts-below-smallest "$((${smallest%MiB} - 3))MiB" footprint -- budget_contexts small
fi
finish
