/* Opens a model and adds up its parts, see subject.h. A checkpoint is opened as for a conversion,
 * so that the result is the same. If it is not supported, the parts that can be read are opened. */
#include "convert/inspect/subject.h"

#include <stdlib.h>

#include "common/checked.h"
#include "common/file.h"
#include "convert/checkpoint/checkpoint.h"
#include "convert/convert.h"
#include "format/model.h"

/* --- tensors ------------------------------------------------------------------------------ */

/* Has a case for every role, so that the compiler names a new one. */
enum part smol_part_of(const struct model_tensor *tensor)
{
    if (!tensor->has_role)
        return PART_OTHER;
    switch (tensor->key.role) {
    case ROLE_EMBED:
    case ROLE_POSITIONS:
    case ROLE_INPUT_EMBED:
    case ROLE_INPUT_PROJECTION:
        return PART_EMBEDDING;
    case ROLE_OUTPUT:
    case ROLE_OUTPUT_BIAS:
        return PART_OUTPUT;
    case ROLE_ATTN_Q:
    case ROLE_ATTN_K:
    case ROLE_ATTN_V:
    case ROLE_ATTN_O:
    case ROLE_ATTN_Q_BIAS:
    case ROLE_ATTN_K_BIAS:
    case ROLE_ATTN_V_BIAS:
    case ROLE_ATTN_O_BIAS:
    case ROLE_ATTN_Q_DOWN:
    case ROLE_ATTN_K_UP:
    case ROLE_ATTN_V_UP:
    case ROLE_ATTN_GATE:
    case ROLE_ATTN_GATE_BIAS:
    case ROLE_RELATIVE:
    case ROLE_ATTN_SINKS:
        return PART_ATTENTION;
    case ROLE_MIXER_IN:
    case ROLE_MIXER_IN_BIAS:
    case ROLE_MIXER_CONV:
    case ROLE_MIXER_CONV_BIAS:
    case ROLE_MIXER_OUT:
    case ROLE_MIXER_OUT_BIAS:
    case ROLE_MIXER_GATE:
    case ROLE_MIXER_GATE_BIAS:
    case ROLE_MIXER_STEP:
    case ROLE_MIXER_STEP_BIAS:
    case ROLE_MIXER_STEP_IN_BIAS:
    case ROLE_MIXER_RATE:
    case ROLE_MIXER_DECAY:
    case ROLE_MIXER_SKIP:
        return PART_STATES;
    case ROLE_INPUT_GATE:
    case ROLE_INPUT_OUT:
    case ROLE_MLP_GATE:
    case ROLE_MLP_UP:
    case ROLE_MLP_DOWN:
    case ROLE_MLP_GATE_BIAS:
    case ROLE_MLP_UP_BIAS:
    case ROLE_MLP_DOWN_BIAS:
        return PART_MLP;
    case ROLE_ROUTER:
    case ROLE_ROUTER_BIAS:
    case ROLE_ROUTER_SCALE:
    case ROLE_SHARED_GATE:
    case ROLE_EXPERT_GATE:
    case ROLE_EXPERT_UP:
    case ROLE_EXPERT_DOWN:
        return PART_EXPERTS;
    case ROLE_ATTN_NORM:
    case ROLE_ATTN_NORM_BIAS:
    case ROLE_ATTN_Q_NORM:
    case ROLE_ATTN_K_NORM:
    case ROLE_ATTN_OUT_NORM:
    case ROLE_ATTN_Q_DOWN_NORM:
    case ROLE_ATTN_LATENT_NORM:
    case ROLE_MIXER_NORM:
    case ROLE_MLP_NORM:
    case ROLE_MLP_NORM_BIAS:
    case ROLE_MLP_OUT_NORM:
    case ROLE_SHARED_OUT_NORM:
    case ROLE_ROUTER_NORM:
    case ROLE_EXPERT_NORM:
    case ROLE_EXPERT_OUT_NORM:
    case ROLE_FINAL_NORM:
    case ROLE_FINAL_NORM_BIAS:
    case ROLE_INPUT_NORM:
    case ROLE_INPUT_OUT_NORM:
    case ROLE_LAYER_SCALE:
        return PART_NORMS;
    case ROLE_COUNT:
        break;
    }
    return PART_OTHER;
}

const char *smol_part_name(enum part part)
{
    static const char *const names[] = {
        [PART_EMBEDDING] = "embedding",
        [PART_ATTENTION] = "attention",
        [PART_STATES] = "layers with states",
        [PART_MLP] = "mlp",
        [PART_EXPERTS] = "experts",
        [PART_NORMS] = "norms",
        [PART_OUTPUT] = "output",
        [PART_OTHER] = "other tensors",
        [PART_TOKENIZER] = "tokenizer",
        [PART_SECTIONS] = "headers, tables",
    };
    return names[part];
}

