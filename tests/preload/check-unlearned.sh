#!/bin/bash
# check-unlearned.sh: never silently unlimited. Where the driver does not tell what devices there
# are or how large they are, nothing is given out; and whoever runs without a limit although the
# settings speak of one is told so.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "$0")/cases.sh"

if [ -n "$sanitizer" ]; then
    skip unlearned "a sanitizer's runtime cannot be put under every program"
    finish
fi
export LD_LIBRARY_PATH=$build/tests/standin/13.0 GPUSTANDIN_MEMORY=4G

# taken LIMIT FAULTS: how often 1 GiB was granted, of four times
taken()
{
    env GPUSTANDIN_FAULTS="$2" GPUBUDGET_LIMIT="$1" GPUBUDGET_CHARGE=requested \
        LD_PRELOAD="$preload" "$build/tests/programs/take" --bite 1024 --count 4 \
        >"$work/out" 2>"$work/err"
    grep -c '^bite .* granted$' "$work/out"
}

# expect NAME GRANTED LIMIT FAULTS
expect()
{
    local got
    got=$(taken "$3" "$4")
    if [ "$got" -ne "$2" ]; then
        not_ok "$1" "$got granted, not $2"
    elif grep -q ' 0 B ' "$work/err"; then
        not_ok "$1" "a limit was made of nothing: $(cat "$work/err")"
    else
        ok "$1"
    fi
}

# The program's own question comes first.
count=cuDeviceGetCount:2:999
for i in $(seq 3 40); do count=$count,cuDeviceGetCount:$i:999; done

expect nothing-fails 2 50% none:1:999
expect count-fails 0 50% "$count"
expect size-fails 0 50% cuDeviceTotalMem_v2:0:999

# told NAME TEXT SETTING...: all that is asked for is granted, and one line has the text
told()
{
    local name=$1 text=$2
    shift 2
    env "$@" LD_PRELOAD="$preload" "$build/tests/programs/take" --bite 512 --count 4 \
        >"$work/out" 2>"$work/err"
    if [ "$(grep -c '^bite .* granted$' "$work/out")" -ne 4 ]; then
        not_ok "$name" "not all was granted: $(grep '^bite' "$work/out" | tail -n 1)"
    elif [ "$(wc -l <"$work/err")" -ne 1 ] || ! grep -qF "$text" "$work/err"; then
        not_ok "$name" "on stderr: $(cat "$work/err")"
    else
        ok "$name"
    fi
}
told wrong-but-allowed "There is no limit (GPUBUDGET_ON_ERROR=allow)" \
    GPUBUDGET_LIMIT=4x GPUBUDGET_ON_ERROR=allow
told misspelt-but-allowed "There is no limit (GPUBUDGET_ON_ERROR=allow)" \
    GPUBUDGET_LIMTI=4GiB GPUBUDGET_ON_ERROR=allow
told misspelt-and-none "GPUBUDGET_LIMTI is no setting" GPUBUDGET_LIMIT=none GPUBUDGET_LIMTI=4GiB
told compat-alone "GPUBUDGET_COMPAT has no effect" GPUBUDGET_COMPAT=hami
finish
