/*
 * visible_cases.h: what CUDA makes of CUDA_VISIBLE_DEVICES on a machine with one card that is
 * not divided, as an H200 (580.159.04) answered. For visible_lists.c and
 * tests/unit/check_visible.c.
 */
#ifndef VISIBLE_CASES_H
#define VISIBLE_CASES_H

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 0, NO_DEVICE = 100, REFUSED = 101 }; /* what cuInit answers */

/* In list @ is the card's UUID without its head; [N] the first N characters of that, [^N] in
 * capitals, [_N] the first N without dashes; ! a digit that is not the one there. */
struct visible_case {
    const char *list; /* NULL: not set */
    int code;
};

static const struct visible_case visible_cases[] = {
    {NULL, SHOWN},
    {"", NO_DEVICE},
    {" ", NO_DEVICE},
    /* Numbers, as strtoul reads them: what follows is not looked at. */
    {"0", SHOWN},
    {" 0", SHOWN},
    {"0 ", SHOWN},
    {"  0", SHOWN},
    {"\t0", SHOWN},
    {"\n0", SHOWN},
    {"0\n", SHOWN},
    {"+0", SHOWN},
    {"-0", SHOWN},
    {"+-0", NO_DEVICE},
    {"- 0", NO_DEVICE},
    {"00", SHOWN},
    {"000000", SHOWN},
    {"0x0", SHOWN},
    {"1", NO_DEVICE},
    {"01", NO_DEVICE},
    {"-1", NO_DEVICE},
    {"-2", NO_DEVICE},
    {"0x", SHOWN},
    {"3gpu", NO_DEVICE},
    {"0gpu", SHOWN},
    {"0;0", SHOWN},
    {"0 0", SHOWN},
    {"0.5", SHOWN},
    {"0:0", SHOWN},
    {"0/0", SHOWN},
    {"0-1", SHOWN},
    {"1e0", NO_DEVICE},
    {"'0'", NO_DEVICE},
    {"x", NO_DEVICE},
    {"all", NO_DEVICE},
    {"NoDevFiles", NO_DEVICE},
    {"no", NO_DEVICE},
    /* Of the value the low 32 bits. */
    {"2147483647", NO_DEVICE},
    {"2147483648", NO_DEVICE},
    {"4294967295", NO_DEVICE},
    {"4294967296", SHOWN},
    {"4294967297", NO_DEVICE},
    {"-4294967296", SHOWN},
    {"-4294967295", NO_DEVICE},
    {"-2147483648", NO_DEVICE},
    {"8589934592", SHOWN},
    {"9223372036854775807", NO_DEVICE},
    {"9223372036854775808", SHOWN},
    {"18446744073709551615", NO_DEVICE},
    {"18446744073709551616", NO_DEVICE},
    {"36893488147419103232", NO_DEVICE},
    {"-9223372036854775808", SHOWN},
    {"-9223372036854775809", NO_DEVICE},
    {"-18446744073709551616", NO_DEVICE},
    /* The first wrong entry ends the list. */
    {"0,1", SHOWN},
    {"0,-1", SHOWN},
    {"0,-1,0", SHOWN},
    {"0,1,0", SHOWN},
    {"0,7,0", SHOWN},
    {"0,x,0", SHOWN},
    {"0,,0", SHOWN},
    {"0, ,1", SHOWN},
    {"0,", SHOWN},
    {"0,no", SHOWN},
    {"0,4294967295", SHOWN},
    {"1,0", NO_DEVICE},
    {"-1,0", NO_DEVICE},
    {"7,0,0", NO_DEVICE},
    {"x,0", NO_DEVICE},
    {",0", NO_DEVICE},
    {",", NO_DEVICE},
    {" ,0", NO_DEVICE},
    {"NoDevFiles,0", NO_DEVICE},
    /* A card named twice before that. */
    {"0,0", REFUSED},
    {"0,00", REFUSED},
    {"0,+0", REFUSED},
    {"0 ,0", REFUSED},
    {"0gpu,0", REFUSED},
    {"0,0,7", REFUSED},
    {"4294967296,0", REFUSED},
    {"0,4294967296", REFUSED},
    /* UUIDs: the head as it is written, digits in either case, dashes anywhere, shortened. */
    {"GPU-@", SHOWN},
    {"GPU-[^36]", SHOWN},
    {"gpu-@", NO_DEVICE},
    {"Gpu-@", NO_DEVICE},
    {"@", NO_DEVICE},
    {"GPU", NO_DEVICE},
    {"GPU-", NO_DEVICE},
    {"GPU--", SHOWN},
    {"GPU---------", SHOWN},
    {"GPU_@", NO_DEVICE},
    {"GPU@", NO_DEVICE},
    {"GPU-[1]", SHOWN},
    {"GPU-[2]", SHOWN},
    {"GPU-[7]", SHOWN},
    {"GPU-[8]", SHOWN},
    {"GPU-[9]", SHOWN},
    {"GPU-[13]", SHOWN},
    {"GPU-[24]", SHOWN},
    {"GPU-[35]", SHOWN},
    {"gpu-[8]", NO_DEVICE},
    {"GPU-[^8]", SHOWN},
    {"GPU-[^12]", SHOWN},
    {"GPU-[_36]", SHOWN},
    {"GPU-[_13]", SHOWN},
    {"GPU-[8]-", SHOWN},
    {"GPU-[8]--", SHOWN},
    {"GPU-[35]!", NO_DEVICE},
    {"GPU-!", NO_DEVICE},
    {"GPU-x", NO_DEVICE},
    {"GPU-0x[8]", NO_DEVICE},
    {"GPU-00000000-0000-0000-0000-000000000000", NO_DEVICE},
    /* After the last digit anything, before it only digits. */
    {"GPU-@x", SHOWN},
    {"GPU-@0", SHOWN},
    {"GPU-@-", SHOWN},
    {"GPU-@ ", SHOWN},
    {"GPU-@;GPU-@", SHOWN},
    {"GPU-@/0", SHOWN},
    {"GPU-[8]x", NO_DEVICE},
    {"GPU-[8] ", NO_DEVICE},
    {" GPU-[8]", NO_DEVICE},
    {" GPU-@", NO_DEVICE},
    {"+GPU-@", NO_DEVICE},
    /* Twice, and what ends the list. */
    {"GPU-@,GPU-@", REFUSED},
    {"GPU-@ ,GPU-@", REFUSED},
    {"GPU-@,GPU-[^36]", REFUSED},
    {"GPU-@,GPU-[8]", REFUSED},
    {"GPU-[8],GPU-[4]", REFUSED},
    {"GPU-@, GPU-@", SHOWN},
    {"GPU-@,,GPU-@", SHOWN},
    {"GPU-@,GPU-!", SHOWN},
    {"GPU-@,GPU-x", SHOWN},
    {"GPU-@,gpu-@", SHOWN},
    {"GPU-@,", SHOWN},
    {"GPU-!,GPU-@", NO_DEVICE},
    {"GPU-x,GPU-@", NO_DEVICE},
    {",GPU-@", NO_DEVICE},
    /* A list is of one kind. */
    {"GPU-@,0", SHOWN},
    {"GPU-@,-1", SHOWN},
    {"GPU-@,x", SHOWN},
    {"0,GPU-@", SHOWN},
    {"0,GPU-x", SHOWN},
    {"1,GPU-@", NO_DEVICE},
    {"GPU-!,0", NO_DEVICE},
    {"GPU-[8],0", SHOWN},
    /* The head of an instance serves as well; the older form of its name is of instances only.
     */
    {"MIG-@", SHOWN},
    {"MIG-[8]", SHOWN},
    {"mig-@", NO_DEVICE},
    {"MIG-", NO_DEVICE},
    {"MIG-x", NO_DEVICE},
    {"MIG-00000000-0000-0000-0000-000000000000", NO_DEVICE},
    {"MIG-GPU-@/0/0", NO_DEVICE},
    {"MIG-GPU-@", NO_DEVICE},
    {"MIG-GPU-@/0/0,GPU-@", NO_DEVICE},
    {"GPU-@,MIG-GPU-@/0/0", SHOWN},
    {"MIG-@,0", SHOWN},
    {"0,MIG-@", SHOWN},
    {"GPU-@,MIG-@", REFUSED},
    {"MIG-@,GPU-@", REFUSED},
    {"MIG-@,MIG-@", REFUSED},
};

