/* Every unit test includes this: cmocka, a list of tests that writes itself, errors, and random
 * numbers. */
#ifndef SMOL_TESTS_UNIT_H
#define SMOL_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "smol.h"

enum { MAX_TESTS = 128 };

static struct CMUnitTest unit_tests[MAX_TESTS];
static size_t n_unit_tests;

/* TEST(name) { ... } defines a test; TEST_WITH defines one that runs between two functions, of
 * which each may be NULL. Compilers run the constructors of a file in their order. */
#define TEST(name) TEST_WITH(name, NULL, NULL)
#define TEST_WITH(name, set_up, tear_down)                                                         \
    static void name(void **unused);                                                               \
    __attribute__((constructor)) static void add_##name(void)                                      \
    {                                                                                              \
        if (n_unit_tests == MAX_TESTS)                                                             \
            abort();                                                                               \
        unit_tests[n_unit_tests++] = (struct CMUnitTest){#name, name, set_up, tear_down, NULL};    \
    }                                                                                              \
    static void name(__attribute__((unused)) void **unused)

/* Runs the file's tests in the order of their definition. Returns the number of failures. */
static inline int run_all_tests(const char *group, CMFixtureFunction set_up,
                                CMFixtureFunction tear_down)
{
    return _cmocka_run_group_tests(group, unit_tests, n_unit_tests, set_up, tear_down);
}

/* Expects the status `expected`, with a failure whose message contains `part`. */
static inline void assert_error(const smol_error *failure, smol_status status, smol_status expected,
                                const char *part)
{
    if (status != expected || failure->status != expected || !strstr(failure->message, part))
        fail_msg("status %d, not %d with \"%s\": %s", status, expected, part, failure->message);
}

/* Returns pseudo-random bits, the same in every run. */
static inline uint32_t random_bits(void)
{
    static uint64_t bits = 0x3c6ef372fe94f82bu;
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(bits >> 32);
}

/* Returns a pseudo-random number in [0, n). */
static inline uint32_t random_below(uint32_t n)
{
    return random_bits() % n;
}

#endif
