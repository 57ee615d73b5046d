/* Loading, and statistics, see load.h. */
#include "smolrun/load.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/print.h"
#include "common/clock.h"
#include "common/file.h"

static void print_warning(void *user, smol_log_level level, const char *message)
{
    (void)user;
    if (level == SMOL_LOG_WARNING)
        fprintf(stderr, "smolrun: warning: %s\n", message);
}

/* Refuses an output that would replace the model's file. */
static smol_status check_output(const struct settings *settings, smol_error *error)
{
    if (!settings->output || !smol_same_file(settings->output, settings->model))
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_USAGE, "%.300s: is the blob itself: name another output",
                     settings->output);
}

smol_status smol_load_model(const struct settings *settings, smol_model **model, smol_error *error)
{
    smol_model_params params = settings->open;
    params.on_log = print_warning;
    smol_status status = check_output(settings, error);
    if (!status)
        status = smol_model_open_fd(settings->model_fd, settings->model, &params, model, error);
    close(settings->model_fd);
    return status;
}

/* Shows how much of a prompt has been read, once reading has taken a second. */
static int show_prompt(void *user, uint64_t done, uint64_t total)
{
    struct loaded *loaded = user;
    struct live_line *line = &loaded->reading.line;
    if (smol_live_line_is_due(line) && line->drawn - loaded->reading.start >= 1)
        smol_live_line_draw(line, "reading the prompt: %" PRIu64 " of %" PRIu64 " tokens", done,
                            total);
    return 0;
}

void smol_load_hide_progress(struct loaded *loaded)
{
    smol_live_line_end(&loaded->reading.line);
    loaded->reading.line.shown = false;
}

smol_status smol_load(const struct settings *settings, struct loaded *loaded, smol_error *error)
{
    double start = clock_seconds();
    *loaded = (struct loaded){.sandbox = &settings->sandbox};
    smol_status status = smol_load_model(settings, &loaded->model, error);
    smol_context_params params = settings->context;
    if (settings->show_reading) {
        loaded->reading.line = smol_live_line_start(false);
        params.on_progress = show_prompt;
        params.user = loaded;
    }
    if (!status)
        status = smol_context_create(loaded->model, &params, &loaded->context, error);
    loaded->reading.start = clock_seconds();
    loaded->load_seconds = loaded->reading.start - start;
    return status;
}

void smol_unload(struct loaded *loaded)
{
    smol_context_free(loaded->context);
    smol_model_close(loaded->model);
}

/* --- statistics --------------------------------------------------------------------------- */

void smol_stats_add(struct stats *stats, const smol_generate_result *result)
{
    stats->n_prefill += result->n_prompt;
    stats->prefill_seconds += result->prompt_seconds;
    stats->n_decode += result->n_generated > 0 ? result->n_generated - 1 : 0;
    stats->decode_seconds += result->decode_seconds;
}

static void print_rate(FILE *out, const char *name, size_t n, double seconds)
{
    fprintf(out, "%-9s %zu token%s in %.3f s", name, n, plural(n), seconds);
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
    fprintf(out, "%-9s %.1f ms, %s kernels, %u thread%s\n", "load", loaded->load_seconds * 1e3,
            info.isa, info.n_threads, plural(info.n_threads));
    print_rate(out, "prefill", stats->n_prefill, stats->prefill_seconds);
    print_rate(out, "decode", stats->n_decode, stats->decode_seconds);
    fprintf(out, "%-9s %zu of %zu tokens, %.1f MB of keys and values (%s)\n", "context",
            smol_context_length(loaded->context), smol_context_capacity(loaded->context),
            (double)info.kv_bytes * 1e-6, info.kv);
    char sandbox[200];
    smol_sandbox_describe(loaded->sandbox, sandbox, sizeof sandbox);
    fprintf(out, "%-9s %s\n", "sandbox", sandbox);
    fprintf(out, "%-9s %.1f MB at most, the mapped blob's part in memory included\n", "memory",
            (double)smol_stats_peak_bytes() * 1e-6);
}
