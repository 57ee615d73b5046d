/* Settings of smolrun's command lines, and option rows that several commands share. */
#ifndef SMOL_SMOLRUN_SETTINGS_H
#define SMOL_SMOLRUN_SETTINGS_H

#include <float.h>
#include <limits.h>
#include <stdbool.h>
#include <time.h>

#include "cli/input.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/sandbox.h"
#include "smol.h"

/* The settings of all sub-commands; each uses those in its table of options. */
struct settings {
    const struct command_line *command; /* parsed from argv[0..argc) */
    int argc;
    char **argv;
    const char *model; /* FILE.smol */
    int model_fd;      /* `model`, open; smol_load_model closes it */
    const char *text;  /* the second word, or NULL */
    bool text_is_file; /* `text` names a file, which text_file reads */
    struct input text_file;
    /* calibrate: files of texts, open; `output`, which a further run continues, open */
    bool texts_are_files;
    struct output resumed;
    struct option_texts texts; /* the words after the first */
    struct input text_files[OPTION_MAX_TEXTS];
    int diagonal;
    uint32_t window, memory; /* tokens, MiB */
    int sandbox_mode;        /* enum sandbox_mode, counted from 1; 0: not specified */
    struct sandbox sandbox;
    smol_model_params open;
    smol_context_params context;
    /* generate */
    smol_sampler_params sampler;
    int model_defaults;
    size_t max_tokens;
    size_t reasoning_budget; /* tokens, of a chat; SIZE_MAX: no limit */
    struct option_texts stop;
    /* generate, chat: a constraint of the output, or NULL; `constraint_file`, open, is its text */
    const char *json_schema, *regex, *grammar, *choices;
    struct input constraint_file;
    int json_space; /* smol_json_space, counted from 1; 0: not given */
    int any_order;
    int lookup;
    int slide;
    uint32_t keep; /* UINT32_MAX: not given */
    int ids;
    int jsonl;
    int chat;
    const char *system;                /* the system message of a chat, or NULL */
    struct option_texts template_args; /* variables of a chat's template: NAME=JSON */
    const char *session;
    const char *save_dir;        /* of a chat, or NULL */
    char session_file[PATH_MAX]; /* the target of `session`, if that is a link */
    struct tm now;               /* the local time, for chat templates */
    int stats;
    bool show_reading;            /* show the progress of a long prompt on a terminal */
    void (*before_sandbox)(void); /* of a chat, or NULL */
    /* generate, bench */
    int json;
    /* embed */
    int npy, similarity;
    const char *rerank; /* embed: the query, or NULL */
    const char *prompt; /* embed: the name of one of the model's prompts, or NULL */
    /* tokenize */
    const char *decode;
    /* logits */
    const char *tokens;
    const char *output;
    uint32_t last;
    /* explain */
    int given;
    /* perplexity, which saves its logits in `output` */
    const char *kl_from;
    struct input kl_file; /* `kl_from`, open */
    /* bench; 0: not given */
    uint32_t n_prefill, n_decode, depth;
    /* generate, bench; 0: not given */
    uint32_t n_sequences; /* decoded together */
};

enum { MAX_SEQUENCES = 64, MAX_THREADS = 256 };

#define FIELD(name) offsetof(struct settings, name)

extern const char *const smol_json_space_words[]; /* in the order of smol_json_space */

/* Rows that several tables share. */
#define RULE_THREADS                                                                               \
    OPTION_ROW("threads", 0, "N", "threads (one per available processor)", OPTION_COUNT,           \
               FIELD(context.n_threads), 1, MAX_THREADS, NULL)
#define RULE_KV                                                                                    \
    OPTION_ROW("kv", 0, "TYPE",                                                                    \
               "KV cache: f32, f16, int8 or int4 (f32 for f32 blobs, otherwise f16)",              \
               OPTION_CHOICE, FIELD(context.kv), SMOL_KV_F32, 0, smol_kv_words)
#define RULE_MAX_TOKENS                                                                            \
    OPTION_ROW("", 'n', "N", "generate at most N tokens; -1: no limit (256)", OPTION_LIMIT,        \
               FIELD(max_tokens), 0, 0, NULL)
