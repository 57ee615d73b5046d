/* Compares settings and provenances, see diff.h. */
#include <inttypes.h>
#include <string.h>

#include "cli/json_out.h"
#include "cli/quote.h"
#include "common/hash.h"
#include "common/number.h"
#include "convert/inspect/describe.h"
#include "convert/inspect/diff.h"
#include "convert/provenance.h"
#include "format/model.h"

/* --- values as text: `out` has DIFF_CELL bytes -------------------------------------------- */

static void show_id(uint32_t value, char *out)
{
    if (value == NO_TOKEN)
        snprintf(out, DIFF_CELL, "none");
    else
        snprintf(out, DIFF_CELL, "%" PRIu32, value);
}

static void show_flag(uint32_t value, char *out)
{
    snprintf(out, DIFF_CELL, "%s", value ? "yes" : "no");
}

static void show_bias(uint32_t value, char *out)
{
    snprintf(out, DIFF_CELL, "%s", smol_bias_name(value));
}

static void show_activation(uint32_t value, char *out)
{
    snprintf(out, DIFF_CELL, "%s", smol_activation_name(value));
}

static void show_pooling(uint32_t value, char *out)
{
    snprintf(out, DIFF_CELL, "%s", smol_pooling_name(value));
}

static void show_bits(uint32_t value, char *out)
{
    snprintf(out, DIFF_CELL, "0x%" PRIx32, value);
}

static void row_of_values(const char *name, uint32_t a, uint32_t b,
                          void show(uint32_t value, char *out), struct diff_table *table)
{
    char left[DIFF_CELL], right[DIFF_CELL];
    if (a == b)
        return;
    show(a, left);
    show(b, right);
    smol_diff_row(table, name, left, right);
}

static void row_of_doubles(struct diff_table *table, const char *name, double a, double b)
{
    char left[DIFF_CELL], right[DIFF_CELL];
    if (a == b)
        return;
    smol_real_digits(a, left);
    smol_real_digits(b, right);
    smol_diff_row(table, name, left, right);
}

static void row_of_floats(struct diff_table *table, const char *name, float a, float b)
{
    char left[DIFF_CELL], right[DIFF_CELL];
    if (f32_bits(a) == f32_bits(b)) /* 0 and -0 differ */
        return;
    smol_float_digits(a, left);
    smol_float_digits(b, right);
    smol_diff_group_row(table, name, left, right);
}

/* --- hyper-parameters --------------------------------------------------------------------- */

static void diff_scales(const struct blob_model *a, const struct blob_model *b,
                        struct diff_table *table)
{
    row_of_floats(table, "embedding_scale", a->embedding_scale, b->embedding_scale);
    row_of_floats(table, "residual_scale", a->residual_scale, b->residual_scale);
    row_of_floats(table, "attention_scale", a->attention_scale, b->attention_scale);
    row_of_floats(table, "attention_softcap", a->attention_softcap, b->attention_softcap);
    row_of_floats(table, "logit_divisor", a->logit_divisor, b->logit_divisor);
    row_of_floats(table, "logit_softcap", a->logit_softcap, b->logit_softcap);
    row_of_floats(table, "rope_scale[0]", a->rope_scale[0], b->rope_scale[0]);
    row_of_floats(table, "rope_scale[1]", a->rope_scale[1], b->rope_scale[1]);
    row_of_floats(table, "query_growth", a->query_growth, b->query_growth);
    row_of_floats(table, "hybrid.attention_in", a->hybrid.attention_in, b->hybrid.attention_in);
    row_of_floats(table, "hybrid.attention_out", a->hybrid.attention_out, b->hybrid.attention_out);
    row_of_floats(table, "hybrid.mixer_in", a->hybrid.mixer_in, b->hybrid.mixer_in);
    row_of_floats(table, "hybrid.mixer_out", a->hybrid.mixer_out, b->hybrid.mixer_out);
    row_of_floats(table, "hybrid.gate", a->hybrid.gate, b->hybrid.gate);
    row_of_floats(table, "hybrid.x", a->hybrid.x, b->hybrid.x);
    row_of_floats(table, "hybrid.b", a->hybrid.b, b->hybrid.b);
    row_of_floats(table, "hybrid.c", a->hybrid.c, b->hybrid.c);
    row_of_floats(table, "hybrid.step", a->hybrid.step, b->hybrid.step);
    row_of_floats(table, "hybrid.mlp_gate", a->hybrid.mlp_gate, b->hybrid.mlp_gate);
    row_of_floats(table, "hybrid.mlp_out", a->hybrid.mlp_out, b->hybrid.mlp_out);
    row_of_floats(table, "experts.scale", a->experts.scale, b->experts.scale);
    row_of_floats(table, "experts.sum_epsilon", a->experts.sum_epsilon, b->experts.sum_epsilon);
    row_of_floats(table, "experts.qkv_clip", a->experts.qkv_clip, b->experts.qkv_clip);
    row_of_floats(table, "latent.norm_eps", a->latent.norm_eps, b->latent.norm_eps);
    row_of_floats(table, "varied.input_scale", a->varied.input_scale, b->varied.input_scale);
    row_of_floats(table, "varied.projection_scale", a->varied.projection_scale,
                  b->varied.projection_scale);
    row_of_floats(table, "varied.sum_scale", a->varied.sum_scale, b->varied.sum_scale);
    smol_diff_end_group(table);
}

