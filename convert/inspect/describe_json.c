/* Prints the description as one JSON object, see describe.h and docs/inspect.md. */
#include <stddef.h>
#include <string.h>

#include "cli/json_out.h"
#include "convert/inspect/describe.h"
#include "convert/provenance.h"
#include "format/layout.h"
#include "format/model.h"

static void member_size_text(struct json_out *json, const char *key, const char *text, size_t size)
{
    smol_json_key(json, key);
    smol_json_text(json, text, size);
}

static void member_float(struct json_out *json, const char *key, float value)
{
    smol_json_key(json, key);
    smol_json_float(json, value);
}

static void member_id(struct json_out *json, const char *key, uint32_t id)
{
    if (id != NO_TOKEN) {
        smol_json_member_whole(json, key, id);
        return;
    }
    smol_json_key(json, key);
    smol_json_literal(json, "null");
}

/* --- the model ----------------------------------------------------------------------------- */

static void write_bits(struct json_out *json, const char *key, uint32_t bits,
                       const char *const names[], size_t n)
{
    smol_json_member_open(json, key, '[');
    for (size_t i = 0; i < n; i++)
        if (bits >> i & 1)
            smol_json_text(json, names[i], strlen(names[i]));
    smol_json_close(json, ']');
}

static void write_layers(struct json_out *json, const char *key, const struct blob *blob,
                         enum layer_bit bit)
{
    smol_json_member_open(json, key, '[');
    for (uint32_t i = 0; blob->layers && i < blob->model->n_layers; i++)
        if (blob->layers[i] & bit)
            smol_json_whole(json, i);
    smol_json_close(json, ']');
}

static void write_sizes(struct json_out *json, const struct blob_model *m)
{
    smol_json_member_whole(json, "layers", m->n_layers);
    smol_json_member_whole(json, "hidden_size", m->hidden_size);
    smol_json_member_whole(json, "intermediate_size", m->intermediate_size);
    smol_json_member_whole(json, "n_heads", m->n_heads);
    smol_json_member_whole(json, "n_kv_heads", m->n_kv_heads);
    smol_json_member_whole(json, "head_dim", m->head_dim);
    smol_json_member_whole(json, "vocab_size", m->vocab_size);
    smol_json_member_whole(json, "context_length", m->context_length);
    smol_json_member_real(json, "rope_theta", m->rope_theta);
    member_float(json, "rms_norm_eps", m->rms_norm_eps);
    smol_json_member_flag(json, "tied_embeddings", m->tied_embeddings);
}

static void write_blocks(struct json_out *json, const struct blob_model *m)
{
    static const char *const biases[] = {
        [BIAS_NONE] = "none", [BIAS_QKVO] = "qkvo", [BIAS_QKV] = "qkv"};
    static const char *const blocks[] = {
        "norm_outputs",      "no_input_norms", "qk_norm_heads", "qk_norm_all",    "qk_norm_late",
        "rotate_neighbours", "layer_norm",     "no_gate",       "parallel",       "one_norm",
        "positions",         "output_bias",    "norm_stream",   "attention_gate", "relative",
        "gate_heads",        "sinks"};
    _Static_assert(ALL_BLOCK_BITS < 1 << sizeof blocks / sizeof blocks[0], "one has no name");
    smol_json_member_text(json, "attention_bias", biases[m->attention_bias]);
    smol_json_member_flag(json, "mlp_bias", m->mlp_bias);
    smol_json_member_text(json, "activation", smol_activation_name(m->activation));
    write_bits(json, "blocks", m->blocks, blocks, sizeof blocks / sizeof blocks[0]);
    member_float(json, "embedding_scale", m->embedding_scale);
    member_float(json, "residual_scale", m->residual_scale);
    member_float(json, "attention_scale", m->attention_scale);
    member_float(json, "attention_softcap", m->attention_softcap);
    member_float(json, "logit_divisor", m->logit_divisor);
    member_float(json, "logit_softcap", m->logit_softcap);
    smol_json_member_whole(json, "sliding_window", m->sliding_window);
    smol_json_member_whole(json, "rotary_dim", m->rotary_dim);
    member_float(json, "query_growth", m->query_growth);
    smol_json_member_whole(json, "query_period", m->query_period);
}

/* Lists the layers for which `has` holds. */
static void write_layers_that(struct json_out *json, const char *key, const struct blob_model *m,
                              bool has(const struct blob_model *, uint32_t))
{
    smol_json_member_open(json, key, '[');
    for (uint32_t i = 0; i < m->n_layers; i++)
        if (has(m, i))
            smol_json_whole(json, i);
    smol_json_close(json, ']');
}

