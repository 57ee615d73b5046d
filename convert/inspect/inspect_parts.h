/* What the descriptions of blobs and of checkpoints share. */
#ifndef SMOL_CONVERT_INSPECT_PARTS_H
#define SMOL_CONVERT_INSPECT_PARTS_H

#include <stdint.h>

#include "convert/inspect/inspect.h"
#include "format/reader.h"

/* "146041344 bytes (139.3 MiB)". */
void smol_inspect_bytes(uint64_t bytes, FILE *out);

/* Hyper-parameters, features, tokenizer, stop ids and sampling defaults. Of the blob are read
 * model, layers, stop, generation and tokenizer: a checkpoint can show what it would become. */
void smol_inspect_settings(const struct blob *blob, FILE *out);

#endif
