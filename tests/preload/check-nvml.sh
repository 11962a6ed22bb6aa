#!/bin/bash
# check-nvml.sh: NVML tells of a card of the size of its limit, as CUDA does.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

for when in before after; do
    run nvml-$when 4GiB footprint -- budget_nvml $when 4096
    run nvml-$when-two-cards 0=2GiB,1=4GiB footprint GPUSTANDIN_DEVICES=2 \
        -- budget_nvml $when 2048 4096
    run nvml-$when-by-uuid 'GPU-6b=2GiB,*=3GiB' footprint GPUSTANDIN_DEVICES=2 \
        -- budget_nvml $when 3072 2048
    run nvml-$when-above-the-card 64GiB footprint GPUSTANDIN_MEMORY=8G -- budget_nvml $when 8192
    run nvml-$when-percent 25% footprint GPUSTANDIN_MEMORY=8G -- budget_nvml $when 2048
done
# What MPS allows, where that is less, is told as well.
for when in before after; do
    run nvml-$when-mps 4GiB footprint CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=3G -- budget_nvml $when 3072
    run nvml-$when-mps-more 4GiB footprint CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=5G \
        -- budget_nvml $when 4096
done
for charge in footprint requested; do
    run nvml-over 600MiB $charge GPUBUDGET_ON_LIMIT=report -- budget_nvml over
done
run nvml-after-turned 0=2GiB,1=4GiB footprint GPUSTANDIN_DEVICES=2 CUDA_VISIBLE_DEVICES=1,0 \
    -- budget_nvml after 4096 2048
run nvml-requested 4GiB requested -- budget_nvml after 4096
run nvml-none none footprint -- budget_nvml card
run nvml-physical 4GiB footprint GPUBUDGET_CAPACITY=physical -- budget_nvml card

# told LABEL WANTED NAME=VALUE...: a program that is linked with NVML, and has no CUDA or is run in
# another mode.
mode=
told()
{
    local label=$1 wanted=$2
    shift 2
    program "$@" "$programs/nvml_linked" $mode
    if [ "$(tr '\n' ' ' <"$work/out")" = "$wanted" ] && [ ! -s "$work/err" ]; then
        ok "$label"
    else
        not_ok "$label" "$(tr '\n' ' ' <"$work/out")$(head -n 1 "$work/err"), not $wanted"
    fi
}

two=GPUSTANDIN_DEVICES=2
told linked '0: 4096 4096 0; 4096 4096 0 0 ' GPUBUDGET_LIMIT=4GiB
told linked-reserve '0: 4096 3996 100; 4096 3996 100 0 ' GPUBUDGET_LIMIT=4GiB \
    GPUBUDGET_RESERVE=100MiB
told linked-others '0: 4096 2048 2048; 4096 2048 2048 0 ' GPUBUDGET_LIMIT=4GiB \
    GPUSTANDIN_MEMORY=16G GPUSTANDIN_OTHER=14G
# CUDA counts from another card on, or leaves one out: an ordinal is CUDA's.
told linked-turned '0: 3072 3072 0; 3072 3072 0 0 1: 2048 2048 0; 2048 2048 0 0 ' $two \
    GPUBUDGET_LIMIT=0=2GiB,1=3GiB CUDA_VISIBLE_DEVICES=1,0
told linked-hidden '0: 4096 4096 0; 4096 4096 0 0 1: 2048 2048 0; 2048 2048 0 0 ' $two \
    'GPUBUDGET_LIMIT=0=2GiB,*=4GiB' CUDA_VISIBLE_DEVICES=1
told linked-by-bus '0: 2048 2048 0; 2048 2048 0 0 1: 3072 3072 0; 3072 3072 0 0 ' $two \
    'GPUBUDGET_LIMIT=0000:0a:00.0=2GiB,*=3GiB'
told linked-by-uuid '0: 3072 3072 0; 3072 3072 0 0 1: 2048 2048 0; 2048 2048 0 0 ' $two \
    'GPUBUDGET_LIMIT=0=2GiB,*=3GiB' CUDA_VISIBLE_DEVICES=GPU-6b
# Another interposer behind us; blanks in the list; a limit above the card.
told linked-shim '0: 4096 4096 0; 4096 4096 0 0 ' GPUBUDGET_LIMIT=4GiB \
    "LD_PRELOAD=$sanitizer$preload $programs/others/libnvmlshim.so"
