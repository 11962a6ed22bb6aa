/* PTX texts for the checks of launches, limits, modules and graphs. */
#ifndef CHECK_CODE_H
#define CHECK_CODE_H

#include "check_standin.h"

#define PTX_HEAD ".version 6.0\n.target sm_50\n.address_size 64\n"
/* `none` has no local memory, `some` 16 KiB a thread, `much` 64 KiB, `calls` 8 KiB and the 2
 * KiB of what it calls. */
#define PTX_LOCAL                                                                              \
    PTX_HEAD                                                                                   \
    ".func inner()\n{\n\t.local .align 4 .b8 frame[2048];\n\tret;\n}\n"                        \
    ".visible .entry none()\n{\n\tret;\n}\n"                                                   \
    "// .visible .entry not_this() { .local .b8 frame[999999]; }\n"                            \
    ".visible .entry some(.param .u64 a, .param .align 8 .b8 b[24])\n.maxntid 64\n{\n"         \
    "\t.local .align 8 .b8 \t__local_depot0[16384];\n\t{ .reg .b64 %rd<4>; }\n"                \
    "\tret;\n}\n"                                                                              \
    ".visible .entry much() { .local .align 8 .b8 frame[64][1024]; ret; }\n"                   \
    ".visible .entry calls() { .local .v4 .f32 frame[2048]; call inner; ret; }\n"

/* What a context of the measured card takes for `bytes` of local memory more than at first. */
#define LOCAL_BYTES(bytes) (((uint64_t)(bytes)-1024) * 2048 * 132)

CUmodule check_module(const char *text);
CUfunction check_function(CUmodule module, const char *name);

#endif
