#!/bin/bash
# check-imports.sh: memory of others is never charged.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

for charge in footprint requested; do
    run imports "$(limit $charge $gib)" $charge -- budget_imports
done
finish
