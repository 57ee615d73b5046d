/* Turns the bytes of tokens into text that can be shown at once: whole UTF-8 characters, without
 * anything that may still become part of a stop string. */
#ifndef SMOL_RUNTIME_TOKENIZER_STREAM_H
#define SMOL_RUNTIME_TOKENIZER_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "format/tokenizer.h"

struct stream;

/* Creates a stream that ends before the first of the stop strings stop (n_stop), which are copied.
 * The first one completed ends the stream; the longest wins if several end together. Free *stream
 * with smol_stream_free. Errors: SMOL_ERROR_USAGE (a stop string is empty or not UTF-8),
 * SMOL_ERROR_MEMORY. */
smol_status smol_stream_create(const char *const *stop, size_t n_stop, struct stream **stream,
                               smol_error *error);
/* Frees a stream; NULL has no effect. */
void smol_stream_free(struct stream *stream);

/* Text that can be shown now. The stream owns it; it is valid until the next call on the stream. */
struct stream_text {
    const char *text;
    size_t size;
    size_t stop; /* number of the stop string that followed, from 1; later calls return no text */
};

/* Appends bytes[0..size). Ill-formed sequences become U+FFFD, as in Python's incremental decoder
 * with errors="replace". Linear in `size`. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_stream_push(struct stream *stream, const void *bytes, size_t size,
                             struct stream_text *out, smol_error *error);

/* Appends the text of token `id`, decoded as the tokenizer's decoder specifies. Special tokens have
 * no text unless `show_special` is set. A run of byte tokens is decoded when it ends. The first
 * token of a text may lose its space. An id without a token has no effect. Pass the same `tables`
 * to every call on a stream. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_stream_token(struct stream *stream, const struct tokenizer_tables *tables,
                              uint32_t id, bool show_special, struct stream_text *out,
                              smol_error *error);

/* The tokens to come continue a text, so none of them is its first. */
void smol_stream_continue(struct stream *stream);

/* Ends the input: returns all text held back, with an unfinished character as U+FFFD. Errors:
 * SMOL_ERROR_MEMORY. */
smol_status smol_stream_finish(struct stream *stream, struct stream_text *out, smol_error *error);

#endif