static void write_states(struct json_out *json, const struct blob_model *m)
{
    smol_json_member_text(json, "state", smol_state_name(m->states.kind));
    smol_json_member_whole(json, "state_taps", m->states.taps);
    smol_json_member_flag(json, "state_biases", m->states.biases);
    smol_json_member_whole(json, "state_heads", m->states.n_heads);
    smol_json_member_whole(json, "state_head_dim", m->states.head_dim);
    smol_json_member_whole(json, "state_size", m->states.size);
    smol_json_member_whole(json, "state_groups", m->states.n_groups);
    write_layers_that(json, "state_layers", m, layer_has_state);
}

static void write_hybrid(struct json_out *json, const struct blob_hybrid *h)
{
    smol_json_member_text(json, "mixer_norm", smol_mixer_norm_name(h->norm));
    smol_json_member_flag(json, "mixer_input_biases", h->input_biases);
    smol_json_member_flag(json, "mixer_output_bias", h->output_bias);
    member_float(json, "attention_in_scale", h->attention_in);
    member_float(json, "attention_out_scale", h->attention_out);
    member_float(json, "mixer_in_scale", h->mixer_in);
    member_float(json, "mixer_out_scale", h->mixer_out);
    member_float(json, "mixer_gate_scale", h->gate);
    member_float(json, "mixer_x_scale", h->x);
    member_float(json, "mixer_b_scale", h->b);
    member_float(json, "mixer_c_scale", h->c);
    member_float(json, "mixer_step_scale", h->step);
    member_float(json, "mlp_gate_scale", h->mlp_gate);
    member_float(json, "mlp_out_scale", h->mlp_out);
}

static void write_experts(struct json_out *json, const struct blob_model *m)
{
    const struct blob_experts *x = &m->experts;
    smol_json_member_whole(json, "experts", x->n_experts);
    smol_json_member_whole(json, "experts_used", x->n_used);
    smol_json_member_whole(json, "expert_width", x->width);
    smol_json_member_whole(json, "shared_width", x->shared_width);
    smol_json_member_flag(json, "shared_gate", x->shared_gate);
    smol_json_member_flag(json, "expert_own_norms", x->own_norms);
    smol_json_member_text(json, "expert_scoring", smol_scoring_name(x->scoring));
    smol_json_member_flag(json, "expert_weights_normalized", x->normalizes);
    smol_json_member_flag(json, "expert_choice_bias", x->choice_bias);
    member_float(json, "expert_scale", x->scale);
    member_float(json, "qkv_clip", x->qkv_clip);
    smol_json_member_whole(json, "active_parameters", smol_experts_active(m));
    write_layers_that(json, "expert_layers", m, smol_layer_is_sparse);
}

static void write_latent(struct json_out *json, const struct blob_latent *latent)
{
    smol_json_member_whole(json, "kv_rank", latent->kv_rank);
    smol_json_member_whole(json, "q_rank", latent->q_rank);
    smol_json_member_whole(json, "query_dim", latent->query_dim);
    smol_json_member_whole(json, "value_dim", latent->value_dim);
    member_float(json, "latent_norm_eps", latent->norm_eps);
}

static void write_varied(struct json_out *json, const struct blob_model *m)
{
    const struct blob_varied *v = &m->varied;
    smol_json_member_whole(json, "second_head_dim", v->head_dim);
    smol_json_member_whole(json, "second_kv_heads", v->n_kv_heads);
    smol_json_member_flag(json, "keys_are_values", v->keys_are_values);
    smol_json_member_whole(json, "first_shared", v->first_shared);
    smol_json_member_whole(json, "late_width", v->shared_width);
    smol_json_member_whole(json, "input_width", v->input_width);
    member_float(json, "input_scale", v->input_scale);
    member_float(json, "projection_scale", v->projection_scale);
    member_float(json, "sum_scale", v->sum_scale);
    write_layers_that(json, "second_layers", m, layer_is_second);
}

static bool lacks_mixer(const struct blob_model *m, uint32_t layer)
{
    return !layer_has_mixer(m, layer);
}

static bool lacks_mlp(const struct blob_model *m, uint32_t layer)
{
    return !layer_has_mlp(m, layer);
}

