/* Measures the limits of this machine, with which `make bench` compares smol: reading memory, and
 * multiplying and adding in registers. No part of smol; scripts/benchmark/limits.py calls it. */
#ifndef SMOL_TESTS_BENCH_LIMITS_H
#define SMOL_TESTS_BENCH_LIMITS_H

#include <stddef.h>

#define LIMITS_API __attribute__((visibility("default")))

/* `isa` is a kernel set's name as libsmol reports it: it chooses the instructions, so that a
 * masked kernel set is held against what it could use. All calls return 0 when threads cannot be
 * started. */

/* Seconds that `n_threads` threads need to read data[0..size) once with wide loads, the mean over
 * `passes`. Touch the data first: page faults are not part of the limit. */
LIMITS_API double smol_limit_read(const char *isa, const void *data, size_t size,
                                  unsigned n_threads, unsigned passes);

/* f32 multiply-adds per second, fused where the kernel set has such an instruction. */
LIMITS_API double smol_limit_f32(const char *isa, unsigned n_threads);

/* int8 multiply-adds per second into 32-bit sums. */
LIMITS_API double smol_limit_int8(const char *isa, unsigned n_threads);

/* The instructions that the three calls use for `isa`, for people. */
LIMITS_API const char *smol_limit_instructions(const char *isa);

#endif
