/* Tests of caches of prefixes: contexts that share blocks compute the same bits as contexts that do
 * not, whatever is cached, evicted or copied; shared blocks never change; and nothing is shared
 * that must not be. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "smol.h"
#include "tests/unit/demo_blob.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/tiny_blob.h"
#include "tests/unit/unit.h"

enum { BLOCK = 64, CAPACITY = 900, N_VOCABULARY = 19, MOST_AT_ONCE = 300 };

static smol_model *demo;
static smol_model *windowed; /* a window that ends within a block, and layers without one */
static smol_model *narrow;   /* windows in all layers */
static smol_model *hybrid;   /* a layer with a window, and one with a state */

static int open_windowed(smol_model **out, const char *name, struct blob_model model,
                         const uint8_t *layers)
{
    char path[128];
    model.n_heads = 4;
    model.n_kv_heads = 2;
    model.context_length = CAPACITY;
    model.sliding_window = 70;
    struct blob_contents contents = contents_of(&model);
    contents.layers = layers ? layers : contents.layers;
    snprintf(path, sizeof path, "%s/%s", folder.folder, name);
    return write_blob(path, false, &contents, NULL) || smol_model_open(path, NULL, out, NULL);
}

static int open_models(void **state)
{
    static const uint8_t all[] = {LAYER_WINDOWED | LAYER_SECOND_TABLE, LAYER_WINDOWED};
    if (make_demo_blob(state) || smol_model_open(demo_blob, NULL, &demo, NULL))
        return -1;
    make_tokenizer();
    return open_windowed(&windowed, "windowed", rich_model, NULL) ||
           open_windowed(&narrow, "narrow", rich_model, all) ||
           open_windowed(&hybrid, "states", head_gates_model(), NULL);
}

static int close_models(void **state)
{
    smol_model_close(demo);
    smol_model_close(windowed);
    smol_model_close(narrow);
    smol_model_close(hybrid);
    return remove_demo_blob(state);
}

static smol_prefix_cache *new_cache_of_bytes(const smol_model *model, smol_kv kv, size_t max_bytes)
{
    const smol_prefix_cache_params params = {.max_bytes = max_bytes, .kv = kv};
    smol_prefix_cache *cache;
    assert_int_equal(smol_prefix_cache_create(model, &params, &cache, NULL), SMOL_OK);
    return cache;
}

static smol_prefix_cache *new_cache(const smol_model *model, smol_kv kv, size_t n_blocks)
{
    smol_prefix_cache *cache = new_cache_of_bytes(model, kv, SIZE_MAX);
    size_t block_bytes = smol_prefix_cache_get_info(cache).block_bytes;
    smol_prefix_cache_free(cache);
    return new_cache_of_bytes(model, kv, n_blocks * block_bytes + block_bytes / 2);
}

static smol_context *new_context(const smol_model *model, smol_context_params params)
{
    smol_context *context;
    smol_error error;
    if (smol_context_create(model, &params, &context, &error))
        fail_msg("%s", error.message);
    return context;
}

/* Token `i` of a document of the bundled model. Documents 2n and 2n + 1 have the same first 100
 * tokens. */
static void make_ids(uint32_t document, uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)(20 + (i * i + 31 * i * (i < 100 ? document / 2 : document)) % 1900);
}

/* Evaluates n tokens of a document, and returns how many of them were in the cache. */
static size_t eval(smol_context *context, smol_prefix_cache *cache, uint32_t document, size_t n)
{
    static uint32_t ids[512];
    float logits[1990];
    uint64_t before = smol_prefix_cache_get_info(cache).n_reused;
    make_ids(document, ids, n);
    assert_int_equal(smol_eval(context, ids, n, 1, logits, NULL), SMOL_OK);
    return smol_prefix_cache_get_info(cache).n_reused - before;
}

/* Returns how many of the first n tokens of a document are known to a group. */
static size_t count(smol_prefix_cache *cache, uint64_t group, uint32_t document, size_t n)
{
    uint32_t ids[512];
    make_ids(document, ids, n);
    return smol_prefix_cache_count(cache, group, ids, n);
}

/* --- random histories ----------------------------------------------------------------------- */

/* Two contexts with the same history, of which one has a cache. */
struct twins {
    smol_context *cached, *plain;
    uint32_t document;
};

enum { N_TWINS = 4 };

struct history {
    struct twins twins[N_TWINS];
    smol_prefix_cache *cache;
    bool has_states; /* which the cache keeps too */
    uint64_t random;
    float cached[N_TWINS][MOST_AT_ONCE * N_VOCABULARY], plain[MOST_AT_ONCE * N_VOCABULARY];
    uint32_t ids[N_TWINS][MOST_AT_ONCE];
};

