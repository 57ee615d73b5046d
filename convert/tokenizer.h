/* Compiles a checkpoint's tokenizer.json into the flat tables of the blob's tokenizer section
 * (format/format.h, struct blob_tokenizer). */
#ifndef SMOL_CONVERT_TOKENIZER_H
#define SMOL_CONVERT_TOKENIZER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

/* The finished section: allocated, padding zero; the same input always gives the same bytes. */
struct tokenizer_section {
    uint8_t *data;
    size_t size;
};

/* Compiles `root`, what is in a tokenizer.json whose rules have been checked: byte-level BPE, with
 * the bits `pretokenizer` that smol_tokenizer_check_rules gave (tokenizer_rules.h). Ids must be
 * below `vocab_size`; `path` is for messages. Errors: STATUS_DAMAGED, STATUS_UNSUPPORTED,
 * STATUS_MEMORY. */
enum status smol_tokenizer_compile(const json_t *root, const char *path, uint32_t pretokenizer,
                                   uint32_t vocab_size, struct tokenizer_section *section,
                                   struct error *error);

void smol_tokenizer_section_free(struct tokenizer_section *section);

#endif
