#!/bin/bash
# check-mig.sh: a MIG instance is a card of its own size: limits by its names, answers of CUDA and
# NVML, what is measured.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

# The simulated card 0, of 40 GiB, and its instances; card 1 is like it.
export GPUSTANDIN_MEMORY=40G GPUSTANDIN_MIG=0:10G,8G,16G
card=GPU-5a1dc0de-0010-4a11-8000-02000badca00
first=MIG-a1511ce5-0020-5b22-9000-03000badcb00
second=MIG-a2511ce5-0020-5b22-9000-03000badcc00

# The stand-in itself.
run driver none footprint -- budget_mig driver 0 0 10240
run driver-third none footprint CUDA_VISIBLE_DEVICES=MIG-a3 -- budget_mig driver 0 2 16384
run driver-others none footprint GPUSTANDIN_OTHER=1G GPUSTANDIN_DEVICES=2 \
    GPUSTANDIN_MIG='0:4G,4G;1:2G,8G' CUDA_VISIBLE_DEVICES=MIG-b3 -- budget_mig driver 1 1 8192
# shown COUNT LIST [NAME=VALUE]...: CUDA_VISIBLE_DEVICES.
shown()
{
    local count=$1 list=$2
    shift 2
    run "shown-$list" none footprint "CUDA_VISIBLE_DEVICES=$list" "$@" -- budget_mig devices "$count"
}
for list in 0 $card GPU-5a $first MIG-a2 "MIG-$card/3/0" "$first,$second" MIG-A2; do
    shown 1 "$list"
done
for list in 1 -1 mig-a2 MIG-a9 MIG-a GPU-6b "MIG-$card/4/0" "MIG-$card" "MIG-$card/1"; do
    shown 0 "$list"
done
two=GPUSTANDIN_DEVICES=2
shown 1 0,1 $two
shown 1 1,0 $two
shown 1 GPU-6b,MIG-a1 $two
run shown-mixed none footprint $two -- budget_mig driver 0 0 10240

# Limits by every name, of every kind.
for list in "" MIG-a2 "$second" "MIG-$card/2/0" "MIG-$card/1/0" 0; do
    place=0
    case $list in *-a2* | */2/0) place=1 ;; esac
    name=$first
    [ $place -eq 0 ] || name=$second
    set -- budget_mig limit 0 $place
    shows=(A=a)
    [ -z "$list" ] || shows=("CUDA_VISIBLE_DEVICES=$list")
    for charge in footprint requested; do
        run "limit-$list" 4GiB $charge "${shows[@]}" -- "$@" 4096
        run "by-uuid-$list" "$name=4GiB,*=3GiB" $charge "${shows[@]}" -- "$@" 4096
    done
    run "by-prefix-$list" "${name:0:6}=4GiB,*=3GiB" footprint "${shows[@]}" -- "$@" 4096
    run "by-other-$list" "MIG-a3=4GiB,*=3GiB" footprint "${shows[@]}" -- "$@" 3072
    run "by-card-$list" "$card=4GiB,*=3GiB" footprint "${shows[@]}" -- "$@" 3072
    run "by-ordinal-$list" "0=4GiB,*=3GiB" footprint "${shows[@]}" -- "$@" 4096
    run "by-bus-$list" "0000:0a:00.0=4GiB,*=3GiB" footprint "${shows[@]}" -- "$@" 4096
    run "percent-$list" 50% footprint "${shows[@]}" -- "$@" $((5120 - place * 1024))
    run "above-$list" 20GiB footprint "${shows[@]}" -- "$@" $((10240 - place * 2048))
done
# The older name names an instance to CUDA alone; a limit by it is refused with a line.
program GPUBUDGET_LIMIT="MIG-$card/1/0=4GiB" "$programs/budget_settings"
if grep -q 'MIG-a1511ce5.* has no entry .* entry "MIG-GPU-.*/1/0=4GiB" names no visible device' \
    "$work/err" && grep -q '^device 0 .* taken 0 ' "$work/out"; then
    ok by-old-name
else
    not_ok by-old-name "$(head -n 1 "$work/err")"
fi
run reserve 4GiB footprint GPUBUDGET_RESERVE=100MiB -- budget_mig limit 0 0 4096

# As on a card of the instance's size.
instance="GPUSTANDIN_MEMORY=64G GPUSTANDIN_MIG=0:16G,20G"
# shellcheck disable=SC2086
for charge in footprint requested; do
    run info 4GiB $charge $instance -- budget_info agree 4096
    run info-first 1536MiB $charge GPUSTANDIN_MIG=0:3G,9G -- budget_info first 1536
    for what in told neighbours; do
        run info 4GiB $charge $instance -- budget_info $what
    done
    run info 600MiB $charge $instance GPUBUDGET_ON_LIMIT=report -- budget_info over
    run info 20GiB $charge $instance GPUSTANDIN_OTHER=10G -- budget_info card
    run info 4GiB $charge $instance GPUBUDGET_CAPACITY=physical -- budget_info physical
    run contexts 1536MiB $charge GPUSTANDIN_MIG=0:3G,9G -- budget_contexts sizes
    run measured "$(limit $charge $((gib + 200 * mib)))" $charge $instance -- budget_measured 2
    run libraries "$(limit $charge $gib)" $charge $instance -- budget_libraries 2
    run managed-variables "$(limit $charge $gib)" $charge $instance -- budget_managed
