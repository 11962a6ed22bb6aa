#!/bin/bash
# check_documents.sh: docs/original-api.md names only functions and tests that exist, and no
# function is missing from it. (docs/coverage.md is check_table.sh's.)
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "$0")/../preload/cases.sh"

api=$source_tree/docs/original-api.md

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
finish
