/* GPT-2's pre-tokenization: splits a text into pieces and each piece into words. Each word is
 * merged separately. */
#ifndef SMOL_RUNTIME_TOKENIZER_GPT2_WORDS_H
#define SMOL_RUNTIME_TOKENIZER_GPT2_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "format/tokenizer.h"

/* Returns the length of the first piece of text[0..size), size > 0: one digit, or the text before
 * the next digit. Returns `size` if digits are not separate pieces. */
size_t smol_piece_length(const struct tokenizer_tables *tables, const uint8_t *text, size_t size);

/* Returns the length of the first word of piece[0..size), size > 0, by GPT-2's pattern
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * The look-ahead treats the end of the piece as the end of the text. */
size_t smol_word_length(const struct tokenizer_tables *tables, const uint8_t *piece, size_t size);

#endif
