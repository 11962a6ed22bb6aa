#!/bin/bash
# check-ptx.sh: the PTX texts of the test programs are such as an assembler takes. The stand-in
# reads of them only what it needs; a real driver answers 218 to a text with a fault.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"

ptxas=$(command -v ptxas) || ptxas=/usr/local/cuda/bin/ptxas
if [ ! -x "$ptxas" ]; then
    skip everything "no ptxas"
    finish
fi

# texts PROGRAM: the PTX texts among its strings, one a file; a size that is printed into one at run
# time becomes 4096.
texts()
{
    rm -f "$work"/text.*
    LC_ALL=C tr '\n\0' '\1\n' <"$1" | LC_ALL=C grep -a $'^\.version [0-9.]*\1' |
        LC_ALL=C sed 's/%zu/4096/g; s/%%/%/g' | {
        number=0
        while read -r text; do
            number=$((number + 1))
            tr '\1' '\n' <<<"$text" >"$work/text.$number"
        done
    }
}

found=0
for program in "$build"/tests/programs/*; do
    if [ ! -x "$program" ] || [ ! -f "$program" ]; then continue; fi
    # A program that is not installed may be a script around the real one.
    name=${program##*/}
    [ ! -x "$build/tests/programs/.libs/$name" ] || program=$build/tests/programs/.libs/$name
    texts "$program"
    for text in "$work"/text.*; do
        [ -f "$text" ] || continue
        found=$((found + 1))
        label=$name-${text##*.}
        if "$ptxas" -arch=sm_90 -o /dev/null "$text" 2>"$work/errors"; then
            ok "$label"
        else
            not_ok "$label" "$(head -2 "$work/errors" | tr '\n' ' ')"
        fi
    done
done
[ "$found" -gt 5 ] || not_ok texts-found "only $found"

# The check is able to fail.
printf '.version 6.0\n.target sm_50\n.address_size 64\n.visible .entry a()\n{\n%s\n}\n' \
    'nonsense;' >"$work/wrong"
if "$ptxas" -arch=sm_90 -o /dev/null "$work/wrong" 2>"$work/errors"; then
    not_ok can-fail "nonsense was taken"
else
    ok can-fail
fi
finish
