#!/bin/bash
# check-settings.sh: settings, right and wrong, and what a program gets under them.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

# gets NAME LINES MESSAGE SETTING... [-- ARGUMENT...]: what budget_settings prints, and how the one
# line on stderr begins ("": none; refusals are not looked at).
gets()
{
    local name=$1 lines=$2 message=$3 settings=()
    shift 3
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    [ $# -eq 0 ] || shift
    program "${settings[@]}" "$programs/budget_settings" "$@"
    local status=$?
    grep -v ': refused \|: the card is full' "$work/err" >"$work/said"
    if [ $status -ne 0 ]; then
        not_ok "$name" "status $status: $(cat "$work/out" "$work/err" | tr '\n' ' ')"
    elif [ "$(cat "$work/out")" != "$lines" ]; then
        not_ok "$name" "$(diff <(echo "$lines") "$work/out" | grep '^[<>]' | tr '\n' ' ')"
    elif [ -z "$message" ] && [ -s "$work/said" ]; then
        not_ok "$name" "said: $(head -n 1 "$work/said")"
    elif [ -n "$message" ] && { [ "$(wc -l <"$work/said")" -ne 1 ] ||
        ! grep -qF "gpubudget: $message" "$work/said"; }; then
        not_ok "$name" "said $(wc -l <"$work/said") lines: $(head -n 1 "$work/said")"
    else
        ok "$name"
    fi
}

# device N TOTAL TAKEN: one that works; denied N: one that gives nothing.
device()
{
    echo "device $1 total $2 retain 0 create 0 alloc 0 async 0 taken $3 untouched"
}
denied()
{
    echo "device $1 total 16384 retain 800 create 800 alloc 800 async 800 taken 0 untouched"
}
one="init 0
count 1"
two="init 0
count 2"
denial='No GPU memory is given out until this is mended.'
asked=GPUBUDGET_CHARGE=requested
pair="GPUSTANDIN_DEVICES=2"

gets limit "$one
$(device 0 1024 1024)" '' GPUBUDGET_LIMIT=1GiB $asked
# A context is made beside the primary one, so less than that cannot be looked at here.
gets footprint "$one
$(device 0 2048 $(((2048 - context / mib) / 64 * 64)))" '' GPUBUDGET_LIMIT=2GiB
gets none "$one
$(device 0 16384 $(((16384 - context / mib) / 64 * 64)))" '' GPUBUDGET_LIMIT=none
gets nothing-set "$one
$(device 0 16384 $(((16384 - context / mib) / 64 * 64)))" '' NOTHING=1
gets percent "$one
$(device 0 2048 2048)" '' GPUBUDGET_LIMIT=12.5% $asked
gets reserve "$one
$(device 0 1024 768)" '' GPUBUDGET_LIMIT=1GiB GPUBUDGET_RESERVE=256MiB $asked
gets changed-too-late "$one
$(device 0 1024 1024)" '' GPUBUDGET_LIMIT=1GiB $asked -- GPUBUDGET_LIMIT=2GiB \
    GPUBUDGET_CAPACITY=physical GPUBUDGET_DISABLE=1
gets set-too-late "$one
$(device 0 16384 $(((16384 - context / mib) / 64 * 64)))" '' NOTHING=1 -- GPUBUDGET_LIMIT=1GiB
gets physical-capacity "$one
$(device 0 16384 1024)" '' GPUBUDGET_LIMIT=1GiB GPUBUDGET_CAPACITY=physical $asked
gets report-only "$one
$(device 0 1024 $(((16384 - context / mib) / 64 * 64)))" \
    'GPU 0 (GPU-5a1dc0de): over the limit: granted 64.0 MiB (cuMemAlloc)' GPUBUDGET_LIMIT=1GiB \
    GPUBUDGET_ON_LIMIT=report $asked

# Wrong: one line, and nothing is given out.
for wrong in 0 4096 -1GiB 1XB 101% 0% 1GiB,2GiB '1 GiB' '1GiB,' =1GiB abc; do
    gets "wrong-$wrong" "$one
$(denied 0)" 'GPUBUDGET_LIMIT: ' GPUBUDGET_LIMIT="$wrong"
    grep -qF "$denial" "$work/said" || not_ok "wrong-$wrong-line" "$(cat "$work/said")"
done
gets percent-of-nothing "$one
$(denied 0)" 'entry "0.001%" comes to less than 2 MiB of GPU 0 (GPU-5a1dc0de' GPUBUDGET_LIMIT=0.001%
gets percent-of-nothing-allowed "$one
$(device 0 16384 $(((16384 - context / mib) / 64 * 64)))" 'entry "0.001%" comes' \
    GPUBUDGET_LIMIT=0.001% GPUBUDGET_ON_ERROR=allow
reserved='GPUBUDGET_RESERVE: 2048 MiB leave nothing of the limit 10%, which is 1638 MiB of GPU 0;'
gets reserve-beyond-percent "$one
$(denied 0)" "$reserved" GPUBUDGET_LIMIT=10% GPUBUDGET_RESERVE=2GiB
gets reserve-beyond-percent-allowed "$one
$(device 0 16384 $(((16384 - context / mib) / 64 * 64)))" "$reserved" \
    GPUBUDGET_LIMIT=10% GPUBUDGET_RESERVE=2GiB GPUBUDGET_ON_ERROR=allow
gets empty "$one
$(denied 0)" 'GPUBUDGET_LIMIT' GPUBUDGET_LIMIT=
gets wrong-value "$one
$(denied 0)" 'GPUBUDGET_CHARGE' GPUBUDGET_LIMIT=1GiB GPUBUDGET_CHARGE=some
gets wrong-but-allowed "$one
$(device 0 16384 $(((16384 - context / mib) / 64 * 64)))" 'GPUBUDGET_LIMIT: ' \
    GPUBUDGET_LIMIT=4096 GPUBUDGET_ON_ERROR=allow
gets wrong-required "$one
$(denied 0)" 'GPUBUDGET_LIMIT: ' GPUBUDGET_LIMIT=4096 GPUBUDGET_ON_ERROR=allow GPUBUDGET_REQUIRE=1
gets unknown-name "$one
$(device 0 1024 1024)" 'GPUBUDGET_LIMTI is no setting' GPUBUDGET_LIMIT=1GiB GPUBUDGET_LIMTI=2GiB \
    $asked
gets unknown-name-alone "$one
$(denied 0)" 'GPUBUDGET_LIMTI is no setting' GPUBUDGET_LIMTI=2GiB
gets known-name-alone "$one
$(device 0 16384 $(((16384 - context / mib) / 64 * 64)))" '' GPUBUDGET_CHARGE=requested

# Required, disabled.
gets required "$one
$(denied 0)" 'GPUBUDGET_REQUIRE' GPUBUDGET_REQUIRE=1
gets required-none "$one
$(device 0 16384 $(((16384 - context / mib) / 64 * 64)))" '' GPUBUDGET_REQUIRE=1 GPUBUDGET_LIMIT=none
gets disabled "$one
$(device 0 16384 $(((16384 - context / mib) / 64 * 64)))" '' GPUBUDGET_LIMIT=1GiB GPUBUDGET_DISABLE=1
gets disabled-required "$one
$(denied 0)" 'GPUBUDGET_' GPUBUDGET_LIMIT=1GiB GPUBUDGET_DISABLE=1 GPUBUDGET_REQUIRE=1

# A limit for each device: by ordinal, beginning of the UUID, PCI address, and for the rest.
both="$two
$(device 0 1024 1024)
$(device 1 2048 2048)"
gets ordinals "$both" '' $pair GPUBUDGET_LIMIT=0=1GiB,1=2GiB $asked
gets uuids "$both" '' $pair GPUBUDGET_LIMIT=GPU-6b=2GiB,GPU-5a=1GiB $asked
gets addresses "$both" '' $pair GPUBUDGET_LIMIT=0000:0a:00.0=1GiB,0000:1A:00.0=2GiB $asked
gets default "$both" '' $pair GPUBUDGET_LIMIT=2GiB,0=1GiB $asked
gets star "$both" '' $pair 'GPUBUDGET_LIMIT=0=1GiB,*=2GiB' $asked
gets one-unlimited "$two
$(device 0 1024 1024)
$(device 1 16384 $(((16384 - context / mib) / 64 * 64)))" '' $pair GPUBUDGET_LIMIT=0=1GiB,1=none $asked
gets entry-missing "$two
$(denied 0)
$(denied 1)" 'GPU 1' $pair GPUBUDGET_LIMIT=0=1GiB
gets entry-twice "$two
$(denied 0)
$(denied 1)" 'entry ' $pair GPUBUDGET_LIMIT=0=1GiB,GPU-5a=2GiB,1=1GiB
gets entry-of-nothing "$two
$(denied 0)
$(denied 1)" 'GPUBUDGET_LIMIT: entry ' $pair GPUBUDGET_LIMIT=GPU-=1GiB
# The first and the last of sixteen cards are GPU-5a... and GPU-59...
gets entry-ambiguous "$two
$(denied 0)
$(denied 1)" 'entry ' GPUSTANDIN_DEVICES=16 CUDA_VISIBLE_DEVICES=0,15 GPUBUDGET_LIMIT=GPU-5=1GiB
gets entry-of-none "$both" 'entry ' $pair GPUBUDGET_LIMIT=0=1GiB,1=2GiB,7=4GiB $asked

# Which cards are visible, and in what order, decides what an ordinal means; a UUID stays.
four='0=1GiB,1=2GiB'
gets visible "$both" '' GPUSTANDIN_DEVICES=4 CUDA_VISIBLE_DEVICES=2,3 GPUBUDGET_LIMIT=$four $asked
gets visible-reordered "$both" '' GPUSTANDIN_DEVICES=4 CUDA_VISIBLE_DEVICES=3,2 \
    GPUBUDGET_LIMIT=$four $asked
gets visible-by-uuid "$both" '' GPUSTANDIN_DEVICES=2 CUDA_VISIBLE_DEVICES=1,0 \
    GPUBUDGET_LIMIT=GPU-6b=1GiB,GPU-5a=2GiB $asked
gets visible-uuids "$both" '' GPUSTANDIN_DEVICES=2 CUDA_VISIBLE_DEVICES=GPU-6b,GPU-5a \
    GPUBUDGET_LIMIT=GPU-6b=1GiB,GPU-5a=2GiB $asked
gets visible-uuids-measured "$two
$(device 0 2048 $(((2048 - context / mib) / 64 * 64)))
$(device 1 4096 $(((4096 - context / mib) / 64 * 64)))" '' GPUSTANDIN_DEVICES=2 \
    CUDA_VISIBLE_DEVICES=GPU-6b,GPU-5a GPUBUDGET_LIMIT=0=2GiB,GPU-5a=4GiB
gets visible-one "$one
$(device 0 1024 1024)" '' GPUSTANDIN_DEVICES=4 CUDA_VISIBLE_DEVICES=3 GPUBUDGET_LIMIT=0=1GiB $asked
gets visible-measured "$two
$(device 0 2048 $(((2048 - context / mib) / 64 * 64)))
$(device 1 4096 $(((4096 - context / mib) / 64 * 64)))" '' GPUSTANDIN_DEVICES=4 \
    CUDA_VISIBLE_DEVICES=3,1 GPUBUDGET_LIMIT=0=2GiB,1=4GiB

# Nor is the order always that of the bus, which is NVML's: here the second card is the fastest.
fastest="$pair GPUSTANDIN_FASTEST=1"
bus=CUDA_DEVICE_ORDER=PCI_BUS_ID
# shellcheck disable=SC2086 # two words
{
    gets order-fastest "$both" '' $fastest GPUBUDGET_LIMIT=0=1GiB,GPU-5a=2GiB $asked
    gets order-fastest-by-uuid "$both" '' $fastest CUDA_DEVICE_ORDER=FASTEST_FIRST \
        GPUBUDGET_LIMIT=GPU-6b=1GiB,GPU-5a=2GiB $asked
    gets order-bus "$both" '' $fastest $bus GPUBUDGET_LIMIT=0=1GiB,GPU-6b=2GiB $asked
    gets order-bus-by-uuid "$both" '' $fastest $bus GPUBUDGET_LIMIT=GPU-5a=1GiB,GPU-6b=2GiB $asked
    gets order-same-card-twice "$two
$(denied 0)
$(denied 1)" 'entry ' $fastest $bus GPUBUDGET_LIMIT=0=1GiB,GPU-5a=2GiB
    gets order-visible "$one
$(device 0 1024 1024)" '' $fastest CUDA_VISIBLE_DEVICES=0 GPUBUDGET_LIMIT=GPU-6b=1GiB $asked
    gets order-bus-visible "$one
$(device 0 1024 1024)" '' $fastest $bus CUDA_VISIBLE_DEVICES=1 GPUBUDGET_LIMIT=GPU-6b=1GiB $asked
    for order in FASTEST_FIRST PCI_BUS_ID; do
        gets order-measured-$order "$two
$(device 0 2048 $(((2048 - context / mib) / 64 * 64)))
$(device 1 4096 $(((4096 - context / mib) / 64 * 64)))" '' $fastest CUDA_DEVICE_ORDER=$order \
            GPUBUDGET_LIMIT=0=2GiB,1=4GiB
    done
}

# Whatever else is set, the limit holds: each known setting, with every kind of value it may have.
while read -r setting; do
    said=
    case $setting in
    *_REPORT=* | *_TIMELINE=* | *_COMPAT=*)
        said="${setting%%=*} has no effect in this version"
        ;;
    esac
    gets "beside-$setting" "$one
