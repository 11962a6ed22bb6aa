#!/bin/bash
# check_documents.sh: docs/original-api.md names only functions and tests that exist, and no
# function is missing from it; docs/field-cases.md has one row for each of its ids, and names only
# what exists; docs/gpu-results.md says what ran and counts its rows. (docs/coverage.md is
# check_table.sh's.)
# shellcheck disable=SC2016 # backquotes of Markdown
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
    for word in $(printf '%s' "$tests" | grep -oE '`[^`]+`' | tr -d '`'); do
        case $word in
        */*)
            file=$source_tree/$word
            [ -f "$file" ] || missing+="no $word; "
            ;;
        *)
            count=$((count + 1))
            lines=$(grep -cE "\b$word\b" "$file" 2>/dev/null)
            case $file in
            *.c)
                # Named and also run: in the list of main.
                [ "${lines:-0}" -ge 2 ] || missing+="${file##*/} has no $word, or never runs it; "
                ;;
            *) [ "${lines:-0}" -ge 1 ] || missing+="${file##*/} has no $word; " ;;
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
    [[ $rows == *"\`$function\`"* ]] || undocumented+="$function "
done
if [ -z "$undocumented" ]; then
    ok original-api-is-complete
else
    not_ok original-api-is-complete "$undocumented"
fi

# --- docs/field-cases.md: | case | fault | what we do | proof | left |
# The proof: `file`: `name`, `name`; `file`: ... What is left: nothing, or words, with the later
# capabilities in backquotes.
cases=$source_tree/docs/field-cases.md
results=$source_tree/docs/gpu-results.md
capabilities=' job budget wrappers ceiling file card of its size reporting '

# has_name FILE NAME: how often it stands there as a whole, in no comment line
has_name()
{
    awk -v name="$2" '
        !/^[ \t]*(#|\/\/|\/\*|\*[ \/])/ {
            line = " " $0 " "
            while ((at = index(line, name)) > 0) {
                around = substr(line, at - 1, 1) substr(line, at + length(name), 1)
                if (around !~ /[A-Za-z0-9_]/) found++
                line = substr(line, at + length(name))
            }
        }
        END { print found + 0 }' "$1"
}

# The page is looked through a dozen times, and each process costs more than all that it does: so what
# has been found out about a file, and about a name in it, is kept.
declare -A run_by_file proofs

