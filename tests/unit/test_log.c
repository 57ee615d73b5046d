/* Tests of the messages to a program's log. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "smol.h"
#include "tests/unit/demo_blob.h"
#include "tests/unit/unit.h"

/* --- a log -------------------------------------------------------------------------------- */

struct log {
    unsigned n; /* lines since the last check */
    smol_log_level level;
    char line[512]; /* newest line */
};

static void keep(void *user, smol_log_level level, const char *message)
{
    struct log *log = user;
    const char *name = strrchr(demo_blob, '/') + 1;
    size_t length = strlen(name);
    assert_memory_equal(message, name, length);
    assert_memory_equal(message + length, ": ", 2);
    assert_true(strlen(message) < sizeof log->line);
    for (const char *c = message; *c; c++)
        assert_true((unsigned char)*c >= ' ');
    strcpy(log->line, message + length + 2);
    log->level = level;
    log->n++;
}

/* Expects exactly one line, which contains these words. */
static void check_line(struct log *log, smol_log_level level, const char *words)
{
    assert_int_equal(log->n, 1);
    assert_int_equal(log->level, level);
    if (!strstr(log->line, words))
        fail_msg("\"%s\" is not in \"%s\"", words, log->line);
    log->n = 0;
}

static smol_model *open_logged(smol_model_params params, struct log *log)
{
    smol_model *model;
    params.on_log = keep;
    params.user = log;
    assert_int_equal(smol_model_open(demo_blob, &params, &model, NULL), SMOL_OK);
    return model;
}

static smol_context *context_of(const smol_model *model, const smol_context_params *params)
{
    smol_context *context;
    assert_int_equal(smol_context_create(model, params, &context, NULL), SMOL_OK);
    return context;
}

/* --- lines -------------------------------------------------------------------------------- */

TEST(opening_says_how)
{
    struct log log = {0};
    smol_model *model = open_logged((smol_model_params){0}, &log);
    check_line(&log, SMOL_LOG_INFO, "mapped, digests checked at first use");
    assert_non_null(strstr(log.line, smol_model_get_info(model).dtype));
    smol_model_close(model);
    model = open_logged((smol_model_params){.no_mmap = 1, .verify = SMOL_VERIFY_OFF}, &log);
    check_line(&log, SMOL_LOG_INFO, "in memory, digests checked never");
    smol_model_close(model);
    assert_int_equal(log.n, 0);
}

TEST(what_is_refused_is_no_line)
{
    struct log log = {0};
    const smol_model_params params = {.on_log = keep, .user = &log};
    smol_model *model;
    assert_int_equal(smol_model_open("/no/such.smol", &params, &model, NULL), SMOL_ERROR_FILE);
    assert_int_equal(log.n, 0);
    model = open_logged((smol_model_params){0}, &log);
    log.n = 0;
    smol_context *context;
    const smol_context_params too_long = {.n_ctx = UINT32_MAX};
    assert_int_equal(smol_context_create(model, &too_long, &context, NULL), SMOL_ERROR_USAGE);
    assert_int_equal(log.n, 0);
    smol_model_close(model);
}

TEST(contexts_say_what_they_run_on)
{
    struct log log = {0};
    smol_model *model = open_logged((smol_model_params){0}, &log);
    const smol_context_params params = {.n_ctx = 77, .n_threads = 2, .kv = SMOL_KV_INT8};
    log.n = 0;
    smol_context *first = context_of(model, &params);
    check_line(&log, SMOL_LOG_INFO, "context of 77 tokens: 2 threads,");
    assert_non_null(strstr(log.line, smol_context_get_info(first).isa));
    assert_non_null(strstr(log.line, "KV cache of int8"));
    smol_context *second = context_of(model, &(smol_context_params){.share = first});
    check_line(&log, SMOL_LOG_INFO, "2 threads, shared,");
    smol_context_free(first);
    smol_context_free(second);
    smol_model_close(model);
}

