/* Compiles a checkpoint's tokenizer.json into the flat tables of a blob: its tokenizer section
 * (format/format.h, struct blob_tokenizer), text section (struct blob_text) and scanner section
 * (struct blob_scanner).
 *
 * The rules are read first, so that an unsupported tokenizer is refused before any weight is read:
 * text_rules.c with model_rules.c, normalizer.c and decoder.c, and pretokenizer.c, whose patterns
 * become automata (pattern*.c, class_map.c, automaton*.c, scanner.c). The tables are built next:
 * vocabulary.c, merges.c, and text_section.c with the tables of text_tables.h. */
#ifndef SMOL_CONVERT_TOKENIZER_H
#define SMOL_CONVERT_TOKENIZER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/tokenizer/pretokenizer.h"
#include "convert/tokenizer/text_rules.h"
#include "convert/tokenizer/vocabulary.h"
#include "format/format.h"

struct tokenizer_rules {
    struct pretokenizer pretokenizer;
    struct text_rules text;
};

/* Checks every part of `root` that could change ids or text, refuses by name everything that a blob
 * cannot express, and fills *rules. The texts of *rules are valid as long as `root`. `path` is for
 * messages. Call smol_tokenizer_rules_free, also after an error. Errors: SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_tokenizer_check_rules(const json_t *root, const char *path,
                                       struct tokenizer_rules *rules, smol_error *error);

/* Frees the rules; zeroed rules are allowed. */
void smol_tokenizer_rules_free(struct tokenizer_rules *rules);

/* The text section of a blob, with zero padding: how to prepare, split and decode texts if the
 * tokenizer differs from GPT-2's byte-level BPE. `data` is allocated. Equal input produces equal
 * bytes. */
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

/* The finished sections, likewise. */
struct tokenizer_section {
    uint8_t *data;
    size_t size;
    struct text_section text; /* empty if the tokenizer needs no text section */
};

/* Compiles `root`, a tokenizer.json whose rules have been checked. Ids must be below `vocab_size`.
 * `path` is for messages. Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_tokenizer_compile(const json_t *root, const char *path,
                                   const struct tokenizer_rules *rules, uint32_t vocab_size,
                                   struct tokenizer_section *section, smol_error *error);

void smol_tokenizer_section_free(struct tokenizer_section *section);

#endif