static size_t draw(struct history *h, size_t below)
{
    h->random = h->random * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(h->random >> 33) % below;
}

/* All documents begin alike, then those of a half, then each goes its own way. */
static uint32_t token_of(uint32_t document, size_t position)
{
    uint32_t who = position < 90 ? 0 : position < 150 ? 1 + document / 2 : 10 + document;
    return (who * 2654435761u + (uint32_t)position * 40503u) % 104729u % N_VOCABULARY;
}

static void check_info(const struct history *h)
{
    const smol_prefix_cache_info info = smol_prefix_cache_get_info(h->cache);
    assert_true(info.bytes <= info.max_bytes);
    assert_true(h->has_states || info.bytes <= info.n_blocks * info.block_bytes);
    assert_true(info.n_used <= info.n_blocks);
}

/* Compares all keys and values that are kept, after a token for which those that windows have
 * passed may have to be computed again. */
static void assert_twins_equal(const struct twins *twins)
{
    const uint32_t id = 3;
    void *cached, *plain;
    size_t n_cached, n_plain;
    if (smol_context_length(twins->cached) == CAPACITY)
        return;
    assert_int_equal(smol_eval(twins->cached, &id, 1, 0, NULL, NULL), SMOL_OK);
    assert_int_equal(smol_eval(twins->plain, &id, 1, 0, NULL, NULL), SMOL_OK);
    assert_int_equal(smol_context_save_memory(twins->cached, NULL, &cached, &n_cached, NULL), 0);
    assert_int_equal(smol_context_save_memory(twins->plain, NULL, &plain, &n_plain, NULL), 0);
    assert_int_equal(n_cached, n_plain);
    assert_memory_equal(cached, plain, n_plain);
    smol_free(cached);
    smol_free(plain);
}

/* Evaluates the next tokens of some contexts, the cached ones together. */
static void evaluate_some(struct history *h)
{
    smol_eval_part parts[N_TWINS];
    size_t which[N_TWINS], n_parts = 0;
    for (size_t i = 0; i < N_TWINS; i++) {
        struct twins *t = &h->twins[i];
        size_t length = smol_context_length(t->cached), left = CAPACITY - length;
        size_t n = 1 + draw(h, MOST_AT_ONCE);
        n = n < left ? n : left;
        if (n == 0 || draw(h, 3) == 0)
            continue;
        for (size_t j = 0; j < n; j++)
            h->ids[i][j] = token_of(t->document, length + j);
        size_t n_logits = draw(h, 2) ? draw(h, 2) : draw(h, n + 1);
        which[n_parts] = i;
        parts[n_parts++] = (smol_eval_part){.context = t->cached,
                                            .ids = h->ids[i],
                                            .n = n,
                                            .n_logits = n_logits,
                                            .logits = h->cached[i]};
    }
    assert_int_equal(smol_eval_many(parts, n_parts, NULL), SMOL_OK);
    for (size_t i = 0; i < n_parts; i++) {
        const smol_eval_part *part = &parts[i];
        assert_int_equal(
            smol_eval(h->twins[which[i]].plain, part->ids, part->n, part->n_logits, h->plain, NULL),
            SMOL_OK);
        assert_memory_equal(part->logits, h->plain, part->n_logits * N_VOCABULARY * sizeof(float));
    }
}

static void slide(struct history *h, struct twins *t)
{
    size_t n_keep = draw(h, 150), n_room = 1 + draw(h, CAPACITY - n_keep);
    assert_int_equal(smol_context_slide(t->cached, n_keep, n_room, NULL), SMOL_OK);
    assert_int_equal(smol_context_slide(t->plain, n_keep, n_room, NULL), SMOL_OK);
}

static void restore(struct history *h, struct twins *t)
{
    const struct twins *from = &h->twins[draw(h, N_TWINS)];
    void *bytes;
    size_t size;
    assert_int_equal(smol_context_save_memory(from->cached, NULL, &bytes, &size, NULL), SMOL_OK);
    assert_int_equal(smol_context_restore_memory(t->cached, NULL, bytes, size, NULL), SMOL_OK);
    assert_int_equal(smol_context_restore_memory(t->plain, NULL, bytes, size, NULL), SMOL_OK);
    smol_free(bytes);
}

