/* Reads how a reranker scores a pair of texts. */
#ifndef SMOL_CONVERT_RANKER_H
#define SMOL_CONVERT_RANKER_H

#include "convert/source.h"

/* Fills in the parts of the embedder section that score pairs, of a model with config.score. The
 * tensors, the tokenizer's rules and tokenizer.json must be open. Errors: SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_ranker_read(struct source *source, smol_error *error);

#endif
