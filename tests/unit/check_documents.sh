#!/bin/bash
# check_documents.sh: docs/original-api.md names only functions and tests that exist, and no
# function is missing from it; docs/coverage.md has a row for every intercepted entry point.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "$0")/../preload/cases.sh"

api=$source_tree/docs/original-api.md
coverage=$source_tree/docs/coverage.md

# Every `gpubudget_x` of the document is declared in the header that its row names.
# A row: | operation | `function` | `header` | `file`: `test`, ... |
rows=$(grep -E '^\| .*`gpubudget_' "$api")
missing=
while IFS='|' read -r _ operation functions header tests _; do
    name=$(printf '%s' "$header" | tr -d '` ')
    for function in $(printf '%s' "$functions" | grep -oE 'gpubudget_[a-z0-9_]+'); do
        grep -qE "\b$function *\(" "$source_tree/include/gpubudget/$name" ||
            missing+="$function is not in $name; "
    done
    # `check_x.c`: `test_a`, `test_b`; `check_y.sh`: `case`
    file=
    count=0
    # shellcheck disable=SC2016
    for word in $(printf '%s' "$tests" | grep -oE '`[^`]+`' | tr -d '`'); do
        case $word in
        */*)
            file=$source_tree/$word
            [ -f "$file" ] || missing+="no $word; "
            ;;
        *)
            count=$((count + 1))
            grep -qE "(START_TEST\($word\)|\b$word\b)" "$file" 2>/dev/null ||
                missing+="$(basename "$file") has no $word; "
            case $file in
            *.c)
                # Named and also run: in the list of main.
                [ "$(grep -cE "\b$word\b" "$file")" -ge 2 ] || missing+="$word is never run; "
                ;;
            esac
            ;;
        esac
    done
    [ "$count" -gt 0 ] || missing+="no test for$operation; "
done <<<"$rows"
if [ -n "$rows" ] && [ -z "$missing" ]; then
    ok original-api-names-exist
else
    not_ok original-api-names-exist "${missing:-no rows found}"
fi

undocumented=
for function in $(sed -e 's://.*$::' "$source_tree"/include/gpubudget/*.h | tr '\n' ' ' |
    sed -e 's:/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/: :g' |
    grep -oE '\bgpubudget_[a-z0-9_]+ *\(' | tr -d ' (' | grep -v '_t$' | sort -u); do
    printf '%s\n' "$rows" | grep -q "\`$function\`" || undocumented+="$function "
done
if [ -z "$undocumented" ]; then
    ok original-api-is-complete
else
    not_ok original-api-is-complete "$undocumented"
fi

# Every entry point has one row in the first table; every name there is an entry point.
entries=$(sed -n 's/^GB_ENTRY(\([A-Za-z0-9_]*\),.*/\1/p' "$source_tree/src/interpose/entries.def" |
    LC_ALL=C sort)
covered=$(sed -n '/^## Intercepted/,/^## /p' "$coverage" | grep '^| `cu' | cut -d'|' -f2 |
    grep -oE 'cu[A-Za-z0-9_]+' | LC_ALL=C sort)
if [ -n "$entries" ] && [ "$entries" = "$covered" ]; then
    ok coverage-has-every-entry
else
    not_ok coverage-has-every-entry \
        "$(diff <(printf '%s\n' "$entries") <(printf '%s\n' "$covered"))"
fi

# What is said to pass through is not intercepted, and exists in the driver's header.
passed=$(sed -n '/^## Passed through/,$p' "$coverage" | grep '^| ' | cut -d'|' -f2 |
    grep -oE '\bcu[A-Z][A-Za-z0-9_]+' | sort -u)
wrong=
for name in $passed; do
    if printf '%s\n' "$entries" | grep -qxE "$name(_v[0-9]+|_ptsz)*"; then
        wrong+="$name is intercepted; "
    fi
    grep -q "\b$name\b" "$source_tree/tests/standin/names.tbl" || wrong+="no driver has $name; "
done
if [ -n "$passed" ] && [ -z "$wrong" ]; then
    ok coverage-of-what-passes
else
    not_ok coverage-of-what-passes "${wrong:-nothing found}"
fi
finish
