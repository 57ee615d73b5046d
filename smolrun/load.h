/* A model and a context on it, opened per the settings, and statistics of its speed and memory. */
#ifndef SMOL_SMOLRUN_LOAD_H
#define SMOL_SMOLRUN_LOAD_H

#include <stdio.h>

#include "cli/live_line.h"
#include "smolrun/settings.h"

struct loaded {
    smol_model *model;
    smol_context *context;
    double load_seconds;
    const struct sandbox *sandbox; /* of the settings */
    struct {
        struct live_line line;
        double start, drawn; /* seconds */
    } reading;               /* of a prompt, with settings->show_reading */
};

/* Opens the model alone; warnings go to standard error. Errors: as smol_model_open, USAGE (the
 * output is the blob). */
smol_status smol_load_model(const struct settings *settings, smol_model **model, smol_error *error);

/* Fills *loaded, which must not move from then on. Call smol_unload after an error too. Errors: as
 * smol_load_model and smol_context_create. */
smol_status smol_load(const struct settings *settings, struct loaded *loaded, smol_error *error);
void smol_unload(struct loaded *loaded);

/* The prompt has been read: removes the line about it from the terminal, if it is there. Call it
 * before anything is printed. */
void smol_load_hide_progress(struct loaded *loaded);

/* --- statistics, for --stats and a chat's /stats ------------------------------------------- */

/* Sums over all generations. */
struct stats {
    size_t n_prefill, n_decode; /* the first token of an answer comes with its prompt */
    double prefill_seconds, decode_seconds;
};

void smol_stats_add(struct stats *stats, const smol_generate_result *result);

/* The most memory that the process had at once, resident parts of a mapped blob included. */
uint64_t smol_stats_peak_bytes(void);

/* Prints one line for each of load, prefill, decode, context, sandbox and memory. */
void smol_stats_print(FILE *out, const struct stats *stats, const struct loaded *loaded);

#endif
