# escape-rows.sh: how a row of the escape matrix is judged, here and on a real GPU
# (scripts/gpu-check). Sourced, not run. Figures are MiB.
# shellcheck shell=bash

# Rows that are known to fail, and why. The only such list; a row that holds leaves it.
# shellcheck disable=SC2034
declare -A escape_open=(
)

# escape_limit: the limit of every row, which holds for the context too.
# shellcheck disable=SC2034
escape_limit=1024

# escape_verdict HELD STEP REFUSED: what is wrong, or nothing. STEP: how much may be left unused
# by a row that was refused.
escape_verdict()
{
    local held=$1 step=$2 refused=$3
    if [ "$held" -gt $escape_limit ]; then
        echo "ESCAPE: holds $held MiB, $((held - escape_limit)) more than its limit"
    elif [ "$refused" -gt 0 ] && [ "$held" -lt $((escape_limit - step)) ]; then
        echo "FALSE REFUSAL: refused with $held MiB, and should reach $((escape_limit - step))"
    fi
}

# escape_refused FILE: how often the program was refused.
escape_refused()
{
    sed -n 's/^granted: .* refused: \([0-9]*\) times$/\1/p' "$1"
}

# escape_simulated FILE FIGURE: what the stand-in says of the process or the card; nothing on a
# real GPU.
escape_simulated()
{
    awk -v figure="$2" '$1 == "stand-in:" {
        bytes = figure == "card" ? $5 : $3
        printf "%d\n", (bytes + 1048575) / 1048576
    }' "$1"
}