static void write_model(struct json_out *json, const struct blob *blob)
{
    struct blob_model model = *blob->model;
    if (smol_model_is_plain(&model))
        smol_model_fill(&model);
    smol_json_member_open(json, "model", '{');
    write_sizes(json, &model);
    write_blocks(json, &model);
    write_layers(json, "windowed_layers", blob, LAYER_WINDOWED);
    write_layers(json, "not_rotated_layers", blob, LAYER_NO_ROTATION);
    write_layers(json, "second_table_layers", blob, LAYER_SECOND_TABLE);
    if (model.states.kind)
        write_states(json, &model);
    if (model.hybrid.parallel)
        write_hybrid(json, &model.hybrid);
    if (model.experts.n_experts)
        write_experts(json, &model);
    if (model_has_latent(&model))
        write_latent(json, &model.latent);
    if (model_is_varied(&model))
        write_varied(json, &model);
    if (smol_model_is_partial(&model)) {
        write_layers_that(json, "layers_without_mixer", &model, lacks_mixer);
        write_layers_that(json, "layers_without_mlp", &model, lacks_mlp);
    }
    smol_json_close(json, '}');
}

/* --- tokenizer, template, generation defaults ----------------------------------------------- */

static void write_tokenizer(struct json_out *json, const struct blob *blob)
{
    static const char *const models[] = {NULL, "WordPiece", "Unigram"};
    const struct blob_tokenizer *t = &blob->tokenizer.header;
    const struct blob_text *rules = &blob->tokenizer.rules.header;
    const char *kind = rules->model != TEXT_MERGES      ? models[rules->model]
                       : rules->flags & TEXT_CHARACTERS ? "character-level"
                                                        : "byte-level";
    smol_json_member_open(json, "tokenizer", '{');
    smol_json_member_text(json, "kind", kind);
    smol_json_member_whole(json, "tokens", t->n_tokens);
    smol_json_member_whole(json, "added", t->n_added);
    smol_json_close(json, '}');
    member_id(json, "bos", blob->model->bos_id);
    smol_json_member_open(json, "stop", '[');
    for (size_t i = 0; i < blob->n_stop; i++)
        smol_json_whole(json, blob->stop[i]);
    smol_json_close(json, ']');
}

static void write_template(struct json_out *json, const struct blob *blob)
{
    const struct template_code *code = &blob->template;
    smol_json_key(json, "chat_template");
    if (!blob->template_section) {
        smol_json_literal(json, "null");
        return;
    }
    const struct template_constant *name = &code->constants[code->header.name];
    const struct template_constant *reason = &code->constants[code->header.reason];
    smol_json_open(json, '{');
    member_size_text(json, "name", (const char *)code->text + name->value, name->length);
    smol_json_member_whole(json, "bytes", code->header.source_size);
    smol_json_member_flag(json, "supported", code->header.n_functions > 0);
    if (code->header.n_functions == 0)
        member_size_text(json, "reason", (const char *)code->text + reason->value, reason->length);
    if (code->header.tool_style != TOOLS_NONE)
        smol_json_member_text(json, "tool_calls", smol_tool_style_name(code->header.tool_style));
    smol_json_close(json, '}');
}

static void write_prompts(struct json_out *json, const struct embedder *embedder)
{
    const struct blob_embedder *header = embedder->header;
    size_t n = header ? header->n_prompts : 0;
    smol_json_member_open(json, "prompts", '{');
    for (size_t i = 0; i < n; i++)
        smol_json_member_text(json, embedder_prompt_name(embedder, i),
                              embedder_prompt_text(embedder, i));
    smol_json_close(json, '}');
    if (n > 0 && header->default_prompt != NO_TOKEN)
        smol_json_member_text(json, "default_prompt",
                              embedder_prompt_name(embedder, header->default_prompt));
}

/* Writes how a model makes embeddings, or scores. */
static void write_embeddings(struct json_out *json, const struct blob *blob)
{
    static const char *const poolings[] = {"mean", "first", "max", "last"};
    static const char *const scores[] = {NULL, "plain", "logistic"};
    const struct blob_encoder *encoder = blob->encoder;
    const struct blob_embedder *header = blob->embedder.header;
    if (!encoder)
        return;
    smol_json_member_open(json, "embeddings", '{');
    smol_json_member_text(json, "pooling", poolings[encoder->pooling]);
    smol_json_member_whole(json, "dimensions",
                           smol_embedder_width(&blob->embedder, blob->model->hidden_size));
    smol_json_member_flag(json, "normalized", encoder->normalizes);
    smol_json_member_whole(json, "max_length", encoder->max_length);
    if (header && header->score)
        smol_json_member_text(json, "score", scores[header->score]);
    write_prompts(json, &blob->embedder);
    smol_json_close(json, '}');
}

