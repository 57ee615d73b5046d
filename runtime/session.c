/* Saving and restoring, see smol.h. format/SESSION.md describes the bytes. Restoring reads a
 * session once from start to end, checks each record before it is used, and allocates memory as
 * records arrive, so no field of an untrusted file decides the amount. */
#include "format/session.h"

#include <string.h>

#include "common/buffer.h"
#include "common/checked.h"
#include "common/hash.h"
#include "common/memory.h"
#include "common/number.h"
#include "runtime/context.h"
#include "runtime/model.h"
#include "runtime/sampler.h"

/* --- shared by saving and restoring ------------------------------------------------------- */

/* The current record, stored between the previous digest and its own, and the state of the
 * stream. */
struct records {
    smol_on_write *write;
    smol_on_read *read;
    void *user;
    uint8_t *memory;   /* previous digest, record, its digest; room for the largest record */
    uint64_t digest;   /* of the last record */
    uint64_t position; /* bytes written or read */
    size_t n;          /* positions with keys and values */
    smol_error *error;
};

enum { DIGEST_SIZE = sizeof(uint64_t) };

static uint8_t *record_of(const struct records *r)
{
    return r->memory + DIGEST_SIZE;
}

static size_t largest_record(const smol_context *c)
{
    size_t largest = SESSION_RECORD_DATA;
    _Static_assert(SESSION_RECORD_IDS * sizeof(uint32_t) <= SESSION_RECORD_DATA, "ids fit");
    _Static_assert(sizeof(struct session_header) <= SESSION_RECORD_DATA, "the header fits");
    for (size_t layer = 0; layer < c->kv.n_layers; layer++) {
        size_t rows = smol_kv_rows_bytes(&c->kv, layer, KV_BLOCK);
        largest = rows > largest ? rows : largest;
    }
    return largest;
}

static smol_status reserve_record(const smol_context *c, struct records *r)
{
    r->memory = smol_malloc(largest_record(c) + 2 * DIGEST_SIZE);
    return r->memory ? SMOL_OK : smol_fail_memory(r->error, "a session");
}

/* Computes and stores the digest of the previous digest and the record of `size` bytes in memory.
 * Returns it. */
