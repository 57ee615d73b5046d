/* Calibration: sums over the inputs of all matrices while texts run through a model, then the
 * matrices' sensitivities, see smol.h and format/STATS.md. Consecutive records whose sums fit into
 * memory are a range; the texts run once for each range, up to its last layer. */
#include <string.h>

#include "common/hash.h"
#include "common/memory.h"
#include "common/number.h"
#include "format/model.h"
#include "format/stats.h"
#include "runtime/calibrate/gram.h"
#include "runtime/context.h"
#include "runtime/model.h"
#include "runtime/sensitivity.h"

/* of the texts, for sensitivities; in tokens */
enum { N_PASSAGES = 4, PASSAGE = 8, LONG_PASSAGE = BATCH };

_Static_assert((int)GRAM_RUN == (int)BATCH, "runs of a pass");

struct calibration {
    smol_context *context;
    const uint32_t *ids, *windows;
    size_t n_windows, longest_window;
    const smol_calibrate_params *params;
    struct stats_header header;
    size_t begin, end;               /* records of the range */
    struct gram *grams;              /* (end - begin) */
    float energies[GRAM_RUN];        /* of the rows of the current input */
    uint64_t max_bytes, done, total; /* tokens, in all ranges */
    smol_error *error;
};

/* --- the file ----------------------------------------------------------------------------- */

static smol_status write_at(const struct calibration *c, uint64_t offset, const void *data,
                            size_t size)
{
    if (c->params->write(c->params->user, offset, data, size))
        return smol_fail(c->error, SMOL_ERROR_FILE, "the statistics could not be written");
    return SMOL_OK;
}

/* Reads exactly data[0..size); sets *whole to whether the file has that many bytes. */
static smol_status read_at(const struct calibration *c, uint64_t offset, void *data, size_t size,
                           bool *whole)
{
    size_t n = 0;
    *whole = false;
    if (c->params->read && c->params->read(c->params->user, offset, data, size, &n))
        return smol_fail(c->error, SMOL_ERROR_FILE, "the statistics could not be read");
    *whole = c->params->read && n == size;
    return SMOL_OK;
}

static smol_status write_header(const struct calibration *c)
{
    size_t size = stats_header_size(&c->header);
    uint64_t digest = smol_digest(&c->header, size);
    smol_status status = write_at(c, 0, &c->header, size);
    return status ? status : write_at(c, size, &digest, sizeof digest);
}

/* Reads record i and its digest into data. Sets *right to whether they are there and agree. */
static smol_status read_record(const struct calibration *c, size_t i, void *data, bool *right)
{
    uint64_t digest = 0, offset = smol_stats_offset(&c->header, i);
    size_t size = (size_t)smol_stats_bytes(&c->header, i);
    smol_status status = read_at(c, offset, data, size, right);
    if (!status && *right)
        status = read_at(c, offset + size, &digest, sizeof digest, right);
    *right = !status && *right && digest == smol_stats_digest(&c->header, i, data, size);
    return status;
}

/* Sets c->begin to the first record that the file does not have yet. */
static smol_status find_begin(struct calibration *c)
{
    struct stats_header header;
    bool right;
    size_t n = smol_stats_count(&c->header), largest = 0, size = stats_header_size(&c->header);
    smol_status status = read_at(c, 0, &header, size, &right);
    if (status || !right || memcmp(&header, &c->header, size) != 0)
        return status;
    for (size_t i = 0; i < n; i++)
        if (smol_stats_bytes(&c->header, i) > largest)
            largest = (size_t)smol_stats_bytes(&c->header, i);
    void *data = smol_malloc(largest);
    if (!data)
        return smol_fail_memory(c->error, "a record of the statistics");
    while (!status && right && c->begin < n) {
        status = read_record(c, c->begin, data, &right);
        c->begin += right;
    }
    smol_free(data);
    return status;
}

/* --- ranges ------------------------------------------------------------------------------- */

