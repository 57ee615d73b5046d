/* Reads the rules of a tokenizer.json beyond GPT-2's byte-level BPE: model options, normalizer,
 * character-level pre-tokenizer, post-processor and decoder. */
#ifndef SMOL_CONVERT_TEXT_RULES_H
#define SMOL_CONVERT_TEXT_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/tokenizer/json_part.h"
#include "format/format.h"

/* A struct text_step whose texts are not yet in the pool. */
struct rule_step {
    enum text_step_kind kind;
    struct json_text pattern, text;
};

struct rule_steps {
    struct rule_step steps[TEXT_MAX_STEPS];
    uint32_t n;
};

/* The rules that decode a token: first each replacement in turn, then bytes. */
struct decoder_rules {
    struct rule_step replacements[TEXT_MAX_STEPS]; /* kind: STEP_REPLACE */
    uint32_t n;
    bool bytes;     /* <0x0A> represents a byte */
    bool bare;      /* Metaspace: the first token loses its added space */
    uint32_t strip; /* see struct blob_text */
    uint32_t n_strip;
};

struct text_rules {
    bool characters; /* character-level: the vocabulary is not in byte-level letters */
    bool byte_fallback, fuse_unknown, whole_words;
    struct json_text unknown; /* the unknown token */
    struct rule_steps normalizer, metaspace;
    uint32_t split; /* see struct blob_text */
    struct decoder_rules decoder;
    uint32_t before[TEXT_MAX_AROUND], after[TEXT_MAX_AROUND], n_before, n_after;
};

/* Reads the rules of `root`, and refuses by name everything that they cannot express. `path` is for
 * messages. Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED. */
smol_status smol_text_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                 smol_error *error);

/* Reads the key "decoder"; smol_text_rules_read calls it. */
smol_status smol_decoder_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                    smol_error *error);

/* The decoded bytes of a token; `data` is allocated. */
struct shown_token {
    char *data;
    size_t size;
    uint16_t flags; /* TOKEN_BYTE, TOKEN_PLAIN */
};

/* Decodes the token name[0..size). Free shown->data, also after an error. Errors:
 * SMOL_ERROR_UNSUPPORTED (the token is too long, or contains both spaces and their replacement),
 * SMOL_ERROR_MEMORY. */
smol_status smol_decoder_show(const struct decoder_rules *rules, const char *path, const char *name,
                              size_t size, struct shown_token *shown, smol_error *error);

#endif
