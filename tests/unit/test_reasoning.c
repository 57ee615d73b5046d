/* Tests of the separation of reasoning from replies: for every way of cutting an answer into two
 * pieces, and for single bytes, the parts are the same. */
#include <stdio.h>

#include "runtime/reasoning.h"
#include "tests/unit/demo_blob.h"
#include "tests/unit/unit.h"

static smol_model *model;

static int open_model(void **state)
{
    return make_demo_blob(state) || smol_model_open(demo_blob, NULL, &model, NULL);
}

static int close_model(void **state)
{
    smol_model_close(model);
    return remove_demo_blob(state);
}

static const struct reasoning_markers plain = {.open = "<think>", .close = "</think>"};
static const struct reasoning_markers wrapped = {"<think>", "</think>", "<answer>", "</answer>",
                                                 NULL};
static const struct reasoning_markers calling = {"[THINK]", "[/THINK]", NULL, NULL, "[TOOL"};

struct separated {
    char reasoning[256], reply[256];
};

static void collect(struct separated *out, const smol_reasoning_parts *parts)
{
    strncat(out->reasoning, parts->n_reasoning ? parts->reasoning : "", parts->n_reasoning);
    strncat(out->reply, parts->n_reply ? parts->reply : "", parts->n_reply);
}

/* Reads an answer in pieces of `first` bytes, of `rest` bytes, ... */
static struct separated separate(const struct reasoning_markers *markers,
                                 enum reasoning_place place, const char *text, size_t first,
                                 size_t rest)
{
    smol_reasoning_reader *reader = calloc(1, sizeof *reader);
    struct separated out = {"", ""};
    smol_reasoning_parts parts;
    smol_error error;
    assert_non_null(reader);
    reader->text = (struct reasoning_scan){.markers = *markers, .place = place};
    for (size_t size = strlen(text), n = first; size > 0; text += n, size -= n, n = rest) {
        n = n < size ? n : size;
        char *piece = malloc(n); /* so that a sanitizer sees a read beyond it */
        assert_non_null(piece);
        memcpy(piece, text, n);
        assert_int_equal(smol_reasoning_reader_add(reader, piece, n, SMOL_NO_TOKEN, &parts, &error),
                         SMOL_OK);
        free(piece);
        collect(&out, &parts);
    }
    assert_int_equal(smol_reasoning_reader_end(reader, &parts, &error), SMOL_OK);
    collect(&out, &parts);
    smol_reasoning_reader_free(reader);
    return out;
}

/* Checks an answer for all ways of cutting it. */
static void check(const struct reasoning_markers *markers, enum reasoning_place place,
                  const char *text, const char *reasoning, const char *reply)
{
    for (size_t first = 1; first <= strlen(text) + 1; first++)
        for (size_t rest = 1; rest <= strlen(text); rest += strlen(text)) {
            struct separated found = separate(markers, place, text, first, rest);
            assert_string_equal(found.reasoning, reasoning);
            assert_string_equal(found.reply, reply);
        }
}

TEST(an_answer_that_begins_with_the_marker_has_reasoning)
{
    check(&plain, BEFORE_REASONING, "<think>\nWell, 1 < 2.\n</think>\n\nYes.\n", "Well, 1 < 2.",
          "Yes.\n");
    check(&plain, BEFORE_REASONING, " \n<think>a</think>b", "a", "b");
    check(&plain, BEFORE_REASONING, "<think>\n\n</think>\n\nYes.", "", "Yes.");
}

TEST(an_answer_to_a_prompt_that_has_the_marker_begins_within_the_reasoning)
{
    check(&plain, IN_REASONING, "\nSo.\n\nThen.\n</think>\n\n Yes. ", "So.\n\nThen.", "Yes. ");
    check(&plain, IN_REASONING, "<think>a</think>b", "<think>a", "b");
}

TEST(text_that_only_resembles_a_marker_stays)
{
    check(&plain, BEFORE_REASONING, " <thin>x", "", " <thin>x");
    check(&plain, BEFORE_REASONING, "\n<<think>a</think>", "", "\n<<think>a</think>");
    check(&plain, BEFORE_REASONING, "x<think>a</think>", "", "x<think>a</think>");
    check(&plain, BEFORE_REASONING, " \n", "", " \n");
    check(&plain, BEFORE_REASONING, " <th", "", " <th");
    check(&plain, IN_REASONING, "a </ <</think </thin</think> <think>b</think>",
          "a </ <</think </thin", "<think>b</think>");
    check(&plain, IN_REPLY, " a</think>b", "", " a</think>b");
}

