/* Tests of the search for added tokens, compared with a search that tries every token at every
 * position. */
#include <stdlib.h>
#include <string.h>

#include "runtime/tokenizer/added.h"
#include "tests/unit/unit.h"

enum { MAX_TOKENS = 64, MAX_POOL = MAX_TOKENS * ADDED_TOKEN_MAX, MAX_SIZE = 4 * ADDED_BLOCK };

/* Tables that contain only added tokens. */
struct tokens {
    struct tokenizer_tables tables;
    struct added_automata automata;
    struct token_span spans[MAX_TOKENS];
    struct added_token added[MAX_TOKENS];
    uint8_t pool[MAX_POOL];
};

static uint8_t *pool_of_sort;

static int compare_tokens(const void *left, const void *right)
{
    const struct added_token *a = left, *b = right;
    uint32_t common = a->length < b->length ? a->length : b->length;
    int order = memcmp(pool_of_sort + a->start, pool_of_sort + b->start, common);
    return order ? order : (int)a->length - (int)b->length;
}

static void add_token(struct tokens *t, const char *text, size_t length, uint32_t flags)
{
    struct blob_tokenizer *header = &t->tables.header;
    uint32_t start = header->n_text_bytes;
    for (uint32_t i = 0; i < header->n_added; i++)
        if (t->added[i].length == length && !memcmp(t->pool + t->added[i].start, text, length))
            return;
    memcpy(t->pool + start, text, length);
    header->n_text_bytes += (uint32_t)length;
    t->added[header->n_added++] = (struct added_token){0, start, (uint32_t)length, flags};
}

static struct tokens *new_tokens(void)
{
    struct tokens *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->tables = (struct tokenizer_tables){.header.n_tokens = MAX_TOKENS,
                                          .spans = t->spans,
                                          .text = t->pool,
                                          .added = t->added,
                                          .rules = text_tables_none()};
    return t;
}

/* Sorts the tokens, numbers them, and builds the automata. */
static void finish_tokens(struct tokens *t)
{
    smol_error error;
    pool_of_sort = t->pool;
    qsort(t->added, t->tables.header.n_added, sizeof t->added[0], compare_tokens);
    for (uint32_t i = 0; i < t->tables.header.n_added; i++)
        t->added[i].id = i;
    assert_int_equal(smol_added_automata_build(&t->tables, &t->automata, &error), SMOL_OK);
}

static void free_tokens(struct tokens *t)
{
    smol_added_automata_free(&t->automata);
    free(t);
}

/* Makes tokens that are parts of each other, some of them special. */
static struct tokens *random_tokens(void)
{
    struct tokens *t = new_tokens();
    char text[12];
    for (uint32_t n = 1 + random_below(MAX_TOKENS); n > 0; n--) {
        size_t length = 1 + random_below(sizeof text);
        for (size_t i = 0; i < length; i++)
            text[i] = "aaab"[random_below(4)];
        add_token(t, text, length, random_below(2) ? ADDED_SPECIAL : 0);
    }
    finish_tokens(t);
    return t;
}

/* Returns the entry of the longest token at text[at], or NO_ENTRY. */
static uint32_t longest_token(const struct tokens *t, const struct mixed_text *mixed, size_t at)
{
    uint32_t longest = NO_ENTRY;
    for (uint32_t i = 0; i < t->tables.header.n_added; i++) {
        const struct added_token *token = &t->added[i];
        if (token->length > mixed->size - at ||
            memcmp(mixed->text + at, t->pool + token->start, token->length) != 0)
            continue;
        bool forged =
            mixed->arguments && memchr(mixed->arguments + at, 1, token->length) &&
            (token->flags & ADDED_SPECIAL ||
             memmem(mixed->literals, mixed->n_literals, t->pool + token->start, token->length));
        if (!forged && (longest == NO_ENTRY || token->length > t->added[longest].length))
            longest = i;
    }
    return longest;
}

