/* Pre-tokenization, see words.h. Ill-formed UTF-8 is safe here, although callers replace it
 * first. */
#include "runtime/tokenizer/words.h"

#include "common/utf8.h"

/* Returns the classes of the first character of text[0..size), size > 0. Sets *length to its size
 * in bytes. */
static inline unsigned classes_at(const struct tokenizer_tables *tables, const uint8_t *text,
                                  size_t size, size_t *length)
{
    uint32_t code_point = text[0];
    *length = 1;
    if (code_point >= 0x80)
        *length = smol_utf8_decode(text, size, &code_point);
    return tokenizer_classes(tables, code_point);
}

size_t smol_piece_length(const struct tokenizer_tables *tables, const uint8_t *text, size_t size)
{
    if (!(tables->header.pretokenizer & PRETOKENIZE_DIGITS))
        return size;
    size_t length;
    for (size_t i = 0; i < size; i += length)
        if (classes_at(tables, text + i, size - i, &length) & CLASS_NUMERIC)
            return i > 0 ? i : length;
    return size;
}

/* Returns the length of an English contraction at the start, or 0. */
static size_t contraction_length(const uint8_t *text, size_t size)
{
    if (size < 2 || text[0] != '\'')
        return 0;
    switch (text[1]) {
    case 's':
    case 't':
    case 'm':
    case 'd':
        return 2;
    case 'r':
    case 'v':
        return size > 2 && text[2] == 'e' ? 3 : 0;
    case 'l':
        return size > 2 && text[2] == 'l' ? 3 : 0;
    default:
        return 0;
    }
}

/* The kinds of characters that the pattern distinguishes: letters, numbers, white space and, with
 * none of these bits, all others. */
enum { KINDS = CLASS_LETTER | CLASS_NUMBER | CLASS_SPACE };

/* Returns the length of the run of characters of `kind` at the start. The first character is of
 * this kind and `first` bytes long. Sets *last to the offset of the last character. */
static size_t run_length(const struct tokenizer_tables *tables, const uint8_t *text, size_t size,
                         unsigned kind, size_t first, size_t *last)
{
    size_t length;
    size_t i = first;
    *last = 0;
    while (i < size && (classes_at(tables, text + i, size - i, &length) & KINDS) == kind) {
        *last = i;
        i += length;
    }
    return i;
}

size_t smol_word_length(const struct tokenizer_tables *tables, const uint8_t *piece, size_t size)
{
    size_t length = contraction_length(piece, size);
    if (length)
        return length;
    size_t lead = piece[0] == ' ' && size > 1; /* a space that may belong to the word after it */
    size_t last;
    unsigned kind = classes_at(tables, piece + lead, size - lead, &length) & KINDS;
    if (kind != CLASS_SPACE)
        return lead + run_length(tables, piece + lead, size - lead, kind, length, &last);
    length = run_length(tables, piece, size, CLASS_SPACE, lead ? lead : length, &last);
    /* white space before other text leaves its last character for the next word */
    return length == size || last == 0 ? length : last;
}
