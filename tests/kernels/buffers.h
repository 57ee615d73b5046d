/* Random operands between guard pages, and comparisons to the bit. */
#ifndef SMOL_TESTS_KERNELS_BUFFERS_H
#define SMOL_TESTS_KERNELS_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/kernels/kernels.h"

/* --- random numbers: the same sequence from the same seed everywhere ------------------------ */

void random_start(uint64_t seed);
uint32_t random_bits(void);
size_t random_within(size_t low, size_t high); /* both included */
float random_float(void);                      /* within -4..4 */
float random_wide(void);                       /* either sign, from 0 over subnormals to 2^60 */
int8_t random_step(void);                      /* within -127..127 */

/* --- buffers --------------------------------------------------------------------------------- */

/* `size` bytes at a multiple of `align`, with an inaccessible page at one side (which one is
 * random), and known bytes between the buffer and the page at the other side. Filled with random
 * bytes. Lives until buffers_release. */
void *buffer_new(size_t size, size_t align);

/* Copies a buffer, at the same distance from a guard page. The outputs of two kernels can then be
 * compared as a whole, including the bytes that they must leave alone. */
void *buffer_copy(const void *buffer);

/* n random floats. */
float *floats_new(size_t n);

/* Quantized activations of n tokens, all bytes random. */
struct quantized quantized_new(size_t n, size_t stride, size_t n_groups, bool wide);
struct quantized quantized_copy(const struct quantized *q);

/* Step i of token t, in the scalar set's form. */
int32_t quantized_step(const struct quantized *q, size_t i, size_t t);
void quantized_put(const struct quantized *q, size_t i, size_t t, int32_t step);

/* Turns wide steps of a group of token t from the scalar set's form to that of pair_steps. */
void quantized_pair(const struct quantized *q, size_t group, size_t t);

/* Frees all buffers; false, reported, when one was written outside its bounds. */
bool buffers_release(void);

/* --- comparing ------------------------------------------------------------------------------- */

/* Says what runs now, for reports: its shape and what else the numbers do not show. */
void describe(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a failure of what was described. Returns false. */
bool report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether the elements are the same bits; reports the first that is not. */
bool same_floats(const char *what, const float *want, const float *got, size_t n);
bool same_halves(const char *what, const uint16_t *want, const uint16_t *got, size_t n);
bool same_steps(const char *what, const int8_t *want, const int8_t *got, size_t n);

#endif
