# cases.sh: what the shell tests of this folder share. Sourced, not run.
# shellcheck shell=bash

# The build tree is where make runs the tests; by hand, GB_BUILDDIR or the present folder.
build=$(cd "${GB_BUILDDIR:-.}" && pwd)
# shellcheck disable=SC2034
source_tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
preload=$build/.libs/libgpubudget.so
work=$(mktemp -d "${TMPDIR:-/tmp}/gpubudget-test.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT

count_ok=0
count_failed=0
count_skipped=0

ok()
{
    count_ok=$((count_ok + 1))
    printf 'ok %s\n' "$1"
}

not_ok()
{
    count_failed=$((count_failed + 1))
    printf 'not ok %s: %s\n' "$1" "$2"
}

skip()
{
    count_skipped=$((count_skipped + 1))
    printf 'skip %s: %s\n' "$1" "$2"
}

# The exit status of the whole script.
finish()
{
    if [ "$count_failed" -ne 0 ]; then exit 1; fi
    if [ "$count_ok" -eq 0 ]; then exit 77; fi
    exit 0
}

if [ ! -f "$preload" ]; then
    skip everything "no $preload: run make first, here or with GB_BUILDDIR"
    finish
fi

# A tree built with a sanitizer: its runtime must come before our library.
# shellcheck disable=SC2034
sanitizer=$(ldd "$preload" | awk '/lib[atu][sb]an\.so/ { print $3 }' | tr '\n' ' ')

# No setting of the person who runs the tests may leak in.
for name in $(compgen -e GPUBUDGET_); do unset "$name"; done
unset LD_PRELOAD SLURM_JOB_ID PBS_JOBID LSB_JOBID
# Nor do its processes leave anything in the user's directory.
export GPUBUDGET_STATE_DIR=$work/state
