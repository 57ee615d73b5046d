/* Calibration statistics, see stats.h. */
#include "format/stats.h"

#include <string.h>

#include "common/hash.h"
#include "common/number.h"
#include "format/model.h"

bool smol_stats_cover(const struct blob_model *model)
{
    if (model->experts.n_experts > 0 || model->states.kind > STATE_SHORT_CONV)
        return false;
    return !model->states.kind || model->hidden_size == model->n_heads * model->head_dim;
}

void smol_stats_describe(const struct blob_model *model, struct stats_header *header)
{
    memcpy(header->magic, STATS_MAGIC, STATS_MAGIC_SIZE);
    header->major = STATS_MAJOR;
    header->minor = STATS_MINOR;
    header->n_layers = model->n_layers;
    header->widths[0] = header->widths[2] = model->hidden_size;
    header->widths[1] = model->n_heads * model->head_dim;
    header->widths[3] = model->intermediate_size;
}

smol_status smol_stats_check(const struct stats_header *header, const char *path, smol_error *error)
{
    if (memcmp(header->magic, STATS_MAGIC, STATS_MAGIC_SIZE) != 0)
        return smol_fail(
            error, SMOL_ERROR_UNSUPPORTED,
            "%s: not a file of calibration statistics: make one with smolrun calibrate", path);
    if (header->major != STATS_MAJOR || header->minor != STATS_MINOR)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: calibration statistics of version %u.%u, this program reads %d.%d: "
                         "make them again with smolrun calibrate",
                         path, header->major, header->minor, STATS_MAJOR, STATS_MINOR);
    bool fits = header->n_layers >= 1 && header->n_layers <= MODEL_MAX_LAYERS;
    for (size_t i = 0; i < STATS_PER_LAYER; i++)
        fits = fits && header->widths[i] >= 1 && header->widths[i] <= MODEL_MAX_INTERMEDIATE;
    if (!fits || header->widths[0] != header->widths[2] ||
        (header->kind != STATS_GRAM && header->kind != STATS_DIAGONAL) || header->n_tokens == 0)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: the header has a value out of range (offset 0): make the file again",
                         path);
    return SMOL_OK;
}

size_t smol_stats_count(const struct stats_header *header)
{
    return stats_output(header) + 2;
}

uint32_t smol_stats_width(const struct stats_header *header, size_t record)
{
    if (record > stats_output(header))
        return header->n_layers * STATS_MATRICES + 2;
    return header->widths[record == stats_output(header) ? 0 : record % STATS_PER_LAYER];
}

size_t smol_stats_matrix(uint32_t n_layers, enum tensor_role role, uint32_t layer)
{
    static const unsigned char of_role[ROLE_COUNT] = {
        [ROLE_ATTN_Q] = 0,   [ROLE_ATTN_K] = 1,   [ROLE_ATTN_V] = 2,
        [ROLE_ATTN_O] = 3,   [ROLE_MLP_GATE] = 4, [ROLE_MLP_UP] = 5,
        [ROLE_MLP_DOWN] = 6, [ROLE_MIXER_IN] = 0, [ROLE_MIXER_OUT] = 3,
    };
    if (role == ROLE_EMBED)
        return 0;
    if (role == ROLE_OUTPUT)
        return (size_t)n_layers * STATS_MATRICES + 1;
    return 1 + (size_t)layer * STATS_MATRICES + of_role[role];
}

uint64_t smol_stats_bytes(const struct stats_header *header, size_t record)
{
    uint64_t width = smol_stats_width(header, record);
    return (stats_is_gram(header, record) ? width * (width + 1) / 2 : width) * sizeof(float);
}

uint64_t smol_stats_offset(const struct stats_header *header, size_t record)
{
    uint64_t offset = sizeof *header + sizeof(uint64_t);
    for (size_t i = 0; i < record; i++)
        offset += smol_stats_bytes(header, i) + sizeof(uint64_t);
    return offset;
}

uint64_t smol_stats_digest(const struct stats_header *header, size_t record, const void *data,
                           size_t size)
{
    const uint64_t parts[] = {smol_digest(header, sizeof *header), record, smol_digest(data, size)};
    return smol_digest(parts, sizeof parts);
}

void smol_stats_round(float *values, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) {
        float magnitude = values[i] < 0 ? -values[i] : values[i];
        most = magnitude > most ? magnitude : most;
    }
    float step = most / 7;
    for (size_t i = 0; step > 0 && i < n; i++)
        values[i] = f32_from_bf16(bf16_from_f32(step * f32_round_even(values[i] / step)));
}

uint64_t smol_stats_key_start(const struct blob_model *model)
{
    const uint32_t shape[] = {
        model->n_layers,   model->hidden_size, model->intermediate_size, model->n_heads,
        model->n_kv_heads, model->head_dim,    model->vocab_size,        model->tied_embeddings,
    };
    return smol_digest(shape, sizeof shape);
}

uint64_t smol_stats_key_add(uint64_t key, const float *row, size_t n, uint16_t *rounded)
{
    for (size_t i = 0; i < n; i++)
        rounded[i] = bf16_from_f32(row[i]);
    const uint64_t parts[] = {key, smol_digest(rounded, n * sizeof *rounded)};
    return smol_digest(parts, sizeof parts);
}
