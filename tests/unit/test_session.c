/* Tests of sessions: a restored sequence continues with the same bits as without interruption, for
 * every type of KV cache, and anything else is refused. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "format/session.h"
#include "smol.h"
#include "tests/unit/demo_blob.h"
#include "tests/unit/tiny_blob.h"
#include "tests/unit/unit.h"

enum { VOCABULARY = 1990, TINY_VOCABULARY = 19, TINY_CONTEXT = 11 };

static smol_model *demo;       /* 3 key-value heads, several blocks of positions */
static smol_model *rich;       /* windowed layers, soft-caps, odd shapes */
static smol_model *rich_other; /* the same shape, other weights */

static smol_model *open_tiny(const char *name, const struct blob_model *model)
{
    const struct blob_contents contents = contents_of(model);
    smol_error error;
    smol_model *opened;
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder.folder, name);
    if (write_blob(path, false, &contents, &error) || smol_model_open(path, NULL, &opened, NULL))
        abort();
    return opened;
}

static int open_models(void **state)
{
    if (make_demo_blob(state) || smol_model_open(demo_blob, NULL, &demo, NULL))
        return -1;
    make_tokenizer();
    rich = open_tiny("rich", &rich_model);
    struct blob_model other = rich_model;
    other.rms_norm_eps = 1e-4f;
    rich_other = open_tiny("other", &other);
    return 0;
}

static int close_models(void **state)
{
    smol_model_close(demo);
    smol_model_close(rich);
    smol_model_close(rich_other);
    return remove_demo_blob(state);
}

static smol_context *create(const smol_model *model, smol_kv kv, uint32_t n_threads)
{
    const smol_context_params params = {.kv = kv, .n_threads = n_threads};
    smol_context *context;
    assert_int_equal(smol_context_create(model, &params, &context, NULL), SMOL_OK);
    return context;
}

static void eval(smol_context *context, uint32_t first, size_t n, size_t n_logits, float *logits)
{
    uint32_t ids[256],
        vocabulary = smol_context_capacity(context) == TINY_CONTEXT ? TINY_VOCABULARY : VOCABULARY;
    for (size_t i = 0; i < n; i++)
        ids[i] = (first + (uint32_t)i * 7) % vocabulary;
    assert_int_equal(smol_eval(context, ids, n, n_logits, logits, NULL), SMOL_OK);
}

struct bytes {
    uint8_t *data;
    size_t size;
};

static struct bytes save(const smol_context *context, const smol_session *session)
{
    void *data;
    size_t size;
    assert_int_equal(smol_context_save_memory(context, session, &data, &size, NULL), SMOL_OK);
    return (struct bytes){data, size};
}

/* --- exactness ---------------------------------------------------------------------------- */

static void assert_same_continuation(const smol_model *model, smol_kv kv, size_t n, size_t more)
{
    static float expected[VOCABULARY * 8], got[VOCABULARY * 8];
    size_t vocabulary = smol_model_get_info(model).vocab_size;
    smol_context *first = create(model, kv, 1), *second = create(model, kv, 3);
    eval(first, 3, n, 0, NULL);
    eval(second, 5, more, 0, NULL); /* another text was evaluated before */
    struct bytes bytes = save(first, NULL);
    assert_int_equal(smol_context_restore_memory(second, NULL, bytes.data, bytes.size, NULL),
                     SMOL_OK);
    assert_int_equal(smol_context_length(second), n);
    struct bytes again = save(second, NULL);
    assert_int_equal(again.size, bytes.size);
    assert_memory_equal(again.data, bytes.data, bytes.size);
    eval(first, 11, more, more, expected);
    eval(second, 11, more, more, got);
    assert_memory_equal(got, expected, more * vocabulary * sizeof *got);
    smol_free(again.data);
    smol_free(bytes.data);
    smol_context_free(first);
    smol_context_free(second);
}

TEST(a_restored_context_goes_on_with_the_same_bits)
{
    for (int kv = SMOL_KV_DEFAULT; kv <= SMOL_KV_INT4; kv++) {
        const size_t lengths[] = {1, 63, 64, 65, 200};
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
            assert_same_continuation(demo, (smol_kv)kv, lengths[i], 5);
        for (size_t n = 1; n < TINY_CONTEXT; n++)
            assert_same_continuation(rich, (smol_kv)kv, n, 1);
    }
}

