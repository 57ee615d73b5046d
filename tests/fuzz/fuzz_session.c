/* Sessions that are a stranger's. An input says how a context is filled, what its session holds
 * besides, and damages to that session, before digests are made right again or after; records then
 * lie as the damaged header says, so that what comes after the digests is reached. What is restored
 * is a session to the byte; it is run, and ends as any run does. What `smolrun chat` reads of it is
 * a conversation to the byte, or none. */
#include "common/hash.h"
#include "format/session.h"
#include "runtime/engine/kv.h"
#include "smol.h"
#include "smolrun/chat/conversation.h"
#include "tests/fuzz/files.h"

enum {
    MAX_IDS = 140,           /* three blocks of positions */
    MAX_DATA = 3 * 16384,    /* of the caller, in three records */
    MAX_SESSION = 256 << 10, /* a damaged header may ask for as much and get it */
};

struct way {
    uint8_t model, kv, n_ids, repaired, n_damages, slide, with_sampler, reserved;
    uint16_t n_data, other_length;
};

/* The models that sessions are of: they differ in their shapes. Kept from one input to the next. */
static const struct {
    struct blob_recipe blob;
    struct blocks_recipe blocks;
} recipes[] = {
    {{0, 1, 7, 7, 1, 1, 3, 18, 255, BLOB_TIED, 0, 2, 0, 0, 0, 0}, {0}},
    {{2, 0, 31, 31, 0, 2, 0, 200, 70, BLOB_MLP_BIAS, 1, 0, 0, 0, 0, 0}, {0}},
    {{1, 2, 15, 15, 2, 0, 5, 30, 140, BLOB_BLOCKS, 1, 1, 0, 0, 0, 0}, {2, 1, 5, 127, 2, 1, {5, 2}}},
};
enum { N_MODELS = sizeof recipes / sizeof recipes[0] };
enum { WINDOW = 3 }; /* of even layers of the last model */

static smol_model *model_of(unsigned number)
{
    static smol_model *models[N_MODELS];
    const smol_model_params params = {.no_mmap = 1}; /* a sanitizer sees where memory ends */
    if (models[number])
        return models[number];
    uint8_t bytes[sizeof recipes[0]];
    memcpy(bytes, &recipes[number], sizeof bytes);
    struct fuzz_input in = {bytes, sizeof bytes};
    struct built file = fuzz_build_blob(&in);
    CLAIM(
        !smol_model_open(fuzz_write("blob", file.data, file.size), &params, &models[number], NULL));
    free(file.data);
    return models[number];
}

/* Two contexts on a model. */
struct place {
    smol_model_info info;
    smol_context *from, *to;
    smol_sampler *sampler;
    size_t row_bytes; /* of one position and head */
    bool windowed;
    char *data; /* (MAX_DATA), the caller's */
};

static void open_place(const struct way *way, struct place *place)
{
    static const size_t element[] = {4, 4, 2, 1};
    const smol_model *model = model_of(way->model % N_MODELS);
    const smol_sampler_params sampling = {.temperature = 1, .top_p = 0.5f, .seed = way->n_ids};
    const smol_context_params context = {.n_threads = 1, .kv = (smol_kv)(1 + way->kv % 4)};
    *place = (struct place){.info = smol_model_get_info(model),
                            .windowed = way->model % N_MODELS == N_MODELS - 1};
    CLAIM(!smol_context_create(model, &context, &place->from, NULL));
    CLAIM(!smol_context_create(model, &context, &place->to, NULL));
    CLAIM(!smol_sampler_create(&sampling, &place->sampler, NULL));
    size_t dim = place->info.head_dim;
    bool int4 = context.kv == SMOL_KV_INT4, scaled = int4 || context.kv == SMOL_KV_INT8;
    place->row_bytes =
        2 * (int4 ? dim / 2 : dim * element[context.kv]) + (scaled ? 2 * sizeof(float) : 0);
}

static void close_place(struct place *place)
{
    smol_context_free(place->from);
    smol_context_free(place->to);
    smol_sampler_free(place->sampler);
    free(place->data);
}

