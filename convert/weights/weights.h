/* The weights' way from the checkpoint into the blob. */
#ifndef SMOL_CONVERT_WEIGHTS_H
#define SMOL_CONVERT_WEIGHTS_H

#include <stdbool.h>

#include "common/error.h"
#include "common/pool.h"
#include "convert/blob/writer.h"
#include "convert/checkpoint/family.h"
#include "convert/checkpoint/lora.h"
#include "convert/checkpoint/safetensors.h"
#include "format/format.h"

struct weights {
    const struct family *family;
    const struct blob_model *model;
    const struct safetensors_tensor *const *sources; /* as smol_checkpoint_map pairs them */
    const struct lora_pair *lora;                    /* (as many), what is added to them, or NULL */
};

/* Appends the whole weights section to the blob, with a progress bar unless `quiet`. The bytes, or
 * the error, are the same for any number of threads. Takes two batches of memory, 2 MiB each or one
 * row block where that is larger, and for each thread a row of floats, or 17 with an adapter.
 * Errors: SMOL_ERROR_DAMAGED (a weight that is, or becomes, no finite number),
 * SMOL_ERROR_UNSUPPORTED (one that the blob's type cannot hold), SMOL_ERROR_FILE,
 * SMOL_ERROR_MEMORY. */
smol_status smol_weights_write(const struct weights *weights, struct pool *pool,
                               struct blob_writer *writer, bool quiet, smol_error *error);

#endif
