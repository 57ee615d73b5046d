/* Splits fused tensors, see fused.h. Later steps see only the parts. */
#include "convert/checkpoint/fused.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "convert/checkpoint/checkpoint.h"
#include "format/layout.h"

/* The new table while it is built. */
struct split {
    const struct family *family;
    const struct blob_model *model;
    const struct safetensors *all;
    struct safetensors_tensor *tensors; /* the parts, then the other tensors */
    size_t n_tensors;
    bool *is_fused;     /* (all->n_tensors) */
    const char *prefix; /* of the names in `all`, in place of the family's; NULL: that one */
    char *names;        /* MAX_CHECKPOINT_NAME bytes each */
    size_t n_names;
    const uint8_t *zeros; /* f32, after the names: as many as a bias that the family lacks */
    smol_error *error;
};

static struct blob_tensor layout_of(const struct split *split, struct tensor_key key)
{
    return smol_tensor_layout(split->model, key, NULL);
}

/* Returns the outputs of a matrix, which are the elements of its bias. */
static uint64_t outputs_of(const struct blob_tensor *layout)
{
    return layout->layout == LAYOUT_VECTOR ? layout->cols : layout->rows;
}

static char *add_name(struct split *split)
{
    return split->names + MAX_CHECKPOINT_NAME * split->n_names++;
}

/* Sets where the outputs of a part are that has some of each group of a state's heads. */
static void place_in_groups(const struct blob_states *states, enum tensor_role role,
                            uint64_t output, uint64_t total, struct safetensors_tensor *part)
{
    part->first_row = output / states->n_groups;
    part->run = part->shape[0] / states->n_groups;
    part->run_step = total / states->n_groups;
    if (role == ROLE_MIXER_IN)
        part->piece = states->size;
}

/* Sets where the outputs of a part are that has some of each head. Returns the first element. */
static uint64_t place_in_heads(const struct blob_latent *latent, enum tensor_role role,
                               struct safetensors_tensor *part)
{
    uint64_t rows = latent->query_dim + latent->value_dim, rank = latent->kv_rank;
    bool turned = role == ROLE_ATTN_K_UP;
    part->swaps = turned;
    part->first_row = turned ? 0 : latent->query_dim;
    part->run = turned ? rank : latent->value_dim;
    part->run_step = turned ? rows * rank : rows;
    part->row_step = turned ? 1 : rank;
    part->col_step = turned ? rank : 1;
    return part->first_row * rank;
}

/* Adds part `i`, whose first output is `output` of the `total` if they are stacked. */
static void add_fused_part(struct split *split, const struct safetensors_tensor *fused,
                           const struct family_fused *parts, size_t i, struct tensor_key key,
                           uint64_t output, uint64_t total)
{
    const struct blob_tensor layout = layout_of(split, key);
    bool is_vector = layout.layout == LAYOUT_VECTOR;
    uint64_t n = outputs_of(&layout), cols = is_vector ? 1 : layout.cols, first = 0;
    const struct element_block block = smol_element_block(fused->dtype);
    uint64_t dim = split->model->head_dim;
    struct safetensors_tensor *part = &split->tensors[split->n_tensors++];
    *part = *fused;
    if (key.role == ROLE_ATTN_V || key.role == ROLE_ATTN_V_BIAS) /* its heads stay in order */
        part->heads = (struct head_order){0};
    part->name = smol_checkpoint_name(split->family, key, add_name(split));
    if (!parts->of_experts) { /* adapters have the names of single experts */
        part->whole = smol_checkpoint_format(parts->name, key, add_name(split));
        part->whole_rows = total;
        part->first_row = output;
    }
    part->rank = is_vector ? 1 : 2;
    part->shape[0] = n;
    part->shape[1] = is_vector ? 0 : cols;
    switch (parts->fusion) {
    case FUSION_STACKED:
        first = output * cols;
        break;
    case FUSION_HEADS:
        first = i * dim * cols;
        part->first_row = i * dim;
        part->run = dim;
        part->run_step = parts->n * dim;
        part->row_step = cols;
        part->col_step = 1;
        break;
    case FUSION_LATENT:
        first = place_in_heads(&split->model->latent, key.role, part);
        break;
    case FUSION_GROUPS:
        place_in_groups(&split->model->states, key.role, output, total, part);
        first = part->first_row * cols;
        part->row_step = cols;
        part->col_step = 1;
        break;
    case FUSION_TURNED:
    case FUSION_CONV:
        first = output;
        part->run = part->run_step = n;
        part->row_step = 1;
        part->col_step = total;
        part->by_columns = part->heads.groups > 0; /* of rows before */
        break;
    }
    uint64_t begin = first / block.elements * block.bytes; /* rows have whole blocks */
    part->data += begin;
    part->begin += begin;
    part->size = n * cols / block.elements * block.bytes;
}

