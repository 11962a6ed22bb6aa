# gpu-judge.sh: what a program of scripts/gpu-check says of itself, and what is wrong with that.
# Sourced, not run. Of a run in a slot there are SLOT.out, SLOT.err and SLOT.status in $work, and
# its command in slot_command.
# shellcheck shell=bash disable=SC2154

granted()
{
    awk '/^bite .* granted$/ { sum += $3 } END { print sum + 0 }' "$work/$1.out"
}

refusal()
{
    sed -n 's/^bite .* refused: //p' "$work/$1.out" | tail -n 1
}

last_words()
{
    local text
    # A framework that aborts says why before it tells where.
    text=$(grep -m 1 'Check failed' "$work/$1.err")
    [ -n "$text" ] || text=$(grep -v '^$' "$work/$1.err" | tail -n 1)
    [ -n "$text" ] || text=$(tail -n 1 "$work/$1.out")
    printf '%s' "${text:0:160}" | tr '|' '/'
}

# judge SLOT REFUSAL LEAST MOST: what is wrong with the run, or nothing. Once it was refused it has to
# give some back and get more; one that was started with --keep has to keep all instead.
judge()
{
    local slot=$1 status amount
    status=$(cat "$work/$slot.status")
    amount=$(granted "$slot")
    if [ "$status" -eq 124 ]; then
        echo "ran too long"
    elif [ "$status" -ne 0 ]; then
        echo "status $status: $(last_words "$slot")"
    elif [ "$(refusal "$slot")" != "$2" ]; then
        echo "refused with \"$(refusal "$slot")\", not $2"
    elif [ "$amount" -lt "$3" ] || [ "$amount" -gt "$4" ]; then
        echo "granted $amount MiB, not $3 to $4"
    elif [[ " ${slot_command[$slot]} " == *' --keep '* ]]; then
        grep -q '^keeps all: ' "$work/$slot.out" || echo "it does not say that it has kept all"
    elif ! grep -q '^one more: .* granted$' "$work/$slot.out"; then
        echo "after giving some back nothing more was granted"
    fi
}
