/* Error feedback, see feedback.h. The rows of a block are the lanes of vectors. */
#define FEEDBACK_UPDATE smol_feedback_update_baseline
#define LANES 4
#define COLUMNS 2
#include "convert/weights/feedback_template.h"

#include "common/cpu.h"

/* inputs whose errors are passed on together; the bits do not depend on it */
enum { RUN = 2 * GROUP_INPUTS };

struct feedback {
    const struct blob_tensor *layout;
    const struct tile_rule *rule;
    uint64_t n_rows;
    uint8_t *out;
    float *targets; /* (cols, TILE_ROWS): what each input is rounded from */
    float *errors;  /* likewise: first the weights, then the weights minus what they became */
    float *row;     /* (cols) */
    float scales[TILE_ROWS]; /* of the current group */
};

uint64_t smol_feedback_scratch(uint64_t cols)
{
    return cols * (1 + 2 * TILE_ROWS);
}

/* Spreads a row of weights over the lanes. */
static struct tile_fault start_row(struct feedback *f, size_t r, uint64_t start)
{
    uint64_t cols = f->layout->cols;
    for (uint64_t k = 0; k < cols; k++)
        f->targets[k * TILE_ROWS + r] = f->errors[k * TILE_ROWS + r] = f->row[k];
    return smol_tile_check(f->row, cols, start);
}

/* Chooses the scales of a group whose targets are complete but for its own errors. */
static void choose_scales(struct feedback *f, size_t group)
{
    uint64_t first = group * GROUP_INPUTS, rest = f->layout->cols - first;
    size_t n = rest < GROUP_INPUTS ? (size_t)rest : GROUP_INPUTS;
    float importance[GROUP_INPUTS] = {0}, values[GROUP_INPUTS] = {0};
    uint16_t *bits =
        (void *)(f->out + group_scales_offset((enum blob_dtype)f->layout->dtype, group));
    memcpy(importance, f->rule->importance + first, n * sizeof *importance);
    for (size_t r = 0; r < f->n_rows; r++) {
        for (size_t i = 0; i < n; i++)
            values[i] = f->targets[(first + i) * TILE_ROWS + r];
        bits[r] = smol_group_scale(f->rule->levels, values, importance);
        f->scales[r] = f32_from_f16(bits[r]);
    }
}

/* Rounds input k of all rows, and sets its errors. */
static void round_input(struct feedback *f, size_t k)
{
    enum blob_dtype dtype = (enum blob_dtype)f->layout->dtype;
    const struct level_search *search = f->rule->levels;
    uint8_t *weights = f->out + group_weights_offset(dtype, k / GROUP_INPUTS);
    if (k % GROUP_INPUTS == 0)
        choose_scales(f, k / GROUP_INPUTS);
    for (size_t r = 0; r < f->n_rows; r++) {
        unsigned code = nearest_code(search, f->targets[k * TILE_ROWS + r], f->scales[r]);
        group_set_code(dtype, weights, k % GROUP_INPUTS, r, code);
        f->errors[k * TILE_ROWS + r] -= (float)search->levels.values[code] * f->scales[r];
    }
}

static void round_inputs(struct feedback *f)
{
    const struct factor *factor = f->rule->factor;
    feedback_update *update = CPU_BEST(smol_feedback_update);
    for (size_t first = 0; first < factor->n; first += RUN) {
        size_t end = first + RUN < factor->n ? first + RUN : factor->n;
        for (size_t k = first; k < end; k++) {
            round_input(f, k);
            update(factor->u + k * factor->stride + k + 1, factor->stride,
                   f->errors + k * TILE_ROWS, 1, f->targets + (k + 1) * TILE_ROWS, end - k - 1);
        }
        update(factor->u + first * factor->stride + end, factor->stride,
               f->errors + first * TILE_ROWS, end - first, f->targets + end * TILE_ROWS,
               factor->n - end);
    }
}

struct tile_fault smol_feedback_block(const struct safetensors_tensor *source,
                                      const struct blob_tensor *layout,
                                      const struct tile_rule *rule, uint64_t row, float *scratch,
                                      uint8_t *out)
{
    uint64_t cols = layout->cols;
    struct feedback f = {layout, rule, rows_in_block(row, layout->rows), out, .targets = scratch};
    f.errors = f.targets + cols * TILE_ROWS;
    f.row = f.errors + cols * TILE_ROWS;
    memset(out, 0, smol_block_bytes(layout->dtype, cols));
    memset(f.targets, 0, 2 * cols * TILE_ROWS * sizeof(float));
    for (uint64_t r = 0; r < f.n_rows; r++) {
        uint64_t start = (row + r) * cols;
        tensor_widen(source, start, cols, f.row);
        struct tile_fault fault = start_row(&f, r, start);
        if (fault.status)
            return fault;
    }
    round_inputs(&f);
    return (struct tile_fault){SMOL_OK, 0, 0, NULL};
}
