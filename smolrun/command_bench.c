/* smolrun bench: measures the speed of prefill and decode. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/json_out.h"
#include "cli/print.h"
#include "cli/standard.h"
#include "cli/terminal.h"
#include "common/clock.h"
#include "smolrun/command.h"
#include "smolrun/load.h"

enum { RUNS = 5, DEFAULT_PREFILL = 512, DEFAULT_DECODE = 128 };

static const struct option_rule rules[] = {
    {"", 'p', "N", "tokens of a prompt (512, or what the context holds)", OPTION_COUNT,
     FIELD(n_prefill), 1, UINT32_MAX, NULL},
    {"", 'n', "N", "tokens to generate (128, or what the context holds)", OPTION_COUNT,
     FIELD(n_decode), 1, UINT32_MAX, NULL},
    {"depth", 0, "D", "tokens already in the context (0)", OPTION_COUNT, FIELD(depth), 0,
     UINT32_MAX, NULL},
    {"sequences", 0, "S", "also decode S sequences together, alternating with one (1)",
     OPTION_COUNT, FIELD(n_sequences), 1, MAX_SEQUENCES, NULL},
    RULE_THREADS,
    RULE_KV,
    RULES_MODEL,
    RULE_JSON,
};

static const struct command_line command = {
    .program = "smolrun",
    .words = "bench FILE.smol",
    .about = "Measures prefill (a prompt of -p tokens) and decode (-n tokens, one by one), each\n"
             "after --depth tokens: median, slowest and fastest of 5 runs after a warm-up. The\n"
             "first token is timed once, for a prompt of -p tokens in an empty\n"
             "context right after loading.\n",
    .notes = "The token ids are arbitrary; choosing a token is not part of the figures. On a\n"
             "terminal, progress is shown on standard error, unless the result is JSON.\n",
    .max_words = 1,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

struct rates {
    double slowest, median, fastest; /* tokens per second */
};

struct bench {
    struct settings settings;
    struct loaded loaded;
    smol_model_info model;
    smol_context_info context;
    smol_context *contexts[MAX_SEQUENCES]; /* the loaded one first; the others share its threads */
    uint32_t *ids;                         /* the context's capacity */
    float *logits;                         /* (sequences, vocab_size) */
    double first_token_seconds;
    struct rates prefill, decode, together; /* together: tokens of all sequences */
    struct live_line line;
    int step, n_steps; /* the phase that the progress line shows, from 1 */
};

/* A measurement: n tokens of each of n_sequences, `step` at a time. */
struct phase {
    const char *name;
    size_t n, step, n_sequences;
    struct rates *rates;
    double seconds[RUNS];
};

/* --- preparation -------------------------------------------------------------------------- */

static uint32_t smaller(uint32_t a, size_t b)
{
    return a < b ? a : (uint32_t)b;
}

/* Sets the sizes. Defaults shrink to the capacity of the context; sizes given as options do not. */
static smol_status settle_sizes(struct bench *bench, smol_error *error)
{
    struct settings *s = &bench->settings;
    size_t capacity = smol_context_capacity(bench->loaded.context);
    size_t room = s->depth < capacity ? capacity - s->depth : 0;
    if (!s->n_prefill)
        s->n_prefill = smaller(DEFAULT_PREFILL, room);
    if (!s->n_decode)
        s->n_decode = smaller(DEFAULT_DECODE, room);
    if (room > 0 && s->n_prefill <= room && s->n_decode <= room)
        return SMOL_OK;
    return smol_fail(
        error, SMOL_ERROR_CONTEXT_FULL,
        "bench: %u tokens after a depth of %u: the context holds %zu: use smaller values",
        s->n_prefill > s->n_decode ? s->n_prefill : s->n_decode, s->depth, capacity);
}

static smol_status open_sequences(struct bench *bench, smol_error *error)
{
    smol_context_params params = bench->settings.context;
    params.share = bench->loaded.context;
    bench->contexts[0] = params.share;
    smol_status status = SMOL_OK;
    for (uint32_t i = 1; !status && i < bench->settings.n_sequences; i++)
        status = smol_context_create(bench->loaded.model, &params, &bench->contexts[i], error);
    return status;
}

