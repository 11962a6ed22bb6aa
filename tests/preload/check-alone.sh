#!/bin/bash
# check-alone.sh: a process with a budget shares nothing with others but the ledger of its job, a
# file: it asks no daemon, takes no other lock and leaves no other file, so nothing that becomes of
# one process is another's concern.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"

take=$build/tests/programs/take
if [ ! -x "$take" ]; then
    skip everything "no $take: run make first"
    finish
fi
mkdir -p "$work/home/tmp"
cd "$work/home" || exit 99
export HOME=$work/home TMPDIR=$work/home/tmp XDG_RUNTIME_DIR=$work/home/tmp
export LD_LIBRARY_PATH=$build/tests/standin/13.0 GPUSTANDIN_MEMORY=4G
ours=("LD_PRELOAD=$sanitizer$preload" GPUBUDGET_LIMIT=1GiB GPUBUDGET_CHARGE=requested)
# traced TRACE CHARGE [OPTION]... COMMAND...: under the preload
traced()
{
    local trace=$1 charge=$2
    shift 2
    strace -f -o "$trace" -E "${ours[0]}" -E "${ours[1]}" -E "GPUBUDGET_CHARGE=$charge" "$@"
}
# Four are granted, the rest refused.
work_done=("$take" --bite 256 --count 8)

# granted FILE: how often
granted()
{
    grep -c '^bite .* granted$' "$1"
}

# shared TRACE: the calls by which a process can touch what others see
shared()
{
    sed 's/^[0-9]* *//' "$1" | grep -E "$(printf '%s' \
        '^(socket|connect|bind|listen|flock|sem|shm|msg|mq_|memfd|mkdir|rmdir|unlink|rename' \
        '|link|symlink|mknod|chmod|fchmod|truncate|ftruncate|utime|inotify|kill|tgkill|ptrace)' \
        '|O_WRONLY|O_RDWR|O_CREAT|F_SETLK|F_OFD|MAP_SHARED')" |
        grep -vE 'MAP_SHARED.*= -1 E|PROT_READ, MAP_SHARED.*ld\.so\.cache' |
        sed 's/0x[0-9a-f]*/ADDRESS/g; s/ = .*//' | sort -u
}

# What the ledger needs: its directory and its file, made and named, and locks and mappings of that.
of_the_ledger="^> ((mkdir|openat|unlink)\(.*$GPUBUDGET_STATE_DIR|fcntl\([0-9]*, F_OFD_|f(truncate|chmod)\([0-9]*, |mmap\(NULL, .*MAP_SHARED, [0-9])"
can_trace=
if command -v strace >/dev/null && [ -z "$sanitizer" ]; then
    strace -f -o probe true 2>/dev/null && [ -s probe ] && can_trace=1
    rm -f probe
