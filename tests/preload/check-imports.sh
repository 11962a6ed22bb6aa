#!/bin/bash
# check-imports.sh: memory of others is never charged.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

for charge in footprint requested; do
    run imports "$(limit $charge $((gib + context)))" $charge -- budget_imports
    run imports-shown "$(limit $charge $((gib + context)))" $charge GPUSTANDIN_IMPORTS_SHOWN=1 \
        -- budget_imports
done

# Shown, and not counted: in the line of a refusal, and once for each device in a line of its own.
program GPUBUDGET_LIMIT="$(limit footprint "$gib")" GPUBUDGET_LOG=info \
    "$programs/budget_imports" words || not_ok imports-words "status $?"
if grep -q 'GPU 0 (.*): imported 96.0 MiB (cuIpcOpenMemHandle), which is not charged' "$work/err"
then
    ok imports-line
else
    not_ok imports-line "$(tr '\n' ' ' <"$work/err")"
fi
if grep -q 'refused .*, other 0.[0-9]*; imported 0.1, not charged); limit' "$work/err"; then
    ok imports-in-a-refusal
else
    not_ok imports-in-a-refusal "$(tr '\n' ' ' <"$work/err")"
fi
finish
