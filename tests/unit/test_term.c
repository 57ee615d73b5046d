/* Tests of terms (runtime/constrain/term.h): random terms over three letters against the sets of
 * short texts that their definition gives, and rules that refer to themselves. */
#include <stdlib.h>
#include <string.h>

#include "runtime/constrain/term.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/unit.h"

enum {
    LETTERS = 3,
    LONGEST = 5,
    N_TEXTS = 364, /* of at most LONGEST letters */
    POOL = 14,     /* terms of a round */
};

/* --- sets of texts --------------------------------------------------------------------------- */

static int n_rounds(void)
{
    return few_samples() ? 800 : 4000;
}

static char texts[N_TEXTS][LONGEST + 1];
static int joined[N_TEXTS][N_TEXTS]; /* the text of two, or -1: longer than LONGEST */

struct texts {
    bool has[N_TEXTS];
};

static int find_text(const char *text)
{
    for (int i = 0; i < N_TEXTS; i++)
        if (strcmp(texts[i], text) == 0)
            return i;
    return -1;
}

static void make_texts(void)
{
    int n = 1;
    for (int i = 0; n < N_TEXTS; i++)
        for (int letter = 0; letter < LETTERS; letter++, n++) {
            strcpy(texts[n], texts[i]);
            texts[n][strlen(texts[i])] = (char)('a' + letter);
        }
    for (int i = 0; i < N_TEXTS; i++)
        for (int k = 0; k < N_TEXTS; k++) {
            char both[2 * LONGEST + 1];
            strcpy(both, texts[i]);
            strcat(both, texts[k]);
            joined[i][k] = strlen(both) <= LONGEST ? find_text(both) : -1;
        }
}

static struct texts then(const struct texts *a, const struct texts *b)
{
    struct texts result = {{false}};
    for (int i = 0; i < N_TEXTS; i++)
        for (int k = 0; a->has[i] && k < N_TEXTS; k++)
            if (b->has[k] && joined[i][k] >= 0)
                result.has[joined[i][k]] = true;
    return result;
}

static struct texts either(const struct texts *a, const struct texts *b)
{
    struct texts result;
    for (int i = 0; i < N_TEXTS; i++)
        result.has[i] = a->has[i] || b->has[i];
    return result;
}

static struct texts repeat(const struct texts *a, uint32_t min, uint32_t max)
{
    struct texts power = {{true}}, result = {{false}};
    for (uint32_t i = 0; i <= (max < 2 * LONGEST ? max : 2 * LONGEST); i++) {
        if (i >= min)
            result = either(&result, &power);
        power = then(&power, a);
    }
    return result;
}

/* --- random terms ----------------------------------------------------------------------------- */

struct sample {
    term number;
    struct texts texts;
};

static struct sample leaf(struct term_table *table)
{
    struct sample s = {.texts = {{false}}};
    if (random_below(2)) {
        struct byte_set set = {{0}};
        for (int letter = 0; letter < LETTERS; letter++)
            if (random_below(2)) {
                byte_set_add(&set, 'a' + (unsigned)letter, 'a' + (unsigned)letter);
                s.texts.has[1 + letter] = true;
            }
        s.number = smol_term_bytes(table, &set);
    } else {
        int i = (int)random_below(N_TEXTS);
        s.number = smol_term_literal(table, texts[i], strlen(texts[i]));
        s.texts.has[i] = true;
    }
    return s;
}

static struct sample compose(struct term_table *table, const struct sample *x,
                             const struct sample *y)
{
    struct sample s = *x;
    uint32_t min = random_below(4), max = random_below(3) ? min + random_below(3) : TERM_FOREVER;
    switch (random_below(7)) {
    case 0:
    case 1:
        s = (struct sample){smol_term_then(table, x->number, y->number),
                            then(&x->texts, &y->texts)};
        break;
    case 2:
        s.number = smol_term_either(table, x->number, y->number);
        s.texts = either(&x->texts, &y->texts);
        break;
    case 3:
        s.number = smol_term_repeat(table, x->number, min, max);
        s.texts = repeat(&x->texts, min, max);
        break;
    case 4:
        s.number = smol_term_both(table, x->number, y->number);
        for (int i = 0; i < N_TEXTS; i++)
            s.texts.has[i] = x->texts.has[i] && y->texts.has[i];
        break;
    case 5:
        s.number = smol_term_without(table, x->number, y->number);
        for (int i = 0; i < N_TEXTS; i++)
            s.texts.has[i] = x->texts.has[i] && !y->texts.has[i];
        break;
    default:
        s.number = smol_term_unit(table, x->number);
    }
    return s;
}