static uint64_t digest_record(struct records *r, size_t size)
{
    memcpy(r->memory, &r->digest, DIGEST_SIZE);
    r->digest = smol_digest(r->memory, DIGEST_SIZE + size);
    return r->digest;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Saves or restores the keys and values of one block, layer and head. */
typedef smol_status block_step(smol_context *c, struct records *r, size_t layer, size_t head,
                               size_t index, size_t n);

static smol_status each_head(smol_context *c, struct records *r, size_t index, size_t n,
                             block_step *step)
{
    smol_status status = SMOL_OK;
    for (size_t layer = 0; !status && layer < c->kv.n_layers; layer++)
        for (size_t head = 0; !status && head < c->kv.layers[layer].n_heads; head++)
            if (smol_kv_needs(&c->kv, layer, index, r->n))
                status = step(c, r, layer, head, index, n);
    return status;
}

/* --- saving ------------------------------------------------------------------------------- */

static smol_status put(struct records *r, size_t size)
{
    uint64_t digest = digest_record(r, size);
    memcpy(record_of(r) + size, &digest, DIGEST_SIZE);
    if (r->write(r->user, record_of(r), size + DIGEST_SIZE))
        return smol_fail(r->error, SMOL_ERROR_FILE, "the session cannot be written");
    return SMOL_OK;
}

static smol_status put_all(struct records *r, const void *data, size_t size, size_t at_once)
{
    const uint8_t *bytes = data;
    smol_status status = SMOL_OK;
    for (size_t done = 0; !status && done < size; done += at_once) {
        size_t n = smaller(size - done, at_once);
        memcpy(record_of(r), bytes + done, n);
        status = put(r, n);
    }
    return status;
}

static smol_status put_rows(smol_context *c, struct records *r, size_t layer, size_t head,
                            size_t index, size_t n)
{
    smol_kv_get_rows(&c->kv, layer, head, index, n, record_of(r));
    if (!smol_kv_rows_valid(&c->kv, layer, n, record_of(r)))
        return smol_fail(r->error, SMOL_ERROR_NUMERIC,
                         "%s: NaN or infinity in the keys and values (layer %zu, positions from "
                         "%zu): the model's numbers are out of range",
                         c->model->blob.path, layer, index * KV_BLOCK);
    return put(r, smol_kv_rows_bytes(&c->kv, layer, n));
}

static const uint32_t kv_kinds[KV_TYPES] = {
    [KV_F32] = SMOL_KV_F32,
    [KV_F16] = SMOL_KV_F16,
    [KV_INT8] = SMOL_KV_INT8,
    [KV_INT4] = SMOL_KV_INT4,
};

static uint16_t minor_of(const smol_context *c)
{
    return c->state.n_floats ? SESSION_MINOR_STATES : c->kv.window ? SESSION_MINOR_WINDOWS : 0;
}

/* Returns the number of tokens whose keys, values and states are there. */
static size_t known_of(const smol_context *c)
{
    size_t known = smaller(c->length, c->lost_from), before;
    do {
        before = known;
        known = smol_state_known(&c->state, smol_kv_known(&c->kv, known));
    } while (known < before);
    return known;
}

static struct session_header header_of(const smol_context *c, const smol_session *session)
{
    const struct blob_header *blob = c->model->blob.header;
    struct session_header header = {
        .magic = SESSION_MAGIC,
        .major = SESSION_MAJOR,
        .minor = minor_of(c),
        .kv = kv_kinds[c->kv.type],
        .front_digest = blob->front_digest,
        .file_size = blob->file_size,
        .n_ids = (uint32_t)c->n_ids,
        .n_positions = (uint32_t)c->length,
        .n_data = (uint32_t)session->size,
        .n_lost = (uint32_t)(c->length - known_of(c)),
    };
    const smol_sampler *sampler = session->sampler;
    if (!sampler)
        return header;
    header.has_sampler = 1;
    header.temperature = sampler->params.temperature;
    header.top_k = sampler->params.top_k;
    header.top_p = sampler->params.top_p;
    header.min_p = sampler->params.min_p;
    header.repetition_penalty = sampler->params.repetition_penalty;
    header.seed = sampler->params.seed;
    header.n_calls = sampler->n_calls;
    return header;
}

/* Returns the positions of the states to save: the last, and those to which a sequence is often cut
 * back. */
static struct session_states states_of(const smol_context *c, size_t last)
{
    struct session_states states = {0};
    const size_t positions[SESSION_MAX_STATES] = {c->marks[0], c->marks[1], last};
    size_t before = 0;
    for (size_t i = 0; i < SESSION_MAX_STATES; i++) {
        size_t at = positions[i];
        if (at > before && at <= last && smol_state_at(&c->state, at)) {
            states.positions[states.n++] = (uint32_t)at;
            before = at;
        }
    }
    return states;
}

static bool all_finite(const float *x, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++)
        finite &= f32_is_finite(x[i]);
    return finite;
}

static smol_status put_states(const smol_context *c, struct records *r,
                              const struct session_states *states)
{
    size_t n = c->state.n_floats;
    smol_status status = SMOL_OK;
    for (uint32_t i = 0; !status && i < states->n; i++) {
        const float *data = smol_state_at(&c->state, states->positions[i]);
        if (!all_finite(data, n))
            return smol_fail(r->error, SMOL_ERROR_NUMERIC,
                             "%s: NaN or infinity in the states at position %u: the model's "
                             "numbers are out of range",
                             c->model->blob.path, states->positions[i]);
        status = put_all(r, data, n * sizeof *data, SESSION_RECORD_DATA);
    }
    return status;
}

static smol_status save(smol_context *c, const smol_session *session, struct records *r)
{
    const smol_sampler *sampler = session->sampler;
    if (sampler && (sampler->biases || sampler->params.frequency_penalty != 0 ||
                    sampler->params.presence_penalty != 0))
        return smol_fail(r->error, SMOL_ERROR_USAGE,
                         "a session holds no biases, frequency or presence penalties: save "
                         "without the sampler");
    if (session->size > SMOL_SESSION_MAX_DATA)
        return smol_fail(r->error, SMOL_ERROR_USAGE,
                         "%zu bytes of data: a session takes at most %d", session->size,
                         SMOL_SESSION_MAX_DATA);
    const struct session_header header = header_of(c, session);
    smol_status status = reserve_record(c, r);
    if (!status)
        status = put_all(r, &header, sizeof header, sizeof header);
    if (!status)
        status = put_all(r, c->ids, c->n_ids * sizeof *c->ids, SESSION_RECORD_IDS * sizeof *c->ids);
    if (!status)
        status = put_all(r, session->data, session->size, SESSION_RECORD_DATA);
    r->n = header.n_positions - header.n_lost;
    const struct session_states states = states_of(c, r->n);
    if (!status && c->state.n_floats)
        status = put_all(r, &states, sizeof states, sizeof states);
    for (size_t i = 0; !status && i < r->n; i += KV_BLOCK)
        status = each_head(c, r, i / KV_BLOCK, smaller(r->n - i, KV_BLOCK), put_rows);
    return status ? status : put_states(c, r, &states);
}