TEST(an_empty_context_can_be_saved_too)
{
    smol_context *context = create(demo, SMOL_KV_DEFAULT, 1);
    struct bytes bytes = save(context, NULL);
    assert_int_equal(bytes.size, sizeof(struct session_header) + 8);
    eval(context, 1, 5, 0, NULL);
    assert_int_equal(smol_context_restore_memory(context, NULL, bytes.data, bytes.size, NULL),
                     SMOL_OK);
    assert_int_equal(smol_context_length(context), 0);
    smol_free(bytes.data);
    smol_context_free(context);
}

struct words {
    uint32_t ids[64];
    size_t n;
};

static int note(void *user, const char *text, size_t size, uint32_t id)
{
    struct words *words = user;
    (void)text;
    (void)size;
    if (id != SMOL_NO_TOKEN)
        words->ids[words->n++] = id;
    return 0;
}

static void generate(smol_context *context, smol_sampler *sampler, size_t n_prompt, size_t n,
                     struct words *words)
{
    static const uint32_t prompt[] = {736, 735, 261, 567};
    const smol_generate_params params = {
        .max_tokens = n, .penalize_context = 1, .on_text = note, .user = words};
    smol_generate_result result;
    assert_int_equal(smol_generate(context, sampler, prompt, n_prompt, &params, &result, NULL),
                     SMOL_OK);
    assert_int_equal(result.finish, SMOL_FINISH_LENGTH);
}

/* Samples with every filter and a penalty: the random numbers and the history continue too. */
TEST(generation_goes_on_after_a_session)
{
    const smol_sampler_params params = {.temperature = 0.9f,
                                        .top_k = 60,
                                        .top_p = 0.95f,
                                        .min_p = 0.01f,
                                        .repetition_penalty = 1.1f,
                                        .seed = 99};
    struct words whole = {.n = 0}, parts = {.n = 0};
    smol_context *context = create(demo, SMOL_KV_DEFAULT, 2);
    smol_sampler *sampler;
    smol_sampler_create(&params, &sampler, NULL);
    generate(context, sampler, 4, 40, &whole);
    smol_sampler_free(sampler);

    smol_context_truncate(context, 0);
    smol_sampler_create(&params, &sampler, NULL);
    for (int part = 0; part < 4; part++) {
        const smol_session session = {.sampler = sampler};
        generate(context, sampler, part ? 0 : 4, 10, &parts);
        struct bytes bytes = save(context, &session);
        smol_context_free(context);
        smol_sampler_free(sampler);
        const smol_sampler_params other = {.seed = 1};
        context = create(demo, SMOL_KV_DEFAULT, 1);
        smol_sampler_create(&other, &sampler, NULL);
        smol_session restored = {.sampler = sampler};
        assert_int_equal(
            smol_context_restore_memory(context, &restored, bytes.data, bytes.size, NULL), SMOL_OK);
        assert_null(restored.data);
        smol_free(bytes.data);
    }
    assert_int_equal(parts.n, whole.n);
    assert_memory_equal(parts.ids, whole.ids, sizeof whole.ids);
    assert_float_equal(smol_sampler_get_params(sampler).top_p, 0.95f, 0);
    smol_sampler_free(sampler);
    smol_context_free(context);
}

TEST(the_last_id_waits_after_the_context)
{
    smol_context *context = create(demo, SMOL_KV_DEFAULT, 1);
    const smol_sampler_params greedy = {.seed = 0};
    struct words words = {.n = 0};
    smol_sampler *sampler;
    size_t n;
    smol_sampler_create(&greedy, &sampler, NULL);
    assert_int_equal(smol_context_pending(context), SMOL_NO_TOKEN);
    generate(context, sampler, 4, 3, &words);
    const uint32_t *ids = smol_context_ids(context, &n);
    assert_int_equal(n, 6);
    assert_memory_equal(ids + 4, words.ids, 2 * sizeof *ids);
    assert_int_equal(smol_context_pending(context), words.ids[2]);
    struct bytes bytes = save(context, NULL);
    smol_context_truncate(context, 6);
    assert_int_equal(smol_context_pending(context), SMOL_NO_TOKEN);
    assert_int_equal(smol_context_restore_memory(context, NULL, bytes.data, bytes.size, NULL),
                     SMOL_OK);
    assert_int_equal(smol_context_length(context), 6);
    assert_int_equal(smol_context_pending(context), words.ids[2]);
    eval(context, 1, 1, 0, NULL);
    assert_int_equal(smol_context_pending(context), SMOL_NO_TOKEN);
    smol_free(bytes.data);
    smol_sampler_free(sampler);
    smol_context_free(context);
}

