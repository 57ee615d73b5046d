/* smolrun explain: per-token probabilities and alternatives. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/json_out.h"
#include "cli/print.h"
#include "cli/quote.h"
#include "cli/request/likelihood.h"
#include "cli/standard.h"
#include "cli/terminal.h"
#include "common/memory.h"
#include "smolrun/batch.h"
#include "smolrun/command.h"
#include "smolrun/load.h"
#include "smolrun/prompt.h"

static const struct option_rule rules[] = {
    {"", 'n', "N", "generate at most N tokens; -1: no limit (32)", OPTION_LIMIT, FIELD(max_tokens),
     0, 0, NULL},
    {"given", 0, "", "explain the tokens of PROMPT too", OPTION_FLAG, FIELD(given), 0, 0, NULL},
    RULES_SAMPLING,
    RULE_CTX,
    RULE_THREADS,
    RULE_KV,
    RULES_PROMPT,
    RULE_JSON,
    RULES_MODEL,
};

static const struct command_line command = {
    .program = "smolrun",
    .words = "explain FILE.smol PROMPT",
    .about =
        "Continues PROMPT and prints the text, then for each token its probability, its rank\n"
        "(1: the most likely) and the most likely alternatives. PROMPT is as for generation; -\n"
        "reads standard input.\n",
    .notes = "Probabilities are the model's own, before temperature and the other settings change\n"
             "sampling. On a terminal, tokens of at least 75 % are green, of at least 25 %\n"
             "yellow, others red, unless NO_COLOR is set. Rows are no wider than the terminal.\n"
             "With -n 0 and --given nothing is generated.\n",
    .max_words = 2,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

enum { MAX_ROWS = 32, TOKEN_WIDTH = 18, OTHER_WIDTH = 14 };               /* columns, with quotes */
enum { LEFT_WIDTH = TOKEN_WIDTH + 17, OTHER_LEAST = 10, OTHER_REST = 9 }; /* before and around */

struct explanation {
    const struct settings *settings;
    struct loaded loaded;
    uint32_t *prompt;
    size_t n_prompt, n_generated;
    size_t vocab_size;
    float *rows;             /* (MAX_ROWS, vocab_size) */
    struct held_output held; /* a failure in between prints nothing */
    struct json_out json;
    struct choice *choices; /* (n_choices), the prompt's first; unused for JSON */
    size_t n_choices, room;
    struct live_line line; /* the number of generated tokens */
    smol_error text_error; /* of the first token whose text could not be read, or OK */
    struct tally nll;      /* of all explained tokens */
    struct tally given_nll, generated_nll;
    bool color;
    size_t n_others; /* the most alternatives in a row */
    int other_width;
    bool finished;
    smol_finish finish; /* the reason */
};

/* --- text --------------------------------------------------------------------------------- */

/* Returns the text of a token; check_texts reports text_error. */
static const char *token_text(struct explanation *e, uint32_t id, size_t *size)
{
    const char *text;
    smol_error *error = e->text_error.status ? NULL : &e->text_error;
    smol_token_text(e->loaded.model, id, &text, size, NULL, error);
    return text;
}

/* Prints a token in quotes, padded to `width` columns. */
static void print_token(struct explanation *e, uint32_t id, int width)
{
    char shown[QUOTE_BYTES(TOKEN_WIDTH)];
    size_t size;
    const char *text = token_text(e, id, &size);
    size_t n = smol_quote(text, size, (size_t)width - 2, shown);
    fprintf(e->held.file, "%s%*s", shown, width - (int)n, "");
}

/* Fits the rows to the terminal's width: makes the alternatives narrower first, then fewer. */
static void fit_rows(struct explanation *e)
{
    const size_t usual = CHOICE_TOP - 1; /* one of the most likely tokens may be the token itself */
    size_t columns = smol_terminal_columns(STDOUT_FILENO),
           rest = columns > LEFT_WIDTH ? columns - LEFT_WIDTH : 0;
    e->n_others = rest / (OTHER_LEAST + OTHER_REST);
    e->other_width = OTHER_WIDTH;
    if (rest >= CHOICE_TOP * (OTHER_WIDTH + OTHER_REST))
        e->n_others = CHOICE_TOP;
    else if (e->n_others > usual)
        e->n_others = usual;
    else if (e->n_others == 0)
        e->n_others = 1;
    size_t width = rest / e->n_others;
    if (width < OTHER_WIDTH + OTHER_REST)
        e->other_width = width < OTHER_LEAST + OTHER_REST ? OTHER_LEAST : (int)width - OTHER_REST;
}

