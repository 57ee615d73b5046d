/* What of a line was typed, against one that remembers it of each character. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdint.h>
#include <string.h>

#include "smolrun/chat_typed.h"

enum { MOST = 64 };

static struct {
    bool pasted[MOST]; /* or between two that were */
    size_t length, cursor;
} model;

static uint64_t state = 1;

static size_t draw(size_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(state >> 33) % below;
}

/* The first and the last character that counts as pasted; false: there is none. */
static bool find_part(size_t *first, size_t *last)
{
    *last = MOST;
    for (size_t i = model.length; i-- > 0;)
        if (model.pasted[i]) {
            *first = i;
            *last = *last == MOST ? i : *last;
        }
    return *last < MOST;
}

static void insert(size_t n, bool pasted)
{
    bool *at = model.pasted + model.cursor;
    size_t first = 0, last;
    bool amid = find_part(&first, &last) && first < model.cursor && model.cursor <= last;
    memmove(at + n, at, model.length - model.cursor);
    memset(at, pasted || amid, n);
    model.length += n;
    model.cursor += n;
    if (find_part(&first, &last))
        memset(model.pasted + first, true, last + 1 - first);
}

static void erase(size_t from, size_t to)
{
    memmove(model.pasted + from, model.pasted + to, model.length - to);
    model.length -= to - from;
    model.cursor = from;
}

static void do_something(struct typed_line *line)
{
    size_t room = MOST - model.length, n = draw(room < 5 ? room + 1 : 6);
    switch (draw(6)) {
    case 0:
        insert(n, true);
        smol_typed_paste(line, n);
        break;
    case 1:
        insert(n, false);
        break;
    case 2:
        erase(draw(model.cursor + 1), model.cursor);
        break;
    case 3:
        erase(model.cursor, model.cursor + draw(model.length - model.cursor + 1));
        break;
    default:
        model.cursor = draw(model.length + 1);
    }
    smol_typed_follow(line, model.length, model.cursor);
}

static void it_is_known_after_every_key(void **unused)
{
    struct typed_line line = {0};
    size_t first = 0, last = 0, n_pasted = 0;
    (void)unused;
    for (int i = 0; i < 100000; i++) {
        do_something(&line);
        bool pasted = find_part(&first, &last);
        struct typed part = smol_typed_part(&line, false);
        n_pasted += pasted;
        assert_int_equal(part.before, pasted ? first : SIZE_MAX);
        assert_int_equal(part.after, pasted ? model.length - 1 - last : SIZE_MAX);
    }
    assert_in_range(n_pasted, 10000, 90000); /* there was both */
}

static void rows_of_the_history_were_pasted_once(void **unused)
{
    const struct typed_line line = {.length = 3};
    (void)unused;
    struct typed part = smol_typed_part(&line, true);
    assert_int_equal(part.before, 1); /* a slash that was pasted has got another one */
    assert_int_equal(part.after, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_known_after_every_key),
        cmocka_unit_test(rows_of_the_history_were_pasted_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
