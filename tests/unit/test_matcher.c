/* Tests of constraints, matchers and generation under them, through the public header, with the
 * bundled model. */
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/matcher.h"
#include "smol.h"
#include "tests/unit/demo_blob.h"
#include "tests/unit/unit.h"

static smol_model *model;
static uint32_t vocab_size;

static int open_model(void **state)
{
    if (make_demo_blob(state) || smol_model_open(demo_blob, NULL, &model, NULL))
        return 1;
    vocab_size = smol_model_get_info(model).vocab_size;
    return 0;
}

static int close_model(void **state)
{
    smol_model_close(model);
    return remove_demo_blob(state);
}

static smol_constraint *compile(smol_constraint_kind kind, const char *text)
{
    const smol_constraint_params params = {.kind = kind, .text = text, .size = strlen(text)};
    smol_constraint *constraint;
    smol_error error;
    if (smol_constraint_create(model, &params, &constraint, &error))
        fail_msg("%s: %s", text, error.message);
    return constraint;
}

static smol_matcher *match(smol_constraint *constraint)
{
    smol_matcher *matcher;
    assert_int_equal(smol_matcher_create(constraint, &matcher, NULL), SMOL_OK);
    return matcher;
}

static bool has(const uint64_t *mask, uint32_t id)
{
    return mask[id / 64] >> id % 64 & 1;
}

/* --- masks ------------------------------------------------------------------------------------ */

static const char *const expressions[] = {
    "[a-z]+( [a-z]+)*\\.",
    "(yes|no|maybe)",
    "\\{\"name\":\"[^\"\\\\]{1,20}\",\"age\":[1-9][0-9]?\\}",
    "(a|b|é|日本){3,9}",
    "([0-9]{2}:){2}[0-9]{2}",
    ".*",
};

static const char *const schemas[] = {
    "{\"type\":\"array\",\"items\":{\"type\":\"number\"}}",
    "{\"type\":\"object\",\"properties\":{\"s\":{\"type\":\"string\",\"maxLength\":7}}}",
    "{\"type\":\"string\",\"pattern\":\"^[a-z]{2,9}$\"}",
    "{\"type\":\"string\",\"pattern\":\"^(a|aa|b)*$\",\"maxLength\":9}",
    "{\"type\":\"string\",\"minLength\":3,\"maxLength\":30}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[^/]+$\"},\"maxItems\":3}",
    /* more strings of different characters than are told apart one by one */
    "{\"anyOf\":[{\"pattern\":\"^[^0]*$\"},{\"pattern\":\"^[^1]*$\"},{\"pattern\":\"^[^2]*$\"},"
    "{\"pattern\":\"^[^3]*$\"},{\"pattern\":\"^[^4]*a$\"},{\"pattern\":\"^[^5]*b$\"},"
    "{\"pattern\":\"^[^6]*c$\"},{\"pattern\":\"^[^7]*d$\"}],\"type\":\"string\"}",
    "{}",
};

/* Checks each token of the vocabulary in the current state, and the one that must follow; returns
 * the mask in `mask`. */
static void check_state(smol_matcher *matcher, uint64_t *mask)
{
    unsigned n_allowed = 0;
    uint32_t forced;
    size_t n_forced;
    assert_int_equal(smol_matcher_mask(matcher, mask, NULL), SMOL_OK);
    assert_int_equal(smol_matcher_forced(matcher, &forced, 1, &n_forced, NULL), SMOL_OK);
    assert_true(n_forced == 0 || has(mask, forced));
    for (uint32_t id = 0; id < vocab_size; id++) {
        bool allowed = smol_matcher_accept(matcher, id, NULL) == SMOL_OK;
        assert_int_equal(allowed, has(mask, id));
        n_allowed += allowed;
        if (allowed)
            smol_matcher_rollback(matcher, 1);
    }
    assert_true(n_allowed > 0);
}

