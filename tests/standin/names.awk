# Turns the rows of names.tbl (and names-future.tbl) into one of two things:
#   -v want=source             C text: a weak stand-in for every export and the look-up table
#   -v want=map -v version=N   a version script that exports what a driver of version N has
/^#/ || NF != 4 { next }
{ base[++n] = $1; since[n] = $2; flags[n] = toupper($3); name[n] = $4 }
END {
    if (want == "map") {
        print "{\n  global:\n    standin_*;"
        for (i = 1; i <= n; i++)
            if (since[i] + 0 <= version + 0)
                print "    " name[i] ";"
        print "  local: *;\n};"
        exit
    }
    print "/* Generated from names.tbl by names.awk. */"
    print "#include \"names.h\"\n"
    for (i = 1; i <= n; i++)
        print "SIM_WEAK(" name[i] ")"
    print "\nconst struct sim_name sim_names[] = {"
    for (i = 1; i <= n; i++)
        print "    {\"" base[i] "\", " since[i] ", SIM_FLAGS_" flags[i] ", (void *)" name[i] "},"
    print "};\nconst unsigned sim_name_count = " n ";"
}