static void diff_layers(const struct blob *a, const struct blob *b, struct diff_table *table)
{
    char name[DIFF_CELL], left[DIFF_CELL], right[DIFF_CELL];
    if (a->model->n_layers != b->model->n_layers)
        return;
    for (uint32_t i = 0; i < a->model->n_layers; i++) {
        uint8_t x = a->layers ? a->layers[i] : 0, y = b->layers ? b->layers[i] : 0;
        if (x == y)
            continue;
        snprintf(name, sizeof name, "layers[%" PRIu32 "]", i);
        show_bits(x, left);
        show_bits(y, right);
        smol_diff_group_row(table, name, left, right);
    }
    smol_diff_end_group(table);
}

static const struct {
    const char *name;
    size_t offset; /* of a u32 in struct blob_model */
    void (*show)(uint32_t value, char *out);
} fields[] = {
#define FIELD(name, show)                                                                          \
    {                                                                                              \
#name, offsetof(struct blob_model, name), show                                             \
    }
    FIELD(n_layers, show_id),
    FIELD(hidden_size, show_id),
    FIELD(intermediate_size, show_id),
    FIELD(n_heads, show_id),
    FIELD(n_kv_heads, show_id),
    FIELD(head_dim, show_id),
    FIELD(vocab_size, show_id),
    FIELD(context_length, show_id),
    FIELD(bos_id, show_id),
    FIELD(tied_embeddings, show_flag),
    FIELD(attention_bias, show_bias),
    FIELD(mlp_bias, show_flag),
    FIELD(activation, show_activation),
    FIELD(blocks, show_bits),
    FIELD(sliding_window, show_id),
    FIELD(rotary_dim, show_id),
    FIELD(n_rope_tables, show_id),
    FIELD(query_period, show_id),
    FIELD(hybrid.parallel, show_flag),
    FIELD(hybrid.norm, show_id),
    FIELD(hybrid.input_biases, show_flag),
    FIELD(hybrid.output_bias, show_flag),
    FIELD(experts.n_experts, show_id),
    FIELD(experts.n_used, show_id),
    FIELD(experts.width, show_id),
    FIELD(experts.shared_width, show_id),
    FIELD(experts.scoring, show_id),
    FIELD(experts.normalizes, show_flag),
    FIELD(experts.choice_bias, show_flag),
    FIELD(experts.shared_gate, show_flag),
    FIELD(experts.own_norms, show_flag),
    FIELD(latent.kv_rank, show_id),
    FIELD(latent.q_rank, show_id),
    FIELD(latent.query_dim, show_id),
    FIELD(latent.value_dim, show_id),
    FIELD(varied.head_dim, show_id),
    FIELD(varied.n_kv_heads, show_id),
    FIELD(varied.keys_are_values, show_flag),
    FIELD(varied.first_shared, show_id),
    FIELD(varied.shared_width, show_id),
    FIELD(varied.input_width, show_id),
#undef FIELD
};