static void print_heading(struct explanation *e)
{
    fprintf(e->held.file, "%-*s  %8s  %5s  %s\n", TOKEN_WIDTH, "token", "prob", "rank", "instead");
}

static const char *color_of(double probability)
{
    return probability >= 0.75 ? "32" : probability >= 0.25 ? "33" : "31";
}

/* Prints a percentage such as " 12.34 %", right-aligned. Prints "<0.01 %" instead of "0.00 %",
 * which would mean impossible. */
static void print_percent(struct explanation *e, double probability, int width, int digits)
{
    double least = digits == 2 ? 0.01 : 0.1;
    if (100 * probability < least / 2)
        fprintf(e->held.file, "%*s %%", width, digits == 2 ? "<0.01" : "<0.1");
    else
        fprintf(e->held.file, "%*.*f %%", width, digits, 100 * probability);
}

/* Prints the row of a prompt's first token, without numbers: no logits precede it. */
static void print_first(struct explanation *e)
{
    print_token(e, e->prompt[0], TOKEN_WIDTH);
    fprintf(e->held.file, "  %8s  %5s  (nothing precedes it)\n", "-", "-");
}

static void print_choice(struct explanation *e, const struct choice *choice)
{
    double probability = smol_exp(choice->token.log_probability);
    if (e->color)
        fprintf(e->held.file, "\033[%sm", color_of(probability));
    print_token(e, choice->token.id, TOKEN_WIDTH);
    fprintf(e->held.file, "  ");
    print_percent(e, probability, 6, 2);
    fprintf(e->held.file, "%s  %5zu", e->color ? "\033[0m" : "", choice->rank);
    for (size_t i = 0, n = 0; i < choice->n_top && n < e->n_others; i++) {
        const struct ranked *other = &choice->top[i];
        if (other->id == choice->token.id)
            continue;
        n++;
        fprintf(e->held.file, "  ");
        print_token(e, other->id, e->other_width);
        fputc(' ', e->held.file);
        print_percent(e, smol_exp(other->log_probability), 4, 1);
    }
    fputc('\n', e->held.file);
}

/* --- JSON --------------------------------------------------------------------------------- */

static void print_json_token(struct explanation *e, const struct ranked *token)
{
    size_t size;
    const char *text = token_text(e, token->id, &size);
    smol_json_member_whole(&e->json, "id", token->id);
    smol_json_key(&e->json, "text");
    smol_json_text(&e->json, text, size);
    smol_json_member_real(&e->json, "probability", smol_exp(token->log_probability));
    smol_json_member_real(&e->json, "logprob", token->log_probability);
}

static void print_json_choice(struct explanation *e, const struct choice *choice)
{
    smol_json_open(&e->json, '{');
    print_json_token(e, &choice->token);
    smol_json_member_whole(&e->json, "rank", choice->rank);
    smol_json_member_open(&e->json, "top", '[');
    for (size_t i = 0; i < choice->n_top; i++) {
        smol_json_open(&e->json, '{');
        print_json_token(e, &choice->top[i]);
        smol_json_close(&e->json, '}');
    }
    smol_json_close(&e->json, ']');
    smol_json_close(&e->json, '}');
}

/* --- tokens ------------------------------------------------------------------------------- */

static void open_part(struct explanation *e, const char *name)
{
    if (!e->settings->json)
        return;
    smol_json_member_open(&e->json, name, '[');
}

static void close_part(struct explanation *e)
{
    if (e->settings->json)
        smol_json_close(&e->json, ']');
}

static smol_status keep_choice(struct explanation *e, const struct choice *choice,
                               smol_error *error)
{
    if (!GROW(e->choices, e->n_choices, &e->room))
        return smol_fail_memory(error, "the tokens");
    e->choices[e->n_choices++] = *choice;
    return SMOL_OK;
}

static smol_status check_texts(const struct explanation *e, smol_error *error)
{
    if (e->text_error.status)
        *error = e->text_error;
    return e->text_error.status;
}

/* Explains the token `id` by the logits of its position. Adds it to e->nll and *kin. */
static smol_status explain_token(struct explanation *e, const float *logits, uint32_t id,
                                 struct tally *kin, smol_error *error)
{
    const struct choice choice = smol_choice(logits, e->vocab_size, id);
    tally_add(&e->nll, -choice.token.log_probability);
    tally_add(kin, -choice.token.log_probability);
    if (!e->settings->json)
        return keep_choice(e, &choice, error);
    print_json_choice(e, &choice);
    return check_texts(e, error);
}

