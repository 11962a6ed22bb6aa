#!/bin/bash
# check_headers.sh: each public header stands alone in C and C++, and the core library exports
# exactly the functions that they declare.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "$0")/../preload/cases.sh"

# The places of cuda.h and of the compilers, as this tree was configured.
made_with()
{
    sed -n "s/^$1 = //p" "$build/Makefile"
}
read -r -a cuda <<<"$(made_with CUDA_CPPFLAGS)"
read -r -a cc <<<"$(made_with CC)"
headers=("$source_tree"/include/gpubudget/*.h)

# compiles NAME COMPILER FLAG...: every header by itself
compiles()
{
    local name=$1 header
    shift
    if ! command -v "$1" >/dev/null; then
        skip "$name" "no $1"
        return
    fi
    for header in "${headers[@]}"; do
        if "$@" -Wall -Wextra -Werror -pedantic -fsyntax-only -I"$source_tree/include" \
            "${cuda[@]}" "$work/one.${name%%-*}" -DHEADER="<gpubudget/$(basename "$header")>" \
            >"$work/log" 2>&1; then
            ok "$name-$(basename "$header")"
        else
            not_ok "$name-$(basename "$header")" "$(cat "$work/log")"
        fi
    done
}

printf '#include HEADER\n#include HEADER\nint nothing_else;\n' >"$work/one.c"
cp "$work/one.c" "$work/one.cc"
compiles c-configured "${cc[@]}" -std=c11
compiles c-gcc gcc -std=c11
compiles c-clang clang -std=c11
compiles cc-g++ g++ -std=c++11
compiles cc-clang++ clang++ -std=c++11

# The functions that the headers declare, without their comments.
declared=$(sed -e 's://.*$::' "${headers[@]}" | tr '\n' ' ' |
    sed -e 's:/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/: :g' |
    grep -oE '\bgpubudget_[a-z0-9_]+ *\(' | tr -d ' (' | grep -v '_t$' | LC_ALL=C sort -u)
core=$build/.libs/libgpubudget-core.so
exported=$(nm -D --defined-only "$core" | awk '{ print $3 }' | grep '^gpubudget_' |
    LC_ALL=C sort -u)
if [ -n "$declared" ] && [ "$declared" = "$exported" ]; then
    ok core-exports-what-headers-declare
else
    not_ok core-exports-what-headers-declare \
        "$(diff <(printf '%s\n' "$declared") <(printf '%s\n' "$exported"))"
fi
preloaded=$(nm -D --defined-only "$preload" | awk '{ print $3 }' | grep '^gpubudget_' |
    LC_ALL=C sort -u)
if [ "$declared" = "$preloaded" ]; then
    ok preload-exports-what-headers-declare
else
    not_ok preload-exports-what-headers-declare \
        "$(diff <(printf '%s\n' "$declared") <(printf '%s\n' "$preloaded"))"
fi

# What a program includes is what is installed, no less.
for header in "${headers[@]}"; do
    if grep -q "include/gpubudget/$(basename "$header")" "$source_tree/src/driver/local.mk"; then
        ok "installed-$(basename "$header")"
    else
        not_ok "installed-$(basename "$header")" "not among the installed headers"
    fi
done
finish
