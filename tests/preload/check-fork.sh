#!/bin/bash
# check-fork.sh: forked children: an empty ledger and the same limit, or the driver's answer.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

for charge in footprint requested; do
    run fork "$(limit $charge $gib)" $charge -- budget_fork before 16
    run fork 1GiB $charge -- budget_fork after
done
run fork 1GiB footprint -- budget_fork storm "$forks"
run fork 1GiB requested -- budget_fork storm $((forks / 5))
finish