static smol_status prepare(struct bench *bench, smol_error *error)
{
    smol_status status = settle_sizes(bench, error);
    if (status)
        return status;
    size_t n = smol_context_capacity(bench->loaded.context);
    bench->ids = calloc(n, sizeof *bench->ids);
    bench->logits =
        calloc(bench->settings.n_sequences, bench->model.vocab_size * sizeof *bench->logits);
    if (!bench->ids || !bench->logits)
        return smol_fail_memory(error, "the measurement");
    uint64_t random = 42;
    for (size_t i = 0; i < n; i++) {
        random = random * 6364136223846793005 + 1442695040888963407; /* Knuth's MMIX */
        bench->ids[i] = (uint32_t)(random >> 33) % bench->model.vocab_size;
    }
    return open_sequences(bench, error);
}

/* --- measurement -------------------------------------------------------------------------- */

/* Evaluates the next `step` ids in each of n sequences. */
static smol_status take_step(struct bench *bench, size_t done, size_t step, size_t n,
                             smol_error *error)
{
    smol_eval_part parts[MAX_SEQUENCES];
    for (size_t i = 0; i < n; i++)
        parts[i] = (smol_eval_part){
            .context = bench->contexts[i],
            .ids = bench->ids + done,
            .n = step,
            .n_logits = 1,
            .logits = bench->logits + i * bench->model.vocab_size,
        };
    return smol_eval_many(parts, n, error);
}

