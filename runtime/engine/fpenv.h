/* The floating-point state that defines the results: round to nearest even, subnormals kept. The
 * caller's state may differ (audio code often flushes subnormals to zero). */
#ifndef SMOL_RUNTIME_FPENV_H
#define SMOL_RUNTIME_FPENV_H

#include <fenv.h>

/* Saves the caller's state and sets ours. Every thread that computes calls it. */
static inline void fpenv_enter(fenv_t *saved)
{
    fegetenv(saved);
    fesetenv(FE_DFL_ENV);
}

static inline void fpenv_leave(const fenv_t *saved)
{
    fesetenv(saved);
}

#endif
