/* The floating-point state that the results are defined in: round to nearest even, subnormals
 * kept. Callers may run in another one (audio code likes flush-to-zero). */
#ifndef SMOL_RUNTIME_FPENV_H
#define SMOL_RUNTIME_FPENV_H

#include <fenv.h>

/* Saves the caller's state and sets ours; on every thread that computes. */
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
