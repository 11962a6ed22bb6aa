# functions.awk: from functions.tbl the part of docs/coverage.md that speaks of all functions
# but the intercepted ones. Rows of a family with the same policy, state and reason become one;
# further spellings of a name follow it by their suffixes alone.

# The name without the suffixes that make a spelling of it.
function stem(name)
{
    sub(/_pt[sd][sz]$/, "", name)
    sub(/_v[0-9]+$/, "", name)
    return name
}

# The names of a list in words: `cuX` (`_v2`, `_v2_ptsz`), `cuY`; or `cuX`, `cuY`
function spelled(list, only_stems,    n, i, name, base, order, bases, first, forms, more, text)
{
    n = split(list, name, " ")
    bases = 0
    for (i = 1; i <= n; i++) {
        base = stem(name[i])
        if (!(base in first)) {
            order[++bases] = base
            first[base] = name[i]
            forms[base] = "`" name[i] "`"
        } else if (first[base] == base) {
            more[base] = more[base] (more[base] != "" ? ", " : "")
            more[base] = more[base] "`" substr(name[i], length(base) + 1) "`"
        } else {
            forms[base] = forms[base] ", `" name[i] "`"
        }
    }
    text = ""
    for (i = 1; i <= bases; i++) {
        base = order[i]
        text = text (i > 1 ? ", " : "") (only_stems ? "`" base "`" : forms[base])
        if (!only_stems && more[base] != "")
            text = text " (" more[base] ")"
    }
    return text
}

$1 == "family" {
    word[++families] = $2
    heading = $0
    sub(/^family +[^ ]+ +/, "", heading)
    title[$2] = heading
    next
}
$1 == "takes" {
    takes[word[families]] = substr($0, 7)
    next
}
$1 == "note" {
    note[word[families]] = note[word[families]] substr($0, 6) "\n"
    next
}
/^cu/ {
    total++
    if ($4 == "intercepted") {
        ours[$2]++
        next
    }
    if ($4 == "not-yet")
        open++
    if ($4 == "not-yet" && ($3 == "charged" || $3 == "measured"))
        missed[$2] = missed[$2] " " $1
    if ($4 == "not-yet" && $3 == "watched")
        unwatched[$2] = unwatched[$2] " " $1
    why = $0
    sub(/^[^ ]+ +[^ ]+ +[^ ]+ +[^ ]+ +/, "", why)
    key = $2 SUBSEP $3 SUBSEP $4 SUBSEP why
    if (!(key in names)) {
        group[$2, ++groups[$2]] = key
        policy[key] = $3 == "looked-up" ? "looked up" : $3 == "passed" ? "passed through" : $3
        if ($4 == "not-yet")
            policy[key] = policy[key] ", not yet"
        reason[key] = why
    }
    names[key] = names[key] " " $1
}
# The families with calls that take memory and are not intercepted yet, if there are any.
function print_missed(    i, f, list, heads)
{
    for (i = 1; i <= families; i++) {
        f = word[i]
        list = missed[f] != "" ? missed[f] : unwatched[f]
        if (list == "")
            delete takes[f]
        if (!(f in takes))
            continue
        if (!heads++) {
            print "## Not charged in this version\n"
            print "These calls may take memory of the card and are passed on: nothing is asked before, and"
            print "what they took can stand above the limit. Footprint mode finds it at its next look and"
            print "charges it as `other` from then on, where NVML tells the process's figure; requested"
            print "mode never does.\n"
            print "| family | what is not charged in this version | calls |"
            print "| --- | --- | --- |"
        }
        print "| " title[f] " | " takes[f] " | " spelled(list, 1) " |"
    }
    if (heads)
        print ""
}

END {
    print_missed()
    print "## All other functions\n"
    print "For each of these a program gets the driver's own function. *Not measured* means that"
    print "nobody has looked at a card. A suffix after a name is a further spelling of it."
    if (open) {
        print "*Not yet* means that the policy is what the call will have: in this version nothing is"
        print "charged, shown or given back for it."
    }
    print "The " total " functions of CUDA 13.0, less those of the first table:"
    for (i = 1; i <= families; i++) {
        f = word[i]
        print "\n### " title[f] "\n"
        printf "%s", note[f]
        if (f in takes)
            print "\n**Not charged in this version:** " takes[f] "."
        if (!groups[f]) {
            print "\nAll of these are in the first table."
            continue
        }
        print "\n| functions | policy | why |"
        print "| --- | --- | --- |"
        for (j = 1; j <= groups[f]; j++) {
            key = group[f, j]
            print "| " spelled(names[key], 0) " | " policy[key] " | " reason[key] " |"
        }
    }
}
