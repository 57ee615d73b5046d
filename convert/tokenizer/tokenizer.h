/* Compiles a checkpoint's tokenizer.json into the flat tables of a blob: its tokenizer section
 * (format/format.h, struct blob_tokenizer), text section (struct blob_text) and scanner section
 * (struct blob_scanner).
 *
 * The rules are read first, so that an unsupported tokenizer is refused before any weight is read:
 * text_rules.c with model_rules.c, normalizer.c and decoder.c, and pretokenizer.c, whose patterns
 * become automata (pattern*.c, class_map.c, automaton*.c, scanner.c). The tables are built next:
 * vocabulary.c, merges.c, text_section.c with nfc_tables.c. */
#ifndef SMOL_CONVERT_TOKENIZER_H
#define SMOL_CONVERT_TOKENIZER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/tokenizer/pretokenizer.h"
#include "convert/tokenizer/text_rules.h"
#include "convert/tokenizer/text_section.h"

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

/* The finished sections, with zero padding; `data` is allocated. Equal input produces equal
 * bytes. */
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