/* A pause that the program did not request is logged before it begins. */
TEST(a_slide_says_what_it_keeps)
{
    struct log log = {0};
    smol_model *model = open_logged((smol_model_params){0}, &log);
    smol_context *context = context_of(model, &(smol_context_params){.n_ctx = 16});
    uint32_t ids[16];
    for (uint32_t i = 0; i < 16; i++)
        ids[i] = 20 + i;
    assert_int_equal(smol_eval(context, ids, 16, 0, NULL, NULL), SMOL_OK);
    log.n = 0;
    assert_int_equal(smol_context_slide(context, 4, 0, NULL), SMOL_OK); /* no pause */
    assert_int_equal(smol_context_slide(context, 4, 13, NULL), SMOL_ERROR_CONTEXT_FULL);
    assert_int_equal(log.n, 0);
    assert_int_equal(smol_context_slide(context, 4, 1, NULL), SMOL_OK);
    check_line(&log, SMOL_LOG_INFO, "of 16 tokens it keeps 4 and evaluates the newest 6 anew");
    assert_int_equal(smol_context_length(context), 4 + 6);
    smol_context_free(context);
    smol_model_close(model);
}

TEST(sessions_are_told)
{
    struct log log = {0};
    smol_model *model = open_logged((smol_model_params){0}, &log);
    smol_context *context = context_of(model, NULL);
    const uint32_t ids[] = {20, 21, 22};
    void *bytes;
    size_t size;
    assert_int_equal(smol_eval(context, ids, 3, 0, NULL, NULL), SMOL_OK);
    log.n = 0;
    assert_int_equal(smol_context_save_memory(context, NULL, &bytes, &size, NULL), SMOL_OK);
    check_line(&log, SMOL_LOG_INFO, "session of 3 tokens saved");
    assert_int_equal(smol_context_restore_memory(context, NULL, bytes, size, NULL), SMOL_OK);
    check_line(&log, SMOL_LOG_INFO, "session of 3 tokens restored");
    assert_int_equal(smol_context_restore_memory(context, NULL, bytes, size - 1, NULL),
                     SMOL_ERROR_DAMAGED);
    assert_int_equal(log.n, 0);
    smol_free(bytes);
    smol_context_free(context);
    smol_model_close(model);
}

static void tokenize(const smol_model *model, const char *text, size_t size)
{
    uint32_t *ids;
    size_t n;
    assert_int_equal(smol_tokenize(model, text, size, NULL, &ids, &n, NULL), SMOL_OK);
    smol_free(ids);
}

TEST(text_that_is_not_utf8_is_a_warning)
{
    struct log log = {0};
    smol_model *model = open_logged((smol_model_params){0}, &log);
    log.n = 0;
    tokenize(model, "caf\xc3\xa9 \xef\xbf\xbd", 9); /* U+FFFD itself is well-formed */
    tokenize(model, NULL, 0);
    assert_int_equal(log.n, 0);
    tokenize(model, "caf\xe9", 4); /* Latin-1 */
    check_line(&log, SMOL_LOG_WARNING, "a text is not UTF-8 (from byte 3 on)");
    smol_model_close(model);
}

TEST(so_is_a_message_of_such_text)
{
    struct log log = {0};
    smol_model *model = open_logged((smol_model_params){0}, &log);
    smol_chat_message messages[] = {{"user", "hello", 5}, {"user", "caf\xe9", 4}};
    const smol_chat_params params = {.messages = messages, .n_messages = 2};
    smol_chat_text text;
    log.n = 0;
    assert_int_equal(smol_chat_format(model, &params, &text, NULL), SMOL_OK);
    check_line(&log, SMOL_LOG_WARNING, "a message is not UTF-8 (from byte 3 on)");
    smol_chat_text_free(&text);
    const smol_chat_message later[] = {
        messages[0], messages[1], {"assistant", "yes", 3}, messages[0]};
    const smol_chat_params next = {.messages = later, .n_messages = 4};
    assert_int_equal(smol_chat_format(model, &next, &text, NULL), SMOL_OK);
    assert_int_equal(log.n, 0); /* logged only once */
    smol_chat_text_free(&text);
    messages[1].size = 3;
    assert_int_equal(smol_chat_format(model, &params, &text, NULL), SMOL_OK);
    assert_int_equal(log.n, 0);
    smol_chat_text_free(&text);
    smol_model_close(model);
}

int main(void)
{
    return run_all_tests("log", make_demo_blob, remove_demo_blob);
}
