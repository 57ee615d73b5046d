/* Speed and memory, see stats.h. */
#include "smolrun/stats.h"

#include <sys/resource.h>

void smol_stats_add(struct stats *stats, const smol_generate_result *result)
{
    stats->n_prefill += result->n_prompt;
    stats->prefill_seconds += result->prompt_seconds;
    stats->n_decode += result->n_generated > 0 ? result->n_generated - 1 : 0;
    stats->decode_seconds += result->decode_seconds;
}

static void print_rate(FILE *out, const char *name, size_t n, double seconds)
{
    fprintf(out, "%-9s %zu tokens in %.3f s", name, n, seconds);
    if (n > 0 && seconds > 0)
        fprintf(out, " (%.1f tokens/s)", (double)n / seconds);
    fputc('\n', out);
}

uint64_t smol_stats_peak_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

void smol_stats_print(FILE *out, const struct stats *stats, const struct loaded *loaded)
{
    const smol_context_info info = smol_context_get_info(loaded->context);
    fprintf(out, "%-9s %.1f ms, %s kernels, %u threads\n", "load", loaded->load_seconds * 1e3,
            info.isa, info.n_threads);
    print_rate(out, "prefill", stats->n_prefill, stats->prefill_seconds);
    print_rate(out, "decode", stats->n_decode, stats->decode_seconds);
    fprintf(out, "%-9s %zu of %zu tokens, %.1f MB of keys and values (%s)\n", "context",
            smol_context_length(loaded->context), smol_context_capacity(loaded->context),
            (double)info.kv_bytes * 1e-6, info.kv);
    fprintf(out, "%-9s %.1f MB at most, the mapped blob's part in memory included\n", "memory",
            (double)smol_stats_peak_bytes() * 1e-6);
}
