/* Lists the tensors of one side of a comparison, see diff.h. */
#include <stdlib.h>

#include "convert/checkpoint/checkpoint.h"
#include "convert/checkpoint/fused.h"
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
                                                 const struct family *family, struct tensor_key key)
{
    char text[MAX_CHECKPOINT_NAME];
    const char *name = smol_checkpoint_name(family, key, text);
    return name ? smol_safetensors_find(reader, name) : NULL;
}

/* Returns the family of a subject with settings; for a blob, a family with its blocks. */
static const struct family *family_of(const struct subject *subject)
{
    return subject->kind == SUBJECT_CHECKPOINT
               ? subject->source.config.family
               : smol_family_of(subject->blob->model, smol_subject_sees_ahead(subject));
}

/* Returns the types of tokens that the family adds to positions, see find_types in source.c, or
 * NULL. */
static const struct safetensors_tensor *find_types(const struct safetensors *reader,
                                                   const struct family *family,
                                                   const struct blob_model *model)
{
    const struct safetensors_tensor *types =
        family->types ? smol_safetensors_find(reader, family->types) : NULL;
    bool fits = types && types->rank == 2 && types->shape[0] > 0 &&
                types->shape[1] == model->hidden_size && smol_element_is_weight(types->dtype);
    return fits ? types : NULL;
}

/* Lists the tensors of safetensors that have roles in the model of `like`, and sets used[i] for
 * each. */
static void list_roles(struct subject *side, const struct safetensors *reader,
                       const struct subject *like, bool *used)
{
    const struct family *family = family_of(like);
    struct tensor_key key = {.role = ROLE_EMBED};
    const struct safetensors_tensor *types = find_types(reader, family, like->blob->model);
    const struct safetensors_tensor *embed = find_raw(reader, family, key);
    do {
        const struct safetensors_tensor *raw = find_raw(reader, family, key);
        if (raw) {
            struct model_tensor *tensor = add_role(side, key);
            smol_tensor_set_raw(tensor, raw);
            tensor->offset = smol_checkpoint_offset(family, key.role);
            tensor->added = key.role == ROLE_POSITIONS && raw->rank == 2 ? types : NULL;
            used[raw - reader->tensors] = true;
        } else if (key.role == ROLE_OUTPUT && embed) {
            add_output_alias(side, embed);
        }
    } while (smol_tensor_next(like->blob->model, &key));
}

static smol_status list_safetensors(struct subject *side, const struct safetensors *reader,
                                    const struct subject *like, smol_error *error)
{
    const struct blob_model *model = like->blob ? like->blob->model : NULL;
    size_t n = reader->n_tensors;
    bool *used = calloc(n + 1, sizeof *used);
    smol_status status = used ? allocate(side, model ? smol_tensor_count(model) : 0, n, error)
                              : smol_fail_memory(error, "the tensor list");
    if (!status && model)
        list_roles(side, reader, like, used);
    for (size_t i = 0; !status && i < n; i++) {
        const struct safetensors_tensor *raw = &reader->tensors[i];
        if (!used[i] && !(model && smol_checkpoint_ignores(raw->name)))
            smol_tensor_set_raw(add(side, raw->name), raw);
    }
    free(used);
    return status;
}

/* Returns whether the file has the first of the tensors that hold several of the family's matrices.
 */
static bool fuses_like(const struct safetensors *reader, const struct family *family)
{
    char name[MAX_CHECKPOINT_NAME];
    return family->fused[0].name &&
           smol_safetensors_find(
               reader, smol_checkpoint_format(family->fused[0].name, (struct tensor_key){0}, name));
}

/* Returns the family that fuses matrices into one tensor as the file does, if possible that of the
 * other side, or NULL. */
static const struct family *fused_family(const struct safetensors *reader,
                                         const struct subject *like)
{
    const struct family *family = family_of(like);
    if (family && fuses_like(reader, family))
        return family;
    for (size_t i = 0; (family = smol_family_at(i)); i++)
        if (fuses_like(reader, family))
            break;
    return family;
}

/* Lists a safetensors file. If the other side has a model, splits fused tensors into the parts that
 * the model needs, unless their shapes do not match. */
static smol_status list_file(struct subject *side, const struct subject *like,
                             struct safetensors *split, smol_error *error)
{
    const struct safetensors *file = &side->file.safetensors;
    const struct family *family = like->blob ? fused_family(file, like) : NULL;
    if (!family)
        return list_safetensors(side, file, like, error);
    smol_error misfit;
    smol_status status = smol_safetensors_join(file, 1, side->path, split, error);
    if (status)
        return status;
    status = smol_fused_split(family, like->blob->model, split, &misfit);
    if (status == SMOL_ERROR_MEMORY)
        return smol_fail_memory(error, "the table of tensors");
    return list_safetensors(side, status ? file : split, like, error);
}

smol_status smol_diff_list(struct subject *side, const struct subject *other,
                           struct safetensors *split, smol_error *error)
{
    switch (side->kind) {
    case SUBJECT_BLOB:
        return smol_subject_list(side, 0, error);
    case SUBJECT_CHECKPOINT:
        return list_safetensors(side, &side->source.shards.all, side, error);
    case SUBJECT_SAFETENSORS:
        break;
    }
    return list_file(side, other, split, error);
}