static const smol_session no_session = {0};

smol_status smol_context_save(const smol_context *context, const smol_session *session,
                              smol_on_write *write, void *user, smol_error *error)
{
    struct records r = {.write = write, .user = user, .error = error};
    /* the steps of saving have the same type as those of restoring but change nothing */
    smol_context *c = (smol_context *)(uintptr_t)context;
    if (!session)
        session = &no_session;
    error_clear(error);
    smol_status status = CHECK_RESERVED(session, session, error);
    if (!status)
        status = save(c, session, &r);
    smol_free(r.memory);
    if (!status)
        smol_log(c->model, SMOL_LOG_INFO, "session of %zu tokens saved", c->n_ids);
    return status;
}

/* --- restoring ---------------------------------------------------------------------------- */

static smol_status damaged(const struct records *r, const char *what)
{
    return smol_fail(r->error, SMOL_ERROR_DAMAGED,
                     "the session is damaged (%s, before byte %llu): "
                     "restore another copy, or start again without it",
                     what, (unsigned long long)r->position);
}

/* Reads data[0..size). *n is smaller only at the end of the session. */
static smol_status read_some(struct records *r, void *data, size_t size, size_t *n)
{
    for (*n = 0; *n < size;) {
        size_t got = 0;
        if (r->read(r->user, (uint8_t *)data + *n, size - *n, &got) || got > size - *n)
            return smol_fail(r->error, SMOL_ERROR_FILE, "the session cannot be read");
        if (got == 0)
            break;
        *n += got;
        r->position += got;
    }
    return SMOL_OK;
}

/* Reads the next record into r->memory and checks its digest. */
static smol_status take(struct records *r, size_t size)
{
    size_t n;
    uint64_t digest;
    smol_status status = read_some(r, record_of(r), size + DIGEST_SIZE, &n);
    if (status)
        return status;
    if (n < size + DIGEST_SIZE)
        return damaged(r, "it ends too early");
    memcpy(&digest, record_of(r) + size, DIGEST_SIZE);
    return digest_record(r, size) == digest ? SMOL_OK : damaged(r, "a digest is wrong");
}

static smol_status check_end(struct records *r)
{
    uint8_t byte;
    size_t n;
    smol_status status = read_some(r, &byte, sizeof byte, &n);
    return !status && n > 0 ? damaged(r, "bytes after its end") : status;
}

static smol_sampler_params params_of(const struct session_header *header)
{
    return (smol_sampler_params){
        .temperature = header->temperature,
        .top_k = header->top_k,
        .top_p = header->top_p,
        .min_p = header->min_p,
        .repetition_penalty = header->repetition_penalty,
        .seed = header->seed,
    };
}

static bool sampler_in_order(const struct session_header *header)
{
    const size_t start = offsetof(struct session_header, temperature);
    smol_error ignored;
    smol_sampler_params params = params_of(header);
    struct session_header other = *header;
    other.n_lost = 0;
    if (header->has_sampler > 1)
        return false;
    if (!header->has_sampler)
        return all_zero((const uint8_t *)&other + start, sizeof other - start);
    return smol_sampler_check(&params, &ignored) == SMOL_OK;
}

/* Checks that the session belongs to this blob and this type of cache. */
static smol_status check_identity(const smol_context *c, const struct session_header *header,
                                  smol_error *error)
{
    const struct blob_header *blob = c->model->blob.header;
    static const char *const names[] = {"", "f32", "f16", "int8", "int4"};
    if (header->front_digest != blob->front_digest || header->file_size != blob->file_size)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "a session of a blob other than %.200s: open it with the blob that it was "
                         "saved with",
                         smol_base_name(c->model->blob.path));
    if (header->kv != kv_kinds[c->kv.type])
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "a session with a KV cache of %s, not %s: choose that type",
                         names[header->kv], names[kv_kinds[c->kv.type]]);
    if (header->n_positions > c->capacity)
        return smol_fail(error, SMOL_ERROR_CONTEXT_FULL,
                         "a session of %u tokens: the context holds %zu: use a longer one",
                         header->n_positions, c->capacity);
    return SMOL_OK;
}

static smol_status check_header(const smol_context *c, const struct session_header *header,
                                const struct records *r)
{
    if (header->kv < SMOL_KV_F32 || header->kv > SMOL_KV_INT4)
        return damaged(r, "the type of its KV cache");
    if (header->n_ids < header->n_positions || header->n_ids - header->n_positions > 1)
        return damaged(r, "its numbers of tokens");
    if (header->n_lost > (header->minor ? header->n_positions : 0))
        return damaged(r, "its number of lost tokens");
    if (header->n_data > SMOL_SESSION_MAX_DATA)
        return damaged(r, "the size of its data");
    if (!sampler_in_order(header))
        return damaged(r, "its sampler");
    return check_identity(c, header, r->error);
}