static void diff_fields(const struct blob_model *a, const struct blob_model *b,
                        struct diff_table *table)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        uint32_t x, y;
        memcpy(&x, (const char *)a + fields[i].offset, sizeof x);
        memcpy(&y, (const char *)b + fields[i].offset, sizeof y);
        row_of_values(fields[i].name, x, y, fields[i].show, table);
    }
}

/* Compares the dtypes of two blobs. */
static void diff_dtypes(const struct blob *a, const struct blob *b, struct diff_table *table)
{
    char left[DIFF_CELL], right[DIFF_CELL];
    smol_blob_dtypes(a, left);
    smol_blob_dtypes(b, right);
    if (strcmp(left, right) != 0)
        smol_diff_row(table, "dtype", left, right);
}

static void diff_model(const struct blob *a, const struct blob *b, struct diff_table *table)
{
    struct blob_model left = *a->model, right = *b->model;
    smol_model_fill(&left);
    smol_model_fill(&right);
    if (a->header && b->header)
        diff_dtypes(a, b, table);
    diff_fields(&left, &right, table);
    row_of_doubles(table, "rope_theta", a->model->rope_theta, b->model->rope_theta);
    row_of_floats(table, "rms_norm_eps", a->model->rms_norm_eps, b->model->rms_norm_eps);
    smol_diff_end_group(table);
    diff_scales(&left, &right, table);
}

/* Compares RoPE frequencies. Those of a plain model follow from theta and head_dim, but other
 * programs may write blobs with different ones. */
static void diff_inv_freq(const struct blob *a, const struct blob *b, struct diff_table *table)
{
    char name[DIFF_CELL];
    size_t n = smol_inv_freq_count(a->model);
    if (smol_inv_freq_count(b->model) != n || a->model->rope_theta != b->model->rope_theta)
        return;
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "inv_freq[%zu]", i);
        row_of_floats(table, name, a->inv_freq[i], b->inv_freq[i]);
    }
    smol_diff_end_group(table);
}

/* --- stop ids and generation defaults ----------------------------------------------------- */

/* Compares the stop ids; both lists are in ascending order. */
static void diff_stop(const struct blob *a, const struct blob *b, struct diff_table *table)
{
    char name[DIFF_CELL];
    size_t i = 0, j = 0;
    while (i < a->n_stop || j < b->n_stop) {
        bool in_a = i < a->n_stop && (j == b->n_stop || a->stop[i] <= b->stop[j]);
        bool in_b = j < b->n_stop && (i == a->n_stop || b->stop[j] <= a->stop[i]);
        if (in_a != in_b) {
            snprintf(name, sizeof name, "stop id %" PRIu32, in_a ? a->stop[i] : b->stop[j]);
            smol_diff_group_row(table, name, in_a ? "yes" : "no", in_b ? "yes" : "no");
        }
        i += in_a;
        j += in_b;
    }
    smol_diff_end_group(table);
}

static void show_default(const struct blob_generation *g, enum generation_field field, char *out)
{
    if (!(g->present & field))
        snprintf(out, DIFF_CELL, "-");
    else if (field == GENERATION_DO_SAMPLE)
        show_flag(g->do_sample, out);
    else if (field == GENERATION_TOP_K)
        snprintf(out, DIFF_CELL, "%" PRIu32, g->top_k);
    else
        smol_float_digits(field == GENERATION_TEMPERATURE ? g->temperature
                          : field == GENERATION_TOP_P     ? g->top_p
                          : field == GENERATION_MIN_P     ? g->min_p
                                                          : g->repetition_penalty,
                          out);
}

static void diff_generation(const struct blob *a, const struct blob *b, struct diff_table *table)
{
    static const char *const names[] = {"do_sample", "temperature", "top_k",
                                        "top_p",     "min_p",       "repetition_penalty"};
    char left[DIFF_CELL], right[DIFF_CELL]; /* the texts differ if the numbers do */
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        show_default(a->generation, 1 << i, left);
        show_default(b->generation, 1 << i, right);
        if (strcmp(left, right) != 0)
            smol_diff_row(table, names[i], left, right);
    }
}

