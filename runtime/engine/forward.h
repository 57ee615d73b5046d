/* The forward pass through all layers. */
#ifndef SMOL_RUNTIME_FORWARD_H
#define SMOL_RUNTIME_FORWARD_H

#include "runtime/engine/pass.h"

/* Runs all rows of a pass through the model and writes the requested logits. The sequences' KV
 * caches must have room for the rows. An error of one sequence (SMOL_ERROR_NUMERIC) is stored in
 * its segment's *error and does not affect the others. An error of the whole pass is returned:
 * SMOL_ERROR_DAMAGED (a chunk's digest). */
smol_status smol_forward(struct pass *pass);

#endif
