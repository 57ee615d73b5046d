/* Messages of long commands on standard error: a progress bar on a terminal, and a summary at the
 * end. */
#ifndef SMOL_CONVERT_BASE_PROGRESS_H
#define SMOL_CONVERT_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/live_line.h"

struct progress {
    struct live_line line;
    int percent; /* last drawn */
    uint64_t done, total;
};

/* Starts at 0 of `total`; draws nothing when `quiet` or when standard error is no terminal. */
struct progress smol_progress_start(uint64_t total, bool quiet);
void smol_progress_advance(struct progress *progress, uint64_t n);
/* Wipes the bar. */
void smol_progress_end(struct progress *progress);

/* One line about a conversion of `bytes` of source: the time without the final sync, the rate, and
 * the sync, which depends on the disk alone. */
void smol_progress_summary(uint64_t bytes, double seconds, double sync_seconds);

/* One line of warning: the blob `path` cannot chat, as the template in `file` is not supported. */
void smol_progress_no_chat(const char *path, const char *file, const char *reason);

/* One line about what was done: "packed 146.0 MB into 116.5 MB". */
void smol_progress_sizes(const char *verb, uint64_t from, uint64_t to);

/* One line about a delta, which may have a few hundred bytes. */
void smol_progress_delta(uint64_t bytes, uint64_t blob);

/* One line about an unfinished output that is continued. */
void smol_progress_goes_on(const char *path, uint64_t size, bool is_whole, uint64_t position);

#endif
