/* smolrun embed: embeddings of the lines of a text, or how similar they are. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json_out.h"
#include "cli/print.h"
#include "cli/standard.h"
#include "cli/text.h"
#include "smolrun/command.h"
#include "smolrun/load.h"

static const struct option_rule rules[] = {
    {"json", 0, "", "print one JSON object for each line", OPTION_FLAG, FIELD(json), 0, 0, NULL},
    {"npy", 0, "", "print a file of numpy: float32, a row for each line", OPTION_FLAG, FIELD(npy),
     0, 0, NULL},
    {"similarity", 0, "", "print how similar each line after the first is to it: the cosine",
     OPTION_FLAG, FIELD(similarity), 0, 0, NULL},
    {"rerank", 0, "QUERY", "print a reranker's scores: how well each line answers QUERY",
     OPTION_TEXT, FIELD(rerank), 0, 0, NULL},
    {"prompt", 0, "NAME",
     "begin each line with this prompt of the model, such as `query` (its default)", OPTION_TEXT,
     FIELD(prompt), 0, 0, NULL},
    RULE_THREADS,
    RULES_MODEL,
};

static const struct command_line command = {
    .program = "smolrun",
    .words = "embed FILE.smol TEXTFILE",
    .about = "Prints the embedding of each line of TEXTFILE, on a line of its own. TEXTFILE -:\n"
             "standard input.\n",
    .notes =
        "An embedding model embeds whole lines as its checkpoint says. What is longer than its\n"
        "longest text is left out at the end, before the tokens after a text. The embedding of\n"
        "another model is the mean of the hidden states of all tokens, of length 1.\n",
    .max_words = 2,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

enum { GROUP = 32 }; /* texts that are evaluated together */

struct embedding {
    const struct settings *settings;
    FILE *out;
    struct loaded loaded;
    smol_context *contexts[GROUP]; /* the first is the loaded one */
    smol_eval_part parts[GROUP];
    size_t n_parts, n_lines;
    size_t width; /* embedding_size */
    char *text;   /* room for the prompt and a line */
    size_t n_prompt;
    float *rows;  /* (GROUP, width) */
    float *first; /* (width), of the first line */
};

/* --- lines ---------------------------------------------------------------------------------- */

/* Takes the next line of *text, without its end. Returns false after the last one. */
static bool next_line(const char **text, const char *end, const char **line, size_t *size)
{
    if (*text == end)
        return false;
    const char *feed = memchr(*text, '\n', (size_t)(end - *text));
    *line = *text;
    *size = (size_t)((feed ? feed : end) - *text);
    *text = feed ? feed + 1 : end;
    if (*size > 0 && (*line)[*size - 1] == '\r')
        --*size;
    return true;
}

static size_t count_lines(const char *text, const char *end)
{
    const char *line;
    size_t size, n = 0;
    while (next_line(&text, end, &line, &size))
        n++;
    return n;
}

/* --- output --------------------------------------------------------------------------------- */

/* Prints the start of a file of numpy, version 1.0, whose header ends at a multiple of 64. */
static void print_npy_header(FILE *out, size_t n, size_t width)
{
    char header[128];
    int length =
        snprintf(header, sizeof header,
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", n, width);
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, out);
    fprintf(out, "%s%*s\n", header, 117 - length, "");
}

static double cosine(const float *a, const float *b, size_t n)
{
    double product = 0, of_a = 0, of_b = 0;
    for (size_t i = 0; i < n; i++) {
        product += (double)a[i] * (double)b[i];
        of_a += (double)a[i] * (double)a[i];
        of_b += (double)b[i] * (double)b[i];
    }
    return of_a > 0 && of_b > 0 ? product / (sqrt(of_a) * sqrt(of_b)) : 0;
}

static void print_json(const struct embedding *e, size_t index, const float *row, size_t n_tokens)
{
    struct json_out json = {.file = e->out};
    smol_json_open(&json, '{');
    smol_json_member_whole(&json, "index", index);
    smol_json_member_whole(&json, "tokens", n_tokens);
    if (e->settings->rerank) {
        smol_json_key(&json, "score");
        smol_json_float(&json, row[0]);
        smol_json_close(&json, '}');
        fputc('\n', e->out);
        return;
    }
    smol_json_member_open(&json, "embedding", '[');
    for (size_t i = 0; i < e->width; i++)
        smol_json_float(&json, row[i]);
    smol_json_close(&json, ']');
    smol_json_close(&json, '}');
    fputc('\n', e->out);
}

static void print_row(const struct embedding *e, size_t index, const float *row, size_t n_tokens)
{
    if (e->settings->similarity) {
        if (index > 0)
            fprintf(e->out, "%.6f\n", cosine(e->first, row, e->width));
    } else if (e->settings->npy) {
        fwrite(row, sizeof *row, e->width, e->out);
    } else if (e->settings->json) {
        print_json(e, index, row, n_tokens);
    } else {
        for (size_t i = 0; i < e->width; i++)
            fprintf(e->out, i ? " %.9g" : "%.9g", (double)row[i]);
        fputc('\n', e->out);
    }
}

/* --- embeddings ----------------------------------------------------------------------------- */

static smol_status create_contexts(struct embedding *e, smol_error *error)
{
    smol_context_params params = e->settings->context;
    e->contexts[0] = e->loaded.context;
    params.share = e->loaded.context;
    params.n_threads = 0;
    smol_status status = SMOL_OK;
    for (size_t i = 1; i < GROUP && !status; i++)
        status = smol_context_create(e->loaded.model, &params, &e->contexts[i], error);
    return status;
}

