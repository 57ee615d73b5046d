/* Names and shapes of a checkpoint's tensors, see checkpoint.h. */
#include "convert/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "convert/checkpoint/tensor.h"
#include "format/model.h"

enum { MAX_SHAPE = SAFETENSORS_MAX_RANK * 22 }; /* 20 digits and a comma each */

const char *smol_checkpoint_format(const char *pattern, struct tensor_key key,
                                   char name[MAX_CHECKPOINT_NAME])
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
    snprintf(name, MAX_CHECKPOINT_NAME, pattern, key.layer, key.expert);
#pragma GCC diagnostic pop
    return name;
}

const char *smol_checkpoint_name(const struct family *family, struct tensor_key key,
                                 char name[MAX_CHECKPOINT_NAME])
{
    if (!family->names[key.role])
        return NULL;
    return smol_checkpoint_format(family->names[key.role], key, name);
}

const char *smol_checkpoint_file_name(const struct family *family, uint32_t n_layers,
                                      struct tensor_key key, char name[MAX_CHECKPOINT_NAME])
{
    bool last = key.role == ROLE_FINAL_NORM || key.role == ROLE_FINAL_NORM_BIAS;
    bool bias = key.role == ROLE_FINAL_NORM_BIAS || key.role == ROLE_ATTN_NORM_BIAS;
    bool moves = family->embedding_norm[bias] && (last || bias || key.role == ROLE_ATTN_NORM);
    uint32_t n_before = last ? n_layers : key.layer;
    if (moves && n_before == 0)
        return smol_checkpoint_format(family->embedding_norm[bias], key, name);
    if (!moves || !family->layer_norm[bias])
        return smol_checkpoint_name(family, key, name);
    key.layer = n_before - 1;
    return smol_checkpoint_format(family->layer_norm[bias], key, name);
}

bool smol_checkpoint_matches(const char *pattern, const char *name, struct tensor_key *key)
{
    enum { MAX_DIGITS = 6 };
    uint32_t *const numbers[] = {&key->layer, &key->expert};
    size_t n = 0;
    key->layer = key->expert = 0;
    while (*pattern) {
        if (*pattern != '%' || n == 2) {
            if (*pattern++ != *name++)
                return false;
            continue;
        }
        size_t n_digits = 0;
        uint32_t number = 0;
        for (; is_digit(*name) && n_digits <= MAX_DIGITS; name++, n_digits++)
            number = number * 10 + (uint32_t)(*name - '0');
        if (n_digits == 0 || n_digits > MAX_DIGITS)
            return false;
        *numbers[n++] = number;
        pattern += 2; /* %u */
    }
    return *name == '\0';
}

static bool find_in_family(const struct family *family, const char *name, struct tensor_key *key)
{
    for (int role = 0; role < ROLE_COUNT; role++) {
        key->role = (enum tensor_role)role;
        if (family->names[role] && smol_checkpoint_matches(family->names[role], name, key))
            return true;
    }
    for (size_t i = 0; i < FAMILY_MAX_FUSED; i++) {
        key->role = family->fused[i].roles[0];
        if (family->fused[i].name && smol_checkpoint_matches(family->fused[i].name, name, key))
            return true;
    }
    return false;
}

bool smol_checkpoint_find(const char *name, struct tensor_key *key)
{
    const struct family *family;
    for (size_t i = 0; (family = smol_family_at(i)); i++)
        if (find_in_family(family, name, key))
            return true;
    return false;
}

float smol_checkpoint_offset(const struct family *family, enum tensor_role role)
{
    switch (role) {
    case ROLE_ATTN_NORM:
    case ROLE_ATTN_Q_NORM:
    case ROLE_ATTN_K_NORM:
    case ROLE_ATTN_OUT_NORM:
    case ROLE_MLP_NORM:
    case ROLE_MLP_OUT_NORM:
    case ROLE_FINAL_NORM:
        return family->norm_offset;
    default:
        return 0;
    }
}

/* Returns whether the name ends with one of the n endings, and is longer. */
static bool ends_with_one(const char *name, const char *const *ends, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ends_with(name, ends[i]) && strcmp(name, ends[i]) != 0)
            return true;
    return false;
}

bool smol_checkpoint_ignores(const char *name)
{
    static const char *const ends[] = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
                                       ".attention.bias", ".attention.masked_bias",
                                       /* of encoders: what other tasks add */
                                       ".pooler.dense.weight", ".pooler.dense.bias",
                                       ".embeddings.position_ids",
                                       /* added to the positions, see struct weights */
                                       ".embeddings.token_type_embeddings.weight"};
    static const char *const of_gguf[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                          "rope_factors_short.weight"};
    for (size_t i = 0; i < sizeof of_gguf / sizeof of_gguf[0]; i++)
        if (strcmp(name, of_gguf[i]) == 0)
            return true;
    return ends_with_one(name, ends, sizeof ends / sizeof ends[0]);
}

