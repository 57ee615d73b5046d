/* The rules of a tokenizer.json beyond byte-level BPE as in GPT-2: its model's options, normalizer,
 * pre-tokenizer of characters, post-processor and decoder. */
#ifndef SMOL_CONVERT_TEXT_RULES_H
#define SMOL_CONVERT_TEXT_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/tokenizer/json_part.h"
#include "format/format.h"

/* A struct text_step before it has a place in a pool. */
struct rule_step {
    enum text_step_kind kind;
    struct json_text pattern, text;
};

struct rule_steps {
    struct rule_step steps[TEXT_MAX_STEPS];
    uint32_t n;
};

/* How a token is shown: first each replacement by itself, then bytes. */
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
    struct json_text unknown; /* the token that stands for what has none */
    struct rule_steps normalizer, metaspace;
    uint32_t split; /* see struct blob_text */
    struct decoder_rules decoder;
    uint32_t before[TEXT_MAX_AROUND], behind[TEXT_MAX_AROUND], n_before, n_behind;
};

/* Reads the rules of `root`, and refuses by name what they cannot express. `path` is for messages.
 * Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED. */
smol_status smol_text_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                 smol_error *error);

/* Reads the key "decoder", a part of the above. */
smol_status smol_decoder_rules_read(const json_t *root, const char *path, struct text_rules *rules,
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

#endif
