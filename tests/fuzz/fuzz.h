/* Shared by the fuzz targets. A target is one file, fuzz_NAME.c, with one function that takes any
 * bytes. It must not crash, hang, leak or break a claim. See README.md here. */
#ifndef SMOL_TESTS_FUZZ_H
#define SMOL_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One input; libFuzzer, AFL++'s driver and main.c call it. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A claim about the code under test, whatever the input: a finding when it does not hold. */
#define CLAIM(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* The rest of an input. After its end everything is zero, so that every input has a meaning. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};

static inline void fuzz_take(struct fuzz_input *in, void *out, size_t size)
{
    size_t n = size < in->size ? size : in->size;
    memset(out, 0, size);
    if (n > 0)
        memcpy(out, in->data, n);
    in->data += n;
    in->size -= n;
}

static inline uint8_t fuzz_take_byte(struct fuzz_input *in)
{
    uint8_t byte;
    fuzz_take(in, &byte, 1);
    return byte;
}

/* Zeros that end where their memory ends, aligned as mapped files are. The caller frees them. */
static inline uint8_t *exact_zeros(size_t size)
{
    void *zeros = NULL;
    if (posix_memalign(&zeros, 64, size ? size : 1))
        abort();
    memset(zeros, 0, size);
    return zeros;
}

/* A copy of data[0..size) in such memory. */
static inline uint8_t *exact_copy(const void *data, size_t size)
{
    uint8_t *copy = exact_zeros(size);
    if (size > 0)
        memcpy(copy, data, size);
    return copy;
}

#endif
