/* An open model. */
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
    smol_on_log *on_log;                  /* or NULL, see library.h */
    void *user;
};

#endif