/* Reads the header. Fields that identify the file are checked before the digest, for better
 * messages. */
static smol_status read_header(const smol_context *c, struct records *r,
                               struct session_header *header)
{
    const uint8_t *bytes = record_of(r);
    memset(record_of(r), 0, sizeof *header);
    smol_status status = take(r, sizeof *header);
    if (status && status != SMOL_ERROR_DAMAGED)
        return status;
    memcpy(header, bytes, sizeof *header);
    if (memcmp(header->magic, SESSION_MAGIC, SESSION_MAGIC_SIZE) != 0)
        return smol_fail(r->error, SMOL_ERROR_DAMAGED, "not a session: name another file");
    if (r->position < sizeof *header)
        return status;
    if (header->major != SESSION_MAJOR || header->minor != minor_of(c))
        return smol_fail(
            r->error, SMOL_ERROR_UNSUPPORTED,
            "a session of version %u.%u: this release reads %d.%d: start again without "
            "it",
            header->major, header->minor, SESSION_MAJOR, minor_of(c));
    return status ? status : check_header(c, header, r);
}

static smol_status read_ids(smol_context *c, struct records *r, size_t n)
{
    smol_status status = SMOL_OK;
    uint32_t vocab_size = c->model->blob.model->vocab_size;
    for (size_t done = 0; !status && done < n; done = c->n_ids) {
        size_t some = smaller(n - done, SESSION_RECORD_IDS);
        status = take(r, some * sizeof *c->ids);
        if (!status) /* and room for the token that smol_generate may add */
            status = smol_context_reserve_ids(c, done + some + 1, r->error);
        if (status)
            return status;
        memcpy(c->ids + done, record_of(r), some * sizeof *c->ids);
        c->n_ids = done + some;
        for (size_t i = done; i < c->n_ids; i++)
            if (c->ids[i] >= vocab_size)
                return damaged(r, "a token id");
    }
    return status;
}

static smol_status read_data(struct records *r, size_t n, struct buffer *data)
{
    smol_status status = SMOL_OK;
    for (size_t done = 0; !status && done < n; done += SESSION_RECORD_DATA) {
        size_t some = smaller(n - done, SESSION_RECORD_DATA);
        status = take(r, some);
        if (!status)
            smol_buffer_add(data, (const char *)record_of(r), some);
        if (!status && data->failed)
            status = smol_fail_memory(r->error, "a session's data");
    }
    return status;
}

static smol_status take_rows(smol_context *c, struct records *r, size_t layer, size_t head,
                             size_t index, size_t n)
{
    smol_status status = take(r, smol_kv_rows_bytes(&c->kv, layer, n));
    if (status)
        return status;
    if (!smol_kv_rows_valid(&c->kv, layer, n, record_of(r)))
        return damaged(r, "keys and values that are not numbers");
    smol_kv_put_rows(&c->kv, layer, head, index, n, record_of(r));
    return SMOL_OK;
}

static smol_status restore_rows(smol_context *c, struct records *r,
                                const struct session_header *header)
{
    r->n = header->n_positions - header->n_lost;
    size_t first = smol_kv_first(&c->kv, r->n);
    smol_status status = SMOL_OK;
    for (size_t i = 0; !status && i * KV_BLOCK < r->n; i++) {
        size_t begin = i * KV_BLOCK, n = smaller(r->n - begin, KV_BLOCK);
        status = smol_kv_reserve(&c->kv, i < first ? begin + n : begin, begin + n, r->error);
        if (!status)
            status = each_head(c, r, i, n, take_rows);
    }
    c->kv.n_absent = first;
    return status;
}

static bool states_in_order(const struct session_states *states, size_t last)
{
    uint32_t before = 0;
    if (states->n > SESSION_MAX_STATES || (states->n > 0) != (last > 0))
        return false;
    for (uint32_t i = 0; i < states->n; i++) {
        if (states->positions[i] <= before)
            return false;
        before = states->positions[i];
    }
    return before == last &&
           all_zero(states->positions + states->n,
                    (SESSION_MAX_STATES - states->n) * sizeof states->positions[0]);
}

