/* smolrun FILE.smol PROMPT: generates text. */
#include <math.h>
#include <stdio.h>

#include "cli/print.h"
#include "cli/standard.h"
#include "cli/terminal.h"
#include "smolrun/batch.h"
#include "smolrun/command.h"
#include "smolrun/constrain.h"
#include "smolrun/load.h"
#include "smolrun/prompt.h"
#include "smolrun/session_file.h"

static const struct option_rule rules[] = {
    RULE_MAX_TOKENS,
    RULES_SAMPLING,
    RULE_STOP,
    RULES_CONSTRAINT,
    RULE_CTX,
    {"slide", 0, "", "when the context is full, forget its middle and continue", OPTION_FLAG,
     FIELD(slide), 0, 0, NULL},
    {"keep", 0, "N", "with --slide: never forget the first N tokens (see below)", OPTION_COUNT,
     FIELD(keep), 0, UINT32_MAX - 1, NULL},
    RULE_LOOKUP,
    RULE_THREADS,
    RULE_KV,
    RULES_PROMPT,
    RULE_REASONING_BUDGET,
    {"session", 0, "FILE", "continue the session in FILE, if it exists, and save it there",
     OPTION_TEXT, FIELD(session), 0, 0, NULL},
    {"jsonl", 0, "", "answer requests from standard input, a JSON object a line (see below)",
     OPTION_FLAG, FIELD(jsonl), 0, 0, NULL},
    {"sequences", 0, "N", "with --jsonl: answer N requests at a time (8)", OPTION_COUNT,
     FIELD(n_sequences), 1, MAX_SEQUENCES, NULL},
    {"ids", 0, "", "print token ids instead of text", OPTION_FLAG, FIELD(ids), 0, 0, NULL},
    RULE_JSON,
    RULE_STATS,
    RULES_MODEL,
};

