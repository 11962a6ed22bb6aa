#!/bin/bash
# check-ctl.sh: gpubudget-ctl shows the jobs of a machine, changes a limit while they run, and takes
# away what ended ones have left.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"
# shellcheck source=tests/preload/job.sh
. "$(dirname "${BASH_SOURCE[0]}")/job.sh"

ctl=$build/gpubudget-ctl
as=()
# Where root becomes a directory's owner a leak checker may not look at the process any more.
leaks=ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0

# ctl_says LABEL STATUS PATTERN ARGUMENT...: all it writes is one line that matches, or nothing for ''.
ctl_says()
{
    local label=$1 status=$2 pattern=$3 is
    shift 3
    ${as[@]+"${as[@]}"} env "$leaks" "$ctl" "$@" >"$work/said" 2>&1
    is=$?
    if [ $is -ne "$status" ]; then
        not_ok "$label" "status $is, not $status: $(head -n 2 "$work/said")"
    elif [ -z "$pattern" ] && [ -s "$work/said" ]; then
        not_ok "$label" "says $(head -n 2 "$work/said")"
    elif [ -n "$pattern" ] && { [ "$(wc -l <"$work/said")" -ne 1 ] || ! grep -qE "$pattern" "$work/said"; }; then
        not_ok "$label" "$(head -n 3 "$work/said")"
    else
        ok "$label"
    fi
}

uuid='GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'
exact=(GPUBUDGET_CHARGE=requested GPUBUDGET_JOB=j GPUBUDGET_JOB_LIMIT=1000MiB)

# ---- words
"$ctl" --help | grep -q '^Usage: gpubudget-ctl' && ok help
"$ctl" -V | grep -q '^gpubudget-ctl (gpubudget) [0-9]' && ok version
for wrong in '' 'nonsense' 'list a b' 'set j' 'set j 1GiB x' 'clean j' '--nonsense'; do
    # shellcheck disable=SC2086
    "$ctl" $wrong >"$work/said" 2>&1
    if [ $? -eq 2 ] && grep -q "^Try 'gpubudget-ctl --help'" "$work/said"; then
        ok "usage($wrong)"
    else
        not_ok "usage($wrong)" "$(cat "$work/said")"
    fi
done
ctl_says no-directory 0 '' list
[ ! -e "$GPUBUDGET_STATE_DIR" ] || not_ok looks-only 'the directory was made'
ctl_says no-directory-job 1 "$GPUBUDGET_STATE_DIR does not exist\$" list j
ctl_says no-directory-clean 0 '' clean
ctl_says relative 1 'nowhere is no absolute path' -d nowhere list
as=(env GPUBUDGET_STATE_DIR=)
ctl_says empty 1 'directory "" is no absolute path' list
as=()
ctl_says bad-name 1 'is no name' list a/b

# ---- list
start a "${exact[@]}"
start b "${exact[@]}"
says list-takes a 'take sync 600' granted
ctl_says list 0 "^j $uuid: 600 MiB of 1000 MiB used, 400 MiB free, 2 processes\$" list
ctl_says list-one 0 "^j $uuid: 600 MiB of 1000 MiB used, 400 MiB free, 2 processes\$" list j
ctl_says list-unknown 1 'k.job is not there' list k
"$ctl" -p list >"$work/said"
if grep -q "^  process ${pids[a]}: 600 MiB used, job_worker$" "$work/said" &&
    grep -q "^  process ${pids[b]}: 0 .* used, job_worker$" "$work/said"; then
    ok list-processes
else
    not_ok list-processes "$(cat "$work/said")"
fi
"$ctl" -d "$GPUBUDGET_STATE_DIR/" -p list >"$work/said-too"
if diff "$work/said" "$work/said-too" >"$work/diff"; then ok list-slash; else
    not_ok list-slash "$(head -n 4 "$work/diff")"
fi
if command -v python3 >/dev/null; then
    if "$ctl" --json -p list | python3 -c '
