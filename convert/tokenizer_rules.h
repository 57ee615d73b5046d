/* What a tokenizer.json asks for beside its vocabulary and merges. */
#ifndef SMOL_CONVERT_TOKENIZER_RULES_H
#define SMOL_CONVERT_TOKENIZER_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* Goes through every part of `root` that could change ids or text, refuses by name what the
 * tokenizer section cannot express, and gives the bits of enum pretokenizer_bit. `path` is for
 * messages. Errors: STATUS_DAMAGED, STATUS_UNSUPPORTED. */
enum status smol_tokenizer_check_rules(const json_t *root, const char *path, uint32_t *pretokenizer,
                                       struct error *error);

/* The same for what matters only to bytes without a token: `covered` when there are none. */
enum status smol_tokenizer_check_unknown(const json_t *root, const char *path, bool covered,
                                         struct error *error);

#endif
