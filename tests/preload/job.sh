# job.sh: processes that are told what to do (job_worker.c), each by a name. Sourced after
# cases.sh and budget.sh, not run.
# shellcheck shell=bash
# shellcheck disable=SC2154

declare -A pids to from
launcher=
answer=

# start NAME NAME=VALUE...: a process under the preload, with a context.
start()
{
    local name=$1
    shift
    rm -f "$work/$name.in" "$work/$name.out"
    mkfifo "$work/$name.in" "$work/$name.out"
    # shellcheck disable=SC2086
    on_standin $launcher env LD_PRELOAD="$sanitizer$preload" "$@" "$programs/job_worker" \
        <"$work/$name.in" >"$work/$name.out" 2>"$work/$name.err" &
    started[$name]=$!
    exec {fd}>"$work/$name.in"
    to[$name]=$fd
    exec {fd}<"$work/$name.out"
    from[$name]=$fd
    answer=
    read -r -t 60 answer <&"${from[$name]}"
    pids[$name]=${answer#ready }
    case $answer in
    'ready '*) ;;
    *) not_ok "start-$name" "\"$answer\" $(head -n 2 "$work/$name.err")" ;;
    esac
    # In a namespace of its own it does not know what it is called here.
    [ -z "$launcher" ] || pids[$name]=$(pgrep -P "${started[$name]}")
}
declare -A started

# tells NAME LINE: its answer in $answer.
tells()
{
    printf '%s\n' "$2" >&"${to[$1]}"
    answer=
    read -r -t 60 answer <&"${from[$1]}" || answer='no answer'
}

# says LABEL NAME LINE [ANSWER]
says()
{
    tells "$2" "$3"
    if [ $# -lt 4 ] || [ "$answer" = "$4" ]; then
        ok "$1"
    else
        not_ok "$1" "$2 was told \"$3\": \"$answer\", not \"$4\""
    fi
}

# figure NAME N: the Nth figure that `info` tells.
figure()
{
    tells "$1" info
    # shellcheck disable=SC2086
    set -- $answer "$2"
    local which=$4
    shift "$which"
    echo "$1"
}

# hears LABEL NAME PATTERN: its one line on standard error.
hears()
{
    if [ "$(wc -l <"$work/$2.err")" -eq 1 ] && grep -q "$3" "$work/$2.err"; then
        ok "$1"
    else
        not_ok "$1" "$2 has said: $(cat "$work/$2.err")"
    fi
}

let_go()
{
    local fd=${to[$1]}
    exec {fd}>&-
    fd=${from[$1]}
    exec {fd}<&-
    wait "${started[$1]}" 2>/dev/null
}

ends()
{
    printf 'end\n' >&"${to[$1]}"
    let_go "$1"
}

kills()
{
    kill -9 "${pids[$1]}"
    let_go "$1"
}

# Nothing of the jobs so far.
fresh() { rm -f "$GPUBUDGET_STATE_DIR"/*.job; }
