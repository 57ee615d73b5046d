/* The tests and benchmarks of the kernels, one of each per kernel. */
#ifndef SMOL_TESTS_KERNELS_CHECK_KERNELS_H
#define SMOL_TESTS_KERNELS_CHECK_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/kernels/kernels.h"

struct kernel_check {
    const char *name;
    /* Gives the set and the scalar kernels the same random operands, once. False, reported, when
     * the results differ. */
    bool (*run)(const struct kernels *set);
    /* Measures the shapes of a real model. */
    void (*bench)(const struct kernels *set);
};

extern const struct kernel_check check_quantize, check_quantize_slice, check_matmul_int8,
    check_matmul_int6, check_matmul_int5, check_matmul_int4, check_matmul_f32, check_matmul_bf16,
    check_rms_norm, check_layer_norm, check_swiglu, check_geglu, check_geglu_tanh, check_softcap,
    check_attend_f32, check_attend_f16, check_attend_int8, check_attend_int4, check_to_f16,
    check_unit_norm, check_convolve, check_scan, check_delta_rule, check_reglu_squared;

/* The work of one call of a measured kernel, for rates; 0 where it means nothing. */
struct work {
    double mul_adds;
    double elements; /* of element-wise kernels */
    double bytes;    /* of weights or cache read */
};

/* The kernel and set that the lines from here on are for. */
void bench_start(const char *name);

/* Measures call(operands, i) for i = 0, 1, ... n_places - 1 and again from 0, i being the place of
 * the data in memory, and prints the fastest of several repeats as a line for `shape`. */
void bench_line(const char *shape, struct work work, void (*call)(const void *operands, size_t i),
                const void *operands, size_t n_places);

#endif