static const struct command_line command = {
    .program = "smolrun",
    .words = "FILE.smol PROMPT",
    .about =
        "Continues PROMPT and prints the continuation, followed by a newline. If PROMPT is -, it\n"
        "is read from standard input; an empty PROMPT is the bos token. The tokenizer's own\n"
        "tokens around a text, such as bos, are added. With --chat, PROMPT is a user's message,\n"
        "and the answer is printed, on a terminal together with the model's reasoning.\n"
        "With --session, the text continues that of the session. A PROMPT (with --chat: a\n"
        "conversation) that begins with the session's text replaces it, and only the rest is\n"
        "evaluated; an empty PROMPT adds nothing.\n",
    .commands = "  smolrun chat         a conversation\n"
                "  smolrun tokenize     text to token ids and back\n"
                "  smolrun logits       logits into a file\n"
                "  smolrun bench        measure speed\n"
                "  smolrun perplexity   measure how well the model predicts a text\n"
                "  smolrun explain      per-token probabilities and alternatives\n"
                "  smolrun calibrate    statistics for smolconv --calibration\n"
                "  smolrun embed        embeddings of the lines of a text\n",
    .notes =
        "When the context is full, --slide keeps the first N tokens (by default the prompt, at\n"
        "most half of the context) and the newest half of the others, and continues as if the\n"
        "text had begun that way. It evaluates that half again: a pause as for a prompt of that\n"
        "length.\n\n"
        "A request of --jsonl has a `prompt` (text) or `messages` (a list, for the chat\n"
        "template, optionally with `tools`, `documents` and `chat_template_kwargs`). It may have\n"
        "`max_tokens`, `temperature`, `top_k`, `top_p`, `min_p`, `repetition_penalty`,\n"
        "`frequency_penalty`, `presence_penalty`, `logit_bias` (an object of token ids), `seed`,\n"
        "`stop` (a text or a list), `response_format`, `logprobs` (the number of alternatives per\n"
        "token, 0 to 20), `id` and `model` (echoed) and `stream` (false). Options on the command\n"
        "line are the defaults. A line has at most 1 MiB. Answers are printed in order, each the\n"
        "same as if its request were the only one. The answer to an invalid request is an error.\n"
        "\n"
        "The same blob, prompt, settings and seed give the same text on every machine. In the\n"
        "environment, SMOL_ISA=scalar forces a set of kernels, and SMOL_SANDBOX=off means\n"
        "--sandbox off, for all commands.\n\n"
        "Exit status: 0 success, 2 wrong usage, 3 a file is missing, unreadable, unwritable or\n"
        "changed while in use (without a message if the reader of the output has closed it),\n"
        "4 a damaged blob, 5 not supported, 6 out of memory, 7 numeric failure, 8 the context\n"
        "is full.\n",
    .max_words = 2,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

/* The bytes of a conversation without messages in a session's data (format/SESSION.md, 5). */
enum { EMPTY_CHAT = 4 };

/* A generation and its results so far. */
struct run {
    const struct settings *settings;
    struct loaded loaded;
    struct session_file file; /* of --session */
    size_t n_kept;            /* tokens of the session before the prompt */
    struct wanted_constraint wanted;
    smol_constraint *constraint; /* or NULL */
    smol_matcher *matcher;       /* of the constraint */
    struct buffer place;         /* of the session's answer in its constraint */
    struct answer answer;        /* collected for --json, otherwise what is yet to be printed */
    bool any_id, any_text;       /* an id, or text, was printed */
    bool reasons;                /* reasoning was, and no text after it */
    smol_status output_status;   /* an error of standard output, which cancelled the generation */
    smol_error output_error;
};

/* --- output ------------------------------------------------------------------------------- */

/* Prints the parts of the answer that are new. */
static void print_text(struct run *run)
{
    run->any_text |= run->answer.parts.text.size > 0;
    smol_answer_show(&run->answer.parts, &run->reasons, smol_terminal_print);
}

static int take_text(void *user, const char *text, size_t size, uint32_t id)
{
    struct run *run = user;
    const struct settings *settings = run->settings;
    smol_load_hide_progress(&run->loaded);
    if (settings->json)
        return smol_answer_text(&run->answer, text, size, id);
    if (!settings->ids) {
        if (!smol_parts_add(&run->answer.parts, text, size, id))
            run->answer.parts.text.failed = true;
        print_text(run);
    } else if (id != SMOL_NO_TOKEN) {
        printf(run->any_id ? " %u" : "%u", id);
        run->any_id = true;
    }
    run->output_status = smol_standard_flush(&run->output_error);
    return run->output_status || run->answer.parts.text.failed;
}

/* Prints the timings. Prefill produces the first token, decode the others. A rate that was not
 * measured is NaN, which JSON shows as null. */
static void print_timings(struct json_out *json, const struct run *run)
{
    const smol_generate_result *result = &run->answer.result;
    double decoded = (double)result->n_generated - 1;
    smol_json_member_open(json, "timings", '{');
    smol_json_member_real(json, "load_ms", run->loaded.load_seconds * 1e3);
    smol_json_member_real(json, "first_token_ms", result->first_token_seconds * 1e3);
    smol_json_member_real(json, "prefill_tokens_per_second",
                          (double)result->n_prompt / result->prompt_seconds);
    smol_json_member_real(json, "decode_tokens_per_second",
                          decoded > 0 ? decoded / result->decode_seconds : (double)NAN);
    if (run->settings->slide) {
        smol_json_member_whole(json, "slides", result->n_slides);
        smol_json_member_real(json, "slide_ms", result->slide_seconds * 1e3);
    }
    if (run->settings->lookup) {
        smol_json_member_whole(json, "guessed", result->n_guessed);
        smol_json_member_whole(json, "guessed_right", result->n_guessed_right);
    }
    smol_json_close(json, '}');
}

static void print_json(const struct run *run)
{
    struct json_out json = {.file = stdout};
    smol_json_open(&json, '{');
    smol_answer_members(&json, &run->answer);
    if (run->settings->session)
        smol_json_member_whole(&json, "session_tokens", run->n_kept);
    smol_json_member_whole(&json, "prompt_tokens", run->answer.result.n_prompt);
    smol_json_member_whole(&json, "completion_tokens", run->answer.result.n_generated);
    print_timings(&json, run);
    smol_json_close(&json, '}');
}

static smol_status finish_output(struct run *run, smol_error *error)
{
    if (run->output_status) {
        *error = run->output_error;
        return run->output_status;
    }
    if (run->answer.parts.text.failed || run->answer.ids.failed ||
        smol_answer_end(&run->answer, NULL))
        return smol_fail_memory(error, "the text");
    if (run->settings->json)
        print_json(run);
    else if (!run->settings->ids)
        print_text(run);
    putchar('\n');
    if (run->answer.parts.n_reasoning_tokens > 0 && !run->any_text && !run->settings->json &&
        !run->settings->ids && run->answer.result.finish == SMOL_FINISH_LENGTH)
        fputs("smolrun: the answer was cut off within its reasoning: raise -n, or limit the "
              "reasoning with --reasoning-budget\n",
              stderr);
    return smol_standard_flush(error);
}

/* --- generation --------------------------------------------------------------------------- */

/* Returns how many tokens at the start are kept whenever the context slides. */
static size_t count_kept(const struct run *run, size_t n_prompt)
{
    const smol_context *context = run->loaded.context;
    size_t half = smol_context_capacity(context) / 2;
    size_t n_given = smol_context_length(context) + n_prompt;
    if (n_prompt == 0 && smol_context_pending(context) != SMOL_NO_TOKEN)
        n_given++;
    if (run->settings->keep != UINT32_MAX)
        return run->settings->keep;
    return n_given < half ? n_given : half;
}

/* Saves the session: with the place of the answer in its constraint, unless it is complete. */
static smol_status save(struct run *run, smol_sampler *sampler, smol_error *error)
{
    smol_status status = SMOL_OK;
    if (!run->settings->session)
        return SMOL_OK;
    run->place.size = 0;
    if (run->matcher && run->answer.result.finish != SMOL_FINISH_STOP)
        status = smol_place_store(&run->place, run->constraint, run->matcher, error);
    const smol_session session = {
        .sampler = sampler, .data = run->place.text, .size = run->place.size};
    return status ? status : smol_session_save(&run->file, run->loaded.context, &session, error);
}

static smol_status generate(struct run *run, smol_sampler *sampler, const uint32_t *prompt,
                            size_t n, smol_error *error)
{
    const struct settings *settings = run->settings;
    smol_generate_result *result = &run->answer.result;
    run->n_kept = smol_context_length(run->loaded.context);
    smol_generate_params params = {
        .max_tokens = settings->max_tokens,
        .prompt_only = settings->max_tokens == 0,
        .stop = settings->stop.items,
        .n_stop = settings->stop.n,
        .slide = settings->slide,
        .n_keep = count_kept(run, n),
        .penalize_context = 1,
        .on_text = take_text,
        .user = run,
        .matcher = run->matcher,
        .lookup = (uint64_t)settings->lookup,
        .new_text = settings->chat != 0,
    };
    smol_parts_set(&run->answer.parts, &params);
    smol_status status =
        smol_generate(run->loaded.context, sampler, prompt, n, &params, result, error);
    smol_load_hide_progress(&run->loaded);
    if (!status)
        status = finish_output(run, error);
    if (!status)
        status = save(run, sampler, error);
    if (!status && settings->stats) {
        struct stats stats = {0};
        smol_stats_add(&stats, result);
        smol_stats_print(stderr, &stats, &run->loaded);
    }
    if (!status && result->finish == SMOL_FINISH_CONTEXT_FULL)
        status = smol_fail(error, SMOL_ERROR_CONTEXT_FULL,
                           "%s: the context is full (%zu tokens) and the text ends here: "
                           "use --slide, a longer --ctx or a shorter prompt",
                           settings->model, smol_context_capacity(run->loaded.context));
    return status;
}

static bool is_resumed(const struct run *run)
{
    return run->file.path && run->file.fd >= 0;
}

static smol_status read_prompt(struct run *run, uint32_t **ids, size_t *n, smol_error *error)
{
    const struct settings *settings = run->settings;
    const smol_model *model = run->loaded.model;
    if (settings->keep != UINT32_MAX && !settings->slide)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "--keep needs --slide: add --slide, or leave out --keep");
    if (is_resumed(run) && !settings->chat && !settings->system && !settings->template_args.n)
        return smol_session_prompt(settings->text, model, run->loaded.context, ids, n, error);
    smol_status status = smol_prompt_read(settings, model, ids, n, error);
    if (!status && settings->chat)
        status =
            smol_answer_begin(settings, model, *ids, *n, &run->wanted, &run->answer.parts, error);
    if (!status && settings->chat) /* tokens that the session holds are not evaluated again */
        smol_session_drop_kept(run->loaded.context, *ids, n);
    return status;
}

