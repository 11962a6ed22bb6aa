#!/bin/bash
# check-job.sh: the processes of a job share one budget on a device, on top of their own limits,
# however they begin and end.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"
# shellcheck source=tests/preload/job.sh
. "$(dirname "${BASH_SOURCE[0]}")/job.sh"

# ---- what all together may take

exact=(GPUBUDGET_CHARGE=requested GPUBUDGET_JOB=j GPUBUDGET_JOB_LIMIT=1000MiB)
for kind in sync async; do
    start a "${exact[@]}"
    start b "${exact[@]}"
    says "$kind-first" a "take $kind 600" granted
    says "$kind-second" b "take $kind 401" 'refused 2'
    says "$kind-rest" b "take $kind 400" granted
    says "$kind-told" a info 'info 0 1000'
    says "$kind-told-other" b info 'info 0 1000'
    says "$kind-full" a "take $kind 1" 'refused 2'
    says "$kind-drop" b 'drop 1' dropped
    # Where frees are ordered its process has to look whether they are done.
    says "$kind-looks" b info 'info 400 1000'
    says "$kind-given-back" a "take $kind 400" granted
    ends b
    kills a
    start a "${exact[@]}"
    says "$kind-after-the-end" a "fill $kind 100" 'filled 10 2'
    ends a
done

# A process's own limit stands below that of the job; another job and another user's limit are
# nobody's here.
start a "${exact[@]}" GPUBUDGET_LIMIT=300MiB
start b "${exact[@]}"
start other GPUBUDGET_CHARGE=requested GPUBUDGET_JOB=k GPUBUDGET_JOB_LIMIT=1000MiB
says own-limit a 'fill sync 50' 'filled 6 2'
says own-limit-told a info 'info 0 300'
says beside-own-limit b 'fill sync 50' 'filled 14 2'
says another-job other 'fill sync 50' 'filled 20 2'
ends a
ends b
ends other

# Who joins may make the limit smaller, for all, and not larger.
start a "${exact[@]}"
start b GPUBUDGET_CHARGE=requested GPUBUDGET_JOB=j GPUBUDGET_JOB_LIMIT=700MiB
says lowered a 'fill sync 100' 'filled 7 2'
says lowered-told a info 'info 0 700'
ends b
start b GPUBUDGET_CHARGE=requested GPUBUDGET_JOB=j GPUBUDGET_JOB_LIMIT=1GiB
says not-raised b 'take sync 1' 'refused 2'
ends a
ends b
fresh

# In footprint mode contexts and pools count: the sum stays within, and what is idle is nobody's.
start a GPUBUDGET_JOB=j GPUBUDGET_JOB_LIMIT=4GiB
start b GPUBUDGET_JOB=j GPUBUDGET_JOB_LIMIT=4GiB
says footprint-first a 'fill async 16'
says footprint-second b 'take async 16' 'refused 2'
used=$((4096 - $(figure a 1)))
if [ "$used" -le 4096 ] && [ "$used" -gt $((4096 - 32 - 16)) ]; then
    ok footprint-full
else
    not_ok footprint-full "$used MiB of 4096 MiB are used"
fi
says footprint-dropped a 'drop -1' dropped
says footprint-idle b 'take async 1024' granted
ends a
ends b

# ---- who is counted in which job

start a GPUBUDGET_CHARGE=requested SLURM_JOB_ID=5 GPUBUDGET_JOB_LIMIT=500MiB
start b GPUBUDGET_CHARGE=requested SLURM_JOB_ID=5 GPUBUDGET_JOB_LIMIT=500MiB
start c GPUBUDGET_CHARGE=requested SLURM_JOB_ID=6 GPUBUDGET_JOB_LIMIT=500MiB
says scheduler a 'fill sync 100' 'filled 5 2'
says scheduler-task b 'take sync 1' 'refused 2'
says scheduler-other-job c 'fill sync 100' 'filled 5 2'
for name in a b c; do ends $name; done
start a GPUBUDGET_CHARGE=requested GPUBUDGET_JOB_LIMIT=500MiB
start b GPUBUDGET_CHARGE=requested GPUBUDGET_JOB_LIMIT=500MiB
says alone a 'fill sync 100' 'filled 5 2'
says alone-other b 'fill sync 100' 'filled 5 2'
for name in a b; do ends $name; done
start a GPUBUDGET_CHARGE=requested GPUBUDGET_JOB=n GPUBUDGET_LIMIT=none
says counted-only a 'take sync 9000' granted
says counted-only-told a info
[ "$(figure a 2)" -eq 16384 ] || not_ok counted-only-total "$answer"
ends a