static void cancel(struct history *h, struct twins *t)
{
    uint32_t id = 3;
    (void)h;
    smol_context_cancel(t->cached, 1);
    assert_int_equal(smol_eval(t->cached, &id, 1, 0, NULL, NULL),
                     smol_context_length(t->cached) < CAPACITY ? SMOL_ERROR_CANCELLED
                                                               : SMOL_ERROR_CONTEXT_FULL);
    smol_context_cancel(t->cached, 0);
}

static void embed(struct history *h, struct twins *t)
{
    uint32_t ids[70];
    float cached[7], plain[7];
    size_t length = smol_context_length(t->cached), n = 1 + draw(h, 70);
    if (n > CAPACITY - length)
        return;
    for (size_t i = 0; i < n; i++)
        ids[i] = token_of(t->document, length + i);
    assert_int_equal(smol_embed(t->cached, ids, n, SMOL_POOL_MEAN, cached, NULL), SMOL_OK);
    assert_int_equal(smol_embed(t->plain, ids, n, SMOL_POOL_MEAN, plain, NULL), SMOL_OK);
    assert_memory_equal(cached, plain, sizeof plain);
}

static void change_some(struct history *h)
{
    struct twins *t = &h->twins[draw(h, N_TWINS)];
    size_t n = draw(h, 2) ? 0 : draw(h, CAPACITY);
    switch (draw(h, 8)) {
    case 0:
        slide(h, t);
        break;
    case 1:
        restore(h, t);
        break;
    case 2:
        cancel(h, t);
        break;
    case 3:
        embed(h, t);
        break;
    default:
        t->document = (uint32_t)draw(h, 6);
        smol_context_truncate(t->cached, n);
        smol_context_truncate(t->plain, n);
    }
}

static void live(const smol_model *model, smol_kv kv, size_t n_blocks, uint32_t n_threads,
                 uint64_t seed)
{
    static struct history h;
    smol_context *base = NULL;
    h = (struct history){.cache = new_cache(model, kv, n_blocks), .has_states = model == hybrid};
    h.random = seed;
    for (size_t i = 0; i < N_TWINS; i++) {
        smol_context_params params = {.n_threads = n_threads, .kv = kv};
        h.twins[i].plain = new_context(model, params);
        params.share = base;
        params.prefix_cache = h.cache;
        params.prefix_group = i == 3;
        h.twins[i].cached = new_context(model, params);
        base = h.twins[0].cached;
    }
    for (int i = 0; i < (few_samples() ? 30 : samples_only() ? 40 : 200); i++) {
        evaluate_some(&h);
        check_info(&h);
        change_some(&h);
        for (size_t j = 0; i % 4 == 0 && j < N_TWINS; j++)
            assert_twins_equal(&h.twins[j]);
        check_info(&h);
    }
    const smol_prefix_cache_info info = smol_prefix_cache_get_info(h.cache);
    assert_true(n_blocks < (h.has_states ? 1000 : 9) || info.n_reused > 0);
    assert_true(n_blocks > 40 || info.n_evicted > 0);
    for (size_t i = 0; i < N_TWINS; i++) {
        smol_context_free(h.twins[i].cached);
        smol_context_free(h.twins[i].plain);
    }
    check_info(&h);
    assert_int_equal(smol_prefix_cache_get_info(h.cache).n_used, 0);
    smol_prefix_cache_free(h.cache);
}

TEST(contexts_that_share_have_the_bits_of_those_that_do_not)
{
    for (smol_kv kv = SMOL_KV_F32; kv <= SMOL_KV_INT4; kv++) {
        live(windowed, kv, 3, 1, 1 + kv);
        live(windowed, kv, 20, 2, 100 + kv);
        live(windowed, kv, 1000, 3, 200 + kv);
    }
    live(narrow, SMOL_KV_DEFAULT, 5, 2, 300);
    live(narrow, SMOL_KV_DEFAULT, 20, 1, 301);
    live(hybrid, SMOL_KV_DEFAULT, 5, 1, 400);
    live(hybrid, SMOL_KV_DEFAULT, 40, 2, 401);
    live(hybrid, SMOL_KV_DEFAULT, 1000, 1, 402);
}

/* --- what is found ------------------------------------------------------------------------ */

