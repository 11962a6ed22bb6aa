#!/bin/bash
# check-model.sh: randomised runs that end with the ledger equal to the program's own model and to
# the stand-in's ledger. GB_TEST_SEED: another first seed. What streams take is not its matter:
# here they take nothing.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

seed=${GB_TEST_SEED:-1}
for failures in 0 300; do
    # With failures a million operations in one run.
    operations=$model
    [ $failures -eq 0 ] || operations=$((model * 10 / 3))
    for contexts in 0 1; do
        for limits in 964MiB:60MiB 884MiB:30MiB; do
            label=model-$seed-failures-$failures-contexts-$contexts
            run "$label" "${limits%:*}" footprint MODEL_FAILURES=$failures \
                MODEL_CONTEXTS=$contexts GPUSTANDIN_FREE_STREAMS=32 -- \
                budget_model "$operations" "$seed"
            run "$label" "${limits#*:}" requested MODEL_FAILURES=$failures \
                MODEL_CONTEXTS=$contexts GPUSTANDIN_FREE_STREAMS=32 -- \
                budget_model "$operations" "$seed"
            seed=$((seed + 1))
        done
    done
done
finish