done
# shellcheck disable=SC2086
{
    run hold 4GiB footprint $instance -- budget_mig hold 0 0 4096
    run hold 4GiB requested $instance -- budget_mig hold 0 0 $((4096 + context / mib))
    run hold-above 20GiB footprint $instance -- budget_mig hold 0 0 16384
}
# What NVML does not tell there is estimated as elsewhere.
for way in GPUSTANDIN_NO_NVML=1 GPUSTANDIN_NVML_NOT_SUPPORTED=1 GPUSTANDIN_NVML_UNLISTED=1; do
    run no-nvml-${way%=1} 3GiB footprint GPUSTANDIN_MEMORY=160G GPUSTANDIN_MIG=0:64G,64G $way \
        -- budget_no_nvml exact
    run no-nvml-${way%=1} 1536MiB footprint GPUSTANDIN_MEMORY=160G GPUSTANDIN_MIG=0:64G,64G $way \
        -- budget_no_nvml fill 1
done
run contexts-no-nvml 1536MiB footprint GPUSTANDIN_MIG=0:3G,9G GPUSTANDIN_NO_NVML=1 \
    -- budget_contexts sizes 640

# sizes NAME=TOTAL[/FREE]...: the lines of nvml_linked, in MiB.
sizes()
{
    local one total free
    for one; do
        total=${one#*=} free=${one##*[=/]} total=${total%%/*}
        printf '%s: ' "${one%%=*}"
        printf "$total $free $((total - free))%s" '; ' ' 0 '
    done
}

# told LABEL WHEN WANTED NAME=VALUE...: what NVML says of the card and of its instances, in a
# program that has no CUDA (before), that has begun it (after), or in both (ever).
told()
{
    local label=$1 when=$2 wanted=$3 begun
    shift 3
    for begun in before after; do
        if [ "$when" != ever ] && [ "$when" != $begun ]; then continue; fi
        program GPUBUDGET_LOG=quiet "$@" "$programs/nvml_linked" \
            "$([ $begun = before ] || echo cuda)"
        if [ "$(tr '\n' ' ' <"$work/out")" = "$wanted" ] && [ ! -s "$work/err" ]; then
            ok "told-$label-$begun"
        else
            not_ok "told-$label-$begun" \
                "$(tr '\n' ' ' <"$work/out")$(head -n 1 "$work/err"), not $wanted"
        fi
    done
}
# cards LABEL WHEN "CARD FIRST SECOND THIRD" NAME=VALUE...
cards()
{
    local label=$1 when=$2 numbers
    read -r -a numbers <<<"$3"
    shift 3
    told "$label" "$when" "$(sizes 0="${numbers[0]}" 0/0="${numbers[1]}" 0/1="${numbers[2]}" \
        0/2="${numbers[3]}" ${numbers[4]+"1=${numbers[4]}"})" "$@"
}

cards plain ever '4096 4096 4096 4096' GPUBUDGET_LIMIT=4GiB
cards percent ever '20480 5120 4096 8192' GPUBUDGET_LIMIT=50%
cards above ever '20480 10240 8192 16384' GPUBUDGET_LIMIT=20GiB
cards reserve ever '4096/3996 4096/3996 4096/3996 4096/3996' GPUBUDGET_LIMIT=4GiB \
    GPUBUDGET_RESERVE=100MiB
cards others ever '4096 4096/3072 4096/1024 4096' GPUBUDGET_LIMIT=4GiB GPUSTANDIN_OTHER=7G
cards uuid ever '3072 3072 2048 3072' 'GPUBUDGET_LIMIT=MIG-a2=2GiB,*=3GiB'
cards card ever '2048 3072 3072 3072' "GPUBUDGET_LIMIT=$card=2GiB,*=3GiB"
cards bus ever '2048 2048 2048 2048' 'GPUBUDGET_LIMIT=0000:0a:00.0=2GiB,*=3GiB'
told physical ever "0: 41575 40960 615; 41575 40960 0 615 $(sizes 0/0=10240 0/1=8192 0/2=16384)" \
    GPUBUDGET_LIMIT=4GiB GPUBUDGET_CAPACITY=physical
# An ordinal is CUDA's: of the instance that CUDA shows, never of the card, and where that is not
# known before it has begun, the smallest that may be.
ordinal='GPUBUDGET_LIMIT=0=2GiB,*=3GiB'
for list in MIG-a2 "$second" "MIG-$card/2/0"; do
    cards "ordinal-$list" ever '3072 3072 2048 3072' "$ordinal" CUDA_VISIBLE_DEVICES="$list"
done
for list in 0 GPU-5a "$card"; do
    cards "ordinal-$list" before '3072 2048 2048 2048' "$ordinal" CUDA_VISIBLE_DEVICES="$list"
    cards "ordinal-$list" after '3072 2048 3072 3072' "$ordinal" CUDA_VISIBLE_DEVICES="$list"
done
cards ordinal before '3072 2048 2048 2048' "$ordinal"
cards ordinal after '3072 2048 3072 3072' "$ordinal"
# A card that is whole beside it.
for order in FASTEST_FIRST PCI_BUS_ID; do
    cards "beside-$order" before '3072 2048 2048 2048 2048' "$ordinal" $two CUDA_DEVICE_ORDER=$order
    cards "beside-$order" after '3072 2048 3072 3072 3072' "$ordinal" $two CUDA_DEVICE_ORDER=$order
    cards "beside-$order-list" ever '3072 3072 3072 2048 3072' "$ordinal" $two \
        CUDA_DEVICE_ORDER=$order CUDA_VISIBLE_DEVICES=MIG-a3
    cards "beside-$order-other" ever '3072 3072 3072 3072 2048' "$ordinal" $two \
        CUDA_DEVICE_ORDER=$order CUDA_VISIBLE_DEVICES=GPU-6b
done
finish