TEST(nothing_to_go_on_from_is_wrong_usage)
{
    smol_context *context = create(demo, SMOL_KV_DEFAULT, 1);
    const smol_generate_params params = {.max_tokens = 1};
    const smol_sampler_params greedy = {.seed = 0};
    smol_generate_result result;
    smol_sampler *sampler;
    smol_sampler_create(&greedy, &sampler, NULL);
    assert_int_equal(smol_generate(context, sampler, NULL, 0, &params, &result, NULL),
                     SMOL_ERROR_USAGE);
    smol_sampler_free(sampler);
    smol_context_free(context);
}

TEST(another_seed_starts_anew_and_the_same_goes_on)
{
    float logits[50] = {0};
    uint32_t ids[4], again;
    smol_sampler_params params = {.temperature = 1, .seed = 3};
    smol_sampler *sampler;
    smol_sampler_create(&params, &sampler, NULL);
    for (int i = 0; i < 4; i++) {
        smol_sample(sampler, logits, 50, NULL, 0, &ids[i], NULL);
        assert_int_equal(smol_sampler_set_params(sampler, &params, NULL), SMOL_OK);
    }
    assert_true(ids[0] != ids[1] || ids[1] != ids[2]);
    params.seed = 4;
    smol_sampler_set_params(sampler, &params, NULL);
    params.seed = 3;
    smol_sampler_set_params(sampler, &params, NULL);
    smol_sample(sampler, logits, 50, NULL, 0, &again, NULL);
    assert_int_equal(again, ids[0]);
    params.top_p = 2;
    assert_int_equal(smol_sampler_set_params(sampler, &params, NULL), SMOL_ERROR_USAGE);
    smol_sampler_free(sampler);
}

TEST(the_callers_data_come_back)
{
    smol_context *context = create(rich, SMOL_KV_DEFAULT, 1);
    char *data = malloc(3 * SESSION_RECORD_DATA + 5);
    eval(context, 2, 3, 0, NULL);
    for (size_t size = 0; size <= 3 * SESSION_RECORD_DATA + 5; size += SESSION_RECORD_DATA / 2) {
        memset(data, (int)size + 1, size);
        const smol_session session = {.data = data, .size = size};
        struct bytes bytes = save(context, &session);
        smol_session restored = {.sampler = NULL};
        assert_int_equal(
            smol_context_restore_memory(context, &restored, bytes.data, bytes.size, NULL), SMOL_OK);
        assert_int_equal(restored.size, size);
        if (size > 0)
            assert_memory_equal(restored.data, data, size);
        smol_free(restored.data);
        smol_free(bytes.data);
    }
    const smol_session large = {.data = data, .size = SMOL_SESSION_MAX_DATA + 1};
    void *bytes;
    size_t size;
    assert_int_equal(smol_context_save_memory(context, &large, &bytes, &size, NULL),
                     SMOL_ERROR_USAGE);
    free(data);
    smol_context_free(context);
}

/* --- refusals ----------------------------------------------------------------------------- */

/* Repairs the digests; the header of `original` describes the records. */
static void repair(struct bytes *bytes, const struct session_header *original, size_t row_bytes)
{
    uint64_t digest = 0;
    uint8_t memory[8 + 4096];
    size_t at = 0;
    for (unsigned i = 0; at < bytes->size; i++) {
        size_t size = i == 0                          ? sizeof *original
                      : i == 1 && original->n_ids > 0 ? original->n_ids * sizeof(uint32_t)
                                                      : row_bytes;
        assert_true(size <= 4096 && at + size + 8 <= bytes->size);
        memcpy(memory, &digest, 8);
        memcpy(memory + 8, bytes->data + at, size);
        digest = smol_digest(memory, 8 + size);
        memcpy(bytes->data + at + size, &digest, 8);
        at += size + 8;
    }
}

/* A session of 5 tokens of `rich`: two layers of one head of 6. */
struct fixture {
    smol_context *context;
    smol_sampler *sampler;
    struct bytes bytes;
    struct session_header header;
    size_t row_bytes;
};