$(device 0 1024 1024)" "$said" GPUBUDGET_LIMIT=1GiB $asked "$setting"
done <<END
GPUBUDGET_REQUIRE=0
GPUBUDGET_REQUIRE=1
GPUBUDGET_MANAGED=charge
GPUBUDGET_MANAGED=ignore
GPUBUDGET_CAPACITY=limit
GPUBUDGET_ON_LIMIT=refuse
GPUBUDGET_ON_ERROR=deny
GPUBUDGET_ON_ERROR=allow
GPUBUDGET_WAIT=0
GPUBUDGET_WAIT=3600s
GPUBUDGET_RESERVE=0
GPUBUDGET_STREAM_ORDER=off
GPUBUDGET_STREAM_ORDER=copies
GPUBUDGET_STREAM_ORDER=all
GPUBUDGET_LOG=quiet
GPUBUDGET_LOG=error
GPUBUDGET_REPORT=$work/report
GPUBUDGET_TIMELINE=$work/timeline
GPUBUDGET_JOB=name
GPUBUDGET_STATE_DIR=$work/state
GPUBUDGET_COMPAT=hami
GPUBUDGET_LIB=$preload
GPUBUDGET_LIMIT_SOURCE=somewhere
GPUBUDGET_ROOT=/nowhere
GPUBUDGET_DISABLE=0
CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100
END

# Nothing is left behind for the next process.
gets first-run "$one
$(device 0 1024 1024)" '' GPUBUDGET_LIMIT=1GiB $asked
gets second-run "$one
$(device 0 2048 2048)" '' GPUBUDGET_LIMIT=2GiB $asked
finish