/* Checks the shape of a fused tensor of n_stacks times `total` outputs. */
static smol_status check_shape(const struct split *split, const struct safetensors_tensor *fused,
                               const struct family_fused *parts, const struct blob_tensor *layout,
                               uint64_t n_stacks, uint64_t total)
{
    bool is_vector = layout->layout == LAYOUT_VECTOR, conv = parts->fusion == FUSION_CONV;
    bool turned = parts->fusion == FUSION_TURNED || conv;
    uint64_t rows = turned ? layout->cols : total, wanted[3];
    unsigned rank = 0;
    if (parts->of_experts)
        wanted[rank++] = n_stacks;
    wanted[rank++] = rows;
    if (conv)
        wanted[rank++] = 1;
    if (!is_vector)
        wanted[rank++] = turned ? total : layout->cols;
    return smol_checkpoint_check_shape(fused, wanted, rank, split->error);
}

/* Finds a tensor by the family's name. */
static const struct safetensors_tensor *find_whole(const struct split *split, const char *name)
{
    char found[MAX_CHECKPOINT_NAME];
    if (!split->prefix)
        return smol_safetensors_find(split->all, name);
    snprintf(found, sizeof found, "%s%s", split->prefix, name + strlen(split->family->prefix));
    return smol_safetensors_find(split->all, found);
}

/* Returns the fused tensor of a layer, or NULL. */
static const struct safetensors_tensor *find_fused(const struct split *split,
                                                   const struct family_fused *parts, uint32_t layer)
{
    char name[MAX_CHECKPOINT_NAME];
    const struct tensor_key key = {.layer = layer};
    return find_whole(split, smol_checkpoint_format(parts->name, key, name));
}

/* Returns how many times the parts are in a fused tensor: once, or for each expert. */
static uint64_t count_stacks(const struct split *split, const struct family_fused *parts)
{
    return parts->of_experts ? split->model->experts.n_experts : 1;
}

static smol_status split_one(struct split *split, const struct family_fused *parts, uint32_t layer,
                             const struct safetensors_tensor *fused)
{
    uint64_t outputs[FAMILY_MAX_PARTS], total = 0, output = 0, n = count_stacks(split, parts);
    struct tensor_key key = {.role = parts->roles[0], .layer = layer};
    const struct blob_tensor first = layout_of(split, key);
    for (size_t i = 0; i < parts->n; i++) {
        key.role = parts->roles[i];
        const struct blob_tensor layout = layout_of(split, key);
        outputs[i] = outputs_of(&layout);
        total += outputs[i];
    }
    if (parts->fusion == FUSION_LATENT) /* a part is transposed */
        total = (uint64_t)split->model->n_heads *
                (split->model->latent.query_dim + split->model->latent.value_dim);
    smol_status status = check_shape(split, fused, parts, &first, n, total);
    split->is_fused[fused - split->all->tensors] = true;
    for (; key.expert < n && !status; key.expert++)
        for (size_t i = 0; i < parts->n; i++) {
            key.role = parts->roles[i];
            add_fused_part(split, fused, parts, i, key, output, n * total);
            output += outputs[i];
        }
    return status;
}

/* Returns whether a name in the checkpoint has the prefix, which may be NULL. */
static bool has_prefix(const struct safetensors *all, const char *prefix)
{
    for (size_t i = 0; prefix && i < all->n_tensors; i++)
        if (starts_with(all->tensors[i].name, prefix))
            return true;
    return false;
}

/* Returns what the names of the checkpoint have in place of the family's prefix: nothing, as those
 * of a model of embeddings may, or an old one. NULL: they have it, or the family has none. */
static const char *other_prefix(const struct family *family, const struct safetensors *all)
{
    if (!family->prefix || has_prefix(all, family->prefix))
        return NULL;
    return has_prefix(all, family->old_prefix) ? family->old_prefix : "";
}

/* Gives a tensor the name of first (n) and `rest`, unless it is too long to be one of the family's.
 */
static void rename_tensor(struct split *split, struct safetensors_tensor *tensor, const char *first,
                          size_t n, const char *rest)
{
    size_t length = strlen(rest);
    if (n + length >= MAX_CHECKPOINT_NAME)
        return;
    char *name = add_name(split);
    memcpy(name, first, n);
    memcpy(name + n, rest, length + 1);
    tensor->name = name;
}

/* Gives a LayerNorm whose numbers have TensorFlow's names, as in early checkpoints of BERT, those
 * of today. */