static void diff_format(const struct blob_header *a, const struct blob_header *b,
                        struct diff_table *table)
{
    char left[DIFF_CELL], right[DIFF_CELL];
    if (a->minor != b->minor) {
        snprintf(left, sizeof left, "%u.%u", a->major, a->minor);
        snprintf(right, sizeof right, "%u.%u", b->major, b->minor);
        smol_diff_row(table, "format", left, right);
    }
    if (a->optional_features != b->optional_features) {
        snprintf(left, sizeof left, "0x%" PRIx64, a->optional_features);
        snprintf(right, sizeof right, "0x%" PRIx64, b->optional_features);
        smol_diff_row(table, "optional features", left, right);
    }
}

/* Shows the size and digest of a part, or "none" for NULL. */
static void show_part(const void *part, size_t size, char *out)
{
    if (part)
        snprintf(out, DIFF_CELL, "%zu bytes, xxh3 %016" PRIx64, size, smol_digest(part, size));
    else
        snprintf(out, DIFF_CELL, "none");
}

/* Compares parts whose contents would not help the reader. */
static void diff_part(const char *name, const void *a, size_t n_a, const void *b, size_t n_b,
                      struct diff_table *table)
{
    char left[DIFF_CELL], right[DIFF_CELL];
    show_part(a, n_a, left);
    show_part(b, n_b, right);
    if (strcmp(left, right) != 0)
        smol_diff_row(table, name, left, right);
}

/* Compares how two models make embeddings. Dense layers, prompts and scores are in one section. */
static void diff_embedding(const struct blob *a, const struct blob *b, struct diff_table *table)
{
    const struct blob_encoder *x = a->encoder, *y = b->encoder;
    row_of_values("embeddings", x != NULL, y != NULL, show_flag, table);
    if (x && y) {
        row_of_values("pooling", x->pooling, y->pooling, show_pooling, table);
        row_of_values("normalizes", x->normalizes, y->normalizes, show_flag, table);
        row_of_values("max_length", x->max_length, y->max_length, show_id, table);
        row_of_values("norms_embedding", x->norms_embedding, y->norms_embedding, show_flag, table);
    }
    diff_part("embedder", a->embedder_section, a->n_embedder, b->embedder_section, b->n_embedder,
              table);
}

void smol_diff_settings(const struct subject *left, const struct subject *right,
                        struct diff_table *table)
{
    const struct blob *a = left->blob, *b = right->blob;
    if (a->header && b->header)
        diff_format(a->header, b->header, table);
    diff_model(a, b, table);
    diff_layers(a, b, table);
    diff_inv_freq(a, b, table);
    diff_stop(a, b, table);
    diff_generation(a, b, table);
    diff_part("states", a->model->states.kind ? &a->model->states : NULL, sizeof a->model->states,
              b->model->states.kind ? &b->model->states : NULL, sizeof b->model->states, table);
    diff_part("dense layers", a->model->experts.dense, sizeof a->model->experts.dense,
              b->model->experts.dense, sizeof b->model->experts.dense, table);
    row_of_values("sees the whole text", smol_subject_sees_ahead(left),
                  smol_subject_sees_ahead(right), show_flag, table);
    diff_embedding(a, b, table);
    diff_part("chat template", a->template_section, a->n_template, b->template_section,
              b->n_template, table);
}

/* --- provenance --------------------------------------------------------------------------- */

static void show_line(FILE *out, char side, const char *line, size_t length)
{
    if (!line)
        return;
    fprintf(out, "  %c  ", side);
    smol_print_text(out, line, length);
    fputc('\n', out);
}

bool smol_diff_provenance(const struct blob *a, const struct blob *b, FILE *out)
{
    const char *left = a->provenance, *right = b->provenance;
    size_t n_left = a->n_provenance, n_right = b->n_provenance;
    if (n_left == n_right && (n_left == 0 || memcmp(left, right, n_left) == 0))
        return false;
    fprintf(out, "\nprovenance\n");
    while (n_left > 0 || n_right > 0) {
        size_t x = 0, y = 0;
        const char *from_a = smol_provenance_line(&left, &n_left, &x);
        const char *from_b = smol_provenance_line(&right, &n_right, &y);
        if (from_a && from_b && x == y && memcmp(from_a, from_b, x) == 0)
            continue;
        show_line(out, 'A', from_a, x);
        show_line(out, 'B', from_b, y);
    }
    return true;
}
