#!/bin/bash
# check-core.sh: programs that use libgpubudget-core, by themselves and under the preload, where
# the process has one budget and the core's memory is charged to it once.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "$0")/cases.sh"

programs=$build/tests/programs
standin=$build/tests/standin/13.0
if [ ! -e "$standin/libcuda.so.1" ]; then
    skip everything "no $standin/libcuda.so.1: run make first"
    finish
fi

# program NAME: what libtool has really made
program()
{
    if [ -x "$programs/.libs/$1" ]; then
        printf '%s\n' "$programs/.libs/$1"
    else
        printf '%s\n' "$programs/$1"
    fi
}

# lines PREFIX STATUS: the program's own lines become cases of this script
lines()
{
    local prefix=$1 status=$2 line name
    while IFS= read -r line; do
        case $line in
        'ok '*) ok "$prefix-${line#ok }" ;;
        'not ok '*)
            name=${line#not ok }
            not_ok "$prefix-${name%%:*}" "${name#*: }"
            ;;
        *) not_ok "$prefix-line" "unexpected: $line" ;;
        esac
    done <"$work/out"
    if [ ! -s "$work/out" ] || { [ "$status" -ne 0 ] && ! grep -q '^not ok' "$work/out"; }; then
        not_ok "$prefix-run" "status $status: $(head -c 400 "$work/err")"
    fi
    if [ -s "$work/err" ] && ! grep -q '^gpubudget: GPU 0' "$work/err"; then
        not_ok "$prefix-quiet" "$(head -c 400 "$work/err")"
    fi
}

# alone PREFIX PROGRAM MODE
alone()
{
    LD_LIBRARY_PATH=$build/.libs:$standin "$(program "$2")" "$3" >"$work/out" 2>"$work/err"
    lines "$1" $?
}

# under PREFIX PROGRAM MODE LIMIT
under()
{
    LD_LIBRARY_PATH=$build/.libs:$standin LD_PRELOAD=$sanitizer$preload \
        GPUBUDGET_LIMIT=$4 GPUBUDGET_CHARGE=$3 "$(program "$2")" "$3" preloaded \
        >"$work/out" 2>"$work/err"
    lines "$1" $?
}

for mode in footprint requested; do
    alone "linked-$mode" core_runtime "$mode"
    alone "static-$mode" core_static "$mode"
done
# In footprint mode the process pays for its context too.
for name in core_runtime core_static core_by_name; do
    under "preloaded-$name-footprint" "$name" footprint 1536MiB
    under "preloaded-$name-requested" "$name" requested 1GiB
done

# Without the preload nothing exports the functions to a program that looks for them.
LD_LIBRARY_PATH=$standin "$(program core_by_name)" footprint >"$work/out" 2>&1
if [ $? -eq 1 ] && grep -q '^not ok find' "$work/out"; then
    ok by-name-needs-the-preload
else
    not_ok by-name-needs-the-preload "$(cat "$work/out")"
fi

# Without a driver the core library says so, alone and under the preload.
if ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
    skip no-driver "this machine has a driver"
else
    LD_LIBRARY_PATH=$build/.libs "$(program core_no_driver)" >"$work/out" 2>"$work/err"
    lines alone $?
    LD_LIBRARY_PATH=$build/.libs LD_PRELOAD=$sanitizer$preload GPUBUDGET_LIMIT=1GiB \
        "$(program core_no_driver)" >"$work/out" 2>"$work/err"
    lines preloaded $?
fi
finish