TEST(the_longest_known_beginning_is_taken)
{
    smol_prefix_cache *cache = new_cache(demo, SMOL_KV_DEFAULT, 100);
    const smol_context_params params = {.n_threads = 1, .prefix_cache = cache};
    smol_context *first = new_context(demo, params), *second = new_context(demo, params);
    assert_int_equal(count(cache, 0, 0, 250), 0);
    assert_int_equal(eval(first, cache, 0, 250), 0);
    assert_int_equal(smol_prefix_cache_get_info(cache).n_blocks, 3);
    assert_int_equal(smol_prefix_cache_get_info(cache).n_used, 3);
    assert_int_equal(eval(second, cache, 0, 250), 192);
    smol_context_truncate(second, 0);
    assert_int_equal(eval(second, cache, 0, 192), 191); /* the last token is evaluated */
    smol_context_truncate(second, 0);
    assert_int_equal(eval(second, cache, 1, 250), 100); /* beyond a block: up to the first other */
    smol_context_truncate(second, 0);
    assert_int_equal(eval(second, cache, 0, 70),
                     64); /* five of the next one are not worth a copy */
    assert_int_equal(count(cache, 0, 0, 250), 192);
    assert_int_equal(count(cache, 0, 0, 191), 191);
    assert_int_equal(count(cache, 0, 3, 250), 0);
    assert_int_equal(count(cache, 0, 0, 69), 64);
    assert_int_equal(count(cache, 0, 0, 0), 0);
    smol_context_free(first);
    smol_context_free(second);
    assert_int_equal(smol_prefix_cache_get_info(cache).n_blocks, 5); /* two for document 1 */
    assert_int_equal(smol_prefix_cache_get_info(cache).n_used, 0);
    smol_prefix_cache_free(cache);
}

