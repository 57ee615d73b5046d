/* An open model; and what all modules of the library share: the check of reserved members, and the
 * program's log (library.c). */
#ifndef SMOL_RUNTIME_MODEL_H
#define SMOL_RUNTIME_MODEL_H

#include <stdatomic.h>

#include "runtime/engine/network.h"
#include "runtime/tokenizer/added_automaton.h"
#include "smol.h"

/* Facts about the vocabulary that constraints need (constraint.c). The first constraint computes
 * them. A program without constraints does not contain the functions. */
struct known_vocabulary;
struct shared_vocabulary {
    _Atomic(struct known_vocabulary *) known; /* or NULL */
    void (*_Atomic release)(struct known_vocabulary *known);
};

struct smol_model {
    struct blob blob;
    struct network network;      /* of the blob */
    struct added_automata added; /* of the blob's tokenizer */
    struct shared_vocabulary shared;
    struct shared_vocabulary *vocabulary; /* &shared, which constant models change too */
    smol_on_log *on_log;                  /* or NULL */
    void *user;
};

/* Rejects parameters that set members of `reserved` (n), which only a newer release defines.
 * `params` is the name of their type. Errors: SMOL_ERROR_USAGE. */
smol_status smol_check_reserved(const char *params, const uint64_t *reserved, size_t n,
                                smol_error *error);

/* Calls smol_check_reserved for *params, of type smol_`name`. */
#define CHECK_RESERVED(name, params, error)                                                        \
    smol_check_reserved("smol_" #name, (params)->reserved,                                         \
                        sizeof(params)->reserved / sizeof *(params)->reserved, error)

/* Refuses ids that are not in the vocabulary. */
smol_status smol_check_ids(const smol_model *model, const uint32_t *ids, size_t n,
                           smol_error *error);

/* Passes a line to the model's on_log, if any, with the blob's name in front. */
void smol_log(const smol_model *model, smol_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Logs a warning if text[0..size) is not UTF-8. `what` names the text. */
void smol_log_ill_formed(const smol_model *model, const char *what, const char *text, size_t size);

#endif
