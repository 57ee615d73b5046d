/* A text buffer that grows in memory. Unlike open_memstream, which silently drops text when memory
 * runs out, it records the failure. */
#ifndef SMOL_COMMON_BUFFER_H
#define SMOL_COMMON_BUFFER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* A buffer; all zeros if empty. */
struct buffer {
    char *text; /* (size), owned (smol_free); NULL while empty */
    size_t size, capacity;
    bool failed; /* out of memory: text is missing, and further additions are ignored */
};

void smol_buffer_add(struct buffer *buffer, const char *text, size_t size);

/* Empties the buffer and keeps its memory. */
static inline void buffer_clear(struct buffer *buffer)
{
    buffer->size = 0;
}

/* Drops all but the last `size` bytes. */
void smol_buffer_keep_last(struct buffer *buffer, size_t size);

/* Returns how many bytes at the end of the buffer are the start of `text`, terminated: the most
 * that are, up to all of it. */
size_t smol_buffer_overlap(const struct buffer *buffer, const char *text);

/* Adds formatted text of at most 255 bytes; a longer text counts as a failure. */
void smol_buffer_print(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void smol_buffer_vprint(struct buffer *buffer, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

#endif
