/* An open model. */
#ifndef SMOL_RUNTIME_MODEL_H
#define SMOL_RUNTIME_MODEL_H

#include "runtime/engine/network.h"
#include "runtime/tokenizer/added_automaton.h"
#include "smol.h"

struct smol_model {
    struct blob blob;
    struct network network;      /* of the blob */
    struct added_automata added; /* of the blob's tokenizer */
    smol_on_log *on_log;         /* or NULL, see library.h */
    void *user;
};

#endif
