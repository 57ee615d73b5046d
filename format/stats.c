/* Calibration statistics, see stats.h. */
#include "format/stats.h"

#include <string.h>

#include "common/checked.h"
#include "common/hash.h"
#include "common/number.h"
#include "format/layout.h"
#include "format/model.h"

/* Describes layers with states and experts. */
static void describe_layers(const struct blob_model *model, struct stats_header *header)
{
    bool has_states = model->states.kind != STATE_NONE;
    header->minor = model->hybrid.parallel ? STATS_BESIDE : 1;
    header->state_width = has_states ? (uint32_t)smol_states_width(model) : 0;
    header->n_experts = model->experts.n_experts;
    header->expert_width = model->experts.width;
    header->shared_width = model->experts.shared_width;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        uint8_t bit = (uint8_t)(1u << i % 8);
        header->stateful[i / 8] |= layer_has_state(model, i) ? bit : 0;
        header->sparse[i / 8] |= smol_layer_is_sparse(model, i) ? bit : 0;
    }
}

/* Describes attention to latent vectors. */
static void describe_latent(const struct blob_model *model, struct stats_header *header)
{
    header->minor = STATS_LATENT;
    header->n_heads = model->n_heads;
    header->query_rank = model->latent.q_rank;
    header->query_dim = model->latent.query_dim;
    header->latent_width = model->latent.kv_rank;
}

/* Describes layers that differ in shape. */
static void describe_varied(const struct blob_model *model, struct stats_header *header)
{
    const struct blob_varied *varied = &model->varied;
    header->minor = model->experts.n_experts > 0 ? STATS_OWN_NORMS : STATS_VARIED;
    header->widths[1] = model->n_heads * model->head_dim;
    header->second_width = model->n_heads * varied->head_dim;
    header->first_shared = varied->first_shared;
    header->late_width = varied->shared_width;
    header->input_width = varied->input_width;
    memcpy(header->second, varied->second, sizeof header->second);
}

/* Describes layers that lack a block. */
static void describe_partial(const struct blob_model *model, struct stats_header *header)
{
    describe_layers(model, header);
    header->minor = STATS_PARTIAL;
    memcpy(header->no_mixer, model->partial.no_mixer, sizeof header->no_mixer);
    memcpy(header->no_mlp, model->partial.no_mlp, sizeof header->no_mlp);
}

void smol_stats_describe(const struct blob_model *model, struct stats_header *header)
{
    memcpy(header->magic, STATS_MAGIC, STATS_MAGIC_SIZE);
    header->major = STATS_MAJOR;
    header->minor = 0;
    header->n_layers = model->n_layers;
    header->widths[0] = header->widths[2] = model->hidden_size;
    header->widths[1] = (uint32_t)smol_attended_width(model, 0);
    header->widths[3] = model->intermediate_size;
    memset(&header->state_width, 0, sizeof *header - offsetof(struct stats_header, state_width));
    bool is_wide = model->states.kind && smol_states_width(model) != header->widths[1];
    if (model->experts.n_experts > 0 || model->states.kind > STATE_SHORT_CONV || is_wide ||
        model->blocks & BLOCK_ATTENTION_GATE)
        describe_layers(model, header);
    if (model_has_latent(model))
        describe_latent(model, header);
    if (model_is_varied(model))
        describe_varied(model, header);
    if (smol_model_is_partial(model))
        describe_partial(model, header);
}

static bool is_varied(const struct stats_header *header)
{
    return header->minor == STATS_VARIED || header->minor == STATS_OWN_NORMS;
}

/* Returns whether the sets of minor 5 are of the file's layers, and the fields of other minors
 * zero. */
static bool partial_fit(const struct stats_header *header)
{
    const size_t start = offsetof(struct stats_header, n_heads);
    const size_t end = offsetof(struct stats_header, no_mixer);
    if (header->minor == STATS_OWN_NORMS)
        return all_zero(header->no_mixer, sizeof *header - end);
    if (header->minor != STATS_PARTIAL)
        return true; /* they are not in the file */
    for (size_t i = 0; i < STATS_LAYERS; i++) {
        bool lacks_mixer = layers_have(header->no_mixer, i);
        bool lacks_mlp = layers_have(header->no_mlp, i);
        if ((i >= header->n_layers && (lacks_mixer || lacks_mlp)) || (lacks_mixer && lacks_mlp) ||
            (lacks_mixer && layers_have(header->stateful, i)) ||
            (lacks_mlp && layers_have(header->sparse, i)))
            return false;
    }
    return all_zero((const uint8_t *)header + start, end - start);
}