static void list_blob(struct subject *subject)
{
    const struct blob *blob = subject->blob;
    for (size_t i = 0; i < blob->n_tensors; i++) {
        const struct blob_tensor *tiled = &blob->tensors[i];
        struct model_tensor *tensor = &subject->tensors[i];
        tensor->key = tensor_key(tiled);
        tensor->name = smol_tensor_name(tensor->key, subject->names[i]);
        tensor->has_role = true;
        tensor->is_alias = tiled->role == ROLE_OUTPUT && blob->model->tied_embeddings;
        smol_tensor_set_tiled(tensor, blob, tiled);
    }
}

static void list_safetensors(struct subject *subject, const struct safetensors *reader)
{
    for (size_t i = 0; i < reader->n_tensors; i++) {
        struct model_tensor *tensor = &subject->tensors[i];
        tensor->name = reader->tensors[i].name;
        tensor->has_role = smol_checkpoint_find(tensor->name, &tensor->key);
        smol_tensor_set_raw(tensor, &reader->tensors[i]);
    }
}

static smol_status list_tensors(struct subject *subject, smol_error *error)
{
    const struct safetensors *reader = subject->kind == SUBJECT_CHECKPOINT
                                           ? &subject->source.shards.all
                                           : &subject->file.safetensors;
    bool is_blob = subject->kind == SUBJECT_BLOB;
    subject->n_tensors = is_blob ? subject->blob->n_tensors : reader->n_tensors;
    subject->tensors = calloc(subject->n_tensors + 1, sizeof *subject->tensors);
    subject->names = calloc(is_blob ? subject->n_tensors + 1 : 1, sizeof *subject->names);
    if (!subject->tensors || !subject->names)
        return smol_fail_memory(error, "the tensor list");
    if (is_blob)
        list_blob(subject);
    else
        list_safetensors(subject, reader);
    return SMOL_OK;
}

/* --- sums --------------------------------------------------------------------------------- */

static uint64_t file_bytes(const struct subject *subject)
{
    switch (subject->kind) {
    case SUBJECT_BLOB:
        return subject->blob->file.size;
    case SUBJECT_CHECKPOINT:
        return smol_shards_size(&subject->source.shards);
    case SUBJECT_SAFETENSORS:
        break;
    }
    return subject->file.safetensors.file.size;
}

/* Adds up bytes and parameters by part, of the tensors that are in the file: an alias has no bytes
 * of its own. The tokenizer of a
 * checkpoint is a separate file. */
static void add_up(struct subject *subject)
{
    struct part_sum *parts = subject->parts;
    uint64_t rest = file_bytes(subject);
    for (size_t i = 0; i < subject->n_tensors; i++) {
        const struct model_tensor *tensor = &subject->tensors[i];
        struct part_sum *part = &parts[smol_part_of(tensor)];
        if (tensor->is_alias || (tensor->raw && tensor->raw->function == FUNCTION_ABSENT))
            continue;
        part->n_tensors++;
        part->n_parameters += tensor->n_elements;
        part->bytes += smol_tensor_size(tensor);
        subject->n_parameters += tensor->n_elements;
        rest -= smol_tensor_size(tensor);
    }
    if (subject->kind == SUBJECT_BLOB) {
        parts[PART_TOKENIZER].bytes = subject->blob->tokenizer_section->size;
        rest -= parts[PART_TOKENIZER].bytes;
    } else {
        parts[PART_TOKENIZER].bytes = subject->source.tokenizer_mark.size;
    }
    parts[PART_SECTIONS].bytes = rest;
}

/* --- memory -------------------------------------------------------------------------------- */

/* Returns the bytes of keys and values for `context` positions, as runtime/engine/kv.c keeps them.
 * Positions are rounded up to blocks of 64, and channels of values to a multiple of 16. Latent
 * vectors are kept once. Beside states, windowed layers keep as much as the farthest of them needs.
 * Elements have 32 bits for an f32 blob, otherwise 16. */
static uint64_t cache_size(const struct blob *blob, enum blob_dtype dtype, uint64_t context)
{
    enum { POSITIONS = 64, CHANNELS = 16, SPARE = 256, INTERVAL = 256 };
    const struct blob_model *model = blob->model;
    uint64_t window = model->sliding_window, all = round_up(context, POSITIONS), kept = 0;
    uint64_t more = model->states.kind ? INTERVAL : POSITIONS;
    uint64_t windowed = round_up(window + SPARE, POSITIONS) + more;
    bool drops = context > window + 2 * SPARE;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        uint64_t channels = smol_head_dim(model, i);
        bool drops_old = drops && blob->layers && blob->layers[i] & LAYER_WINDOWED;
        channels += model_has_latent(model) ? 0 : round_up(channels, CHANNELS);
        if (layer_attends(model, i) && smol_kv_source(model, i) == i)
            kept += (drops_old ? windowed : all) * smol_kv_heads(model, i) * channels;
    }
    return kept * (dtype == DTYPE_F32 ? 4 : 2);
}

