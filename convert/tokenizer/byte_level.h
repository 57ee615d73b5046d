/* The byte-level alphabet of tokenizer.json. Each byte is written as one character: printable
 * Latin-1 as itself, and the other 68 bytes as U+0100 and the following characters, in order. */
#ifndef SMOL_CONVERT_BYTE_LEVEL_H
#define SMOL_CONVERT_BYTE_LEVEL_H

#include <stdint.h>

/* Returns the character that represents `byte`. */
static inline uint32_t byte_level_character(uint8_t byte)
{
    if (byte <= 0x20)
        return 0x100u + byte;
    if (byte >= 0x7f && byte <= 0xa0)
        return 0x100u + 33 + byte - 0x7f;
    return byte == 0xad ? 0x100u + 67 : byte;
}

/* Returns the byte that `character` represents, or -1. */
static inline int byte_level_byte(uint32_t character)
{
    if (character >= 0x100 && character < 0x100 + 33)
        return (int)character - 0x100;
    if (character >= 0x100 + 33 && character < 0x100 + 67)
        return (int)character - 0x100 - 33 + 0x7f;
    if (character == 0x100 + 67)
        return 0xad;
    return character < 0x100 && byte_level_character((uint8_t)character) == character
               ? (int)character
               : -1;
}

#endif
