/* What a tokenizer.json asks for beyond byte-level BPE as GPT-2 has it, and the text section of a
 * blob, which says so to the runtime. */
#ifndef SMOL_CONVERT_TOKENIZER_TEXT_H
#define SMOL_CONVERT_TOKENIZER_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/tokenizer/tokenizer_vocabulary.h"
#include "format/format.h"

/* A text of the file; it lives as long as the JSON does. */
struct rule_text {
    const char *data; /* NULL: none */
    size_t size;
};

/* A struct text_step before it has a place in a pool. */
struct rule_step {
    enum text_step_kind kind;
    struct rule_text pattern, text;
};

struct rule_steps {
    struct rule_step steps[TEXT_MAX_STEPS];
    uint32_t n;
};

/* What is made of a token to show it: first each replacement by itself, then bytes. */
struct decoder_rules {
    struct rule_step replacements[TEXT_MAX_STEPS]; /* of kind STEP_REPLACE */
    uint32_t n;
    bool bytes;     /* <0x0A> stands for a byte */
    bool bare;      /* Metaspace: the first token is shown without the spaces that it gets */
    uint32_t strip; /* see struct blob_text */
    uint32_t n_strip;
};

struct text_rules {
    bool characters; /* words are made of characters: the vocabulary is not in byte-level letters */
    bool byte_fallback, fuse_unknown, whole_words;
    struct rule_text unknown; /* the token that stands for what has none */
    struct rule_steps normalizer, metaspace;
    uint32_t split; /* see struct blob_text */
    struct decoder_rules decoder;
    uint32_t before[TEXT_MAX_AROUND], behind[TEXT_MAX_AROUND], n_before, n_behind;
};

/* Reads the rules of `root`, and refuses by name what they cannot express. `path` is for messages.
 * Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED. */
smol_status smol_text_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                 smol_error *error);

/* Its parts, of the keys decoder; normalizer, and pre_tokenizer where words are made of characters;
 * post_processor. */
smol_status smol_decoder_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                    smol_error *error);
smol_status smol_step_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                 smol_error *error);
smol_status smol_around_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                   smol_error *error);

/* The bytes that a token is shown as, of those of its name[0..size); allocated. */
struct shown_token {
    char *data;
    size_t size;
    uint16_t flags; /* TOKEN_BYTE, TOKEN_PLAIN */
};

/* Errors: SMOL_ERROR_UNSUPPORTED (spaces of both kinds in a token), SMOL_ERROR_MEMORY. */
smol_status smol_decoder_show(const struct decoder_rules *rules, const char *path, const char *name,
                              size_t size, struct shown_token *shown, smol_error *error);

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
