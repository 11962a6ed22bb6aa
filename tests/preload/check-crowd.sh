#!/bin/bash
# check-crowd.sh: threads that use all families at once: at rest the ledger is the card's.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

run crowd "$(limit footprint $gib)" footprint -- budget_crowd "$rounds"
# Every stream takes memory.
run strict "$(limit footprint $gib)" footprint GPUSTANDIN_FREE_STREAMS=0 -- budget_crowd "$rounds"
run report "$(limit footprint $gib)" footprint GPUBUDGET_ON_LIMIT=report -- \
    budget_crowd "$rounds" report
finish