/* Fills a context with n ids. They are evaluated once, as that takes long; after that, their
 * session is restored. */
static void fill_context(const struct place *place, const struct way *way, size_t n)
{
    static struct built sessions[N_MODELS][4][MAX_IDS + 1];
    struct built *session = &sessions[way->model % N_MODELS][way->kv % 4][n];
    uint32_t ids[MAX_IDS];
    if (session->data) {
        CLAIM(!smol_context_restore_memory(place->from, NULL, session->data, session->size, NULL));
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (3 + 7 * i) % place->info.vocab_size;
    CLAIM(n == 0 || !smol_eval(place->from, ids, n, 0, NULL, NULL));
    CLAIM(!smol_context_save_memory(place->from, NULL, (void **)&session->data, &session->size,
                                    NULL));
}

static void fill(struct fuzz_input *in, struct place *place, const struct way *way)
{
    size_t n = way->n_ids % (MAX_IDS + 1), most = place->info.context_length;
    fill_context(place, way, n < most ? n : most);
    place->data = (char *)exact_zeros(way->n_data % (MAX_DATA + 1));
    fuzz_take(in, place->data, way->n_data % (MAX_DATA + 1));
}

/* --- records -------------------------------------------------------------------------------- */

/* The sizes of the records after a header, as it states them. */
struct layout {
    uint64_t ids, data, positions;
    uint64_t passed; /* positions before those of windows */
    size_t head;     /* of the block's */
    bool begun;
};

static struct layout layout_of(const uint8_t *data)
{
    struct session_header header;
    memcpy(&header, data, sizeof header);
    uint64_t n = header.n_positions - (uint64_t)header.n_lost;
    return (struct layout){header.n_ids, header.n_data, n, n < WINDOW ? 0 : n - WINDOW, 0, false};
}

static uint64_t take_some(uint64_t *left, uint64_t most)
{
    uint64_t n = *left < most ? *left : most;
    *left -= n;
    return n;
}

/* The bytes of the next record; 0: there is none. */
static uint64_t next_record(const struct place *place, struct layout *left)
{
    if (!left->begun) {
        left->begun = true;
        return sizeof(struct session_header);
    }
    if (left->ids > 0)
        return take_some(&left->ids, SESSION_RECORD_IDS) * sizeof(uint32_t);
    if (left->data > 0)
        return take_some(&left->data, SESSION_RECORD_DATA);
    size_t n_heads = place->info.n_kv_heads;
    while (left->positions > 0) {
        uint64_t n = left->positions < KV_BLOCK ? left->positions : KV_BLOCK;
        bool absent = place->windowed && left->head / n_heads % 2 == 0 && left->passed >= KV_BLOCK;
        if (++left->head == place->info.n_layers * n_heads) {
            left->head = 0;
            left->positions -= n;
            left->passed -= left->passed < n ? left->passed : n;
        }
        if (!absent)
            return n * place->row_bytes;
    }
    return 0;
}

/* As many bytes as the header asks for, where that is not too much; what is new is zero. */
static void resize(const struct place *place, struct built *session)
{
    struct layout left = layout_of(session->data);
    uint64_t size = 0, n;
    while (size <= MAX_SESSION && (n = next_record(place, &left)) > 0)
        size += n + sizeof(uint64_t);
    if (size > MAX_SESSION)
        return;
    uint8_t *resized = exact_zeros(size);
    memcpy(resized, session->data, size < session->size ? size : session->size);
    free(session->data);
    *session = (struct built){resized, size};
}

/* Makes the digests right. */
static void repair(const struct place *place, const struct built *session)
{
    struct layout left = layout_of(session->data);
    uint64_t digest = 0, n;
    for (size_t at = 0; (n = next_record(place, &left)) > 0; at += n + sizeof digest) {
        if (n + sizeof digest > session->size - at)
            return;
        uint8_t *memory = exact_zeros(sizeof digest + n);
        memcpy(memory, &digest, sizeof digest);
        memcpy(memory + sizeof digest, session->data + at, n);
        digest = smol_digest(memory, sizeof digest + n);
        memcpy(session->data + at + n, &digest, sizeof digest);
        free(memory);
    }
}

/* --- what is restored ----------------------------------------------------------------------- */

static void check_conversation(const smol_session *restored)
{
    struct conversation conversation = {0};
    struct buffer packed = {0};
    if (smol_conversation_unpack(&conversation, restored->data, restored->size)) {
        smol_conversation_pack(&conversation, &packed);
        CLAIM(packed.size == restored->size &&
              memcmp(packed.text, restored->data, packed.size) == 0);
    }
    smol_free(packed.text);
    smol_conversation_clear(&conversation, true);
}

static void check_same(const struct place *place, const smol_session *restored,
                       const struct built *session)
{
    void *again;
    size_t n_again;
    smol_session same = *restored;
    struct session_header header;
    memcpy(&header, session->data, sizeof header);
    same.sampler = header.has_sampler ? restored->sampler : NULL;
    CLAIM(!smol_context_save_memory(place->to, &same, &again, &n_again, NULL));
    CLAIM(n_again == session->size && memcmp(again, session->data, n_again) == 0);
    smol_free(again);
}

static void go_on(const struct place *place, const struct way *way)
{
    const smol_generate_params params = {
        .max_tokens = 2, .penalize_context = 1, .slide = way->slide % 2, .n_keep = way->slide / 2};
    smol_generate_result result;
    size_t n_ids;
    smol_context_ids(place->to, &n_ids);
    n_ids += smol_context_pending(place->to) != SMOL_NO_TOKEN;
    smol_status status = smol_generate(place->to, place->sampler, NULL, 0, &params, &result, NULL);
    CLAIM(n_ids > 0
              ? status == SMOL_OK || status == SMOL_ERROR_NUMERIC ||
                    status == SMOL_ERROR_CONTEXT_FULL || (way->slide && status == SMOL_ERROR_USAGE)
              : status == SMOL_ERROR_USAGE);
}

/* Damages keep off the digests where these come last. */
static struct built spoil(struct fuzz_input *in, const struct place *place, const struct way *way,
                          const void *bytes, size_t size)
{
    struct built session = {exact_copy(bytes, size), size};
    fuzz_damage(in, way->n_damages % 4, session.data, session.size);
    if (way->repaired % 4 > 1)
        resize(place, &session);
    if (way->repaired % 2)
        repair(place, &session);
    size_t length = way->other_length ? way->other_length % (session.size + 1) : session.size;
    uint8_t *cut = exact_copy(session.data, length);
    free(session.data);
    return (struct built){cut, length};
}

static void restore(const struct place *place, const struct way *way, const struct built *session,
                    bool good)
{
    smol_session restored = {.sampler = place->sampler};
    smol_error error;
    smol_status status =
        smol_context_restore_memory(place->to, &restored, session->data, session->size, &error);
    CLAIM(status == SMOL_OK || status == SMOL_ERROR_DAMAGED || status == SMOL_ERROR_UNSUPPORTED ||
          status == SMOL_ERROR_CONTEXT_FULL);
    CLAIM(good ? status == SMOL_OK : status != SMOL_OK || way->repaired % 2);
    if (status) {
        CLAIM(error.message[0] && smol_context_length(place->to) == 0 && !restored.data);
        return;
    }
    check_same(place, &restored, session);
    check_conversation(&restored);
    go_on(place, way);
    smol_free(restored.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct way way;
    struct place place;
    void *bytes;
    size_t n_bytes;
    fuzz_take(&in, &way, sizeof way);
    open_place(&way, &place);
    fill(&in, &place, &way);
    const smol_session own = {.sampler = way.with_sampler % 2 ? place.sampler : NULL,
                              .data = place.data,
                              way.n_data % (MAX_DATA + 1)};
    CLAIM(!smol_context_save_memory(place.from, &own, &bytes, &n_bytes, NULL));
    struct built session = spoil(&in, &place, &way, bytes, n_bytes);
    restore(&place, &way, &session,
            session.size == n_bytes && memcmp(session.data, bytes, n_bytes) == 0);
    free(session.data);
    smol_free(bytes);
    close_place(&place);
    return 0;
}
