/* The inputs of matrices, see inputs.h. */
#include "convert/weights/inputs.h"

#include <stdlib.h>

/* Returns the largest width of a record. */
static size_t widest(const struct stats_file *stats)
{
    size_t most = 1;
    for (size_t i = 0; i < smol_stats_sensitivities(&stats->header); i++) {
        uint32_t width = smol_stats_width(&stats->header, i);
        most = width > most ? width : most;
    }
    return most;
}

smol_status smol_inputs_open(struct inputs *inputs, const struct stats_file *stats,
                             const struct blob_model *model, smol_error *error)
{
    *inputs = (struct inputs){.stats = stats, .record = NO_RECORD};
    if (!stats)
        return SMOL_OK;
    inputs->importance = calloc(widest(stats), sizeof *inputs->importance);
    return inputs->importance ? smol_fold_make(stats, model, &inputs->fold, error)
                              : smol_fail_memory(error, "the importance of inputs");
}

/* Returns the input of the matrices of a role. */
static enum stats_input input_of(const struct blob_model *model, enum tensor_role role)
{
    switch (role) {
    case ROLE_ATTN_Q:
        return model->latent.q_rank > 0 ? STATS_QUERY : STATS_ATTENTION;
    case ROLE_ATTN_K_UP:
        return STATS_HEAD_QUERY;
    case ROLE_ATTN_V_UP:
        return STATS_HEAD_LATENT;
    case ROLE_INPUT_GATE:
        return STATS_INPUT;
    case ROLE_INPUT_OUT:
        return STATS_INPUT_GATED;
    case ROLE_ATTN_O:
        return STATS_ATTENDED;
    case ROLE_MIXER_OUT:
        return stats_state_input(model);
    case ROLE_MLP_GATE:
    case ROLE_MLP_UP:
    case ROLE_ROUTER:
    case ROLE_SHARED_GATE:
        return STATS_MLP;
    case ROLE_MLP_DOWN:
        return STATS_GATED;
    case ROLE_EXPERT_GATE:
    case ROLE_EXPERT_UP:
        return STATS_EXPERT;
    case ROLE_EXPERT_DOWN:
        return STATS_EXPERT_GATED;
    default:
        return STATS_ATTENTION;
    }
}

uint32_t smol_inputs_parts(const struct blob_model *model, uint32_t role)
{
    return role == ROLE_ATTN_K_UP || role == ROLE_ATTN_V_UP ? model->n_heads : 1;
}

size_t smol_inputs_record(const struct inputs *inputs, const struct blob_tensor *layout,
                          const struct blob_model *model, uint64_t row)
{
    const struct stats_file *stats = inputs->stats;
    uint32_t n_parts = smol_inputs_parts(model, layout->role);
    struct stats_place place = {input_of(model, layout->role), layout->layer, layout->expert};
    if (n_parts > 1)
        place.part = (uint32_t)(row / (layout->rows / n_parts));
    bool is_output =
        layout->role == ROLE_OUTPUT || (layout->role == ROLE_EMBED && model->tied_embeddings);
    if (!stats || (layout->role == ROLE_EMBED && !is_output) || layout->role == ROLE_INPUT_EMBED ||
        layout->role == ROLE_INPUT_PROJECTION)
        return NO_RECORD;
    if (is_output)
        return stats_output(&stats->header);
    if (smol_stats_reaches(stats, place))
        return smol_stats_record(&stats->header, place);
    place.input = STATS_MLP; /* the nearest input, if experts do not have a norm of their own */
    return layout->role == ROLE_EXPERT_DOWN || model->experts.own_norms
               ? NO_RECORD
               : smol_stats_record(&stats->header, place);
}

/* Returns the sum of squares of input i, after folding. */
static double folded_square(const struct inputs *inputs, const float *inverses, size_t i)
{
    double square = stats_diagonal(inputs->stats, inputs->record, inputs->values, i);
    return inverses ? square * inverses[i] * inverses[i] : square;
}

/* With error feedback the factor's D would be the weights of the errors, but these measure
 * better. */
static void set_importance(struct inputs *inputs, const float *inverses, size_t width)
{
    double sum = 0, largest = 0;
    for (size_t i = 0; i < width; i++) {
        double square = folded_square(inputs, inverses, i);
        sum += square;
        largest = square > largest ? square : largest;
    }
    double damping = sum > 0 ? FACTOR_DAMPING * sum / (double)width : 1;
    for (size_t i = 0; i < width; i++) {
        double square = folded_square(inputs, inverses, i);
        inputs->importance[i] = (float)((square + damping) / (largest + damping));
    }
}

smol_status smol_inputs_load(struct inputs *inputs, size_t record, struct pool *pool,
                             smol_error *error)
{
    if (record == NO_RECORD || record == inputs->record)
        return SMOL_OK;
    size_t width = smol_stats_width(&inputs->stats->header, record);
    const float *inverses = smol_fold_inverses(&inputs->fold, record);
    smol_factor_free(&inputs->factor);
    smol_status status = smol_stats_read(inputs->stats, record, &inputs->values, error);
    if (status)
        return status;
    inputs->record = record;
    if (inputs->stats->header.kind == STATS_GRAM)
        status = smol_factor_make(inputs->values, inverses, width, pool, &inputs->factor, error);
    if (status == SMOL_ERROR_DAMAGED)
        return smol_stats_damaged(inputs->stats, record, error);
    if (!status)
        set_importance(inputs, inverses, width);
    return status;
}

void smol_inputs_close(struct inputs *inputs)
{
    free(inputs->importance);
    smol_factor_free(&inputs->factor);
    smol_fold_free(&inputs->fold);
}
