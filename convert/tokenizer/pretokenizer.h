/* The pre-tokenizer that a tokenizer.json asks for. */
#ifndef SMOL_CONVERT_PRETOKENIZER_H
#define SMOL_CONVERT_PRETOKENIZER_H

#include <jansson.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/tokenizer/scanner.h"

/* Start from zeros. */
struct pretokenizer {
    uint32_t bits;                  /* of enum pretokenizer_bit */
    struct scanner_section scanner; /* with PRETOKENIZE_SCANNER: how to cut */
};

/* Reads the pre-tokenizer of `root`, a tokenizer.json, and compiles its patterns. What version 1.0
 * of the format can say needs no scanner. `path` is for messages. Free in any case. Errors:
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_pretokenizer_read(const json_t *root, const char *path,
                                   struct pretokenizer *pretokenizer, smol_error *error);

void smol_pretokenizer_free(struct pretokenizer *pretokenizer);

#endif
