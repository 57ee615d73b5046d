/* Checks of the sections that describe the model, see front.h: its numbers, layers and components,
 * and what makes it an encoder. */
#include "format/front.h"

#include <string.h>

#include "common/memory.h"
#include "format/model.h"

/* Checks the fields of FEATURE_BLOCKS and FEATURE_COMPONENTS, which the model must need. */
static smol_status check_layers(struct blob *blob, smol_error *error)
{
    bool blocks = blob->header->required_features & FEATURE_BLOCKS;
    bool components = blob->header->required_features & FEATURE_COMPONENTS;
    if (blocks == smol_model_is_plain(blob->model))
        return smol_damaged_section(blob, error, SECTION_MODEL,
                                    "its fields do not match the blocks feature");
    if (components != smol_model_has_components(blob->model))
        return smol_damaged_section(blob, error, SECTION_MODEL,
                                    "its fields do not match the components feature");
    if (!blocks)
        return SMOL_OK;
    size_t n = 0;
    smol_status status =
        smol_take_section(blob, SECTION_LAYERS, 1, (const void **)&blob->layers, &n, error);
    if (status)
        return status;
    if (n != blob->model->n_layers)
        return smol_damaged_section(blob, error, SECTION_LAYERS,
                                    "its size does not match n_layers");
    smol_error reason;
    if (smol_layers_check(blob->model, blob->layers, &reason))
        return smol_damaged_section(blob, error, SECTION_LAYERS, reason.message);
    struct blob_model reduced = *blob->model;
    if (!smol_model_reduce(&reduced, blob->layers))
        return smol_damaged_section(blob, error, SECTION_MODEL,
                                    "nothing in it needs the blocks feature");
    return SMOL_OK;
}

static smol_status check_model(struct blob *blob, smol_error *error)
{
    const struct blob_section *section = smol_find_section(blob, SECTION_MODEL);
    smol_error reason;
    if (section->size != MODEL_SECTION_SIZE)
        return smol_damaged_section(blob, error, SECTION_MODEL, "wrong size");
    blob->model_copy = smol_calloc(1, sizeof *blob->model_copy);
    if (!blob->model_copy)
        return smol_fail_memory(error, "the model");
    memcpy(blob->model_copy, blob->front + section->offset, MODEL_SECTION_SIZE);
    blob->model = blob->model_copy;
    if (smol_model_check(blob->model, &reason))
        return smol_damaged_section(blob, error, SECTION_MODEL, reason.message);
    return check_layers(blob, error);
}

static bool encoder_is_valid(const struct blob *blob)
{
    const uint32_t others =
        BLOCK_NO_INPUT_NORMS | BLOCK_NORM_OUTPUTS | BLOCK_PARALLEL | BLOCK_ONE_NORM;
    const struct blob_encoder *encoder = blob->encoder;
    const struct blob_model *model = blob->model;
    bool embedder = blob->header->required_features & FEATURE_EMBEDDER;
    bool around = blob->header->required_features & FEATURE_AROUND;
    bool ahead = blob_sees_ahead(blob), stream = model->blocks & BLOCK_NORM_STREAM;
    bool normed = encoder->norms_embedding;
    return encoder->pooling < (embedder ? ENCODER_POOLINGS : ENCODER_LAST) &&
           encoder->normalizes <= 1 && encoder->max_length >= 1 &&
           encoder->max_length <= model->context_length &&
           (ahead && smol_encoder_needs_around(model, encoder)) == around &&
           encoder->norms_embedding <= around &&
           (!ahead || model->context_length <= ENCODER_MAX_CONTEXT) &&
           !(stream && (!ahead || normed || model->blocks & others)) &&
           !(normed && model->blocks & others) &&
           all_zero(encoder->reserved, sizeof encoder->reserved);
}