/* Returns the end of the range that starts at record `begin`. */
static size_t range_end(const struct calibration *c, size_t begin)
{
    bool diagonal = c->params->diagonal;
    uint64_t bytes = smol_gram_bytes(smol_stats_width(&c->header, begin), diagonal);
    size_t end = begin + 1;
    for (; end < smol_stats_sensitivities(&c->header); end++) {
        bytes += smol_gram_bytes(smol_stats_width(&c->header, end), diagonal);
        if (bytes > c->max_bytes)
            break;
    }
    return end;
}

static void free_range(struct calibration *c)
{
    for (size_t i = 0; c->grams && i < c->end - c->begin; i++)
        if (c->grams[i].sums)
            smol_zeros_free(c->grams[i].sums,
                            (size_t)smol_gram_bytes(c->grams[i].width, c->grams[i].diagonal));
    smol_free(c->grams);
    c->grams = NULL;
}

static smol_status allocate_range(struct calibration *c)
{
    c->grams = smol_calloc(c->end - c->begin, sizeof *c->grams);
    bool there = c->grams;
    for (size_t i = c->begin; there && i < c->end; i++) {
        struct gram *gram = &c->grams[i - c->begin];
        *gram = (struct gram){smol_stats_width(&c->header, i), c->params->diagonal, NULL};
        uint64_t bytes = smol_gram_bytes(gram->width, gram->diagonal);
        gram->sums = bytes > 0 && bytes <= SIZE_MAX / 2 ? smol_zeros_new((size_t)bytes) : NULL;
        there = gram->sums || bytes == 0;
    }
    return there ? SMOL_OK : smol_fail_memory(c->error, "the sums of a matrix");
}

/* Returns the sums for an input, or NULL if they are not in the range. */
static const struct gram *gram_of(const struct calibration *c, struct stats_place place)
{
    size_t record = smol_stats_record(&c->header, place);
    return record >= c->begin && record < c->end ? &c->grams[record - c->begin] : NULL;
}

static uint32_t count_parts(void *user, struct stats_place place)
{
    const struct gram *gram = gram_of(user, place);
    return gram ? smol_gram_parts(gram) : 0;
}

static void look_at_row(void *user, struct stats_place place, const float *x, size_t t)
{
    struct calibration *c = user;
    c->energies[t] = smol_gram_energy(x, gram_of(c, place)->width);
}

static void add_part(void *user, struct stats_place place, const float *x, size_t stride, size_t n,
                     uint32_t part)
{
    const struct calibration *c = user;
    smol_gram_add(gram_of(c, place), x, stride, c->energies, n, part);
}

static void add_rows(void *user, struct stats_place place, const float *x, size_t stride, size_t n)
{
    const struct gram *gram = gram_of(user, place);
    float energies[GRAM_RUN];
    for (size_t t = 0; t < n; t++)
        energies[t] = smol_gram_energy(x + t * stride, gram->width);
    for (uint32_t part = 0; part < smol_gram_parts(gram); part++)
        smol_gram_add(gram, x, stride, energies, n, part);
}

static smol_status report(struct calibration *c, size_t n)
{
    const smol_calibrate_params *params = c->params;
    c->done += n;
    if (params->on_progress && c->done < c->total &&
        params->on_progress(params->user, c->done, c->total))
        return smol_fail(c->error, SMOL_ERROR_CANCELLED, "cancelled");
    return SMOL_OK;
}

/* Returns the last layer that a record of this pass is about: they are not all in order of layers.
 */
static uint32_t last_layer(const struct calibration *c)
{
    uint32_t last = 0;
    for (size_t record = c->begin; record < c->end; record++) {
        uint32_t layer = smol_stats_layer(&c->header, record);
        last = layer > last ? layer : last;
    }
    return last;
}