static struct fixture make(smol_kv kv)
{
    const smol_sampler_params params = {.temperature = 0.5f, .seed = 8};
    struct fixture f = {.context = create(rich, kv, 1)};
    smol_sampler_create(&params, &f.sampler, NULL);
    const smol_session session = {.sampler = f.sampler};
    eval(f.context, 1, 5, 0, NULL);
    f.bytes = save(f.context, &session);
    memcpy(&f.header, f.bytes.data, sizeof f.header);
    static const size_t row_bytes[] = {
        [SMOL_KV_F32] = 2 * 6 * 4,
        [SMOL_KV_F16] = 2 * 6 * 2,
        [SMOL_KV_INT8] = 2 * 6 + 8,
        [SMOL_KV_INT4] = 2 * 3 + 8,
    };
    f.row_bytes = 5 * row_bytes[kv];
    assert_int_equal(f.bytes.size, 88 + 8 + 20 + 8 + 2 * (f.row_bytes + 8));
    return f;
}

static void drop(struct fixture *f)
{
    smol_free(f->bytes.data);
    smol_sampler_free(f->sampler);
    smol_context_free(f->context);
}

/* Expects a message with `part`, an empty context and an unchanged sampler. */
static void assert_refused(struct fixture *f, size_t size, smol_status status, const char *part)
{
    smol_error error = {0};
    smol_session session = {.sampler = f->sampler};
    smol_sampler_params before = smol_sampler_get_params(f->sampler);
    smol_status got =
        smol_context_restore_memory(f->context, &session, f->bytes.data, size, &error);
    if (status)
        assert_int_equal(got, status);
    assert_true(got == SMOL_ERROR_DAMAGED || got == SMOL_ERROR_UNSUPPORTED ||
                got == SMOL_ERROR_CONTEXT_FULL);
    if (!strstr(error.message, part))
        fail_msg("\"%s\" is not in: %s", part, error.message);
    assert_int_equal(smol_context_length(f->context), 0);
    assert_null(session.data);
    smol_sampler_params after = smol_sampler_get_params(f->sampler);
    assert_memory_equal(&after, &before, sizeof after);
}

TEST(a_session_that_is_cut_is_refused_at_every_length)
{
    for (int kv = SMOL_KV_F32; kv <= SMOL_KV_INT4; kv++) {
        struct fixture f = make((smol_kv)kv);
        for (size_t size = 0; size < f.bytes.size; size++)
            assert_refused(&f, size, SMOL_ERROR_DAMAGED,
                           size < 8 ? "not a session" : "ends too early");
        f.bytes.data = realloc(f.bytes.data, f.bytes.size + 1);
        f.bytes.data[f.bytes.size] = 0;
        assert_refused(&f, f.bytes.size + 1, SMOL_ERROR_DAMAGED, "after its end");
        drop(&f);
    }
}

