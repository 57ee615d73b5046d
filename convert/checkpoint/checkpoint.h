/* Maps each role of the model to the safetensors tensor that holds it, and checks shapes and
 * element types. */
#ifndef SMOL_CONVERT_CHECKPOINT_H
#define SMOL_CONVERT_CHECKPOINT_H

#include <stdbool.h>

#include "common/error.h"
#include "convert/checkpoint/safetensors.h"
#include "convert/families/family.h"
#include "format/layout.h"

enum { MAX_CHECKPOINT_NAME = 128 };

/* Writes a name of family.h with the key's layer and expert filled in. Returns `name`. */
const char *smol_checkpoint_format(const char *pattern, struct tensor_key key,
                                   char name[MAX_CHECKPOINT_NAME]);

/* Returns whether `name` is such a pattern with numbers filled in, and sets the key's layer and
 * expert (0 where it has none). */
bool smol_checkpoint_matches(const char *pattern, const char *name, struct tensor_key *key);

/* Writes the name of a tensor in checkpoints of the family. Returns `name`, or NULL if the family
 * has no such tensor. */
const char *smol_checkpoint_name(const struct family *family, struct tensor_key key,
                                 char name[MAX_CHECKPOINT_NAME]);

/* Gives the name in files of encoders, whose norms after the embedding and after layers are named
 * there as those before the next layer and the final norm. */
const char *smol_checkpoint_file_name(const struct family *family, uint32_t n_layers,
                                      struct tensor_key key, char name[MAX_CHECKPOINT_NAME]);

/* Finds the tensor called `name` in checkpoints of any family. For a fused tensor, *key is its
 * first matrix. Families agree on the part of a block that a name belongs to, but not on which norm
 * a name denotes. Returns false for an unknown name. */
bool smol_checkpoint_find(const char *name, struct tensor_key *key);

/* Returns the offset to add to each element of a checkpoint's tensor. It is 0 except for norms. */
float smol_checkpoint_offset(const struct family *family, enum tensor_role role);

/* Returns whether a tensor without a role is allowed. Old checkpoints contain RoPE's frequencies as
 * buffers, and GGUF files factors for them; both follow from the configuration. */
bool smol_checkpoint_ignores(const char *name);

/* Returns whether `name` is of keys or values of a layer that shares those of another. transformers
 * ignores it. */
bool smol_checkpoint_is_unused(const struct family *family, const struct blob_model *model,
                               const char *name);

/* Returns whether `name` is a tensor of a reranker's score, or of another use of an encoder. */
bool smol_checkpoint_is_head(const struct family *family, const char *name);

/* Returns the embedding of types of tokens, where the family has one, or NULL if it is missing or
 * not of the model's width. smol_checkpoint_typed returns the role to whose rows its first row is
 * added: every token has that of a position, or else one of the embedding. */
const struct safetensors_tensor *smol_checkpoint_types(const struct safetensors *reader,
                                                       const struct family *family,
                                                       const struct blob_model *model);
enum tensor_role smol_checkpoint_typed(const struct blob_model *model);

/* Sets `shape` to that of a blob's tensor in a checkpoint, and returns its rank. */
unsigned smol_checkpoint_shape(const struct blob_tensor *layout, uint32_t n_layers,
                               uint64_t shape[2]);

/* Checks the shape of a tensor. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_checkpoint_check_shape(const struct safetensors_tensor *tensor,
                                        const uint64_t *wanted, unsigned rank, smol_error *error);

/* Maps every tensor of `model`, which is of the family, to its source. `sources` has room for
 * smol_tensor_count(model) entries, in the order of smol_tensor_next. The entry of a tied output is
 * NULL.
 *
 * Sets model->tied_embeddings from the tensors, because config.json may contradict them (see
 * resolve_tied in checkpoint.c).
 *
 * Errors: SMOL_ERROR_DAMAGED (missing, extra or misshapen tensors, named), SMOL_ERROR_UNSUPPORTED
 * (an element type that weights cannot have), SMOL_ERROR_MEMORY. */
smol_status smol_checkpoint_map(const struct safetensors *reader, const struct family *family,
                                struct blob_model *model, const struct safetensors_tensor **sources,
                                smol_error *error);

#endif
