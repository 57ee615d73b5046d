/* Lists the tensors of one side of a comparison, see diff.h. */
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "convert/checkpoint/checkpoint.h"
#include "convert/checkpoint/fused.h"
#include "convert/checkpoint/nested.h"
#include "convert/inspect/diff.h"

static smol_status allocate(struct subject *side, size_t n_roles, size_t n_others,
                            smol_error *error)
{
    side->tensors = calloc(n_roles + n_others + 1, sizeof *side->tensors); /* never of size 0 */
    side->names = calloc(n_roles + 1, sizeof *side->names);
    return side->tensors && side->names ? SMOL_OK : smol_fail_memory(error, "the tensor list");
}

static struct model_tensor *add(struct subject *side, const char *name)
{
    struct model_tensor *tensor = &side->tensors[side->n_tensors++];
    tensor->name = name;
    return tensor;
}

static struct model_tensor *add_role(struct subject *side, struct tensor_key key)
{
    char *name = side->names[side->n_tensors];
    smol_tensor_name(key, name);
    struct model_tensor *tensor = add(side, name);
    tensor->has_role = true;
    tensor->key = key;
    return tensor;
}

/* Adds the embedding as the output matrix of a checkpoint without one. */
static void add_output_alias(struct subject *side, const struct safetensors_tensor *embed)
{
    struct model_tensor *tensor = add_role(side, (struct tensor_key){.role = ROLE_OUTPUT});
    smol_tensor_set_raw(tensor, embed);
    tensor->is_alias = true;
}

/* Returns NULL if `family` has no name for the tensor: a blob may have blocks that no family
 * has. */
static const struct safetensors_tensor *find_raw(const struct safetensors *reader,
                                                 const struct family *family,
                                                 const struct blob_model *model,
                                                 struct tensor_key key)
{
    char text[MAX_CHECKPOINT_NAME];
    const char *name = smol_checkpoint_file_name(family, model->n_layers, key, text);
    return name ? smol_safetensors_find(reader, name) : NULL;
}

/* Returns the family of a subject with settings; for a blob, a family with its blocks. */
static const struct family *family_of(const struct subject *subject)
{
    return subject->kind == SUBJECT_CHECKPOINT
               ? subject->source.config.family
               : smol_family_of(subject->blob->model, smol_subject_sees_ahead(subject));
}

/* Lists the tensors of safetensors that have roles in the model of `like`, and sets used[i] for
 * each. A model of embeddings has no output. */
static void list_roles(struct subject *side, const struct safetensors *reader,
                       const struct family *family, const struct subject *like, bool *used)
{
    struct tensor_key key = {.role = ROLE_EMBED};
    const struct blob_model *model = like->blob->model;
    const struct safetensors_tensor *types = smol_checkpoint_types(reader, family, model);
    const struct safetensors_tensor *embed = find_raw(reader, family, model, key);
    bool has_output = !like->blob->encoder;
    do {
        const struct safetensors_tensor *raw = find_raw(reader, family, model, key);
        if (raw)
            used[raw - reader->tensors] = true;
        if (raw && (key.role != ROLE_OUTPUT || has_output)) {
            struct model_tensor *tensor = add_role(side, key);
            smol_tensor_set_raw(tensor, raw);
            if (key.role == ROLE_INPUT_EMBED && raw->rank == 2) { /* as blobs have it */
                tensor->shape[0] *= model->n_layers;
                tensor->shape[1] /= model->n_layers;
            }
            tensor->offset = smol_checkpoint_offset(family, key.role);
            tensor->added =
                key.role == smol_checkpoint_typed(model) && raw->rank == 2 ? types : NULL;
        } else if (key.role == ROLE_OUTPUT && embed) {
            add_output_alias(side, embed);
        }
    } while (smol_tensor_next(model, &key));
}

/* Lists the tensors of safetensors, by the names of a family if `like` has a model. */
static smol_status list_safetensors(struct subject *side, const struct safetensors *reader,
                                    const struct family *family, const struct subject *like,
                                    smol_error *error)
{
    const struct blob_model *model = like->blob ? like->blob->model : NULL;
    size_t n = reader->n_tensors;
    bool *used = calloc(n + 1, sizeof *used);
    smol_status status = used ? allocate(side, model ? smol_tensor_count(model) : 0, n, error)
                              : smol_fail_memory(error, "the tensor list");
    if (!status && model)
        list_roles(side, reader, family, like, used);
    for (size_t i = 0; !status && i < n; i++) {
        const struct safetensors_tensor *raw = &reader->tensors[i];
        if (!used[i] && !(model && (smol_checkpoint_ignores(raw->name) ||
                                    smol_checkpoint_is_head(family, raw->name) ||
                                    smol_checkpoint_is_unused(family, model, raw->name))))
            smol_tensor_set_raw(add(side, raw->name), raw);
    }
    free(used);
    return status;
}

/* --- files without settings ---------------------------------------------------------------- */

/* A file with the names and shapes that a conversion of a family gives its tensors. */
struct reading {
    struct family family;
    struct safetensors tensors;
    uint64_t n_fit; /* of the tensors that the model needs */
};