import json, sys
(one,) = json.load(sys.stdin)
assert one["job"] == "j" and one["limit"] == 1000 << 20 and one["used"] == 600 << 20, one
assert one["free"] == 400 << 20 and sorted(p["used"] for p in one["processes"]) == [0, 600 << 20]
'; then ok json; else not_ok json "$("$ctl" --json -p list)"; fi
    "$ctl" --json list | python3 -c 'import json, sys; assert json.load(sys.stdin)[0]["processes"] == 2' &&
        ok json-short
    "$ctl" --json -d "$work/nowhere" list | python3 -c 'import json, sys; assert json.load(sys.stdin) == []' &&
        ok json-nothing
fi
kills a
ctl_says list-killed 0 "^j $uuid: 0 .* of 1000 MiB used, 1000 MiB free, 1 process\$" list
start a "${exact[@]}" GPUBUDGET_JOB=sight GPUBUDGET_JOB_LIMIT=none GPUBUDGET_LIMIT=1GiB
ctl_says list-no-limit 0 "^sight $uuid: 0 .* of no limit used, the card's free, 1 process\$" list sight
ctl_says set-no-limit 0 "^sight $uuid: 300 MiB\$" set sight 300MiB
says set-no-limit-told a info 'info 300 300'
says set-no-limit-holds a 'take sync 301' 'refused 2'
ctl_says set-none 0 "^sight $uuid: none\$" set sight none
says set-none-told a 'take sync 600' granted
ends a
# Looking takes no memory: what nobody has had is not there, on a file system in memory either.
memory=$(mktemp -d /dev/shm/gpubudget-test.XXXXXX 2>/dev/null)
if [ -n "$memory" ]; then
    start a "${exact[@]}" GPUBUDGET_STATE_DIR="$memory"
    before=$(stat -c %b "$memory/j.job")
    "$ctl" -d "$memory" -p list >/dev/null
    after=$(stat -c %b "$memory/j.job")
    if [ "$before" -eq "$after" ]; then ok list-takes-nothing; else
        not_ok list-takes-nothing "$before blocks, then $after"
    fi
    ends a
    rm -rf "$memory"
else
    skip list-takes-nothing 'no /dev/shm'
fi

# ---- set
says set-takes b 'take sync 600' granted
ctl_says set-lower 0 "^j $uuid: 700 MiB\$" set j 700MiB
says set-lower-told b info 'info 100 700'
says set-lower-holds b 'take sync 101' 'refused 2'
says set-lower-rest b 'take sync 100' granted
"$ctl" set j 500MiB >"$work/said"
grep -q "^j $uuid: 700 MiB are used; nothing is taken away, and nothing more is granted\$" -E "$work/said" &&
    ok set-below-used
says set-below-used-told b info 'info 0 500'
says set-below-used-refused b 'take sync 1' 'refused 2'
ctl_says set-again 0 "^j $uuid: 800 MiB\$" set j 800MiB
start a "${exact[@]}"
says set-stays b 'take sync 101' 'refused 2'
ctl_says set-first 0 "^j $uuid: 1000 MiB\$" set j 1000MiB
says set-first-holds a 'take sync 300' granted
ends a
ctl_says set-by-uuid 0 "^j $uuid: 800 MiB\$" set j "$("$ctl" list j | awk '{ print $2 }' | sed 's/:$//')=800MiB"
ctl_says set-other-uuid 1 'no device that "GPU-ffff=1GiB" names' set j GPU-ffff=1GiB
ctl_says set-ordinal 1 '"0=1GiB": a job knows its devices by UUID alone' set j 0=1GiB
ctl_says set-percent 1 '"50%": how large the card is is not known here' set j 50%
ctl_says set-nonsense 1 '"8x"' set j 8x
ctl_says set-unknown 1 'k.job is not there' set k 1GiB
if [ "$(id -u)" -eq 0 ]; then
    ctl_says set-root-raises 0 "^j $uuid: 2 GiB\$" set j 2GiB
    start a "${exact[@]}"
    says set-root-raised a 'take sync 1200' granted
    ends a
fi
ends b

