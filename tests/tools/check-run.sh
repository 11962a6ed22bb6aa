#!/bin/bash
# gpubudget-run: options, checks, exit codes, what it prints and what it hands on. A tiny library
# stands for the real one, so that only the launcher is tested here.
set -u
failed=0
temp=$(mktemp -d) || exit 1
temp=$(cd "$temp" && pwd -P) || exit 1
trap 'rm -rf "$temp"' EXIT
built=$PWD/gpubudget-run
CC=${CC:-cc}
for name in $(compgen -v GPUBUDGET_); do unset "$name"; done
unset LD_PRELOAD SLURM_JOB_ID PBS_JOBID LSB_JOBID LSB_JOBINDEX

ok() { echo "ok $1"; }
not_ok()
{
    echo "not ok $1: $2"
    failed=1
}
skip() { echo "skip $1: $2"; }

# Runs a command: its status in $status, its output in the files out and err.
try()
{
    "$@" >"$temp/out" 2>"$temp/err"
    status=$?
}

# expect NAME STATUS [FILE PATTERN]...: what the last try must have given. "!" before a pattern:
# it must not be there.
expect()
{
    local name=$1 wanted=$2 file pattern
    shift 2
    if [ "$status" != "$wanted" ]; then
        not_ok "$name" "status $status, not $wanted: $(head -n 2 "$temp/err" | tr '\n' ' ')"
        return
    fi
    while [ $# -gt 0 ]; do
        file=$1 pattern=$2
        shift 2
        if [ "${pattern#!}" != "$pattern" ]; then
            if grep -qe "${pattern#!}" "$temp/$file"; then
                not_ok "$name" "$file has \"${pattern#!}\""
                return
            fi
        elif ! grep -qe "$pattern" "$temp/$file"; then
            not_ok "$name" "$file lacks \"$pattern\": $(head -n 3 "$temp/$file" | tr '\n' ' ')"
            return
        fi
    done
    ok "$name"
}

# same NAME FILE: the last output is that of standard input, with T for the temporary folder and N
# for the numbers of a job.
same()
{
    sed "s|$temp|T|g; s/run-[0-9][0-9]*-[0-9][0-9]*/run-N/g" "$temp/$2" >"$temp/actual"
    if diff -u - "$temp/actual" >"$temp/diff"; then
        ok "$1"
    else
        cat "$temp/diff"
        not_ok "$1" "not as expected"
    fi
}

# patch FILE OFFSET OCTAL: one byte.
patch()
{
    # shellcheck disable=SC2059
    printf "\\$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

compile() { $CC -x c - "$@" 2>"$temp/cc"; }

mkdir "$temp/lib" "$temp/bin" "$temp/a b" "$temp/a:b" || exit 1
lib=$temp/lib/libgpubudget.so
echo 'const char *gpubudget_version(void) { return "0.0-test"; }' |
    compile -shared -fPIC -o "$lib" || { cat "$temp/cc"; exit 1; }
echo 'int other_thing;' | compile -shared -fPIC -o "$temp/lib/libother.so" || exit 1
echo 'int main(void) { return 0; }' | compile -o "$temp/bin/dynamic" || exit 1
export GPUBUDGET_LIB=$lib
run=$built
# In a sanitizer build the launcher itself has such a runtime, which other preloads must not upset.
sanitized=$(ldd "$built" | sed -n 's/^[[:space:]]*\(lib[a-z]*san[^ ]*\) .*/\1/p')
[ -n "$sanitized" ] && export ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-}

# --- options
try "$run" --help
expect help 0 out '^Usage: gpubudget-run' out '--strict' err '!.'
try "$run" --version
expect version 0 out '^gpubudget-run (gpubudget) [0-9]' err '!.'
try "$run" -h
expect help-short 0 out '^Usage: gpubudget-run' err '!.'
try "$run" -V
expect version-short 0 out '^gpubudget-run (gpubudget) [0-9]' err '!.'
try "$run"
expect no-command 125 err 'a command is missing' out '!.'
try "$run" -l 1GiB
expect no-command-with-limit 125 err 'a command is missing'
try "$run" -l 1GiB --
expect no-command-after-dashes 125 err 'a command is missing'
try "$run" --bad true
expect unknown-option 125 err "Try 'gpubudget-run --help'"
try "$run" -l
expect option-without-argument 125 err "Try 'gpubudget-run --help'"
try "$run" -l 1GiB -v -q true
expect verbose-and-quiet 125 err 'exclude each other'
try "$run" -l 1GiB --strict --force true
expect strict-and-force 125 err 'exclude each other'
try "$run" -l 1GiB --check --print
expect check-and-print 125 err 'exclude each other'
try "$run" -l 1GiB --print=xml
expect print-form 125 err '"xml" is not sh or json'
try "$run" -l 1GiB --charge=all true
expect charge-mode 125 err '"all" is not footprint or requested'
for case in --help --version -h -V "-l 1GiB --print" "-l 1GiB --check"; do
    # shellcheck disable=SC2086
    "$run" $case >/dev/full 2>"$temp/err"
    status=$?
    expect "full-disk${case// /_}" 125 err 'cannot write'
done

# --- limits
bad_limits=("" " " "0" "0%" "101%" "4096" "1.5" "4 GiB" "4X" "4GiB," "0:1G" "0=1G,0=2G" "-1" "max"
    "99999999999999999999" "GPU-xyz=1G" "0="
    $'\xe2\x80\x9c4GiB\xe2\x80\x9d' $'\xe2\x80\x984GiB\xe2\x80\x99')
for limit in "${bad_limits[@]}"; do
    rm -f "$temp/ran"
    try "$run" -l "$limit" touch "$temp/ran"
    [ -e "$temp/ran" ] && status=ran
    expect "bad-limit($limit)" 125 err '^gpubudget-run: --limit: ' out '!.'
    try env GPUBUDGET_LIMIT="$limit" "$run" touch "$temp/ran"
    [ -e "$temp/ran" ] && status=ran
    expect "bad-variable($limit)" 125 err '^gpubudget-run: GPUBUDGET_LIMIT: ' out '!.'
done
try "$run" -l 4096 true
expect did-you-mean 125 err 'did you mean 4096MiB?'
try "$run" -l 4 true
expect did-you-mean-gib 125 err 'did you mean 4GiB?'
try "$run" -l 4,5GiB true
expect decimal-comma 125 err 'write 4.5GiB$'
try "$run" -l .5GiB true
expect no-digit-before-point 125 err 'write 0.5GiB$'
try "$run" -l 1GiB -l 2GiB true
expect two-defaults 125 err 'all other devices already'
try "$run" -l 0=1GiB -l 1=1GiB,00=2GiB true
expect duplicate-over-options 125 err '"00=2GiB": this device has an entry already'
try "$run" true
expect no-limit 125 err 'no limit: .*-l none'
try env GPUBUDGET_LIMIT=1GiB "$run" true
expect limit-from-variable 0 err '!.'
try env GPUBUDGET_LIMIT=bad "$run" -l 1GiB true
expect option-replaces-bad-variable 0 err '!.'
try "$run" -l none true
expect none 0 err '!.'
for setting in CHARGE=x LOG=loud WAIT=5 RESERVE=100% REQUIRE= DISABLE=yes JOB=a/b STATE_DIR=x; do
    try env "GPUBUDGET_$setting" "$run" -l 1GiB true
    expect "bad-setting($setting)" 125 err "GPUBUDGET_${setting%%=*}: "
done
try env GPUBUDGET_ON_ERROR=allow GPUBUDGET_LIMIT=bad "$run" true
expect allow-is-for-the-library 125 err '"bad" is not a size'
try env GPUBUDGET_LIMTI=1GiB "$run" true
expect misspelt-name 125 err 'GPUBUDGET_LIMTI is no setting'
try env "GPUBUDGET_REPORT=$(head -c 20000 /dev/zero | tr '\0' x)" "$run" -l 1GiB true
expect too-long-environment 125 err 'too long or too many'

# What the library would only warn about is said at once.
try env GPUBUDGET_LIMTI=1 GPUBUDGET_REPORT=x "$run" -l 1GiB true
expect warnings 0 out '!.' \
    err '^gpubudget-run: warning: GPUBUDGET_LIMTI is no setting of gpubudget; see gpubudget(7)$' \
    err '^gpubudget-run: warning: GPUBUDGET_REPORT has no effect in this version$'
[ "$(wc -l <"$temp/err")" -eq 2 ] || not_ok warnings-lines "$(cat "$temp/err")"
try env GPUBUDGET_LIMTI=1 "$run" -q -l 1GiB true
expect warnings-quiet 0 err '!.'
try env GPUBUDGET_LIMTI=1 GPUBUDGET_LOG=info "$run" -q -l 1GiB true
expect warnings-quiet-beside-level 0 err '!.'
try env GPUBUDGET_LIMTI=1 GPUBUDGET_LOG=error "$run" -l 1GiB true
expect warnings-below-level 0 err '!.'
for limit in 4MiB 127.9MiB; do
    try "$run" -l "1=1GiB,0=$limit" true
    expect "tiny($limit)" 0 out '!.' err "^gpubudget-run: warning: limit 0=$limit is less than 128MiB: "
    [ "$(wc -l <"$temp/err")" -eq 1 ] || not_ok "tiny($limit)-lines" "$(cat "$temp/err")"
done
try "$run" -q -l 4MiB true
expect tiny-quiet 0 err '!.'
try "$run" -l 128MiB true
expect not-tiny 0 err '!.'
try "$run" -l 4MiB --charge=requested true
expect tiny-requested 0 err '!.'
try "$run" -l 4MiB --check
expect tiny-check 0 out '^limit 4MiB is less than 128MiB: a context' out '^in force$' err '!.'

# --- what the command gets
try "$run" -l 0=2GiB --limit ' 1=50% ' -l '*=none' env
grep -E '^(GPUBUDGET_|LD_PRELOAD)' "$temp/out" | sort >"$temp/env"
same environment env <<'END'
GPUBUDGET_JOB=run-N
GPUBUDGET_LIB=T/lib/libgpubudget.so
GPUBUDGET_LIMIT=0=2GiB, 1=50% ,*=none
GPUBUDGET_LIMIT_SOURCE=--limit
LD_PRELOAD=T/lib/libgpubudget.so
END
try env GPUBUDGET_LIMIT=1GiB "$run" env
expect variable-is-left 0 out '^GPUBUDGET_LIMIT=1GiB$' out '!LIMIT_SOURCE' out '!GPUBUDGET_LOG'
try "$run" -l 1GiB --charge=requested -q env
expect charge-and-quiet 0 out '^GPUBUDGET_CHARGE=requested$' out '^GPUBUDGET_LOG=error$' err '!.'
try "$run" -v -l 0=40GB -l 50% env
expect verbose 0 out '^GPUBUDGET_LOG=info$' \
    err '^gpubudget-run: limit 0=40GB = 37.25 GiB, from --limit$' \
    err "^gpubudget-run: limit 50% of the device's memory, from --limit\$" \
    err '^gpubudget-run: reserve of the limit: 1/64 of it, at most 256MiB; where' \
    err "^gpubudget-run: library $lib, version 0.0-test\$"
try "$run" -v -l none true
expect verbose-none 0 err '^gpubudget-run: limit none: no limit, from --limit$' err '!reserve'
try env GPUBUDGET_RESERVE=5% "$run" -v -l 0=none true
expect verbose-none-of-one 0 err '^gpubudget-run: limit 0=none: no limit' err '!reserve'
try env GPUBUDGET_LOG=debug "$run" -v -l 1GiB env
expect log-is-left 0 out '^GPUBUDGET_LOG=debug$'
try env GPUBUDGET_LIMIT=40GB "$run" -v true
expect source-variable 0 err '40GB = 37.25 GiB, from GPUBUDGET_LIMIT$'
try "$run" -l 1GiB -- echo -l 5 --help
expect arguments-are-the-commands 0 out '^-l 5 --help$'
try "$run" -l 1GiB echo -l 5 --help
expect first-operand-ends-options 0 out '^-l 5 --help$'
try sh -c 'echo $$; exec "$@"' sh "$run" -l 1GiB sh -c 'echo $$'
[ "$(sort -u "$temp/out" | wc -l)" -eq 1 ] || status=other
expect same-process 0
try "$run" -l 1GiB cat /proc/self/maps
expect really-loaded 0 out "$lib"

# --- exit status
try "$run" -l 1GiB sh -c 'exit 3'
expect status-of-command 3
# shellcheck disable=SC2016
try sh -c '"$0" -l 1GiB sh -c "kill -9 \$\$"; exit $?' "$run"
expect signal-of-command 137
try "$run" -l 1GiB /nonexistent/command
expect not-found 127 err 'cannot run "/nonexistent/command": No such file'
try "$run" -l 1GiB no-such-command-anywhere
expect not-found-in-path 127 err 'No such file'
try "$run" -l 1GiB ''
expect empty-name 127 err '^gpubudget-run: cannot run "": No such file'
echo text >"$temp/bin/plain"
try "$run" -l 1GiB "$temp/bin/plain"
expect not-executable 126 err 'Permission denied'
try env PATH="$temp/bin:$PATH" "$run" -l 1GiB plain
expect not-executable-in-path 126
try "$run" -l 1GiB "$temp/bin"
expect folder-is-no-command 126
try env PATH="$temp/bin" "$run" -l 1GiB dynamic
expect found-in-path 0 err '!.'

# --- the library
mkdir "$temp/x"
bad_library()
{
    rm -f "$temp/ran"
    try env GPUBUDGET_LIB="$2" "$run" -l 1GiB touch "$temp/ran"
    [ -e "$temp/ran" ] && status=ran
    expect "library-$1" 125 err "^gpubudget-run: cannot .*$3"
    try env GPUBUDGET_LIB="$2" "$run" -l 1GiB --check
    expect "library-$1-check" 1 err "^gpubudget-run: cannot .*$3" out '!.'
}
bad_library missing "$temp/x/none.so" 'No such file'
: >"$temp/x/empty.so"
bad_library empty "$temp/x/empty.so" 'no shared library'
echo text >"$temp/x/text.so"
bad_library text "$temp/x/text.so" 'no shared library'
bad_library folder "$temp/x" 'no shared library'
bad_library program "$temp/bin/dynamic" '\(not libgpubudget\|cannot dynamically load\|no shared\)'
for bytes in 5 30 100 2000; do
    head -c $bytes "$lib" >"$temp/x/cut.so"
    bad_library "cut-to-$bytes" "$temp/x/cut.so" 'damaged or cut short'
done
cp "$lib" "$temp/x/class.so" && patch "$temp/x/class.so" 4 001
bad_library 32-bit "$temp/x/class.so" 'another kind of machine'
cp "$lib" "$temp/x/machine.so" && patch "$temp/x/machine.so" 18 050
bad_library machine "$temp/x/machine.so" 'another kind of machine'
bad_library other "$temp/lib/libother.so" 'not libgpubudget'
cp "$lib" "$temp/a b/" && cp "$lib" "$temp/a:b/"
bad_library blank-in-path "$temp/a b/libgpubudget.so" 'blank'
bad_library colon-in-path "$temp/a:b/libgpubudget.so" 'blank, ":"'
try env GPUBUDGET_LIB= "$run" -l 1GiB true
expect library-variable-empty 125 err 'GPUBUDGET_LIB: is set but empty'
(cd "$temp/lib" && GPUBUDGET_LIB=libgpubudget.so "$run" -l 1GiB env) >"$temp/out" 2>"$temp/err"
status=$?
expect library-made-absolute 0 out "^LD_PRELOAD=$lib\$"
mkdir -p "$temp/tree/.libs"
cp "$built" "$temp/tree/gpubudget-run" && cp "$built" "$temp/tree/.libs/gpubudget-run"
cp "$lib" "$temp/tree/.libs/libgpubudget.so"
try env -u GPUBUDGET_LIB "$temp/tree/gpubudget-run" -l 1GiB env
expect uninstalled 0 out "^LD_PRELOAD=$temp/tree/.libs/libgpubudget.so\$"
try env -u GPUBUDGET_LIB "$temp/tree/.libs/gpubudget-run" -l 1GiB env
expect uninstalled-inner 0 out "^LD_PRELOAD=$temp/tree/.libs/libgpubudget.so\$"
try env "$temp/tree/gpubudget-run" -l 1GiB env
expect variable-before-tree 0 out "^LD_PRELOAD=$lib\$"
if [ -e .libs/libgpubudget.so ]; then
    try env -u GPUBUDGET_LIB "$built" -l 1GiB --check
    expect real-library 0 out '^in force$' err '!.'
    try env -u GPUBUDGET_LIB "$built" -l 1GiB --strict true
    expect real-library-strict 0 out '!.' err '!.'
else
    skip real-library 'libgpubudget.so is not built'
fi

# --- LD_PRELOAD
foo=$temp/lib/libfoo.so
bar=$temp/lib/libbar.so
cp "$temp/lib/libother.so" "$foo" && cp "$foo" "$bar"
preload()
{
    try env LD_PRELOAD="$2" "$run" -l 1GiB env
    expect "preload-$1" 0 out "^LD_PRELOAD=$3\$" err '!.'
}
preload empty '' "$lib"
preload one "$foo" "$lib:$foo"
preload colon "$foo:$bar" "$lib:$foo:$bar"
preload blank "$foo $bar" "$lib:$foo:$bar"
preload many-separators " :$foo: $bar::" "$lib:$foo:$bar"
preload once "$foo:$lib:$bar:$lib" "$lib:$foo:$bar"
preload other-copy "$temp/tree/.libs/libgpubudget.so:$foo" "$lib:$foo"
if [ -z "$sanitized" ]; then
    try "$run" -l 1GiB "$run" -l 2GiB env
    expect preload-nested 0 out "^LD_PRELOAD=$lib\$" out '^GPUBUDGET_LIMIT=2GiB$'
else
    skip preload-nested 'a sanitizer build'
fi
if command -v stdbuf >/dev/null; then
    try env LD_PRELOAD="$foo" "$run" -l 1GiB -- stdbuf -oL cat /proc/self/maps
    expect stdbuf 0 out "$lib" out "$foo" out 'libstdbuf.so'
    try env LD_PRELOAD="$foo" stdbuf -oL "$run" -l 1GiB cat /proc/self/maps
    expect under-stdbuf 0 out "$lib" out "$foo" out 'libstdbuf.so'
else
    skip stdbuf 'stdbuf is not installed'
fi

# --- sanitizer runtimes
# runtime_of FILE: the sanitizer's runtime it needs, empty for none.
runtime_of() { ldd "$1" | sed -n 's/^[[:space:]]*\(lib[^ ]*[at]san[^ ]*\) .*/\1/p' | head -n 1; }
for kind in address thread; do
    program=$temp/bin/$kind
    if [ -n "$sanitized" ]; then
        skip "sanitizer-$kind" 'a sanitizer build'
        continue
    fi
    for option in -shared-libasan -g; do # clang takes the first and needs it; gcc refuses it
        echo 'int main(void) { return 0; }' |
            compile $option -fsanitize=$kind -o "$program" && break
    done
    runtime=
    [ -e "$program" ] && runtime=$(runtime_of "$program")
    if [ -z "$runtime" ]; then
        skip "sanitizer-$kind" 'the compiler has no shared sanitizer runtime'
        continue
    fi
    try "$run" -l 1GiB "$program"
    expect "sanitizer-$kind-runs" 0 err '!.'
    if [ -e .libs/libgpubudget.so ]; then
        try env -u GPUBUDGET_LIB "$run" -l 1GiB "$program"
        expect "sanitizer-$kind-runs-with-real-library" 0 err '!.'
    fi
    try "$run" -l 1GiB --print "$program"
    expect "sanitizer-$kind-first" 0 out "^export LD_PRELOAD='$runtime:$lib'\$"
    where=$(ldd "$program" | sed -n "s/^.*$runtime => \([^ ]*\) .*/\1/p")
    try env LD_PRELOAD="$where:$foo" "$run" -l 1GiB --print "$program"
    expect "sanitizer-$kind-path-kept" 0 out "^export LD_PRELOAD='$where:$lib:$foo'\$"
    try env LD_PRELOAD="$where:$foo" "$run" -l 1GiB --print true
    expect "sanitizer-$kind-of-others-behind" 0 out "^export LD_PRELOAD='$lib:$where:$foo'\$"
done

# --- targets that the library does not reach
target_doubtful()
{
    try "$run" -l 1GiB "$2"
    expect "$1-warns" 0 err "^gpubudget-run: warning: .*$3"
    try "$run" -q -l 1GiB "$2"
    expect "$1-quiet" 0 err '!.'
    try "$run" --strict -l 1GiB "$2"
    expect "$1-strict" 125 err "$3"
    try "$run" --check -l 1GiB "$2"
    expect "$1-check" 1 err "$3"
}
target_hopeless()
{
    try "$run" -l 1GiB "$2"
    expect "$1-refused" 125 err "$3.*--force runs it"
    try "$run" --strict -l 1GiB "$2"
    expect "$1-strict" 125 err "$3"
    try "$run" --check -l 1GiB "$2"
    expect "$1-check" 1 err "$3"
}
if echo 'int main(void) { return 0; }' | compile -static -o "$temp/bin/static"; then
    target_doubtful static "$temp/bin/static" 'statically linked'
    printf '#!%s\n' "$temp/bin/static" >"$temp/bin/static-script"
    chmod +x "$temp/bin/static-script"
    target_doubtful static-interpreter "$temp/bin/static-script" 'statically linked'
else
    skip static 'the compiler cannot link static programs'
fi
for bit in u g; do
    cp "$temp/bin/dynamic" "$temp/bin/set-$bit"
    if chmod "$bit+s" "$temp/bin/set-$bit" &&
        [ "$(stat -c %a "$temp/bin/set-$bit")" -ge 2000 ]; then
        target_hopeless "set-$bit-id" "$temp/bin/set-$bit" 'is set-'
        try "$run" --force -l 1GiB "$temp/bin/set-$bit"
        expect "set-$bit-id-forced" 0 err 'warning: .* is set-'
        printf '#! %s -x\n' "$temp/bin/set-$bit" >"$temp/bin/set-$bit-script"
        chmod +x "$temp/bin/set-$bit-script"
        target_hopeless "set-$bit-id-interpreter" "$temp/bin/set-$bit-script" 'is set-'
    else
        skip "set-$bit-id" 'the bit cannot be set here'
    fi
done
cp "$temp/bin/dynamic" "$temp/bin/capable"
if command -v setcap >/dev/null && setcap cap_net_raw+ep "$temp/bin/capable" 2>/dev/null; then
    target_hopeless capabilities "$temp/bin/capable" 'has file capabilities'
else
    skip capabilities 'setcap is not installed or not allowed'
fi
cp "$temp/bin/dynamic" "$temp/bin/32-bit" && patch "$temp/bin/32-bit" 4 001
target_hopeless 32-bit "$temp/bin/32-bit" 'another kind of machine'
cp "$temp/bin/dynamic" "$temp/bin/machine" && patch "$temp/bin/machine" 18 050
target_hopeless machine "$temp/bin/machine" 'another kind of machine'
try "$run" --force -l 1GiB "$temp/bin/machine"
[ "$status" -ne 125 ] && status=started # what comes of it is the system's business
expect machine-forced started err 'warning: '

# --- scripts
printf '#!/bin/sh\nexit 5\n' >"$temp/bin/script"
printf 'exit 6\n' >"$temp/bin/bare"
printf '#!%s\n' "$temp/bin/script" >"$temp/bin/script-of-script"
printf '#!/usr/bin/env sh\nexit 7\n' >"$temp/bin/env-script"
printf '#!/nonexistent/interpreter\n' >"$temp/bin/lost"
printf '#!%s\n' "$temp/bin/loop" >"$temp/bin/loop"
chmod +x "$temp/bin/script" "$temp/bin/bare" "$temp/bin/script-of-script" \
    "$temp/bin/env-script" "$temp/bin/lost" "$temp/bin/loop"
try "$run" --strict -l 1GiB "$temp/bin/script"
expect script 5 err '!.'
try "$run" --strict -l 1GiB "$temp/bin/bare"
expect script-without-interpreter 6 err '!.'
try "$run" --strict -l 1GiB "$temp/bin/script-of-script"
expect script-of-script 5 err '!.'
try "$run" --strict -l 1GiB "$temp/bin/env-script"
expect script-of-env 7 err '!.'
try "$run" -l 1GiB "$temp/bin/lost"
expect script-without-its-interpreter 127
try "$run" -l 1GiB "$temp/bin/loop"
expect script-of-itself 126

# --- --print
try "$run" -l 0=2GiB -l '*=12.5%' --charge=requested --print
same print-sh out <<'END'
export GPUBUDGET_LIMIT='0=2GiB,*=12.5%'
export GPUBUDGET_CHARGE='requested'
export GPUBUDGET_LIMIT_SOURCE='--limit'
export GPUBUDGET_LIB='T/lib/libgpubudget.so'
export GPUBUDGET_JOB='run-N'
export LD_PRELOAD='T/lib/libgpubudget.so'
END
try env GPUBUDGET_REPORT="it's" LD_PRELOAD="$foo" "$run" -v -l none --print=sh touch "$temp/ran2"
[ -e "$temp/ran2" ] && not_ok print-runs-nothing "the command ran"
same print-sh-quoting out <<'END'
export GPUBUDGET_LIMIT='none'
export GPUBUDGET_LOG='info'
export GPUBUDGET_LIMIT_SOURCE='--limit'
export GPUBUDGET_LIB='T/lib/libgpubudget.so'
export GPUBUDGET_REPORT='it'\''s'
export LD_PRELOAD='T/lib/libgpubudget.so:T/lib/libfoo.so'
END
# shellcheck disable=SC2016
try sh -c 'eval "$("$0" -l 3GiB --print)"; env' "$run"
expect print-is-for-eval 0 out '^GPUBUDGET_LIMIT=3GiB$' out "^LD_PRELOAD=$lib\$"
try env GPUBUDGET_REPORT='a"\
b' "$run" -l 0=2GiB -l GPU-45B0=none -l '*=12.5%' --print=json
same print-json out <<'END'
{
  "limit": [
    {"device": "0", "bytes": 2147483648},
    {"device": "GPU-45b0", "bytes": null},
    {"device": "*", "percent": 12.5}
  ],
  "limit_source": "--limit",
  "library": "T/lib/libgpubudget.so",
  "library_version": "0.0-test",
  "environment": {
    "GPUBUDGET_LIMIT": "0=2GiB,GPU-45B0=none,*=12.5%",
    "GPUBUDGET_LIMIT_SOURCE": "--limit",
    "GPUBUDGET_LIB": "T/lib/libgpubudget.so",
    "GPUBUDGET_REPORT": "a\"\\\u000ab",
    "GPUBUDGET_JOB": "run-N",
    "LD_PRELOAD": "T/lib/libgpubudget.so"
  },
  "settings": {
    "LIMIT": "0=2GiB,GPU-45B0=none,*=12.5%",
    "REQUIRE": "0",
    "CHARGE": "footprint",
    "MANAGED": "charge",
    "CAPACITY": "limit",
    "ON_LIMIT": "refuse",
    "ON_ERROR": "deny",
    "WAIT": "200ms",
    "RESERVE": null,
    "LOG": "warn",
    "LIMIT_SOURCE": "--limit",
    "DISABLE": "0",
    "LIB": "T/lib/libgpubudget.so",
    "STREAM_ORDER": "off",
    "REPORT": "a\"\\\u000ab",
    "TIMELINE": null,
    "JOB": "run-N",
    "JOB_LIMIT": null,
    "STATE_DIR": null,
    "COMPAT": null
  }
}
END
if command -v python3 >/dev/null; then
    cp "$temp/out" "$temp/json"
    try python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$temp/json"
    expect print-json-parses 0
fi

# --- --check
try env GPUBUDGET_STATE_DIR="$temp/state" "$run" -l 40GB --check touch "$temp/ran3"
[ -e "$temp/ran3" ] && not_ok check-runs-nothing "the command ran"
expect check 0 err '!.'
same check-output out <<'END'
limit 40GB = 37.25 GiB, from --limit
job run-N, counted in T/state/run-N.job
library T/lib/libgpubudget.so, version 0.0-test
in force
END
try "$run" -v -l 40GB --check
expect check-verbose 0 \
    out '^reserve of the limit: 1/64 of it, at most 256MiB; where NVML does not tell, 1/16 of it, 32MiB to 512MiB$'
try env GPUBUDGET_RESERVE=5% "$run" -v -l 40GB --check
expect check-reserve 0 out '^reserve of the limit: 5%.*, from GPUBUDGET_RESERVE$'
try env GPUBUDGET_RESERVE=0 "$run" -v -l 40GB --check
expect check-no-reserve 0 out '^reserve of the limit: 0.*, from GPUBUDGET_RESERVE$'
try "$run" -q -l 40GB --check
expect check-quiet 0 out '!.' err '!.'
try "$run" -l none --check
expect check-none 1 out 'limit none: no limit' out '^not in force: the limit is none'
try "$run" -v -l none --check
expect check-none-verbose 1 out '!reserve' out '^not in force: the limit is none'
try env GPUBUDGET_DISABLE=1 "$run" -l 1GiB --check
expect check-disabled 1 out '^not in force: GPUBUDGET_DISABLE=1'
try env GPUBUDGET_ON_LIMIT=report "$run" -l 1GiB --check
expect check-report-only 1 out '^not in force: GPUBUDGET_ON_LIMIT=report'
try "$run" -l 4096 --check
expect check-bad-limit 125
try "$run" --check
expect check-no-limit 125
try "$run" -l 1GiB --check /nonexistent/command
expect check-command-not-found 1 err 'No such file'
try env GPUBUDGET_LIMTI=1 GPUBUDGET_COMPAT=hami "$run" -l 1GiB --check
expect check-warnings 0 out '^GPUBUDGET_LIMTI is no setting' out 'COMPAT has no effect'
# An interposer that keeps the launcher from setting LD_PRELOAD: the trial process must tell.
cat >"$temp/hide.c" <<'END'
int setenv(const char *name, const char *value, int replace)
{
    (void)name, (void)value, (void)replace;
    return 0;
}
END
compile -shared -fPIC -o "$temp/x/hide.so" <"$temp/hide.c" || exit 1
try env GPUBUDGET_LIB="$lib" LD_PRELOAD="$temp/x/hide.so" GPUBUDGET_LIMIT=1GiB "$run" --check
expect check-probe-sees 1 out '^not in force: .*trial process'
try env GPUBUDGET_LIB="$lib" LD_PRELOAD="$temp/x/hide.so" GPUBUDGET_LIMIT=1GiB "$run" \
    --strict true
expect strict-probe-sees 125 err 'trial process'

# --- jobs
state=$temp/state
export GPUBUDGET_STATE_DIR=$state
job_of() { sed -n 's/^GPUBUDGET_JOB=//p' "$temp/out"; }
# NAME WANTED: what the command of the last try was told.
told()
{
    if [ "$status" -eq 0 ] && [ "$(job_of)" = "$2" ]; then
        ok "$1"
    else
        not_ok "$1" "status $status, job \"$(job_of)\": $(head -n 2 "$temp/err")"
    fi
}
try "$run" -l 1GiB -j a.B-c_9 env
told job-named a.B-c_9
try "$run" -L 8GiB --job x env
told job-with-limit x
expect job-limit-alone 0 out '^GPUBUDGET_JOB_LIMIT=8GiB$' out '!^GPUBUDGET_LIMIT=' err '!.'
try "$run" -l 4GiB -L 0=8GiB --job-limit '*=none' env
expect job-limits-joined 0 out '^GPUBUDGET_JOB_LIMIT=0=8GiB,\*=none$' out '^GPUBUDGET_LIMIT=4GiB$' \
    out '^GPUBUDGET_JOB=run-[0-9]*-[0-9]*$'
try env GPUBUDGET_JOB=outer "$run" -l 1GiB env
told job-of-the-environment outer
try env GPUBUDGET_JOB=outer "$run" -l 1GiB -j inner env
told job-option-wins inner
try "$run" -l 1GiB "$run" -L 2GiB env
first=$(job_of)
expect job-nested 0 out '^GPUBUDGET_JOB=run-' out '^GPUBUDGET_JOB_LIMIT=2GiB$'
try "$run" -l 1GiB env
if [ -n "$first" ] && [ "$(job_of)" != "$first" ]; then
    ok job-of-each-start
else
    not_ok job-of-each-start "\"$first\" and \"$(job_of)\""
fi
try env SLURM_JOB_ID=77 "$run" -l 1GiB env
told job-of-slurm slurm-77
try env PBS_JOBID=8.head "$run" -l 1GiB env
told job-of-pbs pbs-8.head
try env LSB_JOBID=9 LSB_JOBINDEX=3 "$run" -L 50% env
told job-of-lsf lsf-9_3
try "$run" -l none env
expect job-of-nothing 0 out '!^GPUBUDGET_JOB='
try "$run" -l none -j sight env
told job-without-limits sight
try "$run" -j alone true
expect job-is-no-limit 125 err 'no limit: give one with -l'
for name in '' a/b 'a b' . .. "$(printf '%65s' '' | tr ' ' x)"; do
    try "$run" -l 1GiB -j "$name" true
    expect "job-bad-name($name)" 125 err "^gpubudget-run: --job: \"$name\" is no name; use 1 to 64"
done
try "$run" -l 1GiB -L 4096 true
expect job-bad-limit 125 err '^gpubudget-run: --job-limit: "4096"'
try "$run" -L none true
expect job-limit-none 0 err '!.'
[ -z "$(find "$state" -type f)" ] || not_ok job-files "made: $(ls "$state")"
try "$run" -l 2GiB -L 8GB -j x --check
same job-check out <<'END'
limit 2GiB = 2 GiB, from --limit
job limit 8GB = 7.45 GiB, from GPUBUDGET_JOB_LIMIT
job x, counted in T/state/x.job
library T/lib/libgpubudget.so, version 0.0-test
in force
END
# A directory that cannot be used: only a limit of the job needs it.
echo garbage >"$state/bad.job" && chmod 600 "$state/bad.job"
for case in open link file bad; do
    wanted=$temp/$case name=x
    case $case in
    open) mkdir -m 755 "$wanted" ;;
    link) ln -s "$state" "$wanted" ;;
    file) : >"$wanted" ;;
    bad) wanted=$state name=bad ;;
    esac
    try env GPUBUDGET_STATE_DIR="$wanted" "$run" -l 1GiB -j $name true
    expect "job-uncounted($case)" 0 err '!.'
    try env GPUBUDGET_STATE_DIR="$wanted" "$run" -l 1GiB -L 2GiB -j $name true
    expect "job-refused($case)" 125 err "^gpubudget-run: the job's limit cannot be kept: $wanted.*"
    try env GPUBUDGET_STATE_DIR="$wanted" GPUBUDGET_JOB_LIMIT=1GiB "$run" -j $name --check
    expect "job-check-refused($case)" 1 err "the job's limit cannot be kept: "
    try env GPUBUDGET_STATE_DIR="$wanted" GPUBUDGET_JOB_LIMIT=none "$run" -l 1GiB -j $name true
    expect "job-no-limit($case)" 0 err '!.'
done
unset GPUBUDGET_STATE_DIR

# --- switched off
try env GPUBUDGET_DISABLE=1 "$run" -l 1GiB true
expect disabled-warns 0 err 'warning: GPUBUDGET_DISABLE=1'
try env GPUBUDGET_DISABLE=1 "$run" --strict -l 1GiB true
expect disabled-strict 125 err 'GPUBUDGET_DISABLE=1'
try env GPUBUDGET_DISABLE=1 GPUBUDGET_REQUIRE=1 "$run" -l 1GiB true
expect disabled-required 125 err 'contradicts GPUBUDGET_REQUIRE'

exit $failed
