/* Compiles a checkpoint's tokenizer.json into the flat tables of the blob's tokenizer section
 * (format/format.h, struct blob_tokenizer) and text section (struct blob_text). */
#ifndef SMOL_CONVERT_TOKENIZER_H
#define SMOL_CONVERT_TOKENIZER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/tokenizer/tokenizer_rules.h"

/* The finished sections: allocated, padding zero; the same input always gives the same bytes. */
struct tokenizer_section {
    uint8_t *data;
    size_t size;
    struct text_section text; /* empty where the tokenizer needs none */
};

/* Compiles `root`, what is in a tokenizer.json whose rules have been checked (tokenizer_rules.h).
 * Ids must be below `vocab_size`; `path` is for messages. Errors: SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_tokenizer_compile(const json_t *root, const char *path,
                                   const struct tokenizer_rules *rules, uint32_t vocab_size,
                                   struct tokenizer_section *section, smol_error *error);

void smol_tokenizer_section_free(struct tokenizer_section *section);

#endif
