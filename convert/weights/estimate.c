/* Estimates calibration statistics from the weights alone, see weights.h.
 *
 * The mean squares of channels are followed through the model as if channels were independent:
 * those of the residual stream start with the embedding's columns, a norm makes their mean 1 and
 * multiplies them by its squared weights, and a matrix adds them up by its squared elements. Biases
 * and learned positions are left out. Only channels of one input are compared, so the scale of all
 * does not matter. */
#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "common/memory.h"
#include "common/number.h"
#include "convert/weights/weights.h"
#include "format/model.h"

/* how much of a value's mean square is left after attention has averaged over positions */
static const double ATTENTION_SHARE = 0.3;

struct estimate {
    const struct weights *weights;
    struct blob_model model; /* with the values of the plain block */
    struct stats_file *stats;
    struct weight tensors[ROLE_COUNT]; /* of the current layer, and the others */
    float *row;
    double *stream, *input, *inner, *gate, *added; /* mean squares of channels */
    double *ahead; /* of the MLP's input, in a model with parallel blocks; or of the output of the
                    * MLP beside experts, after its own norm */
};

/* --- steps -------------------------------------------------------------------------------- */

/* Reads a row of a matrix, or a vector as row 0. */
static void read_row(const struct estimate *e, enum tensor_role role, uint64_t row)
{
    const struct weight *tensor = &e->tensors[role];
    if (tensor->layout.layout == LAYOUT_VECTOR)
        smol_weight_vector(tensor, (uint8_t *)e->row);
    else
        smol_weight_merged(tensor, row, 1, e->row);
}

/* Sets out[0..rows) to the mean squares of the product of a matrix and in[0..cols). */
static void multiply(const struct estimate *e, enum tensor_role role, uint64_t rows, uint64_t cols,
                     const double *in, double *out)
{
    for (uint64_t r = 0; r < rows; r++) {
        double sum = 0;
        read_row(e, role, r);
        for (uint64_t k = 0; k < cols; k++)
            sum += (double)e->row[k] * (double)e->row[k] * in[k];
        out[r] = sum;
    }
}

/* Sets out[0..n), which may be `in`, to those of a norm of in[0..n). */
static void normalize(const struct estimate *e, enum tensor_role role, size_t n, const double *in,
                      double *out)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += in[k];
    read_row(e, role, 0);
    for (size_t k = 0; k < n; k++)
        out[k] = (double)e->row[k] * (double)e->row[k] * in[k] * (double)n / sum;
}

/* Returns the square of a scale of a layer with attention and a state, 1 without such layers. */
static double squared(const struct estimate *e, float scale)
{
    return e->model.hybrid.parallel ? (double)scale * (double)scale : 1;
}

/* Sets `input` to the input of attention or the MLP. */
static void enter(const struct estimate *e, enum tensor_role norm, double *input)
{
    const struct blob_model *model = &e->model;
    if (model->blocks & BLOCK_NO_INPUT_NORMS)
        memcpy(input, e->stream, model->hidden_size * sizeof *input);
    else
        normalize(e, norm, model->hidden_size, e->stream, input);
}

/* Sets e->ahead to the MLP's input before attention adds to the residual stream. */
static void look_ahead(const struct estimate *e)
{
    enter(e, e->model.blocks & BLOCK_ONE_NORM ? ROLE_ATTN_NORM : ROLE_MLP_NORM, e->ahead);
}

/* Adds `share` of e->added to the residual stream, after the norm of outputs, if there is one. */
static void leave(const struct estimate *e, enum tensor_role norm, double share)
{
    const struct blob_model *model = &e->model;
    double scale = share * (double)model->residual_scale * (double)model->residual_scale;
    if (model->blocks & BLOCK_NORM_OUTPUTS)
        normalize(e, norm, model->hidden_size, e->added, e->added);
    for (size_t k = 0; k < model->hidden_size; k++)
        e->stream[k] += scale * e->added[k];
}

/* Writes a record. If weights are not finite, its channels are alike, and the conversion finds the
 * weights. */
