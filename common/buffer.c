/* A growing text buffer, see buffer.h. */
#include "common/buffer.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/memory.h"

enum { FIRST_SIZE = 256, MAX_PRINTED = 256 };

static bool make_room(struct buffer *buffer, size_t size)
{
    size_t capacity = buffer->capacity ? buffer->capacity : FIRST_SIZE;
    while (capacity - buffer->size < size) {
        if (capacity > SIZE_MAX / 2)
            return false;
        capacity *= 2;
    }
    if (capacity == buffer->capacity)
        return true;
    if (!RESIZE(buffer->text, capacity))
        return false;
    buffer->capacity = capacity;
    return true;
}

void smol_buffer_add(struct buffer *buffer, const char *text, size_t size)
{
    if (size == 0 || buffer->failed)
        return;
    buffer->failed = !make_room(buffer, size);
    if (buffer->failed)
        return;
    memcpy(buffer->text + buffer->size, text, size);
    buffer->size += size;
}

void smol_buffer_keep_last(struct buffer *buffer, size_t size)
{
    if (size > 0)
        memmove(buffer->text, buffer->text + buffer->size - size, size);
    buffer->size = size;
}

size_t smol_buffer_overlap(const struct buffer *buffer, const char *text)
{
    size_t length = strlen(text);
    size_t n = length < buffer->size ? length : buffer->size;
    while (n > 0 && memcmp(buffer->text + buffer->size - n, text, n) != 0)
        n--;
    return n;
}

void smol_buffer_print(struct buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    smol_buffer_vprint(buffer, format, arguments);
    va_end(arguments);
}

void smol_buffer_vprint(struct buffer *buffer, const char *format, va_list arguments)
{
    char text[MAX_PRINTED];
    int size = vsnprintf(text, sizeof text, format, arguments);
    if (size < 0 || (size_t)size >= sizeof text)
        buffer->failed = true;
    else
        smol_buffer_add(buffer, text, (size_t)size);
}