/* Restores the session. Its sampler settings apply unless the command line overrides them. Refuses
 * the session of a chat, because saving it would drop the messages. */
static smol_status resume(struct run *run, smol_sampler *sampler, smol_error *error)
{
    const struct settings *settings = run->settings;
    smol_session session = {.sampler = sampler};
    smol_status status =
        smol_session_open(&run->file, settings->session, run->loaded.context, &session, error);
    run->place = (struct buffer){.text = session.data,
                                 .size = smol_place_size(session.data, session.size),
                                 .capacity = session.size};
    if (status || !is_resumed(run))
        return status;
    if (session.size > run->place.size + EMPTY_CHAT)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "%.300s: has a conversation, which would be lost: continue it with "
                         "smolrun chat, or name another session",
                         settings->session);
    return smol_settings_resample(settings, run->loaded.model, sampler, error);
}

/* Starts the constraint of an answer to a prompt of n tokens, or continues the session's. */
static smol_status constrain(struct run *run, size_t n, smol_error *error)
{
    const smol_model *model = run->loaded.model;
    if (n > 0)
        run->place.size = 0;
    smol_status status =
        smol_constrain(run->settings, model, &run->wanted, &run->constraint, error);
    return status ? status
                  : smol_place_find(&run->place, run->settings, model, &run->wanted,
                                    &run->constraint, &run->matcher, error);
}

