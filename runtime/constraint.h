/* A constraint, compiled by constraint.c and followed by the matchers of matcher.c. */
#ifndef SMOL_RUNTIME_CONSTRAINT_H
#define SMOL_RUNTIME_CONSTRAINT_H

#include <stdint.h>

#include "common/threads.h"
#include "runtime/constrain/mask.h"
#include "smol.h"

/* Facts about a vocabulary, shared by all constraints of its model. */
struct known_vocabulary {
    struct trie trie;
    struct any_string_fit strings;
};

/* Masks and derivatives are computed when they are first needed, whichever matcher asks, so the
 * table is for one thread at a time. What it returns does not depend on who asked before. */
struct smol_constraint {
    const smol_model *model;
    struct known_vocabulary *vocabulary; /* the model's */
    struct term_table *table;
    struct masks *masks;
    uint64_t digest;      /* of its parameters */
    uint64_t n_forgotten; /* how often a limit made it forget all states */
    thread_mutex mutex;
};

#endif
