/* The text section of a blob: how to prepare, split and decode texts if the tokenizer differs from
 * GPT-2's byte-level BPE. */
#ifndef SMOL_CONVERT_TEXT_SECTION_H
#define SMOL_CONVERT_TEXT_SECTION_H

#include <jansson.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/tokenizer/text_rules.h"
#include "convert/tokenizer/vocabulary.h"
#include "format/format.h"

/* A section, with zero padding; `data` is allocated. Equal input produces equal bytes. */
struct text_section {
    uint8_t *data;
    size_t size; /* 0: the blob needs no text section */
};

/* Builds the section without names and ids, to normalize added tokens with. Without a normalizer,
 * `data` is NULL and `size` is 0. Errors: SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_normalizer_compile(const struct text_rules *rules, const char *path,
                                    struct text_section *section, smol_error *error);

/* Builds the section of `root` for the tokens of `vocabulary`. Errors: SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_text_compile(const struct text_rules *rules, const json_t *root, const char *path,
                              const struct vocabulary *vocabulary, struct text_section *section,
                              smol_error *error);

void smol_text_section_free(struct text_section *section);

#endif