static void check_search(const struct tokens *t, const struct mixed_text *mixed)
{
    uint32_t harmless[MAX_TOKENS] = {0};
    struct encode_watch watch = {0};
    struct added_search search = {.tables = &t->tables,
                                  .automaton = &t->automata.kinds[0],
                                  .text = (const uint8_t *)mixed->text,
                                  .size = mixed->size,
                                  .mixed = mixed->arguments ? mixed : NULL,
                                  .arguments = mixed->arguments,
                                  .harmless = harmless,
                                  .watch = &watch};
    struct added_match match;
    for (size_t at = 0; at < mixed->size;) {
        uint32_t entry = longest_token(t, mixed, at);
        if (entry == NO_ENTRY) {
            at++;
            continue;
        }
        assert_true(smol_added_next(&search, &match));
        assert_int_equal(match.id, entry);
        assert_int_equal(match.start, at);
        at += t->added[entry].length;
        assert_int_equal(match.end, at);
    }
    assert_false(smol_added_next(&search, &match));
}

TEST(tokens_are_found_leftmost_then_longest)
{
    static char text[MAX_SIZE];
    for (unsigned round = 0; round < 300; round++) {
        struct tokens *t = random_tokens();
        struct mixed_text mixed = {.text = text, .size = random_below(round % 10 ? 64 : MAX_SIZE)};
        for (size_t i = 0; i < mixed.size; i++)
            text[i] = "aaaaabc"[random_below(7)];
        check_search(t, &mixed);
        free_tokens(t);
    }
}

TEST(arguments_forge_no_token)
{
    static char text[MAX_SIZE];
    static uint8_t arguments[MAX_SIZE];
    static const uint8_t literals[] = "aabaaba";
    for (unsigned round = 0; round < 300; round++) {
        struct tokens *t = random_tokens();
        struct mixed_text mixed = {.text = text,
                                   .arguments = arguments,
                                   .size = random_below(round % 10 ? 64 : MAX_SIZE),
                                   .literals = literals,
                                   .n_literals = sizeof literals - 1};
        for (size_t i = 0; i < mixed.size; i++) {
            text[i] = "aaaaabc"[random_below(7)];
            arguments[i] = i > 0 && random_below(6) ? arguments[i - 1] : (uint8_t)random_below(2);
        }
        check_search(t, &mixed);
        free_tokens(t);
    }
}

/* Makes tokens up to the greatest length; a text of `a` contains the start of every token at every
 * position. */
static struct tokens *long_tokens(void)
{
    static char text[ADDED_TOKEN_MAX];
    struct tokens *t = new_tokens();
    memset(text, 'a', sizeof text);
    for (size_t length = ADDED_TOKEN_MAX - 40; length <= ADDED_TOKEN_MAX; length++) {
        text[length - 1] = 'b';
        add_token(t, text, length, 0);
        text[length - 1] = 'a';
    }
    finish_tokens(t);
    return t;
}

TEST(tokens_longer_than_a_block_are_found)
{
    static char text[MAX_SIZE];
    struct tokens *t = long_tokens();
    for (size_t end = ADDED_TOKEN_MAX - 60; end < MAX_SIZE; end += 97) {
        const struct mixed_text mixed = {.text = text, .size = MAX_SIZE};
        memset(text, 'a', sizeof text);
        text[end] = 'b';
        check_search(t, &mixed);
    }
    free_tokens(t);
}

/* Reading a byte makes a state's string at most one byte longer, and a failure makes it shorter, so
 * there are no more failures than bytes. The states are in order of the lengths of their
 * strings. */
TEST(failures_lead_to_shorter_strings)
{
    struct tokens *t = long_tokens();
    const struct added_automaton *automaton = &t->automata.kinds[0];
    uint32_t *length = calloc(t->tables.header.n_text_bytes + 1, sizeof *length), n = 1;
    assert_non_null(length);
    for (uint32_t s = 0; s < n; s++) {
        const struct added_state *from = &automaton->states[s];
        assert_true(s == 0 || length[from->failure] < length[s]);
        assert_true(from->longest == NO_ENTRY || t->added[from->longest].length <= length[s]);
        assert_int_equal(from->children, n);
        for (uint32_t i = 0; i < from->n_children; i++)
            length[n++] = length[s] + 1;
        assert_true(n <= t->tables.header.n_text_bytes + 1);
    }
    assert_int_equal(length[n - 1], ADDED_TOKEN_MAX);
    free(length);
    free_tokens(t);
}

int main(void)
{
    return run_all_tests("added", NULL, NULL);
}
