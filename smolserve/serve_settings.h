/* Settings of smolserve's command line. */
#ifndef SMOL_SMOLSERVE_SERVE_SETTINGS_H
#define SMOL_SMOLSERVE_SERVE_SETTINGS_H

#include "cli/options.h"
#include "smol.h"

enum {
    SERVE_MAX_SEQUENCES = 256, /* of a model, generated together */
    SERVE_MAX_CHOICES = 64,    /* `n` of a request */
};

struct serve_settings {
    struct option_texts files;
    const char *host;
    uint32_t port;
    const char *unix_path;            /* or NULL: TCP */
    struct option_texts server_names; /* further names in Host headers */
    const char *api_keys;             /* a file, or NULL */
    uint32_t n_sequences, n_queued;
    uint32_t timeout; /* seconds for a request, from its arrival to its last token */
    uint64_t max_body;
    uint32_t n_connections;
    uint64_t cache_memory; /* bytes of each model's cache of prefixes, 0: none */
    int share_cache;       /* between keys */
    int lookup;
    int model_defaults;
    size_t reasoning_budget; /* tokens, SIZE_MAX: no limit; the same */
    int reasoning; /* index into smol_reasoning_words, for requests that do not specify it */
    int log;
    int sandbox_mode; /* enum sandbox_mode, counted from 1; 0: not specified */
    smol_model_params open;
    smol_context_params context;
};

#endif