static void rename_numbers(struct split *split, struct safetensors_tensor *tensor)
{
    static const char *const old[] = {"LayerNorm.gamma", "LayerNorm.beta"};
    static const char *const today[] = {"LayerNorm.weight", "LayerNorm.bias"};
    for (size_t i = 0; i < 2; i++)
        if (ends_with(tensor->name, old[i]))
            rename_tensor(split, tensor, tensor->name, strlen(tensor->name) - strlen(old[i]),
                          today[i]);
}

/* Adds the tensors that are not fused after the parts, with the family's prefix. The output is
 * outside of what the prefix stands for. */
static void keep_others(struct split *split)
{
    for (size_t i = 0; i < split->all->n_tensors; i++) {
        if (split->is_fused[i])
            continue;
        struct safetensors_tensor *tensor = &split->tensors[split->n_tensors++];
        *tensor = split->all->tensors[i];
        const char *output = split->family->names[ROLE_OUTPUT];
        if (split->prefix && starts_with(tensor->name, split->prefix) &&
            !(output && strcmp(tensor->name, output) == 0))
            rename_tensor(split, tensor, split->family->prefix, strlen(split->family->prefix),
                          tensor->name + strlen(split->prefix));
        if (split->family->embedding_norm[0])
            rename_numbers(split, tensor);
    }
}

static uint32_t layers_of(const struct split *split, enum tensor_role role)
{
    return smol_role_is_per_layer(role) ? split->model->n_layers : 1;
}

/* Adds vectors of zeros, which the checkpoint does not have. A model of another family may have
 * some that this one has no name for. */
static void add_vectors(struct split *split, const enum tensor_role *roles, size_t n_roles)
{
    for (size_t i = 0; i < n_roles; i++)
        for (uint32_t layer = 0; layer < layers_of(split, roles[i]); layer++) {
            const struct tensor_key key = {.role = roles[i], .layer = layer};
            const char *name = smol_checkpoint_file_name(split->family, split->model->n_layers, key,
                                                         add_name(split));
            if (!name || !smol_tensor_exists(split->model, key))
                continue;
            uint64_t n = layout_of(split, key).cols;
            split->tensors[split->n_tensors++] = (struct safetensors_tensor){
                .name = name,
                .path = split->all->path,
                .dtype = ST_F32,
                .rank = 1,
                .function = FUNCTION_ABSENT,
                .shape = {n},
                .data = split->zeros,
                .size = n * sizeof(float),
            };
        }
}

/* The most vectors that a family lacks. */
enum { MOST_IN_LAYER = 8, MOST_OUTSIDE = 2 };

static void add_zeros(struct split *split)
{
    static const enum tensor_role norms[] = {ROLE_ATTN_NORM_BIAS, ROLE_MLP_NORM_BIAS,
                                             ROLE_FINAL_NORM_BIAS};
    static const enum tensor_role weights[] = {ROLE_ATTN_NORM, ROLE_MLP_NORM, ROLE_FINAL_NORM,
                                               ROLE_ATTN_Q_NORM, ROLE_ATTN_K_NORM};
    static const enum tensor_role inputs[] = {ROLE_MLP_GATE_BIAS, ROLE_MLP_UP_BIAS};
    if (split->family->lacks_norm_biases)
        add_vectors(split, norms, 3);
    if (split->family->lacks_norm_weights)
        add_vectors(split, weights, 5);
    if (split->family->lacks_input_biases)
        add_vectors(split, inputs, 2);
}

/* Splits the fused tensors `parts` of all layers. */
static smol_status split_layers(struct split *split, const struct family_fused *parts)
{
    smol_status status = SMOL_OK;
    for (uint32_t layer = 0; layer < split->model->n_layers && !status; layer++) {
        const struct tensor_key key = {.role = parts->roles[0], .layer = layer};
        if (!smol_tensor_exists(split->model, key))
            continue;
        char name[MAX_CHECKPOINT_NAME];
        const struct safetensors_tensor *fused = find_fused(split, parts, layer);
        if (fused)
            status = split_one(split, parts, layer, fused);
        else if (!parts->optional)
            status = smol_fail(split->error, SMOL_ERROR_DAMAGED,
                               "%s: tensor %s is missing: config.json calls for it",
                               split->all->path, smol_checkpoint_format(parts->name, key, name));
    }
    return status;
}

static smol_status split_all(struct split *split)
{
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < FAMILY_MAX_FUSED && split->family->fused[i].name && !status; i++)
        status = split_layers(split, &split->family->fused[i]);
    if (status)
        return status;
    keep_others(split);
    add_zeros(split);
    return SMOL_OK;
}

