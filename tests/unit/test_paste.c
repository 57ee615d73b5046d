/* Tests of text pasted at a terminal: its end, and the part of it that is kept. */
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "smolrun/chat/entry.h"
#include "smolrun/chat/keys.h"
#include "tests/unit/unit.h"

/* Adds all bytes. Returns whether the last one ended the paste; no earlier byte may end it. */
static bool add(struct paste *paste, const char *bytes, size_t size)
{
    for (size_t i = 0; i + 1 < size; i++)
        assert_false(smol_paste_add(paste, bytes[i]));
    return smol_paste_add(paste, bytes[size - 1]);
}

static void check(const char *bytes, size_t size, const wchar_t *expected)
{
    struct paste paste = {0};
    assert_true(size == 0 || !add(&paste, bytes, size));
    assert_true(add(&paste, PASTE_END, strlen(PASTE_END)));
    assert_false(paste.too_long);
    assert_int_equal(paste.bytes.size, size);
    wchar_t *text = smol_paste_text(&paste);
    assert_non_null(text);
    assert_int_equal(wcslen(text), wcslen(expected));
    assert_memory_equal(text, expected, wcslen(expected) * sizeof *text);
    free(text);
    smol_free(paste.bytes.text);
}

#define CHECK(bytes, expected) check(bytes, sizeof(bytes) - 1, expected)

TEST(text_is_kept)
{
    CHECK("", L"");
    CHECK("a\tb", L"a\tb");
    CHECK("Zo\xc3\xab \xe2\x98\x83 \xf0\x9f\x98\x80", L"Zo\xeb \u2603 \U0001f600");
    CHECK("\xff\xe2\x98x\xed\xa0\x80", L"\ufffd\ufffdx\ufffd\ufffd\ufffd");
}

TEST(line_breaks_are_line_feeds)
{
    CHECK("a\rb\r\rc\r", L"a\nb\n\nc\n");
    CHECK("a\nb\n\nc\n", L"a\nb\n\nc\n");
    CHECK("a\r\nb\r\n\r\nc\r\n", L"a\nb\n\nc\n");
    CHECK("a\n\rb\n\r\n\rc\n\r", L"a\nb\n\nc\n"); /* a terminal that exchanges them */
}

TEST(control_characters_are_left_out)
{
    CHECK("\0\1\2\3\4\5\6\7\10\13\14\16\17\20\21\22\23\24\25\26\27\30\31\32\33\34\35\36\37\177",
          L"");
    CHECK("\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", L"\xa0");
    CHECK("\033[31mred\033]0;title\a", L"[31mred]0;title");
}

TEST(only_its_mark_ends_it)
{
    CHECK("\033[201", L"[201");
    CHECK("\033\033[20\033[200~\033[20", L"[20[200~[20");
    CHECK("[201~", L"[201~");
}

TEST(there_is_a_limit)
{
    for (int more = -1; more <= 9; more++) {
        struct paste paste = {0};
        for (int i = 0; i < MAX_MESSAGE + more; i++)
            assert_false(smol_paste_add(&paste, 'x'));
        assert_true(add(&paste, PASTE_END, strlen(PASTE_END)));
        assert_true(paste.too_long == (more > 0));
        assert_true(more > 0 || paste.bytes.size == (size_t)(MAX_MESSAGE + more));
        assert_true(paste.bytes.capacity <= 2 * MAX_MESSAGE);
        smol_free(paste.bytes.text);
    }
}

static void *no_memory(void *user, size_t alignment, size_t size)
{
    (void)user, (void)alignment, (void)size;
    return NULL;
}

static void *no_more_memory(void *user, void *memory, size_t size)
{
    (void)user, (void)memory, (void)size;
    return NULL;
}

static void release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

/* The end of the paste is found even without memory. */
TEST(what_there_is_no_memory_for_ends_too)
{
    const struct memory_source none = {no_memory, no_more_memory, release, NULL};
    struct paste paste = {0};
    smol_memory_use(&none);
    bool ends = add(&paste, "abc" PASTE_END, 3 + strlen(PASTE_END));
    wchar_t *text = smol_paste_text(&paste);
    smol_memory_use(NULL);
    assert_true(ends && paste.bytes.failed && !text);
}

int main(void)
{
    return run_all_tests("paste", NULL, NULL);
}
