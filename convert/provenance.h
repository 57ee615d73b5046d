/* The provenance section: lines that say where a blob comes from (format/FORMAT.md, 10.3). */
#ifndef SMOL_CONVERT_PROVENANCE_H
#define SMOL_CONVERT_PROVENANCE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "convert/source.h"

/* Writes the provenance of a blob of source->config.model.dtype made from `source`, in words that
 * depend on nothing but the input and the release: no folder, time or machine. *text (*size bytes)
 * is allocated, after an error too. Reads the weights, unless no digests of them are wanted: then
 * they are 0, and the text is as long. Of the JSON files it tells what they were when they were
 * read. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_provenance_make(const struct source *source, bool digests, char **text,
                                 size_t *size, smol_error *error);

/* The release of smolconv that the provenance text[0..size) names, *length bytes; NULL when it does
 * not say that smolconv made the blob. */
const char *smol_provenance_release(const char *text, size_t size, size_t *length);

/* Cuts the first line off (*text)[0..*size) and returns it, *length bytes without its line feed;
 * NULL at the end. */
const char *smol_provenance_line(const char **text, size_t *size, size_t *length);

#endif