/* Evaluates all windows once. */
static smol_status run_windows(struct calibration *c)
{
    uint32_t n_layers = c->header.n_layers, last = last_layer(c);
    size_t output = stats_output(&c->header);
    bool wants_output = c->begin <= output && output < c->end;
    const struct observer observer = {
        .user = c,
        .n_layers = last < n_layers ? last + 1 : n_layers, /* the output's is n_layers */
        .wants_output = wants_output,
        .parts = count_parts,
        .look = look_at_row,
        .see = add_part,
        .see_expert = add_rows,
    };
    const uint32_t *ids = c->ids;
    smol_status status = SMOL_OK;
    for (size_t i = 0; !status && i < c->n_windows; i++) {
        smol_context_truncate(c->context, 0);
        for (size_t at = 0; !status && at < c->windows[i]; at += GRAM_RUN) {
            size_t rest = c->windows[i] - at, n = rest < GRAM_RUN ? rest : GRAM_RUN;
            status = smol_eval_observed(c->context, ids + at, n, 0, NULL, &observer, c->error);
            if (!status)
                status = report(c, n);
        }
        ids += c->windows[i];
    }
    smol_context_truncate(c->context, 0);
    return status;
}

static smol_status write_record(const struct calibration *c, size_t i, const void *data)
{
    uint64_t offset = smol_stats_offset(&c->header, i);
    size_t size = (size_t)smol_stats_bytes(&c->header, i);
    uint64_t digest = smol_stats_digest(&c->header, i, data, size);
    smol_status status = write_at(c, offset, data, size);
    return status ? status : write_at(c, offset + size, &digest, sizeof digest);
}

static smol_status write_range(const struct calibration *c)
{
    smol_status status = SMOL_OK;
    for (size_t i = c->begin; !status && i < c->end; i++) {
        const struct gram *gram = &c->grams[i - c->begin];
        if (gram->width > 0 && !smol_gram_pack(gram))
            return smol_fail(c->error, SMOL_ERROR_NUMERIC,
                             "%s: NaN or infinity in the inputs of matrices (layer %u): the "
                             "model's numbers are out of range",
                             c->context->model->blob.path, smol_stats_layer(&c->header, i));
        status = write_record(c, i, gram->sums);
    }
    return status;
}

static smol_status run_ranges(struct calibration *c)
{
    smol_status status = SMOL_OK;
    for (; !status && c->begin < smol_stats_sensitivities(&c->header); c->begin = c->end) {
        c->end = range_end(c, c->begin);
        status = allocate_range(c);
        if (!status)
            status = run_windows(c);
        if (!status)
            status = write_range(c);
        free_range(c);
    }
    return status;
}

/* --- sensitivities ------------------------------------------------------------------------ */

/* Copies n ids at each of `count` evenly spaced places of the texts, from place `first` on, to out.
 * Returns their number, at most the context's capacity. */
static size_t copy_passages(const struct calibration *c, size_t first, size_t count, size_t n,
                            uint32_t *out)
{
    size_t capacity = smol_context_capacity(c->context), done = 0;
    uint64_t places = c->header.n_tokens - n + 1;
    for (size_t i = first; i < first + count && done + n <= capacity; i++, done += n)
        memcpy(out + done, c->ids + places * (2 * i + 1) / (2 * N_PASSAGES), n * sizeof *out);
    return done;
}

/* Returns n, or the longest window or all tokens if these are fewer. */
static size_t at_most(const struct calibration *c, size_t n)
{
    n = c->longest_window < n ? c->longest_window : n;
    return c->header.n_tokens < n ? (size_t)c->header.n_tokens : n;
}

/* The short passages, as one text, of all matrices; or long passage i, of some. ids has room for
 * BATCH. */
static struct sensitivity_trial short_trial(const struct calibration *c, uint32_t *ids)
{
    size_t n = at_most(c, N_PASSAGES * PASSAGE) / N_PASSAGES;
    n = copy_passages(c, 0, N_PASSAGES, n > 0 ? n : 1, ids);
    return (struct sensitivity_trial){&c->header, ids, n, 1};
}

static struct sensitivity_trial long_trial(const struct calibration *c, size_t i, uint32_t *ids)
{
    size_t n_matrices = smol_stats_width(&c->header, smol_stats_sensitivities(&c->header));
    size_t n = copy_passages(c, i, 1, at_most(c, LONG_PASSAGE), ids);
    return (struct sensitivity_trial){&c->header, ids, n, n_matrices / 8 + 1};
}

