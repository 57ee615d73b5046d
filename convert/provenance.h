/* The provenance section: lines that describe the origin of a blob (format/FORMAT.md, 10.3). */
#ifndef SMOL_CONVERT_PROVENANCE_H
#define SMOL_CONVERT_PROVENANCE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "convert/source.h"

/* Writes the provenance of a blob of type source->dtype made from `source`. The text
 * depends only on the input and the release, not on a folder, time or machine. JSON files are
 * described as they were when they were read. If `digests` is false, the weights are not read and
 * their digests are 0; the text has the same length. *text (*size bytes) is allocated, also after
 * an error. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_provenance_make(const struct source *source, bool digests, char **text,
                                 size_t *size, smol_error *error);

/* Returns the release of smolconv that the provenance text[0..size) names (*length bytes), or NULL
 * if the text does not name smolconv as the converter. */
const char *smol_provenance_release(const char *text, size_t size, size_t *length);

/* Returns what the provenance text[0..size) says about calibration: the line that describes the
 * statistics and the line of their file (*length bytes), or the line about an estimate, or NULL if
 * there was none. */
const char *smol_provenance_calibration(const char *text, size_t size, size_t *length);

/* Returns whether it names statistics in a file. */
bool smol_provenance_has_stats(const char *text, size_t size);

/* Returns whether two blobs, or a blob and a conversion, whose provenances these are had the same
 * calibration or none. */
bool smol_provenance_calibrated_alike(const char *a, size_t a_size, const char *b, size_t b_size);

/* Removes the first line of (*text)[0..*size) and returns it (*length bytes, without the line
 * feed). Returns NULL at the end. */
const char *smol_provenance_line(const char **text, size_t *size, size_t *length);

/* How the matrices of int8 and fewer bits were quantized, as the provenance says. */
struct quantization {
    const char *method;     /* "plain" (without statistics), "calibrated", or "unknown" */
    const char *statistics; /* (n_statistics): describes them, a part of the text; NULL: none */
    size_t n_statistics;
};

/* Finds it in the provenance text[0..size). Other converters than smolconv give "unknown". */
struct quantization smol_provenance_quantization(const char *text, size_t size);

#endif