/* Follows a random text, and checks every state on the way. */
static void check_random_text(smol_constraint_kind kind, const char *text)
{
    uint64_t *mask = calloc((vocab_size + 63) / 64, sizeof *mask);
    smol_constraint *constraint = compile(kind, text);
    smol_matcher *matcher = match(constraint);
    for (int step = 0; step < 40; step++) {
        uint32_t id = random_below(vocab_size);
        check_state(matcher, mask);
        while (!has(mask, id))
            id = (id + 1) % vocab_size;
        if (smol_model_is_stop_id(model, id))
            break;
        assert_int_equal(smol_matcher_accept(matcher, id, NULL), SMOL_OK);
    }
    smol_matcher_free(matcher);
    smol_constraint_free(constraint);
    free(mask);
}

TEST(a_mask_has_exactly_the_tokens_that_are_accepted)
{
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < sizeof expressions / sizeof expressions[0]; i++)
            check_random_text(SMOL_CONSTRAINT_REGEX, expressions[i]);
        for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++)
            check_random_text(SMOL_CONSTRAINT_JSON_SCHEMA, schemas[i]);
    }
}

TEST(matchers_share_a_constraint_and_copies_go_their_own_way)
{
    smol_constraint *constraint = compile(SMOL_CONSTRAINT_CHOICES, "[\"aa\", \"ab\"]");
    smol_matcher *one = match(constraint), *other = NULL;
    uint32_t *ids, a, b;
    size_t n;
    assert_int_equal(smol_tokenize(model, "a", 1, NULL, &ids, &n, NULL), SMOL_OK);
    a = ids[0];
    smol_free(ids);
    assert_int_equal(smol_tokenize(model, "b", 1, NULL, &ids, &n, NULL), SMOL_OK);
    b = ids[0];
    smol_free(ids);
    assert_int_equal(smol_matcher_accept(one, a, NULL), SMOL_OK);
    assert_int_equal(smol_matcher_copy(one, &other, NULL), SMOL_OK);
    assert_int_equal(smol_matcher_accept(one, a, NULL), SMOL_OK);
    assert_int_equal(smol_matcher_accept(other, b, NULL), SMOL_OK);
    assert_true(smol_matcher_complete(one) && smol_matcher_complete(other));
    assert_int_equal(smol_matcher_accept(one, a, NULL), SMOL_ERROR_USAGE);
    smol_matcher_rollback(one, 9);
    assert_false(smol_matcher_complete(one));
    assert_int_equal(smol_matcher_accept(one, b, NULL), SMOL_ERROR_USAGE);
    smol_matcher_free(one);
    smol_matcher_free(other);
    smol_constraint_free(constraint);
}

TEST(forced_tokens_are_the_only_way_on)
{
    smol_constraint *constraint = compile(SMOL_CONSTRAINT_REGEX, "The only possible text: [0-9]");
    smol_matcher *matcher = match(constraint);
    uint32_t ids[64], rest[64];
    size_t n, n_rest;
    char text[256] = "";
    assert_int_equal(smol_matcher_forced(matcher, ids, 64, &n, NULL), SMOL_OK);
    assert_true(n > 1);
    for (size_t i = 0; i < n; i++) {
        const char *piece;
        size_t size;
        assert_int_equal(smol_matcher_forced(matcher, rest, 64, &n_rest, NULL), SMOL_OK);
        assert_int_equal(n_rest, n - i);
        assert_memory_equal(rest, ids + i, n_rest * sizeof *ids);
        assert_int_equal(smol_token_text(model, ids[i], &piece, &size, NULL, NULL), SMOL_OK);
        strncat(text, piece, size);
        assert_int_equal(smol_matcher_accept(matcher, ids[i], NULL), SMOL_OK);
    }
    assert_true(strncmp(text, "The only possible text: ", strlen(text)) == 0);
    const uint32_t *accepted = smol_matcher_ids(matcher, &n_rest);
    assert_int_equal(n_rest, n);
    assert_memory_equal(accepted, ids, n * sizeof *ids);
    smol_matcher_free(matcher);
    smol_constraint_free(constraint);
}