/* Returns how many tensors of the model there are under the family's names in the right shape. */
static uint64_t count_fitting(const struct safetensors *reader, const struct family *family,
                              const struct blob_model *model)
{
    struct tensor_key key = {.role = ROLE_EMBED};
    smol_error misfit;
    uint64_t n = 0;
    do {
        const struct safetensors_tensor *raw = find_raw(reader, family, model, key);
        const struct blob_tensor layout = smol_tensor_layout(model, key, NULL);
        uint64_t shape[2];
        unsigned rank = smol_checkpoint_shape(&layout, model->n_layers, shape);
        bool is_alias = key.role == ROLE_OUTPUT && model->tied_embeddings;
        n += is_alias || (raw && !smol_checkpoint_check_shape(raw, shape, rank, &misfit));
    } while (smol_tensor_next(model, &key));
    return n;
}

static bool has_name(const struct safetensors *reader, const char *name, const char *prefix)
{
    size_t before = prefix && starts_with(name, prefix) ? strlen(prefix) : 0;
    return smol_safetensors_find(reader, name) || smol_safetensors_find(reader, name + before);
}

/* Returns the family with what a conversion finds in config.json, see check_encoder in source.c. */
static struct family variant_of(const struct family *family, const struct safetensors *reader,
                                const struct subject *like)
{
    struct family variant = *family;
    const struct blob_embedder *embedder = like->blob->embedder.header;
    if (like->kind == SUBJECT_CHECKPOINT)
        return variant;
    variant.scores = embedder && embedder->score;
    variant.lacks_norm_biases |=
        family->norm_biased.key &&
        !has_name(reader, family->names[ROLE_FINAL_NORM_BIAS], family->prefix);
    return variant;
}

/* Returns the rows of positions that no token of a text has: those of the ids up to that of
 * padding, which is 1 in every published checkpoint of such a family. */
static uint64_t skipped_rows(const struct family *family, const struct subject *like)
{
    if (like->kind == SUBJECT_CHECKPOINT)
        return like->source.config.skipped_positions;
    return family->pad_id.key ? family->pad_id.fallback + 1 : 0;
}

/* Returns whether a file's model contains the language model. */
static bool is_nested(const struct safetensors *reader)
{
    static const char *const before[] = {"model.language_model.", "language_model.",
                                         "model.text_model.", "visual."};
    for (size_t i = 0; i < reader->n_tensors; i++)
        for (size_t k = 0; k < sizeof before / sizeof before[0]; k++)
            if (starts_with(reader->tensors[i].name, before[k]))
                return true;
    return false;
}

/* Reads a file as one of the family. A file of another shape has n_fit 0. */
static smol_status read_as(const struct safetensors *file, const struct family *family,
                           const struct subject *like, struct reading *reading, smol_error *error)
{
    const struct blob_model *model = like->blob->model;
    struct safetensors *all = &reading->tensors;
    struct skipped_tensors skipped;
    smol_error misfit;
    *reading = (struct reading){.family = variant_of(family, file, like)};
    smol_status status = smol_safetensors_join(file, 1, file->path, all, error);
    if (status)
        return status;
    status = smol_nested_strip(family, is_nested(file), all, &skipped, &misfit);
    if (!status)
        status = smol_fused_split(&reading->family, model, all, &misfit);
    if (status == SMOL_ERROR_MEMORY)
        return smol_fail_memory(error, "the table of tensors");
    if (status)
        return SMOL_OK;
    smol_source_drop_positions(family, model->context_length, skipped_rows(family, like), all);
    reading->n_fit = count_fitting(all, &reading->family, model);
    return SMOL_OK;
}

/* Lists a safetensors file. If the other side has a model, its tensors become those that the model
 * needs, by the family in which most fit: different families may have the same blocks. */
static smol_status list_file(struct subject *side, const struct subject *like,
                             struct safetensors *split, smol_error *error)
{
    const struct safetensors *file = &side->file.safetensors;
    if (!like->blob)
        return list_safetensors(side, file, NULL, like, error);
    const struct family *family = family_of(like);
    struct reading best = {.family = variant_of(family, file, like)};
    uint64_t all = smol_tensor_count(like->blob->model);
    best.n_fit = is_nested(file) ? 0 : count_fitting(file, family, like->blob->model);
    smol_status status = SMOL_OK;
    for (size_t i = 0; family && best.n_fit < all && !status; family = smol_family_at(i++)) {
        struct reading reading;
        status = read_as(file, family, like, &reading, error);
        if (!status && reading.n_fit > best.n_fit) {
            const struct reading worse = best;
            best = reading;
            reading = worse;
        }
        smol_safetensors_close(&reading.tensors);
    }
    *split = best.tensors; /* empty if the file fits best as it is */
    return status
               ? status
               : list_safetensors(side, split->tensors ? split : file, &best.family, like, error);
}

smol_status smol_diff_list(struct subject *side, const struct subject *other,
                           struct safetensors *split, smol_error *error)
{
    switch (side->kind) {
    case SUBJECT_BLOB:
        return smol_subject_list(side, 0, error);
    case SUBJECT_CHECKPOINT:
        return list_safetensors(side, &side->source.shards.all, side->source.config.family, side,
                                error);
    case SUBJECT_SAFETENSORS:
        break;
    }
    return list_file(side, other, split, error);
}
