/* Measuring one kernel, see check_kernels.h. */
#include <stdio.h>

#include "common/clock.h"
#include "tests/kernels/check_kernels.h"

static double measure(void (*call)(const void *operands, size_t i), const void *operands,
                      size_t n_calls, size_t n_places)
{
    double start = clock_seconds();
    for (size_t i = 0, place = 0; i < n_calls; i++) {
        call(operands, place);
        place = place + 1 < n_places ? place + 1 : 0;
    }
    return clock_seconds() - start;
}

/* Seconds per call, of the fastest repeat: what slows a repeat down is others' work. */
static double fastest(void (*call)(const void *operands, size_t i), const void *operands,
                      size_t n_places)
{
    enum { REPEATS = 15 };
    const double long_enough = 1e-3;
    size_t n_calls = n_places;
    double best = measure(call, operands, n_calls, n_places);
    while (best < long_enough) {
        n_calls *= 2;
        best = measure(call, operands, n_calls, n_places);
    }
    for (int i = 1; i < REPEATS; i++) {
        double seconds = measure(call, operands, n_calls, n_places);
        best = seconds < best ? seconds : best;
    }
    return best / (double)n_calls;
}

static const char *measured;

void bench_start(const char *name)
{
    measured = name;
}

void bench_line(const char *shape, struct work work, void (*call)(const void *operands, size_t i),
                const void *operands, size_t n_places)
{
    double ns = fastest(call, operands, n_places) * 1e9;
    printf("%-22s %-32s %10.1f ns", measured, shape, ns);
    if (work.mul_adds > 0)
        printf(" %7.2f mul-adds/ns", work.mul_adds / ns);
    if (work.elements > 0)
        printf(" %7.2f elements/ns", work.elements / ns);
    if (work.bytes > 0)
        printf(" %6.1f GB/s", work.bytes / ns);
    putchar('\n');
    fflush(stdout);
}
