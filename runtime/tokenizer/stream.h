/* From the bytes of tokens to text that may be shown at once: whole UTF-8 characters, and nothing
 * that may still turn out to belong to a stop string. */
#ifndef SMOL_RUNTIME_STREAM_H
#define SMOL_RUNTIME_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "format/tokenizer.h"

struct stream;

/* A stream that ends before the first of the stop strings stop (n_stop), which are copied; the
 * first to be complete counts, of those that end together the longest. The caller frees *stream.
 * Errors: SMOL_ERROR_USAGE (a stop string that is empty or not UTF-8), SMOL_ERROR_MEMORY. */
smol_status smol_stream_create(const char *const *stop, size_t n_stop, struct stream **stream,
                               smol_error *error);
/* NULL is fine. */
void smol_stream_free(struct stream *stream);

/* Text that may be shown now; the stream's, until the next call on it. */
struct stream_text {
    const char *text;
    size_t size;
    bool stopped; /* a stop string followed: the stream is over, and later calls give nothing */
};

/* Appends bytes[0..size). Ill-formed sequences become U+FFFD, as Python's incremental decoder
 * with errors="replace" does it. Linear in `size`. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_stream_push(struct stream *stream, const void *bytes, size_t size,
                             struct stream_text *out, smol_error *error);

/* Appends the text of token `id`, as the tokenizer's decoder has it: of a special token none
 * unless `show_special`, of a run of tokens that stand for bytes all together when it is over, and
 * of the first token perhaps without its space. An id without a token changes nothing. `tables` are
 * the same for all calls on a stream. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_stream_token(struct stream *stream, const struct tokenizer_tables *tables,
                              uint32_t id, bool show_special, struct stream_text *out,
                              smol_error *error);

/* No more bytes follow: gives all that was held back, an unfinished character as U+FFFD.
 * Errors: SMOL_ERROR_MEMORY. */
smol_status smol_stream_finish(struct stream *stream, struct stream_text *out, smol_error *error);

#endif
