/* Opens a model and a context as the settings say, and prints statistics of their speed and
 * memory. */
#ifndef SMOL_SMOLRUN_LOAD_H
#define SMOL_SMOLRUN_LOAD_H

#include <stdio.h>

#include "cli/terminal.h"
#include "smolrun/settings.h"

/* Returns the ending of a noun after the number n: "1 token", "2 tokens". */
static inline const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

struct loaded {
    smol_model *model;
    smol_context *context;
    double load_seconds;
    const struct sandbox *sandbox; /* of the settings */
    struct {
        struct live_line line;
        double start; /* seconds */
    } reading;        /* progress of reading a prompt, with settings->show_reading */
};

/* Opens only the model, and closes settings->model_fd. Prints warnings to standard error. Errors:
 * as smol_model_open, and USAGE (the output is the blob). */
smol_status smol_load_model(const struct settings *settings, smol_model **model, smol_error *error);

/* Opens the model and a context. *loaded must not move until smol_unload. Call smol_unload after an
 * error too. Errors: as smol_load_model and smol_context_create. */
smol_status smol_load(const struct settings *settings, struct loaded *loaded, smol_error *error);
void smol_unload(struct loaded *loaded);

/* Removes the progress line of the prompt from the terminal, if it is shown. Call it before
 * anything is printed. */
void smol_load_hide_progress(struct loaded *loaded);

/* --- statistics, for --stats and a chat's /stats ------------------------------------------- */

/* Sums over several generations. */
struct stats {
    size_t n_prefill, n_decode; /* prefill produces the first token of an answer */
    double prefill_seconds, decode_seconds;
};

void smol_stats_add(struct stats *stats, const smol_generate_result *result);

/* Returns the peak memory of the process in bytes, including resident parts of a mapped blob. */
uint64_t smol_stats_peak_bytes(void);

/* Prints one line for each of load, prefill, decode, context, sandbox and memory. */
void smol_stats_print(FILE *out, const struct stats *stats, const struct loaded *loaded);

#endif
