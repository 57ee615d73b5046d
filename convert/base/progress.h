/* Messages of long commands on standard error: a progress bar on a terminal and a summary at the
 * end. */
#ifndef SMOL_CONVERT_BASE_PROGRESS_H
#define SMOL_CONVERT_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/terminal.h"

struct progress {
    struct live_line line;
    int percent; /* the percentage last drawn */
    uint64_t done, total;
};

/* Starts at 0 of `total`. Draws nothing if `quiet` is set or standard error is not a terminal. */
struct progress smol_progress_start(uint64_t total, bool quiet);
void smol_progress_advance(struct progress *progress, uint64_t n);
/* Erases the bar. */
void smol_progress_end(struct progress *progress);

/* Prints a line about a conversion of `bytes` bytes of source: the time without the final sync, the
 * rate and the time of the sync, which depends only on the disk. */
void smol_progress_summary(uint64_t bytes, double seconds, double sync_seconds);

/* Prints a warning that the blob `path` cannot chat because the template in `file` is not
 * supported. */
void smol_progress_no_chat(const char *path, const char *file, const char *reason);

/* Prints a line about a finished operation: "packed 146.0 MB into 116.5 MB". */
void smol_progress_sizes(const char *verb, uint64_t from, uint64_t to);

/* Prints a line about the size of a delta. It is in bytes, because a delta may have only a few
 * hundred. */
void smol_progress_delta(uint64_t bytes, uint64_t blob);

/* Prints a line about an output that an earlier run left unfinished. */
void smol_progress_resumes(const char *path, uint64_t size, bool is_whole, uint64_t position);

#endif