TEST(a_known_sequence_without_logits_takes_no_memory)
{
    uint32_t ids[2 * BLOCK];
    smol_prefix_cache *cache = new_cache(demo, SMOL_KV_DEFAULT, 100);
    const smol_context_params params = {.n_threads = 1, .prefix_cache = cache};
    smol_context *first = new_context(demo, params), *second = new_context(demo, params);
    make_ids(0, ids, 2 * BLOCK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(smol_eval(i ? second : first, ids, 2 * BLOCK, 0, NULL, NULL), SMOL_OK);
    assert_int_equal(smol_context_length(second), 2 * BLOCK);
    assert_int_equal(smol_prefix_cache_get_info(cache).n_reused, 2 * BLOCK);
    assert_int_equal(smol_prefix_cache_get_info(cache).n_blocks, 2);
    size_t n;
    assert_memory_equal(smol_context_ids(second, &n), ids, sizeof ids);
    smol_context_free(first);
    smol_context_free(second);
    smol_prefix_cache_free(cache);
}

TEST(groups_share_nothing)
{
    smol_prefix_cache *cache = new_cache(demo, SMOL_KV_DEFAULT, 100);
    smol_context_params params = {.n_threads = 1, .prefix_cache = cache, .prefix_group = 7};
    smol_context *first = new_context(demo, params);
    params.prefix_group = UINT64_C(7) << 32;
    smol_context *second = new_context(demo, params);
    assert_int_equal(eval(first, cache, 0, 100), 0);
    assert_int_equal(eval(second, cache, 0, 100), 0);
    assert_int_equal(smol_prefix_cache_get_info(cache).n_blocks, 2);
    assert_int_equal(count(cache, 7, 0, 100), 64);
    assert_int_equal(count(cache, 0, 0, 100), 0);
    smol_context_truncate(first, 0);
    assert_int_equal(eval(first, cache, 0, 100), 64);
    smol_context_free(first);
    smol_context_free(second);
    smol_prefix_cache_free(cache);
}

/* A session may hold any keys and values. */
TEST(restored_contexts_add_nothing)
{
    smol_prefix_cache *cache = new_cache(demo, SMOL_KV_DEFAULT, 100);
    smol_context_params params = {.n_threads = 1};
    smol_context *plain = new_context(demo, params);
    params.prefix_cache = cache;
    smol_context *context = new_context(demo, params);
    void *bytes;
    size_t size;
    eval(plain, cache, 0, 128);
    assert_int_equal(smol_context_save_memory(plain, NULL, &bytes, &size, NULL), SMOL_OK);
    assert_int_equal(smol_context_restore_memory(context, NULL, bytes, size, NULL), SMOL_OK);
    smol_free(bytes);
    assert_int_equal(eval(context, cache, 3, 100), 0);
    assert_int_equal(smol_prefix_cache_get_info(cache).n_blocks, 0);
    smol_context_truncate(context, 0);
    eval(context, cache, 3, 100);
    assert_int_equal(smol_prefix_cache_get_info(cache).n_blocks, 1);
    smol_context_free(plain);
    smol_context_free(context);
    smol_prefix_cache_free(cache);
}

/* Generates without a prompt in a context that is cancelled, which changes nothing. */
static void resume_in_vain(smol_context *context)
{
    smol_sampler *sampler;
    smol_generate_result result;
    size_t n = smol_context_length(context);
    assert_int_equal(smol_sampler_create(NULL, &sampler, NULL), SMOL_OK);
    smol_context_cancel(context, 1);
    assert_int_equal(smol_generate(context, sampler, NULL, 0, NULL, &result, NULL), SMOL_OK);
    smol_context_cancel(context, 0);
    assert_int_equal(result.finish, SMOL_FINISH_CANCELLED);
    assert_int_equal(smol_context_length(context), n);
    smol_sampler_free(sampler);
}

TEST(a_restored_token_is_not_forgotten_by_a_generation_in_vain)
{
    smol_prefix_cache *cache = new_cache(demo, SMOL_KV_DEFAULT, 100);
    smol_context *context =
        new_context(demo, (smol_context_params){.n_threads = 1, .prefix_cache = cache});
    void *bytes;
    size_t size;
    eval(context, cache, 0, 1);
    assert_int_equal(smol_context_save_memory(context, NULL, &bytes, &size, NULL), SMOL_OK);
    assert_int_equal(smol_context_restore_memory(context, NULL, bytes, size, NULL), SMOL_OK);
    smol_free(bytes);
    resume_in_vain(context);
    eval(context, cache, 3, 100);
    assert_int_equal(smol_prefix_cache_get_info(cache).n_blocks, 0);
    smol_context_free(context);
    smol_prefix_cache_free(cache);
}

/* The last token is alone in a block that belongs to the cache. */
TEST(a_generation_in_vain_gives_back_no_token)
{
    static float cached[1990], plain[1990];
    uint32_t ids[2 * BLOCK];
    smol_prefix_cache *cache = new_cache(demo, SMOL_KV_DEFAULT, 100);
    smol_context_params params = {.n_threads = 1};
    smol_context *other = new_context(demo, params);
    params.prefix_cache = cache;
    smol_context *first = new_context(demo, params), *context = new_context(demo, params);
    make_ids(0, ids, 2 * BLOCK);
    eval(first, cache, 0, 2 * BLOCK);
    assert_int_equal(smol_eval(context, ids, BLOCK + 20, 0, NULL, NULL), SMOL_OK);
    assert_int_equal(smol_prefix_cache_get_info(cache).n_reused, BLOCK + 20);
    smol_context_truncate(context, BLOCK + 1);
    resume_in_vain(context);
    assert_int_equal(smol_eval(context, ids, 1, 1, cached, NULL), SMOL_OK);
    assert_int_equal(smol_eval(other, ids, BLOCK + 1, 0, NULL, NULL), SMOL_OK);
    assert_int_equal(smol_eval(other, ids, 1, 1, plain, NULL), SMOL_OK);
    assert_memory_equal(cached, plain, sizeof plain);
    smol_context_free(first);
    smol_context_free(context);
    smol_context_free(other);
    smol_prefix_cache_free(cache);
}

TEST(embeddings_come_without_logits)
{
    static float states[1990];
    const uint32_t ids[] = {5, 6, 7};
    smol_context *context = new_context(demo, (smol_context_params){.n_threads = 1});
    smol_eval_part part = {.context = context, .ids = ids, .n = 3, .n_logits = 1, .logits = states};
    assert_int_equal(smol_embed_many(&part, 1, SMOL_POOL_MEAN, NULL), SMOL_ERROR_USAGE);
    assert_int_equal(smol_context_length(context), 0);
    part.n_logits = 0;
    part.error.status = SMOL_OK;
    assert_int_equal(smol_embed_many(&part, 1, (smol_pooling)99, NULL), SMOL_ERROR_USAGE);
    assert_int_equal(part.error.status, SMOL_ERROR_USAGE);
    assert_int_equal(smol_embed_many(&part, 1, SMOL_POOL_MEAN, NULL), SMOL_OK);
    assert_int_equal(part.error.status, SMOL_OK);
    smol_context_free(context);
}

/* A context whose blocks found no room is not taken for one at the start of a sequence. */
TEST(a_beginning_is_not_found_later_in_a_sequence)
{
    static float cached[1990], plain[1990];
    uint32_t ids[2 * BLOCK + 1];
    smol_prefix_cache *cache = new_cache(demo, SMOL_KV_DEFAULT, 1);
    smol_context_params params = {.n_threads = 1};
    smol_context *other = new_context(demo, params);
    params.prefix_cache = cache;
    smol_context *first = new_context(demo, params), *second = new_context(demo, params);
    make_ids(2, ids, BLOCK);
    make_ids(4, ids + BLOCK, BLOCK + 1);
    eval(first, cache, 4, BLOCK); /* the cache is full */
    for (size_t done = 0; done < 2 * BLOCK; done += BLOCK + (done > 0)) {
        size_t n = BLOCK + (done > 0);
        assert_int_equal(smol_eval(second, ids + done, n, 1, cached, NULL), SMOL_OK);
        assert_int_equal(smol_eval(other, ids + done, n, 1, plain, NULL), SMOL_OK);
        assert_memory_equal(cached, plain, sizeof plain);
    }
    smol_context_free(first);
    smol_context_free(second);
    smol_context_free(other);
    smol_prefix_cache_free(cache);
}

struct file {
    uint8_t bytes[1 << 21];
    size_t size;
};

static int write_at(void *user, uint64_t offset, const void *data, size_t size)
{
    struct file *file = user;
    assert_true(offset + size <= sizeof file->bytes);
    memcpy(file->bytes + offset, data, size);
    file->size = file->size < offset + size ? offset + size : file->size;
    return 0;
}

TEST(calibration_sees_every_token)
{
    static struct file cached, plain;
    const uint32_t windows[] = {200, 150};
    uint32_t ids[350];
    char path[128];
    smol_model *model;
    assert_int_equal(convert_demo(DTYPE_F32, path), 0);
    assert_int_equal(smol_model_open(path, NULL, &model, NULL), SMOL_OK);
    smol_prefix_cache *cache = new_cache(model, SMOL_KV_DEFAULT, 100);
    make_ids(0, ids, 200);
    make_ids(1, ids + 200, 150);
    for (int i = 0; i < 2; i++) {
        const smol_context_params params = {.n_threads = 1, .prefix_cache = i ? cache : NULL};
        const smol_calibrate_params how = {
            .diagonal = 1, .write = write_at, .user = i ? &cached : &plain};
        smol_context *context = new_context(model, params);
        if (i)
            eval(context, cache, 0, 200);
        smol_error error;
        smol_context_truncate(context, 0);
        if (smol_calibrate(context, ids, windows, 2, &how, NULL, &error))
            fail_msg("%s", error.message);
        smol_context_free(context);
    }
    assert_int_equal(cached.size, plain.size);
    assert_memory_equal(cached.bytes, plain.bytes, plain.size);
    assert_int_equal(smol_prefix_cache_get_info(cache).n_blocks, 3); /* those of eval */
    assert_int_equal(smol_prefix_cache_get_info(cache).n_reused, 0);
    smol_prefix_cache_free(cache);
    smol_model_close(model);
}

/* Damaged weights fail a pass as a whole. The first pass fails late, so keys and values were made.
 */
TEST(a_damaged_blob_adds_nothing)
{
    struct file_view view;
    smol_model *model;
    uint32_t ids[200];
    float logits[1990];
    assert_int_equal(smol_file_read(demo_blob, SIZE_MAX, &view, NULL), SMOL_OK);
    uint8_t *bytes = aligned_alloc(SMOL_BLOB_ALIGNMENT, (view.size + 127) / 64 * 64);
    memcpy(bytes, view.data, view.size);
    bytes[view.size / 10 * 8] ^= 1;
    assert_int_equal(smol_model_open_memory(bytes, view.size, NULL, NULL, &model, NULL), SMOL_OK);
    smol_prefix_cache *cache = new_cache(model, SMOL_KV_DEFAULT, 100);
    smol_context *context =
        new_context(model, (smol_context_params){.n_threads = 1, .prefix_cache = cache});
    make_ids(0, ids, 200);
    assert_int_equal(smol_eval(context, ids, 200, 1, logits, NULL), SMOL_ERROR_DAMAGED);
    assert_int_equal(smol_prefix_cache_get_info(cache).n_blocks, 0);
    smol_context_free(context);
    smol_prefix_cache_free(cache);
    smol_model_close(model);
    free(bytes);
    smol_file_close(&view);
}

/* --- eviction ----------------------------------------------------------------------------- */

TEST(blocks_in_use_stay)
{
    smol_prefix_cache *cache = new_cache(demo, SMOL_KV_DEFAULT, 2);
    const smol_context_params params = {.n_threads = 1, .prefix_cache = cache};
    smol_context *first = new_context(demo, params), *second = new_context(demo, params);
    eval(first, cache, 0, 200);
    eval(second, cache, 2, 200);
    smol_prefix_cache_info info = smol_prefix_cache_get_info(cache);
    assert_int_equal(info.n_blocks, 2);
    assert_int_equal(info.n_used, 2);
    assert_int_equal(info.n_evicted, 0);
    smol_context_truncate(first, 60); /* gives the second block back */
    assert_int_equal(smol_prefix_cache_get_info(cache).n_used, 1);
    eval(second, cache, 2, 1);
    info = smol_prefix_cache_get_info(cache);
    assert_int_equal(info.n_evicted, 1);
    assert_int_equal(info.n_used, 2);
    smol_context_free(first);
    smol_context_free(second);
    smol_prefix_cache_free(cache);
}

TEST(the_least_recently_used_goes_first)
{
    smol_prefix_cache *cache = new_cache(demo, SMOL_KV_DEFAULT, 4);
    const smol_context_params params = {.n_threads = 1, .prefix_cache = cache};
    smol_context *context = new_context(demo, params);
    static const struct {
        uint32_t document;
        size_t n, n_known;
    } steps[] = {
        {0, 140, 0},   {2, 140, 0},  /* four blocks */
        {0, 140, 128},               /* now document 2 is the older one */
        {4, 70, 0},                  /* takes the place of its second block */
        {0, 140, 128}, {2, 140, 64}, /* and 2's second that of 4's */
        {4, 70, 0},                  /* and 4's that of 0's second */
        {0, 140, 64},
    };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        smol_context_truncate(context, 0);
        size_t n_known = eval(context, cache, steps[i].document, steps[i].n);
        if (n_known != steps[i].n_known)
            fail_msg("step %zu: %zu tokens", i, n_known);
    }
    smol_context_free(context);
    smol_prefix_cache_free(cache);
}