static smol_status check_embedder(struct blob *blob, smol_error *error)
{
    smol_error reason;
    bool normed = blob->header->required_features & FEATURE_NORMED;
    bool doubled = blob->header->required_features & FEATURE_DOUBLED;
    if (!(blob->header->required_features & FEATURE_EMBEDDER))
        return SMOL_OK;
    smol_status status =
        smol_take_section(blob, SECTION_EMBEDDER, 1, (const void **)&blob->embedder_section,
                          &blob->n_embedder, error);
    if (status)
        return status;
    if (smol_embedder_open(blob->embedder_section, blob->n_embedder, blob->model, &blob->embedder,
                           &reason))
        return smol_damaged_section(blob, error, SECTION_EMBEDDER, reason.message);
    if (smol_embedder_is_normed(blob->embedder.header) != normed)
        return smol_damaged_section(blob, error, SECTION_EMBEDDER,
                                    "its activations and the normed feature contradict each other");
    if (smol_embedder_is_doubled(blob->embedder.header) != doubled)
        return smol_damaged_section(blob, error, SECTION_EMBEDDER,
                                    "its fields and the doubled feature contradict each other");
    return SMOL_OK;
}

/* Checks that relative positions stand where all of a text is seen, and have their feature, as
 * further parts do. */
static smol_status check_features(const struct blob *blob, smol_error *error)
{
    const struct blob_model *model = blob->model;
    bool relative = blob->header->required_features & FEATURE_RELATIVE;
    bool further = blob->header->required_features & FEATURE_FURTHER;
    if (relative != !!(model->blocks & BLOCK_RELATIVE))
        return smol_damaged_section(blob, error, SECTION_MODEL,
                                    "its blocks and the relative feature contradict each other");
    if (smol_model_has_further(model) != further)
        return smol_damaged_section(blob, error, SECTION_MODEL,
                                    "its parts and the further feature contradict each other");
    if (relative && (!blob_sees_ahead(blob) || model->sliding_window ||
                     model->attention_softcap > 0 || model->query_period))
        return smol_damaged_section(blob, error, SECTION_MODEL,
                                    "relative positions need an encoder without windows and caps");
    return SMOL_OK;
}

static smol_status check_encoder(struct blob *blob, smol_error *error)
{
    size_t n = 0;
    uint64_t features = blob->header->required_features;
    if (check_features(blob, error))
        return SMOL_ERROR_DAMAGED;
    if (features & FEATURE_AROUND && !(features & FEATURE_ENCODER))
        return smol_damaged_features(blob, error, "the around feature needs the encoder feature");
    if (features & (FEATURE_NORMED | FEATURE_DOUBLED) && !(features & FEATURE_EMBEDDER))
        return smol_damaged_features(blob, error,
                                     "the normed and doubled features need the embedder feature");
    if (!(features & (FEATURE_ENCODER | FEATURE_EMBEDDER)))
        return blob->model->blocks & BLOCK_NORM_STREAM
                   ? smol_damaged_section(blob, error, SECTION_MODEL,
                                          "its blocks need the encoder feature")
                   : SMOL_OK;
    smol_status status = smol_take_section(blob, SECTION_ENCODER, sizeof *blob->encoder,
                                           (const void **)&blob->encoder, &n, error);
    if (status)
        return status;
    if (n != 1 || !encoder_is_valid(blob))
        return smol_damaged_section(blob, error, SECTION_ENCODER,
                                    "its fields do not fit the model");
    return check_embedder(blob, error);
}

/* Copies the sections that are parts of the model, each one struct. */
static smol_status take_parts(struct blob *blob, smol_error *error)
{
    struct blob_model *model = blob->model_copy;
    const struct {
        uint64_t feature;
        enum section_kind kind;
        void *part;
        size_t size;
    } parts[] = {
        {FEATURE_HYBRID, SECTION_HYBRID, &model->hybrid, sizeof model->hybrid},
        {FEATURE_STATES, SECTION_STATES, &model->states, sizeof model->states},
        {FEATURE_EXPERTS, SECTION_EXPERTS, &model->experts, sizeof model->experts},
        {FEATURE_LATENT, SECTION_LATENT, &model->latent, sizeof model->latent},
        {FEATURE_VARIED, SECTION_VARIED, &model->varied, sizeof model->varied},
        {FEATURE_PARTIAL, SECTION_PARTIAL, &model->partial, sizeof model->partial},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!(blob->header->required_features & parts[i].feature))
            continue;
        const struct blob_section *section = smol_find_section(blob, parts[i].kind);
        if (section->size != parts[i].size)
            return smol_damaged_section(blob, error, parts[i].kind, "wrong size");
        memcpy(parts[i].part, blob->front + section->offset, section->size);
    }
    return SMOL_OK;
}