enum { VISIBLE_CASES = sizeof(visible_cases) / sizeof(visible_cases[0]) };

/* Adds the first `most` characters of the UUID, in the way that is asked for. */
static inline char *visible_part(char *to, const char *uuid, int most, char way)
{
    for (int i = 0; i < most && uuid[i]; i++)
        if (way != '_' || uuid[i] != '-')
            *to++ = way == '^' ? (char)toupper((unsigned char)uuid[i]) : uuid[i];
    return to;
}

/* The list of a case for the card with that UUID ("GPU-..."); text: room for 256. */
static inline const char *visible_text(const char *list, const char *uuid, char *text)
{
    char *to = text;
    int length = 0;

    if (!list)
        return NULL;
    uuid += 4;
    for (; *list; list++) {
        char way = list[0] == '[' ? list[1] : '\0';

        if (list[0] == '@') {
            to = visible_part(to, uuid, 36, '\0');
        } else if (list[0] == '!') {
            *to++ = uuid[length] == '0' ? '1' : '0';
        } else if (list[0] == '[') {
            length = atoi(list + (way == '^' || way == '_' ? 2 : 1));
            to = visible_part(to, uuid, length, way);
            list = strchr(list, ']');
        } else {
            *to++ = *list;
        }
        if (*list == ',')
            length = 0;
    }
    *to = '\0';
    return text;
}

#endif