/* --- generation --------------------------------------------------------------------------- */

struct answer {
    uint32_t ids[32];
    size_t n;
    smol_generate_result result;
};

static int keep(void *user, const char *text, size_t size, uint32_t id)
{
    struct answer *answer = user;
    (void)text;
    (void)size;
    if (id != SMOL_NO_TOKEN)
        answer->ids[answer->n++] = id;
    return 0;
}

/* Generates n answers together: to 300 tokens of documents 0..n-1, which begin one step after the
 * other, or all to 170 of document 1, in the same step. */
static void generate(smol_prefix_cache *cache, size_t n, bool same, bool slices,
                     struct answer *answers)
{
    size_t n_ids = same ? 170 : 300;
    smol_generation *generations[8];
    smol_context *contexts[8];
    smol_sampler *samplers[8];
    uint32_t ids[300];
    bool finished = false;
    for (size_t i = 0; i < n; i++) {
        const smol_context_params params = {
            .n_threads = i ? 0 : 2, .share = i ? contexts[0] : NULL, .prefix_cache = cache};
        const smol_sampler_params choice = {.temperature = 1, .seed = i};
        const smol_generate_params how = {
            .max_tokens = 20, .on_text = keep, .user = &answers[i], .slice_prompt = slices};
        answers[i] = (struct answer){0};
        make_ids(same ? 1 : (uint32_t)i, ids, n_ids);
        contexts[i] = new_context(demo, params);
        assert_int_equal(smol_sampler_create(&choice, &samplers[i], NULL), SMOL_OK);
        assert_int_equal(smol_generation_create(contexts[i], samplers[i], ids, n_ids, &how,
                                                &generations[i], NULL),
                         SMOL_OK);
        if (!same)
            smol_generation_step(generations, i + 1);
    }
    while (!finished) {
        smol_generation_step(generations, n);
        finished = true;
        for (size_t i = 0; i < n; i++)
            finished &= smol_generation_finished(generations[i], &answers[i].result, NULL) == 1;
    }
    for (size_t i = n; i > 0; i--) {
        smol_generation_free(generations[i - 1]);
        smol_sampler_free(samplers[i - 1]);
        smol_context_free(contexts[i - 1]);
    }
}

