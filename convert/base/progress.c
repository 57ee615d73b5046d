/* Progress bar and summary, see progress.h. */
#include "convert/base/progress.h"

#include <inttypes.h>
#include <stdio.h>

enum { BAR_WIDTH = 40 };

struct progress smol_progress_start(uint64_t total, bool quiet)
{
    struct progress progress = {.line = smol_live_line_start(quiet), .percent = -1, .total = total};
    smol_progress_advance(&progress, 0);
    return progress;
}

void smol_progress_advance(struct progress *progress, uint64_t n)
{
    progress->done += n;
    if (!progress->line.shown || progress->total == 0)
        return;
    int percent = (int)(100.0 * (double)progress->done / (double)progress->total);
    if (percent == progress->percent)
        return;
    progress->percent = percent;
    int filled = percent * BAR_WIDTH / 100;
    smol_live_line_draw(&progress->line, "[%.*s%*s] %3d %%", filled,
                        "########################################", BAR_WIDTH - filled, "",
                        percent);
}

void smol_progress_end(struct progress *progress)
{
    smol_live_line_end(&progress->line);
}

void smol_progress_summary(uint64_t bytes, double seconds, double sync_seconds)
{
    fprintf(stderr, "smolconv: %.1f MB in %.3f s (%.1f MB/s), synced in %.3f s\n",
            (double)bytes / 1e6, seconds, (double)bytes / 1e6 / seconds, sync_seconds);
}

void smol_progress_no_chat(const char *path, const char *file, const char *reason)
{
    fprintf(
        stderr,
        "smolconv: %s: its chat template is not supported (%s: %s): the blob completes text but "
        "does not chat; see --template and --chat-template\n",
        path, file, reason);
}

void smol_progress_sizes(const char *verb, uint64_t from, uint64_t to)
{
    fprintf(stderr, "smolconv: %s %.1f MB into %.1f MB\n", verb, (double)from / 1e6,
            (double)to / 1e6);
}

void smol_progress_delta(uint64_t bytes, uint64_t blob)
{
    fprintf(stderr, "smolconv: %" PRIu64 " bytes, for a blob of %" PRIu64 "\n", bytes, blob);
}

void smol_progress_resumes(const char *path, uint64_t size, bool is_whole, uint64_t position)
{
    if (is_whole)
        fprintf(stderr, "smolconv: %s: is already complete\n", path);
    else if (size > 0)
        fprintf(stderr, "smolconv: %s: the first %.1f MB are good: resuming at byte %" PRIu64 "\n",
                path, (double)size / 1e6, position);
    else
        fprintf(stderr, "smolconv: %s: nothing in it is usable: starting over\n", path);
}
