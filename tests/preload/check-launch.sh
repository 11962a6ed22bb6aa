#!/bin/bash
# check-launch.sh: a kernel that needs more local memory than fits is not launched.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

for charge in footprint requested; do
    # Room for 1 GiB of local memory beside the module's code.
    run launch "$(limit $charge $((gib + 16 * mib)))" $charge -- budget_launch $((rounds / 5))
done
run launch-unlimited "0=none,1=$(limit footprint $gib)" footprint GPUSTANDIN_DEVICES=2 -- \
    budget_launch unlimited
finish
