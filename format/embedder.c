/* The embedder section, see embedder.h. */
#include "format/embedder.h"

#include <string.h>

#include "common/checked.h"
#include "common/number.h"
#include "common/utf8.h"
#include "format/layout.h"

static smol_status fail(smol_error *error, const char *what)
{
    return smol_fail(error, SMOL_ERROR_DAMAGED, "%s", what);
}

/* Returns the place of a table of `size` bytes after the last one, and moves *end past it. */
static uint64_t place(uint64_t *end, uint64_t size)
{
    uint64_t start = round_up(*end, BLOB_ALIGN);
    *end = size > 0 ? start + size : *end;
    return start;
}

struct embedder_layout smol_embedder_layout(const struct blob_embedder *header,
                                            const struct blob_model *model)
{
    struct embedder_layout layout = {.end = sizeof *header};
    layout.strings = place(&layout.end, header->n_strings);
    for (size_t i = 0; i < header->n_dense; i++) {
        const struct blob_dense *dense = &header->dense[i];
        uint64_t inputs = dense_inputs(header, i, model->hidden_size);
        layout.matrix[i] =
            place(&layout.end, count_blocks(dense->outputs) *
                                   smol_block_bytes(dense_dtype(model->dtype), inputs));
        layout.bias[i] = place(&layout.end, dense->has_bias ? dense->outputs * sizeof(float) : 0);
    }
    layout.types = place(&layout.end, header->has_types ? model->hidden_size * sizeof(float) : 0);
    return layout;
}

uint32_t smol_embedder_width(const struct embedder *embedder, uint32_t hidden_size)
{
    const struct blob_embedder *header = embedder->header;
    return header && header->n_dense > 0 ? header->dense[header->n_dense - 1].outputs : hidden_size;
}

static bool has_activation(const struct blob_embedder *header, enum dense_activation activation)
{
    bool found = false;
    for (size_t i = 0; i < EMBEDDER_MAX_DENSE; i++)
        found = found || header->dense[i].activation == (uint32_t)activation;
    return found;
}

bool smol_embedder_is_normed(const struct blob_embedder *header)
{
    return has_activation(header, DENSE_GELU_NORM);
}

bool smol_embedder_is_doubled(const struct blob_embedder *header)
{
    return header->pair == PAIR_DOUBLED || has_activation(header, DENSE_RELU);
}

/* --- the header --------------------------------------------------------------------------- */

static bool dense_is_valid(const struct blob_embedder *header, size_t i)
{
    const struct blob_dense *dense = &header->dense[i];
    if (i >= header->n_dense)
        return all_zero(dense, sizeof *dense);
    return dense->outputs >= 1 && dense->outputs <= EMBEDDER_MAX_OUTPUTS &&
           dense->activation < DENSE_ACTIVATIONS && dense->has_bias <= 1 && !dense->reserved;
}

static bool pair_is_valid(const struct blob_embedder *header, const struct blob_model *model)
{
    bool typed = header->pair == PAIR_SEPARATED;
    bool separated = typed || header->pair == PAIR_DOUBLED;
    bool one = header->n_dense > 0 && header->n_dense <= EMBEDDER_MAX_DENSE &&
               header->dense[header->n_dense - 1].outputs == 1;
    return header->score < SCORE_KINDS && header->pair < PAIR_KINDS &&
           (header->score == SCORE_NONE) == (header->pair == PAIR_NONE) &&
           (header->score == SCORE_NONE || one) && header->has_types <= typed &&
           (separated ? header->separator < model->vocab_size : header->separator == 0);
}

static bool header_is_valid(const struct blob_embedder *header, const struct blob_model *model)
{
    bool valid =
        header->n_prompts <= EMBEDDER_MAX_PROMPTS && header->n_strings <= EMBEDDER_MAX_STRINGS &&
        header->n_dense <= EMBEDDER_MAX_DENSE &&
        (header->default_prompt == NO_TOKEN || header->default_prompt < header->n_prompts) &&
        pair_is_valid(header, model);
    for (size_t i = 0; i < EMBEDDER_MAX_DENSE; i++)
        valid = valid && dense_is_valid(header, i);
    return valid;
}

/* --- the tables --------------------------------------------------------------------------- */

const char *smol_embedder_string(const struct embedder *embedder, size_t i)
{
    const char *string = embedder->strings;
    while (i-- > 0)
        string += strlen(string) + 1;
    return string;
}

