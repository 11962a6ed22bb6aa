#!/bin/bash
# check-arguments.sh: what a program passes arrives at the driver as it was.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

for charge in footprint requested; do
    run arguments 4GiB $charge -- budget_arguments
done
finish
