/* Functions that the reader's files share and reader.h does not declare. front.c, front_model.c and
 * front_tensors.c check the sections of a blob's front, embedder.c its section with matrices, and
 * chunks.c and verify.c its data. */
#ifndef SMOL_FORMAT_FRONT_H
#define SMOL_FORMAT_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/checked.h"
#include "common/error.h"
#include "format/reader.h"

/* Checks every section of the front at blob->front, whose magic, version and data_offset are known
 * to be right, and points the fields of *blob at what they contain. blob->model_copy is allocated;
 * smol_blob_close frees it. Errors: SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY.
 */
smol_status smol_front_check(struct blob *blob, smol_error *error);

/* Parts of it: the sections that describe the model, and the table of tensors with the levels of
 * their codes. */
smol_status smol_front_check_model(struct blob *blob, smol_error *error);
smol_status smol_front_check_tensors(struct blob *blob, smol_error *error);

/* Checks the tokenizer section, the first of the data, after the front. */
smol_status smol_front_check_tokenizer(struct blob *blob, smol_error *error);

/* Checks the digest of a chunk, whether or not it was checked before, and notes that it is right.
 */
smol_status smol_verify_chunk(const struct blob *blob, size_t chunk, smol_error *error);

/* Returns the bytes of a chunk; the last one may be shorter than others. */
uint64_t smol_chunk_size(const struct blob *blob, size_t chunk);

/* Returns whether a tensor, of which layout, dtype, shape and size are set, has only numbers that
 * the format allows, and zeros where it has no element. */
bool smol_tensor_is_well_formed(const void *data, const struct blob_tensor *tensor);

/* --- sections ----------------------------------------------------------------------------- */

static inline const struct blob_section *section_table(const struct blob *blob)
{
    return (const void *)(blob->front + sizeof(struct blob_header));
}

/* Returns the entry of a section that the blob has. */
const struct blob_section *smol_find_section(const struct blob *blob, enum section_kind kind);

/* Points *data at section `kind`, whose size must be *n times `unit` bytes. */
smol_status smol_take_section(const struct blob *blob, enum section_kind kind, size_t unit,
                              const void **data, size_t *n, smol_error *error);

/* --- damage: each fills *error and returns SMOL_ERROR_DAMAGED ------------------------------ */

/* `what` is wrong at `offset` of the file. */
smol_status smol_damaged(const struct blob *blob, smol_error *error, const char *what,
                         uint64_t offset);

/* `what` is wrong at `offset`, in a section. */
smol_status smol_damaged_within(const struct blob *blob, smol_error *error, uint32_t kind,
                                const char *what, uint64_t offset);

/* A whole section is wrong. */
smol_status smol_damaged_section(const struct blob *blob, smol_error *error, enum section_kind kind,
                                 const char *what);

/* Features contradict each other. */
smol_status smol_damaged_features(const struct blob *blob, smol_error *error, const char *what);

/* A tensor is wrong; `what` continues "tensor NAME". */
smol_status smol_damaged_tensor(const struct blob *blob, smol_error *error, uint32_t kind,
                                struct tensor_key key, const char *what, uint64_t offset);

#endif