/* Returns whether the fields of minors 4 and 6 are in their ranges, and those of others zero. */
static bool varied_fit(const struct stats_header *header)
{
    const bool experts = header->minor == STATS_OWN_NORMS;
    const size_t start = experts ? offsetof(struct stats_header, n_heads)
                                 : offsetof(struct stats_header, state_width);
    const size_t end = offsetof(struct stats_header, second_width);
    if (!is_varied(header))
        return true; /* they are not in the file */
    for (size_t i = header->n_layers; i < STATS_LAYERS; i++)
        if (layers_have(header->second, i))
            return false;
    if (experts && (header->state_width > 0 || header->n_experts == 0 || header->input_width > 0))
        return false;
    return all_zero((const uint8_t *)header + start, end - start) && header->second_width >= 1 &&
           header->second_width <= MODEL_MAX_INTERMEDIATE && header->first_shared >= 1 &&
           header->first_shared <= header->n_layers && header->late_width >= 1 &&
           header->late_width <= MODEL_MAX_INTERMEDIATE && header->input_width <= VARIED_MAX_INPUT;
}

/* Returns whether the fields of minor 3 are in their ranges. */
static bool heads_fit(const struct stats_header *header)
{
    if (header->minor != STATS_LATENT)
        return true; /* they are not in the file */
    return header->n_heads >= 1 && header->n_heads <= MODEL_MAX_HEADS &&
           header->query_rank <= MODEL_MAX_HIDDEN && header->query_dim >= 1 &&
           header->query_dim <= MAX_HEAD_DIM && header->latent_width >= 1 &&
           header->latent_width <= MAX_HEAD_DIM;
}

/* Returns whether the fields from minor 1 on are in their ranges, and agree with each other.
 * Records have at most 2^60 bytes in all. */
static bool layers_fit(const struct stats_header *header)
{
    uint32_t n_stateful = 0, n_sparse = 0;
    const uint32_t widths[] = {header->state_width, header->expert_width, header->shared_width};
    for (size_t i = 0; i < STATS_LAYERS; i++) {
        bool stateful = layers_have(header->stateful, i), sparse = layers_have(header->sparse, i);
        if ((stateful || sparse) && i >= header->n_layers)
            return false;
        n_stateful += stateful;
        n_sparse += sparse;
    }
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        if (widths[i] > MODEL_MAX_INTERMEDIATE)
            return false;
    if ((n_stateful > 0) != (header->state_width > 0) || (n_sparse > 0) != (header->n_experts > 0))
        return false;
    if (header->minor == STATS_BESIDE && (n_stateful == 0 || n_sparse > 0))
        return false;
    if (header->minor == STATS_LATENT && (n_stateful > 0 || n_sparse > 0))
        return false;
    if (header->n_experts == 0)
        return header->expert_width == 0 && header->shared_width == 0;
    uint64_t hidden = header->widths[0], width = header->expert_width, bytes = 0;
    bytes = (hidden * (hidden + 1) + width * (width + 1)) / 2 * sizeof(float) + 16;
    return header->n_experts <= MODEL_MAX_EXPERTS && width > 0 &&
           bytes <= ((uint64_t)1 << 60) / ((uint64_t)header->n_experts * n_sparse);
}

smol_status smol_stats_check(const struct stats_header *header, const char *path, smol_error *error)
{
    if (memcmp(header->magic, STATS_MAGIC, STATS_MAGIC_SIZE) != 0)
        return smol_fail(
            error, SMOL_ERROR_UNSUPPORTED,
            "%s: not a file of calibration statistics: make one with smolrun calibrate", path);
    if (header->major != STATS_MAJOR || header->minor > STATS_MINOR)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: calibration statistics of version %u.%u, this program reads up to "
                         "%d.%d: make them again with smolrun calibrate",
                         path, header->major, header->minor, STATS_MAJOR, STATS_MINOR);
    bool fits = header->n_layers >= 1 && header->n_layers <= MODEL_MAX_LAYERS;
    for (size_t i = 0; i < STATS_PER_LAYER; i++)
        fits = fits && header->widths[i] >= 1 && header->widths[i] <= MODEL_MAX_INTERMEDIATE;
    if (!fits || header->widths[0] != header->widths[2] || !layers_fit(header) ||
        !heads_fit(header) || !varied_fit(header) || !partial_fit(header) ||
        (header->kind != STATS_GRAM && header->kind != STATS_DIAGONAL) || header->n_tokens == 0)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: the header has a value out of range (offset 0): make the file again",
                         path);
    return SMOL_OK;
}