static void write_record(const struct estimate *e, struct stats_place place, const double *squares)
{
    struct stats_file *stats = e->stats;
    size_t record = smol_stats_record(&stats->header, place);
    uint8_t *data =
        (uint8_t *)(uintptr_t)stats->file.data + smol_stats_offset(&stats->header, record);
    size_t n = smol_stats_width(&stats->header, record);
    bool good = true;
    for (size_t i = 0; i < n; i++)
        good = good && f32_is_finite((float)squares[i]);
    for (size_t i = 0; i < n; i++) {
        float value = good ? (float)squares[i] : 1;
        memcpy(data + i * sizeof value, &value, sizeof value);
    }
    uint64_t digest = smol_stats_digest(&stats->header, record, data, n * sizeof(float));
    memcpy(data + n * sizeof(float), &digest, sizeof digest);
}

/* --- the model ---------------------------------------------------------------------------- */

static void embed(const struct estimate *e)
{
    const struct blob_model *model = &e->model;
    double scale = (double)model->embedding_scale * (double)model->embedding_scale;
    for (uint64_t row = 0; row < model->vocab_size; row++) {
        read_row(e, ROLE_EMBED, row);
        for (size_t k = 0; k < model->hidden_size; k++)
            e->stream[k] += (double)e->row[k] * (double)e->row[k];
    }
    for (size_t k = 0; k < model->hidden_size; k++)
        e->stream[k] *= scale / model->vocab_size;
}

/* Returns the mean square of silu(a) or gelu(a), which is between a quarter of that of a, for small
 * a, and half of it. */
static double activated(double square)
{
    return 0.25 * square * (1 + square / (1 + square));
}

/* Sets `inner` to the sums over taps of the squared weights of n channels, from `first` on. */
static void sum_taps(const struct estimate *e, size_t first, size_t n)
{
    memset(e->inner, 0, n * sizeof *e->inner);
    for (uint32_t tap = 0; tap < e->model.states.taps; tap++) {
        read_row(e, ROLE_MIXER_CONV, tap);
        for (size_t k = 0; k < n; k++)
            e->inner[k] += (double)e->row[first + k] * (double)e->row[first + k];
    }
}

/* The mean square of a product is taken as the product of the mean squares. */
static void convolve(const struct estimate *e)
{
    size_t n = e->model.hidden_size;
    multiply(e, ROLE_MIXER_IN, 3 * n, n, e->input, e->gate); /* of B, C and x */
    sum_taps(e, 0, n);
    for (size_t k = 0; k < n; k++)
        e->inner[k] *= e->gate[k] * e->gate[n + k] * e->gate[2 * n + k];
}

/* Gives the groups of `width` channels of `inner` the mean 1, times the squared weights of the
 * norm. */
static void normalize_groups(const struct estimate *e, size_t n, size_t width, size_t n_weights)
{
    read_row(e, ROLE_MIXER_NORM, 0);
    for (size_t first = 0; first < n; first += width) {
        double sum = 0;
        for (size_t k = first; k < first + width; k++)
            sum += e->inner[k];
        for (size_t k = first; k < first + width; k++) {
            double weight = (double)e->row[k % n_weights];
            e->inner[k] *= weight * weight * (double)width / sum;
        }
    }
}

/* A state is taken to hold the values that enter it. */
static void recur(const struct estimate *e)
{
    const struct blob_states *s = &e->model.states;
    size_t width = smol_states_width(&e->model), hidden = e->model.hidden_size;
    size_t channels = smol_states_channels(&e->model);
    size_t value = s->kind == STATE_DELTA ? channels - width : 0; /* the first channel */
    const struct blob_hybrid *h = &e->model.hybrid;
    double share = squared(e, h->mixer_in * h->x);
    multiply(e, ROLE_MIXER_IN, channels, hidden, e->input, e->gate);
    sum_taps(e, value, width);
    for (size_t k = 0; k < width; k++)
        e->inner[k] = activated(e->inner[k] * e->gate[value + k] * share);
    if (s->kind == STATE_DELTA)
        normalize_groups(e, width, s->head_dim, s->head_dim);
    else if (h->norm == MIXER_NORM_EARLY)
        normalize_groups(e, width, width / s->n_groups, width);
    share = squared(e, h->mixer_in * h->gate);
    multiply(e, ROLE_MIXER_GATE, width, hidden, e->input, e->gate);
    for (size_t k = 0; k < width; k++)
        e->inner[k] *= activated(e->gate[k] * share);
    if (s->kind == STATE_MAMBA2 && h->norm == MIXER_NORM_LATE)
        normalize_groups(e, width, width / s->n_groups, width);
}

