#!/bin/bash
# check-routes.sh: every way to a function of the driver's, with and without the preload.
#
# The rule behind nearly all cases: under the preload a look-up must answer what it answers
# without it, NULL and dlerror included, but for the driver's own functions, which become hooks
# once a limit is set and stay what they are when none is.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "$0")/cases.sh"

programs=$build/tests/programs
libraries=$programs/route
drivers=$build/tests/standin
if [ ! -x "$programs/route_program" ] || [ ! -e "$libraries/libroute_plugin.so" ]; then
    skip routes "the test programs are missing: make check builds them"
    finish
fi
cd "$work" || exit 99
# These programs leave open what they opened, which is no leak of anybody's.
export ASAN_OPTIONS=detect_leaks=0

# run FILE SETTING PRELOADS COMMAND...: stdout and stderr to FILE, the exit status as last line.
run()
{
    local file=$1 setting=$2 list=$3
    shift 3
    timeout 120 env "$setting" LD_LIBRARY_PATH="$driver" LD_PRELOAD="$sanitizer$list" "$@" \
        >"$file" 2>&1
    printf 'status %d\n' $? >>"$file"
}

# as_without NAME BEFORE AFTER COMMAND...: other preloads before and after ours.
# With hooks taken for what they stand for, all four runs print the same.
as_without()
{
    local name=$1 before=$2 after=$3 wrong
    shift 3
    run plain NOTHING=1 "$before $after" "$@"
    run armed GPUBUDGET_LIMIT=8GiB "$before $preload $after" "$@"
    run idle GPUBUDGET_LIMIT=none "$before $preload $after" "$@"
    export GPUBUDGET_STREAM_ORDER=all
    run ordered GPUBUDGET_LIMIT=8GiB "$before $preload $after" "$@"
    unset GPUBUDGET_STREAM_ORDER
    if wrong=$(awk -f "$work/compare.awk" names names-ordered plain armed ordered idle 2>&1) &&
        [ -z "$wrong" ]; then
        ok "$name"
    else
        not_ok "$name" "${wrong:-no comparison}"
    fi
}

# What is wrong with four runs, in one process for them all: there are some eighty of these cases.
cat >"$work/compare.awk" <<'AWK'
function wrong(what) { if (!told++) print what }
function ours() { return $5 == "hook" || $5 == "twin" }
# Tables that only the driver and its runtime know, for one, have to come from the driver.
function overhooked() { return ours() && !($3 in known) && $3 != "dlsym" && $3 != "dlvsym" }
function hooked() { return FILENAME == "armed" && $5 == "hook" && $3 in ordered }
function unhooked() { return $5 == "libcuda.so.1" && (FILENAME == "ordered" ? $3 in known : $3 in always) }
FNR == 1 { dropped = 0 }
FILENAME == "names" { always[$1] = known[$1] = 1; next }
FILENAME == "names-ordered" { ordered[$1] = known[$1] = 1; next }
FILENAME == "plain" { plain[lines = FNR] = $0; next }
FILENAME == "ordered" && /^gpubudget: GPUBUDGET_STREAM_ORDER=all acts as copies/ { dropped++; next }
{
    of = FILENAME == "idle" ? "without a limit: " : \
        FILENAME == "armed" ? "with a limit: " : "with a limit and an order: "
    seen = $0
    if (FILENAME != "idle") sub(/-> hook/, "-> libcuda.so.1", seen)
    # Who looks for dlsym gets ours, or the next one to look would be without us.
    if (!sub(/dlsym -> twin/, "dlsym -> libc.so.6", seen)) sub(/dlvsym -> twin/, "dlvsym -> libc.so.6", seen)
    count[FILENAME] = FNR - dropped
    if (seen != plain[FNR - dropped]) wrong(of seen ", not " plain[FNR - dropped])
    if (FILENAME != "ordered" && /(dlsym|dlvsym) -> libc/) wrong("the real dlsym came out: " $0)
    if (FILENAME == "idle" || $4 != "->") next
    if (unhooked()) wrong("the driver's own pointer came out: " $0)
    if (overhooked()) wrong("a function is not the driver's own: " $0)
    if (hooked()) wrong("a hook that nothing asks for: " $0)
}
END {
    if (plain[lines] != "status 0") wrong("the plain run fails: " plain[lines - 1] " " plain[lines])
    if (count["armed"] != lines || count["ordered"] != lines || count["idle"] != lines)
        wrong("lines: " lines " plain, " count["armed"] " with a limit, " count["ordered"] \
            " with an order, " count["idle"] " without")
}
AWK

# Names that are intercepted always, and with GPUBUDGET_STREAM_ORDER alone.
names_of()
{
    sed -n "s/^$1(\\([A-Za-z0-9_]*\\),.*/\\1/p" "$source_tree/src/interpose/entries.def"
}
{ names_of GB_ENTRY && names_of GB_ENTRY_QUICK; } >"$work/names"
names_of GB_ENTRY_ORDERED >"$work/names-ordered"