/* Checks that the strings are as many as there must be, and the prompts' names in order. */
static bool strings_are_valid(const struct embedder *embedder)
{
    const struct blob_embedder *header = embedder->header;
    const char *at = embedder->strings, *end = at + header->n_strings, *previous = NULL;
    size_t n = 2 * (size_t)header->n_prompts + (header->pair == PAIR_TEXTS ? 3 : 0);
    for (size_t i = 0; i < n; i++) {
        const char *zero = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
        if (!zero ||
            smol_utf8_well_formed((const uint8_t *)at, (size_t)(zero - at)) != (size_t)(zero - at))
            return false;
        bool name = i % 2 == 0 && i < 2 * (size_t)header->n_prompts;
        if (name && (zero == at || (previous && strcmp(previous, at) >= 0)))
            return false;
        previous = name ? at : previous;
        at = zero + 1;
    }
    return at == end;
}

/* Checks that a matrix is finite, and zero where it has no row or column. */
static bool matrix_is_valid(const struct embedder *embedder, size_t i, uint32_t inputs)
{
    size_t blocks = count_blocks(embedder->header->dense[i].outputs);
    size_t per_lane = embedder->dtype == DTYPE_F32 ? 1 : 2;
    size_t cols = round_up(inputs, per_lane);
    for (size_t block = 0; block < blocks; block++)
        for (size_t element = 0; element < cols * TILE_ROWS; element++) {
            size_t at = block * cols * TILE_ROWS + element;
            uint32_t bits = embedder->dtype == DTYPE_F32
                                ? ((const uint32_t *)embedder->matrix[i])[at]
                                : (uint32_t)((const uint16_t *)embedder->matrix[i])[at] << 16;
            size_t row = block * TILE_ROWS + element / per_lane % TILE_ROWS;
            size_t col = element / (TILE_ROWS * per_lane) * per_lane + element % per_lane;
            bool exists = row < embedder->header->dense[i].outputs && col < inputs;
            if (exists ? (bits & 0x7f800000u) == 0x7f800000u : bits != 0)
                return false;
        }
    return true;
}

static bool vector_is_valid(const float *values, size_t n)
{
    for (size_t i = 0; values && i < n; i++)
        if (!f32_is_finite(values[i]))
            return false;
    return true;
}

/* Checks that the bytes between the tables are zero. Matrices end at multiples of BLOB_ALIGN. */
static bool gaps_are_zero(const uint8_t *data, const struct embedder_layout *layout,
                          const struct blob_embedder *header)
{
    uint64_t end = layout->strings + header->n_strings;
    bool zero = header->n_dense == 0 || all_zero(data + end, layout->matrix[0] - end);
    for (size_t i = 0; i < header->n_dense; i++) {
        uint64_t next = i + 1 < header->n_dense ? layout->matrix[i + 1] : layout->types;
        end = layout->bias[i] + header->dense[i].outputs * sizeof(float);
        if (header->dense[i].has_bias && next < layout->end)
            zero = zero && all_zero(data + end, next - end);
    }
    return zero;
}

smol_status smol_embedder_open(const void *data, uint64_t size, const struct blob_model *model,
                               struct embedder *embedder, smol_error *error)
{
    const uint8_t *bytes = data;
    const struct blob_embedder *header = data;
    if (size < sizeof *header)
        return fail(error, "truncated");
    if (!header_is_valid(header, model))
        return fail(error, "its fields are out of range");
    struct embedder_layout layout = smol_embedder_layout(header, model);
    if (layout.end != size)
        return fail(error, "its size does not match its fields");
    *embedder =
        (struct embedder){.header = header,
                          .strings = (const char *)bytes + layout.strings,
                          .types = header->has_types ? (const void *)(bytes + layout.types) : NULL,
                          .dtype = dense_dtype(model->dtype)};
    for (size_t i = 0; i < header->n_dense; i++) {
        embedder->matrix[i] = bytes + layout.matrix[i];
        embedder->bias[i] =
            header->dense[i].has_bias ? (const void *)(bytes + layout.bias[i]) : NULL;
    }
    if (!strings_are_valid(embedder))
        return fail(error, "malformed strings");
    for (size_t i = 0; i < header->n_dense; i++)
        if (!matrix_is_valid(embedder, i, dense_inputs(header, i, model->hidden_size)) ||
            !vector_is_valid(embedder->bias[i], header->dense[i].outputs))
            return fail(error, "a dense layer has invalid numbers");
    if (!vector_is_valid(embedder->types, model->hidden_size))
        return fail(error, "types of tokens with invalid numbers");
    return gaps_are_zero(bytes, &layout, header) ? SMOL_OK
                                                 : fail(error, "bytes between tables are not zero");
}
