#!/bin/bash
# check-graphs.sh: the memory of graphs is charged before anything runs.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

for charge in footprint requested; do
    run graphs "$(limit $charge $gib)" $charge -- budget_graphs
done
# Room for a second context.
run nodes "$(limit footprint $((gib + context)))" footprint -- budget_nodes
finish
