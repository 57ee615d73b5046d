/* Reads calibration statistics, see stats_file.h. */
#include "convert/calibration/stats_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/number.h"

static const float *record_values(const struct stats_file *stats, size_t record)
{
    return (const void *)(stats->file.data + smol_stats_offset(&stats->header, record));
}

static smol_status check_file(struct stats_file *stats, smol_error *error)
{
    uint64_t digest = 0, size = stats->file.size;
    const uint8_t *data = stats->file.data;
    struct stats_header *header = &stats->header;
    bool ours = size >= STATS_MAGIC_SIZE && memcmp(data, STATS_MAGIC, STATS_MAGIC_SIZE) == 0;
    if (ours && size >= stats_header_size(header)) /* of minor 0 */
        memcpy(header, data, stats_header_size(header));
    const size_t start = stats_header_size(header) + sizeof digest;
    if (ours && size < start)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: %" PRIu64 " bytes, expected %zu or more: make the file again",
                         stats->path, size, start);
    if (ours) {
        memcpy(header, data, stats_header_size(header));
        memcpy(&digest, data + stats_header_size(header), sizeof digest);
    }
    if (ours && digest != smol_digest(header, stats_header_size(header)))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: the header's digest is wrong (offset %zu): make the file again",
                         stats->path, stats_header_size(header));
    smol_status status = smol_stats_check(&stats->header, stats->path, error);
    if (status)
        return status;
    uint64_t expected = smol_stats_offset(&stats->header, smol_stats_count(&stats->header));
    if (size != expected)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: %" PRIu64 " bytes, expected %" PRIu64 ": make the file again",
                         stats->path, size, expected);
    return SMOL_OK;
}

smol_status smol_stats_open(const char *path, struct stats_file *stats, smol_error *error)
{
    *stats = (struct stats_file){.path = path};
    smol_status status = smol_file_map(path, &stats->file, error);
    if (!status)
        status = file_settle(&stats->file, path, check_file(stats, error), error);
    if (status)
        smol_stats_close(stats);
    return status;
}

/* Sets whether some element of the diagonal of a record is above zero. A record of zeros, which
 * nothing else reads, is checked; of others only the beginning is looked at. */
static smol_status find_squares(const struct stats_file *stats, size_t record, bool *found,
                                smol_error *error)
{
    const float *values = record_values(stats, record);
    uint32_t width = smol_stats_width(&stats->header, record);
    for (uint32_t i = 0; i < width && !*found; i++)
        *found = stats_diagonal(stats, record, values, i) > 0;
    return *found ? SMOL_OK : smol_stats_read(stats, record, &values, error);
}

/* Fills stats->reached. An expert's first record is zero if no token used it. */
static smol_status find_reached(struct stats_file *stats, smol_error *error)
{
    const struct stats_header *header = &stats->header;
    size_t n = smol_stats_experts(header);
    smol_status status = SMOL_OK;
    if (n == 0)
        return SMOL_OK;
    stats->reached = calloc(n, sizeof *stats->reached);
    if (!stats->reached)
        return smol_fail_memory(error, "the experts of the statistics");
    for (size_t i = 0; !status && i < n; i++) {
        status = find_squares(stats, stats_output(header) + 1 + 2 * i, &stats->reached[i], error);
        stats->n_unreached += !stats->reached[i];
    }
    return status;
}

smol_status smol_stats_belong(struct stats_file *stats, const struct blob_model *model,
                              uint64_t model_key, smol_error *error)
{
    struct stats_header header = stats->header;
    smol_stats_describe(model, &header);
    if (memcmp(&header, &stats->header, sizeof header) != 0)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "%s: calibration statistics of a model of another shape: make them from a "
                         "blob of this checkpoint with smolrun calibrate",
                         stats->path);
    if (stats->header.model_key != model_key)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "%s: calibration statistics of a model with other weights: make them from "
                         "a blob of this checkpoint with smolrun calibrate",
                         stats->path);
    smol_status status = smol_stats_read(stats, smol_stats_sensitivities(&stats->header),
                                         &(const float *){NULL}, error);
    return status ? status : find_reached(stats, error);
}

/* Returns whether the elements of a record are finite, those of the diagonal (or sensitivities) not
 * negative, and no element of a matrix exceeds twice the largest of its diagonal, as none of a Gram
 * matrix does. */
static bool is_possible(const struct stats_file *stats, size_t record, const float *values)
{
    size_t n = (size_t)(smol_stats_bytes(&stats->header, record) / sizeof *values);
    size_t width = smol_stats_width(&stats->header, record);
    float largest = 0;
    bool good = true;
    for (size_t i = 0; good && i < width; i++) {
        float square = stats_diagonal(stats, record, values, i);
        good = square >= 0 && f32_is_finite(square);
        largest = square > largest ? square : largest;
    }
    for (size_t i = 0; good && i < n; i++)
        good = fabs((double)values[i]) <= 2 * (double)largest; /* false for NaN */
    return good;
}

smol_status smol_stats_read(const struct stats_file *stats, size_t record, const float **values,
                            smol_error *error)
{
    uint64_t digest;
    size_t size = (size_t)smol_stats_bytes(&stats->header, record);
    *values = record_values(stats, record);
    memcpy(&digest, (const uint8_t *)*values + size, sizeof digest);
    if (digest == smol_stats_digest(&stats->header, record, *values, size) &&
        is_possible(stats, record, *values))
        return SMOL_OK;
    return smol_stats_damaged(stats, record, error);
}

bool smol_stats_reaches(const struct stats_file *stats, struct stats_place place)
{
    if (!stats->reached || place.input < STATS_EXPERT)
        return true;
    size_t record = smol_stats_record(&stats->header, place);
    return stats->reached[(record - stats_output(&stats->header) - 1) / 2];
}

smol_status smol_stats_damaged(const struct stats_file *stats, size_t record, smol_error *error)
{
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: record %zu is damaged (offset %" PRIu64 "): make the file again",
                     stats->path, record, smol_stats_offset(&stats->header, record));
}

void smol_stats_close(struct stats_file *stats)
{
    smol_file_close(&stats->file);
    free(stats->reached);
    *stats = (struct stats_file){0};
}