#define RULE_REASONING_BUDGET                                                                      \
    OPTION_ROW("reasoning-budget", 0, "N",                                                         \
               "in chats, end reasoning after N tokens; -1: never (-1)", OPTION_LIMIT,             \
               FIELD(reasoning_budget), 0, 0, NULL)
#define RULE_STOP                                                                                  \
    OPTION_ROW("stop", 0, "STRING", "end before STRING; may be repeated", OPTION_TEXTS,            \
               FIELD(stop), 0, 0, NULL)
#define RULE_CTX                                                                                   \
    OPTION_ROW("ctx", 0, "N", "room for N tokens of prompt and output (the model's)",              \
               OPTION_COUNT, FIELD(context.n_ctx), 1, UINT32_MAX, NULL)
#define RULE_STATS                                                                                 \
    OPTION_ROW("stats", 0, "", "report speed and memory on standard error", OPTION_FLAG,           \
               FIELD(stats), 0, 0, NULL)
#define RULE_JSON                                                                                  \
    OPTION_ROW("json", 0, "", "print one JSON object", OPTION_FLAG, FIELD(json), 0, 0, NULL)
#define RULE_LOOKUP                                                                                \
    OPTION_ROW("lookup", 0, "",                                                                    \
               "guess tokens from earlier text: faster where it repeats, same output",             \
               OPTION_FLAG, FIELD(lookup), 0, 0, NULL)
#define RULE_MODEL_DEFAULTS                                                                        \
    OPTION_ROW("model-defaults", 0, "",                                                            \
               "sample as the model's authors recommend; other options win", OPTION_FLAG,          \
               FIELD(model_defaults), 0, 0, NULL)
#define RULE_TEMP                                                                                  \
    OPTION_ROW("temp", 0, "T",                                                                     \
               "sample at temperature T; 0: always take the most likely token (0)", OPTION_REAL,   \
               FIELD(sampler.temperature), 0, FLT_MAX, NULL)
#define RULE_TOP_K                                                                                 \
    OPTION_ROW("top-k", 0, "K", "sample from the K most likely tokens only; 0: all (0)",           \
               OPTION_COUNT, FIELD(sampler.top_k), 0, UINT32_MAX, NULL)
#define RULE_TOP_P                                                                                 \
    OPTION_ROW("top-p", 0, "P", "sample from the fewest tokens whose probabilities sum to P (1)",  \
               OPTION_REAL, FIELD(sampler.top_p), 0, 1, NULL)
#define RULE_MIN_P                                                                                 \
    OPTION_ROW("min-p", 0, "P",                                                                    \
               "sample from tokens of at least P times the best's probability (0)", OPTION_REAL,   \
               FIELD(sampler.min_p), 0, 1, NULL)
#define RULE_REPEAT_PENALTY                                                                        \
    OPTION_ROW("repeat-penalty", 0, "R",                                                           \
               "penalize tokens of prompt and output by the factor R (1)", OPTION_REAL,            \
               FIELD(sampler.repetition_penalty), FLT_MIN, FLT_MAX, NULL)
#define RULE_SEED                                                                                  \
    OPTION_ROW("seed", 0, "S", "seed of the random numbers (42)", OPTION_SEED,                     \
               FIELD(sampler.seed), 0, 0, NULL)
#define RULE_CHAT                                                                                  \
    OPTION_ROW("chat", 0, "", "answer PROMPT as a user's message, with the model's chat template", \
               OPTION_FLAG, FIELD(chat), 0, 0, NULL)
#define RULE_SYSTEM                                                                                \
    OPTION_ROW("system", 0, "TEXT", "with --chat: the system message", OPTION_TEXT, FIELD(system), \
               0, 0, NULL)
#define RULE_TEMPLATE_ARG                                                                          \
    OPTION_ROW("template-arg", 0, "NAME=JSON",                                                     \
               "set a variable of the chat template; may be repeated", OPTION_TEXTS,               \
               FIELD(template_args), 0, 0, NULL)
