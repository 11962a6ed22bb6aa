/*
 * characters.h: what the grammars need of <ctype.h>, without a locale.
 */
#ifndef GB_CONFIG_CHARACTERS_H
#define GB_CONFIG_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>

static inline bool gb_is_blank(char character)
{
    return character == ' ' || (character >= '\t' && character <= '\r');
}

static inline bool gb_is_digit(char character)
{
    return character >= '0' && character <= '9';
}

static inline char gb_lower(char character)
{
    return character >= 'A' && character <= 'Z' ? (char)(character - 'A' + 'a') : character;
}

/* Value of a hexadecimal digit, or -1. */
static inline int gb_hex_value(char character)
{
    character = gb_lower(character);
    if (gb_is_digit(character))
        return character - '0';
    return character >= 'a' && character <= 'f' ? character - 'a' + 10 : -1;
}

/* A stretch of a text that is being read; not terminated. */
struct gb_piece {
    const char *text;
    size_t length;
};

static inline struct gb_piece gb_trimmed(struct gb_piece piece)
{
    for (; piece.length > 0 && gb_is_blank(piece.text[0]); piece.length--)
        piece.text++;
    while (piece.length > 0 && gb_is_blank(piece.text[piece.length - 1]))
        piece.length--;
    return piece;
}

#endif
