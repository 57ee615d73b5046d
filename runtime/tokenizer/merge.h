/* Applies byte-pair encoding to one word. */
#ifndef SMOL_RUNTIME_TOKENIZER_MERGE_H
#define SMOL_RUNTIME_TOKENIZER_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/tokenizer.h"
#include "runtime/tokenizer/watch.h"

/* Turns ids[0..n) into tokens: repeatedly merges the two neighbours whose merge has the lowest
 * rank, and the leftmost pair of equal rank. Sets *n to the number of ids left. O(n log n). Errors:
 * SMOL_ERROR_MEMORY, also for words of 4 GiB; SMOL_ERROR_CANCELLED. */
smol_status smol_merge_word(const struct tokenizer_tables *tables, uint32_t *ids, size_t *n,
                            struct encode_watch *watch, smol_error *error);

#endif
