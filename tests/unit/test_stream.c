/* Tests of text streaming, compared with an oracle that sees the whole text at once, for every way
 * of cutting some texts into pieces: characters stay whole, stop strings are never shown, and only
 * bytes that may still become part of one are held back. */
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "runtime/tokenizer/stream.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/unit.h"

enum { MAX_TEXT = 256 };

struct text {
    char bytes[MAX_TEXT];
    size_t size;
};

static void append(struct text *text, const void *bytes, size_t size)
{
    assert_true(text->size + size <= MAX_TEXT);
    if (size > 0)
        memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
}

static struct stream *make(const char *const *stop, size_t n_stop)
{
    struct stream *stream;
    smol_error error;
    assert_int_equal(smol_stream_create(stop, n_stop, &stream, &error), SMOL_OK);
    return stream;
}

/* --- the oracle --------------------------------------------------------------------------- */

/* Returns all of bytes as well-formed UTF-8. */
static struct text decoded(const char *bytes, size_t size)
{
    struct text text = {.size = 0};
    for (size_t i = 0; i < size;) {
        uint32_t code_point;
        uint8_t character[UTF8_MAX];
        i += smol_utf8_decode((const uint8_t *)bytes + i, size - i, &code_point);
        append(&text, character, smol_utf8_encode(code_point, character));
    }
    return text;
}

static int ends_with(const struct text *text, size_t size, const char *end)
{
    size_t n = strlen(end);
    return n <= size && memcmp(text->bytes + size - n, end, n) == 0;
}

/* Returns the size of `text` up to the stop string that is completed first, the longest of
 * several. */
static size_t cut(const struct text *text, const char *const *stop, size_t n_stop, int *stopped)
{
    for (size_t size = 1; size <= text->size; size++) {
        size_t longest = 0;
        for (size_t i = 0; i < n_stop; i++)
            if (ends_with(text, size, stop[i]) && strlen(stop[i]) > longest)
                longest = strlen(stop[i]);
        if (longest > 0) {
            *stopped = 1;
            return size - longest;
        }
    }
    *stopped = 0;
    return text->size;
}

/* Returns the size of the end of `text` that must be held back: the longest that starts a stop
 * string. */
static size_t must_hold(const struct text *text, const char *const *stop, size_t n_stop)
{
    for (size_t size = text->size; size > 0; size--)
        for (size_t i = 0; i < n_stop; i++)
            if (size < strlen(stop[i]) &&
                memcmp(text->bytes + text->size - size, stop[i], size) == 0)
                return size;
    return 0;
}

/* Pushes the pieces of bytes that the bits of `cuts` mark and compares after each. */
static void check_split(const char *bytes, size_t size, const char *const *stop, size_t n_stop,
                        uint64_t cuts)
{
    struct stream *stream = make(stop, n_stop);
    struct text shown = {.size = 0};
    struct stream_text out;
    smol_error error;
    size_t start = 0;
    for (size_t end = 1; end <= size; end++) {
        if (end < size && !(cuts >> (end - 1) & 1))
            continue;
        assert_int_equal(smol_stream_push(stream, bytes + start, end - start, &out, &error), 0);
        append(&shown, out.text, out.size);
        start = end;

        size_t whole = end - smol_utf8_unfinished((const uint8_t *)bytes, end);
        struct text text = decoded(bytes, whole);
        int stopped;
        size_t expected = cut(&text, stop, n_stop, &stopped);
        if (!stopped)
            expected -= must_hold(&text, stop, n_stop);
        assert_int_equal(out.stop > 0, stopped);
        assert_int_equal(shown.size, expected);
    }
    assert_int_equal(smol_stream_finish(stream, &out, &error), SMOL_OK);
    append(&shown, out.text, out.size);
    struct text text = decoded(bytes, size);
    int stopped;
    size_t expected = cut(&text, stop, n_stop, &stopped);
    assert_int_equal(out.stop > 0, stopped);
    assert_int_equal(shown.size, expected);
    assert_memory_equal(shown.bytes, text.bytes, expected);
    smol_stream_free(stream);
}

static void check_every_split(const char *bytes, size_t size, const char *const *stop,
                              size_t n_stop)
{
    assert_true(size <= 16);
    const uint64_t stride = size > 12 && few_samples() ? 7 : 1;
    for (uint64_t cuts = 0; cuts < (uint64_t)1 << (size - 1); cuts += stride)
        check_split(bytes, size, stop, n_stop, cuts);
}

#define CHECK(bytes, ...)                                                                          \
    do {                                                                                           \
        const char *const stop[] = {__VA_ARGS__};                                                  \
        check_every_split(bytes, sizeof bytes - 1, stop, sizeof stop / sizeof stop[0]);            \
    } while (0)

/* --- tests -------------------------------------------------------------------------------- */

TEST(characters_stay_whole)
{
    check_every_split("a\u00e9\u20ac\U0001f600!", 11, NULL, 0);
}

