/* Describes blobs, safetensors files and checkpoints as text and as JSON. */
#ifndef SMOL_CONVERT_DESCRIBE_H
#define SMOL_CONVERT_DESCRIBE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "convert/inspect/statistics.h"
#include "convert/inspect/subject.h"

/* Prints the settings of a model: hyper-parameters, tokenizer, chat template, embeddings, defaults
 * of generation. */
void smol_describe_settings(const struct blob *blob, FILE *out);

/* Prints the kind of file, the settings and the provenance. */
void smol_describe_lines(const struct subject *subject, FILE *out);

/* Prints the whole description: the lines, the tensors if `with_tensors`, their statistics all[i]
 * unless `all` is NULL, parameters and bytes by part, and the memory that the model needs. */
void smol_describe_text(const struct subject *subject, bool with_tensors,
                        const struct statistics *all, FILE *out);

/* Prints the whole description as one JSON object, see docs/inspect.md. `all` may be NULL. */
void smol_describe_json(const struct subject *subject, const struct statistics *all, FILE *out);

/* Return "mean" for ENCODER_MEAN, and "q, k, v" for BIAS_QKV. */
const char *smol_pooling_name(enum encoder_pooling pooling);
const char *smol_bias_name(enum bias_kind bias);

/* Format amounts for people: "576 B", "139.2 MiB"; "134,515,008"; "[49152, 576]". They return
 * `text`. */
enum { AMOUNT = 32, SHAPE_TEXT = SAFETENSORS_MAX_RANK * 22 + 2 };
const char *smol_size_text(uint64_t bytes, char text[AMOUNT]);
const char *smol_count_text(uint64_t n, char text[AMOUNT]);
const char *smol_shape_text(unsigned rank, const uint64_t *shape, char text[SHAPE_TEXT]);

#endif
