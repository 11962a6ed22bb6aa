#!/bin/bash
# check_table.sh: src/interpose/functions.tbl has one right row for every function of the
# driver; entries.def, CUDA's headers, a driver's exports and docs/coverage.md agree with it.
#
# Each check is a function that prints what is wrong, one line each, and is run twice: on the
# project's own files, and on a copy that is spoilt, where it must name what was spoilt.
# shellcheck disable=SC2016,SC2317 # backquotes of Markdown; functions called by good and caught
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "$0")/../preload/cases.sh"
export LC_ALL=C

unit=$source_tree/tests/unit
table=$source_tree/src/interpose/functions.tbl
page_of=$source_tree/src/interpose/functions.awk
entries=$source_tree/src/interpose/entries.def
exports=$source_tree/tests/standin/names.tbl
page=$source_tree/docs/coverage.md

# The headers that this tree was configured with: those of the driver's API beside its cuda.h.
made_with()
{
    sed -n "s/^$1 = //p" "$build/Makefile"
}
read -r -a cc <<<"$(made_with CC)"
read -r -a cuda <<<"$(made_with CUDA_CPPFLAGS)"
cuda_h=$(echo '#include <cuda.h>' | "${cc[@]}" "${cuda[@]}" -M -xc - 2>/dev/null |
    tr -s ' \134' '\n' | grep '/cuda\.h$' | head -1)
headers=()
absent=
for name in cuda cudaGL cudaEGL cudaVDPAU cudaProfiler; do
    if [ -f "$(dirname "$cuda_h")/$name.h" ]; then
        headers+=("$(dirname "$cuda_h")/$name.h")
    else
        absent+="$name.h "
    fi
done

# Sorted names: of a table (with a state: only such rows), of entries.def, exports, headers
in_table()
{
    awk -v state="${2-}" '/^cu/ && (state == "" || $4 == state) { print $1 }' "$1" | sort -u
}

in_entries()
{
    sed -n 's/^GB_ENTRY[_A-Z]*(\([A-Za-z0-9_]*\),.*/\1/p' "$1" | sort
}

in_exports()
{
    awk '!/^#/ && NF == 4 { print $4 }' "$1" | sort -u
}

in_headers()
{
    awk -f "$unit/declared.awk" "$@" | sort -u
}

# Every row is whole and under its family's heading, in order, and its policy fits its state.
wrong_rows()
{
    awk '
    function wrong(what) { print FILENAME ":" FNR ": " $1 ": " what }
    BEGIN {
        split("charged measured imported reported ends looked-up watched passed", list, " ")
        for (i in list) policies[list[i]] = 1
    }
    /^#/ || /^$/ { next }
    $1 == "family" {
        if ($2 in seen) wrong("the family " $2 " stands there already")
        if (NF < 3) wrong("the family " $2 " has no title")
        seen[family = $2] = 1
        before = ""
        next
    }
    $1 == "takes" || $1 == "note" { next }
    !/^cu[A-Za-z][A-Za-z0-9_]* / { wrong("no row"); next }
    {
        if (NF < 5) wrong("columns are missing")
        if ($2 != family) wrong("stands under " family)
        if (!($3 in policies)) wrong("no policy " $3)
        if ($4 != "intercepted" && $4 != "not-yet" && $4 != "never") wrong("no state " $4)
        if (($3 == "passed") != ($4 == "never")) wrong($3 " and " $4 " do not go together")
        if ($1 <= before) wrong("out of order, or twice")
        before = $1
    }' "$1"
}

rows_twice()
{
    awk '/^cu/ { print $1 }' "$1" | sort | uniq -d
}

# missing_rows TABLE NAMES: the names that have no row
missing_rows()
{
    comm -13 <(in_table "$1") "$2"
}

# Rows that nobody declares and no driver exports: misspelt, most likely.
idle_rows()
{
    comm -23 <(in_table "$1") <(sort -mu "$2" "$3")
}

# wrong_states TABLE ENTRIES
wrong_states()
{
    comm -23 <(in_table "$1" intercepted) <(in_entries "$2") | sed 's/$/ is not in entries.def/'
    comm -13 <(in_table "$1" intercepted) <(in_entries "$2") |
        sed 's/$/ is in entries.def, and not said to be intercepted/'
}

# wrong_entries TABLE PAGE: the first table of the page against the rows that are intercepted
wrong_entries()
{
    local row='^| `\(cu[A-Za-z0-9_]*\)` | *\([a-z ]*[a-z]\) *|.*'
    diff <(awk '/^cu/ && $4 == "intercepted" { sub(/-/, " ", $3); print $1, $3 }' "$1" | sort) \
        <(sed -n "/^## Intercepted/,/^## /s/$row/\1 \2/p" "$2" | sort) |
        sed -n 's/^< \(.*\)/\1: not in the page/p; s/^> \(.*\)/\1: only in the page/p'
}

# wrong_page TABLE PAGE: all after the mark is what the table makes of it
wrong_page()
{
    diff <(sed '1,/^<!-- From here on this page is written by/d' "$2" | sed 1d) \
        <(awk -f "$page_of" "$1") | grep '^[<>]' | cut -c1-300
}

# good NAME CHECK ARGUMENT...: nothing is wrong
good()
{
    local name=$1 wrong
    shift
    wrong=$("$@")
    if [ -z "$wrong" ]; then
        ok "$name"
    else
        not_ok "$name" "$(printf '%s\n' "$wrong" | tr '\n' ';')"
    fi
}

