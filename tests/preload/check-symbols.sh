#!/bin/bash
# check-symbols.sh: what the preload needs and what it offers, read from the file itself.
#
# A preloaded library that needs too much keeps every program of a machine from starting; one that
# offers too much takes over what is not its business.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "$0")/cases.sh"

if [ -n "$sanitizer" ]; then
    skip symbols "this tree is built with a sanitizer, which adds symbols of its own"
    finish
fi
for tool in readelf nm objdump; do
    if ! command -v "$tool" >/dev/null; then
        skip symbols "no $tool (package binutils)"
        finish
    fi
done

# same NAME EXPECTED GOT
same()
{
    if [ "$2" = "$3" ]; then
        ok "$1"
    else
        not_ok "$1" "expected and found differ:
$(diff <(printf '%s\n' "$2") <(printf '%s\n' "$3"))"
    fi
}

# none NAME FOUND
none()
{
    if [ -z "$2" ]; then ok "$1"; else not_ok "$1" "$(printf '%s' "$2" | tr '\n' ' ')"; fi
}

needed=$(readelf -dW "$preload" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort)
same needed "$(printf '%s\n' libc.so.6 libdl.so.2 libpthread.so.0)" "$needed"

undefined=$(nm -D --undefined-only "$preload" | sed 's/^.* //')
none undefined-driver-names "$(printf '%s\n' "$undefined" | grep -E '^(cu|nvml)')"
none private-glibc "$(printf '%s\n' "$undefined" | grep GLIBC_PRIVATE)"

# 2.17 is the oldest glibc that is promised, and the first that aarch64 has.
newer=$(printf '%s\n' "$undefined" | sed -n 's/^\(.*\)@GLIBC_\([0-9.]*\)$/\2 \1/p' |
    awk '{ split($1, v, "."); if (v[1] > 2 || v[2] > 17) print $2 "@" $1 }')
none newest-glibc "$newer"

# Versions may also be asked for by their file alone.
other=$(objdump -p "$preload" | awk '/required from/ { print $3 }' | grep -v '^libc\.so\.6:$')
none versions-of-other-libraries "$other"

# What a guest never does.
forbidden='^(exit|_exit|_Exit|quick_exit|abort|__assert_fail|raise|kill|signal|sigaction|setenv'
forbidden+='|putenv|unsetenv|clearenv|umask|chdir|fchdir|puts|putchar|printf|__printf_chk|fprintf'
forbidden+='|__fprintf_chk|vprintf|snprintf|__snprintf_chk|vsnprintf|stdout|stderr|fopen|dup2'
forbidden+='|system|popen|fork|vfork|execve|atexit|__cxa_atexit'
forbidden+='|strtol|strtoul|strtoll|strtoull|__isoc99_sscanf|sscanf|dlsym|dlvsym)(@|$)'
none forbidden-functions "$(printf '%s\n' "$undefined" | grep -E "$forbidden")"

exported=$(nm -D --defined-only "$preload" | awk '{ print $3 }' | grep -v '^gpubudget_' | LC_ALL=C sort)
expected=$({
    printf '%s\n' dlsym dlvsym nvmlDeviceGetMemoryInfo nvmlDeviceGetMemoryInfo_v2
    sed -n 's/^GB_ENTRY[_A-Z]*(\([A-Za-z0-9_]*\),.*/\1/p' "$source_tree/src/interpose/entries.def"
} | LC_ALL=C sort)
same exported "$expected" "$exported"
if nm -D --defined-only "$preload" | grep -q ' T gpubudget_version$'; then
    ok exports-version
else
    not_ok exports-version "no gpubudget_version"
fi
none exported-with-a-version "$(nm -D --defined-only "$preload" | grep '@')"