/* Returns what may follow a text. */
static term follow(struct term_table *table, const char *text)
{
    term a = smol_terms_root(table);
    for (; *text && a != TERM_NOTHING; text++)
        a = smol_term_after(table, a, (uint8_t)*text);
    return a;
}

/* Returns whether some text can follow: whether a term that may end can be reached. */
static bool can_end(struct term_table *table, term a)
{
    enum { MOST = 4000 };
    static term found[MOST + LETTERS];
    size_t n = 1;
    found[0] = a;
    for (size_t i = 0; i < n && n < MOST; i++) {
        if (smol_term_may_end(table, found[i]))
            return true;
        for (unsigned letter = 'a'; letter < 'a' + LETTERS; letter++) {
            term next = smol_term_after(table, found[i], (uint8_t)letter);
            bool known = next == TERM_NOTHING;
            for (size_t k = 0; k < n && !known; k++)
                known = found[k] == next;
            if (!known)
                found[n++] = next;
        }
    }
    return n >= MOST; /* too many to tell */
}

static void check_sample(struct term_table *table, const struct texts *want)
{
    for (int i = 0; i < N_TEXTS; i++) {
        term left = follow(table, texts[i]);
        assert_int_equal(left != TERM_NOTHING && smol_term_may_end(table, left), want->has[i]);
        for (int k = 0; k < N_TEXTS; k++)
            if (joined[i][k] >= 0 && want->has[joined[i][k]])
                assert_int_not_equal(left, TERM_NOTHING);
    }
    assert_int_equal(smol_terms_status(table, NULL), SMOL_OK);
}

TEST(random_terms_are_their_sets)
{
    make_texts();
    for (int round = 0; round < n_rounds(); round++) {
        struct term_table *table;
        struct sample pool[POOL];
        smol_error error;
        assert_int_equal(smol_terms_create(&table, &error), SMOL_OK);
        for (int i = 0; i < POOL; i++)
            pool[i] = i < 4 ? leaf(table)
                            : compose(table, &pool[random_below((uint32_t)i)],
                                      &pool[random_below((uint32_t)i)]);
        const struct sample *last = &pool[POOL - 1];
        if (smol_terms_finish(table, last->number, &error))
            for (int i = 0; i < N_TEXTS; i++)
                assert_false(last->texts.has[i]);
        else
            check_sample(table, &last->texts);
        smol_terms_free(table);
    }
}

/* Whatever is left of a text can be completed: otherwise a token would lead into a dead end. */
TEST(nothing_leads_into_a_dead_end)
{
    make_texts();
    for (int round = 0; round < n_rounds() / 4; round++) {
        struct term_table *table;
        struct sample pool[POOL];
        assert_int_equal(smol_terms_create(&table, NULL), SMOL_OK);
        for (int i = 0; i < POOL; i++)
            pool[i] = i < 4 ? leaf(table)
                            : compose(table, &pool[random_below((uint32_t)i)],
                                      &pool[random_below((uint32_t)i)]);
        term root = smol_term_both(table, pool[POOL - 1].number, pool[POOL - 2].number);
        if (!smol_terms_finish(table, root, NULL))
            for (int i = 0; i < N_TEXTS; i++) {
                term left = follow(table, texts[i]);
                assert_true(left == TERM_NOTHING || can_end(table, left));
            }
        smol_terms_free(table);
    }
}

/* --- rules -------------------------------------------------------------------------------------
 */

static term literal(struct term_table *table, const char *text)
{
    return smol_term_literal(table, text, strlen(text));
}

static bool accepts(struct term_table *table, const char *text)
{
    term left = follow(table, text);
    return left != TERM_NOTHING && smol_term_may_end(table, left);
}

