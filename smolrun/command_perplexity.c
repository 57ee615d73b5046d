/* smolrun perplexity: measures how well a model predicts a text, and how much its predictions
 * differ from another model's. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/json_out.h"
#include "cli/print.h"
#include "cli/request/likelihood.h"
#include "cli/standard.h"
#include "cli/terminal.h"
#include "common/clock.h"
#include "common/file.h"
#include "smolrun/command.h"
#include "smolrun/load.h"
#include "smolrun/prompt.h"
#include "smolrun/saved_logits.h"

static const struct option_rule rules[] = {
    {"ctx", 0, "N", "tokens in a window (the model's context)", OPTION_COUNT, FIELD(context.n_ctx),
     2, UINT32_MAX, NULL},
    {"save-logits", 0, "FILE", "save the logits to FILE (replaced if it exists)", OPTION_TEXT,
     FIELD(output), 0, 0, NULL},
    {"kl-from", 0, "FILE", "compare with the logits in FILE, which --save-logits wrote",
     OPTION_TEXT, FIELD(kl_from), 0, 0, NULL},
    RULE_JSON,
    RULE_KV,
    RULE_THREADS,
    RULES_MODEL,
};

static const struct command_line command = {
    .program = "smolrun",
    .words = "perplexity FILE.smol TEXTFILE",
    .about =
        "Measures how well the model predicts the text of TEXTFILE (-: standard input): the mean\n"
        "negative log-likelihood of its tokens, and the perplexity, which is e to the power of\n"
        "that. The text's tokens, as printed by `smolrun tokenize`, are cut into windows of N. "
        "The\n"
        "model predicts each token from those before it in the same window; the first token of a\n"
        "window is not scored.\n",
    .notes =
        "The figure after +/- is the standard error of the mean. --kl-from adds the mean\n"
        "Kullback-Leibler divergence of this model's predictions from those in FILE, and how "
        "often\n"
        "both agree on the most likely token. FILE must have the same text, --ctx and tokenizer;\n"
        "it takes 4 bytes per scored token and vocabulary entry.\n"
        "The same blob and text give the same figures on every machine. On a terminal, progress\n"
        "is shown on standard error, unless the result is JSON.\n",
    .max_words = 2,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

enum { MAX_BUFFER = 32 << 20, MAX_ROWS = 128 }; /* bytes and rows of logits; at least one row */

struct measurement {
    const struct settings *settings;
    struct loaded loaded;
    uint32_t *ids;
    size_t n_ids, window, n_windows, n_scored;
    size_t vocab_size, n_rows;
    float *rows;                /* (n_rows, vocab_size) */
    struct saved_writer writer; /* with --save-logits */
    struct saved_reader reader; /* with --kl-from */
    struct tally nll, reference_nll, kl;
    double largest_kl;
    size_t n_same_top;
    struct live_line line; /* progress */
    double start;          /* seconds */
};

/* --- scoring ------------------------------------------------------------------------------ */

/* Returns the Kullback-Leibler divergence of q from p: the sum of p log(p / q). Each is given by
 * its logits (n) and their smol_log_sum_exp. */
static double divergence(const float *p, double p_sum, const float *q, double q_sum, size_t n)
{
    double kl = 0;
    for (size_t i = 0; i < n; i++) {
        double log_p = (double)p[i] - p_sum, log_q = (double)q[i] - q_sum;
        kl += smol_exp(log_p) * (log_p - log_q);
    }
    return kl;
}

static void compare(struct measurement *m, const float *row, double sum, uint32_t next)
{
    const float *reference = m->reader.row;
    double reference_sum = smol_log_sum_exp(reference, m->vocab_size);
    double kl = divergence(reference, reference_sum, row, sum, m->vocab_size);
    tally_add(&m->reference_nll, reference_sum - (double)reference[next]);
    tally_add(&m->kl, kl);
    m->largest_kl = kl > m->largest_kl ? kl : m->largest_kl;
    m->n_same_top += smol_top_token(reference, m->vocab_size) == smol_top_token(row, m->vocab_size);
}

/* Scores the logits `row` as a prediction of the token `next`. */
static smol_status score(struct measurement *m, const float *row, uint32_t next, smol_error *error)
{
    smol_status status = SMOL_OK;
    double sum = smol_log_sum_exp(row, m->vocab_size);
    tally_add(&m->nll, sum - (double)row[next]);
    if (m->settings->output)
        status = smol_saved_add(&m->writer, row, error);
    if (!status && m->settings->kl_from) {
        status = smol_saved_next(&m->reader, error);
        if (!status)
            compare(m, row, sum, next);
    }
    return status;
}

