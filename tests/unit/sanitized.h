/* Tells whether the tests run under a sanitizer, which takes additional memory and time, and
 * whether exhaustive tests take samples. */
#ifndef SMOL_TESTS_SANITIZED_H
#define SMOL_TESTS_SANITIZED_H

#include <stdbool.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

#ifdef __OPTIMIZE__
#define SLOW SANITIZED
#else
#define SLOW 1
#endif

/* Returns true in slow builds, and if SMOL_TEST_SAMPLES is set (make check). */
static inline bool samples_only(void)
{
    return SLOW || getenv("SMOL_TEST_SAMPLES");
}

/* Returns true in sanitized builds if SMOL_TEST_SAMPLES is set: the same tests run without a
 * sanitizer beside. */
static inline bool few_samples(void)
{
    return SANITIZED && getenv("SMOL_TEST_SAMPLES");
}

#endif