/* Returns the bytes of the states of a sequence whose `context` tokens were evaluated at once, as
 * runtime/engine/state.c keeps them: two copies, and a snapshot after each 256 tokens and at the
 * end, of which there may be so many. */
static uint64_t states_size(const struct blob_model *model, uint64_t context)
{
    enum { INTERVAL = 256, MOST_BYTES = 64 << 20, LEAST_SNAPSHOTS = 6 };
    if (!model->states.kind)
        return 0;
    uint64_t one = smol_states_count(model) * smol_states_floats(model) * sizeof(float);
    uint64_t most = MOST_BYTES / one, n = round_up(context, INTERVAL) / INTERVAL;
    most = most > LEAST_SNAPSHOTS ? most : LEAST_SNAPSHOTS;
    return (2 + (n < most ? n : most)) * one;
}

static void add_context(struct subject *subject, uint32_t context)
{
    size_t i = subject->n_contexts, most = subject->blob->model->context_length;
    context = context < most ? context : (uint32_t)most;
    for (size_t k = 0; k < subject->n_contexts; k++)
        if (subject->contexts[k] == context)
            return;
    for (; i > 0 && subject->contexts[i - 1] > context; i--)
        subject->contexts[i] = subject->contexts[i - 1];
    subject->contexts[i] = context;
    subject->n_contexts++;
}

static void add_need(struct subject *subject, enum blob_dtype dtype, uint64_t blob)
{
    struct memory_need *need = &subject->needs[subject->n_needs++];
    need->dtype = dtype;
    need->blob = blob;
    for (size_t i = 0; i < subject->n_contexts; i++) {
        need->cache[i] = cache_size(subject->blob, dtype, subject->contexts[i]);
        need->states[i] = states_size(subject->blob->model, subject->contexts[i]);
        need->total[i] = blob + need->cache[i] + need->states[i];
    }
}

static smol_status plan_blob(struct subject *subject, enum blob_dtype dtype, smol_error *error)
{
    uint64_t size;
    smol_status status = smol_convert_size(&subject->source, dtype, &size, error);
    if (!status)
        add_need(subject, dtype, size);
    return status;
}

/* Fills in how the blob would make embeddings, after a change of the dtype too. */
static smol_status settle_embedder(struct subject *subject, smol_error *error)
{
    const struct source *source = &subject->source;
    struct blob *blob = &subject->would_be;
    blob->encoder = source->embeds ? &source->encoder.encoder : NULL;
    blob->embedder_section = source->embedder;
    blob->n_embedder = source->n_embedder;
    blob->embedder = (struct embedder){0};
    if (!source->embedder)
        return SMOL_OK;
    return smol_embedder_open(source->embedder, source->n_embedder, blob->model, &blob->embedder,
                              error);
}

smol_status smol_subject_set_dtype(struct subject *subject, enum blob_dtype dtype,
                                   smol_error *error)
{
    smol_status status = smol_source_set_dtype(&subject->source, dtype, error);
    return status ? status : settle_embedder(subject, error);
}

/* Finds the memory needs. `context` is a requested length, or 0. */
static smol_status find_needs(struct subject *subject, uint32_t context, smol_error *error)
{
    smol_status status = SMOL_OK;
    if (!subject->blob)
        return SMOL_OK;
    uint32_t most = subject->blob->model->context_length;
    if (context > most)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "--context %u: the model's longest text is %u tokens", context, most);
    add_context(subject, 2048);
    add_context(subject, 8192);
    add_context(subject, context ? context : most);
    if (subject->kind == SUBJECT_BLOB) {
        add_need(subject, smol_blob_dtype(subject->blob), subject->blob->file.size);
        return SMOL_OK;
    }
    enum blob_dtype first = subject->source.config.encodes ? DTYPE_INT8 : DTYPE_INT4;
    for (enum blob_dtype dtype = first; !status && dtype >= DTYPE_F32; dtype--)
        status = plan_blob(subject, dtype, error);
    return status ? status : settle_embedder(subject, error);
}

/* --- opening ------------------------------------------------------------------------------- */