static smol_status check_parts(struct blob *blob, smol_error *error)
{
    uint64_t features = blob->header->required_features;
    const struct blob_model *model = blob->model;
    smol_error reason;
    smol_status status = take_parts(blob, error);
    if (status)
        return status;
    if (features & FEATURE_VARIED && smol_varied_check(model, blob->layers, &reason))
        return smol_damaged_section(blob, error, SECTION_VARIED, reason.message);
    if (features & FEATURE_PARTIAL && smol_partial_check(model, blob->layers, &reason))
        return smol_damaged_section(blob, error, SECTION_PARTIAL, reason.message);
    if (features & FEATURE_HYBRID && !(features & FEATURE_STATES))
        return smol_damaged_section(blob, error, SECTION_HYBRID, "it needs the states feature");
    if (model->blocks & BLOCK_ATTENTION_GATE && !(features & FEATURE_STATES))
        return smol_damaged_section(blob, error, SECTION_MODEL,
                                    "a gate of attention needs the states feature");
    if (!(model->blocks & BLOCK_GATE_HEADS) != !(features & FEATURE_HEAD_GATES))
        return smol_damaged_section(blob, error, SECTION_MODEL,
                                    "its blocks and the head gates feature contradict each other");
    if (!model->experts.own_norms != !(features & FEATURE_OWN_NORMS))
        return smol_damaged_features(blob, error,
                                     "own_norms and the own norms feature contradict each other");
    if (features & FEATURE_HYBRID && smol_hybrid_check(model, &reason))
        return smol_damaged_section(blob, error, SECTION_HYBRID, reason.message);
    if (features & FEATURE_STATES && smol_states_check(model, blob->layers, &reason))
        return smol_damaged_section(blob, error, SECTION_STATES, reason.message);
    if (features & FEATURE_EXPERTS && smol_experts_check(model, &reason))
        return smol_damaged_section(blob, error, SECTION_EXPERTS, reason.message);
    if (features & FEATURE_LATENT && smol_latent_check(model, &reason))
        return smol_damaged_section(blob, error, SECTION_LATENT, reason.message);
    return blob_sees_ahead(blob) && features & (FEATURE_STATES | FEATURE_EXPERTS | FEATURE_LATENT |
                                                FEATURE_VARIED | FEATURE_PARTIAL)
               ? smol_damaged_features(blob, error,
                                       "an encoder has no states, experts, latent vectors, and no "
                                       "varied or partial layers")
               : SMOL_OK;
}

static smol_status check_inv_freq(struct blob *blob, smol_error *error)
{
    size_t n = 0;
    smol_status status = smol_take_section(blob, SECTION_INV_FREQ, sizeof(float),
                                           (const void **)&blob->inv_freq, &n, error);
    if (status)
        return status;
    if (n != smol_inv_freq_count(blob->model))
        return smol_damaged_section(blob, error, SECTION_INV_FREQ,
                                    "its size does not match the model");
    for (size_t i = 0; i < n; i++)
        if (!(blob->inv_freq[i] >= 0 && blob->inv_freq[i] <= 1))
            return smol_damaged_section(blob, error, SECTION_INV_FREQ, "out of range");
    return SMOL_OK;
}

smol_status smol_front_check_model(struct blob *blob, smol_error *error)
{
    smol_status status = check_model(blob, error);
    if (!status)
        status = check_encoder(blob, error);
    if (!status)
        status = check_parts(blob, error);
    return status ? status : check_inv_freq(blob, error);
}
