#!/bin/bash
# check-follow.sh: requests that need memory whose free is pending on a stream that is held up.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
# shellcheck source=tests/preload/budget.sh
. "$(dirname "${BASH_SOURCE[0]}")/budget.sh"

for charge in footprint requested; do
    room=$(limit $charge $((gib + 64 * mib)))
    run follow "$room" $charge -- budget_follow
    run follow "$room" $charge GPUBUDGET_WAIT=0 -- budget_follow far
    run follow "$room" $charge GPUBUDGET_WAIT=100s -- budget_follow far-synchronous
    run follow "$room" $charge GPUBUDGET_STREAM_ORDER=all -- budget_follow
    run follow "$room" $charge GPUBUDGET_WAIT=100s -- budget_follow long
done
# Growth that does not fit, on a stream that is held up.
run undone "$(limit footprint $((gib + 64 * mib)))" footprint -- budget_undone
run undone "$(limit footprint $((gib + 64 * mib)))" footprint -- budget_undone far
finish
