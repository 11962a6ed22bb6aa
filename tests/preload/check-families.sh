#!/bin/bash
# check-families.sh: randomised runs over all families of memory; at every rest the ledger is what
# the card's tools and the program's own model say. GB_TEST_SEED: another first seed. A run of one
# thread that fails is repeated by its seed: GPUBUDGET_LIMIT=... budget_families OPERATIONS SEED.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

# Four threads take four times the room. The larger limits have room for second contexts.
seed=${GB_TEST_SEED:-1}
for threads in 1 4; do
    for failures in 0 300; do
        for room in 350 $((threads * 100 + 600)); do
            label=families-$seed-threads-$threads-failures-$failures
            settings=("FAMILIES_THREADS=$threads" "FAMILIES_FAILURES=$failures"
                "GPUSTANDIN_FREE_STREAMS=4")
            run "$label" "$(limit footprint $((room * mib)))" footprint "${settings[@]}" -- \
                budget_families "$families" "$seed"
            run "$label" "$((room * mib / 8))" requested "${settings[@]}" -- \
                budget_families "$families" "$seed"
            seed=$((seed + 1))
        done
    done
done

# The same seed, the same run: what fails can be looked for.
for turn in 1 2; do
    program FAMILIES_THREADS=1 GPUBUDGET_LIMIT=900MiB GPUBUDGET_LOG=quiet \
        "$programs/budget_families" 10000 7
    grep '^#' "$work/out" >"$work/digest-$turn"
done
if [ -s "$work/digest-1" ] && cmp -s "$work/digest-1" "$work/digest-2"; then
    ok families-repeatable
else
    not_ok families-repeatable "$(head -n 1 "$work/digest-1"), then $(head -n 1 "$work/digest-2")"
fi
finish
