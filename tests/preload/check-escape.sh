#!/bin/bash
# check-escape.sh: the escape matrix on the stand-in: by no way does a process come to hold more
# than its limit, and by every way it can use what it is allowed.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"
# shellcheck source=tests/preload/escape-rows.sh
. "$(dirname "${BASH_SOURCE[0]}")/escape-rows.sh"

document=$source_tree/docs/escapes.md
reserve=

# escape ARGUMENT...: on a card on which everything that escapes has room.
escape()
{
    program GPUSTANDIN_MEMORY=64G GPUBUDGET_LIMIT=${escape_limit}MiB GPUBUDGET_LOG=quiet \
        ${reserve:+GPUBUDGET_RESERVE=$reserve} "$programs/escape" "$@"
}

# row NAME FIGURE STEP LABEL [SEED]
row()
{
    local name=$1 figure=$2 step=$3 label=$4 status held refused wrong
    shift 4
    [ "$step" != context ] || step=$(((context + mib - 1) / mib))
    escape "$name" "$@"
    status=$?
    held=$(escape_simulated "$work/out" "$figure")
    refused=$(escape_refused "$work/out")
    if [ "$status" -ne 0 ] || [ -z "$held" ] || [ -z "$refused" ]; then
        not_ok "$label" "status $status: $(tail -qn 2 "$work/out" "$work/err" | tr '\n' ' ')"
        return
    fi
    wrong=$(escape_verdict "$held" "$step" "$refused")
    if [ -z "${escape_open[$name]:-}" ]; then
        if [ -z "$wrong" ]; then ok "$label"; else not_ok "$label" "$wrong"; fi
    elif [ -n "$wrong" ]; then
        skip "$label" "not yet: ${escape_open[$name]} ($wrong)"
    else
        not_ok "$label" "holds now: take it from the list of those that do not"
    fi
}

on_standin "$programs/escape" --list >"$work/rows"
while read -r name figure step; do
    row "$name" "$figure" "$step" "escape-$name"
    # In the words of the document.
    case $step in context) step="a context" ;; *) step="$step MiB" ;; esac
    if grep -qE "^\| \`$name\` \| .* \| $figure \| $step \| " "$document"; then
        ok "documented-$name"
    else
        not_ok "documented-$name" "docs/escapes.md does not say $figure, $step"
    fi
    # The reader of the page knows of what does not hold.
    listed=$(grep -c "^| not yet: \`$name\` | " "$document")
    expected=0
    [ -z "${escape_open[$name]:-}" ] || expected=1
    if [ "$listed" -eq $expected ]; then
        ok "told-$name"
    else
        not_ok "told-$name" "docs/escapes.md lists it $listed times as not holding yet, not $expected"
    fi
done <"$work/rows"
for seed in 2 3 4 5; do row mixed card 164 "escape-mixed-$seed" $seed; done

# The memory of streams is what the reserve is for.
reserve=2MiB
escape full-streams
held=$(escape_simulated "$work/out" process)
if [ "${held:-9999}" -le $escape_limit ]; then
    ok reserve-has-room-for-streams
else
    not_ok reserve-has-room-for-streams "holds ${held:-nothing known} MiB"
fi
# Less than it could have is seen too.
reserve=64MiB
escape direct
wrong=$(escape_verdict "$(escape_simulated "$work/out" process)" 2 "$(escape_refused "$work/out")")
case $wrong in
'FALSE REFUSAL: '*) ok judged-too-little ;;
*) not_ok judged-too-little "${wrong:-taken for good}" ;;
esac
reserve=

# Without a limit each of them takes what it likes: the program is able to fail.
while read -r name figure step; do
    case $name in direct | async | handle-mapped | array-3d | graph-node | module) ;; *) continue ;; esac
    on_standin GPUSTANDIN_MEMORY=4G "$programs/escape" "$name" >"$work/out" 2>"$work/err"
    if [ "$(escape_simulated "$work/out" "$figure")" -gt $escape_limit ]; then
        ok "unlimited-$name"
    else
        not_ok "unlimited-$name" "took $(escape_simulated "$work/out" "$figure") MiB"
    fi
done <"$work/rows"
finish