/* --- progress ----------------------------------------------------------------------------- */

/* Formats a duration: "40 s", "12 min", "3 h 20 min". */
static void name_time(double seconds, char *name, size_t size)
{
    uint64_t minutes = (uint64_t)(seconds / 60);
    if (seconds < 60)
        snprintf(name, size, "%.0f s", seconds);
    else if (minutes < 60)
        snprintf(name, size, "%" PRIu64 " min", minutes);
    else
        snprintf(name, size, "%" PRIu64 " h %" PRIu64 " min", minutes / 60, minutes % 60);
}

/* Draws the progress after some tokens of window `number`, counted from 1. */
static void show_progress(struct measurement *m, size_t number)
{
    char left[48];
    double rest = (double)(m->n_scored - m->nll.n);
    if (!smol_live_line_is_due(&m->line))
        return;
    name_time((m->line.drawn - m->start) * rest / (double)m->nll.n, left, sizeof left);
    smol_live_line_draw(&m->line, "window %zu of %zu: perplexity %.4g so far, %s left", number,
                        m->n_windows, smol_exp(m->nll.mean), left);
}

/* --- the text ----------------------------------------------------------------------------- */

/* Scores window i, ids[0..n). The last token is only predicted, not evaluated. */
static smol_status score_window(struct measurement *m, size_t i, const uint32_t *ids, size_t n,
                                smol_error *error)
{
    smol_status status = SMOL_OK;
    smol_context_truncate(m->loaded.context, 0);
    for (size_t done = 0; !status && done + 1 < n;) {
        size_t rest = n - 1 - done, batch = rest < m->n_rows ? rest : m->n_rows;
        status = smol_eval(m->loaded.context, ids + done, batch, batch, m->rows, error);
        for (size_t row = 0; !status && row < batch; row++)
            status = score(m, m->rows + row * m->vocab_size, ids[done + row + 1], error);
        done += batch;
        if (!status)
            show_progress(m, i + 1);
    }
    return status;
}

static smol_status score_text(struct measurement *m, smol_error *error)
{
    smol_status status = SMOL_OK;
    m->line = smol_live_line_start(m->settings->json);
    m->start = clock_seconds();
    for (size_t i = 0; !status && i < m->n_windows; i++) {
        size_t start = i * m->window, rest = m->n_ids - start;
        size_t n = rest < m->window ? rest : m->window;
        status = score_window(m, i, m->ids + start, n, error);
    }
    smol_live_line_end(&m->line);
    return !status && m->settings->kl_from ? smol_saved_end(&m->reader, error) : status;
}

/* --- results ------------------------------------------------------------------------------ */

static void print_share(const char *name, size_t n, size_t of)
{
    double share = (double)n / (double)of;
    printf("%-22s %.2f %% +/- %.2f\n", name, 100 * share,
           100 * sqrt(share * (1 - share) / (double)of));
}

static void print_perplexity(const char *name, const struct tally *nll)
{
    double perplexity = smol_exp(nll->mean);
    printf("%-22s %.4f +/- %.4f\n", name, perplexity, perplexity * tally_error(nll));
}

static void print_text(const struct measurement *m)
{
    printf("%-22s %zu, of which %zu scored, in %zu window%s of %zu\n", "tokens", m->n_ids,
           m->n_scored, m->n_windows, plural(m->n_windows), m->window);
    printf("%-22s %.5f +/- %.5f nats\n", "mean NLL", m->nll.mean, tally_error(&m->nll));
    print_perplexity("perplexity", &m->nll);
    if (!m->settings->kl_from)
        return;
    print_perplexity("reference perplexity", &m->reference_nll);
    printf("%-22s %.6f +/- %.6f nats, at most %.4f\n", "KL divergence", m->kl.mean,
           tally_error(&m->kl), m->largest_kl);
    print_share("same top token", m->n_same_top, m->n_scored);
}

