/* Reasoning in answers: the part of it that is independent of the model. */
#ifndef SMOL_RUNTIME_REASONING_H
#define SMOL_RUNTIME_REASONING_H

#include <stdbool.h>

#include "common/buffer.h"
#include "runtime/tokenizer/tokenizer.h"
#include "smol.h"

/* Texts around the reasoning and, where the template names them, around the reply after it. No
 * marker contains its first byte again. */
struct reasoning_markers {
    const char *open, *close;
    const char *reply_open, *reply_close; /* may be NULL */
    const char *call; /* begins a call of a tool, which ends the reasoning too; may be NULL */
};

/* The place in an answer: what the next byte belongs to. */
enum reasoning_place {
    BEFORE_REASONING, /* nothing but white space so far */
    IN_REASONING,
    BEFORE_REPLY, /* after the closing marker */
    IN_WRAPPED_REPLY,
    IN_REPLY, /* to the end of the answer */
};

/* An answer that is read byte by byte. */
struct reasoning_scan {
    struct reasoning_markers markers;
    enum reasoning_place place;
    struct buffer held; /* white space that may be left out, and the start of a marker */
    size_t n_marker;    /* bytes of the latter */
    bool begun;         /* the reasoning, or the reply between markers, has text */
    bool exact;         /* the reply is all that a constraint allows */
    struct buffer reasoning, reply; /* found by the last call */
    size_t n_tokens, n_reasoning_tokens;
    size_t n_before; /* tokens before the reasoning, with those of its first marker */
};

struct smol_reasoning_reader {
    const smol_model *model;
    struct reasoning_scan text;
    /* of the bytes of the tokens, to count those of the reasoning: text that may begin a stop
     * string comes together with that of a later token */
    struct reasoning_scan tokens;
};

/* A limit as generation sees it. Generation calls through this struct, so that a program which
 * never creates one does not contain what reads reasoning. */
struct smol_reasoning_limit {
    /* Takes a token of the answer. Errors: MEMORY. */
    smol_status (*take)(smol_reasoning_limit *limit, const struct token_text *token,
                        smol_error *error);
    /* Sets *n to the number of tokens that must follow now, ids (capacity), which end the
     * reasoning; 0 if it need not end here. Errors: those of smol_tokenize. */
    smol_status (*end)(smol_reasoning_limit *limit, uint32_t *ids, size_t capacity, size_t *n,
                       smol_error *error);
    const smol_model *model;
    struct reasoning_scan tokens;
    size_t most;        /* tokens between the markers */
    unsigned n_missing; /* bytes of the last character */
    bool closes;        /* the last marker must follow */
    size_t n_closing;   /* tokens of it that have been taken */
};

/* Finds the markers that the template or the vocabulary has; markers->open stays NULL if there are
 * none. `calls`: the answer may call tools. Errors: those of smol_tokenize. */
smol_status smol_reasoning_markers(const smol_model *model, bool calls,
                                   struct reasoning_markers *markers, smol_error *error);

/* Returns whether a marker of reasoning begins with a token's text: of special tokens, those of
 * markers do. */
bool smol_reasoning_begins_marker(const struct token_text *token);

#endif