# caught NAME PATTERN CHECK ARGUMENT...: the check names what was spoilt
caught()
{
    local name=$1 pattern=$2 wrong
    shift 2
    wrong=$("$@")
    if printf '%s\n' "$wrong" | grep -q "$pattern"; then
        ok "$name"
    else
        not_ok "$name" "spoilt, and the check says: ${wrong:-nothing}"
    fi
}

spoilt=$work/spoilt
spoil()
{
    sed "$1" "$2" >"$spoilt"
    if cmp -s "$2" "$spoilt"; then not_ok spoil "$1 changes nothing in $2"; fi
}

good rows-are-whole wrong_rows "$table"
spoil '/^cuArrayDestroy /s/ ends / fnds /' "$table"
caught rows-are-whole-can-fail 'cuArrayDestroy: no policy' wrong_rows "$spoilt"
spoil '/^cuMemcpyDtoD /s/ never / not-yet /' "$table"
caught policy-fits-state-can-fail 'cuMemcpyDtoD: passed and not-yet' wrong_rows "$spoilt"
spoil '/^cuEventQuery /s/ events / arrays /' "$table"
caught families-can-fail 'cuEventQuery: stands under events' wrong_rows "$spoilt"

good no-row-twice rows_twice "$table"
spoil '/^cuMemFree_v2 /{p;s/ direct / arrays /;}' "$table"
caught no-row-twice-can-fail '^cuMemFree_v2$' rows_twice "$spoilt"

if [ ${#headers[@]} -gt 0 ]; then
    in_headers "${headers[@]}" >"$work/declared"
    if [ "$(grep -c . "$work/declared")" -gt 400 ]; then ok headers-are-read; else
        not_ok headers-are-read "only $(grep -c . "$work/declared") names in ${headers[*]}"
    fi
    good every-declared-function-has-a-row missing_rows "$table" "$work/declared"
    spoil '/^cuMemAllocAsync_ptsz /d' "$table"
    caught every-declared-function-can-fail '^cuMemAllocAsync_ptsz$' \
        missing_rows "$spoilt" "$work/declared"
else
    not_ok every-declared-function-has-a-row "no cuda.h with the flags ${cuda[*]}"
fi

# How a header may declare: over lines, between comments, by a #define for another spelling.
cat >"$work/new.h" <<'HEADER'
/* CUresult CUDAAPI cuNotThis(void); */ // CUresult CUDAAPI cuNorThis(void);
CUresult CUDAAPI
    cuOverLines (int a, /* a comment,
    CUresult CUDAAPI cuInComment(void); and its end */ int b);
#define cuSpelt cuSpelt_v9
#define cuThread   __CUDA_API_PTSZ(cuThread_v7)
#  define cuLegacy __CUDA_API_PTDS(cuLegacy)
#define cuNumber 7
typedef CUresult (CUDAAPI *cuPointer)(int);
static inline CUresult cuInline(int a) { return cuCalled(a); }
HEADER
declared=$(in_headers "$work/new.h" | tr '\n' ' ')
wanted='cuInline cuLegacy cuLegacy_ptds cuOverLines cuSpelt_v9 cuThread_v7 cuThread_v7_ptsz '
if [ "$declared" = "$wanted" ]; then
    ok declarations-are-found
else
    not_ok declarations-are-found "$declared"
fi

in_exports "$exports" >"$work/exported"
good every-driver-name-has-a-row missing_rows "$table" "$work/exported"
echo 'cuMemBrandNew 14000 any cuMemBrandNew_v2' | cat "$exports" - >"$spoilt"
in_exports "$spoilt" >"$work/exported-more"
caught every-driver-name-can-fail '^cuMemBrandNew_v2$' \
    missing_rows "$table" "$work/exported-more"

if [ -n "$absent" ]; then
    skip no-row-is-idle "not all headers are there: no $absent"
else
    good no-row-is-idle idle_rows "$table" "$work/declared" "$work/exported"
    spoil 's/^cuMemAlloc_v2 /cuMemAlloc_v7 /' "$table"
    caught no-row-is-idle-can-fail '^cuMemAlloc_v7$' \
        idle_rows "$spoilt" "$work/declared" "$work/exported"
fi

good intercepted-are-the-entries wrong_states "$table" "$entries"
spoil '/^GB_ENTRY(cuMemFree_v2,/d' "$entries"
caught entries-can-lack-one '^cuMemFree_v2 is not in' wrong_states "$table" "$spoilt"
spoil '/^cuMemFree_v2 /s/ intercepted / not-yet     /' "$table"
caught table-can-lack-one '^cuMemFree_v2 is in' wrong_states "$spoilt" "$entries"

good coverage-has-every-entry wrong_entries "$table" "$page"
spoil '/^| `cuMemFree_v2` |/d' "$page"
caught coverage-can-lack-one '^cuMemFree_v2 ends: not in' wrong_entries "$table" "$spoilt"
spoil '/^| `cuMemFree_v2` |/{s/| ends |/| charged |/;}' "$page"
caught coverage-can-err '^cuMemFree_v2 ' wrong_entries "$table" "$spoilt"
spoil '/^| `cuMemFree_v2` |/p' "$page"
caught coverage-can-repeat '^cuMemFree_v2 ends: only in' wrong_entries "$table" "$spoilt"

good coverage-of-the-rest wrong_page "$table" "$page"
spoil '/^cuMemcpyPeer /s/passed .*/imported  not-yet     another reason/' "$table"
caught coverage-of-the-rest-can-fail 'cuMemcpyPeer' wrong_page "$spoilt" "$page"
finish
