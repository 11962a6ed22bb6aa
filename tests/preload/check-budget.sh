#!/bin/bash
# check-budget.sh: every route to the driver x every allocating call x every way to free, and
# the patterns that programs live by, within the budget and beyond it.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

# found_by CALL ROUTE...: a route by which the last run has found nothing has shown nothing.
found_by()
{
    local call=$1 route
    shift
    for route in "$@"; do
        if grep -q "^ok $route-$call" "$work/out"; then
            ok "$charge-found-by-$route"
        else
            not_ok "$charge-found-by-$route" "no $call by this route"
        fi
    done
}

for charge in footprint requested; do
    # The 32-bit forms need a card of less than 4 GiB.
    run routes "$(limit $charge $gib)" $charge GPUSTANDIN_MEMORY=3G -- budget_routes 4
    # shellcheck disable=SC2046 # a list of names; those of this driver have no versions
    found_by cuMemAlloc $("$programs/budget_routes" list | grep -vx dlvsym)
    run routes-versioned "$(limit $charge $gib)" $charge \
        LD_LIBRARY_PATH="$build/tests/standin/versioned" -- budget_routes 4
    found_by cuMemAllocAsync dlvsym
    run routes-large-card "$(limit $charge $gib)" $charge -- budget_routes 4
    run routes-old-driver "$(limit $charge $gib)" $charge \
        LD_LIBRARY_PATH="$build/tests/standin/11.4" -- budget_routes 4
    for pattern in order order-idle halve; do
        run loop "$(limit $charge $gib)" $charge -- budget_loop $pattern $loops
    done
    run loop 8GiB $charge -- budget_loop small
done
# Managed memory costs 128 MiB once.
run routes-managed $((gib + context + 128 * mib)) footprint -- budget_routes 4 managed
run routes-managed 1GiB requested -- budget_routes 4 managed

# Wrong calls are answered as without the library, with an empty budget and a full one.
for full in '' full; do
    # The card is as full as the budget will be.
    memory=16G
    [ -z "$full" ] || memory=2G
    on_standin GPUSTANDIN_MEMORY=$memory "$programs/budget_errors" ${full:+"$full"} >"$work/raw"
    for charge in footprint requested; do
        name=errors${full:+-$full}-$charge
        program GPUSTANDIN_MEMORY=$memory GPUBUDGET_LIMIT="$(limit $charge $((gib + context)))" \
            GPUBUDGET_CHARGE=$charge GPUBUDGET_LOG=quiet "$programs/budget_errors" \
            ${full:+"$full"}
        if [ "$(grep -c . "$work/raw")" -lt 10 ]; then
            not_ok "$name" "the plain run says too little"
        elif ! grep -q '^ledger unchanged' "$work/out"; then
            not_ok "$name" "the ledger has changed"
        elif ! diff "$work/raw" "$work/out" >"$work/diff"; then
            not_ok "$name" "$(grep '^[<>]' "$work/diff" | head -n 4 | tr '\n' ' ')"
        else
            ok "$name"
        fi
    done
done
finish