/* Evaluates the prompt. With --given, explains its tokens, except the first. Leaves the logits
 * after the last token in e->rows. */
static smol_status read_prompt(struct explanation *e, smol_error *error)
{
    smol_context *context = e->loaded.context;
    if (!e->settings->given)
        return smol_eval(context, e->prompt, e->n_prompt, 1, e->rows, error);
    smol_status status = SMOL_OK;
    size_t n = 0;
    open_part(e, "prompt");
    for (size_t done = 0; !status && done < e->n_prompt; done += n) {
        n = e->n_prompt - done < MAX_ROWS ? e->n_prompt - done : MAX_ROWS;
        status = smol_eval(context, e->prompt + done, n, n, e->rows, error);
        for (size_t i = 0; !status && i < n && done + i + 1 < e->n_prompt; i++)
            status = explain_token(e, e->rows + i * e->vocab_size, e->prompt[done + i + 1],
                                   &e->given_nll, error);
    }
    if (status)
        return status;
    close_part(e);
    memmove(e->rows, e->rows + (n - 1) * e->vocab_size, e->vocab_size * sizeof *e->rows);
    return SMOL_OK;
}

static void finish(struct explanation *e, smol_finish why)
{
    e->finish = why;
    e->finished = true;
}

static smol_status next_token(struct explanation *e, smol_sampler *sampler, smol_error *error)
{
    smol_context *context = e->loaded.context;
    uint32_t id;
    size_t n;
    const uint32_t *history = smol_context_ids(context, &n);
    smol_status status = smol_sample(sampler, e->rows, e->vocab_size, history, n, &id, error);
    if (!status)
        status = explain_token(e, e->rows, id, &e->generated_nll, error);
    if (status)
        return status;
    e->n_generated++;
    smol_live_line_draw(&e->line, "generated %zu token%s", e->n_generated, plural(e->n_generated));
    if (smol_model_is_stop_id(e->loaded.model, id))
        finish(e, SMOL_FINISH_STOP);
    else if (e->n_generated == e->settings->max_tokens)
        finish(e, SMOL_FINISH_LENGTH);
    else if (smol_context_length(context) == smol_context_capacity(context))
        finish(e, SMOL_FINISH_CONTEXT_FULL);
    else
        status = smol_eval(context, &id, 1, 1, e->rows, error);
    return status;
}

static smol_status generate(struct explanation *e, smol_error *error)
{
    smol_sampler *sampler;
    smol_sampler_params params;
    smol_status status = smol_settings_sampling(e->settings, e->loaded.model, &params, error);
    if (!status)
        status = smol_sampler_create(&params, &sampler, error);
    if (status)
        return status;
    open_part(e, "tokens");
    if (e->settings->max_tokens == 0)
        finish(e, SMOL_FINISH_LENGTH);
    while (!status && !e->finished)
        status = next_token(e, sampler, error);
    smol_sampler_free(sampler);
    if (!status)
        close_part(e);
    return status;
}

/* --- the command -------------------------------------------------------------------------- */

/* Prints a line such as "12 tokens: mean NLL ...". `kind` is empty, or a word and a space before
 * "tokens". */
static void print_tally(struct explanation *e, const char *kind, const struct tally *nll)
{
    if (nll->n > 0)
        fprintf(e->held.file, "%zu %stoken%s: mean NLL %.4f nats, perplexity %.4f\n", nll->n, kind,
                plural(nll->n), nll->mean, smol_exp(nll->mean));
}

/* Prints text[0..size) in quotes, then an empty line. */
static smol_status print_line(const struct explanation *e, const char *text, size_t size,
                              smol_error *error)
{
    size_t most = 4 * size + 3; /* columns: a byte takes at most four */
    char *line = malloc(QUOTE_BYTES(most));
    if (!line)
        return smol_fail_memory(error, "the text");
    smol_quote(text, size, most, line);
    fprintf(e->held.file, "%s\n\n", line);
    free(line);
    return SMOL_OK;
}

/* Prints the text as generation prints it, without the stop token; with --given, after the
 * prompt. */
