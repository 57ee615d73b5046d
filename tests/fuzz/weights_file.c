/* See weights_file.h. */
#include "tests/fuzz/weights_file.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DATA = 1 << 16 };

/* The highest number after a comma before a `]` in the text, up to MAX_DATA: where the data ends.
 */
static size_t data_size(const uint8_t *text, size_t size)
{
    size_t number = 0, highest = 0;
    int counts = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] >= '0' && text[i] <= '9' && number <= MAX_DATA) {
            number = number * 10 + (size_t)(text[i] - '0');
            continue;
        }
        if (counts && text[i] == ']' && number > highest && number <= MAX_DATA)
            highest = number;
        counts = text[i] == ',' || (counts && text[i] == ' ');
        number = 0;
    }
    return highest;
}

uint8_t *fuzz_weights_file(const uint8_t *header, size_t header_size, size_t *size)
{
    size_t n = data_size(header, header_size);
    uint64_t prefix = header_size;
    *size = sizeof prefix + header_size + n;
    uint8_t *file = malloc(*size);
    if (!file)
        abort();
    memcpy(file, &prefix, sizeof prefix);
    memcpy(file + sizeof prefix, header, header_size);
    memset(file + sizeof prefix + header_size, 0x3c, n); /* a number of medium size in any dtype */
    return file;
}
