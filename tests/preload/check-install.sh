#!/bin/bash
# check-install.sh: installing over an older library harms no program that runs under it: the new
# file takes the place of the old one in one step, and the old one is not written to.
set -u
# shellcheck source=tests/preload/cases.sh
. "$(dirname "${BASH_SOURCE[0]}")/cases.sh"

take=$build/tests/programs/take
if [ ! -x "$take" ]; then
    skip everything "no $take: run make first"
    finish
fi
export LD_LIBRARY_PATH=$build/tests/standin/13.0 GPUSTANDIN_MEMORY=4G
installed=$work/lib/libgpubudget.so

# A make of its own, not a part of one that runs the tests.
install_it()
{
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u DESTDIR make -s --no-print-directory -C "$build" \
        install-exec-local pkglibdir="$work/lib" >"$work/make" 2>&1
}
# look: the file's number and how many names it has
look()
{
    stat -c '%i %h' "$1"
}

if ! install_it || [ ! -f "$installed" ]; then
    not_ok install "$(tail -n 2 "$work/make" | tr '\n' ' ')"
    finish
fi
# Another version, as it were: what follows the library's own bytes is nobody's concern.
echo older >>"$installed"
cp "$installed" "$work/older"
ln "$installed" "$work/kept"
before=$(look "$installed")

mkfifo "$work/gate"
exec 9<>"$work/gate"
env LD_PRELOAD="$sanitizer$installed" GPUBUDGET_LIMIT=1GiB GPUBUDGET_CHARGE=requested \
    "$take" --bite 256 --count 8 --hold <"$work/gate" >"$work/out" 2>"$work/err" 9>&- &
pid=$!
for _ in $(seq 600); do
    grep -q '^holding' "$work/out" && break
    sleep 0.1
done
install_it
status=$?
after=$(look "$installed")
if [ $status -ne 0 ] || ! cmp -s "$installed" "$preload"; then
    not_ok install-again "$(tail -n 2 "$work/make" | tr '\n' ' ')"
elif [ "${before% *}" = "${after% *}" ] || ! cmp -s "$work/kept" "$work/older"; then
    not_ok install-again "the old file was written to"
elif [ "$(find "$work/lib" -type f | wc -l)" -ne 1 ]; then
    not_ok install-again "left: $(ls "$work/lib")"
else
    ok install-again
fi

# The program gives a block back and takes another, in the old library.
exec 9>&-
wait "$pid"
status=$?
if [ $status -eq 0 ] && grep -q '^one more: .* granted$' "$work/out" &&
    [ "$(grep -c '^bite .* granted$' "$work/out")" -eq 4 ]; then
    ok goes-on
else
    not_ok goes-on "status $status: $(tail -n 1 "$work/out") $(tail -n 1 "$work/err")"
fi
finish
