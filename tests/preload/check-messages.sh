#!/bin/bash
# check-messages.sh: the words on stderr: which, in what form, and how often.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

# says NAME LINE SETTING... -- PROGRAM-ARGUMENT...: the one line on stderr, or none ("").
says()
{
    local name=$1 line=$2 settings=() lines
    shift 2
    while [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    shift
    if ! program "${settings[@]}" "$programs/budget_messages" "$@"; then
        not_ok "$name" "$(tail -n 2 "$work/err" "$work/out" | tr '\n' ' ')"
        return
    fi
    lines=$(wc -l <"$work/err")
    if [ "$(cat "$work/err")" != "$line" ]; then
        not_ok "$name" "$lines lines: $(head -n 1 "$work/err")"
    elif [ "$(wc -l <"$work/out")" -ne 1 ]; then
        not_ok "$name" "on stdout: $(head -n 2 "$work/out" | tr '\n' ' ')"
    else
        ok "$name"
    fi
}

gpu='gpubudget: GPU 0 (GPU-5a1dc0de):'
budget='This is the budget, not the card.'
retry='Programs often free memory and retry.'
used='3.0 of 4.0 GiB used (program 2.5, context 0.5, other 0.0); limit from GPUBUDGET_LIMIT.'
bare='2.5 of 4.0 GiB used (program 2.5, context 0.0, other 0.0); limit from GPUBUDGET_LIMIT.'
switch='Managed memory is charged in full; GPUBUDGET_MANAGED=ignore turns that off.'

says refused "$gpu refused 2.0 GiB (cuMemAlloc): $used $budget $retry" \
    GPUBUDGET_LIMIT=4GiB -- refused 10000
says refused-requested "$gpu refused 2.0 GiB (cuMemAlloc): $bare $budget $retry" \
    GPUBUDGET_LIMIT=4GiB GPUBUDGET_CHARGE=requested -- refused 10000
says refused-threads "$gpu refused 2.0 GiB (cuMemAlloc): $used $budget $retry" \
    GPUBUDGET_LIMIT=4GiB -- threads 500
says managed "$gpu refused 2.0 GiB (cuMemAllocManaged): $used $budget $switch $retry" \
    GPUBUDGET_LIMIT=4GiB -- managed 100
says source "$gpu refused 2.0 GiB (cuMemAlloc): ${used/GPUBUDGET_LIMIT/--limit} $budget $retry" \
    GPUBUDGET_LIMIT=4GiB GPUBUDGET_LIMIT_SOURCE=--limit -- refused 1

full="$gpu the card is full, not your budget: asked 2.0 GiB,"
says full "$full budget has 7.5 GiB left, card has 0.5 GiB; other processes hold 15.0 GiB." \
    GPUSTANDIN_OTHER=15G GPUBUDGET_LIMIT=8GiB -- full 10000
says full-requested \
    "$full budget has 8.0 GiB left, card has 0.5 GiB; other processes hold 15.0 GiB." \
    GPUSTANDIN_OTHER=15G GPUBUDGET_LIMIT=8GiB GPUBUDGET_CHARGE=requested -- full 10000

# What is left is what would be granted.
says full-reserve "$full budget has 7.0 GiB left, card has 0.5 GiB; other processes hold 15.0 GiB." \
    GPUSTANDIN_OTHER=15G GPUBUDGET_LIMIT=8GiB GPUBUDGET_RESERVE=512MiB -- full 1

# Rounded to tenths of GiB these figures would seem to fit.
fine='3078 of 5120 MiB used (program 2560, context 518, other 0.0); limit from GPUBUDGET_LIMIT.'
says figures-refused \
    "$gpu refused 2048 MiB (cuMemAlloc): $fine $budget $retry" \
    GPUBUDGET_LIMIT=5GiB -- refused 1
over='Nothing is refused: GPUBUDGET_ON_LIMIT=report.'
says figures-report \
    "$gpu over the limit: granted 2048 MiB (cuMemAlloc), now 5126 of 5120 MiB used; ${used##*; } $over" \
    GPUBUDGET_LIMIT=5GiB GPUBUDGET_ON_LIMIT=report -- refused 1

# Not the budget's doing, nor the card's.
says pool-maximum '' GPUBUDGET_LIMIT=8GiB -- pool 100
says failing-calls '' GPUBUDGET_LIMIT=8GiB -- ended 10000
says quiet '' GPUBUDGET_LIMIT=4GiB GPUBUDGET_LOG=quiet -- refused 100
says error '' GPUBUDGET_LIMIT=4GiB GPUBUDGET_LOG=error -- refused 100
says no-limit '' GPUBUDGET_LIMIT=none -- refused 1

# Into a file; nothing is left of it on stderr.
says file '' GPUBUDGET_LIMIT=4GiB GPUBUDGET_LOG="warn,$work/log.%p" -- refused 100
if [ "$(cat "$work"/log.*)" = "$gpu refused 2.0 GiB (cuMemAlloc): $used $budget $retry" ]; then
    ok file-line
else
    not_ok file-line "$(cat "$work"/log.* 2>&1 | head -n 1)"
fi

# More where it is asked for: the limit in force, then a line for each refusal.
program GPUBUDGET_LIMIT=4GiB GPUBUDGET_LOG=debug "$programs/budget_messages" refused 50
if [ "$(grep -c ' refused 2.0 GiB ' "$work/err")" -eq 50 ] &&
    grep -q "^$(printf '%s' "$gpu" | sed 's/[()]/\\&/g; s/\\//g') limit 4.0 GiB (4294967296 bytes)" \
        "$work/err" && ! grep -qv '^gpubudget: ' "$work/err"; then
    ok debug
else
    not_ok debug "$(head -n 2 "$work/err" | tr '\n' ' ')"
fi

# The limit that is named is one that holds a context, with the reserve that comes with it.
for reserve in '' 64MiB 10%; do
    unset GPUBUDGET_RESERVE
    settings=()
    [ -z "$reserve" ] || settings=("GPUBUDGET_RESERVE=$reserve")
    program "${settings[@]}" GPUBUDGET_LIMIT=300MiB "$programs/budget_messages" refused 1
    named=$(sed -n 's/.*The smallest useful limit here is \([0-9]*\)MiB.*/\1/p' "$work/err")
    program "${settings[@]}" GPUBUDGET_LIMIT="${named:-1}MiB" "$programs/budget_messages" refused 1
    if [ -n "$named" ] && ! grep -q 'refused a context' "$work/err"; then
        ok "smallest-limit-reserve-${reserve:-default}"
    else
        not_ok "smallest-limit-reserve-${reserve:-default}" "${named:-none}: $(head -n 1 "$work/err")"
    fi
done
finish
