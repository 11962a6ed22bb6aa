#!/bin/bash
# check-attack.sh: programs, surroundings and drivers that do what they should not. Nothing may
# hang, crash, or get more than its budget; within it every answer is the driver's own.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"

programs=$build/tests/programs
cd "$work" || exit 99

# plain COMMAND... and under SETTINGS -- COMMAND...: on the stand-in, in at most half a minute
plain()
{
    GB_BUILDDIR=$build "$source_tree/scripts/with-standin" -- timeout 30 "$@"
}
under()
{
    local settings=()
    while [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    shift
    GB_BUILDDIR=$build "$source_tree/scripts/with-standin" -- timeout 30 \
        env LD_PRELOAD="$sanitizer${before-}$preload" "${settings[@]}" "$@"
}

# cases_of NAME STATUS: the lines of $work/out are cases
cases_of()
{
    local line
    while IFS= read -r line; do
        case $line in
        'ok '*) ok "$1-${line#ok }" ;;
        'not ok '*)
            line=${line#not ok }
            not_ok "$1-${line%%: *}" "${line#*: }"
            ;;
        esac
    done < <(sort -u out)
    [ "$2" -eq 0 ] || not_ok "$1" "status $2: $(tail -n 2 err | tr '\n' ' ')"
}

# Odd arguments in every call and every phase.
if plain "$programs/attack_calls" >plain.out 2>err && [ -s plain.out ]; then
    for charge in footprint requested; do
        under GPUBUDGET_LIMIT=8388607TiB GPUBUDGET_CHARGE=$charge -- \
            "$programs/attack_calls" >out 2>err
        status=$?
        if [ $status -ne 0 ]; then
            not_ok "calls-$charge" "status $status: $(tail -n 1 err)"
        elif ! cmp -s plain.out out; then
            not_ok "calls-$charge" "$(diff plain.out out | head -n 4 | tr '\n' ' ')"
        else
            ok "calls-$charge"
        fi
    done
else
    not_ok calls "the program itself fails: $(tail -n 1 err)"
fi

# Odd moments.
for charge in footprint requested; do
    if [ -n "$sanitizer" ]; then
        skip "moments-$charge" "a cancelled thread confuses the address sanitizer"
        continue
    fi
    under GPUBUDGET_LIMIT=2GiB GPUBUDGET_CHARGE=$charge GPUBUDGET_LOG=quiet -- \
        "$programs/attack_moments" >out 2>err
    cases_of "moments-$charge" $?
done

# A thread that ends in the middle of a wait.
under GPUBUDGET_LIMIT=1GiB GPUBUDGET_CHARGE=requested GPUBUDGET_WAIT=10s GPUBUDGET_LOG=quiet \
    GPUSTANDIN_DELAY=cuMemAlloc_v2:200000 -- "$programs/attack_cancel" >out 2>err
cases_of cancel $?

# Two copies of the library: each would keep a budget of its own, of which a program that comes
# by two routes gets both. The same file twice is one copy. Each copy says its line, the same.
two_routes()
{
    under GPUBUDGET_LIMIT=2GiB GPUBUDGET_CHARGE=requested -- "$programs/attack_two_routes" \
        >out 2>err
}
expect()
{
    if ! grep -qx "$2" out; then
        not_ok "$1" "$(tail -n 1 out), on stderr: $(tail -n 1 err)"
    elif [ "$(sort -u err | wc -l)" -ne 1 ] || ! grep -q "$3" err; then
        not_ok "$1" "on stderr: $(cat err)"
    else
        ok "$1"
    fi
}
two_routes
expect one-copy 'direct 15, dlsym 0, then 2' refused
before="$preload "
two_routes
expect one-copy-twice 'direct 15, dlsym 0, then 2' refused
for name in libgpubudget.so other-name.so; do
    mkdir -p copy
    cp "$preload" "copy/$name"
    before="$work/copy/$name "
    two_routes
    expect "two-copies-$name" 'direct 0, dlsym 0, then 201' 'loaded twice.*No GPU memory'
done
unset before

# A full pipe that nobody reads.
under GPUBUDGET_LIMIT=1GiB -- "$programs/attack_stderr" "$programs/attack_two_routes" >out 2>err
status=$?
if [ $status -eq 0 ] && [ -s out ]; then
    ok stderr-full-pipe
else
    not_ok stderr-full-pipe "status $status (124: it hangs)"
fi

# A file that takes no line: the line goes to stderr, as it does where none can be opened.
under GPUBUDGET_LIMIT=1GiB GPUBUDGET_LOG=warn,/dev/full -- "$programs/attack_two_routes" >out 2>err
if grep -q 'gpubudget: .*refused' err; then ok log-full; else not_ok log-full "$(cat err)"; fi

# One unit for all figures of a sentence.
under GPUBUDGET_LIMIT=1023.99MiB -- "$programs/attack_two_routes" >out 2>err
if grep -Eq ' 0\.[0-9]+ of 1\.0 GiB used ' err; then
    ok one-unit
else
    not_ok one-unit "$(cat err)"
fi

# A driver that lacks what a limit needs: denied with one line, not called by NULL.
few=$programs/attack/few/libcuda.so.1
LD_PRELOAD="$sanitizer$preload" GPUBUDGET_LIMIT=1GiB timeout 30 "$programs/attack_few" "$few" \
    >out 2>err
status=$?
if [ $status -ne 0 ]; then
    not_ok few-functions "status $status: $(tail -n 1 out)"
elif [ "$(tr '\n' ' ' <out)" != 'cuInit 0 retain 800 alloc 800 async 800 free 0 free async 0 info 0 stream 0 ' ]; then
    not_ok few-functions "$(tr '\n' ' ' <out)"
elif [ "$(wc -l <err)" -ne 1 ]; then
    not_ok few-functions "on stderr: $(cat err)"
else
    ok few-functions
fi
LD_PRELOAD="$sanitizer$preload" timeout 30 "$programs/attack_few" "$few" >out 2>err
if grep -q 'stream 0' out && grep -q 'alloc 0' out && [ ! -s err ]; then
    ok few-functions-no-limit
else
    not_ok few-functions-no-limit "$(tail -n 1 out) $(cat err)"
fi
finish