TEST(reasoning_that_does_not_end_is_all_of_the_answer)
{
    check(&plain, BEFORE_REASONING, "<think>\nBut\n\n", "But", "");
    check(&plain, BEFORE_REASONING, "<think>But </thi", "But </thi", "");
    check(&plain, BEFORE_REASONING, "<think>", "", "");
    check(&plain, IN_REASONING, "a</think>\n", "a", "");
}

TEST(markers_around_the_reply_are_left_out)
{
    check(&wrapped, BEFORE_REASONING, "<think>\na\n</think>\n<answer>\nb <i>\n</answer>", "a",
          "b <i>");
    check(&wrapped, BEFORE_REPLY, "<answer>\n b</answer>\n", "", "b\n");
    check(&wrapped, IN_REASONING, "a</think>\n <ans", "a", "<ans");
    check(&wrapped, IN_REASONING, "a</think> b</answer>", "a", "b</answer>");
    check(&wrapped, BEFORE_REASONING, "<think>a</think><answer>b </ans", "a", "b </ans");
}

TEST(a_call_of_a_tool_ends_the_reasoning)
{
    check(&calling, IN_REASONING, "a [/TO\n[TOOL_CALLS]f", "a [/TO", "[TOOL_CALLS]f");
    check(&calling, BEFORE_REASONING, "[THINK]a[/THINK][TOOL_CALLS]f", "a", "[TOOL_CALLS]f");
}

/* Returns the tokens of the reasoning of a text, whose characters are tokens, and arrive `delay`
 * tokens later: as if they might begin a stop string. */
static size_t count(enum reasoning_place place, const char *text, size_t delay)
{
    const struct reasoning_scan scan = {.markers = plain, .place = place};
    smol_reasoning_reader *reader = calloc(1, sizeof *reader);
    const smol_tokenize_params params = {0};
    size_t size = strlen(text), n;
    smol_reasoning_parts parts;
    smol_error error;
    uint32_t *ids;
    assert_non_null(reader);
    *reader = (smol_reasoning_reader){.model = model, .text = scan, .tokens = scan};
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(smol_tokenize(model, text + i, 1, &params, &ids, &n, &error), SMOL_OK);
        assert_int_equal(n, 1);
        smol_reasoning_reader_add(reader, i < delay ? "" : text + i - delay, i >= delay, ids[0],
                                  &parts, &error);
        smol_free(ids);
    }
    delay = delay < size ? delay : size;
    smol_reasoning_reader_add(reader, text + size - delay, delay, SMOL_NO_TOKEN, &parts, &error);
    assert_int_equal(smol_reasoning_reader_end(reader, &parts, &error), SMOL_OK);
    smol_reasoning_reader_free(reader);
    return parts.n_tokens;
}

TEST(the_tokens_of_the_reasoning_are_counted_to_its_end)
{
    for (size_t delay = 0; delay < 6; delay++) {
        assert_int_equal(count(BEFORE_REASONING, "<think>ab</think>cd", delay), 17);
        assert_int_equal(count(BEFORE_REASONING, "<think>ab", delay), 9);
        assert_int_equal(count(BEFORE_REASONING, "abc", delay), 0);
        assert_int_equal(count(IN_REASONING, "a</think>b", delay), 9);
    }
}

TEST(white_space_takes_linear_time)
{
    enum { SIZE = 1 << 20 };
    smol_reasoning_reader reader = {.text = {.markers = plain, .place = IN_REASONING}};
    smol_reasoning_parts parts;
    smol_error error;
    for (size_t i = 0; i < SIZE; i++) {
        const char *text = i == 0 ? "a" : " ";
        assert_int_equal(smol_reasoning_reader_add(&reader, text, 1, SMOL_NO_TOKEN, &parts, &error),
                         SMOL_OK);
    }
    smol_reasoning_reader_add(&reader, "b", 1, SMOL_NO_TOKEN, &parts, &error);
    assert_int_equal(parts.n_reasoning, SIZE);
    free(reader.text.held.text);
    free(reader.text.reasoning.text);
}

int main(void)
{
    return run_all_tests("reasoning", open_model, close_model);
}
