#!/bin/bash
# The manual pages: clean for mandoc, and in step with the settings table and the options.
set -u
srcdir=${srcdir:-.}
failed=0
temp=$(mktemp -d) || exit 1
trap 'rm -rf "$temp"' EXIT

ok() { echo "ok $1"; }
not_ok()
{
    echo "not ok $1: $2"
    failed=1
}

for page in "$srcdir"/man/*.[1-8]; do
    name="lint-$(basename "$page")"
    if ! command -v mandoc >/dev/null; then
        echo "skip $name: mandoc is not installed"
    elif mandoc -T lint -W warning "$page" >"$temp/lint" 2>&1; then
        ok "$name"
    else
        not_ok "$name" "$(head -n 1 "$temp/lint")"
    fi
done

# Each item of the ENVIRONMENT section begins with the table's own words.
page="$srcdir/man/gpubudget.7"
./tests/tools/settings-table >"$temp/table" || not_ok settings-table "it fails"
awk '/^\.It Ev GPUBUDGET_/ { take = 1; print; line = 1; next }
    take && line < 3 { print; line++; next }
    take && line == 3 && /^Checked, but without effect/ { print }
    { take = 0 }' "$page" >"$temp/page"
if diff -u "$temp/table" "$temp/page" >"$temp/diff"; then
    ok environment-is-the-table
else
    cat "$temp/diff"
    not_ok environment-is-the-table "gpubudget.7 and the settings table differ"
fi

# Each option of --help is in the page, and the other way round.
for tool in gpubudget-run gpubudget-ctl; do
    page="$srcdir/man/$tool.1"
    "./$tool" --help | grep -o -e '--[a-z][a-z]*' | sort -u >"$temp/help"
    grep '^\.It Fl' "$page" | grep -o -e 'Fl -[a-z][a-z]*' | sed 's/^Fl /-/' | sort -u >"$temp/page"
    if [ -s "$temp/help" ] && diff -u "$temp/help" "$temp/page" >"$temp/diff"; then
        ok "options-are-those-of-help($tool)"
    else
        cat "$temp/diff"
        not_ok "options-are-those-of-help($tool)" "$tool.1 and --help differ"
    fi
done
exit $failed