TEST(ill_formed_bytes_become_replacement_characters)
{
    check_every_split("\xff\xe2\x82\x41\xc3\xc3\xa9\x80\xf0\x9f\x98", 11, NULL, 0);
    check_every_split("\xed\xa0\x80\xc0\xaf\xf4\x90\x80\x80\xe0\x9f\xbf", 12, NULL, 0);
}

TEST(an_unfinished_character_at_the_end_is_replaced)
{
    struct stream *stream = make(NULL, 0);
    struct stream_text out;
    smol_error error;
    assert_int_equal(smol_stream_push(stream, "\xf0\x9f\x98", 3, &out, &error), SMOL_OK);
    assert_int_equal(out.size, 0);
    assert_int_equal(smol_stream_finish(stream, &out, &error), SMOL_OK);
    assert_int_equal(out.size, 3);
    assert_memory_equal(out.text, "\xef\xbf\xbd", 3);
    smol_stream_free(stream);
}

TEST(stop_strings_end_the_text_before_them)
{
    CHECK("Hello. User: Bob", "User:");
    CHECK("Hello. User: Bob", "H");
    CHECK("Hello. User: Bob", "Bob");
    CHECK("Hello. User: Bob", "Bobby", "absent");
}

TEST(a_start_of_a_stop_string_shows_once_it_cannot_complete)
{
    CHECK("aaaaaabaaab", "aaab");
    CHECK("ababababac", "ababac");
    CHECK("abcabcabd", "abcabd");
    CHECK("ENENDEND", "ENDING");
}

TEST(of_several_stop_strings_the_first_complete_counts)
{
    CHECK("xabcdex", "abcde", "cd");
    CHECK("xabcdex", "cd", "abcde");
    CHECK("xabcabdx", "abcabe", "abd", "bx");
}

TEST(of_stop_strings_that_end_together_the_longest_counts)
{
    CHECK("xabcx", "c", "abc", "bc");
    CHECK("xabcx", "bc", "c");
}

TEST(stop_strings_may_have_wide_characters)
{
    CHECK("a\u00e9b\u20acc", "\u20ac");
    CHECK("a\u00e9\u00e8b", "\u00e9\u00e9", "\u00e8b");
    CHECK("x\xe2\x82y\xff", "\xef\xbf\xbdy"); /* what is shown counts, replacements too */
    CHECK("x\xe2\x82", "\xef\xbf\xbd");
    CHECK("x\xe2y", "\xef\xbf\xbd"); /* y ends a character, and starts another after the stop */
}

TEST(every_small_text_and_stop_string_agrees_with_the_oracle)
{
    /* All texts of 8 letters a, b against all pairs of stop strings of 1 to 3. */
    static const char *const strings[] = {"a",   "b",   "aa",  "ab",  "ba",  "bb",  "aaa",
                                          "aab", "aba", "abb", "baa", "bab", "bba", "bbb"};
    enum { N = sizeof strings / sizeof strings[0] };
    for (unsigned bits = 0; bits < 256; bits++) {
        char text[8];
        for (int i = 0; i < 8; i++)
            text[i] = bits >> i & 1 ? 'b' : 'a';
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                const char *const stop[] = {strings[i], strings[j]};
                check_split(text, 8, stop, 2, 0x7f);
            }
    }
}

TEST(after_a_stop_string_nothing_comes)
{
    const char *const stop[] = {"."};
    struct stream *stream = make(stop, 1);
    struct stream_text out;
    smol_error error;
    assert_int_equal(smol_stream_push(stream, "ab.cd", 5, &out, &error), SMOL_OK);
    assert_true(out.stop > 0 && out.size == 2);
    assert_int_equal(smol_stream_push(stream, "ef.", 3, &out, &error), SMOL_OK);
    assert_true(out.stop > 0 && out.size == 0);
    assert_int_equal(smol_stream_finish(stream, &out, &error), SMOL_OK);
    assert_true(out.stop > 0 && out.size == 0);
    smol_stream_free(stream);
}

TEST(empty_and_ill_formed_stop_strings_are_refused)
{
    const char *const bad[] = {"", "\xa9", "a\xe2\x82"};
    for (size_t i = 0; i < 3; i++) {
        const char *const stop[] = {"fine", bad[i]};
        struct stream *stream;
        smol_error error;
        assert_int_equal(smol_stream_create(stop, 2, &stream, &error), SMOL_ERROR_USAGE);
        assert_null(stream);
    }
    smol_stream_free(NULL);
}

TEST(long_pushes_are_linear)
{
    enum { SIZE = 4 << 20 };
    const char *const stop[] = {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"};
    struct stream *stream = make(stop, 1);
    char *text = malloc(SIZE);
    memset(text, 'a', SIZE);
    struct stream_text out;
    smol_error error;
    assert_int_equal(smol_stream_push(stream, text, SIZE, &out, &error), SMOL_OK);
    assert_int_equal(out.size, SIZE - 32);
    assert_int_equal(smol_stream_finish(stream, &out, &error), SMOL_OK);
    assert_int_equal(out.size, 32);
    free(text);
    smol_stream_free(stream);
}

int main(void)
{
    return run_all_tests("stream", NULL, NULL);
}