/* Returns a token that begins with at least two others, and writes both to the texts. */
static uint32_t find_longer(char *text, char *start)
{
    for (uint32_t id = 0; id < vocab_size; id++) {
        const char *piece;
        uint32_t *ids;
        size_t size, n;
        assert_int_equal(smol_token_text(model, id, &piece, &size, NULL, NULL), SMOL_OK);
        if (size < 4 || size > 20 || strspn(piece, "abcdefghijklmnopqrstuvwxyz") < size)
            continue;
        memcpy(text, piece, size);
        memcpy(start, piece, size - 1);
        text[size] = start[size - 1] = '\0';
        assert_int_equal(smol_tokenize(model, start, size - 1, NULL, &ids, &n, NULL), SMOL_OK);
        smol_free(ids);
        if (n > 1)
            return id;
    }
    fail_msg("no token begins with two others");
    return SMOL_NO_TOKEN;
}

TEST(no_token_is_forced_where_a_longer_one_could_come)
{
    char text[24], start[24], choices[64];
    uint32_t longer = find_longer(text, start), forced;
    uint64_t *mask = malloc((vocab_size + 63) / 64 * sizeof *mask);
    size_t n;
    snprintf(choices, sizeof choices, "[\"%s\", \"%s.\"]", text, start);
    smol_constraint *constraint = compile(SMOL_CONSTRAINT_CHOICES, choices);
    smol_matcher *matcher = match(constraint);
    assert_int_equal(smol_matcher_forced(matcher, &forced, 1, &n, NULL), SMOL_OK);
    assert_int_equal(n, 0);
    assert_int_equal(smol_matcher_mask(matcher, mask, NULL), SMOL_OK);
    assert_true(has(mask, longer));
    smol_matcher_free(matcher);
    smol_constraint_free(constraint);
    free(mask);
}

/* --- refusals -----------------------------------------------------------------------------------
 */

TEST(what_cannot_be_compiled_is_refused_in_words)
{
    const struct {
        smol_constraint_kind kind;
        const char *text, *message;
    } cases[] = {
        {SMOL_CONSTRAINT_REGEX, "(a", "the regular expression: "},
        {SMOL_CONSTRAINT_CHOICES, "[]", "allows no text"},
        {SMOL_CONSTRAINT_CHOICES, "[\"a\"", "choices: "},
        {SMOL_CONSTRAINT_CHOICES, "{}", "choices: "},
        {(smol_constraint_kind)9, "a", "kind 9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const smol_constraint_params params = {
            .kind = cases[i].kind, .text = cases[i].text, .size = strlen(cases[i].text)};
        smol_constraint *constraint;
        smol_error error;
        assert_int_not_equal(smol_constraint_create(model, &params, &constraint, &error), SMOL_OK);
        assert_null(constraint);
        if (!strstr(error.message, cases[i].message))
            fail_msg("%s: %s", cases[i].text, error.message);
    }
}

/* --- generation ---------------------------------------------------------------------------------
 */

struct output {
    char text[4096];
    size_t size, n_forced;
};

static int take(void *user, const char *text, size_t size, uint32_t id)
{
    struct output *out = user;
    (void)id;
    assert_true(out->size + size < sizeof out->text);
    memcpy(out->text + out->size, text, size);
    out->size += size;
    out->text[out->size] = '\0';
    return 0;
}

static void count_forced(void *user, uint32_t id, const float *logits, size_t n)
{
    struct output *out = user;
    (void)id;
    assert_int_equal(logits != NULL, n > 0);
    out->n_forced += logits == NULL;
}

