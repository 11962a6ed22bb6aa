#!/bin/bash
# The stand-in driver's own tests, and those of scripts/with-standin.
set -u

srcdir=${srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
builddir=$(pwd)
here=$builddir/tests/standin
with=$srcdir/scripts/with-standin
export GB_BUILDDIR=$builddir
unset LD_PRELOAD CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER
failed=0
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

report() { # NAME PASSED [WHY]
    if [ "$2" = 0 ]; then
        echo "ok $1"
    else
        echo "not ok $1: ${3:-}"
        failed=1
    fi
}

# expect NAME STATUS PATTERN COMMAND...: the status, and a line of the output.
expect() {
    local name=$1 status=$2 pattern=$3 output code
    shift 3
    output=$("$@" 2>&1)
    code=$?
    if [ "$code" -ne "$status" ]; then
        report "$name" 1 "status $code, not $status: $output"
    elif ! grep -qE -- "$pattern" <<<"$output"; then
        report "$name" 1 "no '$pattern' in: $output"
    else
        report "$name" 0
    fi
}

expect with_help 0 '^Usage: with-standin' "$with" --help
expect with_nothing 125 '^with-standin: no command' "$with"
expect with_unknown 125 '^with-standin: unknown option --nonsense' "$with" --nonsense true
expect with_bad_size 125 "^with-standin: --memory: 'lots'" "$with" --memory lots true
expect with_bad_devices 125 "^with-standin: --devices: '17'" "$with" --devices 17 true
expect with_bad_driver 125 "^with-standin: --driver: '9'" "$with" --driver 9 true
expect with_no_value 125 '^with-standin: --other needs a value' "$with" --other
expect with_status 7 '' "$with" -- sh -c 'exit 7'
expect with_no_program 127 'no-such-program' "$with" no-such-program
# shellcheck disable=SC2016 # the inner shell expands them
expect with_settings 0 '^1G 2 5M 1$' "$with" --memory 1G --devices=2 --other 5M --no-nvml -- \
    sh -c 'echo $GPUSTANDIN_MEMORY $GPUSTANDIN_DEVICES $GPUSTANDIN_OTHER $GPUSTANDIN_NO_NVML'
expect with_path 0 "^$here/12\.4:/elsewhere$" env LD_LIBRARY_PATH=/elsewhere "$with" --driver 12.4 \
    printenv LD_LIBRARY_PATH
expect with_no_build 125 'run make first' env GB_BUILDDIR="$work" "$with" true
expect with_current_folder 0 "^$here/13\.0$" env -u GB_BUILDDIR -u LD_LIBRARY_PATH "$with" \
    printenv LD_LIBRARY_PATH

for driver in 11.4 12.4 13.0 future; do
    name=$(LC_ALL=C readelf -d "$here/$driver/libcuda.so.1" | grep -c 'SONAME.*\[libcuda.so.1\]')
    report "soname_$driver" $((name != 1))
done

"$with" --devices 3 "$here/check_standin" "$here" "$srcdir/tests/standin" || failed=1

# Which card CUDA shows; how many of three.
"$with" "$builddir/tests/programs/visible_lists" >"$work/lists"
report visible_lists $? "$(grep -m 3 '^not ok' "$work/lists")"
shown() { # PATTERN LIST...
    local pattern=$1 list
    shift
    for list; do
        expect "shown_$list" "$status" "$pattern" env CUDA_VISIBLE_DEVICES="$list" \
            "$with" --devices 3 "$builddir/tests/programs/take_loader" --probe
    done
}
status=0
shown 'devices: 3$' 2,0,1 0,2,1,3 GPU-5a,GPU-6,GPU-7
shown 'devices: 2$' 2,0,GPU-6b GPU-5a,GPU-6b,0 1,2,-1,0 MIG-5a,GPU-6b,gpu-7c
shown 'devices: 1$' 0,3,1 GPU-7
status=1
shown 'CUDA_ERROR_NO_DEVICE$' 3 GPU- gpu-5a
shown 'CUDA_ERROR_INVALID_DEVICE$' 0,1,1 GPU-5a,GPU-6b,GPU-5

# One fault from the environment, at the very first call; then random ones.
observations=$builddir/tests/programs/observations
expect fault_first 0 'code.before_init.init = 999' env GPUSTANDIN_FAULTS=cuInit:2:999 \
    "$with" "$observations" before_init
expect fault_random 0 'code.before_init.driver_version = 702' env GPUSTANDIN_FAULTS='~1:5:702' \
    "$with" "$observations" before_init
expect fault_sure 0 'code.before_init.init = 0' env GPUSTANDIN_FAULTS='~1:5:702' \
    GPUSTANDIN_SURE='cuInit,cuDriver*' "$with" "$observations" before_init
expect no_nvml 0 'fact.nvml = 0' "$with" --no-nvml "$observations" contexts
expect nvml_not_supported 0 'size.context.first = 0' env GPUSTANDIN_NVML_NOT_SUPPORTED=1 \
    "$with" "$observations" contexts
expect streams_strict_first 0 'size.streams.1 = 2097152' env GPUSTANDIN_FREE_STREAMS=0 \
    "$with" "$observations" streams
expect streams_strict_all 0 'size.streams.256 = 146800640' env GPUSTANDIN_FREE_STREAMS=0 \
    "$with" "$observations" streams
for text in 0 0: 0:0 '0:1G,' 0:x 1:1G 0:9G,8G '0:1G;0:1G' '0:1G;' 0:1,1,1,1,1,1,1,1; do
    expect "mig_bad_$text" 0 "^standin: GPUSTANDIN_MIG=$text is not CARD:SIZE" env GPUSTANDIN_MIG="$text" \
        "$with" "$observations" before_init
done
expect no_devices 0 'code.before_init.init = 100' "$with" --devices 0 "$observations" before_init

# The behaviour as a whole, against the profile; the same whatever the card's size; the memory of
# the profile's own card where it is asked for.
profile=$srcdir/tests/standin/profiles/h200-580.txt
"$with" "$observations" >"$work/seen" 2>"$work/errors"
report observations_silent "$(wc -c <"$work/errors")" "$(head -3 "$work/errors")"
"$srcdir/tests/standin/compare-observations" "$work/seen" "$profile" >"$work/difference"
report observations_as_profile $? "$(head -5 "$work/difference")"
sed 's/^size.order.alloc.reserved = .*/size.order.alloc.reserved = 1/; /^code.pending.hold /d' \
    "$work/seen" >"$work/changed"
"$srcdir/tests/standin/compare-observations" "$work/changed" "$profile" >"$work/difference"
[ $? -eq 1 ] && grep -q '^differs: size.order.alloc.reserved' "$work/difference" &&
    grep -q '^missing: code.pending.hold' "$work/difference"
report comparison_can_fail $?
sed '/^code.pending.hold /!d' "$work/changed" >"$work/empty"
sed '/^size.order.alloc.reserved /!d' "$profile" >"$work/sizes"
expect comparison_codes_only 0 '^0 compared, 0 differ' \
    "$srcdir/tests/standin/compare-observations" --codes-only "$work/empty" "$work/sizes"
for driver in 11.4 12.4 future; do
    "$with" --driver $driver "$observations" direct_codes pool_order pool_pending >"$work/other"
    grep -E '\.(direct|order|pending)\.' "$work/seen" | grep -vE '^(time|size.direct)' >"$work/same"
    grep -vE '^(time|size.direct)' "$work/other" | grep -vxFf "$work/same" >"$work/difference"
    [ -s "$work/difference" ] && why=$(head -3 "$work/difference") || why=
    report "observations_$driver" "${#why}" "$why"
done

exit $failed
