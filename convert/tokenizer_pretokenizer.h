/* The pre-tokenizer that a tokenizer.json asks for. */
#ifndef SMOL_CONVERT_TOKENIZER_PRETOKENIZER_H
#define SMOL_CONVERT_TOKENIZER_PRETOKENIZER_H

#include <jansson.h>
#include <stdint.h>

#include "common/error.h"

/* Gives the bits of enum pretokenizer_bit that `root`, a tokenizer.json, asks for. `path` is for
 * messages. Errors: STATUS_UNSUPPORTED. */
enum status smol_pretokenizer_read(const json_t *root, const char *path, uint32_t *bits,
                                   struct error *error);

#endif