/* Returns the number of bits that are set before `layer`. Inner loops call this. */
static size_t count_before(const uint8_t *bits, size_t layer)
{
    size_t n = 0;
    for (size_t at = 0; at < layer; at += 64) {
        uint64_t word;
        memcpy(&word, bits + at / 8, sizeof word);
        if (layer - at < 64)
            word &= (UINT64_C(1) << (layer - at)) - 1;
        n += (size_t)__builtin_popcountll(word);
    }
    return n;
}

size_t smol_stats_experts(const struct stats_header *header)
{
    return header->n_experts == 0
               ? 0
               : count_before(header->sparse, header->n_layers) * header->n_experts;
}

/* Returns the number of records after the output layer's that are about inputs. */
static size_t count_more(const struct stats_header *header)
{
    if (header->minor == STATS_LATENT)
        return stats_queries(header) + 2 * (size_t)header->n_layers * header->n_heads;
    if (header->minor == STATS_VARIED)
        return header->input_width > 0 ? 2 * (size_t)header->n_layers : 0;
    return header->minor == STATS_BESIDE ? count_before(header->stateful, header->n_layers)
                                         : 2 * smol_stats_experts(header);
}

size_t smol_stats_sensitivities(const struct stats_header *header)
{
    return stats_output(header) + 1 + count_more(header);
}

size_t smol_stats_count(const struct stats_header *header)
{
    return smol_stats_sensitivities(header) + 1;
}

size_t smol_stats_record(const struct stats_header *header, struct stats_place place)
{
    if (place.input < STATS_EXPERT)
        return stats_record(place.input, place.layer);
    size_t first = stats_output(header) + 1;
    if (place.input == STATS_STATE)
        return first + count_before(header->stateful, place.layer);
    if (place.input >= STATS_INPUT)
        return first + 2 * (size_t)place.layer + (place.input == STATS_INPUT_GATED);
    if (place.input == STATS_QUERY)
        return first + place.layer;
    if (place.input >= STATS_HEAD_QUERY)
        return first + stats_queries(header) +
               2 * ((size_t)place.layer * header->n_heads + place.part) +
               (place.input == STATS_HEAD_LATENT);
    size_t expert = count_before(header->sparse, place.layer) * header->n_experts + place.part;
    return first + 2 * expert + (place.input == STATS_EXPERT_GATED);
}

uint32_t smol_stats_layer(const struct stats_header *header, size_t record)
{
    uint32_t layer = 0;
    bool is_state = header->minor == STATS_BESIDE;
    if (record <= stats_output(header))
        return (uint32_t)(record / STATS_PER_LAYER);
    size_t number = record - stats_output(header) - 1, queries = stats_queries(header);
    if (header->minor == STATS_LATENT)
        return (uint32_t)(number < queries ? number : (number - queries) / 2 / header->n_heads);
    if (header->minor == STATS_VARIED)
        return (uint32_t)(number / 2);
    const uint8_t *layers = is_state ? header->stateful : header->sparse;
    number = is_state ? number : number / 2 / header->n_experts;
    while (!layers_have(layers, layer) || number-- > 0)
        layer++;
    return layer;
}

static uint32_t matrices_of(const struct stats_header *header)
{
    return header->minor == 0 ? STATS_MATRICES : STATS_MATRICES_1;
}