/* Fills in the fields of `would_be` that descriptions and comparisons use. */
static smol_status settle_settings(struct subject *subject, smol_error *error)
{
    struct source *source = &subject->source;
    const struct config *config = &source->config;
    struct blob *blob = &subject->would_be;
    *blob = (struct blob){
        .model = &config->model,
        .inv_freq = config->inv_freq,
        .layers = config->layers,
        .stop = config->stop,
        .n_stop = config->n_stop,
        .generation = &config->generation,
        .text_section = source->tokenizer.text.data,
        .n_text = source->tokenizer.text.size,
        .n_scanner = source->tokenizer_rules.pretokenizer.scanner.size,
        .template_section = source->template.section.data,
        .n_template = source->template.section.size,
    };
    smol_status status = smol_source_open_tokenizer(source, &blob->tokenizer, error);
    blob->scanner = blob->tokenizer.scanner;
    if (!status && blob->template_section)
        status =
            smol_template_open(blob->template_section, blob->n_template, &blob->template, error);
    if (!status)
        status = settle_embedder(subject, error);
    subject->blob = blob;
    return status;
}

/* Finds the file of the chat template, or of the first of several. */
static smol_status find_template(struct subject *subject, const struct source_options *options,
                                 smol_error *error)
{
    struct template_list *list = &subject->templates;
    if (options->template_file) {
        subject->template_in = smol_base_name(options->template_file);
        return SMOL_OK;
    }
    smol_status status = smol_template_list_open(source_template_folder(&subject->source),
                                                 &subject->source.tokenizer_config, list, error);
    if (!status && list->n > 0)
        subject->template_in = smol_base_name(list->items[0].path);
    return status;
}

/* Opens the weights of an unsupported checkpoint. Opens nothing, without an error, if the weights
 * themselves are unsupported. */
static smol_status open_weights(struct subject *subject, const struct source_options *options,
                                smol_error *error)
{
    smol_status status = smol_source_open_weights(subject->path, options, &subject->source, error);
    subject->has_weights = !status;
    if (status)
        return status == SMOL_ERROR_UNSUPPORTED ? SMOL_OK : status;
    return smol_source_tokenizer_config(&subject->source, &subject->source.tokenizer_config, error);
}

static smol_status open_checkpoint(struct subject *subject, const struct source_options *options,
                                   smol_error *error)
{
    struct source *source = &subject->source;
    smol_error *reason = &subject->reason;
    subject->kind = SUBJECT_CHECKPOINT;
    smol_status status = smol_source_open(subject->path, options, DTYPE_INT8, source, reason);
    if (!status)
        status = smol_source_compile_tokenizer(source, reason);
    if (status == SMOL_ERROR_UNSUPPORTED) {
        smol_source_close(source);
        status = open_weights(subject, options, error);
    } else if (status) {
        *error = *reason;
    } else {
        subject->has_weights = true;
        reason->status = SMOL_OK;
        status = settle_settings(subject, error);
    }
    if (status || !subject->has_weights)
        return status;
    if (!source_is_gguf(source) || !reason->status) /* a GGUF file that is not supported has none */
        status = smol_source_config(source, &subject->config, error);
    return status ? status : find_template(subject, options, error);
}

static smol_status open_file(struct subject *subject, enum verify verify, smol_error *error)
{
    smol_status status = smol_model_file_open(subject->path, verify, &subject->file, error);
    subject->kind = subject->file.is_blob ? SUBJECT_BLOB : SUBJECT_SAFETENSORS;
    subject->blob = subject->file.is_blob ? &subject->file.blob : NULL;
    subject->has_weights = true;
    return status;
}

smol_status smol_subject_open(const char *path, const struct source_options *options,
                              enum verify verify, struct subject *subject, smol_error *error)
{
    *subject = (struct subject){.path = path};
    smol_status status =
        options ? open_checkpoint(subject, options, error) : open_file(subject, verify, error);
    if (status) {
        status = smol_subject_settle(subject, status, error);
        smol_subject_close(subject);
    }
    return status;
}

smol_status smol_subject_list(struct subject *subject, uint32_t context, smol_error *error)
{
    smol_status status = SMOL_OK;
    if (subject->has_weights)
        status = list_tensors(subject, error);
    if (!status && subject->has_weights)
        add_up(subject);
    return status ? status : find_needs(subject, context, error);
}

bool smol_subject_sees_ahead(const struct subject *subject)
{
    return subject->kind == SUBJECT_CHECKPOINT ? subject->source.config.encodes
                                               : blob_sees_ahead(subject->blob);
}

smol_status smol_subject_settle(const struct subject *subject, smol_status status,
                                smol_error *error)
{
    if (subject->kind == SUBJECT_CHECKPOINT)
        return smol_source_settle(&subject->source, status, error);
    smol_status lost = smol_model_file_check(&subject->file, subject->path, error);
    return lost ? lost : status;
}

void smol_subject_close(struct subject *subject)
{
    free(subject->names);
    free(subject->tensors);
    smol_template_list_close(&subject->templates);
    smol_settings_close(&subject->config);
    smol_source_close(&subject->source);
    smol_model_file_close(&subject->file);
    *subject = (struct subject){0};
}
