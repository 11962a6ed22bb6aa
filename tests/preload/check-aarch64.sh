#!/bin/bash
# check-aarch64.sh: the preload compiled for aarch64 and run there, by qemu's user mode.
#
# What differs between the processors is the assembly of dlsym, the symbol versions, and nothing
# else, so a small program is enough: look-ups keep their caller, ours are answered, and the file
# asks for nothing newer than glibc 2.17.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "$0")/cases.sh"

compiler=aarch64-linux-gnu-gcc
root=/usr/aarch64-linux-gnu
emulator=
for candidate in qemu-aarch64 qemu-aarch64-static; do
    if command -v "$candidate" >/dev/null; then emulator=$candidate; fi
done
if ! command -v "$compiler" >/dev/null; then
    skip aarch64 "no $compiler (package gcc-aarch64-linux-gnu)"
    finish
elif [ -z "$emulator" ]; then
    skip aarch64 "no qemu-aarch64 (package qemu-user)"
    finish
fi

# A make of its own, not a part of one that runs the tests.
ask_make()
{
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s --no-print-directory -C "$build" "$1"
}
sources=$(ask_make gb-print-preload-sources) || exit 99
read -r -a cuda <<<"$(ask_make gb-print-preload-flags)"
flags=(-std=gnu11 -O1 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -pthread
    "-I$build" "-I$source_tree/src" "-I$source_tree/include" "${cuda[@]}" -idirafter /usr/include)

# The list is this processor's: the assembly is exchanged, headers are left out.
cd "$source_tree" || exit 99
objects=()
failed=
for source in $sources src/interpose/dlsym_aarch64.S; do
    case $source in
    *.h | *.def | *x86_64.S) continue ;;
    *dlsym_aarch64.S) [ -e "$work/src_interpose_dlsym_aarch64.S.o" ] && continue ;;
    esac
    object=$work/${source//\//_}.o
    include=(-include src/driver/glibc_compat.h)
    case $source in *.S) include=() ;; esac
    if ! "$compiler" "${flags[@]}" "${include[@]}" -c "$source" -o "$object" 2>"$work/errors"; then
        failed="$source: $(head -3 "$work/errors")"
        break
    fi
    objects+=("$object")
done
if [ -n "$failed" ]; then
    not_ok compiles "$failed"
    finish
fi
ok compiles

library=$work/libgpubudget.so
if ! "$compiler" -shared -pthread "${objects[@]}" -o "$library" -Wl,-z,defs -Wl,-z,now \
    "-Wl,--version-script=$build/src/interpose/libgpubudget.map" -Wl,--no-as-needed \
    -Wl,-l:libdl.so.2 -Wl,-l:libpthread.so.0 2>"$work/errors"; then
    not_ok links "$(head -3 "$work/errors")"
    finish
fi
ok links
newer=$(nm -D --undefined-only "$library" | sed -n 's/^.* \(.*\)@GLIBC_\([0-9.]*\)$/\2 \1/p' |
    awk '$1 != "2.17" { print $2 "@" $1 }')
if [ -z "$newer" ]; then ok newest-glibc; else not_ok newest-glibc "$newer"; fi

# Test programs and their surroundings for that processor. The driver is the one that looks
# itself up, since it stands alone.
programs=$source_tree/tests/programs
here="$work/here"
mkdir "$here"
build_test()
{
    "$compiler" "${flags[@]}" "$@" 2>"$work/errors" || {
        not_ok test-programs "$(head -3 "$work/errors")"
        finish
    }
}
build_test "$programs/route_program.c" -o "$here/route_program" -ldl
build_test "$programs/route_threads.c" -o "$here/route_threads" -ldl
build_test -shared "$programs/route_plugin.c" -o "$here/libroute_plugin.so" -ldl
build_test -shared "$programs/route_driver.c" -Wl,-soname,libcuda.so.1 \
    -o "$here/libcuda.so.1" -ldl

# as_without NAME BEFORE AFTER COMMAND...
as_without()
{
    local name=$1 before=$2 after=$3
    shift 3
    local run=("$emulator" -L "$root" -E "LD_LIBRARY_PATH=$here:$root/lib")
    "${run[@]}" -E "LD_PRELOAD=$before $after" "$@" >"$work/plain" 2>&1
    local status=$?
    if [ $status -ne 0 ]; then
        not_ok "$name" "the plain run fails: $(tail -3 "$work/plain")"
        return
    fi
    "${run[@]}" -E GPUBUDGET_LIMIT=8GiB -E "LD_PRELOAD=$before $library $after" "$@" \
        >"$work/armed" 2>&1
    status=$?
    sed 's/-> hook/-> libcuda.so.1/; s/\(dlv*sym\) -> twin/\1 -> libc.so.6/' "$work/armed" \
        >"$work/armed.seen"
    if [ $status -ne 0 ] || ! cmp -s "$work/plain" "$work/armed.seen"; then
        not_ok "$name" "status $status, $(diff "$work/plain" "$work/armed.seen" | sed -n 2,4p)"
    else
        ok "$name"
    fi
}
as_without no-driver "" "" "$here/route_program" report=program
as_without driver "" "" "$here/route_program" open=libcuda.so.1 start report=program
if grep -q -- '-> hook' "$work/armed"; then ok hooks; else not_ok hooks "none was given"; fi
as_without driver-global "" "" "$here/route_program" global=libcuda.so.1 start report=program
as_without plugin "" "" "$here/route_program" plugin="$here/libroute_plugin.so"
as_without wrapper-before "$here/libroute_plugin.so" "" "$here/route_program" wrapped
as_without wrapper-after "" "$here/libroute_plugin.so" "$here/route_program" wrapped
as_without threads "" "" "$here/route_threads" 4 100 libcuda.so.1
finish