static smol_status print_whole_text(const struct explanation *e, smol_error *error)
{
    bool given = e->settings->given;
    size_t n_first = given ? e->n_prompt - 1 : 0, n = 0, size;
    uint32_t *ids = malloc((1 + e->n_choices) * sizeof *ids);
    char *text;
    if (!ids)
        return smol_fail_memory(error, "the text");
    if (given)
        ids[n++] = e->prompt[0];
    for (size_t i = 0; i < e->n_choices; i++)
        if (i < n_first || !smol_model_is_stop_id(e->loaded.model, e->choices[i].token.id))
            ids[n++] = e->choices[i].token.id;
    smol_status status = smol_detokenize(e->loaded.model, ids, n, 0, &text, &size, error);
    free(ids);
    if (status)
        return status;
    if (size > 0)
        status = print_line(e, text, size, error);
    smol_free(text);
    return status;
}

static smol_status print_table(struct explanation *e, smol_error *error)
{
    size_t n_given = e->settings->given ? e->n_prompt - 1 : 0;
    fit_rows(e);
    smol_status status = print_whole_text(e, error);
    if (status)
        return status;
    print_heading(e);
    if (e->settings->given)
        print_first(e);
    for (size_t i = 0; i < e->n_choices; i++) {
        if (e->settings->given && i == n_given)
            fputc('\n', e->held.file);
        print_choice(e, &e->choices[i]);
    }
    fputc('\n', e->held.file);
    print_tally(e, "given ", &e->given_nll);
    print_tally(e, e->settings->given ? "generated " : "", &e->generated_nll);
    return check_texts(e, error);
}

static void print_json_end(struct explanation *e)
{
    smol_json_member_text(&e->json, "finish_reason", smol_finish_words[e->finish]);
    smol_json_member_real(&e->json, "nll", e->nll.n ? e->nll.mean : (double)NAN);
    smol_json_close(&e->json, '}');
    fputc('\n', e->held.file);
}

static smol_status print_explanation(struct explanation *e, smol_error *error)
{
    e->json.file = e->held.file;
    if (e->settings->json)
        smol_json_open(&e->json, '{');
    smol_status status = read_prompt(e, error);
    smol_load_hide_progress(&e->loaded);
    e->line = smol_live_line_start(e->settings->json);
    if (!status)
        status = generate(e, error);
    smol_live_line_end(&e->line);
    if (status || !e->settings->json)
        return status ? status : print_table(e, error);
    print_json_end(e);
    return SMOL_OK;
}

static smol_status explain_prompt(struct explanation *e, smol_error *error)
{
    e->color = !e->settings->json && smol_terminal_colors();
    smol_status status = smol_held_start(&e->held, error);
    if (!status)
        status = smol_held_release(&e->held, print_explanation(e, error), error);
    return status ? status : smol_standard_flush(error);
}

static smol_status explain(struct explanation *e, smol_error *error)
{
    const struct settings *settings = e->settings;
    if (!settings->text)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "explain: the prompt is missing: give one, or - for standard input");
    smol_status status = smol_load(settings, &e->loaded, error);
    if (!status)
        status = smol_prompt_read(settings, e->loaded.model, &e->prompt, &e->n_prompt, error);
    if (status)
        return status;
    size_t capacity = smol_context_capacity(e->loaded.context);
    if (e->n_prompt > capacity)
        return smol_fail(error, SMOL_ERROR_CONTEXT_FULL,
                         "%zu tokens: the context holds %zu: give a shorter prompt or a "
                         "longer --ctx",
                         e->n_prompt, capacity);
    e->vocab_size = smol_model_get_info(e->loaded.model).vocab_size;
    float *rows = calloc(settings->given ? MAX_ROWS : 1, e->vocab_size * sizeof *rows);
    if (!rows)
        return smol_fail_memory(error, "the logits");
    e->rows = rows;
    status = explain_prompt(e, error);
    free(rows);
    if (!status && e->finish == SMOL_FINISH_CONTEXT_FULL)
        status = smol_fail(error, SMOL_ERROR_CONTEXT_FULL,
                           "%s: the context is full (%zu tokens) and the text ends here: "
                           "use a longer --ctx or a shorter prompt",
                           settings->model, capacity);
    return status;
}

smol_status smolrun_explain(int argc, char **argv, smol_error *error)
{
    struct settings settings = {
        .max_tokens = 32, .sampler = {.top_p = 1, .seed = 42}, .show_reading = true};
    struct explanation e = {.settings = &settings};
    bool shown;
    smol_status status = smol_settings_parse(&command, argc, argv, &settings, &shown, error);
    if (status || shown)
        return status;
    status = explain(&e, error);
    smol_free(e.prompt);
    free(e.choices);
    smol_unload(&e.loaded);
    return status;
}
