#!/bin/bash
# check-measured.sh: what only the card's own tools can tell is charged as they tell it.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

for charge in footprint requested; do
    run measured "$(limit $charge $((gib + 200 * mib)))" $charge -- budget_measured $((rounds / 5))
    run managed-variables "$(limit $charge $((gib)))" $charge -- budget_managed
    # Room for two contexts.
    run libraries "$(limit $charge $((gib)))" $charge -- budget_libraries $((rounds / 5))
    run green "$(limit $charge $((gib + 200 * mib)))" $charge -- budget_measured 0 green
done
run leftovers "$gib" footprint GPUBUDGET_RESERVE=16MiB -- budget_measured 0 leftovers
finish