TEST(generations_reuse_what_others_have_read)
{
    enum { N = 4 };
    static struct answer plain[N], first[N], second[N];
    for (int slices = 0; slices < 2; slices++) {
        smol_prefix_cache *cache = new_cache(demo, SMOL_KV_DEFAULT, 100);
        generate(NULL, N, false, slices, plain);
        generate(cache, N, false, slices, first);
        generate(cache, N, false, slices, second);
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(first[i].n, plain[i].n);
            assert_memory_equal(first[i].ids, plain[i].ids, sizeof plain[i].ids);
            assert_int_equal(second[i].n, plain[i].n);
            assert_memory_equal(second[i].ids, plain[i].ids, sizeof plain[i].ids);
            assert_int_equal(plain[i].result.n_reused, 0);
            assert_int_equal(plain[i].result.n_prompt, 300);
            assert_int_equal(first[i].result.n_prompt, 300);
            assert_int_equal(first[i].result.n_reused, i % 2 ? 100 : 0);
            assert_int_equal(second[i].result.n_reused, 4 * BLOCK);
        }
        smol_prefix_cache_free(cache);
    }
}

/* Document 0 has the first 100 tokens of document 1: a block, and a part of the next. */
TEST(one_of_several_reads_a_prompt_of_which_a_part_is_known)
{
    enum { N = 4 };
    static struct answer plain[N], shared[N];
    smol_prefix_cache *cache = new_cache(demo, SMOL_KV_DEFAULT, 100);
    smol_context *context = new_context(demo, (smol_context_params){.prefix_cache = cache});
    eval(context, cache, 0, 140);
    generate(NULL, N, true, true, plain);
    generate(cache, N, true, true, shared);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(shared[i].n, plain[i].n);
        assert_memory_equal(shared[i].ids, plain[i].ids, sizeof plain[i].ids);
        assert_int_equal(shared[i].result.n_reused, i ? 2 * BLOCK : 100);
    }
    smol_context_free(context);
    smol_prefix_cache_free(cache);
}