/* Rows for commands whose output can be constrained. */
#define RULES_CONSTRAINT                                                                           \
    OPTION_ROW("json-schema", 0, "FILE", "answer with JSON that the schema in FILE describes",     \
               OPTION_TEXT, FIELD(json_schema), 0, 0, NULL),                                       \
        OPTION_ROW("regex", 0, "PATTERN", "answer with a text that matches PATTERN as a whole",    \
                   OPTION_TEXT, FIELD(regex), 0, 0, NULL),                                         \
        OPTION_ROW("grammar", 0, "FILE",                                                           \
                   "answer with a text of the grammar in FILE (EBNF or GBNF)", OPTION_TEXT,        \
                   FIELD(grammar), 0, 0, NULL),                                                    \
        OPTION_ROW("choices", 0, "A,B", "answer with one of these texts", OPTION_TEXT,             \
                   FIELD(choices), 0, 0, NULL),                                                    \
        OPTION_ROW("json-space", 0, "STYLE",                                                       \
                   "with --json-schema: `spaced`, `compact` or `indented` (spaced)",               \
                   OPTION_CHOICE, FIELD(json_space), 1, 0, smol_json_space_words),                 \
        OPTION_ROW("any-order", 0, "",                                                             \
                   "with --json-schema: properties in any order, not the schema's", OPTION_FLAG,   \
                   FIELD(any_order), 0, 0, NULL)
/* Rows for commands that sample, and for commands that take a prompt. */
#define RULES_SAMPLER RULE_TEMP, RULE_TOP_K, RULE_TOP_P, RULE_MIN_P, RULE_REPEAT_PENALTY, RULE_SEED
#define RULES_SAMPLING RULE_MODEL_DEFAULTS, RULES_SAMPLER
#define RULES_PROMPT RULE_CHAT, RULE_SYSTEM, RULE_TEMPLATE_ARG
#define RULE_REQUIRE_DIGEST                                                                        \
    OPTION_ROW("require-digest", 0, "HEX",                                                         \
               "run only a file with this SHA-256 digest (see sha256sum)", OPTION_TEXT,            \
               FIELD(open.require_digest), 0, 0, NULL)
#define RULE_VERIFY                                                                                \
    OPTION_ROW("verify", 0, "WHEN",                                                                \
               "check the blob's digests at `first` use, at `open`, or `off` (first)",             \
               OPTION_CHOICE, FIELD(open.verify), SMOL_VERIFY_FIRST, 0, smol_verify_words)
#define RULE_NO_MMAP                                                                               \
    OPTION_ROW("no-mmap", 0, "", "read the blob into memory instead of mapping it", OPTION_FLAG,   \
               FIELD(open.no_mmap), 0, 0, NULL)
#define RULE_SANDBOX                                                                               \
    OPTION_ROW("sandbox", 0, "WHEN",                                                               \
               "drop rights: `require` it, `on` as far as possible, or `off` (on)", OPTION_CHOICE, \
               FIELD(sandbox_mode), 1, 0, smol_sandbox_words)
/* Rows for all commands, because all open a model. */
#define RULES_MODEL RULE_VERIFY, RULE_NO_MMAP, RULE_REQUIRE_DIGEST, RULE_SANDBOX

/* Parses a sub-command's words into *settings, which holds the defaults, opens the files to read,
 * and enters the sandbox that the settings allow (sandbox.h). Sets *shown after --help and
 * --version, which end the command. */
smol_status smol_settings_parse(const struct command_line *command, int argc, char **argv,
                                struct settings *settings, bool *shown, smol_error *error);

/* Parses words after smol_settings_parse, so that they override the parameters of a restored
 * sampler. The parameters and *max_tokens stay unchanged unless the words set them. */
smol_status smol_settings_reread(const struct command_line *command, int argc, char **argv,
                                 smol_sampler *sampler, size_t *max_tokens, smol_error *error);

/* Returns the white space of JSON that the options choose, or the default. */
smol_json_space smol_settings_json_space(const struct settings *settings);

/* Sets *params from the options, and with --model-defaults from the model where the options set
 * nothing. */
smol_status smol_settings_sampling(const struct settings *settings, const smol_model *model,
                                   smol_sampler_params *params, smol_error *error);

/* Sets the parameters of a restored sampler in this way. Parameters that neither the options nor
 * the model set stay unchanged. */
smol_status smol_settings_resample(const struct settings *settings, const smol_model *model,
                                   smol_sampler *sampler, smol_error *error);

#endif
