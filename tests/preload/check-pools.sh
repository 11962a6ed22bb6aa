#!/bin/bash
# check-pools.sh: pools of managed and host memory are told apart from those of a device.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

for charge in footprint requested; do
    run pools "$(limit $charge $gib)" $charge -- budget_pools
    run pools-ignored "$(limit $charge $gib)" $charge GPUBUDGET_MANAGED=ignore -- budget_pools
done
finish
