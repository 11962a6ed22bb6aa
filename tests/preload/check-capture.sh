#!/bin/bash
# check-capture.sh: the library beside a capture: it must not spoil it.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

for charge in footprint requested; do
    run capture "$(limit $charge $gib)" $charge -- budget_capture "$captures"
done
finish