/* list = "[" (list ("," list)*)? "]" */
TEST(rules_nest)
{
    struct term_table *table;
    assert_int_equal(smol_terms_create(&table, NULL), SMOL_OK);
    term list = smol_term_rule(table);
    term more =
        smol_term_repeat(table, smol_term_then(table, literal(table, ","), list), 0, TERM_FOREVER);
    term inner = smol_term_optional(table, smol_term_then(table, list, more));
    term body = smol_term_then(table, inner, literal(table, "]"));
    smol_term_define(table, list, smol_term_then(table, literal(table, "["), body));
    assert_int_equal(smol_terms_finish(table, list, NULL), SMOL_OK);
    assert_true(accepts(table, "[]"));
    assert_true(accepts(table, "[[],[[],[]],[]]"));
    assert_false(accepts(table, "[[],]"));
    assert_false(accepts(table, "[]]"));
    assert_int_equal(follow(table, "[],"), TERM_NOTHING);
    assert_int_not_equal(follow(table, "[[[[[["), TERM_NOTHING);
    smol_terms_free(table);
}

TEST(a_rule_that_begins_with_itself_is_refused)
{
    struct term_table *table;
    smol_error error;
    assert_int_equal(smol_terms_create(&table, NULL), SMOL_OK);
    term first = smol_term_rule(table), second = smol_term_rule(table);
    term maybe = smol_term_optional(table, literal(table, "x"));
    smol_term_define(table, first, smol_term_either(table, second, literal(table, "a")));
    smol_term_define(
        table, second,
        smol_term_then(table, maybe, smol_term_then(table, first, literal(table, "b"))));
    assert_int_equal(smol_terms_finish(table, first, &error), SMOL_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "a rule can begin with itself"));
    smol_terms_free(table);
}

/* loop = "a" loop has no text, so only "b" remains. */
TEST(a_rule_without_an_end_is_never_entered)
{
    struct term_table *table;
    assert_int_equal(smol_terms_create(&table, NULL), SMOL_OK);
    term loop = smol_term_rule(table);
    smol_term_define(table, loop, smol_term_then(table, literal(table, "a"), loop));
    term root = smol_term_either(table, loop, literal(table, "b"));
    assert_int_equal(smol_terms_finish(table, root, NULL), SMOL_OK);
    assert_int_equal(follow(table, "a"), TERM_NOTHING);
    assert_true(accepts(table, "b"));
    smol_terms_free(table);
}

TEST(what_allows_no_text_is_refused)
{
    struct term_table *table;
    smol_error error;
    assert_int_equal(smol_terms_create(&table, NULL), SMOL_OK);
    term root = smol_term_both(table, literal(table, "abc"), literal(table, "abd"));
    assert_int_equal(smol_terms_finish(table, root, &error), SMOL_ERROR_UNSUPPORTED);
    smol_terms_free(table);
}

TEST(forced_bytes_are_those_without_another)
{
    struct term_table *table;
    uint8_t byte = 0;
    struct byte_set digits = {{0}};
    byte_set_add(&digits, '0', '9');
    assert_int_equal(smol_terms_create(&table, NULL), SMOL_OK);
    term root = smol_term_then(table, literal(table, "ab"), smol_term_bytes(table, &digits));
    assert_int_equal(smol_terms_finish(table, root, NULL), SMOL_OK);
    assert_true(smol_term_forced(table, smol_terms_root(table), &byte));
    assert_int_equal(byte, 'a');
    assert_true(smol_term_forced(table, follow(table, "a"), &byte));
    assert_int_equal(byte, 'b');
    assert_false(smol_term_forced(table, follow(table, "ab"), &byte));
    assert_false(smol_term_forced(table, follow(table, "ab1"), &byte));
    smol_terms_free(table);
}

/* Each byte takes as long as in a short literal: with the whole rest, this would take minutes. */
TEST(a_long_literal_is_the_same_as_its_parts)
{
    enum { SIZE = 600000, PART = 1000 };
    struct term_table *table;
    uint8_t *bytes = malloc(SIZE);
    assert_non_null(bytes);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)('a' + i % 7);
    assert_int_equal(smol_terms_create(&table, NULL), SMOL_OK);
    term whole = smol_term_literal(table, bytes, SIZE), rest = whole;
    term last = smol_term_literal(table, bytes + SIZE - PART, PART);
    assert_int_equal(smol_terms_finish(table, smol_term_either(table, whole, last), NULL), SMOL_OK);
    for (size_t i = 0; i < SIZE; i++) {
        assert_false(smol_term_may_end(table, rest));
        assert_int_equal(rest == last, i == SIZE - PART);
        rest = smol_term_after(table, rest, bytes[i]);
    }
    assert_true(smol_term_may_end(table, rest));
    smol_terms_free(table);
    free(bytes);
}

int main(void)
{
    return run_all_tests("term", NULL, NULL);
}