/* Generates under a regular expression, at most max_tokens tokens. */
static smol_generate_result generate(const char *expression, uint64_t seed, size_t max_tokens,
                                     uint32_t n_threads, int lookup, struct output *out)
{
    const smol_context_params context_params = {.n_threads = n_threads};
    const smol_sampler_params sampling = {.temperature = 2, .seed = seed};
    smol_constraint *constraint = compile(SMOL_CONSTRAINT_REGEX, expression);
    smol_matcher *matcher = match(constraint);
    smol_context *context;
    smol_sampler *sampler;
    smol_generate_result result;
    const uint32_t prompt = 1;
    *out = (struct output){.size = 0};
    const smol_generate_params params = {.max_tokens = max_tokens,
                                         .on_text = take,
                                         .on_token = count_forced,
                                         .user = out,
                                         .matcher = matcher,
                                         .lookup = (uint64_t)lookup};
    assert_int_equal(smol_context_create(model, &context_params, &context, NULL), SMOL_OK);
    assert_int_equal(smol_sampler_create(&sampling, &sampler, NULL), SMOL_OK);
    assert_int_equal(smol_generate(context, sampler, &prompt, 1, &params, &result, NULL), SMOL_OK);
    size_t n_ids;
    smol_context_ids(context, &n_ids);
    assert_int_equal(n_ids + (result.finish != SMOL_FINISH_STOP), 1 + result.n_generated);
    smol_sampler_free(sampler);
    smol_context_free(context);
    smol_matcher_free(matcher);
    smol_constraint_free(constraint);
    return result;
}

static const char form[] =
    "\\{\"name\":\"[A-Za-z ]{1,12}\",\"colour\":\"(red|green|blue)\",\"size\":[1-9][0-9]?\\}";

TEST(answers_match_whatever_is_sampled)
{
    regex_t compiled;
    struct output out;
    assert_int_equal(regcomp(&compiled,
                             "^\\{\"name\":\"[A-Za-z ]{1,12}\",\"colour\":\"(red|green|blue)\","
                             "\"size\":[1-9][0-9]?\\}$",
                             REG_EXTENDED | REG_NOSUB),
                     0);
    for (uint64_t seed = 0; seed < 30; seed++) {
        smol_generate_result result = generate(form, seed, 200, 1, 0, &out);
        assert_int_equal(result.finish, SMOL_FINISH_STOP);
        assert_int_equal(regexec(&compiled, out.text, 0, NULL, 0), 0);
        assert_true(out.n_forced > 3);
    }
    regfree(&compiled);
}

TEST(answers_do_not_depend_on_threads_and_limits_cut_them)
{
    struct output one, two, cut;
    smol_generate_result whole = generate(form, 7, 200, 1, 0, &one);
    generate(form, 7, 200, 2, 0, &two);
    assert_string_equal(one.text, two.text);
    for (size_t n = 1; n < whole.n_generated; n++) {
        smol_generate_result result = generate(form, 7, n, 1, 0, &cut);
        assert_int_equal(result.finish, SMOL_FINISH_LENGTH);
        assert_int_equal(result.n_generated, n);
        assert_memory_equal(cut.text, one.text, cut.size);
    }
}

TEST(guesses_change_no_constrained_answer)
{
    static const char *const repeating[] = {
        "(\\{\"name\":\"(Rosa|Zoe|Ben)\",\"size\":[1-9]\\},){9}",
        "((red|green|blue|red and green) ){30}",
        "[a-z ,.]{60}",
    };
    struct output plain, guessed;
    uint64_t n_right = 0;
    for (uint64_t seed = 0; seed < 12; seed++) {
        smol_generate_result one = generate(repeating[seed % 3], seed, 150, 1, 0, &plain);
        smol_generate_result two = generate(repeating[seed % 3], seed, 150, 1, 1, &guessed);
        assert_string_equal(guessed.text, plain.text);
        assert_int_equal(guessed.n_forced, plain.n_forced);
        assert_int_equal(two.n_generated, one.n_generated);
        assert_int_equal(two.finish, one.finish);
        n_right += two.n_guessed_right;
    }
    assert_true(n_right > 50);
}

/* --- generations beside each other --------------------------------------------------------------
 */

enum { N_BESIDE = 3 };

/* A generation among others. */
struct beside {
    const char *expression;
    smol_constraint *constraint;
    smol_matcher *matcher;
    smol_context *context;
    smol_sampler *sampler;
    smol_generation *generation;
    struct output out;
    size_t n_tokens, n_idle; /* n_idle: steps without a token */
};