a=$libraries/libroute_interposer_a.so
b=$libraries/libroute_interposer_b.so
program=$programs/route_program
linked=$programs/route_linked
plugin=$libraries/libroute_plugin.so

# Threads: the same answers from 64 of them, first look-ups included.
in_threads()
{
    driver=$drivers/13.0
    as_without threads "" "" "$programs/route_threads" 64 2000
    as_without threads-copy "" "" "$programs/route_threads" 64 400 libcuda.so.1
}

# All others have one thread, and take the thread sanitizer half a minute each.
case $sanitizer in
*libtsan*)
    in_threads
    finish
    ;;
esac

# No driver loaded at all, or none on the machine.
driver=$drivers/13.0
as_without no-driver-loaded "" "" "$program" report=program
driver=$work/nothing
as_without no-driver-there "" "" "$program" report=program plugin="$plugin"

for version in 11.4 12.4 13.0 future; do
    driver=$drivers/$version
    if [ ! -e "$driver/libcuda.so.1" ]; then
        skip "$version" "no such stand-in"
        continue
    fi
    as_without "$version-local" "" "" "$program" open=libcuda.so.1 report=program
    as_without "$version-global" "" "" "$program" global=libcuda.so.1 report=program
    as_without "$version-path" "" "" "$program" open="$driver/libcuda.so.1" report=program
    as_without "$version-linked" "" "" "$linked" open=libcuda.so.1 report=program
    as_without "$version-plugin" "" "" "$program" plugin="$plugin" \
        plugin="$libraries/libroute_cuda_plugin.so"
    # cuGetProcAddress, for every name at every version.
    tables=("$source_tree/tests/standin/names.tbl" "$source_tree/tests/standin/names-future.tbl")
    as_without "$version-addresses" "" "" "$programs/route_addresses" "${tables[@]}"
    # Opened and looked into, no more: nothing is called, and NVML stays away.
    as_without "$version-quiet" "" "" "$program" open=libcuda.so.1 report=program quiet
    as_without "$version-quiet-linked" "" "" "$linked" open=libcuda.so.1 report=program quiet
    if grep -q '^driver calls 0, NVML absent$' armed; then
        ok "$version-untouched"
    else
        not_ok "$version-untouched" "$(tail -n 2 armed | tr '\n' ' ')"
    fi
done

# The answers that were compared are of all kinds.
driver=$drivers/13.0
run armed GPUBUDGET_LIMIT=8GiB "$preload" "$programs/route_addresses" "${tables[@]}"
for word in 'cuCtxCreate_v[0-9] -> hook cuCtxCreate ' 'cuGetExportTable -> libcuda' \
    ' code 0 status 0$' ' code 0 status 1$' ' code 0 status 2$' '^1 - untouched .* code [1-9]'; do
    if grep -q -- "$word" armed; then ok "addresses-kind-$word"; else
        not_ok "addresses-kind-$word" "none"
    fi
done

# What an old driver lacks stays missing, though we have hooks for it.
driver=$drivers/11.4
run old GPUBUDGET_LIMIT=8GiB "$preload" "$program" global=libcuda.so.1 report=program
for name in cuCtxCreate_v4 cuMemSetMemPool cuGetProcAddress_v2; do
    if [ "$(grep -c " $name -> NULL error" old)" -ge 4 ] && ! grep -q " $name -> hook" old; then
        ok "old-driver-lacks-$name"
    else
        not_ok "old-driver-lacks-$name" "$(grep " $name -> " old | head -3)"
    fi
done

# Names with a version: a look-up with that version finds them, and so it does with us.
driver=$drivers/versioned
as_without versioned-local "" "" "$program" open=libcuda.so.1 report=program
as_without versioned-global "" "" "$program" global=libcuda.so.1 report=program
for handle in default next late; do
    if grep -q "^[^ ]* $handle/driver-version cuMemAlloc_v2 -> hook\$" armed; then
        ok "versioned-by-$handle"
    else
        not_ok "versioned-by-$handle" \
            "$(grep " $handle/driver-version cuMemAlloc_v2 " armed | head -1)"
    fi
done
as_without versioned-linked "" "" "$linked" open=libcuda.so.1 report=program
as_without versioned-plugin "" "" "$program" plugin="$plugin" \
    plugin="$libraries/libroute_cuda_plugin.so"

driver=$drivers/13.0
as_without plugin-global "" "" "$program" plugin-global="$libraries/libroute_cuda_plugin.so" \
    report=program
as_without plugin-before-driver "" "" "$program" plugin="$plugin" global=libcuda.so.1 \
    plugin="$plugin"
as_without linked-plugin "" "" "$linked" plugin="$plugin"
as_without linked-cuda-plugin "" "" "$linked" plugin="$libraries/libroute_cuda_plugin.so"
as_without dependency-of-plugin "" "" "$program" open="$libraries/libroute_root.so" \
    plugin=libroute_dependency.so
