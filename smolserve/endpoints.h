/* The endpoints that make jobs. */
#ifndef SMOL_SMOLSERVE_ENDPOINTS_H
#define SMOL_SMOLSERVE_ENDPOINTS_H

#include "smolserve/job.h"

extern const struct endpoint smol_endpoint_chat, smol_endpoint_completions, smol_endpoint_responses,
    smol_endpoint_embeddings, smol_endpoint_rerank, smol_endpoint_rerank_v2, smol_endpoint_tokenize,
    smol_endpoint_detokenize;

#endif