static void write_generation(struct json_out *json, const struct blob_generation *g)
{
    smol_json_member_open(json, "generation", '{');
    if (g->present & GENERATION_DO_SAMPLE)
        smol_json_member_flag(json, "do_sample", g->do_sample);
    if (g->present & GENERATION_TEMPERATURE)
        member_float(json, "temperature", g->temperature);
    if (g->present & GENERATION_TOP_K)
        smol_json_member_whole(json, "top_k", g->top_k);
    if (g->present & GENERATION_TOP_P)
        member_float(json, "top_p", g->top_p);
    if (g->present & GENERATION_MIN_P)
        member_float(json, "min_p", g->min_p);
    if (g->present & GENERATION_REPETITION_PENALTY)
        member_float(json, "repetition_penalty", g->repetition_penalty);
    smol_json_close(json, '}');
}

/* --- tensors ------------------------------------------------------------------------------ */

/* The key names the dtype: that of an int6, int5 or int4 matrix, otherwise int8. */
static void write_error(struct json_out *json, const struct model_tensor *tensor,
                        const struct int8_error *error)
{
    smol_json_key(json, tensor->levels ? smol_tensor_dtype(tensor) : "int8");
    if (error->kind == ERROR_NONE) {
        smol_json_literal(json, "null");
        return;
    }
    smol_json_open(json, '{');
    smol_json_member_flag(json, "estimated", error->kind == ERROR_ESTIMATED);
    smol_json_member_real(json, "rmse", error->rmse);
    smol_json_member_real(json, "max_error", error->largest);
    smol_json_member_real(json, "snr_db", error->snr);
    smol_json_close(json, '}');
}

static void write_statistics(struct json_out *json, const struct model_tensor *tensor,
                             const struct statistics *s)
{
    smol_json_key(json, "statistics");
    if (!s->is_known) {
        smol_json_literal(json, "null");
        return;
    }
    smol_json_open(json, '{');
    smol_json_member_real(json, "mean", s->mean);
    smol_json_member_real(json, "variance", s->variance);
    smol_json_member_real(json, "min", s->min);
    smol_json_member_real(json, "max", s->max);
    smol_json_member_real(json, "sum", s->sum);
    smol_json_member_whole(json, "zeros", s->n_zeros);
    smol_json_member_whole(json, "outliers", s->n_outliers);
    smol_json_member_whole(json, "nan", s->n_nan);
    smol_json_member_whole(json, "infinite", s->n_infinite);
    if (s->n_nan + s->n_infinite > 0)
        smol_json_member_whole(json, "first_not_finite", s->first_not_finite);
    write_error(json, tensor, &s->int8);
    smol_json_close(json, '}');
}

static void write_tensor(struct json_out *json, const struct model_tensor *tensor,
                         const struct statistics *statistics)
{
    smol_json_open(json, '{');
    smol_json_member_text(json, "name", tensor->name);
    smol_json_member_text(json, "dtype", smol_tensor_dtype(tensor));
    smol_json_member_open(json, "shape", '[');
    for (unsigned i = 0; i < tensor->rank; i++)
        smol_json_whole(json, tensor->shape[i]);
    smol_json_close(json, ']');
    smol_json_member_whole(json, "parameters", tensor->n_elements);
    smol_json_member_whole(json, "bytes", smol_tensor_size(tensor));
    if (tensor->tiled)
        smol_json_member_whole(json, "offset", tensor->tiled->offset);
    else
        smol_json_member_text(json, "file", smol_base_name(tensor->raw->path));
    smol_json_member_text(json, "part", smol_part_name(smol_part_of(tensor)));
    smol_json_member_flag(json, "alias", tensor->is_alias);
    if (statistics)
        write_statistics(json, tensor, statistics);
    smol_json_close(json, '}');
}

/* --- sums ---------------------------------------------------------------------------------- */

static void write_parts(struct json_out *json, const struct subject *subject)
{
    smol_json_member_open(json, "parts", '[');
    for (int i = 0; i < PART_COUNT; i++) {
        const struct part_sum *part = &subject->parts[i];
        if (part->bytes == 0)
            continue;
        smol_json_open(json, '{');
        smol_json_member_text(json, "part", smol_part_name(i));
        smol_json_member_whole(json, "tensors", part->n_tensors);
        smol_json_member_whole(json, "parameters", part->n_parameters);
        smol_json_member_whole(json, "bytes", part->bytes);
        smol_json_close(json, '}');
    }
    smol_json_close(json, ']');
}

static void write_memory(struct json_out *json, const struct subject *subject)
{
    smol_json_member_open(json, "memory", '[');
    for (size_t n = 0; n < subject->n_needs; n++)
        for (size_t i = 0; i < subject->n_contexts; i++) {
            const struct memory_need *need = &subject->needs[n];
            smol_json_open(json, '{');
            smol_json_member_text(json, "dtype", smol_dtype_name(need->dtype));
            smol_json_member_whole(json, "context", subject->contexts[i]);
            smol_json_member_whole(json, "blob_bytes", need->blob);
            smol_json_member_whole(json, "kv_bytes", need->cache[i]);
            smol_json_member_whole(json, "state_bytes", need->states[i]);
            smol_json_member_whole(json, "total_bytes", need->total[i]);
            smol_json_close(json, '}');
        }
    smol_json_close(json, ']');
}