told linked-shim-none '0: 16999 16384 615; 16999 16384 0 615 ' GPUBUDGET_LIMIT=none \
    "LD_PRELOAD=$sanitizer$preload $programs/others/libnvmlshim.so"
told linked-shim-percent '0: 4096 4096 0; 4096 4096 0 0 ' GPUBUDGET_LIMIT=25% \
    "LD_PRELOAD=$sanitizer$preload $programs/others/libnvmlshim.so"
told linked-blanks '0: 3072 3072 0; 3072 3072 0 0 1: 2048 2048 0; 2048 2048 0 0 ' $two \
    GPUBUDGET_LIMIT=0=2GiB,1=3GiB 'CUDA_VISIBLE_DEVICES= 1, 0'
told linked-above '0: 16384 14336 2048; 16384 14336 2048 0 ' GPUBUDGET_LIMIT=20GiB \
    GPUSTANDIN_OTHER=2G
# The list as CUDA reads it, with which NVML agrees before CUDA has begun and after it: card 0 is its
# number 0 (a), card 1 is (b), or neither.
for list in 0,-1,1=a 0,2,1=a 0,GPU-6b=a GPU-5a,0=a 4294967296,x=a 0x=a MIG-5a=a GPU-5a,gpu-6b=a +1=b \
    4294967297,0=b 1gpu=b GPU-6B1DC0=b 1,9,1=b; do
    first='2048 2048 0; 2048 2048 0 0' second='3072 3072 0; 3072 3072 0 0'
    [ "${list##*=}" = a ] || { first='3072 3072 0; 3072 3072 0 0' second='2048 2048 0; 2048 2048 0 0'; }
    for mode in '' cuda; do
        told "list-${list%=*}${mode:+-$mode}" "0: $first 1: $second " $two \
            'GPUBUDGET_LIMIT=0=2GiB,*=3GiB' CUDA_VISIBLE_DEVICES="${list%=*}"
    done
done
mode=
for list in 2,0 0,0 0,1,1 GPU-6b,GPU-6 gpu-5a GPU- ' GPU-5a' 18446744073709551616 x,0; do
    told "list-none-$list" '0: 3072 3072 0; 3072 3072 0 0 1: 3072 3072 0; 3072 3072 0 0 ' $two \
        'GPUBUDGET_LIMIT=0=2GiB,*=3GiB' CUDA_VISIBLE_DEVICES="$list"
done
told order-none '0: 3072 3072 0; 3072 3072 0 0 1: 3072 3072 0; 3072 3072 0 0 ' $two \
    'GPUBUDGET_LIMIT=0=2GiB,*=3GiB' CUDA_DEVICE_ORDER=nonsense
# Where MPS says 0 it says nothing.
told linked-mps-zero '0: 4096 4096 0; 4096 4096 0 0 ' GPUBUDGET_LIMIT=4GiB \
    CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=0
card='16999 16384 615; 16999 16384 0 615'
told linked-one-unlimited "0: 1024 1024 0; 1024 1024 0 0 1: $card " $two \
    GPUBUDGET_LIMIT=0=1GiB,1=none
told linked-not-supported '0: error 3 ' GPUBUDGET_LIMIT=4GiB GPUSTANDIN_NVML_NO_MEMORY=1
# A child that has not begun CUDA has an environment of its own.
mode=child
told child '0: 2048 2048 0; 2048 2048 0 0 1: 3072 3072 0; 3072 3072 0 0 '\
'0: 4096 4096 0; 4096 4096 0 0 1: 2048 2048 0; 2048 2048 0 0 ' $two \
    'GPUBUDGET_LIMIT=0=2GiB,1=3GiB,*=4GiB'
mode=cuda
told after-one-unlimited "0: 1024 1024 0; 1024 1024 0 0 1: $card " $two \
    GPUBUDGET_LIMIT=0=1GiB,1=none
told after-hidden '0: 4096 4096 0; 4096 4096 0 0 1: 2048 2048 0; 2048 2048 0 0 ' $two \
    'GPUBUDGET_LIMIT=0=2GiB,*=4GiB' CUDA_VISIBLE_DEVICES=1
