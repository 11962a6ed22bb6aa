#!/bin/bash
# check-ends.sh: memory that ends without being freed, on one device and on two.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

for charge in footprint requested; do
    run ends 2GiB $charge -- budget_ends
    run devices 0=2GiB,1=4GiB $charge GPUSTANDIN_DEVICES=2 -- budget_devices "$rounds"
done
finish