# The words.
start a GPUBUDGET_LIMIT=none GPUBUDGET_JOB=words GPUBUDGET_JOB_LIMIT=2GiB
start b GPUBUDGET_LIMIT=none GPUBUDGET_JOB=words GPUBUDGET_JOB_LIMIT=2GiB
says words-first a 'take sync 900' granted
says words-refused b 'take sync 900' 'refused 2'
says words-again b 'take sync 900' 'refused 2'
hears words b "^gpubudget: GPU 0 (GPU-[0-9a-f]*): refused 900 MiB (cuMemAlloc): 1\\.9 of 2\\.0 GiB \
used by job words (here: program 0\\.0, context 0\\.5, other 0\\.0); limit from \
GPUBUDGET_JOB_LIMIT\\. This is the job's budget, not the card\\. Programs often free memory and \
retry\\.\$"
ends a
ends b
start a GPUBUDGET_LIMIT=1GiB GPUBUDGET_LOG=info GPUBUDGET_JOB=sight GPUBUDGET_JOB_LIMIT=none
says in-force a info
if grep -q 'GPU 0 .*: job sight, limit none$' "$work/a.err"; then
    ok in-force-words
else
    not_ok in-force-words "$(cat "$work/a.err")"
fi
ends a

# ---- what NVML tells another process of the job, which has no CUDA, as nvidia-smi

# tells_nvml LABEL WANTED NAME=VALUE...
tells_nvml()
{
    local label=$1 wanted=$2
    shift 2
    program GPUBUDGET_CHARGE=requested "$@" "$programs/nvml_linked"
    if [ "$(cat "$work/out")" = "$wanted" ] && [ ! -s "$work/err" ]; then
        ok "$label"
    else
        not_ok "$label" "$(cat "$work/out" "$work/err"), not $wanted"
    fi
}
nvml_limit=(GPUBUDGET_JOB=nvml GPUBUDGET_JOB_LIMIT=1000MiB)
tells_nvml nvml-before '0: 1000 1000 0; 1000 1000 0 0' "${nvml_limit[@]}"
start a GPUBUDGET_CHARGE=requested "${nvml_limit[@]}"
says nvml-takes a 'take sync 600' granted
tells_nvml nvml-used '0: 1000 400 600; 1000 400 600 0' "${nvml_limit[@]}"
tells_nvml nvml-own-limit '0: 700 100 600; 700 100 600 0' "${nvml_limit[@]}" GPUBUDGET_LIMIT=700MiB
tells_nvml nvml-of-the-ledger '0: 1000 400 600; 1000 400 600 0' GPUBUDGET_JOB=nvml \
    GPUBUDGET_JOB_LIMIT=2GiB
tells_nvml nvml-another-job '0: 900 900 0; 900 900 0 0' GPUBUDGET_JOB=k GPUBUDGET_LIMIT=900MiB
kills a
tells_nvml nvml-killed '0: 1000 1000 0; 1000 1000 0 0' "${nvml_limit[@]}"
fresh
start a GPUBUDGET_CHARGE=requested GPUBUDGET_JOB=nvml GPUBUDGET_LIMIT=800MiB
says nvml-no-job-limit a 'take sync 300' granted
tells_nvml nvml-sight '0: 800 500 300; 800 500 300 0' GPUBUDGET_JOB=nvml GPUBUDGET_LIMIT=800MiB
ends a

# ---- however they end

start b "${exact[@]}"
for way in kill stop-kill fork rawfork close exec; do
    start a "${exact[@]}"
    says "$way-takes" a 'fill sync 100' 'filled 10 2'
    says "$way-full" b 'take sync 1' 'refused 2'
    children=
    case $way in
    stop-kill)
        kill -STOP "${pids[a]}"
        says stop-holds b 'take sync 1' 'refused 2'
        kills a
        ;;
    fork | rawfork)
        says "$way" a $way
        children=${answer#child }
        kills a
        ;;
    close)
        says close a close closed
        says close-holds b 'take sync 1' 'refused 2'
        kills a
        ;;
    exec)
        says exec a exec
        says exec-anew a info 'info 1000 1000'
        ;;
    kill) kills a ;;
    esac
    says "$way-gone" b 'take sync 1000' granted
    says "$way-drop" b 'drop 1' dropped
    [ -z "$children" ] || kill -9 "$children"
    [ "$way" != exec ] || ends a
done
ends b

# A killed process's memory may come back to the card after its lock is free: the driver is asked
# again for a while.
start a "${exact[@]}"
says late-takes a 'fill sync 100' 'filled 10 2'
start b "${exact[@]}" GPUSTANDIN_FAULTS=cuMemAlloc_v2:1:2,cuMemAlloc_v2:2:2,cuMemAlloc_v2:3:2
kills a
says late-comes b 'take sync 1000' granted
ends b
fresh
start b "${exact[@]}" GPUSTANDIN_FAULTS=cuMemAlloc_v2:1:2
says not-late b 'take sync 1000' 'refused 2'
ends b

# Four that fill it, one of which is killed. What all held is gone with them.
program GPUBUDGET_LOG=error GPUBUDGET_JOB=four GPUBUDGET_JOB_LIMIT=8GiB "$programs/budget_job" 8192
take_cases four $?

# ---- bad states

