/* Where pre-tokenization cuts a text: first into pieces, then each piece into words, which are
 * merged by themselves. */
#ifndef SMOL_RUNTIME_TOKENIZER_GPT2_WORDS_H
#define SMOL_RUNTIME_TOKENIZER_GPT2_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "format/tokenizer.h"

/* The length of the first piece of text[0..size), size > 0: one digit, or what lies before the
 * next digit. All of it when digits do not stand alone. */
size_t smol_piece_length(const struct tokenizer_tables *tables, const uint8_t *text, size_t size);

/* The length of the first word of piece[0..size), size > 0, by GPT-2's pattern
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * whose look-ahead sees the end of the piece as the end of the text. */
size_t smol_word_length(const struct tokenizer_tables *tables, const uint8_t *piece, size_t size);

#endif