told after-physical "0: $card " GPUBUDGET_LIMIT=4GiB GPUBUDGET_CAPACITY=physical
told after-not-supported '0: error 3 ' GPUBUDGET_LIMIT=4GiB GPUSTANDIN_NVML_NO_MEMORY=1
mode=

# says LABEL WANTED LINE NAME=VALUE...: as told, and beside it one line on standard error, once for
# two cards and whoever is asked first, CUDA or NVML.
says()
{
    local label=$1 wanted=$2 line=$3 mode
    shift 3
    for mode in '' cuda before; do
        program "$@" $two "$programs/nvml_linked" $mode
        if [ "$(tr '\n' ' ' <"$work/out")" != "$wanted" ]; then
            not_ok "$label${mode:+-$mode}" "$(tr '\n' ' ' <"$work/out"), not $wanted"
        elif [ "$(wc -l <"$work/err")" -ne 1 ] || ! grep -qF -- "$line" "$work/err"; then
            not_ok "$label${mode:+-$mode}" "$(cat "$work/err"), not one line \"$line\""
        else
            ok "$label${mode:+-$mode}"
        fi
    done
}

cards="0: $card 1: $card "
denied='No GPU memory is given out until this is mended.'
# Nothing is given out, and the card is what CUDA tells of as well.
says denied "$cards" "$denied" GPUBUDGET_LIMIT=0
says denied-words "$cards" "$denied" GPUBUDGET_LIMIT=foo
says denied-physical "$cards" "$denied" GPUBUDGET_LIMIT=foo GPUBUDGET_CAPACITY=physical
says denied-required "$cards" "$denied" GPUBUDGET_REQUIRE=1
says allowed "$cards" 'There is no limit (GPUBUDGET_ON_ERROR=allow).' GPUBUDGET_LIMIT=foo \
    GPUBUDGET_ON_ERROR=allow
says warned '0: 1024 1024 0; 1024 1024 0 0 1: 1024 1024 0; 1024 1024 0 0 ' GPUBUDGET_LIMTI \
    GPUBUDGET_LIMIT=1GiB GPUBUDGET_LIMTI=2GiB
says warned-physical "$cards" GPUBUDGET_LIMTI GPUBUDGET_LIMIT=1GiB GPUBUDGET_LIMTI=2GiB \
    GPUBUDGET_CAPACITY=physical
says warned-none "$cards" GPUBUDGET_LIMTI GPUBUDGET_LIMTI=2GiB
# By dlsym; and where NVML tells of no memory, a wrong setting is nobody's business.
program GPUBUDGET_LIMIT=foo "$programs/budget_nvml" card
if [ "$(wc -l <"$work/err")" -eq 1 ] && grep -qF "$denied" "$work/err" &&
    grep -q '^ok the-cards-own' "$work/out"; then
    ok denied-looked-up
else
    not_ok denied-looked-up "$(head -n 2 "$work/out" "$work/err")"
fi
told denied-not-supported '0: error 3 ' GPUBUDGET_LIMIT=foo GPUSTANDIN_NVML_NO_MEMORY=1
# CUDA may count the faster card first: then an ordinal tells nothing, and the smallest is shown.
other="$two GPUSTANDIN_FASTEST=1"
# shellcheck disable=SC2086
{
    told linked-faster '0: 2048 2048 0; 2048 2048 0 0 1: 2048 2048 0; 2048 2048 0 0 ' $other \
        'GPUBUDGET_LIMIT=0=2GiB,1=3GiB'
    told linked-faster-in-order '0: 2048 2048 0; 2048 2048 0 0 1: 3072 3072 0; 3072 3072 0 0 ' \
        $other 'GPUBUDGET_LIMIT=0=2GiB,1=3GiB' CUDA_DEVICE_ORDER=PCI_BUS_ID
    told linked-faster-by-uuid '0: 2048 2048 0; 2048 2048 0 0 1: 3072 3072 0; 3072 3072 0 0 ' \
        $other 'GPUBUDGET_LIMIT=0=2GiB,GPU-6b=3GiB'
    told linked-faster-mps '0: 1024 1024 0; 1024 1024 0 0 1: 1024 1024 0; 1024 1024 0 0 ' $other \
        GPUBUDGET_LIMIT=4GiB CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=2G,1=1G
    run nvml-after-faster 0=4GiB,1=2GiB footprint $other -- budget_nvml after 2048 4096
}
finish
