/* smolrun logits: writes the logits after each position of a text to a file. */
#include <stdlib.h>

#include "cli/output.h"
#include "cli/print.h"
#include "smolrun/command.h"
#include "smolrun/load.h"
#include "smolrun/prompt.h"

static const struct option_rule rules[] = {
    {"tokens", 0, "IDS", "evaluate these token ids instead of TEXT; -: standard input", OPTION_TEXT,
     FIELD(tokens), 0, 0, NULL},
    {"", 'o', "FILE", "write to FILE (required; replaced when it exists)", OPTION_TEXT,
     FIELD(output), 0, 0, NULL},
    {"last", 0, "K", "only the last K positions, or all when there are fewer", OPTION_COUNT,
     FIELD(last), 1, UINT32_MAX, NULL},
    RULE_KV,
    RULE_THREADS,
    RULES_MODEL,
};

static const struct command_line command = {
    .program = "smolrun",
    .words = "logits FILE.smol TEXT -o FILE",
    .about = "Writes the logits after each token of TEXT: float32, little-endian, an array of\n"
             "(positions, vocabulary). TEXT -: standard input; empty: the bos token.\n",
    .notes = "FILE appears whole or not at all.\n",
    .max_words = 2,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

enum { MAX_BUFFER = 16 << 20 }; /* bytes of logits in memory, or more if one position needs it */

struct sequence {
    uint32_t *ids;
    size_t n, first; /* logits of positions from `first` on are written */
};

static smol_status read_sequence(const struct settings *settings, const smol_model *model,
                                 struct sequence *sequence, smol_error *error)
{
    uint32_t vocab_size = smol_model_get_info(model).vocab_size;
    smol_status status =
        settings->text
            ? smol_prompt_argument(settings->text, model, &sequence->ids, &sequence->n, error)
            : smol_prompt_list(settings->tokens, vocab_size, &sequence->ids, &sequence->n, error);
    if (status)
        return status;
    if (sequence->n == 0)
        return smol_fail(error, SMOL_ERROR_USAGE, "--tokens: give at least one id");
    bool part = settings->last > 0 && settings->last < sequence->n;
    sequence->first = part ? sequence->n - settings->last : 0;
    return SMOL_OK;
}

static smol_status write_rows(smol_context *context, const struct sequence *sequence,
                              size_t row_size, float *rows, size_t n_rows, struct output *output,
                              smol_error *error)
{
    uint64_t offset = 0;
    smol_status status = SMOL_OK;
    if (sequence->first > 0)
        status = smol_eval(context, sequence->ids, sequence->first, 0, NULL, error);
    for (size_t done = sequence->first; !status && done < sequence->n;) {
        size_t n = sequence->n - done < n_rows ? sequence->n - done : n_rows;
        status = smol_eval(context, sequence->ids + done, n, n, rows, error);
        if (!status)
            status = smol_output_write(output, offset, rows, n * row_size, error);
        offset += n * row_size;
        done += n;
    }
    return status;
}

static smol_status write_file(const char *path, smol_context *context,
                              const struct sequence *sequence, size_t vocab_size, smol_error *error)
{
    struct output output;
    size_t row_size = vocab_size * sizeof(float);
    size_t n_rows = row_size < MAX_BUFFER ? MAX_BUFFER / row_size : 1;
    float *rows = calloc(n_rows, row_size);
    if (!rows)
        return smol_fail(error, SMOL_ERROR_MEMORY, "out of memory for the logits");
    smol_status status = smol_output_open(path, true, &output, error);
    if (!status) {
        status = write_rows(context, sequence, row_size, rows, n_rows, &output, error);
        if (status)
            smol_output_discard(&output);
        else
            status = smol_output_commit(&output, error);
    }
    free(rows);
    return status;
}

/* Checks that the text fits into the context, before anything is computed. */
static smol_status check_room(const smol_context *context, size_t n, smol_error *error)
{
    size_t capacity = smol_context_capacity(context);
    if (n <= capacity)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_CONTEXT_FULL,
                     "%zu tokens: the model's context holds %zu: give a shorter text", n, capacity);
}

static smol_status logits(const struct settings *settings, smol_error *error)
{
    if (!settings->text == !settings->tokens)
        return smol_fail(error, SMOL_ERROR_USAGE, "logits: give either TEXT or --tokens");
    if (!settings->output)
        return smol_fail(error, SMOL_ERROR_USAGE, "logits: -o FILE is missing");
    struct loaded loaded;
    struct sequence sequence = {0};
    smol_status status = smol_load(settings, &loaded, error);
    if (!status)
        status = read_sequence(settings, loaded.model, &sequence, error);
    if (!status)
        status = check_room(loaded.context, sequence.n, error);
    if (!status)
        status = write_file(settings->output, loaded.context, &sequence,
                            smol_model_get_info(loaded.model).vocab_size, error);
    free(sequence.ids);
    smol_unload(&loaded);
    return status;
}

smol_status smolrun_logits(int argc, char **argv, smol_error *error)
{
    struct settings settings = {0};
    bool shown;
    smol_status status = smol_settings_parse(&command, argc, argv, &settings, &shown, error);
    if (status || shown)
        return status;
    return logits(&settings, error);
}