/* Works on e->input, as attend does. */
static void use_state(const struct estimate *e, uint32_t layer)
{
    if (e->model.states.kind == STATE_SHORT_CONV)
        convolve(e);
    else
        recur(e);
    write_record(e, (struct stats_place){stats_state_input(&e->model), layer, 0}, e->inner);
    multiply(e, ROLE_MIXER_OUT, e->model.hidden_size, smol_states_width(&e->model), e->inner,
             e->added);
    leave(e, ROLE_ATTN_OUT_NORM, squared(e, e->model.hybrid.mixer_out));
}

/* Sets the values in `gate`, n heads, to those that are divided by their root mean square. */
static void normalize_values(const struct estimate *e, size_t n, size_t dim)
{
    for (size_t first = 0; first < n * dim; first += dim) {
        double sum = 0;
        for (size_t i = first; i < first + dim; i++)
            sum += e->gate[i];
        for (size_t i = first; i < first + dim; i++)
            e->gate[i] *= (double)dim / sum;
    }
}

/* Sets `inner` to what all heads make of values. Those of another layer are taken to be even. */
static void repeat_values(const struct estimate *e, uint32_t layer)
{
    const struct blob_model *m = &e->model;
    enum tensor_role role = smol_values_are_keys(m, layer) ? ROLE_ATTN_K : ROLE_ATTN_V;
    size_t dim = smol_head_dim(m, layer), n = smol_kv_heads(m, layer), shared = m->n_heads / n;
    if (smol_kv_source(m, layer) == layer)
        multiply(e, role, n * dim, m->hidden_size, e->input, e->gate);
    else
        for (size_t i = 0; i < n * dim; i++)
            e->gate[i] = 1;
    if (model_is_varied(m))
        normalize_values(e, n, dim);
    for (size_t head = 0; head < m->n_heads; head++)
        memcpy(e->inner + head * dim, e->gate + head / shared * dim, dim * sizeof *e->inner);
}

/* Writes the records of a layer's queries, whose last matrix may have an input of its own. */
static void make_queries(const struct estimate *e, uint32_t layer)
{
    const struct blob_model *m = &e->model;
    size_t rank = m->latent.q_rank, width = smol_query_width(m, 0);
    if (rank > 0) {
        multiply(e, ROLE_ATTN_Q_DOWN, rank, m->hidden_size, e->input, e->gate);
        normalize(e, ROLE_ATTN_Q_DOWN_NORM, rank, e->gate, e->gate);
        write_record(e, (struct stats_place){STATS_QUERY, layer, 0}, e->gate);
    }
    multiply(e, ROLE_ATTN_Q, width, rank > 0 ? rank : m->hidden_size, rank > 0 ? e->gate : e->input,
             e->inner);
    for (uint32_t head = 0; head < m->n_heads; head++)
        write_record(e, (struct stats_place){STATS_HEAD_QUERY, layer, head},
                     e->inner + head * (width / m->n_heads));
}

/* Sets `inner` to what heads make of latent vectors. */
static void expand_values(const struct estimate *e, uint32_t layer)
{
    const struct blob_model *m = &e->model;
    size_t rank = m->latent.kv_rank;
    multiply(e, ROLE_ATTN_K, rank, m->hidden_size, e->input, e->gate);
    normalize(e, ROLE_ATTN_LATENT_NORM, rank, e->gate, e->gate);
    for (uint32_t head = 0; head < m->n_heads; head++)
        write_record(e, (struct stats_place){STATS_HEAD_LATENT, layer, head}, e->gate);
    multiply(e, ROLE_ATTN_V_UP, smol_attended_width(m, 0), rank, e->gate, e->inner);
}

static void attend(const struct estimate *e, uint32_t layer)
{
    const struct blob_model *m = &e->model;
    size_t width = smol_attended_width(m, layer);
    if (model_has_latent(m)) {
        make_queries(e, layer);
        expand_values(e, layer);
    } else
        repeat_values(e, layer);
    write_record(e, (struct stats_place){STATS_ATTENDED, layer, 0}, e->inner);
    multiply(e, ROLE_ATTN_O, m->hidden_size, width, e->inner, e->added);
    leave(e, ROLE_ATTN_OUT_NORM,
          ATTENTION_SHARE * squared(e, m->hybrid.attention_in * m->hybrid.attention_out));
}