/* --- threads ------------------------------------------------------------------------------ */

struct asker {
    pthread_t thread;
    smol_prefix_cache *cache;
    unsigned index;
    float logits[24][1990];
};

static void *ask(void *argument)
{
    struct asker *asker = argument;
    static const size_t lengths[] = {300, 70, 130, 260};
    uint32_t ids[300];
    const smol_context_params params = {.n_threads = 1, .prefix_cache = asker->cache};
    smol_context *context;
    if (smol_context_create(demo, &params, &context, NULL))
        abort();
    for (unsigned i = 0; i < (samples_only() ? 6 : 24); i++) {
        size_t n = lengths[(i + asker->index) % 4];
        make_ids((i + asker->index) % 5, ids, n);
        smol_context_truncate(context, 0);
        if (smol_eval(context, ids, n, 1, asker->logits[i], NULL))
            abort();
    }
    smol_context_free(context);
    return NULL;
}

TEST(threads_may_share_a_cache)
{
    enum { N = 4 };
    static struct asker askers[N], alone;
    smol_prefix_cache *cache = new_cache(demo, SMOL_KV_DEFAULT, 10);
    for (unsigned i = 0; i < N; i++) {
        askers[i].cache = cache;
        askers[i].index = i;
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
    }
    for (unsigned i = 0; i < N; i++) {
        pthread_join(askers[i].thread, NULL);
        alone.index = i;
        ask(&alone);
        assert_memory_equal(askers[i].logits, alone.logits, sizeof alone.logits);
    }
    assert_int_equal(smol_prefix_cache_get_info(cache).n_used, 0);
    smol_prefix_cache_free(cache);
}

/* --- refusals ----------------------------------------------------------------------------- */

static void assert_no_cache(smol_prefix_cache_params params, const char *why)
{
    smol_prefix_cache *cache;
    smol_error error;
    assert_int_equal(smol_prefix_cache_create(demo, &params, &cache, &error), SMOL_ERROR_USAGE);
    assert_null(cache);
    assert_non_null(strstr(error.message, why));
}

static void assert_no_context(const smol_model *model, smol_context_params params, const char *why)
{
    smol_context *context;
    smol_error error;
    assert_int_equal(smol_context_create(model, &params, &context, &error), SMOL_ERROR_USAGE);
    assert_null(context);
    assert_non_null(strstr(error.message, why));
}

TEST(other_models_types_and_sizes_are_refused)
{
    assert_no_cache((smol_prefix_cache_params){.max_bytes = 1000}, "max_bytes is 1000");
    assert_no_cache((smol_prefix_cache_params){.max_bytes = SIZE_MAX, .kv = 9}, "kv");
    assert_no_cache((smol_prefix_cache_params){.max_bytes = SIZE_MAX, .reserved = {[3] = 1}},
                    "reserved");
    smol_prefix_cache *cache = new_cache_of_bytes(demo, SMOL_KV_INT8, SIZE_MAX);
    assert_no_context(demo, (smol_context_params){.prefix_cache = cache}, "KV type");
    assert_no_context(windowed, (smol_context_params){.kv = SMOL_KV_INT8, .prefix_cache = cache},
                      "another model");
    smol_prefix_cache_free(cache);
    smol_prefix_cache_free(NULL);
}

int main(void)
{
    return run_all_tests("prefix", open_models, close_models);
}
