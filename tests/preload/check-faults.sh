#!/bin/bash
# check-faults.sh: short sequences of calls, each with every driver call in it failing once.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

while IFS= read -r sequence; do
    for charge in footprint requested; do
        run faults "$(limit $charge $gib)" $charge -- budget_faults "$sequence"
    done
done < <(on_standin "$programs/budget_faults" list)
finish
