/* Opens one side of a comparison and lists its tensors, see diff.h. */
#include <stdlib.h>

#include "convert/checkpoint/checkpoint.h"
#include "convert/checkpoint/fused.h"
#include "convert/inspect/diff.h"

/* --- opening ------------------------------------------------------------------------------ */

static smol_status open_checkpoint(struct diff_side *side, smol_error *error)
{
    struct source *source = &side->source;
    /* the dtype only matters for a blob; any is valid here */
    const struct source_options options = {0};
    smol_status status = smol_source_open(side->path, &options, DTYPE_F32, source, error);
    if (!status)
        status = smol_source_compile_tokenizer(source, error);
    if (status)
        return status;
    side->kind = DIFF_CHECKPOINT;
    side->family = source->config.family;
    side->model = &source->config.model;
    side->inv_freq = source->config.inv_freq;
    side->layers = source->config.layers;
    side->template_section = source->template.section.data;
    side->n_template = source->template.section.size;
    side->stop = source->config.stop;
    side->n_stop = source->config.n_stop;
    side->generation = &source->config.generation;
    side->n_tokenizer = source->tokenizer.size;
    const struct text_section *text = &source->tokenizer.text;
    side->text = text->data;
    side->n_text = text->size;
    return smol_source_open_tokenizer(source, &side->tokenizer, error);
}

static smol_status open_file(struct diff_side *side, smol_error *error)
{
    smol_status status = smol_model_file_open(side->path, VERIFY_AT_OPEN, &side->file, error);
    side->kind = side->file.is_blob ? DIFF_BLOB : DIFF_SAFETENSORS;
    if (status || side->kind == DIFF_SAFETENSORS)
        return status;
    const struct blob *blob = &side->file.blob;
    side->family = smol_family_of(blob->model, blob_sees_ahead(blob));
    side->model = blob->model;
    side->inv_freq = blob->inv_freq;
    side->layers = blob->layers;
    side->stop = blob->stop;
    side->n_stop = blob->n_stop;
    side->generation = blob->generation;
    side->template_section = blob->template_section;
    side->n_template = blob->n_template;
    side->text = blob->text_section;
    side->n_text = blob->n_text;
    side->tokenizer = blob->tokenizer;
    side->n_tokenizer = blob->tokenizer_section->size;
    return SMOL_OK;
}

smol_status smol_diff_side_open(const char *path, struct diff_side *side, smol_error *error)
{
    *side = (struct diff_side){.path = path};
    smol_status status =
        smol_source_is_checkpoint(path) ? open_checkpoint(side, error) : open_file(side, error);
    if (status)
        smol_diff_side_close(side);
    return status;
}

smol_status smol_diff_side_settle(const struct diff_side *side, smol_status status,
                                  smol_error *error)
{
    smol_status lost = side->kind == DIFF_CHECKPOINT
                           ? smol_source_settle(&side->source, SMOL_OK, error)
                           : smol_model_file_check(&side->file, side->path, error);
    return lost ? lost : status;
}

void smol_diff_side_close(struct diff_side *side)
{
    free(side->names);
    free(side->tensors);
    smol_source_close(&side->source);
    smol_safetensors_close(&side->split);
    smol_model_file_close(&side->file);
    *side = (struct diff_side){0};
}

/* --- tensors ------------------------------------------------------------------------------ */

static smol_status allocate(struct diff_side *side, size_t n_roles, size_t n_others,
                            smol_error *error)
{
    side->tensors = calloc(n_roles + n_others + 1, sizeof *side->tensors); /* never of size 0 */
    side->names = calloc(n_roles + 1, sizeof *side->names);
    return side->tensors && side->names ? SMOL_OK : smol_fail_memory(error, "the tensor list");
}

static struct model_tensor *add(struct diff_side *side, const char *name)
{
    struct model_tensor *tensor = &side->tensors[side->n_tensors++];
    tensor->name = name;
    return tensor;
}

static struct model_tensor *add_role(struct diff_side *side, struct tensor_key key)
{
    char *name = side->names[side->n_tensors];
    smol_tensor_name(key, name);
    struct model_tensor *tensor = add(side, name);
    tensor->has_role = true;
    tensor->key = key;
    return tensor;
}

static smol_status list_blob(struct diff_side *side, smol_error *error)
{
    const struct blob *blob = &side->file.blob;
    smol_status status = allocate(side, blob->n_tensors, 0, error);
    for (size_t i = 0; !status && i < blob->n_tensors; i++) {
        const struct blob_tensor *tiled = &blob->tensors[i];
        struct model_tensor *tensor = add_role(side, tensor_key(tiled));
        smol_tensor_set_tiled(tensor, blob, tiled);
        tensor->is_alias = tiled->role == ROLE_OUTPUT && side->model->tied_embeddings;
    }
    return status;
}

/* Adds the embedding as the output matrix of a checkpoint without one. */
static void add_output_alias(struct diff_side *side, const struct safetensors_tensor *embed)
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

/* Lists the tensors of safetensors that have roles in the model of `like`, and sets used[i] for
 * each. */
static void list_roles(struct diff_side *side, const struct safetensors *reader,
                       const struct diff_side *like, bool *used)
{
    struct tensor_key key = {.role = ROLE_EMBED};
    const struct safetensors_tensor *embed = find_raw(reader, like->family, key);
    do {
        const struct safetensors_tensor *raw = find_raw(reader, like->family, key);
        if (raw) {
            struct model_tensor *tensor = add_role(side, key);
            smol_tensor_set_raw(tensor, raw);
            tensor->offset = smol_checkpoint_offset(like->family, key.role);
            used[raw - reader->tensors] = true;
        } else if (key.role == ROLE_OUTPUT && embed) {
            add_output_alias(side, embed);
        }
    } while (smol_tensor_next(like->model, &key));
}

static smol_status list_safetensors(struct diff_side *side, const struct safetensors *reader,
                                    const struct diff_side *like, smol_error *error)
{
    const struct blob_model *model = like->model;
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
                                         const struct diff_side *like)
{
    const struct family *family = like->family;
    if (family && fuses_like(reader, family))
        return family;
    for (size_t i = 0; (family = smol_family_at(i)); i++)
        if (fuses_like(reader, family))
            break;
    return family;
}

/* Lists a safetensors file. If the other side has a model, splits fused tensors into the parts that
 * the model needs, unless their shapes do not match. */
static smol_status list_file(struct diff_side *side, const struct diff_side *like,
                             smol_error *error)
{
    const struct safetensors *file = &side->file.safetensors;
    const struct family *family = like->model ? fused_family(file, like) : NULL;
    if (!family)
        return list_safetensors(side, file, like, error);
    smol_error misfit;
    smol_status status = smol_safetensors_join(file, 1, side->path, &side->split, error);
    if (status)
        return status;
    status = smol_fused_split(family, like->model, &side->split, &misfit);
    if (status == SMOL_ERROR_MEMORY)
        return smol_fail_memory(error, "the table of tensors");
    return list_safetensors(side, status ? file : &side->split, like, error);
}

smol_status smol_diff_side_list(struct diff_side *side, const struct diff_side *other,
                                smol_error *error)
{
    switch (side->kind) {
    case DIFF_BLOB:
        return list_blob(side, error);
    case DIFF_CHECKPOINT:
        return list_safetensors(side, &side->source.shards.all, side, error);
    case DIFF_SAFETENSORS:
        break;
    }
    return list_file(side, other, error);
}