fi
if [ -n "$can_trace" ]; then
    strace -f -o "$work/plain" "${work_done[@]}" >"$work/plain.out" 2>&1
    shared "$work/plain" >"$work/plain.shared"
    for charge in requested footprint; do
        traced "$work/armed" $charge "${work_done[@]}" >"$work/armed.out" 2>&1
        shared "$work/armed" >"$work/armed.shared"
        if ! grep -q ' of 1024 MiB$' "$work/armed.out" || ! grep -q libgpubudget "$work/armed"; then
            not_ok "shares-nothing-$charge" "no limit was in force: $(tail -n 1 "$work/armed.out")"
        elif diff "$work/plain.shared" "$work/armed.shared" | grep '^[<>]' |
            grep -vE "$of_the_ledger" >"$work/diff"; then
            not_ok "shares-nothing-$charge" "$(head -n 3 "$work/diff" | tr '\n' ' ')"
        elif ! grep -q "^openat.*$GPUBUDGET_STATE_DIR/pid-" "$work/armed.shared"; then
            not_ok "shares-nothing-$charge" 'no ledger'
        else
            ok "shares-nothing-$charge"
        fi
    done
    GPUBUDGET_STATE_DIR=/dev/null/nowhere traced "$work/armed" requested "${work_done[@]}" \
        >"$work/armed.out" 2>&1
    shared "$work/armed" | grep -v nowhere >"$work/armed.shared"
    if ! grep -q ' of 1024 MiB$' "$work/armed.out"; then
        not_ok shares-nothing-at-all "no limit was in force: $(tail -n 1 "$work/armed.out")"
    elif ! diff "$work/plain.shared" "$work/armed.shared" >"$work/diff"; then
        not_ok shares-nothing-at-all "$(grep '^[<>]' "$work/diff" | head -n 3 | tr '\n' ' ')"
    else
        ok shares-nothing-at-all
    fi
    # What it is able to see.
    strace -f -o "$work/sees" sh -c 'exec 3>seen; mkdir seen.d' 2>/dev/null
    if [ "$(shared "$work/sees" | grep -c seen)" -eq 2 ]; then ok sees-sharing; else
        not_ok sees-sharing "$(shared "$work/sees" | tr '\n' ' ')"
    fi
    rm -rf seen seen.d

    # Killed at every stage of its start and of its work: the next one notices nothing.
    wrong=
    stages=0
    for call in openat mmap close read write; do
        for n in 1 2 3 5 8 12 17 23 30; do
            # In a shell of its own, which would tell of the end.
            (traced "$work/killed" requested -e "inject=$call:signal=SIGKILL:when=$n" \
                "${work_done[@]}" >"$work/out"; true) 2>/dev/null
            grep -q 'killed by SIGKILL' "$work/killed" && stages=$((stages + 1))
            env "${ours[@]}" "${work_done[@]}" >"$work/out" 2>"$work/err"
            [ "$(granted "$work/out")" -eq 4 ] || wrong+="after $call $n: $(tail -n 1 "$work/out") "
        done
    done
    if [ -n "$wrong" ] || [ $stages -lt 20 ]; then
        not_ok after-killed "$stages killed; $wrong"
    else
        ok after-killed
    fi
else
    for name in shares-nothing-requested shares-nothing-footprint sees-sharing after-killed; do skip $name "no strace that works"; done
fi

# Two dozen at once, half of which are killed while they hold their memory: the others go on, and
# whoever comes then has its whole budget.
count=24
mkfifo "$work/gate"
exec 9<>"$work/gate" # all of them wait until this is closed
pids=()
for i in $(seq $count); do
    env "${ours[@]}" "${work_done[@]}" --hold <"$work/gate" >"$work/out.$i" 2>/dev/null 9>&- &
    pids[i]=$!
done
for i in $(seq $count); do
    for _ in $(seq 600); do
        grep -q '^holding' "$work/out.$i" && break
        sleep 0.1
    done
done
for i in $(seq 1 2 $count); do
    disown "${pids[i]}" # so that the shell does not tell of its end
    kill -9 "${pids[i]}"
done
env "${ours[@]}" "${work_done[@]}" >"$work/between" 2>/dev/null
wrong=
[ "$(granted "$work/between")" -eq 4 ] || wrong="between: $(tail -n 1 "$work/between")"
exec 9>&-
for i in $(seq 2 2 $count); do
    wait "${pids[i]}"
    status=$?
    if [ $status -ne 0 ] || ! grep -q '^one more: .* granted$' "$work/out.$i"; then
        wrong+=" $i: status $status, $(tail -n 1 "$work/out.$i")"
    fi
done
if [ -z "$wrong" ]; then ok beside-killed; else not_ok beside-killed "$wrong"; fi

left=$(find "$work/home" -mindepth 1 ! -path "$work/home/tmp"; find /dev/shm /tmp -maxdepth 1 \
    -iname '*gpubudget*' ! -name 'gpubudget-test.*' ! -name "gpubudget-$(id -u)" \
    -newer "$work/home" 2>/dev/null)
if [ -z "$left" ]; then ok leaves-nothing; else not_ok leaves-nothing "$left"; fi
finish