/* Counts the parts of the fused tensors that the checkpoint has. */
static size_t count_parts(const struct split *split)
{
    size_t n = 0;
    for (size_t i = 0; i < FAMILY_MAX_FUSED && split->family->fused[i].name; i++) {
        const struct family_fused *parts = &split->family->fused[i];
        for (uint32_t layer = 0; layer < split->model->n_layers; layer++)
            if (find_fused(split, parts, layer))
                n += parts->n * count_stacks(split, parts);
    }
    return n;
}

/* Returns the most elements of a vector that a family lacks: a norm's, a bias of the MLP's. */
static size_t longest_vector(const struct blob_model *model)
{
    size_t most = model->hidden_size;
    most = model->intermediate_size > most ? model->intermediate_size : most;
    return model->head_dim > most ? model->head_dim : most;
}

static bool lacks_vectors(const struct family *family)
{
    return family->lacks_norm_biases || family->lacks_norm_weights || family->lacks_input_biases;
}

static smol_status allocate_table(struct split *split)
{
    const struct blob_model *model = split->model;
    size_t n_parts = count_parts(split), n_names, n_zeros = 0;
    if (lacks_vectors(split->family)) {
        n_parts += MOST_IN_LAYER * (size_t)model->n_layers + MOST_OUTSIDE;
        n_zeros = longest_vector(model) * sizeof(float);
    }
    n_names = 2 * n_parts + 2 * split->all->n_tensors + 1;
    split->tensors = calloc(split->all->n_tensors + n_parts + 1, sizeof *split->tensors);
    split->is_fused = calloc(split->all->n_tensors + 1, sizeof *split->is_fused);
    split->names = calloc(n_names * MAX_CHECKPOINT_NAME + n_zeros, 1);
    split->zeros = (const uint8_t *)split->names + n_names * MAX_CHECKPOINT_NAME;
    return split->tensors && split->is_fused && split->names
               ? SMOL_OK
               : smol_fail_memory(split->error, "the table of tensors");
}

/* Replaces the old table by the new one, and frees the old one. Files stay open. */
static smol_status replace_table(struct split *split, struct safetensors *all)
{
    const struct safetensors table = {.tensors = split->tensors, .n_tensors = split->n_tensors};
    struct safetensors joined;
    smol_status status = smol_safetensors_join(&table, 1, all->path, &joined, split->error);
    if (status)
        return status;
    joined.scales = all->scales;
    all->scales = NULL;
    smol_safetensors_close(all);
    *all = joined;
    all->names = split->names;
    split->names = NULL;
    return SMOL_OK;
}

/* Marks the tensors of a role, whose weights are a function of their elements. */
static void mark(const struct family *family, const struct blob_model *model,
                 struct safetensors *all, enum tensor_role role, enum tensor_function function)
{
    char room[MAX_CHECKPOINT_NAME];
    uint32_t n_layers = smol_role_is_per_layer(role) ? model->n_layers : 1;
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        const struct tensor_key key = {.role = role, .layer = layer};
        const char *name = smol_checkpoint_name(family, key, room);
        const struct safetensors_tensor *found = name ? smol_safetensors_find(all, name) : NULL;
        if (!found)
            continue;
        struct safetensors_tensor *tensor = &all->tensors[found - all->tensors];
        tensor->function = function;
        if (function == FUNCTION_TURNED)
            tensor->head_dim = model->head_dim;
        else
            tensor->epsilon = model->rms_norm_eps;
    }
}

static void mark_functions(const struct family *family, const struct blob_model *model,
                           struct safetensors *all)
{
    static const enum tensor_role turned[] = {ROLE_ATTN_Q, ROLE_ATTN_K, ROLE_ATTN_Q_BIAS,
                                              ROLE_ATTN_K_BIAS};
    if (family->norms_embedding)
        mark(family, model, all, ROLE_EMBED, FUNCTION_NORMALIZED);
    for (size_t i = 0; family->turns_back && i < 4; i++)
        mark(family, model, all, turned[i], FUNCTION_TURNED);
}

smol_status smol_fused_split(const struct family *family, const struct blob_model *model,
                             struct safetensors *all, smol_error *error)
{
    struct split split = {.family = family,
                          .model = model,
                          .all = all,
                          .prefix = other_prefix(family, all),
                          .error = error};
    if (!family->fused[0].name && !family->embedding_norm[0] && !split.prefix &&
        !lacks_vectors(family))
        return SMOL_OK;
    smol_status status = allocate_table(&split);
    if (!status)
        status = split_all(&split);
    if (!status)
        status = replace_table(&split, all);
    if (!status)
        mark_functions(family, model, all);
    free(split.tensors);
    free(split.is_fused);
    free(split.names);
    return status;
}
