/* What a tokenizer.json asks for beside its vocabulary and merges. */
#ifndef SMOL_CONVERT_TOKENIZER_RULES_H
#define SMOL_CONVERT_TOKENIZER_RULES_H

#include <jansson.h>

#include "common/error.h"
#include "convert/tokenizer/tokenizer_pretokenizer.h"
#include "convert/tokenizer/tokenizer_text.h"

struct tokenizer_rules {
    struct pretokenizer pretokenizer;
    struct text_rules text;
};

/* Goes through every part of `root` that could change ids or text, refuses by name what a blob
 * cannot express, and fills *rules, whose texts live as long as `root` does. `path` is for
 * messages. Free the rules in any case. Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED,
 * SMOL_ERROR_MEMORY. */
smol_status smol_tokenizer_check_rules(const json_t *root, const char *path,
                                       struct tokenizer_rules *rules, smol_error *error);

/* Zeroed rules are fine. */
void smol_tokenizer_rules_free(struct tokenizer_rules *rules);

#endif
