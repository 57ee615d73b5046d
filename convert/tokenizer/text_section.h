/* The text section of a blob: how texts are prepared, cut and shown where that differs from
 * byte-level BPE as in GPT-2. */
#ifndef SMOL_CONVERT_TEXT_SECTION_H
#define SMOL_CONVERT_TEXT_SECTION_H

#include <jansson.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/tokenizer/text_rules.h"
#include "convert/tokenizer/vocabulary.h"
#include "format/format.h"

/* A section: allocated, padding zero; the same input always gives the same bytes. */
struct text_section {
    uint8_t *data;
    size_t size; /* 0: the blob needs none */
};

/* Makes the section without names and ids, for added tokens to be normalized with; `data` NULL and
 * size 0 where there is no normalizer. Errors: SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_normalizer_compile(const struct text_rules *rules, const char *path,
                                    struct text_section *section, smol_error *error);

/* Makes the section of `root` for the tokens of `vocabulary`. Errors: SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_text_compile(const struct text_rules *rules, const json_t *root, const char *path,
                              const struct vocabulary *vocabulary, struct text_section *section,
                              smol_error *error);

void smol_text_section_free(struct text_section *section);

#endif