static smol_status report_trial(void *user, size_t n)
{
    return report(user, n);
}

/* Multiplies the sensitivities of short passages by the mean of those of long ones relative to
 * them: after a longer text, predictions are surer. */
static void scale_sensitivities(float *values, const float *sums, size_t n)
{
    float of_short = 0, of_long = 0;
    for (size_t i = 0; i < n; i++) {
        of_short += sums[i] > 0 ? values[i] : 0;
        of_long += sums[i] / N_PASSAGES;
    }
    for (size_t i = 0; of_short > 0 && i < n; i++)
        values[i] *= of_long / of_short;
}

static smol_status write_sensitivities(struct calibration *c)
{
    uint32_t ids[BATCH];
    size_t record = smol_stats_sensitivities(&c->header);
    size_t n = smol_stats_width(&c->header, record);
    float *values = smol_calloc(n, 2 * sizeof *values);
    if (!values)
        return smol_fail_memory(c->error, "the sensitivities");
    struct sensitivity_trial trial = short_trial(c, ids);
    smol_status status = smol_sensitivities(c->context, &trial, values, report_trial, c, c->error);
    for (size_t i = 0; !status && i < N_PASSAGES; i++) {
        trial = long_trial(c, i, ids);
        status = smol_sensitivities(c->context, &trial, values + n, report_trial, c, c->error);
    }
    scale_sensitivities(values, values + n, n);
    if (!status)
        status = write_record(c, record, values);
    smol_free(values);
    return status;
}

/* --- the header --------------------------------------------------------------------------- */

/* Copies row `row` of a tensor of f32 or bf16 to out. */
static void copy_row(const struct blob *blob, const struct blob_tensor *tensor, size_t row,
                     float *out)
{
    const uint8_t *data = blob->file.data + tensor->offset;
    const float *floats = (const void *)data;
    const uint16_t *halves = (const void *)data;
    for (size_t col = 0; col < tensor->cols; col++) {
        bool tiles = tensor->layout == LAYOUT_TILES;
        size_t at = tiles ? tile_index(tensor->dtype, row, col) : row * tensor->cols + col;
        out[col] = tensor->dtype == DTYPE_BF16 ? f32_from_bf16(halves[at]) : floats[at];
    }
}

static smol_status add_tensor(const struct blob *blob, const struct blob_tensor *tensor, float *row,
                              uint64_t *key, smol_error *error)
{
    uint64_t size = tensor->size;
    if (tensor->layout == LAYOUT_TILES)
        size = smol_block_bytes(tensor->dtype, tensor->cols);
    smol_status status = smol_blob_check(blob, tensor->offset, size, error);
    for (size_t i = 0; !status && i < rows_in_block(0, tensor->rows); i++) {
        copy_row(blob, tensor, i, row);
        *key = smol_stats_key_add(*key, row, tensor->cols, (void *)(row + tensor->cols));
    }
    return status;
}

static smol_status make_key(const struct blob *blob, uint64_t *key, smol_error *error)
{
    uint64_t most = 0;
    smol_status status = SMOL_OK;
    *key = smol_stats_key_start(blob->model);
    for (size_t i = 0; i < blob->n_tensors; i++)
        most = blob->tensors[i].cols > most ? blob->tensors[i].cols : most;
    float *row = smol_calloc((size_t)most, sizeof *row + sizeof(uint16_t));
    if (!row)
        return smol_fail_memory(error, "a row of weights");
    for (size_t i = 0; !status && i < blob->n_tensors; i++) {
        const struct blob_tensor *tensor = &blob->tensors[i];
        if (tensor->role != ROLE_OUTPUT || !blob->model->tied_embeddings)
            status = add_tensor(blob, tensor, row, key, error);
    }
    smol_free(row);
    return status;
}

