/* smolrun calibrate: writes statistics from which smolconv quantizes a model better than without.
 */
#include <inttypes.h>

#include "cli/output.h"
#include "cli/print.h"
#include "cli/terminal.h"
#include "common/buffer.h"
#include "common/clock.h"
#include "common/file.h"
#include "smolrun/command.h"
#include "smolrun/load.h"
#include "smolrun/prompt.h"

enum { DEFAULT_WINDOW = 512, DEFAULT_MEMORY = 1024 };

static const struct option_rule rules[] = {
    {"", 'o', "STATS", "write to STATS (required; replaced when it exists)", OPTION_TEXT,
     FIELD(output), 0, 0, NULL},
    {"diagonal", 0, "", "small statistics, for weighted scales only", OPTION_FLAG, FIELD(diagonal),
     0, 0, NULL},
    {"window", 0, "N", "tokens that are evaluated together (512)", OPTION_COUNT, FIELD(window), 1,
     1 << 20, NULL},
    {"memory", 0, "MIB", "MiB for sums; with less, the text is evaluated more often (1024)",
     OPTION_COUNT, FIELD(memory), 1, 1 << 20, NULL},
    RULE_KV,
    RULE_THREADS,
    RULES_MODEL,
};

static const struct command_line command = {
    .program = "smolrun",
    .words = "calibrate FILE.smol TEXT... -o STATS",
    .about =
        "Runs the texts in the files TEXT (-: standard input) through the model, and writes to\n"
        "STATS how strongly the inputs of each matrix vary, and how they vary together. `smolconv\n"
        "--calibration STATS` uses this to round weights where it matters least.\n"
        "FILE.smol must have f32 or bf16 weights and come from the checkpoint to be converted.\n",
    .notes =
        "The texts' tokens are cut into windows of N, each evaluated on its own. STATS takes 2\n"
        "bytes for each pair of a matrix's inputs, with --diagonal 4 bytes for each input. An\n"
        "interrupted run leaves STATS.part, from which the same command continues.\n"
        "The same blob and texts give the same bytes on every machine.\n",
    .max_words = 1 + OPTION_MAX_TEXTS,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

/* The windows of all texts. */
struct calibrate_run {
    const struct settings *settings;
    smol_model *model;
    smol_context *context;
    struct buffer ids, windows; /* uint32_t: of all windows, and their sizes */
    struct output output;
    smol_error file_error; /* of the last read or write */
    struct live_line line;
    double start; /* seconds */
};

/* --- texts -------------------------------------------------------------------------------- */

/* Adds a window that starts with `start`, unless that is SMOL_NO_TOKEN, and continues with
 * ids[0..n). */
static void add_window(struct calibrate_run *c, uint32_t start, const uint32_t *ids, size_t n)
{
    const bool has_start = start != SMOL_NO_TOKEN;
    const uint32_t size = (uint32_t)(n + has_start);
    if (has_start)
        smol_buffer_add(&c->ids, (const char *)&start, sizeof start);
    smol_buffer_add(&c->ids, (const char *)ids, n * sizeof *ids);
    smol_buffer_add(&c->windows, (const char *)&size, sizeof size);
}

/* Cuts a text into windows. If bos starts it, bos starts each of them. */
static void add_ids(struct calibrate_run *c, const uint32_t *ids, size_t n)
{
    uint32_t bos = smol_model_get_info(c->model).bos_id;
    size_t window = smol_context_capacity(c->context);
    bool with_bos = n > 0 && ids[0] == bos && window > 1;
    size_t step = window - with_bos;
    for (size_t at = with_bos; at < n; at += step)
        add_window(c, with_bos ? bos : SMOL_NO_TOKEN, ids + at, n - at < step ? n - at : step);
}

static smol_status read_texts(struct calibrate_run *c, smol_error *error)
{
    smol_status status = SMOL_OK;
    for (size_t i = 0; !status && i < c->settings->texts.n; i++) {
        uint32_t *ids = NULL;
        size_t n = 0;
        status = smol_prompt_file(c->settings->text_files[i], c->model, &ids, &n, error);
        if (!status)
            add_ids(c, ids, n);
        smol_free(ids);
        if (!status && (c->ids.failed || c->windows.failed))
            status = smol_fail_memory(error, "the text");
    }
    if (!status && c->ids.size == 0)
        status = smol_fail(error, SMOL_ERROR_USAGE, "%.300s: no tokens: give a longer text",
                           c->settings->text);
    return status;
}

/* --- the file and the progress ------------------------------------------------------------ */

static int write_stats(void *user, uint64_t offset, const void *data, size_t size)
{
    struct calibrate_run *c = user;
    return (int)smol_output_write(&c->output, offset, data, size, &c->file_error);
}

static int read_stats(void *user, uint64_t offset, void *data, size_t size, size_t *n)
{
    struct calibrate_run *c = user;
    return (int)smol_output_read(&c->output, offset, data, size, n, &c->file_error);
}

static int show_progress(void *user, uint64_t done, uint64_t total)
{
    struct calibrate_run *c = user;
    if (smol_live_line_is_due(&c->line))
        smol_live_line_draw(&c->line, "%" PRIu64 " of %" PRIu64 " tokens, %.0f s left", done, total,
                            (c->line.drawn - c->start) * (double)(total - done) / (double)done);
    return 0;
}

static smol_status write_file(struct calibrate_run *c, smol_error *error)
{
    const smol_calibrate_params params = {
        .diagonal = c->settings->diagonal,
        .max_bytes = (size_t)c->settings->memory << 20,
        .write = write_stats,
        .read = read_stats,
        .on_progress = show_progress,
        .user = c,
    };
    uint64_t size;
    c->line = smol_live_line_start(false);
    c->start = clock_seconds();
    const void *ids = c->ids.text, *windows = c->windows.text;
    smol_status status = smol_calibrate(c->context, ids, windows,
                                        c->windows.size / sizeof(uint32_t), &params, &size, error);
    smol_live_line_end(&c->line);
    if (status && c->file_error.status)
        *error = c->file_error;
    if (!status)
        status = smol_output_truncate(&c->output, size, error);
    return status ? status : smol_output_commit(&c->output, error);
}

/* --- the command -------------------------------------------------------------------------- */

static smol_status check(const struct settings *settings, smol_error *error)
{
    if (!settings->text)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "calibrate: TEXT is missing: give files, or - for standard input");
    if (!settings->output)
        return smol_fail(error, SMOL_ERROR_USAGE, "calibrate: -o STATS is missing");
    for (size_t i = 0; i < settings->texts.n; i++)
        if (smol_same_file(settings->output, settings->texts.items[i]))
            return smol_fail(error, SMOL_ERROR_USAGE,
                             "%.300s: is a text itself: name another output", settings->output);
    return SMOL_OK;
}