/* Sets `inner` to the activations of an MLP or of an expert. */
static void activate(const struct estimate *e, enum tensor_role gate, enum tensor_role up,
                     size_t width)
{
    size_t hidden = e->model.hidden_size;
    bool has_gate = !(e->model.blocks & BLOCK_NO_GATE);
    multiply(e, has_gate ? gate : up, width, hidden, e->input, e->gate);
    if (has_gate)
        multiply(e, up, width, hidden, e->input, e->inner);
    for (size_t i = 0; i < width; i++)
        e->inner[i] = activated(e->gate[i] * squared(e, e->model.hybrid.mlp_gate)) *
                      (has_gate ? e->inner[i] : 1);
}

/* Sets `added` to the output of the MLP, in a layer with experts of the one beside them. */
static void feed_forward(const struct estimate *e, uint32_t layer)
{
    const struct blob_model *m = &e->model;
    size_t width = smol_mlp_width(m, layer);
    if (m->blocks & BLOCK_PARALLEL)
        memcpy(e->input, e->ahead, m->hidden_size * sizeof *e->input);
    else
        enter(e, ROLE_MLP_NORM, e->input);
    write_record(e, (struct stats_place){STATS_MLP, layer, 0}, e->input);
    if (width > 0)
        activate(e, ROLE_MLP_GATE, ROLE_MLP_UP, width);
    write_record(e, (struct stats_place){STATS_GATED, layer, 0}, e->inner);
    memset(e->added, 0, m->hidden_size * sizeof *e->added);
    if (width > 0)
        multiply(e, ROLE_MLP_DOWN, m->hidden_size, width, e->inner, e->added);
    if (m->experts.shared_gate && smol_layer_is_sparse(m, layer))
        for (size_t k = 0; k < m->hidden_size; k++)
            e->added[k] *= 0.25; /* the gate is taken as a half */
}

/* Adds an expert's share to the output: all are used alike, and have the same weight. */
static void add_expert(const struct estimate *e, uint32_t layer, uint32_t expert)
{
    const struct blob_experts *x = &e->model.experts;
    size_t hidden = e->model.hidden_size;
    double share = (double)x->scale * (double)x->scale / ((double)x->n_used * x->n_experts);
    if (x->own_norms && expert == 0) {
        normalize(e, ROLE_SHARED_OUT_NORM, hidden, e->added, e->ahead);
        memset(e->added, 0, hidden * sizeof *e->added);
        normalize(e, ROLE_EXPERT_NORM, hidden, e->stream, e->input);
    }
    write_record(e, (struct stats_place){STATS_EXPERT, layer, expert}, e->input);
    activate(e, ROLE_EXPERT_GATE, ROLE_EXPERT_UP, x->width);
    write_record(e, (struct stats_place){STATS_EXPERT_GATED, layer, expert}, e->inner);
    multiply(e, ROLE_EXPERT_DOWN, hidden, x->width, e->inner, e->gate);
    for (size_t k = 0; k < hidden; k++)
        e->added[k] += share * e->gate[k];
}

/* Adds the output of the MLP beside the experts to theirs, each after its norm. */
static void join_outputs(const struct estimate *e)
{
    size_t hidden = e->model.hidden_size;
    normalize(e, ROLE_EXPERT_OUT_NORM, hidden, e->added, e->added);
    for (size_t k = 0; k < hidden; k++)
        e->added[k] += e->ahead[k];
}

/* Follows a layer up to its experts or, without any, to what its MLP adds. */
static void run_layer(const struct estimate *e, uint32_t layer)
{
    if (e->model.blocks & BLOCK_PARALLEL)
        look_ahead(e);
    if (layer_has_mixer(&e->model, layer)) {
        enter(e, ROLE_ATTN_NORM, e->input);
        write_record(e, (struct stats_place){STATS_ATTENTION, layer, 0}, e->input);
    }
    if (layer_attends(&e->model, layer))
        attend(e, layer);
    if (layer_has_state(&e->model, layer))
        use_state(e, layer);
    if (layer_has_mlp(&e->model, layer))
        feed_forward(e, layer);
    else
        memset(e->added, 0, e->model.hidden_size * sizeof *e->added);
}