static void begin_beside(struct beside *b, smol_context *share)
{
    const smol_context_params context_params = {.n_threads = share ? 0 : 1, .share = share};
    const smol_sampler_params sampling = {.temperature = 2, .seed = 7};
    const uint32_t prompt = 1;
    b->constraint = compile(SMOL_CONSTRAINT_REGEX, b->expression);
    b->matcher = match(b->constraint);
    const smol_generate_params params = {
        .max_tokens = 20, .on_text = take, .user = &b->out, .matcher = b->matcher};
    assert_int_equal(smol_context_create(model, &context_params, &b->context, NULL), SMOL_OK);
    assert_int_equal(smol_sampler_create(&sampling, &b->sampler, NULL), SMOL_OK);
    assert_int_equal(
        smol_generation_create(b->context, b->sampler, &prompt, 1, &params, &b->generation, NULL),
        SMOL_OK);
}

/* Takes note of a step. Returns whether the generation continues. */
static bool count_step(struct beside *b)
{
    smol_generate_result result;
    smol_error error;
    bool finished = smol_generation_finished(b->generation, &result, &error);
    assert_int_equal(error.status, SMOL_OK);
    b->n_idle += !finished && result.n_generated == b->n_tokens;
    b->n_tokens = result.n_generated;
    return !finished;
}

static void end_beside(struct beside *b)
{
    smol_generation_free(b->generation);
    smol_sampler_free(b->sampler);
    smol_context_free(b->context);
    smol_matcher_free(b->matcher);
    smol_constraint_free(b->constraint);
}

TEST(a_constraint_that_takes_long_delays_no_other_sequence)
{
    struct beside all[N_BESIDE] = {{.expression = "(((((.?){9}.?){9}.?){9}.?){9}.?){9}x"},
                                   {.expression = "[a-z ]*"},
                                   {.expression = "(((((.?){9}.?){9}.?){8}.?){9}.?){9}y"}};
    smol_generation *generations[N_BESIDE];
    struct output alone;
    bool more = true;
    for (size_t i = 0; i < N_BESIDE; i++) {
        begin_beside(&all[i], i > 0 ? all[0].context : NULL);
        generations[i] = all[i].generation;
    }
    while (more) {
        smol_generation_step(generations, N_BESIDE);
        more = false;
        for (size_t i = 0; i < N_BESIDE; i++)
            more |= count_step(&all[i]);
    }
    for (size_t i = N_BESIDE; i-- > 0;)
        end_beside(&all[i]);
    for (size_t i = 0; i < N_BESIDE; i++) {
        generate(all[i].expression, 7, 20, 1, 0, &alone);
        assert_string_equal(all[i].out.text, alone.text);
    }
    assert_true(all[0].n_idle > 10 && all[2].n_idle > 10);
    assert_true(all[1].n_idle <= 1); /* at first, none is known to take long */
}

TEST(each_slice_of_the_work_gets_on)
{
    enum { MANY = 2000, WORK = MANY / 2 }; /* less than one look at all texts takes */
    char *text = calloc(MANY, 10), *end = text;
    uint64_t *mask = calloc((vocab_size + 63) / 64, sizeof *mask), work, n_slices = 0;
    uint32_t forced[8];
    struct matcher_next next = {.forced = forced, .capacity = 8, .mask = mask};
    assert_true(text && mask);
    for (int i = 0; i < MANY; i++)
        end += sprintf(end, "%s\"%c%03d\"", i ? "," : "[", 'a' + i % 26, i % 1000);
    strcpy(end, "]");
    smol_constraint *constraint = compile(SMOL_CONSTRAINT_CHOICES, text);
    smol_matcher *matcher = match(constraint);
    for (bool found = false; !found; n_slices++) {
        work = WORK;
        assert_int_equal(matcher_calls(matcher)->next(matcher, &work, &found, &next, NULL),
                         SMOL_OK);
        assert_true(n_slices < 1000);
    }
    assert_true(n_slices > 10);
    smol_matcher_free(matcher);
    smol_constraint_free(constraint);
    free(text);
    free(mask);
}

int main(void)
{
    return run_all_tests("matcher", open_model, close_model);
}