static void print_json(const struct measurement *m)
{
    struct json_out json = {.file = stdout};
    double perplexity = smol_exp(m->nll.mean);
    smol_json_open(&json, '{');
    smol_json_member_whole(&json, "tokens", m->n_ids);
    smol_json_member_whole(&json, "scored", m->n_scored);
    smol_json_member_whole(&json, "windows", m->n_windows);
    smol_json_member_whole(&json, "ctx", m->window);
    smol_json_member_real(&json, "nll", m->nll.mean);
    smol_json_member_real(&json, "nll_error", tally_error(&m->nll));
    smol_json_member_real(&json, "perplexity", perplexity);
    smol_json_member_real(&json, "perplexity_error", perplexity * tally_error(&m->nll));
    if (m->settings->kl_from) {
        smol_json_member_real(&json, "reference_nll", m->reference_nll.mean);
        smol_json_member_real(&json, "reference_perplexity", smol_exp(m->reference_nll.mean));
        smol_json_member_real(&json, "kl", m->kl.mean);
        smol_json_member_real(&json, "kl_error", tally_error(&m->kl));
        smol_json_member_real(&json, "kl_largest", m->largest_kl);
        smol_json_member_real(&json, "same_top", (double)m->n_same_top / (double)m->n_scored);
    }
    smol_json_close(&json, '}');
    putchar('\n');
}

/* --- the command -------------------------------------------------------------------------- */

static smol_status read_text(struct measurement *m, smol_error *error)
{
    smol_status status =
        smol_prompt_file(m->settings->text_file, m->loaded.model, &m->ids, &m->n_ids, error);
    if (!status && m->n_ids < 2)
        status = smol_fail(error, SMOL_ERROR_USAGE,
                           "%.300s: %zu token%s, of which the first is not scored: give a "
                           "longer text",
                           m->settings->text, m->n_ids, plural(m->n_ids));
    return status;
}

/* Computes the sizes and allocates the logits. A last window of a single token has nothing to
 * score. */
static smol_status prepare(struct measurement *m, smol_error *error)
{
    m->window = smol_context_capacity(m->loaded.context);
    size_t rest = m->n_ids % m->window;
    m->n_windows = m->n_ids / m->window + (rest > 1);
    m->n_scored = m->n_ids - m->n_windows - (rest == 1);
    m->vocab_size = smol_model_get_info(m->loaded.model).vocab_size;
    size_t row_size = m->vocab_size * sizeof(float);
    m->n_rows = row_size < MAX_BUFFER ? MAX_BUFFER / row_size : 1;
    m->n_rows = m->n_rows < MAX_ROWS ? m->n_rows : MAX_ROWS;
    m->rows = calloc(m->n_rows, row_size);
    return m->rows ? SMOL_OK : smol_fail_memory(error, "the logits");
}

/* Scores the text, reading the file of --kl-from and writing the file of --save-logits. */
static smol_status measure(struct measurement *m, smol_error *error)
{
    const struct settings *settings = m->settings;
    const struct saved_text text = {m->ids, m->n_ids, m->n_scored, (uint32_t)m->vocab_size,
                                    (uint32_t)m->window};
    smol_status status = SMOL_OK;
    if (settings->kl_from)
        status = smol_saved_open(&settings->kl_file, &text, &m->reader, error);
    if (!status && settings->output)
        status = smol_saved_create(settings->output, &text, &m->writer, error);
    if (status)
        return status;
    status = score_text(m, error);
    if (settings->output && status)
        smol_saved_discard(&m->writer);
    else if (settings->output)
        status = smol_saved_commit(&m->writer, error);
    return status;
}

static smol_status perplexity(struct measurement *m, smol_error *error)
{
    const struct settings *settings = m->settings;
    if (!settings->text)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "perplexity: TEXTFILE is missing: give one, or - for standard "
                         "input");
    if (settings->output && smol_same_file(settings->output, settings->text))
        return smol_fail(error, SMOL_ERROR_USAGE, "%.300s: is the text itself: name another output",
                         settings->output);
    smol_status status = smol_load(settings, &m->loaded, error);
    if (!status)
        status = read_text(m, error);
    if (!status)
        status = prepare(m, error);
    if (!status)
        status = measure(m, error);
    if (status)
        return status;
    if (settings->json)
        print_json(m);
    else
        print_text(m);
    return smol_standard_flush(error);
}

smol_status smolrun_perplexity(int argc, char **argv, smol_error *error)
{
    struct settings settings = {.text_is_file = true};
    struct measurement m = {.settings = &settings};
    bool shown;
    smol_status status = smol_settings_parse(&command, argc, argv, &settings, &shown, error);
    if (status || shown)
        return status;
    status = perplexity(&m, error);
    smol_saved_close(&m.reader);
    free(m.rows);
    smol_free(m.ids);
    smol_unload(&m.loaded);
    return status;
}
