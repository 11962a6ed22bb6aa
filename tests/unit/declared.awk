# declared.awk: the functions that headers of the driver's API declare, one name a line. Read
# from their text: so those of other systems and the spellings behind a #define are there too,
# which no one run of the preprocessor shows. Comments may stand anywhere.
#   CUresult CUDAAPI cuX(                       cuX
#   #define cuX cuX_v2                          cuX_v2
#   #define cuX __CUDA_API_PTSZ(cuX_v2)         cuX_v2 and cuX_v2_ptsz
function say(name)
{
    if (!(name in said))
        print name
    said[name] = 1
}
{
    line = $0
    text = ""
    while (line != "") {
        if (inside) {
            at = index(line, "*/")
            if (at == 0)
                break
            line = substr(line, at + 2)
            inside = 0
        } else if (match(line, /\/[*\/]/)) {
            text = text substr(line, 1, RSTART - 1) " "
            if (substr(line, RSTART, 2) == "//")
                break
            line = substr(line, RSTART + 2)
            inside = 1
        } else {
            text = text line
            break
        }
    }
    if (text ~ /^[ \t]*#/) {
        if (text ~ /^[ \t]*#[ \t]*define[ \t]+cu[A-Z]/) {
            sub(/^[ \t]*#[ \t]*define[ \t]+cu[A-Za-z0-9_]+[ \t]*/, "", text)
            sub(/[ \t\r]+$/, "", text)
            if (text ~ /^__CUDA_API_PT[DS][SZ]\(cu[A-Za-z0-9_]+\)$/) {
                suffix = tolower(substr(text, 11, 5))
                name = substr(text, 17, length(text) - 17)
                say(name)
                say(name suffix)
            } else if (text ~ /^cu[A-Z][A-Za-z0-9_]*$/) {
                say(text)
            }
        }
        next
    }
    # A declaration may go over several lines: what came since the last end of one is kept.
    declaration = declaration " " text
    while (match(declaration, /CUresult[ \t]+(CUDAAPI[ \t]+)?cu[A-Z][A-Za-z0-9_]*[ \t]*\(/)) {
        name = substr(declaration, RSTART, RLENGTH - 1)
        declaration = substr(declaration, RSTART + RLENGTH)
        gsub(/[ \t]+$/, "", name)
        sub(/^.*[ \t]/, "", name)
        say(name)
    }
    if (declaration ~ /[;{}][ \t\r]*$/)
        declaration = ""
}