TEST(every_flipped_bit_is_refused)
{
    for (int kv = SMOL_KV_F32; kv <= SMOL_KV_INT4; kv++) {
        struct fixture f = make((smol_kv)kv);
        for (size_t bit = 0; bit < 8 * f.bytes.size; bit++) {
            f.bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_refused(&f, f.bytes.size, SMOL_OK, "session");
            f.bytes.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        smol_session session = {.sampler = f.sampler};
        assert_int_equal(
            smol_context_restore_memory(f.context, &session, f.bytes.data, f.bytes.size, NULL),
            SMOL_OK);
        drop(&f);
    }
}

TEST(records_that_change_places_are_refused)
{
    struct fixture f = make(SMOL_KV_F32);
    size_t record = f.row_bytes + 8;
    uint8_t *last = f.bytes.data + f.bytes.size - record, swapped[1024];
    memcpy(swapped, last, record);
    memmove(last, last - record, record);
    memcpy(last - record, swapped, record);
    assert_refused(&f, f.bytes.size, SMOL_ERROR_DAMAGED, "digest");
    drop(&f);
}

/* Changes one field at a time and repairs all digests. */
TEST(fields_out_of_order_are_refused)
{
#define FIELD_OF(name) offsetof(struct session_header, name), sizeof(f.header.name)
    struct fixture f = make(SMOL_KV_F16);
    const uint32_t nan = 0x7fc00000, negative = 0xbf800000, two = 0x40000000;
    const struct {
        size_t offset, size;
        uint64_t value;
        smol_status status;
        const char *part;
    } cases[] = {
        {FIELD_OF(major), 2, SMOL_ERROR_UNSUPPORTED, "version 2.1"},
        {FIELD_OF(major), 0, SMOL_ERROR_UNSUPPORTED, "version 0.1"},
        {FIELD_OF(minor), 2, SMOL_ERROR_UNSUPPORTED, "version 1.2"},
        {FIELD_OF(kv), 0, SMOL_ERROR_DAMAGED, "type of its KV"},
        {FIELD_OF(kv), 5, SMOL_ERROR_DAMAGED, "type of its KV"},
        {FIELD_OF(kv), SMOL_KV_F32, SMOL_ERROR_UNSUPPORTED, "cache of f32, not f16"},
        {FIELD_OF(front_digest), 1, SMOL_ERROR_UNSUPPORTED, "a blob other than"},
        {FIELD_OF(file_size), 1, SMOL_ERROR_UNSUPPORTED, "a blob other than"},
        {FIELD_OF(n_ids), 4, SMOL_ERROR_DAMAGED, "numbers of tokens"},
        {FIELD_OF(n_ids), 7, SMOL_ERROR_DAMAGED, "numbers of tokens"},
        {FIELD_OF(n_ids), UINT32_MAX, SMOL_ERROR_DAMAGED, "numbers of tokens"},
        {FIELD_OF(n_positions), UINT32_MAX, SMOL_ERROR_DAMAGED, "numbers of tokens"},
        {FIELD_OF(n_data), SMOL_SESSION_MAX_DATA + 1, SMOL_ERROR_DAMAGED, "size of its data"},
        {FIELD_OF(n_data), SMOL_SESSION_MAX_DATA, SMOL_ERROR_DAMAGED, "ends too early"},
        {FIELD_OF(has_sampler), 2, SMOL_ERROR_DAMAGED, "sampler"},
        {FIELD_OF(has_sampler), 0, SMOL_ERROR_DAMAGED, "sampler"},
        {FIELD_OF(temperature), nan, SMOL_ERROR_DAMAGED, "sampler"},
        {FIELD_OF(temperature), negative, SMOL_ERROR_DAMAGED, "sampler"},
        {FIELD_OF(top_p), two, SMOL_ERROR_DAMAGED, "sampler"},
        {FIELD_OF(min_p), two, SMOL_ERROR_DAMAGED, "sampler"},
        {FIELD_OF(repetition_penalty), negative, SMOL_ERROR_DAMAGED, "sampler"},
        {FIELD_OF(n_lost), 7, SMOL_ERROR_DAMAGED, "lost tokens"},
        {sizeof f.header + 8, 4, TINY_VOCABULARY, SMOL_ERROR_DAMAGED, "token id"},
        {sizeof f.header + 8 + 16, 4, UINT32_MAX, SMOL_ERROR_DAMAGED, "token id"},
    };
    uint8_t *original = malloc(f.bytes.size);
    memcpy(original, f.bytes.data, f.bytes.size);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(f.bytes.data + cases[i].offset, &cases[i].value, cases[i].size);
        repair(&f.bytes, &f.header, f.row_bytes);
        assert_refused(&f, f.bytes.size, cases[i].status, cases[i].part);
        memcpy(f.bytes.data, original, f.bytes.size);
    }
    free(original);
    drop(&f);
}

TEST(a_session_longer_than_the_context_is_refused)
{
    const smol_context_params params = {.n_ctx = 4, .n_threads = 1};
    struct fixture f = make(SMOL_KV_F16);
    smol_context_free(f.context);
    smol_context_create(rich, &params, &f.context, NULL);
    assert_refused(&f, f.bytes.size, SMOL_ERROR_CONTEXT_FULL, "5 tokens: the context holds 4");
    /* the count in the file is not trusted: nothing is allocated for it */
    f.header.n_ids = f.header.n_positions = UINT32_MAX;
    memcpy(f.bytes.data, &f.header, sizeof f.header);
    f.header.n_ids = 5;
    repair(&f.bytes, &f.header, f.row_bytes);
    assert_refused(&f, f.bytes.size, SMOL_ERROR_CONTEXT_FULL, "4294967295 tokens");
    drop(&f);
}

TEST(a_session_of_another_blob_is_refused)
{
    struct fixture f = make(SMOL_KV_F16);
    smol_context_free(f.context);
    f.context = create(rich_other, SMOL_KV_F16, 1);
    assert_refused(&f, f.bytes.size, SMOL_ERROR_UNSUPPORTED, "a blob other than other");
    drop(&f);
}

