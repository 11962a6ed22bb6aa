#!/bin/bash
# check-info.sh: all answers about the size of a card agree.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

for charge in footprint requested; do
    run info 4GiB $charge -- budget_info agree 4096
    run info-devices 0=2GiB,1=4GiB,2=8GiB,3=1GiB $charge GPUSTANDIN_DEVICES=4 \
        -- budget_info agree 2048 4096 8192 1024
    run info-first 1536MiB $charge GPUSTANDIN_MEMORY=3G -- budget_info first 1536
    run info-green 0=4GiB,1=2GiB $charge GPUSTANDIN_DEVICES=2 -- budget_info green
    run info-told 4GiB $charge -- budget_info told
    run info-told-default-reserve 4GiB $charge GPUBUDGET_RESERVE=1% -- budget_info told
    run info-over 600MiB $charge GPUBUDGET_ON_LIMIT=report -- budget_info over
    run info-neighbours 4GiB $charge -- budget_info neighbours
    run info-card 20GiB $charge GPUSTANDIN_OTHER=10G -- budget_info card
done
run info-physical 2GiB footprint GPUBUDGET_CAPACITY=physical -- budget_info physical
run info-none none footprint -- budget_info physical
finish
