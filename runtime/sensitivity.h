/* How much each matrix of a model matters: how far the model's predictions move when that matrix
 * alone is rounded coarsely. */
#ifndef SMOL_RUNTIME_SENSITIVITY_H
#define SMOL_RUNTIME_SENSITIVITY_H

#include "format/stats.h"
#include "runtime/context.h"

/* A measurement: its tokens, and the matrices that it covers. */
struct sensitivity_trial {
    const struct stats_header *header;
    const uint32_t *ids; /* (n), at most BATCH */
    size_t n;            /* the divergence is the mean over the last half, rounded up */
    size_t step;         /* every step-th matrix is measured, from the first on; that of all
                            experts of a layer as one */
};

/* Reports that the work of evaluating n tokens is done. Return another status than SMOL_OK to end
 * the call with it. */
typedef smol_status sensitivity_progress(void *user, size_t n);

/* Returns the number of tokens whose evaluation takes as long as the trial. */
uint64_t smol_sensitivity_work(const struct blob_model *model,
                               const struct sensitivity_trial *trial);

/* Adds to sums[0..smol_stats_width) of the measured matrices, in the order of the tensor table, how
 * far each one moves the predictions (format/STATS.md, 4). The model has f32 or bf16 weights. Needs
 * memory for one matrix, of all experts of a layer, and three times the logits. Afterwards the
 * context is empty. The results are the same bits on any machine. Errors: as smol_eval. */
smol_status smol_sensitivities(smol_context *context, const struct sensitivity_trial *trial,
                               float *sums, sensitivity_progress *progress, void *user,
                               smol_error *error);

#endif