# The owner may not raise it above what the job began with. Needs another user, who can get here.
away=$(mktemp -d /tmp/gpubudget-test.XXXXXX)
as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if [ "$(id -u)" -eq 0 ] && chown 65534 "$away" && "${as[@]}" test -x "$ctl" 2>/dev/null &&
    "${as[@]}" test -r "$preload" && "${as[@]}" "$ctl" -V >/dev/null 2>&1; then
    launcher="${as[*]}" start a "${exact[@]}" GPUBUDGET_STATE_DIR="$away"
    ctl_says owner-lists 0 "^j $uuid: 0 .* of 1000 MiB used" -d "$away" list
    ctl_says owner-lowers 0 "^j $uuid: 500 MiB\$" -d "$away" set j 500MiB
    ctl_says owner-raises 0 "^j $uuid: 1000 MiB\$" -d "$away" set j 1000MiB
    ctl_says owner-no-more 1 '2 GiB is more than the 1000 MiB that the job began with; only root' -d "$away" set j 2GiB
    ctl_says owner-not-none 1 'none is more than the 1000 MiB' -d "$away" set j none
    as=()
    ctl_says root-looks 0 "^j $uuid: 0 .* of 1000 MiB used" -d "$away" list
    ctl_says root-raises 0 "^j $uuid: 2 GiB\$" -d "$away" set j 2GiB
    says root-raised a 'take sync 1500' granted
    as=(setpriv --reuid=65533 --regid=65533 --clear-groups)
    ctl_says others-do-not 1 'cannot be opened|belongs to another user' -d "$away" list
    as=()
    ends a
    # Root does there what the owner could.
    chmod 500 "$away"
    ctl_says root-as-owner 0 '^removed 0 of 1$' -d "$away" clean
    chmod 700 "$away"
    ctl_says root-cleans 0 '^removed 1 of 1$' -d "$away" clean
else
    as=()
    skip owner 'no second user here'
fi
rm -rf "$away"

# ---- what is no ledger
fresh
echo x >"$GPUBUDGET_STATE_DIR/bad.job" && chmod 600 "$GPUBUDGET_STATE_DIR/bad.job"
ctl_says bad-ledger 1 'bad.job is no ledger of a job' list
ctl_says bad-set 1 'bad.job is no ledger of a job' set bad 1GiB
: >"$GPUBUDGET_STATE_DIR/no-job"
# Its maker was killed.
: >"$GPUBUDGET_STATE_DIR/bad.job"
ctl_says unmade 0 '' list
ctl_says unmade-named 1 'bad.job is not made yet' list bad
ctl_says unmade-clean 0 '^removed 1 of 1$' clean
ln -s nowhere "$GPUBUDGET_STATE_DIR/bad.job"
ctl_says link 1 'bad.job is a link' list
ctl_says link-clean 0 '^removed 0 of 1$' clean
rm "$GPUBUDGET_STATE_DIR/bad.job"
ctl_says other-files 0 '' list

# ---- clean
start a "${exact[@]}"
start b "${exact[@]}" GPUBUDGET_JOB=k
kills b
ctl_says clean 0 '^removed 1 of 2$' clean
ctl_says clean-lives 0 "^j $uuid" list
says clean-counts a 'fill sync 100' 'filled 10 2'
ends a
ctl_says clean-ended 0 '^removed 1 of 1$' clean
# Those of single processes are taken away by later ones.
for ((i = 0; i < 3; i++)); do
    start a GPUBUDGET_LIMIT=1GiB
    ends a
done
count=$(find "$GPUBUDGET_STATE_DIR" -name 'pid-*.job' | wc -l)
if [ "$count" -eq 1 ]; then ok clean-some; else not_ok clean-some "$count are there"; fi
# Beside processes that join: each has its budget, none is lost, and who looks has no complaint.
(while [ ! -e "$work/over" ]; do "$ctl" clean && "$ctl" -p list || echo 'a failure' >&2; done \
    >/dev/null 2>"$work/cleaner.err") &
wrong=
for ((i = 0; i < 40; i++)); do
    start a "${exact[@]}"
    tells a 'fill sync 100'
    [ "$answer" = 'filled 10 2' ] || wrong+="$answer "
    [ ! -s "$work/a.err" ] || grep -q 'used by job j' "$work/a.err" || wrong+="$(cat "$work/a.err") "
    ends a
done
: >"$work/over"
wait
if [ -z "$wrong" ] && [ ! -s "$work/cleaner.err" ]; then ok clean-beside-joiners; else
    not_ok clean-beside-joiners "$wrong $(head -n 2 "$work/cleaner.err")"
fi
finish
