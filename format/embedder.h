/* The embedder section: prompts, dense layers and the form of pairs, in the memory of the blob. */
#ifndef SMOL_FORMAT_EMBEDDER_H
#define SMOL_FORMAT_EMBEDDER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "format/format.h"

struct embedder {
    const struct blob_embedder *header; /* NULL without a section */
    const char *strings;
    const void *matrix[EMBEDDER_MAX_DENSE]; /* row blocks of the dtype below */
    const float *bias[EMBEDDER_MAX_DENSE];  /* or NULL */
    const float *types;                     /* (hidden_size), or NULL */
    enum blob_dtype dtype;
};

/* Where the tables begin, in bytes from the start of the section. */
struct embedder_layout {
    uint64_t strings, matrix[EMBEDDER_MAX_DENSE], bias[EMBEDDER_MAX_DENSE], types, end;
};

/* Returns the dtype of dense layers in a blob whose model has `dtype`. */
static inline enum blob_dtype dense_dtype(enum blob_dtype dtype)
{
    return dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_BF16;
}

/* Returns the inputs of a dense layer. */
static inline uint32_t dense_inputs(const struct blob_embedder *header, size_t i,
                                    uint32_t hidden_size)
{
    return i > 0 ? header->dense[i - 1].outputs : hidden_size;
}

/* Computes the places of the tables, from a header whose counts are within their limits. */
struct embedder_layout smol_embedder_layout(const struct blob_embedder *header,
                                            const struct blob_model *model);

/* Opens a section data[0..size), aligned to BLOB_ALIGN, and checks every rule of FORMAT.md, 5.16.
 * Errors: SMOL_ERROR_DAMAGED; the message says what is wrong. */
smol_status smol_embedder_open(const void *data, uint64_t size, const struct blob_model *model,
                               struct embedder *embedder, smol_error *error);

/* Returns whether the section uses anything of FEATURE_NORMED. */
bool smol_embedder_is_normed(const struct blob_embedder *header);

/* Returns whether the section uses anything of FEATURE_DOUBLED. */
bool smol_embedder_is_doubled(const struct blob_embedder *header);

/* Returns string number `i` of the section. */
const char *smol_embedder_string(const struct embedder *embedder, size_t i);

/* Return the name and the text of prompt `i`, and part `i` of the texts of a pair. */
static inline const char *embedder_prompt_name(const struct embedder *embedder, size_t i)
{
    return smol_embedder_string(embedder, 2 * i);
}
static inline const char *embedder_prompt_text(const struct embedder *embedder, size_t i)
{
    return smol_embedder_string(embedder, 2 * i + 1);
}
static inline const char *embedder_pair_text(const struct embedder *embedder, size_t i)
{
    return smol_embedder_string(embedder, 2 * (size_t)embedder->header->n_prompts + i);
}

/* Returns the length of an embedding: the outputs of the last dense layer, or hidden_size. */
uint32_t smol_embedder_width(const struct embedder *embedder, uint32_t hidden_size);

#endif