/* Follows a layer's input, which is taken to be even, and the scale of the layer. */
static void add_input(const struct estimate *e, uint32_t layer)
{
    const struct blob_model *m = &e->model;
    size_t hidden = m->hidden_size, width = m->varied.input_width;
    if (!model_is_varied(m))
        return;
    if (width > 0) {
        write_record(e, (struct stats_place){STATS_INPUT, layer, 0}, e->stream);
        multiply(e, ROLE_INPUT_GATE, width, hidden, e->stream, e->gate);
        for (size_t i = 0; i < width; i++)
            e->inner[i] = activated(e->gate[i]);
        write_record(e, (struct stats_place){STATS_INPUT_GATED, layer, 0}, e->inner);
        multiply(e, ROLE_INPUT_OUT, hidden, width, e->inner, e->added);
        normalize(e, ROLE_INPUT_OUT_NORM, hidden, e->added, e->added);
        for (size_t k = 0; k < hidden; k++)
            e->stream[k] += e->added[k];
    }
    read_row(e, ROLE_LAYER_SCALE, 0);
    for (size_t k = 0; k < hidden; k++)
        e->stream[k] *= (double)e->row[0] * (double)e->row[0];
}

static void run(struct estimate *e)
{
    struct tensor_key key = {.role = ROLE_EMBED}, next = key;
    const struct fold none = {0};
    size_t i = 0;
    for (bool more = true; more; key = next, i++) {
        e->tensors[key.role] = smol_weight_get(e->weights, i, key, &none);
        more = smol_tensor_next(&e->model, &next);
        if (key.role == ROLE_EMBED)
            embed(e);
        bool is_last = next.role == ROLE_FINAL_NORM || next.layer != key.layer; /* of the layer */
        if (key.role == ROLE_ROUTER || (is_last && !smol_layer_is_sparse(&e->model, key.layer)))
            run_layer(e, key.layer);
        if (key.role == ROLE_EXPERT_DOWN)
            add_expert(e, key.layer, key.expert);
        if (key.role == ROLE_EXPERT_OUT_NORM)
            join_outputs(e);
        if (is_last) {
            leave(e, ROLE_MLP_OUT_NORM, squared(e, e->model.hybrid.mlp_out));
            add_input(e, key.layer);
        }
        if (key.role == ROLE_FINAL_NORM) {
            normalize(e, ROLE_FINAL_NORM, e->model.hidden_size, e->stream, e->input);
            write_record(e, (struct stats_place){STATS_OUTPUT, e->model.n_layers, 0}, e->input);
        }
    }
}

/* --- memory ------------------------------------------------------------------------------- */

/* Makes room for a header and all records. */
static bool start_stats(const struct weights *weights, struct stats_file *stats)
{
    *stats = (struct stats_file){.path = "the estimate from the weights",
                                 .header = {.kind = STATS_DIAGONAL}};
    smol_stats_describe(weights->model, &stats->header);
    stats->file.size = smol_stats_offset(&stats->header, smol_stats_count(&stats->header));
    stats->file.data = smol_calloc(stats->file.size, 1);
    stats->file.hold = FILE_ALLOCATED;
    return stats->file.data;
}

/* Returns the most rows or columns of a layer's matrix. */
static size_t most_channels(const struct blob_model *model)
{
    struct tensor_key key = {.role = ROLE_EMBED};
    uint64_t most = 1;
    do {
        const struct blob_tensor layout = smol_tensor_layout(model, key, NULL);
        if (smol_role_is_per_layer(key.role)) {
            most = layout.rows > most ? layout.rows : most;
            most = layout.cols > most ? layout.cols : most;
        }
    } while (smol_tensor_next(model, &key));
    return (size_t)most;
}

smol_status smol_weights_estimate(const struct weights *weights, struct stats_file *stats,
                                  smol_error *error)
{
    const struct blob_model *model = weights->model;
    struct estimate e = {.weights = weights, .model = *weights->model, .stats = stats};
    size_t n = most_channels(model);
    double *memory = calloc(n, 6 * sizeof *memory);
    e.row = calloc(round_up(n, BLOB_ALIGN), sizeof *e.row); /* the size of a vector is padded */
    bool room = start_stats(weights, stats) && memory && e.row;
    if (room) {
        smol_model_fill(&e.model);
        e.stream = memory;
        e.input = memory + n;
        e.inner = memory + 2 * n;
        e.gate = memory + 3 * n;
        e.added = memory + 4 * n;
        e.ahead = memory + 5 * n;
        run(&e);
    } else
        smol_stats_close(stats);
    free(memory);
    free(e.row);
    return room ? SMOL_OK : smol_fail_memory(error, "an estimate of the inputs");
}
