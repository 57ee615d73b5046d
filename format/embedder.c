/* The embedder section, see embedder.h. */
#include "format/embedder.h"

#include <string.h>

#include "common/checked.h"
#include "common/utf8.h"
#include "format/cursor.h"
#include "format/front.h"
#include "format/model.h"

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

static smol_status check_dense(const struct blob_embedder *header, size_t i, smol_error *error)
{
    const struct blob_dense *dense = &header->dense[i];
    const struct field_range ranges[] = {
        {"outputs", dense->outputs, 1, EMBEDDER_MAX_OUTPUTS},
        {"activation", dense->activation, 0, DENSE_ACTIVATIONS - 1},
        {"has_bias", dense->has_bias, 0, 1},
        {"a reserved field", dense->reserved, 0, 0},
    };
    if (i < header->n_dense)
        return smol_check_ranges(ranges, sizeof ranges / sizeof ranges[0], error);
    return all_zero(dense, sizeof *dense)
               ? SMOL_OK
               : smol_fail(error, SMOL_ERROR_DAMAGED,
                           "dense layer %zu is not zero, but n_dense is %u", i, header->n_dense);
}

/* Checks the fields that `score` and `pair` decide. */
static smol_status check_pair(const struct blob_embedder *header, const struct blob_model *model,
                              smol_error *error)
{
    bool separated = header->pair == PAIR_SEPARATED || header->pair == PAIR_DOUBLED;
    const struct field_range ranges[] = {
        {"score", header->score, 0, SCORE_KINDS - 1},
        {"pair", header->pair, 0, PAIR_KINDS - 1},
        {"separator", header->separator, 0, separated ? model->vocab_size - 1 : 0},
        {"has_types", header->has_types, 0, header->pair == PAIR_SEPARATED},
    };
    smol_status status = smol_check_ranges(ranges, sizeof ranges / sizeof ranges[0], error);
    if (status)
        return status;
    if ((header->score == SCORE_NONE) != (header->pair == PAIR_NONE))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "score is %u and pair is %u: must both be 0, or neither", header->score,
                         header->pair);
    if (header->score != SCORE_NONE &&
        (header->n_dense == 0 || header->dense[header->n_dense - 1].outputs != 1))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "score is %u: the last dense layer must have one output", header->score);
    return SMOL_OK;
}

static smol_status check_header(const struct blob_embedder *header, const struct blob_model *model,
                                smol_error *error)
{
    const struct field_range ranges[] = {
        {"n_prompts", header->n_prompts, 0, EMBEDDER_MAX_PROMPTS},
        {"n_strings", header->n_strings, 0, EMBEDDER_MAX_STRINGS},
        {"n_dense", header->n_dense, 0, EMBEDDER_MAX_DENSE},
    };
    smol_status status = smol_check_ranges(ranges, sizeof ranges / sizeof ranges[0], error);
    for (size_t i = 0; !status && i < EMBEDDER_MAX_DENSE; i++)
        status = check_dense(header, i, error);
    if (!status && header->default_prompt != NO_TOKEN &&
        header->default_prompt >= header->n_prompts)
        status = smol_fail(error, SMOL_ERROR_DAMAGED,
                           "default_prompt is %u: must be below n_prompts %u, or 4294967295",
                           header->default_prompt, header->n_prompts);
    return status ? status : check_pair(header, model, error);
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

static smol_status take_strings(struct cursor *cursor, struct embedder *embedder, smol_error *error)
{
    const uint32_t n = embedder->header->n_strings;
    if (n > 0 && !(embedder->strings = smol_cursor_take(cursor, "strings", n, 1, error)))
        return SMOL_ERROR_DAMAGED;
    return strings_are_valid(embedder)
               ? SMOL_OK
               : smol_fail(error, SMOL_ERROR_DAMAGED,
                           "its strings are not as many as its prompts and pair need, not UTF-8, "
                           "or not in order");
}

/* Takes f32[n], finite numbers. Returns NULL and fills *error if it cannot. */
static const float *take_vector(struct cursor *cursor, const char *name, uint32_t n,
                                smol_error *error)
{
    const struct blob_tensor vector = {
        .layout = LAYOUT_VECTOR, .rows = 1, .cols = n, .size = n * sizeof(float)};
    const float *values = smol_cursor_take(cursor, name, n, sizeof *values, error);
    if (!values || smol_tensor_is_well_formed(values, &vector))
        return values;
    smol_fail(error, SMOL_ERROR_DAMAGED, "%s: a number is not finite", name);
    return NULL;
}

static smol_status take_dense(struct cursor *cursor, size_t i, uint32_t hidden_size,
                              struct embedder *embedder, smol_error *error)
{
    const struct blob_dense *dense = &embedder->header->dense[i];
    const struct blob_tensor matrix = {.layout = LAYOUT_TILES,
                                       .dtype = embedder->dtype,
                                       .rows = dense->outputs,
                                       .cols = dense_inputs(embedder->header, i, hidden_size)};
    embedder->matrix[i] = smol_cursor_take(cursor, "a matrix", count_blocks(matrix.rows),
                                           smol_block_bytes(matrix.dtype, matrix.cols), error);
    if (!embedder->matrix[i] ||
        (dense->has_bias &&
         !(embedder->bias[i] = take_vector(cursor, "a bias", dense->outputs, error))))
        return SMOL_ERROR_DAMAGED;
    return smol_tensor_is_well_formed(embedder->matrix[i], &matrix)
               ? SMOL_OK
               : smol_fail(error, SMOL_ERROR_DAMAGED,
                           "dense layer %zu: a number is not finite, or padding is not zero", i);
}

smol_status smol_embedder_open(const void *data, uint64_t size, const struct blob_model *model,
                               struct embedder *embedder, smol_error *error)
{
    const struct blob_embedder *header = data;
    struct cursor cursor = {data, size, sizeof *header};
    if (size < sizeof *header)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "too small for its header");
    smol_status status = check_header(header, model, error);
    if (status)
        return status;
    *embedder =
        (struct embedder){.header = header, .strings = "", .dtype = dense_dtype(model->dtype)};
    status = take_strings(&cursor, embedder, error);
    for (size_t i = 0; !status && i < header->n_dense; i++)
        status = take_dense(&cursor, i, model->hidden_size, embedder, error);
    if (status)
        return status;
    if (header->has_types &&
        !(embedder->types = take_vector(&cursor, "types of tokens", model->hidden_size, error)))
        return SMOL_ERROR_DAMAGED;
    return smol_cursor_end(&cursor, error);
}
