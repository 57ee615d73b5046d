/* The tensors of a checkpoint under our names: each role of the model paired with the safetensors
 * tensor that holds it, shapes and element types checked. */
#ifndef SMOL_CONVERT_CHECKPOINT_H
#define SMOL_CONVERT_CHECKPOINT_H

#include <stdbool.h>

#include "common/error.h"
#include "convert/checkpoint/family.h"
#include "convert/checkpoint/safetensors.h"
#include "format/layout.h"

enum { MAX_CHECKPOINT_NAME = 128 };

/* A name of family.h with its layer filled in. Returns `name`. */
const char *smol_checkpoint_format(const char *pattern, uint32_t layer,
                                   char name[MAX_CHECKPOINT_NAME]);

/* The name that a checkpoint of the family has for a tensor. Returns `name`, or NULL when the
 * family has no such tensor. */
const char *smol_checkpoint_name(const struct family *family, struct tensor_key key,
                                 char name[MAX_CHECKPOINT_NAME]);

/* The tensor that is called `name` in checkpoints of any family; of several matrices in one, the
 * first. Families agree on what part of a block a name belongs to, but not on which norm it is. */
bool smol_checkpoint_find(const char *name, struct tensor_key *key);

/* The offset to add to each element of a checkpoint's tensor; 0 for all but norms. */
float smol_checkpoint_offset(const struct family *family, enum tensor_role role);

/* Whether a tensor that no role has may be there: old checkpoints carry RoPE's frequencies as
 * buffers; they follow from the configuration. */
bool smol_checkpoint_ignores(const char *name);

/* Pairs every tensor of `model`, one of the family, with its source. `sources` has room for
 * smol_tensor_count(model) entries, in the order of smol_tensor_next; the entry of a tied output is
 * NULL.
 *
 * Whether the output is tied is settled here, in model->tied_embeddings: the data decides where
 * config.json and the tensors do not agree. See resolve_tied in checkpoint.c.
 *
 * Errors: SMOL_ERROR_DAMAGED (missing, extra or misshaped tensors, named), SMOL_ERROR_UNSUPPORTED
 * (an element type that is no float). */
smol_status smol_checkpoint_map(const struct safetensors *reader, const struct family *family,
                                struct blob_model *model, const struct safetensors_tensor **sources,
                                smol_error *error);

#endif