/* Writes a shape as "49152, 576". Returns `text`. */
static const char *shape_text(unsigned rank, const uint64_t *shape, char text[MAX_SHAPE])
{
    size_t length = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < rank; i++)
        length += (size_t)snprintf(text + length, MAX_SHAPE - length, "%s%" PRIu64, i ? ", " : "",
                                   shape[i]);
    return text;
}

const struct safetensors_tensor *smol_checkpoint_types(const struct safetensors *reader,
                                                       const struct family *family,
                                                       const struct blob_model *model)
{
    const struct safetensors_tensor *types =
        family->types ? smol_safetensors_find(reader, family->types) : NULL;
    bool fits = types && types->rank == 2 && types->shape[0] > 0 &&
                types->shape[1] == model->hidden_size && smol_element_is_weight(types->dtype);
    return fits ? types : NULL;
}

enum tensor_role smol_checkpoint_typed(const struct blob_model *model)
{
    return model->blocks & BLOCK_POSITIONS ? ROLE_POSITIONS : ROLE_EMBED;
}

smol_status smol_checkpoint_check_shape(const struct safetensors_tensor *tensor,
                                        const uint64_t *wanted, unsigned rank, smol_error *error)
{
    char found[MAX_SHAPE], expected[MAX_SHAPE];
    if (tensor->rank == rank && memcmp(tensor->shape, wanted, rank * sizeof *wanted) == 0)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: tensor %s has shape [%s], but config.json calls for [%s]", tensor->path,
                     tensor->name, shape_text(tensor->rank, tensor->shape, found),
                     shape_text(rank, wanted, expected));
}

unsigned smol_checkpoint_shape(const struct blob_tensor *layout, uint32_t n_layers,
                               uint64_t shape[2])
{
    bool vector = layout->layout == LAYOUT_VECTOR;
    uint32_t together = layout->role == ROLE_INPUT_EMBED ? n_layers : 1; /* rows of a blob in one */
    shape[0] = vector ? layout->cols : layout->rows / together;
    shape[1] = layout->cols * together;
    return vector ? 1 : 2;
}

static smol_status check_source(const struct safetensors *reader, const struct blob_tensor *layout,
                                uint32_t n_layers, const char *name,
                                const struct safetensors_tensor *source, smol_error *error)
{
    if (!source)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: tensor %s is missing: config.json calls for it", reader->path, name);
    if (!tensor_is_weight(source))
        return smol_fail(
            error, SMOL_ERROR_UNSUPPORTED,
            "%s: tensor %s has type %s: F32, F16, BF16, F8_E4M3, F8_E5M2 and GGUF's blocks (Q4_0 "
            "to Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS) are supported",
            source->path, name, smol_element_name(source->dtype));
    uint64_t shape[2];
    unsigned rank = smol_checkpoint_shape(layout, n_layers, shape);
    return smol_checkpoint_check_shape(source, shape, rank, error);
}

/* Returns whether two tensors hold the same weights: bytes in the same shape and type, without
 * scales and functions. */
static bool same_data(const struct safetensors_tensor *a, const struct safetensors_tensor *b)
{
    return !a->scales && !b->scales && !a->function && !b->function && a->dtype == b->dtype &&
           a->size == b->size && a->rank == b->rank &&
           memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) == 0 &&
           memcmp(a->data, b->data, a->size) == 0;
}

/* Decides whether the output matrix is tied to the embedding. A checkpoint with tied embeddings may
 * lack the output or hold an equal copy of the embedding. An output that differs from the embedding
 * is not tied, whatever config.json says. An untied output that equals the embedding is stored
 * once, which changes no result. */
static void resolve_tied(const struct safetensors *reader, const struct family *family,
                         struct blob_model *model)
{
    const struct safetensors_tensor *embed =
        smol_safetensors_find(reader, family->names[ROLE_EMBED]);
    const struct safetensors_tensor *output =
        family->names[ROLE_OUTPUT] ? smol_safetensors_find(reader, family->names[ROLE_OUTPUT])
                                   : NULL;
    if (embed && output && !family->has_no_output)
        model->tied_embeddings = same_data(embed, output);
}

static int compare_pointers(const void *a, const void *b)
{
    uintptr_t left = (uintptr_t) * (const struct safetensors_tensor *const *)a;
    uintptr_t right = (uintptr_t) * (const struct safetensors_tensor *const *)b;
    return (left > right) - (left < right);
}

