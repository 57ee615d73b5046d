/* The parts of smol_inspect, one file each. */
#ifndef SMOL_CONVERT_INSPECT_PARTS_H
#define SMOL_CONVERT_INSPECT_PARTS_H

#include <stdint.h>
#include <stdio.h>

#include "convert/inspect/statistics.h"
#include "convert/inspect/subject.h"

/* --- amounts.c ----------------------------------------------------------------------------- */

enum { AMOUNT = 32 };

/* "576 B", "139.2 MiB"; "134,515,008"; "[49152, 576]", which may be cut. Return `text`. */
const char *smol_size_text(uint64_t bytes, char text[AMOUNT]);
const char *smol_count_text(uint64_t n, char text[AMOUNT]);
enum { SHAPE_TEXT = SAFETENSORS_MAX_RANK * 22 + 2 };
const char *smol_shape_text(unsigned rank, const uint64_t *shape, char text[SHAPE_TEXT]);

/* --- inspect.c: lines ------------------------------------------------------------------------ */

/* The kind of file, settings and provenance. */
void smol_inspect_lines(const struct subject *subject, FILE *out);

/* --- inspect_settings.c: lines -------------------------------------------------------------- */

/* Hyper-parameters, features, tokenizer, stop ids and sampling defaults. Of the blob are read
 * model, layers, stop, generation and tokenizer: a checkpoint can show what it would become. */
void smol_inspect_settings(const struct blob *blob, FILE *out);

/* --- inspect_tables.c ------------------------------------------------------------------------ */

/* One line for each tensor, with a heading. */
void smol_inspect_tensors(const struct subject *subject, FILE *out);
/* The same for all[i], the statistics of subject->tensors[i]. */
void smol_inspect_statistics(const struct subject *subject, const struct statistics *all,
                             FILE *out);
/* Parameters and bytes by part; and the memory that it takes to run. */
void smol_inspect_summary(const struct subject *subject, FILE *out);

/* --- inspect_json.c -------------------------------------------------------------------------- */

/* All of it as one JSON object, see docs/inspect.md. `all` may be NULL. */
void smol_inspect_json(const struct subject *subject, const struct statistics *all, FILE *out);

#endif
