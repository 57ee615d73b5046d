/* The forward pass through all layers. */
#ifndef SMOL_RUNTIME_FORWARD_H
#define SMOL_RUNTIME_FORWARD_H

#include "runtime/engine/pass.h"

/* Runs all rows of a pass through the model, into the sequences' KV caches, which have room for
 * them, and writes the logits that are wanted. An error of one sequence (SMOL_ERROR_NUMERIC) is
 * stored in its segment's *error and changes nothing for the others; an error of the whole pass is
 * returned: SMOL_ERROR_DAMAGED (a chunk's digest). */
smol_status smol_forward(struct pass *pass);

#endif