uint32_t smol_stats_width(const struct stats_header *header, size_t record)
{
    size_t output = stats_output(header), layer = record / STATS_PER_LAYER;
    enum stats_input input = record % STATS_PER_LAYER;
    if (record == output)
        return header->widths[0];
    if (record > output && record == smol_stats_sensitivities(header))
        return header->n_layers * matrices_of(header) + 2 + (header->input_width > 0 ? 2 : 0);
    if (record > output && header->minor == STATS_BESIDE)
        return header->state_width;
    if (record > output && header->minor == STATS_LATENT) {
        size_t number = record - output - 1, queries = stats_queries(header);
        return number < queries              ? header->query_rank
               : (number - queries) % 2 == 0 ? header->query_dim
                                             : header->latent_width;
    }
    if (record > output && header->minor == STATS_VARIED)
        return (record - output) % 2 ? header->widths[0] : header->input_width;
    if (record > output)
        return (record - output) % 2 ? header->widths[0] : header->expert_width;
    if (layers_have(input < STATS_MLP ? header->no_mixer : header->no_mlp, layer))
        return 0;
    if (input == STATS_ATTENDED && layers_have(header->stateful, layer) &&
        header->minor != STATS_BESIDE)
        return header->state_width;
    if (input == STATS_ATTENDED && is_varied(header) && layers_have(header->second, layer))
        return header->second_width;
    if (input == STATS_GATED && layers_have(header->sparse, layer))
        return header->shared_width;
    if (input == STATS_GATED && is_varied(header) && layer >= header->first_shared)
        return header->late_width;
    return header->widths[input];
}

size_t smol_stats_matrix(const struct stats_header *header, enum tensor_role role, uint32_t layer)
{
    static const unsigned char of_role[ROLE_COUNT] = {
        [ROLE_ATTN_Q] = 0,      [ROLE_ATTN_K] = 1,       [ROLE_ATTN_V] = 2,
        [ROLE_ATTN_O] = 3,      [ROLE_MLP_GATE] = 4,     [ROLE_MLP_UP] = 5,
        [ROLE_MLP_DOWN] = 6,    [ROLE_MIXER_IN] = 0,     [ROLE_MIXER_OUT] = 3,
        [ROLE_MIXER_GATE] = 1,  [ROLE_MIXER_STEP] = 2,   [ROLE_MIXER_RATE] = 7,
        [ROLE_ATTN_GATE] = 7,   [ROLE_ROUTER] = 8,       [ROLE_EXPERT_GATE] = 9,
        [ROLE_EXPERT_UP] = 10,  [ROLE_EXPERT_DOWN] = 11, [ROLE_ATTN_V_UP] = 2,
        [ROLE_ATTN_Q_DOWN] = 7, [ROLE_ATTN_K_UP] = 8,    [ROLE_INPUT_GATE] = 7,
        [ROLE_INPUT_OUT] = 8,
    };
    static const unsigned char beside[ROLE_COUNT] = {
        [ROLE_MIXER_IN] = 7, [ROLE_MIXER_GATE] = 8, [ROLE_MIXER_STEP] = 9, [ROLE_MIXER_OUT] = 10};
    bool is_beside = header->minor == STATS_BESIDE && beside[role] > 0;
    if (role == ROLE_EMBED)
        return 0;
    if (role == ROLE_OUTPUT)
        return (size_t)header->n_layers * matrices_of(header) + 1;
    if (role == ROLE_INPUT_EMBED || role == ROLE_INPUT_PROJECTION)
        return (size_t)header->n_layers * matrices_of(header) + 2 + (role == ROLE_INPUT_PROJECTION);
    return 1 + (size_t)layer * matrices_of(header) + (is_beside ? beside[role] : of_role[role]);
}

uint64_t smol_stats_bytes(const struct stats_header *header, size_t record)
{
    uint64_t width = smol_stats_width(header, record);
    return (stats_is_gram(header, record) ? width * (width + 1) / 2 : width) * sizeof(float);
}

uint64_t smol_stats_offset(const struct stats_header *header, size_t record)
{
    uint64_t offset = stats_header_size(header) + sizeof(uint64_t), pair = 0;
    size_t first = stats_output(header) + 1 + stats_queries(header); /* then come equal pairs */
    for (size_t i = 0; i < record && i < first; i++)
        offset += smol_stats_bytes(header, i) + sizeof(uint64_t);
    if (record <= first)
        return offset;
    size_t end = smol_stats_sensitivities(header), n = (record < end ? record : end) - first;
    for (size_t i = first; n > 0 && i < first + 2; i++)
        pair += smol_stats_bytes(header, i) + sizeof(uint64_t);
    offset += n / 2 * pair;
    for (size_t i = first + n / 2 * 2; i < record; i++) /* the first of a pair, or sensitivities */
        offset += smol_stats_bytes(header, i) + sizeof(uint64_t);
    return offset;
}

uint64_t smol_stats_digest(const struct stats_header *header, size_t record, const void *data,
                           size_t size)
{
    const uint64_t parts[] = {smol_digest(header, stats_header_size(header)), record,
                              smol_digest(data, size)};
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
