#!/bin/bash
# check-silence.sh: ordinary programs under the preload, with no driver in sight.
#
# Same output, same exit status, nothing on stderr, whatever the settings are: a process that uses
# no CUDA must not notice the library.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "$0")/cases.sh"

if [ -n "$sanitizer" ]; then
    skip silence "a sanitizer's runtime cannot be put under every program"
    finish
fi
unset LD_LIBRARY_PATH
export LC_ALL=C
cd "$work" || exit 99
mkdir folder
printf 'all:\n\t@echo made; (echo a; echo b) | sort -r\n\t@false || true\n' >folder/Makefile
printf 'one\ntwo\n' >folder/file

# silent NAME COMMAND...: under every kind of setting.
silent()
{
    local name=$1
    shift
    if ! command -v "$1" >/dev/null; then
        skip "$name" "no $1"
        return
    fi
    "$@" >plain.out 2>plain.err </dev/null
    local status=$?
    local setting
    for setting in GPUBUDGET_DISABLE=1 GPUBUDGET_LIMIT=1GiB GPUBUDGET_LIMIT=none \
        GPUBUDGET_LIMIT=banana GPUBUDGET_LIMTI=1GiB GPUBUDGET_LIMIT= GPUBUDGET_REQUIRE=1 NOTHING=1; do
        env "$setting" LD_PRELOAD="$preload" "$@" >out 2>err </dev/null
        local got=$?
        if [ "$got" -ne "$status" ]; then
            not_ok "$name" "with $setting: exit status $got, not $status"
        elif ! cmp -s out plain.out; then
            not_ok "$name" "with $setting: other output: $(diff plain.out out | head -3)"
        elif ! cmp -s err plain.err; then
            not_ok "$name" "with $setting: on stderr: $(head -3 err)"
        else
            continue
        fi
        return
    done
    ok "$name"
}

silent true true
silent false false
silent ls ls -la /etc
silent bash bash -c 'set | grep -c . >/dev/null; ls / | wc -l; (echo a; echo b) | sort -r; exit 3'
silent bash-forks bash -c 'for i in 1 2 3 4 5; do (ls / | cat | wc -l) & done; wait; exec true'
# shellcheck disable=SC2016 # the inner shell expands it
silent sh sh -c 'echo $((1 + 1)); exit 4'
silent python python3 -c 'import ctypes, subprocess, sys
print(ctypes.CDLL(None).getpid() > 0)
print(subprocess.run(["sh", "-c", "exit 5"]).returncode)
sys.exit(6)'
silent python-missing-symbol python3 -c 'import ctypes
try:
    ctypes.CDLL(None).cuMemAlloc_v2
    print("found")
except AttributeError:
    print("missing")
try:
    ctypes.CDLL("libcuda.so.no")
except OSError as error:
    print(error)'
silent python-threads python3 -c 'import subprocess, threading
threads = [threading.Thread(target=subprocess.run, args=(["true"],)) for i in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]'
silent git git --version
silent git-init bash -c 'rm -rf g; git init -q g && git -C g status --porcelain && echo fine'
silent perl perl -e 'use POSIX; print "perl ", POSIX::floor(2.5), "\n"; exit 7'
silent make make -s -C folder
silent make-jobs make -s -j2 -C folder
silent awk awk 'BEGIN { "echo x" | getline y; print y; exit 8 }'
silent tar bash -c 'tar cf - folder | tar tf - | sort'
silent find find folder -type f -exec cat {} +
silent env env -i PATH=/usr/bin:/bin sh -c 'echo clean'
silent stdbuf stdbuf -oL echo line
silent ssh ssh -V
silent sudo sudo -n true
silent busybox busybox true
silent nvidia-smi nvidia-smi --version

# A program that stirs up its environment and its arguments.
program=$build/tests/programs/route_environ
if [ -x "$program" ]; then
    silent environment "$program"
else
    skip environment "no $program: make check builds it"
fi

# A driver, but no GPU: what is wrong with the settings is nobody's business there either.
silent no-gpu env GPUSTANDIN_DEVICES=0 LD_LIBRARY_PATH="$build/tests/standin/13.0" \
    "$build/tests/programs/take"

# No file, no device, no library of NVIDIA's is touched before the program does so.
if command -v strace >/dev/null; then
    env GPUBUDGET_LIMIT=1GiB LD_PRELOAD="$preload" strace -f -o trace -e trace=file,write true \
        2>/dev/null
    if [ ! -s trace ]; then
        skip strace "it cannot trace here"
    elif grep -Eq 'nvidia|libcuda|write\(' trace; then
        not_ok strace "$(grep -E 'nvidia|libcuda|write\(' trace | head -2)"
    else
        ok strace
    fi
else
    skip strace "no strace"
fi

if command -v valgrind >/dev/null; then
    for command in /bin/true "$program"; do
        name=valgrind-$(basename "$command")
        if env GPUBUDGET_LIMIT=1GiB LD_PRELOAD="$preload" valgrind -q --error-exitcode=9 \
            --leak-check=no "$command" 2>valgrind.out >/dev/null && [ ! -s valgrind.out ]; then
            ok "$name"
        else
            not_ok "$name" "$(head -5 valgrind.out)"
        fi
    done
else
    skip valgrind "no valgrind"
fi
finish
