/* Calibration statistics (format/STATS.md), as an input of a conversion. */
#ifndef SMOL_CONVERT_STATS_FILE_H
#define SMOL_CONVERT_STATS_FILE_H

#include <stdbool.h>

#include "common/error.h"
#include "common/file.h"
#include "format/stats.h"

struct stats_file {
    struct file_view file; /* zeroed if there is none */
    const char *path;      /* not owned */
    struct stats_header header;
    bool *reached;      /* (smol_stats_experts): some token of the text used the expert; or NULL: as
                           if all were */
    size_t n_unreached; /* experts */
};

/* Maps the file `path`, which must outlive it, and checks its header and size. After an error the
 * file is closed. Errors: SMOL_ERROR_FILE, SMOL_ERROR_DAMAGED, SMOL_ERROR_UNSUPPORTED (another kind
 * of file, another version), SMOL_ERROR_MEMORY. */
smol_status smol_stats_open(const char *path, struct stats_file *stats, smol_error *error);

/* Checks that the statistics are of a model of this shape and with this key, see stats.h, checks
 * their sensitivities, and finds out which experts were reached. Errors: SMOL_ERROR_USAGE,
 * SMOL_ERROR_DAMAGED, SMOL_ERROR_MEMORY. */
smol_status smol_stats_belong(struct stats_file *stats, const struct blob_model *model,
                              uint64_t model_key, smol_error *error);

/* Points *values to a record, whose digest and elements it checks. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_stats_read(const struct stats_file *stats, size_t record, const float **values,
                            smol_error *error);

/* Returns whether a token of the text has reached the expert of a place, or it is no expert's. */
bool smol_stats_reaches(const struct stats_file *stats, struct stats_place place);

/* Reports a record whose digest is right, but that is no Gram matrix. Returns SMOL_ERROR_DAMAGED.
 */
smol_status smol_stats_damaged(const struct stats_file *stats, size_t record, smol_error *error);

/* Returns element (i, i) of a record, or sensitivity i. */
static inline float stats_diagonal(const struct stats_file *stats, size_t record,
                                   const float *values, uint64_t i)
{
    uint64_t width = smol_stats_width(&stats->header, record);
    return values[stats_is_gram(&stats->header, record) ? i * width - i * (i + 1) / 2 + i : i];
}

/* Closes the file. A zeroed one is allowed. */
void smol_stats_close(struct stats_file *stats);

#endif
