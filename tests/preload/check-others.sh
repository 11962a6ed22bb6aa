#!/bin/bash
# check-others.sh: the budget beside other libraries that stand between a program and the driver:
# one that replaces its allocations, before and behind this one, and one that no preload reaches.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

ours=$preload
saver=$programs/others/libsaver.so
for charge in footprint requested; do
    preload=$saver:$ours
    run saver-before "$(limit $charge $gib)" $charge -- budget_saver "$rounds"
    preload=$ours:$saver
    run saver-behind "$(limit $charge $gib)" $charge -- budget_saver "$rounds"
done
preload=$ours

if [ -z "$sanitizer" ]; then
    run deepbind "$(limit footprint $gib)" footprint -- budget_deep "$programs/others/libdeep.so"
else
    skip deepbind "a sanitizer build, which forbids it"
fi
finish