/* Checks the windows and counts their tokens. */
static smol_status check_windows(struct calibration *c)
{
    size_t capacity = smol_context_capacity(c->context);
    for (size_t i = 0; i < c->n_windows; i++) {
        if (c->windows[i] == 0 || c->windows[i] > capacity)
            return smol_fail(c->error, SMOL_ERROR_USAGE,
                             "window %zu: %u tokens, must be from 1 to the context's %zu", i,
                             c->windows[i], capacity);
        c->header.n_tokens += c->windows[i];
        if (c->windows[i] > c->longest_window)
            c->longest_window = c->windows[i];
    }
    c->header.n_windows = (uint32_t)c->n_windows;
    if (c->n_windows == 0)
        return smol_fail(c->error, SMOL_ERROR_USAGE, "no tokens: give a longer text");
    if (c->n_windows > UINT32_MAX)
        return smol_fail(c->error, SMOL_ERROR_USAGE, "too many windows: give a shorter text");
    return SMOL_OK;
}

static smol_status make_header(struct calibration *c)
{
    const struct blob *blob = &c->context->model->blob;
    struct stats_header *header = &c->header;
    smol_status status = CHECK_RESERVED(calibrate_params, c->params, c->error);
    if (!status && blob->model->dtype != DTYPE_F32 && blob->model->dtype != DTYPE_BF16)
        status =
            smol_fail(c->error, SMOL_ERROR_UNSUPPORTED,
                      "%s: its weights are quantized: calibrate a blob of f32 or bf16", blob->path);
    if (!status && model_has_latent(blob->model) && blob->model->experts.n_experts > 0)
        status = smol_fail(c->error, SMOL_ERROR_UNSUPPORTED,
                           "%s: calibration of models with latent vectors and experts is not "
                           "supported: convert without statistics, which are then estimated from "
                           "the weights",
                           blob->path);
    if (!status)
        status = check_windows(c);
    if (status)
        return status;
    smol_stats_describe(blob->model, header);
    header->kind = c->params->diagonal ? STATS_DIAGONAL : STATS_GRAM;
    const uint64_t text[] = {
        smol_digest(c->windows, c->n_windows * sizeof *c->windows),
        smol_digest(c->ids, (size_t)header->n_tokens * sizeof *c->ids),
    };
    header->text_digest = smol_digest(text, sizeof text);
    return make_key(blob, &header->model_key, c->error);
}

/* Sets the number of tokens that are to be evaluated. */
static void count_work(struct calibration *c)
{
    uint32_t ids[BATCH];
    const struct blob_model *model = &c->context->model->network.model;
    size_t end = smol_stats_sensitivities(&c->header);
    for (size_t at = c->begin; at < end; at = range_end(c, at))
        c->total += c->header.n_tokens;
    if (c->begin > end)
        return;
    struct sensitivity_trial trial = short_trial(c, ids);
    c->total += smol_sensitivity_work(model, &trial);
    for (size_t i = 0; i < N_PASSAGES; i++) {
        trial = long_trial(c, i, ids);
        c->total += smol_sensitivity_work(model, &trial);
    }
}

smol_status smol_calibrate(smol_context *context, const uint32_t *ids, const uint32_t *windows,
                           size_t n_windows, const smol_calibrate_params *params, uint64_t *size,
                           smol_error *error)
{
    smol_error own;
    struct calibration c = {.context = context,
                            .ids = ids,
                            .windows = windows,
                            .n_windows = n_windows,
                            .params = params,
                            .max_bytes = params->max_bytes ? params->max_bytes : 1u << 30,
                            .error = error ? error : &own};
    error_clear(error);
    smol_status status = make_header(&c);
    if (!status && size)
        *size = smol_stats_offset(&c.header, smol_stats_count(&c.header));
    if (!status)
        status = find_begin(&c);
    if (!status && c.begin == 0)
        status = write_header(&c);
    if (!status)
        count_work(&c);
    if (!status)
        status = run_ranges(&c);
    if (!status && c.begin < smol_stats_count(&c.header))
        status = write_sensitivities(&c);
    return status;
}