/* Returns whether `name` is a tensor of scales from a quantization tool. Such scales change the
 * meaning of the weights, if smol_scales_attach has left them. */
static bool is_scale(const char *name)
{
    static const char *const ends[] = {".weight_scale", ".weight_scale_inv", ".input_scale"};
    return ends_with_one(name, ends, sizeof ends / sizeof ends[0]);
}

/* Returns whether `name` is the weight or the bias of that layer. */
static bool is_of_layer(const char *layer, const char *name)
{
    const char *end = layer && starts_with(name, layer) ? name + strlen(layer) : "";
    return strcmp(end, ".weight") == 0 || strcmp(end, ".bias") == 0;
}

bool smol_checkpoint_is_head(const struct family *family, const char *name)
{
    if (family->scores &&
        (strcmp(name, "score.weight") == 0 || is_of_layer(family->score_layers[0], name) ||
         is_of_layer(family->score_layers[1], name)))
        return true;
    for (size_t i = 0; i < 2 && family->heads[i]; i++)
        if (starts_with(name, family->heads[i]))
            return true;
    return false;
}

static smol_status fail_extra(const struct safetensors_tensor *tensor, smol_error *error)
{
    if (is_scale(tensor->name))
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: tensor %.200s: scales without weights, or without a "
                         "quantization_config that explains them: convert the original checkpoint",
                         tensor->path, tensor->name);
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: tensor %.200s is not part of the model that config.json describes",
                     tensor->path, tensor->name);
}

bool smol_checkpoint_is_unused(const struct family *family, const struct blob_model *model,
                               const char *name)
{
    static const enum tensor_role roles[] = {ROLE_ATTN_K, ROLE_ATTN_V, ROLE_ATTN_K_NORM,
                                             ROLE_ATTN_K_BIAS, ROLE_ATTN_V_BIAS};
    struct tensor_key key;
    for (size_t i = 0; model_is_varied(model) && i < sizeof roles / sizeof roles[0]; i++)
        if (family->names[roles[i]] &&
            smol_checkpoint_matches(family->names[roles[i]], name, &key) &&
            key.layer < model->n_layers && smol_kv_source(model, key.layer) != key.layer)
            return true;
    return false;
}

/* Checks that each tensor of the files is in `sources`, is the copy `tied_output` of a tied
 * embedding, or is harmless. */
static smol_status check_extra(const struct safetensors *reader, const struct family *family,
                               const struct blob_model *model, const char *tied_output,
                               const struct safetensors_tensor *const *sources, size_t n_sources,
                               smol_error *error)
{
    const struct safetensors_tensor **used = malloc(n_sources * sizeof *used);
    if (!used)
        return smol_fail_memory(error, "the tensor list");
    memcpy(used, sources, n_sources * sizeof *used);
    qsort(used, n_sources, sizeof *used, compare_pointers);
    smol_status status = SMOL_OK;
    for (size_t i = 0; !status && i < reader->n_tensors; i++) {
        const struct safetensors_tensor *tensor = &reader->tensors[i];
        bool tied_copy = tied_output && strcmp(tensor->name, tied_output) == 0;
        if (tied_copy || smol_checkpoint_is_head(family, tensor->name) ||
            smol_checkpoint_ignores(tensor->name) ||
            smol_checkpoint_is_unused(family, model, tensor->name) ||
            bsearch(&tensor, used, n_sources, sizeof *used, compare_pointers))
            continue;
        status = fail_extra(tensor, error);
    }
    free(used);
    return status;
}

smol_status smol_checkpoint_map(const struct safetensors *reader, const struct family *family,
                                struct blob_model *model, const struct safetensors_tensor **sources,
                                smol_error *error)
{
    resolve_tied(reader, family, model);
    size_t n = 0;
    struct tensor_key key = {.role = ROLE_EMBED};
    do {
        char name[MAX_CHECKPOINT_NAME];
        smol_checkpoint_file_name(family, model->n_layers, key, name);
        sources[n] = NULL;
        if (key.role != ROLE_OUTPUT || !model->tied_embeddings) {
            struct blob_tensor layout = smol_tensor_layout(model, key, NULL);
            sources[n] = smol_safetensors_find(reader, name);
            smol_status status =
                check_source(reader, &layout, model->n_layers, name, sources[n], error);
            if (status)
                return status;
        }
        n++;
    } while (smol_tensor_next(model, &key));
    const char *tied_output = model->tied_embeddings ? family->names[ROLE_OUTPUT] : NULL;
    return check_extra(reader, family, model, tied_output, sources, n, error);
}
