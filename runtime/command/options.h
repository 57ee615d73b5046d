/* Command lines. Each sub-command has one table of options, from which its words are parsed and
 * its --help is printed. */
#ifndef SMOL_RUNTIME_COMMAND_OPTIONS_H
#define SMOL_RUNTIME_COMMAND_OPTIONS_H

#include <stdbool.h>

#include "runtime/smol.h"

enum { MAX_STOP = 64, MAX_THREADS = 256 };

/* The settings of all sub-commands; each uses those that its table names. */
struct settings {
    const char *model; /* FILE.smol */
    const char *text;  /* the second word, or NULL */
    smol_model_params open;
    smol_context_params context;
    /* generate */
    smol_sampler_params sampler;
    size_t max_tokens;
    const char *stop[MAX_STOP];
    size_t n_stop;
    int ids;
    /* generate, bench */
    int json;
    /* tokenize */
    const char *decode;
    /* logits */
    const char *tokens;
    const char *output;
    uint32_t last;
    /* bench; 0: not given */
    uint32_t n_prefill, n_decode, depth;
};

/* What an option's value is, and the type of its field in struct settings. */
enum option_kind {
    OPTION_FLAG,   /* int: set to 1; has no value */
    OPTION_COUNT,  /* uint32_t: a whole number within [low, high] */
    OPTION_LIMIT,  /* size_t: a whole number, or -1 for SIZE_MAX */
    OPTION_SEED,   /* uint64_t */
    OPTION_REAL,   /* float within [low, high] */
    OPTION_TEXT,   /* const char * */
    OPTION_STOP,   /* settings.stop: may be repeated */
    OPTION_KV,     /* smol_kv */
    OPTION_VERIFY, /* smol_verify */
};

struct option_rule {
    const char *name;  /* after --, or NULL */
    char letter;       /* after -, or 0 */
    const char *value; /* the value's name in the help */
    const char *help;
    enum option_kind kind;
    size_t field; /* offset in struct settings */
    double low, high;
};

#define FIELD(name) offsetof(struct settings, name)

/* Rows that several tables share. */
#define RULE_THREADS                                                                               \
    {                                                                                              \
        "threads", 0, "N", "threads (one per available processor)", OPTION_COUNT,                  \
            FIELD(context.n_threads), 1, MAX_THREADS                                               \
    }
#define RULE_KV                                                                                    \
    {                                                                                              \
        "kv", 0, "TYPE", "KV cache: f32, f16 or int8 (f32 for f32 blobs, otherwise f16)",          \
            OPTION_KV, FIELD(context.kv), 0, 0                                                     \
    }
#define RULE_JSON                                                                                  \
    {                                                                                              \
        "json", 0, NULL, "print one JSON object", OPTION_FLAG, FIELD(json), 0, 0                   \
    }

struct command {
    const char *words; /* as in the help: sub-command and arguments, without options */
    const char *about; /* paragraphs of the help, before and after the options */
    const char *notes;
    bool takes_text; /* a second word is allowed */
    const struct option_rule *rules;
    size_t n_rules;
};

/* Parses a sub-command's words into *settings, which holds the defaults. False: there is nothing
 * left to do but to return *status, after --help, --version or a mistake, which was printed. */
bool smol_options_parse(const struct command *command, int argc, char **argv,
                        struct settings *settings, int *status);

#endif