static smol_status run_prompt(struct run *run, smol_error *error)
{
    uint32_t *prompt = NULL;
    size_t n = 0;
    smol_sampler *sampler = NULL;
    smol_status status = smol_sampler_create(&run->settings->sampler, &sampler, error);
    if (!status && run->settings->session)
        status = resume(run, sampler, error);
    if (!status)
        status = smol_constrain_read(run->settings, &run->wanted, error);
    if (!status)
        status = read_prompt(run, &prompt, &n, error);
    if (!status)
        status = constrain(run, n, error);
    if (!status)
        status = generate(run, sampler, prompt, n, error);
    smol_sampler_free(sampler);
    smol_free(prompt);
    return status;
}

/* Refuses a missing prompt, and options that do not fit with or without --jsonl. */
static smol_status check_words(const struct settings *settings, smol_error *error)
{
    const struct {
        const char *name;
        bool given;
    } refused[] = {
        {"a PROMPT", settings->text},   {"--chat", settings->chat},
        {"--system", settings->system}, {"--session", settings->session},
        {"--slide", settings->slide},   {"--keep", settings->keep != UINT32_MAX},
        {"--ids", settings->ids},       {"--json", settings->json},
        {"--stats", settings->stats},
    };
    if (!settings->jsonl && settings->n_sequences)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "--sequences needs --jsonl: add --jsonl, or leave out --sequences");
    if (!settings->jsonl && !settings->text)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "the prompt is missing: give one, or - for standard input");
    if (settings->ids && settings->json)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "--ids: leave it out, because --json prints the ids too");
    for (size_t i = 0; settings->jsonl && i < sizeof refused / sizeof refused[0]; i++)
        if (refused[i].given)
            return smol_fail(error, SMOL_ERROR_USAGE,
                             "%s cannot be combined with --jsonl: leave it out", refused[i].name);
    return SMOL_OK;
}

smol_status smolrun_generate(int argc, char **argv, smol_error *error)
{
    struct settings settings = {.max_tokens = 256,
                                .reasoning_budget = SIZE_MAX,
                                .keep = UINT32_MAX,
                                .sampler = {.top_p = 1, .seed = 42}};
    bool shown;
    smol_status status = smol_settings_parse(&command, argc, argv, &settings, &shown, error);
    if (status || shown)
        return status;
    settings.show_reading = !settings.jsonl;
    struct run run = {.settings = &settings};
    status = check_words(&settings, error);
    if (!status)
        status = smol_load(&settings, &run.loaded, error);
    if (!status)
        status = smol_settings_sampling(&settings, run.loaded.model, &settings.sampler, error);
    if (!status)
        status = settings.jsonl ? smol_batch_run(&settings, &run.loaded, error)
                                : run_prompt(&run, error);
    smol_answer_free(&run.answer);
    smol_matcher_free(run.matcher);
    smol_constraint_free(run.constraint);
    smol_free(run.wanted.text);
    smol_free(run.place.text);
    smol_session_close(&run.file);
    smol_unload(&run.loaded);
    return status;
}