/* Appends the first n ids, `step` at a time, to each sequence, and measures the time. */
static smol_status evaluate(struct bench *bench, const struct phase *phase, double *seconds,
                            smol_error *error)
{
    if (phase->n > 0)
        smol_live_line_draw(&bench->line, "step %d of %d: %s", ++bench->step, bench->n_steps,
                            phase->name);
    double start = clock_seconds();
    smol_status status = SMOL_OK;
    for (size_t done = 0; !status && done < phase->n; done += phase->step)
        status = take_step(bench, done, phase->step, phase->n_sequences, error);
    *seconds = clock_seconds() - start;
    return status;
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void truncate_all(struct bench *bench, size_t n)
{
    for (uint32_t i = 0; i < bench->settings.n_sequences; i++)
        smol_context_truncate(bench->contexts[i], n);
}

static void settle_rates(struct phase *phase)
{
    double *seconds = phase->seconds, tokens = (double)(phase->n * phase->n_sequences);
    qsort(seconds, RUNS, sizeof *seconds, compare);
    *phase->rates =
        (struct rates){tokens / seconds[RUNS - 1], tokens / seconds[RUNS / 2], tokens / seconds[0]};
}

/* Measures the phases in turns, so that other load on the machine affects all of them alike. */
static smol_status measure(struct bench *bench, struct phase *phases, size_t n, smol_error *error)
{
    smol_status status = SMOL_OK;
    for (int run = -1; !status && run < RUNS; run++) /* run -1 warms up */
        for (size_t i = 0; !status && i < n; i++) {
            truncate_all(bench, bench->settings.depth);
            status = evaluate(bench, &phases[i], &phases[i].seconds[run < 0 ? 0 : run], error);
        }
    for (size_t i = 0; !status && i < n; i++)
        settle_rates(&phases[i]);
    return status;
}

static smol_status measure_all(struct bench *bench, smol_error *error)
{
    const struct settings *s = &bench->settings;
    const struct phase first = {"first token", s->n_prefill, s->n_prefill, 1, NULL, {0}};
    const struct phase depth = {"depth", s->depth, s->depth, s->n_sequences, NULL, {0}};
    struct phase prefill = {"prefill", s->n_prefill, s->n_prefill, 1, &bench->prefill, {0}};
    struct phase decode[] = {
        {"decode", s->n_decode, 1, 1, &bench->decode, {0}},
        {"decode together", s->n_decode, 1, s->n_sequences, &bench->together, {0}}};
    int n_decode = s->n_sequences > 1 ? 2 : 1;
    double unused;
    bench->n_steps = 1 + (s->depth > 0) + (1 + n_decode) * (1 + RUNS);
    smol_status status = evaluate(bench, &first, &bench->first_token_seconds, error);
    truncate_all(bench, 0);
    if (!status)
        status = evaluate(bench, &depth, &unused, error);
    if (!status)
        status = measure(bench, &prefill, 1, error);
    if (!status)
        status = measure(bench, decode, (size_t)n_decode, error);
    return status;
}

/* --- report ------------------------------------------------------------------------------- */

static void print_phase(const char *name, uint32_t n, const struct rates *rates)
{
    printf("%-12s %10.1f tokens/s (%.1f to %.1f; %d runs of %u token%s)\n", name, rates->median,
           rates->slowest, rates->fastest, RUNS, n, plural(n));
}

static void print_text(const struct bench *bench)
{
    const struct settings *s = &bench->settings;
    printf("%s: %s, %s kernels, %u thread%s, kv %s, depth %u\n", s->model, bench->model.dtype,
           bench->context.isa, bench->context.n_threads, plural(bench->context.n_threads),
           bench->context.kv, s->depth);
    printf("%-12s %10.1f ms\n", "load", bench->loaded.load_seconds * 1e3);
    printf("%-12s %10.1f ms (%u token%s, nothing warm)\n", "first token",
           bench->first_token_seconds * 1e3, s->n_prefill, plural(s->n_prefill));
    print_phase("prefill", s->n_prefill, &bench->prefill);
    print_phase("decode", s->n_decode, &bench->decode);
    if (s->n_sequences > 1) {
        char name[32];
        snprintf(name, sizeof name, "decode of %u", s->n_sequences);
        print_phase(name, s->n_decode * s->n_sequences, &bench->together);
    }
    printf("%-12s %10.1f GB/s (decode's tokens/s times the blob's %.1f MB)\n", "weights",
           bench->decode.median * (double)bench->model.blob_bytes * 1e-9,
           (double)bench->model.blob_bytes * 1e-6);
    printf("%-12s %10.1f MB\n", "peak memory", (double)smol_stats_peak_bytes() * 1e-6);
}

static void print_json(const struct bench *bench)
{
    const struct settings *s = &bench->settings;
    struct json_out json = {.file = stdout};
    smol_json_open(&json, '{');
    smol_json_member_text(&json, "dtype", bench->model.dtype);
    smol_json_member_text(&json, "isa", bench->context.isa);
    smol_json_member_whole(&json, "threads", bench->context.n_threads);
    smol_json_member_text(&json, "kv", bench->context.kv);
    smol_json_member_whole(&json, "depth", s->depth);
    smol_json_member_real(&json, "load_ms", bench->loaded.load_seconds * 1e3);
    smol_json_member_real(&json, "first_token_ms", bench->first_token_seconds * 1e3);
    smol_json_member_whole(&json, "prefill_tokens", s->n_prefill);
    smol_json_member_real(&json, "prefill_tokens_per_second", bench->prefill.median);
    smol_json_member_real(&json, "prefill_tokens_per_second_min", bench->prefill.slowest);
    smol_json_member_real(&json, "prefill_tokens_per_second_max", bench->prefill.fastest);
    smol_json_member_whole(&json, "decode_tokens", s->n_decode);
    smol_json_member_real(&json, "decode_tokens_per_second", bench->decode.median);
    smol_json_member_real(&json, "decode_tokens_per_second_min", bench->decode.slowest);
    smol_json_member_real(&json, "decode_tokens_per_second_max", bench->decode.fastest);
    if (s->n_sequences > 1) {
        smol_json_member_whole(&json, "sequences", s->n_sequences);
        smol_json_member_real(&json, "together_tokens_per_second", bench->together.median);
        smol_json_member_real(&json, "together_tokens_per_second_min", bench->together.slowest);
        smol_json_member_real(&json, "together_tokens_per_second_max", bench->together.fastest);
    }
    smol_json_member_whole(&json, "runs", RUNS);
    smol_json_member_whole(&json, "peak_rss_bytes", smol_stats_peak_bytes());
    smol_json_close(&json, '}');
    putchar('\n');
}

static smol_status run(struct bench *bench, smol_error *error)
{
    smol_status status = smol_load(&bench->settings, &bench->loaded, error);
    if (status)
        return status;
    bench->model = smol_model_get_info(bench->loaded.model);
    bench->context = smol_context_get_info(bench->loaded.context);
    status = prepare(bench, error);
    bench->line = smol_live_line_start(bench->settings.json);
    if (!status)
        status = measure_all(bench, error);
    smol_live_line_end(&bench->line);
    if (status)
        return status;
    if (bench->settings.json)
        print_json(bench);
    else
        print_text(bench);
    return smol_standard_flush(error);
}

smol_status smolrun_bench(int argc, char **argv, smol_error *error)
{
    struct bench bench = {.settings = {.n_sequences = 1}};
    bool shown;
    smol_status status = smol_settings_parse(&command, argc, argv, &bench.settings, &shown, error);
    if (status || shown)
        return status;
    status = run(&bench, error);
    free(bench.ids);
    free(bench.logits);
    for (uint32_t i = 1; i < bench.settings.n_sequences; i++)
        smol_context_free(bench.contexts[i]);
    smol_unload(&bench.loaded);
    return status;
}
