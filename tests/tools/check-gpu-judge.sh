#!/bin/bash
# check-gpu-judge.sh: how scripts/gpu-check judges what a program says, by words that are made up.
set -u
srcdir=${srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
declare -A slot_command
# shellcheck source=scripts/gpu-judge.sh
. "$srcdir/scripts/gpu-judge.sh"
failed=0

# judged NAME WANTED STATUS COMMAND LINE...: WANTED is the beginning of the verdict, "" a good one.
judged()
{
    local name=$1 wanted=$2 verdict
    echo "$3" >"$work/one.status"
    slot_command[one]=$4
    shift 4
    printf '%s\n' "$@" >"$work/one.out"
    echo 'its last words' >"$work/one.err"
    verdict=$(judge one OutOfMemory 100 128)
    if [ "$verdict" = "$wanted" ] || { [ -n "$wanted" ] && [[ $verdict == "$wanted"* ]]; }; then
        echo "ok $name"
    else
        echo "not ok $name: \"$verdict\", not \"$wanted\""
        failed=1
    fi
}

bites=('bite 1: 64 MiB granted' 'bite 2: 64 MiB granted')
full=("${bites[@]}" 'bite 3: 64 MiB refused: OutOfMemory')
more='one more: 64 MiB granted'
kept='keeps all: 2 arrays'
plain='python3 jax_take.py --hold'
keep='python3 jax_take.py --keep --hold'
judged good '' 0 "$plain" "${full[@]}" "$more"
judged nothing-more 'after giving some back' 0 "$plain" "${full[@]}"
judged more-refused 'after giving some back' 0 "$plain" "${full[@]}" 'one more: 64 MiB refused'
# Only the option frees of it, and the program must say that it has done so.
judged kept-unasked 'after giving some back' 0 "$plain" "${full[@]}" "$kept"
judged keeps '' 0 "$keep" "${full[@]}" "$kept"
judged keeps-silently 'it does not say' 0 "$keep" "${full[@]}"
judged keeps-but-more 'it does not say' 0 "$keep" "${full[@]}" "$more"
judged option-like 'after giving some back' 0 "$plain --keepers" "${full[@]}" "$kept"
for command in "$plain" "$keep"; do
    name=$([ "$command" = "$plain" ] || echo -keep)
    judged "not-refused$name" 'refused with ""' 0 "$command" "${bites[@]}" "$more" "$kept"
    judged "another-error$name" 'refused with "Other"' 0 "$command" "${bites[@]}" \
        'bite 3: 64 MiB refused: Other' "$more" "$kept"
    judged "too-little$name" 'granted 64 MiB' 0 "$command" "${full[@]:1}" "$more" "$kept"
    judged "too-much$name" 'granted 192 MiB' 0 "$command" "${bites[0]}" "${full[@]}" "$more" "$kept"
    judged "failed$name" 'status 134: its last words' 134 "$command" "${full[@]}" "$more" "$kept"
    judged "too-long$name" 'ran too long' 124 "$command" "${full[@]}" "$more" "$kept"
done
exit $failed
