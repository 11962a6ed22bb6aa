#!/bin/bash
# check-no-nvml.sh: where NVML is not there, or does not tell what the process holds: estimates
# by the card's free memory, a larger reserve, one line. The stand-in's own ledger judges.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"
# Its default is larger here, and what is tested.
unset GPUBUDGET_RESERVE
# shellcheck source=tests/preload/escape-rows.sh
. "$(dirname "${BASH_SOURCE[0]}")/escape-rows.sh"

declare -A ways=(
    [missing]=GPUSTANDIN_NO_NVML=1
    [not-supported]=GPUSTANDIN_NVML_NOT_SUPPORTED=1
    [not-listed]=GPUSTANDIN_NVML_UNLISTED=1
)
for way in "${!ways[@]}"; do
    for what in exact changing; do
        run "$way" 3GiB footprint GPUSTANDIN_MEMORY=64G "${ways[$way]}" -- budget_no_nvml $what
    done
    for seed in 1 2 3; do
        run "$way" 1536MiB footprint GPUSTANDIN_MEMORY=64G "${ways[$way]}" \
            -- budget_no_nvml fill $((${GB_TEST_SEED:-0} + seed))
    done
done
for one_in in 1 2 3 10; do
    run "faults-$one_in" 3GiB footprint GPUSTANDIN_MEMORY=64G GPUSTANDIN_NVML_FAULTS=$one_in \
        -- budget_no_nvml faults
done
run zero 3GiB footprint GPUSTANDIN_MEMORY=64G GPUBUDGET_RESERVE=0 -- budget_no_nvml zero

# The escape matrix: nowhere more than the limit, but by the ways that NVML does not help
# against either.
on_standin "$programs/escape" --list >"$work/rows"
while read -r name figure _; do
    program GPUSTANDIN_MEMORY=64G GPUSTANDIN_NO_NVML=1 GPUBUDGET_LIMIT=${escape_limit}MiB \
        GPUBUDGET_LOG=quiet "$programs/escape" "$name"
    status=$?
    held=$(escape_simulated "$work/out" "$figure")
    if [ -n "${escape_open[$name]:-}" ]; then
        skip "escape-$name" "${escape_open[$name]}"
    elif [ "$status" -ne 0 ] || [ "${held:-9999}" -gt $escape_limit ]; then
        not_ok "escape-$name" "status $status, holds ${held:-nothing known} MiB"
    else
        ok "escape-$name"
    fi
done <"$work/rows"

# One line, at the first use; with it what a refusal says.
program GPUSTANDIN_NO_NVML=1 GPUBUDGET_LIMIT=4GiB "$programs/budget_messages" refused 3
if [ "$(grep -c 'NVML does not tell what this process holds .* 256 MiB of the limit are kept' \
    "$work/err")" -eq 1 ]; then
    ok one-line
else
    not_ok one-line "$(head -n 3 "$work/err" | tr '\n' ' ')"
fi
if grep -q 'refused .*(program .*, context .*, other [0-9.]*, both estimated); ' "$work/err"; then
    ok refusal-says-estimated
else
    not_ok refusal-says-estimated "$(head -n 3 "$work/err" | tr '\n' ' ')"
fi

# The reserve that is set counts, and in requested mode there is none.
reserve()
{
    local name=$1 wanted=$2
    shift 2
    program GPUSTANDIN_NO_NVML=1 GPUBUDGET_LOG=quiet GPUBUDGET_LIMIT=2GiB "$@" \
        "$programs/budget_no_nvml" free
    if grep -qx "free $wanted" "$work/out"; then ok "reserve-$name"; else
        not_ok "reserve-$name" "$(head -n 2 "$work/out" | tr '\n' ' '), not $wanted"
    fi
}
reserve default $((2048 - 640 - 128)) A=a
reserve none $((2048 - 640)) GPUBUDGET_RESERVE=0
reserve set $((2048 - 640 - 512)) GPUBUDGET_RESERVE=25%
reserve requested 2048 GPUBUDGET_CHARGE=requested
finish