/* Adds a line to the group. */
static smol_status add_line(struct embedding *e, const char *line, size_t size, smol_error *error)
{
    const smol_tokenize_params params = {.parse_special = 1, .whole_text = 1, .truncate = 1};
    uint32_t *ids;
    size_t n;
    const char *query = e->settings->rerank;
    memcpy(e->text + e->n_prompt, line, size);
    smol_status status =
        query
            ? smol_tokenize_pair(e->loaded.model, query, strlen(query), line, size, &ids, &n, error)
            : smol_tokenize(e->loaded.model, e->text, e->n_prompt + size, &params, &ids, &n, error);
    if (!status && n == 0)
        status = smol_fail(error, SMOL_ERROR_USAGE, "line %zu has no tokens: remove it",
                           e->n_lines + e->n_parts + 1);
    if (status)
        return status;
    e->parts[e->n_parts] = (smol_eval_part){.context = e->contexts[e->n_parts],
                                            .ids = ids,
                                            .n = n,
                                            .logits = e->rows + e->n_parts * e->width};
    e->n_parts++;
    return SMOL_OK;
}

/* Computes and prints the embeddings of the group, and empties it. */
static smol_status finish_group(struct embedding *e, smol_error *error)
{
    smol_status status = smol_embed_many(e->parts, e->n_parts, SMOL_POOL_MODEL, error);
    for (size_t i = 0; i < e->n_parts; i++) {
        const float *row = e->rows + i * e->width;
        if (!status && e->n_lines == 0)
            memcpy(e->first, row, e->width * sizeof *row);
        if (!status)
            print_row(e, e->n_lines++, row, e->parts[i].n);
        smol_context_truncate(e->contexts[i], 0);
        smol_free((uint32_t *)(uintptr_t)e->parts[i].ids);
    }
    e->n_parts = 0;
    return status ? status : smol_standard_flush(error);
}

static smol_status embed_lines(struct embedding *e, const struct text_in *in, smol_error *error)
{
    const char *text = in->text, *end = in->text + in->size, *line;
    size_t size;
    smol_status status = SMOL_OK;
    if (e->settings->npy)
        print_npy_header(e->out, count_lines(text, end), e->width);
    while (!status && next_line(&text, end, &line, &size)) {
        status = add_line(e, line, size, error);
        if (!status && e->n_parts == GROUP)
            status = finish_group(e, error);
    }
    return status ? status : finish_group(e, error);
}

/* Prints the embeddings of all lines: a file of numpy, whose start promises a number of rows, whole
 * or not at all. */
static smol_status print_embeddings(struct embedding *e, const struct text_in *in,
                                    smol_error *error)
{
    struct held_output held;
    e->out = stdout;
    if (!e->settings->npy)
        return embed_lines(e, in, error);
    smol_status status = smol_held_start(&held, error);
    if (status)
        return status;
    e->out = held.file;
    status = smol_held_release(&held, embed_lines(e, in, error), error);
    return status ? status : smol_standard_flush(error);
}

/* Begins each text with the prompt. `room` is that for a line. */
static smol_status take_prompt(struct embedding *e, size_t room, smol_error *error)
{
    const char *prompt;
    smol_status status = smol_model_prompt(e->loaded.model, e->settings->prompt, &prompt, error);
    if (status)
        return status;
    e->n_prompt = strlen(prompt);
    e->text = malloc(e->n_prompt + room + 1);
    if (!e->text)
        return smol_fail_memory(error, "a line");
    memcpy(e->text, prompt, e->n_prompt);
    return SMOL_OK;
}

static smol_status embed(struct embedding *e, smol_error *error)
{
    const struct settings *settings = e->settings;
    struct input file = settings->text_file;
    struct text_in in = {0};
    if (!settings->text)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "embed: TEXTFILE is missing: give one, or - for standard input");
    if (settings->rerank && (settings->prompt || settings->similarity))
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "embed: --rerank cannot be combined with --prompt or --similarity");
    if (settings->json + settings->npy + settings->similarity > 1)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "embed: give only one of --json, --npy and --similarity");
    smol_status status = smol_load(settings, &e->loaded, error);
    if (status)
        return status;
    const smol_model_info info = smol_model_get_info(e->loaded.model);
    if (info.is_reranker && !settings->rerank)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "%s: a reranker, which scores pairs of texts: give --rerank QUERY",
                         settings->model);
    if (settings->rerank && !info.is_reranker)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: not a reranker, so it scores no pairs of texts: leave out --rerank",
                         settings->model);
    e->width = info.embedding_size;
    e->rows = calloc(GROUP + 1, e->width * sizeof *e->rows);
    if (!e->rows)
        return smol_fail_memory(error, "the embeddings");
    e->first = e->rows + GROUP * e->width;
    status = create_contexts(e, error);
    if (!status)
        status = smol_text_read_input(&file, &in, error);
    if (!status)
        status = take_prompt(e, in.size, error);
    if (!status)
        status = print_embeddings(e, &in, error);
    free(in.owned);
    return status;
}

smol_status smolrun_embed(int argc, char **argv, smol_error *error)
{
    struct settings settings = {.text_is_file = true};
    struct embedding e = {.settings = &settings};
    bool shown;
    smol_status status = smol_settings_parse(&command, argc, argv, &settings, &shown, error);
    if (status || shown)
        return status;
    status = embed(&e, error);
    for (size_t i = 0; i < e.n_parts; i++)
        smol_free((uint32_t *)(uintptr_t)e.parts[i].ids);
    for (size_t i = 1; i < GROUP; i++)
        smol_context_free(e.contexts[i]);
    free(e.rows);
    free(e.text);
    smol_unload(&e.loaded);
    return status;
}
