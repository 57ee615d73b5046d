/* A progress bar on standard error, where that is a terminal. */
#ifndef SMOL_CONVERT_PROGRESS_H
#define SMOL_CONVERT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shown;
    int percent; /* last drawn */
    uint64_t done, total;
};

/* Starts at 0 of `total`; draws nothing when `quiet` or when standard error is no terminal. */
struct progress smol_progress_start(uint64_t total, bool quiet);
void smol_progress_advance(struct progress *progress, uint64_t n);
/* Wipes the bar. */
void smol_progress_end(struct progress *progress);

#endif