refused_with()
{
    local label=$1 wanted=$2
    shift 2
    start a GPUBUDGET_CHARGE=requested GPUBUDGET_JOB=j "$@" GPUBUDGET_LIMIT=500MiB
    says "$label-without-limit" a 'fill sync 100' 'filled 5 2'
    ends a
    program GPUBUDGET_CHARGE=requested GPUBUDGET_JOB=j "$@" GPUBUDGET_JOB_LIMIT=500MiB \
        "$programs/job_worker" </dev/null
    if [ "$(cat "$work/out")" = 'failed 800' ] && [ "$(wc -l <"$work/err")" -eq 1 ] &&
        grep -q "the job's budget cannot be kept: $wanted" "$work/err"; then
        ok "$label"
    else
        not_ok "$label" "$(cat "$work/out" "$work/err")"
    fi
    program GPUBUDGET_CHARGE=requested GPUBUDGET_JOB=j "$@" GPUBUDGET_JOB_LIMIT=500MiB \
        GPUBUDGET_ON_ERROR=allow "$programs/job_worker" </dev/null
    if grep -q '^ready' "$work/out"; then
        ok "$label-allowed"
    else
        not_ok "$label-allowed" "$(cat "$work/out" "$work/err")"
    fi
}

state=$work/bad
mkdir -m 700 "$state"
mkdir -m 755 "$work/open"
ln -s "$state" "$work/link"
: >"$work/file"
refused_with directory-is-open "$work/open is open to other users" GPUBUDGET_STATE_DIR="$work/open"
refused_with directory-is-a-link "$work/link is a link, or no directory" GPUBUDGET_STATE_DIR="$work/link"
refused_with directory-is-a-file "$work/file is a link, or no directory" GPUBUDGET_STATE_DIR="$work/file"
refused_with directory-cannot-be "/proc/nowhere does not exist and cannot be made" GPUBUDGET_STATE_DIR=/proc/nowhere
for what in garbage short link fifo; do
    rm -f "$state/j.job"
    case $what in
    garbage) head -c 590912 /dev/urandom >"$state/j.job" ;;
    short) echo x >"$state/j.job" ;;
    link) : >"$work/elsewhere" && ln -s "$work/elsewhere" "$state/j.job" ;;
    fifo) mkfifo "$state/j.job" ;;
    esac
    chmod 600 "$state/j.job"
    refused_with "file-is-$what" "$state/j.job " GPUBUDGET_STATE_DIR="$state"
done

# The ledger is removed while the job runs: later processes have another one, so the earlier ones
# are given nothing more.
start a "${exact[@]}"
says removed-before a 'take sync 100' granted
rm "$GPUBUDGET_STATE_DIR/j.job"
sleep 0.2
says removed a 'take sync 100' 'refused 2'
says removed-again a 'take sync 100' 'refused 2'
hears removed-words a "j\\.job, where the processes of job j are counted, has been removed"
says removed-drop a 'drop 1' dropped
start b "${exact[@]}"
says removed-later b 'fill sync 100' 'filled 10 2'
ends a
ends b

# ---- the directory that root has made for a scheduler's job

prolog=/run/gpubudget
if [ "$(id -u)" -eq 0 ] && [ ! -e $prolog ] && mkdir -p $prolog/4711.d 2>/dev/null; then
    chmod 755 $prolog && chmod 700 $prolog/4711.d
    saved=$GPUBUDGET_STATE_DIR
    unset GPUBUDGET_STATE_DIR
    start a GPUBUDGET_CHARGE=requested SLURM_JOB_ID=4711 GPUBUDGET_JOB_LIMIT=500MiB
    if [ -f $prolog/4711.d/slurm-4711.job ]; then ok prolog; else not_ok prolog "$(ls -R $prolog)"; fi
    ends a
    export GPUBUDGET_STATE_DIR=$saved
    rm -r $prolog
else
    skip prolog 'not root, or there is one'
fi

# ---- namespaces

if unshare --pid --fork --mount-proc true 2>/dev/null; then
    start a "${exact[@]}"
    launcher='unshare --pid --fork --mount-proc' start b "${exact[@]}"
    says namespace-first a 'take sync 600' granted
    says namespace-second b 'take sync 401' 'refused 2'
    says namespace-rest b 'take sync 400' granted
    kills a
    says namespace-killed b 'take sync 600' granted
    ends b
    # As two containers that share the directory.
    launcher='unshare --pid --mount --ipc --uts --fork --kill-child --mount-proc' start a "${exact[@]}"
    launcher='unshare --pid --mount --ipc --uts --fork --kill-child --mount-proc' start b "${exact[@]}"
    says container-first a 'take sync 600' granted
    says container-second b 'take sync 401' 'refused 2'
    kills a # and with it, a moment later, the process inside
    for ((i = 0; i < 50; i++)); do
        tells b 'take sync 1000'
        [ "$answer" != granted ] || break
        sleep 0.1
    done
    says container-killed b info 'info 0 1000'
    ends b
else
    skip namespace 'no PID namespaces here'
fi
finish
