/* Reads the pre-tokenizer of a tokenizer.json. */
#ifndef SMOL_CONVERT_PRETOKENIZER_H
#define SMOL_CONVERT_PRETOKENIZER_H

#include <jansson.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/tokenizer/scanner.h"

/* Initialize to zeros. */
struct pretokenizer {
    uint32_t bits;                  /* enum pretokenizer_bit */
    struct scanner_section scanner; /* set with PRETOKENIZE_SCANNER */
};

/* Reads the pre-tokenizer of `root`, a tokenizer.json, and compiles its patterns. Pre-tokenizers
 * that version 1.0 of the format can express need no scanner. `path` is for messages. Call
 * smol_pretokenizer_free, also after an error. Errors: SMOL_ERROR_UNSUPPORTED,
 * SMOL_ERROR_MEMORY. */
smol_status smol_pretokenizer_read(const json_t *root, const char *path,
                                   struct pretokenizer *pretokenizer, smol_error *error);

/* Does the same for a model whose words are characters. A Metaspace at the end is not read here.
 * Without another part there is no scanner. */
smol_status smol_pretokenizer_read_words(const json_t *root, const char *path,
                                         struct pretokenizer *pretokenizer, smol_error *error);

void smol_pretokenizer_free(struct pretokenizer *pretokenizer);

#endif