/* Numbers that smol_eval never writes to a cache, at every position of both records. */
TEST(keys_and_values_that_are_no_numbers_are_refused)
{
    const struct {
        smol_kv kv;
        size_t size;
        uint32_t value, good;
    } cases[] = {
        {SMOL_KV_F32, 4, 0x7f800000, 0x7f7fffff},
        {SMOL_KV_F32, 4, 0xff800001, 0x80000001},
        {SMOL_KV_F16, 2, 0x7c00, 0x7bff},
        {SMOL_KV_F16, 2, 0xfe00, 0x8001},
        {SMOL_KV_INT8, 1, 0x80, 0x81},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f = make(cases[i].kv);
        smol_session session = {.sampler = f.sampler};
        size_t rows = 88 + 8 + 20 + 8, n = 5 * 2 * 6;
        for (size_t j = 0; j < 2 * n; j++) {
            uint8_t *at = f.bytes.data + rows + j / n * (f.row_bytes + 8) + j % n * cases[i].size;
            uint32_t old = 0;
            memcpy(&old, at, cases[i].size);
            memcpy(at, &cases[i].value, cases[i].size);
            repair(&f.bytes, &f.header, f.row_bytes);
            assert_refused(&f, f.bytes.size, SMOL_ERROR_DAMAGED, "not numbers");
            memcpy(at, &cases[i].good, cases[i].size);
            repair(&f.bytes, &f.header, f.row_bytes);
            assert_int_equal(
                smol_context_restore_memory(f.context, &session, f.bytes.data, f.bytes.size, NULL),
                SMOL_OK);
            memcpy(at, &old, cases[i].size);
        }
        drop(&f);
    }
}

TEST(scales_that_are_no_scales_are_refused)
{
    const uint32_t values[] = {0x80000000, 0xbf800000, 0x7f800000, 0x7fc00000};
    for (smol_kv kv = SMOL_KV_INT8; kv <= SMOL_KV_INT4; kv++) {
        struct fixture f = make(kv);
        uint8_t *scales = f.bytes.data + f.bytes.size - 8 - 2 * 5 * sizeof(float);
        for (size_t i = 0; i < 10 * 4; i++) {
            uint8_t old[4];
            memcpy(old, scales + i / 4 * 4, 4);
            memcpy(scales + i / 4 * 4, &values[i % 4], 4);
            repair(&f.bytes, &f.header, f.row_bytes);
            assert_refused(&f, f.bytes.size, SMOL_ERROR_DAMAGED, "not numbers");
            memcpy(scales + i / 4 * 4, old, 4);
        }
        drop(&f);
    }
}

/* --- callbacks ---------------------------------------------------------------------------- */

struct stream {
    struct bytes bytes;
    size_t at, step, fail_at;
};

static int read_steps(void *user, void *data, size_t size, size_t *n)
{
    struct stream *s = user;
    size_t rest = s->bytes.size - s->at;
    if (s->at >= s->fail_at)
        return 1;
    *n = size < s->step ? size : s->step;
    *n = *n < rest ? *n : rest;
    memcpy(data, s->bytes.data + s->at, *n);
    s->at += *n;
    return 0;
}

static int write_steps(void *user, const void *data, size_t size)
{
    struct stream *s = user;
    assert_memory_equal(s->bytes.data + s->at, data, size);
    s->at += size;
    return s->at >= s->fail_at;
}

TEST(callbacks_may_bring_little_and_may_fail)
{
    struct fixture f = make(SMOL_KV_F32);
    struct stream s = {f.bytes, 0, 1, SIZE_MAX};
    smol_session session = {.sampler = f.sampler};
    assert_int_equal(smol_context_restore(f.context, &session, read_steps, &s, NULL), SMOL_OK);
    s.at = 0;
    assert_int_equal(smol_context_save(f.context, &session, write_steps, &s, NULL), SMOL_OK);
    assert_int_equal(s.at, f.bytes.size);
    for (size_t i = 1; i < f.bytes.size; i += 7) {
        s = (struct stream){f.bytes, 0, 16, i};
        assert_int_equal(smol_context_restore(f.context, &session, read_steps, &s, NULL),
                         SMOL_ERROR_FILE);
        assert_int_equal(smol_context_length(f.context), 0);
    }
    assert_int_equal(
        smol_context_restore_memory(f.context, &session, f.bytes.data, f.bytes.size, NULL),
        SMOL_OK);
    s = (struct stream){f.bytes, 0, 1, 100};
    assert_int_equal(smol_context_save(f.context, &session, write_steps, &s, NULL),
                     SMOL_ERROR_FILE);
    assert_int_equal(smol_context_length(f.context), 5);
    drop(&f);
}

TEST(no_bytes_are_no_session)
{
    smol_context *context = create(demo, SMOL_KV_F16, 1);
    assert_int_equal(smol_context_restore_memory(context, NULL, NULL, 0, NULL), SMOL_ERROR_DAMAGED);
    smol_context_free(context);
}

int main(void)
{
    return run_all_tests("session", open_models, close_models);
}