static smol_status load(struct calibrate_run *c, smol_error *error)
{
    smol_context_params params = c->settings->context;
    smol_status status = smol_load_model(c->settings, &c->model, error);
    if (status)
        return status;
    uint32_t most = smol_model_get_info(c->model).context_length;
    params.n_ctx = c->settings->window < most ? c->settings->window : most;
    return smol_context_create(c->model, &params, &c->context, error);
}

static smol_status calibrate(struct calibrate_run *c, smol_error *error)
{
    smol_status status = check(c->settings, error);
    if (!status)
        status = load(c, error);
    if (!status)
        status = read_texts(c, error);
    return status ? status : write_file(c, error);
}

/* Returns whether nothing has been written, by an earlier run either. */
static bool is_empty(const struct output *output)
{
    char byte;
    size_t n;
    smol_error error;
    return smol_output_read(output, 0, &byte, sizeof byte, &n, &error) == SMOL_OK && n == 0;
}

smol_status smolrun_calibrate(int argc, char **argv, smol_error *error)
{
    struct settings settings = {
        .texts_are_files = true, .window = DEFAULT_WINDOW, .memory = DEFAULT_MEMORY};
    struct calibrate_run c = {.settings = &settings};
    bool shown;
    smol_status status = smol_settings_parse(&command, argc, argv, &settings, &shown, error);
    if (status || shown)
        return status;
    c.output = settings.resumed;
    status = calibrate(&c, error);
    if (status && settings.output && c.output.fd >= 0) { /* otherwise it ended with commit */
        if (is_empty(&c.output))
            smol_output_forget(&c.output);
        smol_output_discard(&c.output);
    }
    smol_free(c.ids.text);
    smol_free(c.windows.text);
    smol_context_free(c.context);
    smol_model_close(c.model);
    return status;
}