as_without root-of-plugin "" "" "$program" plugin="$libraries/libroute_root.so"

# Other interposers: before us, after us, both, two in a row, as a plug-in.
as_without interposer-before "$a" "" "$linked" report=program preloaded
as_without interposer-after "" "$a" "$linked" report=program preloaded
as_without interposers-around "$b" "$a" "$linked" report=program preloaded
as_without interposers-before "$a $b" "" "$linked" report=program preloaded
as_without interposers-after "" "$b $a" "$linked" report=program preloaded
as_without interposers-local-driver "" "$b $a" "$program" open=libcuda.so.1 report=program \
    preloaded
as_without interposers-global-driver "$a" "$b" "$program" global=libcuda.so.1 report=program \
    preloaded
as_without interposer-plugin "" "" "$program" plugin="$libraries/libroute_interposer_plugin.so"
as_without interposer-plugin-behind "$b" "" "$linked" \
    plugin="$libraries/libroute_interposer_plugin.so"

# A library that wraps a function of libc's and goes on by RTLD_NEXT.
as_without wrapper-before "$plugin" "" "$program" wrapped
as_without wrapper-after "" "$plugin" "$program" wrapped
as_without wrapper-plugin "" "" "$program" plugin="$plugin" wrapped

# A search path that is relative to the library that opens. (A sanitizer's own dlopen loses it.)
mkdir -p origin/sub
cp "$libraries/libroute_origin.so" origin/
cp "$plugin" origin/sub/libroute_only_here.so
if [ -z "$sanitizer" ]; then
    as_without origin "" "" "$program" plugin="$work/origin/libroute_origin.so"
    if grep -q 'only here: found' armed; then ok origin-found; else not_ok origin-found "$(cat armed)"; fi
else
    skip origin "a sanitizer build"
fi

# Started by the loader as a command.
loader=$(readelf -lW "$program" | sed -n 's/.*program interpreter: \(.*\)]/\1/p')
as_without loader-as-command "" "" "$loader" "$program" open=libcuda.so.1 report=program

# A driver that looks itself up while it loads and starts.
driver=$libraries/self
as_without driver-looks-up "" "" "$program" open=libcuda.so.1 start report=program
driver=$drivers/13.0

# RTLD_DEEPBIND cannot be reached by any preload (it is documented); it must only do no harm.
if [ -z "$sanitizer" ]; then
    run deep GPUBUDGET_LIMIT=8GiB "$preload" "$program" \
        plugin-deep="$libraries/libroute_cuda_plugin.so"
    if grep -q '^status 0$' deep; then ok deepbind; else not_ok deepbind "$(tail -3 deep)"; fi
else
    skip deepbind "a sanitizer build, which forbids it"
fi

# Calls: each reaches the driver exactly once, by every route, also through other interposers.
for route in link handle default next procaddress procaddress1 self; do
    as_without "calls-$route" "" "" "$programs/route_calls" "$route"
    as_without "calls-$route-interposed" "$a" "$b" "$programs/route_calls" "$route"
done
driver=$drivers/11.4
as_without calls-old-driver "" "" "$programs/route_calls" handle
as_without calls-old-procaddress "" "" "$programs/route_calls" procaddress1
driver=$drivers/13.0

in_threads
as_without threads-interposed "$a" "$b" "$programs/route_threads" 16 400 libcuda.so.1

# Copies: four have hooks of their own; names of a fifth are not there, with one line.
files=()
for i in 1 2 3 4 5; do
    mkdir -p "copy$i"
    cp "$driver/libcuda.so.1" "copy$i/"
    files+=("$work/copy$i/libcuda.so.1")
done
as_without two-copies "" "" "$programs/route_copies" "${files[@]:0:2}"
as_without four-copies "" "" "$programs/route_copies" "${files[@]:0:4}"
run five GPUBUDGET_LIMIT=8GiB "$preload" "$programs/route_copies" "${files[@]}"
if grep -q '^again 4 NULL$' five && [ "$(grep -c '^gpubudget: ' five)" -eq 1 ] &&
    [ "$(grep -c '^again . own$' five)" -eq 4 ] && grep -q '^status 0$' five; then
    ok five-copies
else
    not_ok five-copies "$(tail -6 five | tr '\n' ' ')"
fi

as_without environment "" "" "$programs/route_environ"

if command -v python3 >/dev/null && [ -z "$sanitizer" ]; then
    as_without python-ctypes "" "" python3 -c 'import ctypes
driver = ctypes.CDLL("libcuda.so.1")
print(driver.cuInit(0), hasattr(driver, "cuMemAlloc_v2"), hasattr(driver, "cuMemAlloc_v9"))
print(hasattr(ctypes.CDLL(None), "cuMemAlloc_v2"))'
else
    skip python-ctypes "no python3, or a sanitizer build"
fi
finish
