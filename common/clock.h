/* Wall time, for statistics, progress and time limits. */
#ifndef SMOL_COMMON_CLOCK_H
#define SMOL_COMMON_CLOCK_H

#include <time.h>

/* Returns the seconds since an arbitrary moment. Never goes backwards. */
static inline double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#endif