# is_run FILE: make check or a script of tests/preload runs it
is_run()
{
    local name=${1##*/}
    name=${name%.c}
    if [ -z "${run_by_file[$1]-}" ]; then
        case $1 in
        tests/programs/*.h) true ;;
        tests/programs/*) grep -qE "\b$name\b" "$source_tree"/tests/preload/check-*.sh ;;
        *) grep -qE "\b$name\b" "$source_tree/${1%/*}/local.mk" ;;
        esac
        run_by_file[$1]=$?
    fi
    return "${run_by_file[$1]}"
}

# wrong_proof FILE NAME: why it is none
wrong_proof()
{
    local count
    if [ ! -f "$source_tree/$1" ]; then
        echo "no $1"
        return
    fi
    case $1 in
    docs/gpu-results.md)
        grep -F "| $2 | " "$results" | grep -q '| \(held\|denied\|as expected: .*\) |$' ||
            echo "$1 has no good row $2"
        return
        ;;
    man/*)
        grep -qF -- "$2" "$source_tree/$1" || echo "$1 does not say: $2"
        return
        ;;
    esac
    count=$(has_name "$source_tree/$1" "$2")
    case $1 in
    *.c | *.h)
        # Said what it is, and used.
        [ "$count" -ge 2 ] || echo "$1 has no $2, or never uses it"
        ;;
    *) [ "$count" -ge 1 ] || echo "$1 has no $2" ;;
    esac
}

# tell_proof ID FILE NAME: what is wrong with it, behind the id
tell_proof()
{
    local key=$2:$3
    case $2 in
    docs/gpu-results.md) key=$results:$3 ;;
    man/*) ;;
    *) [ ! -f "$source_tree/$2" ] || is_run "$2" || echo "$1: $2 is never run" ;;
    esac
    [ -n "${proofs[$key]+known}" ] || proofs[$key]=$(wrong_proof "$2" "$3")
    [ -z "${proofs[$key]}" ] || echo "$1: ${proofs[$key]}"
}

# quoted TEXT: what stands there in backquotes, as the array `words`
quoted()
{
    local rest=$1
    words=()
    while [[ $rest =~ \`([^\`]+)\`(.*) ]]; do
        words+=("${BASH_REMATCH[1]}")
        rest=${BASH_REMATCH[2]}
    done
}

# wrong_cases PAGE: all that is wrong with it, one line each
wrong_cases()
{
    local page=$1 id proof left extra word file count words
    diff <(sed -n '/^<!-- ids -->$/,/^<!-- end of ids -->$/p' "$page" | grep -oE '\bB[0-9]+\b') \
        <(sed -n 's/^| *\(B[0-9]*\) *|.*/\1/p' "$page") | grep '^[<>]' |
        sed 's/^< \(.*\)/\1 has no row in its place/; s/^> \(.*\)/\1 has a row too many/'
    while IFS='|' read -r _ id _ _ proof left extra; do
        id=${id// /}
        file=
        count=0
        [ -z "${extra// /}" ] || echo "$id: too many columns"
        quoted "$proof"
        for word in ${words[@]+"${words[@]}"}; do
            case $word in
            tests/* | docs/* | man/*) file=$word ;;
            *)
                count=$((count + 1))
                tell_proof "$id" "$file" "$word"
                ;;
            esac
        done
        quoted "${left##*Waits}"
        for word in ${words[@]+"${words[@]}"}; do
            case $capabilities in
            *" $word "*) count=$((count + 1)) ;;
            *) [[ $left != *Waits* ]] || echo "$id: no later capability: $word" ;;
            esac
        done
        [ "$count" -gt 0 ] || [[ $left == *Open* ]] || echo "$id: nothing proves it"
    done < <(grep -E '^\| *B[0-9]+ *\|' "$page")
}

wrong_cases "$cases" >"$work/wrong" # in this shell, so that what it finds out is kept
wrong=$(<"$work/wrong")
if [ "$(grep -cE '^\| *B[0-9]+ *\|' "$cases")" -lt 80 ]; then
    not_ok field-cases-exist "too few rows"
elif [ -n "$wrong" ]; then
    not_ok field-cases-exist "$(printf '%s' "$wrong" | tr '\n' ';')"
else
    ok field-cases-exist
fi

# spoilt NAME PATTERN SED: the page, changed so, is found out
spoilt()
{
    sed "$3" "$cases" >"$work/spoilt"
    if cmp -s "$cases" "$work/spoilt"; then
        not_ok "$1" "$3 changes nothing"
    elif wrong=$(wrong_cases "$work/spoilt") && grep -q "$2" <<<"$wrong"; then
        ok "$1"
    else
        not_ok "$1" "spoilt, and the check says: ${wrong:-nothing}"
    fi
}
spoilt field-cases-lack-a-row 'B05 has no row' '/^| B05 |/d'
spoilt field-cases-twice 'B05 has a row too many' '/^| B05 |/p'
spoilt field-cases-no-file 'B05: no tests/preload/check-rice.sh' 's/check-race\.sh/check-rice.sh/'
spoilt field-cases-no-function 'B05: .* has no test_race_for_the_last_byte' \
    's/test_race_for_the_last_bite/test_race_for_the_last_byte/'
spoilt field-cases-no-part 'B05: .* has no race-$kin$' 's/`race-$kind`/`race-$kin`/'
spoilt field-cases-not-run 'B05: tests/programs/gpu_watch.c is never run' \
    '/^| B05 /s/tests.programs.budget_handles.c/tests\/programs\/gpu_watch.c/'
spoilt field-cases-no-gpu-row 'no good row escape: nothing' 's/`escape: async`/`escape: nothing`/'
# A row that has failed proves nothing.
results=$work/results
sed '/^| escape: async |/s/| held |$/| FAILED: x |/' "$source_tree/docs/gpu-results.md" >"$results"
if wrong_cases "$cases" | grep -q 'no good row escape: async$'; then
    ok field-cases-bad-gpu-row
else
    not_ok field-cases-bad-gpu-row "a failed row is taken for a proof"
fi
results=$source_tree/docs/gpu-results.md
spoilt field-cases-no-words 'does not say' 's/`Zero is an error.`/`Zero is no error.`/'
spoilt field-cases-no-capability 'B14: no later capability' 's/`ceiling file`$/`a file`/;s/`ceiling file` |$/`a file` |/'
spoilt field-cases-no-proof 'B05: nothing proves it' 's/^| B05 .*/| B05 | a | b | c | d |/'

# --- docs/gpu-results.md: what ran, and as many rows as its sum says
# wrong_results PAGE: all that is wrong with it, one line each
wrong_results()
{
    grep -qE '^gpubudget [0-9]+\.[0-9]+\.[0-9]+(, commit [0-9a-f]{7,40}\+?)?\. Written by ' "$1" ||
        echo "it does not say what ran"
    awk -F ' *[|] *' '
        / good, [0-9]+ bad, [0-9]+ skipped or not yet\.$/ {
            match($0, /[0-9]+ good, .*/)
            split(substr($0, RSTART), sum, /[^0-9]+/)
        }
        /^\| (case|---) / || !/^\| / { next }
        NF != 8 { print "not six columns: " $0 }
        $7 ~ /^(held|denied|as expected: .*)$/ { good++; next }
        $7 ~ /^FAILED: / { bad++; next }
        $7 ~ /^(skipped|not yet|another card): / { skipped++; next }
        { print "no verdict: " $0 }
        END {
            if (sum[1] == "" || sum[1] != good + 0 || sum[2] != bad + 0 || sum[3] != skipped + 0) {
                print "its sum is another: " good + 0 " good, " bad + 0 " bad, " skipped + 0
            }
        }' "$1"
}

results=$source_tree/docs/gpu-results.md
wrong=$(wrong_results "$results")
if [ -z "$wrong" ]; then ok gpu-results; else not_ok gpu-results "$(tr '\n' ';' <<<"$wrong")"; fi
for spoil in 's/^gpubudget .*/gpubudget, yesterday. Written by me./' '/^| escape: direct /d' \
    's/| held |$/| fine |/' 's/^\(| escape: async | [0-9]*\) |/\1/'; do
    sed "$spoil" "$results" >"$work/spoilt"
    if ! cmp -s "$results" "$work/spoilt" && [ -n "$(wrong_results "$work/spoilt")" ]; then
        ok "gpu-results-spoilt $spoil"
    else
        not_ok "gpu-results-spoilt $spoil" "not found out"
    fi
done
sed '0,/^gpubudget [0-9.]*[0-9]/s//&, commit 0123abc+/' "$results" >"$work/spoilt"
wrong=$(wrong_results "$work/spoilt")
if [ -z "$wrong" ]; then ok gpu-results-commit; else not_ok gpu-results-commit "$wrong"; fi
finish