/* --- the whole object --------------------------------------------------------------------- */

static void write_quantization(struct json_out *json, const struct blob *blob)
{
    struct quantization found = smol_provenance_quantization(blob->provenance, blob->n_provenance);
    if (!is_grouped(smol_blob_dtype(blob)))
        return;
    smol_json_member_open(json, "quantization", '{');
    smol_json_member_text(json, "method", found.method);
    if (found.statistics)
        member_size_text(json, "statistics", found.statistics, found.n_statistics);
    smol_json_close(json, '}');
}

static void write_blob(struct json_out *json, const struct blob *blob)
{
    const char *line, *text = blob->provenance;
    size_t length, size = blob->n_provenance;
    char version[16];
    snprintf(version, sizeof version, "%u.%u", blob->header->major, blob->header->minor);
    smol_json_member_text(json, "version", version);
    smol_json_member_whole(json, "required_features", blob->header->required_features);
    smol_json_member_whole(json, "optional_features", blob->header->optional_features);
    smol_json_member_text(json, "dtype", smol_dtype_name(smol_blob_dtype(blob)));
    write_quantization(json, blob);
    smol_json_member_open(json, "provenance", '[');
    while ((line = smol_provenance_line(&text, &size, &length)))
        smol_json_text(json, line, length);
    smol_json_close(json, ']');
}

/* Writes the names of the chat templates. */
static void write_templates(struct json_out *json, const struct template_list *list)
{
    smol_json_member_open(json, "templates", '[');
    for (size_t i = 0; i < list->n; i++)
        smol_json_text(json, list->items[i].name, strlen(list->items[i].name));
    smol_json_close(json, ']');
}

static void write_checkpoint(struct json_out *json, const struct subject *subject)
{
    bool supported = subject->reason.status == SMOL_OK;
    const json_t *list = json_object_get(subject->config.object, "architectures");
    const char *architecture = json_string_value(json_array_get(list, 0));
    smol_json_member_flag(json, "supported", supported);
    if (!supported)
        smol_json_member_text(json, "reason", subject->reason.message);
    if (architecture)
        smol_json_member_text(json, "architecture", architecture);
    if (subject->template_in)
        smol_json_member_text(json, "template_from", subject->template_in);
    if (subject->templates.n > 0)
        write_templates(json, &subject->templates);
    char skipped[SKIPPED_TEXT];
    if (smol_nested_tell(&subject->source.skipped, skipped))
        smol_json_member_text(json, "skipped", skipped);
    if (subject->source.quantized[0])
        smol_json_member_text(json, "quantized", subject->source.quantized);
    if (supported && subject->source.config.longrope)
        smol_json_member_text(json, "longrope",
                              subject->source.config.longrope == LONGROPE_SHORT ? "short" : "long");
}

static void write_tensors(struct json_out *json, const struct subject *subject,
                          const struct statistics *all)
{
    smol_json_member_open(json, "tensors", '[');
    for (size_t i = 0; i < subject->n_tensors && !ferror(json->file); i++)
        write_tensor(json, &subject->tensors[i], all ? &all[i] : NULL);
    smol_json_close(json, ']');
}

void smol_describe_json(const struct subject *subject, const struct statistics *all, FILE *out)
{
    static const char *const kinds[] = {"blob", "checkpoint", "safetensors"};
    struct json_out json = {.file = out};
    smol_json_open(&json, '{');
    smol_json_member_text(&json, "kind", kinds[subject->kind]);
    smol_json_member_text(&json, "path", subject->path);
    if (subject->kind == SUBJECT_BLOB)
        write_blob(&json, subject->blob);
    if (subject->kind == SUBJECT_CHECKPOINT)
        write_checkpoint(&json, subject);
    if (subject->blob) {
        write_model(&json, subject->blob);
        write_tokenizer(&json, subject->blob);
        write_template(&json, subject->blob);
        write_embeddings(&json, subject->blob);
        write_generation(&json, subject->blob->generation);
    }
    smol_json_member_whole(&json, "parameters", subject->n_parameters);
    write_parts(&json, subject);
    write_memory(&json, subject);
    write_tensors(&json, subject, all);
    smol_json_close(&json, '}');
    fputc('\n', out);
}