# A twin that is found is one load and an indirect jump; what stands on the stack is handed on,
# and arguments of less than 32 bits are widened.
case $(uname -m)$(sed -n 's/^CFLAGS = //p' "$build/Makefile") in
x86_64*-O[123s]*)
    longer=$(objdump -d --no-show-raw-insn "$preload" | awk '
        /^[0-9a-f]+ <cu[A-Za-z0-9_]*>:/ { name = $2; count = loads = jumps = others = 0; next }
        /^$/ { name = "" }
        name == "" || $2 == "endbr64" || $2 ~ /^(nop|xchg|cs|data16)/ { next }
        jumps { next }
        $2 == "jmp" && $3 ~ /^\*/ {
            jumps = 1
            loads += $3 ~ /rip/
            seen++
            if (loads != 1 || others) print name
            next
        }
        /rip/ { loads++; next }
        /rsp/ || $2 == "push" || $2 == "pop" || $2 ~ /^movz/ { next }
        { others++; if ($2 == "call" || $2 == "ret") print name }
        END { if (seen < 100) print "only " seen " were seen" }')
    none twins-are-a-load-and-a-jump "$longer"
    ;;
*) skip twins-are-a-load-and-a-jump "another processor, or no optimisation" ;;
esac

dynamic=$(readelf -dW "$preload")
segments=$(readelf -lW "$preload")
case $dynamic in *NODELETE*) ok nodelete ;; *) not_ok nodelete "flag missing" ;; esac
case $dynamic in *BIND_NOW*) ok bind-now ;; *) not_ok bind-now "flag missing" ;; esac
case $dynamic in *TEXTREL*) not_ok no-textrel "it has text relocations" ;; *) ok no-textrel ;; esac
case $dynamic in
*RUNPATH* | *RPATH*) not_ok no-rpath "it has a search path" ;;
*) ok no-rpath ;;
esac
case $segments in *GNU_RELRO*) ok relro ;; *) not_ok relro "no such segment" ;; esac
stack=$(printf '%s\n' "$segments" | awk '$1 == "GNU_STACK" { print $7 }')
same stack RW "$stack"
# Thread-local variables in a preload cost every thread of every process, and may not fit.
none no-thread-local "$(printf '%s\n' "$segments" | grep '^ *TLS')"

core=$build/.libs/libgpubudget-core.so
none core-exports "$(nm -D --defined-only "$core" | awk '{ print $3 }' | grep -v '^gpubudget_')"
none core-undefined "$(nm -D --undefined-only "$core" | sed 's/^.* //' | grep -E '^(cu|nvml)')"
same core-soname libgpubudget-core.so.0 \
    "$(readelf -dW "$core" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')"

# In the files of an old system, where there are some: GB_OLD_ROOT is a folder with its C library
# and coreutils, unpacked. Its own loader runs its own programs there, without a chroot.
root=${GB_OLD_ROOT:-}
loader=${root%/}/lib64/ld-linux-x86-64.so.2
if [ -z "$root" ]; then
    skip old-glibc "GB_OLD_ROOT names no root of an old system"
elif [ ! -e "$loader" ]; then
    not_ok old-glibc "no $loader"
else
    path=
    for folder in lib/x86_64-linux-gnu usr/lib/x86_64-linux-gnu lib64 usr/lib64; do
        path+=${path:+:}${root%/}/$folder
    done
    run_old()
    {
        env LD_PRELOAD="$1" GPUBUDGET_LIMIT=1GiB "$loader" --library-path "$path" \
            "${root%/}/bin/cat" /proc/self/maps >"$work/maps" 2>"$work/err"
    }
    if ! run_old '' || grep -q libgpubudget "$work/maps"; then
        not_ok old-glibc "it does not run even without us: $(head -n 1 "$work/err")"
    elif ! run_old "$preload" || [ -s "$work/err" ]; then
        not_ok old-glibc "$(head -n 2 "$work/err" | tr '\n' ' ')"
    elif ! grep -q libgpubudget "$work/maps"; then
        not_ok old-glibc "the library is not loaded"
    else
        ok old-glibc
    fi
fi
finish