static smol_status read_states(const smol_context *c, struct records *r,
                               const struct session_header *header, struct session_states *states)
{
    *states = (struct session_states){0};
    if (!c->state.n_floats)
        return SMOL_OK;
    smol_status status = take(r, sizeof *states);
    if (status)
        return status;
    memcpy(states, record_of(r), sizeof *states);
    return states_in_order(states, header->n_positions - header->n_lost)
               ? SMOL_OK
               : damaged(r, "the positions of its states");
}

/* Reads the states into the place of a pass's, and then takes them over. */
static smol_status restore_states(smol_context *c, struct records *r,
                                  const struct session_states *states)
{
    struct sequence_state *state = &c->state;
    size_t size = state->n_floats * sizeof *state->next;
    smol_status status = smol_state_reserve(state, r->error);
    for (uint32_t i = 0; !status && i < states->n; i++) {
        for (size_t done = 0; !status && done < size; done += SESSION_RECORD_DATA) {
            size_t some = smaller(size - done, SESSION_RECORD_DATA);
            status = take(r, some);
            memcpy((uint8_t *)state->next + done, record_of(r), status ? 0 : some);
        }
        if (!status && !all_finite(state->next, state->n_floats))
            status = damaged(r, "states that are not numbers");
        if (status)
            return status;
        smol_state_set(state, states->positions[i], state->next);
        for (size_t mark = 0; mark < 2; mark++)
            c->marks[mark] = states->positions[mark];
        smol_context_keep_state(c);
    }
    return status;
}

static smol_status restore(smol_context *c, struct records *r, struct session_header *header,
                           struct buffer *data)
{
    struct session_states states;
    smol_status status = reserve_record(c, r);
    if (!status)
        status = read_header(c, r, header);
    if (!status)
        status = read_ids(c, r, header->n_ids);
    if (!status)
        status = read_data(r, header->n_data, data);
    if (!status)
        status = read_states(c, r, header, &states);
    if (!status)
        status = restore_rows(c, r, header);
    if (!status)
        status = restore_states(c, r, &states);
    return status ? status : check_end(r);
}

smol_status smol_context_restore(smol_context *c, smol_session *session, smol_on_read *read,
                                 void *user, smol_error *error)
{
    struct records r = {.read = read, .user = user, .error = error};
    struct session_header header;
    struct buffer data = {0};
    error_clear(error);
    smol_context_truncate(c, 0);
    c->unshared = true; /* nothing proves that the keys and values are those of the ids */
    if (session) {
        session->data = NULL;
        session->size = 0;
    }
    smol_status status = CHECK_RESERVED(session, session ? session : &no_session, error);
    if (!status)
        status = restore(c, &r, &header, &data);
    smol_free(r.memory);
    if (status || !session)
        smol_free(data.text);
    if (status) {
        smol_context_truncate(c, 0);
        smol_context_cut(c, 0);
        return status;
    }
    c->length = header.n_positions;
    c->lost_from = header.n_lost ? r.n : SIZE_MAX;
    smol_log(c->model, SMOL_LOG_INFO, "session of %zu tokens restored", c->n_ids);
    if (session && session->sampler && header.has_sampler) {
        smol_free(session->sampler->biases);
        session->sampler->biases = NULL;
        session->sampler->params = params_of(&header);
        session->sampler->n_calls = header.n_calls;
    }
    if (session) {
        session->data = data.text;
        session->size = data.size;
    }
    return SMOL_OK;
}

/* --- memory ------------------------------------------------------------------------------- */

static int write_memory(void *user, const void *data, size_t size)
{
    struct buffer *buffer = user;
    smol_buffer_add(buffer, data, size);
    return buffer->failed;
}

smol_status smol_context_save_memory(const smol_context *context, const smol_session *session,
                                     void **bytes, size_t *size, smol_error *error)
{
    struct buffer buffer = {0};
    smol_status status = smol_context_save(context, session, write_memory, &buffer, error);
    if (status)
        smol_free(buffer.text);
    *bytes = status ? NULL : buffer.text;
    *size = status ? 0 : buffer.size;
    return buffer.failed ? smol_fail_memory(error, "a session") : status;
}

struct bytes {
    const uint8_t *data;
    size_t size;
};

static int read_memory(void *user, void *data, size_t size, size_t *n)
{
    struct bytes *rest = user;
    *n = smaller(size, rest->size);
    if (*n == 0)
        return 0;
    memcpy(data, rest->data, *n);
    rest->data += *n;
    rest->size -= *n;
    return 0;
}

smol_status smol_context_restore_memory(smol_context *context, smol_session *session,
                                        const void *bytes, size_t size, smol_error *error)
{
    struct bytes rest = {bytes, size};
    return smol_context_restore(context, session, read_memory, &rest, error);
}
