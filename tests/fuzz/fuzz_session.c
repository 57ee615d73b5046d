/* Sessions that are a stranger's. An input is a blob (build.h), how a context on it is filled, and
 * damages to its session, before digests are made right again or after. What is restored is a
 * session to the byte; it is run, and ends as any run does. */
#include "common/hash.h"
#include "runtime/session.h"
#include "runtime/smol.h"
#include "tests/fuzz/files.h"

enum { MAX_IDS = 12, MAX_DATA = 64 };

struct way {
    uint8_t kv, n_ids, n_data, repaired, n_damages, other_length;
    uint8_t ids[MAX_IDS];
};

/* An open model and two contexts on it. */
struct place {
    smol_model *model;
    smol_context *from, *to;
    smol_sampler *sampler;
    size_t row_bytes; /* of one position and head */
};

static bool open_place(const struct built *file, const struct way *way, struct place *place)
{
    static const size_t element[] = {4, 4, 2, 1};
    const smol_model_params params = {.no_mmap = 1};
    const smol_sampler_params sampling = {.temperature = 1, .top_p = 0.5f, .seed = way->n_ids};
    *place = (struct place){0};
    smol_model_open(fuzz_write("blob", file->data, file->size), &params, &place->model, NULL);
    if (!place->model || smol_model_get_info(place->model).vocab_size > 256)
        return false;
    const smol_context_params context = {.n_threads = 1, .kv = (smol_kv)(1 + way->kv % 3)};
    CLAIM(!smol_context_create(place->model, &context, &place->from, NULL));
    CLAIM(!smol_context_create(place->model, &context, &place->to, NULL));
    CLAIM(!smol_sampler_create(&sampling, &place->sampler, NULL));
    place->row_bytes = 2 * smol_model_get_info(place->model).head_dim * element[context.kv] +
                       (context.kv == SMOL_KV_INT8 ? 8 : 0);
    return true;
}

static void close_place(struct place *place)
{
    smol_context_free(place->from);
    smol_context_free(place->to);
    smol_sampler_free(place->sampler);
    smol_model_close(place->model);
}

static bool fill(struct place *place, const struct way *way)
{
    const smol_model_info info = smol_model_get_info(place->model);
    uint32_t ids[MAX_IDS];
    size_t n = way->n_ids % (MAX_IDS + 1);
    n = n < info.context_length ? n : info.context_length;
    for (size_t i = 0; i < n; i++)
        ids[i] = way->ids[i] % info.vocab_size;
    return n == 0 || !smol_eval(place->from, ids, n, 0, NULL, NULL);
}

/* Makes the digests right, of records as the header that was saved says. */
static void repair(const struct place *place, const struct session_header *header, uint8_t *data,
                   size_t size)
{
    const size_t firsts[] = {sizeof *header, header->n_ids * sizeof(uint32_t), header->n_data};
    const size_t rows = header->n_positions * place->row_bytes;
    uint64_t digest = 0;
    size_t at = 0;
    for (unsigned i = 0; at < size; i++) {
        size_t n = i < 3 ? firsts[i] : rows;
        if (n == 0 && i < 3)
            continue;
        CLAIM(n > 0 && at + n + sizeof digest <= size);
        uint8_t *memory = exact_zeros(sizeof digest + n);
        memcpy(memory, &digest, sizeof digest);
        memcpy(memory + sizeof digest, data + at, n);
        digest = smol_digest(memory, sizeof digest + n);
        memcpy(data + at + n, &digest, sizeof digest);
        free(memory);
        at += n + sizeof digest;
    }
}

/* What was restored is what was read, and can be gone on from. */
static void use(const struct place *place, const smol_session *restored, const uint8_t *data,
                size_t size)
{
    void *again;
    size_t n_again, n_ids;
    smol_error error;
    smol_session same = *restored;
    struct session_header header;
    memcpy(&header, data, sizeof header);
    same.sampler = header.has_sampler ? restored->sampler : NULL;
    CLAIM(!smol_context_save_memory(place->to, &same, &again, &n_again, &error));
    CLAIM(n_again == size && memcmp(again, data, size) == 0);
    smol_free(again);
    const smol_generate_params params = {.max_tokens = 2, .penalize_context = 1};
    smol_generate_result result;
    smol_context_ids(place->to, &n_ids);
    n_ids += smol_context_pending(place->to) != SMOL_NO_TOKEN;
    smol_status status =
        smol_generate(place->to, place->sampler, NULL, 0, &params, &result, &error);
    CLAIM(n_ids > 0 ? status == SMOL_OK || status == SMOL_ERROR_NUMERIC ||
                          status == SMOL_ERROR_DAMAGED || status == SMOL_ERROR_CONTEXT_FULL
                    : status == SMOL_ERROR_USAGE);
}

static void spoil_and_restore(struct fuzz_input *in, const struct place *place,
                              const struct way *way)
{
    char own[MAX_DATA] = "the caller's";
    const smol_session session = {place->sampler, own, way->n_data % (MAX_DATA + 1)};
    void *bytes;
    size_t size;
    smol_error error;
    if (smol_context_save_memory(place->from, &session, &bytes, &size, &error)) {
        CLAIM(error.status == SMOL_ERROR_NUMERIC);
        return;
    }
    struct session_header header;
    memcpy(&header, bytes, sizeof header);
    fuzz_damage(in, way->n_damages % 4, bytes, size);
    if (way->repaired % 2)
        repair(place, &header, bytes, size);
    uint8_t *exact = exact_copy(bytes, size);
    size_t given = way->other_length ? way->other_length % (size + 1) : size;
    smol_session restored = {.sampler = place->sampler};
    smol_status status = smol_context_restore_memory(place->to, &restored, exact, given, &error);
    CLAIM(way->n_damages % 4 || given < size || status == SMOL_OK);
    CLAIM(given == size || status == SMOL_ERROR_DAMAGED || status == SMOL_ERROR_UNSUPPORTED ||
          status == SMOL_ERROR_CONTEXT_FULL);
    if (status)
        CLAIM(smol_context_length(place->to) == 0 && !restored.data);
    else
        use(place, &restored, exact, size);
    smol_free(restored.data);
    smol_free(bytes);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct way way;
    struct place place;
    struct built file = fuzz_build_blob(&in);
    fuzz_take(&in, &way, sizeof way);
    if (open_place(&file, &way, &place) && fill(&place, &way))
        spoil_and_restore(&in, &place, &way);
    close_place(&place);
    free(file.data);
    return 0;
}
