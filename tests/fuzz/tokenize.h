/* Claims that hold for every accepted tokenizer and every text. */
#ifndef SMOL_TESTS_FUZZ_TOKENIZE_H
#define SMOL_TESTS_FUZZ_TOKENIZE_H

#include "format/tokenizer.h"
#include "tests/fuzz/fuzz.h"

/* Encodes text[0..size), with and without added tokens, and streams what it decodes to; looks at
 * the text of every token. */
void fuzz_tokenize(const struct tokenizer_tables *tables, const char *text, size_t size);

/* The ids of well-formed text[0..size) decode to that text, but for bytes without a token. For
 * tables that smol_tokenizer_compile made; where some added tokens are not special, nothing is
 * claimed. */
void fuzz_round_trip(const struct tokenizer_tables *tables, const char *text, size_t size);

#endif
