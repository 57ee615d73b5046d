/* Reads the rules of a tokenizer.json beyond GPT-2's byte-level BPE: model options, normalizer,
 * character-level pre-tokenizer, post-processor and decoder. */
#ifndef SMOL_CONVERT_TEXT_RULES_H
#define SMOL_CONVERT_TEXT_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/base/settings.h"
#include "convert/tokenizer/json_part.h"
#include "format/format.h"

/* The changes that a map makes to each character, in this order. */
enum map_rule {
    MAP_CLEAN = 1 << 0,            /* BertNormalizer's clean_text */
    MAP_PAD = 1 << 1,              /* its handle_chinese_chars */
    MAP_STRIP_NONSPACING = 1 << 2, /* its strip_accents, after decomposition */
    MAP_STRIP_MARKS = 1 << 3,      /* StripAccents */
    MAP_LOWER = 1 << 4,            /* Lowercase */
    MAP_COMPATIBILITY = 1 << 5,    /* full compatibility decomposition; never with the others */
};

/* A struct text_step whose texts are not yet in the pool. */
struct rule_step {
    enum text_step_kind kind;
    struct json_text pattern, text; /* STEP_CLUSTERS: `text` is its map, in base64 */
    uint32_t argument;              /* STEP_MAP: enum map_rule; STEP_TRIM: the sides */
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
    bool wordpiece; /* WordPiece: a token without `prefix` gets a space, unless it is the first */
    bool cleanup;   /* WordPiece: spaces before punctuation and contractions go */
    struct json_text prefix;
    uint32_t strip; /* see struct blob_text */
    uint32_t n_strip;
};

struct text_rules {
    enum text_model model;
    json_t *vocab;  /* owned: token -> id; NULL: the file has none */
    double *scores; /* Unigram: (n_scores), by id, owned */
    uint32_t n_scores;
    struct json_text prefix; /* WordPiece */
    uint32_t max_word;       /* WordPiece */
    bool characters;         /* character-level: the vocabulary is not in byte-level letters */
    bool byte_fallback, fuse_unknown, whole_words;
    struct json_text unknown; /* the unknown token */
    struct rule_steps normalizer, metaspace;
    uint32_t split; /* see struct blob_text */
    struct decoder_rules decoder;
    uint32_t before[TEXT_MAX_AROUND], after[TEXT_MAX_AROUND], n_before, n_after;
};

/* Reads the rules of `root`, and refuses by name everything that they cannot express. `path` is for
 * messages. Call smol_text_rules_free, also after an error. Errors: SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_text_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                 smol_error *error);

/* Frees the rules; zeroed rules are allowed. */
void smol_text_rules_free(struct text_rules *rules);

/* Parts of smol_text_rules_read: the keys "model", "normalizer" and "decoder". */
smol_status smol_model_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                  smol_error *error);
smol_status smol_normalizer_read(const json_t *root, const char *path, struct rule_steps *steps,
                                 smol_error *error);
smol_status smol_decoder_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                    smol_error *error);

/* Refuses a BertNormalizer that contradicts tokenizer_config.json, whose settings transformers
 * follows. Errors: SMOL_ERROR_UNSUPPORTED. */
smol_status smol_normalizer_check_settings(const json_t *root, const char *path,
                                           const struct json_settings *settings);

/* The decoded bytes of a token; `data` is allocated. */
struct shown_token {
    char *data;
    size_t size;
    uint16_t flags; /* TOKEN_BYTE, TOKEN_PLAIN, TOKEN_CONTINUES */
    size_t written; /* bytes that replacements wrote on the way */
};

/* Decodes the token name[0..size). Free shown->data, also after an error. Errors:
 * SMOL_ERROR_UNSUPPORTED (the token is too long, or contains both spaces and their replacement),
 * SMOL_ERROR_MEMORY. */
smol_status smol_decoder_show(const struct decoder_rules *rules, const char *path, const char *name,
                              size_t size, struct shown_token *shown, smol_error *error);

#endif
