#!/bin/bash
# check-arrays.sh: arrays are charged by what they take, or by what they ask for.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

for charge in footprint requested; do
    run arrays "$(limit $charge $gib)" $charge -- budget_arrays
done
finish
