/* Opening a model, see smol.h. */
#include "runtime/model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/memory.h"
#include "common/sha256.h"
#include "runtime/chat.h"

/* --- opening ------------------------------------------------------------------------------ */

/* The source of a blob: memory, a descriptor or a path. */
struct blob_origin {
    const void *data; /* (size), or NULL */
    size_t size;
    int fd;           /* or -1: `name` is a path */
    const char *name; /* for messages */
};

/* Returns whether `text` is a SHA-256 digest in hexadecimal digits of either case. */
static bool is_digest(const char *text)
{
    return strspn(text, "0123456789abcdefABCDEF") == SHA256_TEXT_SIZE - 1 &&
           strlen(text) == SHA256_TEXT_SIZE - 1;
}

static smol_status check_params(const smol_model_params *params, smol_error *error)
{
    if ((unsigned)params->verify > SMOL_VERIFY_OFF)
        return smol_fail(error, SMOL_ERROR_USAGE, "verify: %d is not a value of smol_verify",
                         (int)params->verify);
    if (params->require_digest && !is_digest(params->require_digest))
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "\"%.80s\" is not a SHA-256 digest: use 64 hexadecimal digits, as printed "
                         "by sha256sum",
                         params->require_digest);
    return CHECK_RESERVED(model_params, params, error);
}

/* Opens the bytes of a blob. If a digest is required, reads the file unseen. */
static smol_status open_view(const struct blob_origin *from, const smol_model_params *params,
                             struct file_view *view, smol_error *error)
{
    if (from->data) {
        _Static_assert(SMOL_BLOB_ALIGNMENT == BLOB_ALIGN, "the alignment of blobs");
        *view = (struct file_view){.data = from->data, .size = from->size, .hold = FILE_BORROWED};
        if ((uintptr_t)from->data % SMOL_BLOB_ALIGNMENT)
            return smol_fail(error, SMOL_ERROR_USAGE,
                             "%s: the data is not aligned: place it at a multiple of %d bytes",
                             from->name, SMOL_BLOB_ALIGNMENT);
        return SMOL_OK;
    }
    if (params->require_digest)
        return smol_file_read_fd(from->fd, from->name, SIZE_MAX, view, error);
    return (params->no_mmap ? smol_blob_read : smol_file_map_fd)(from->fd, from->name, view, error);
}

static smol_status compute_digest(const struct file_view *file, const char *name,
                                  const struct listener *listener, char digest[SHA256_TEXT_SIZE],
                                  smol_error *error)
{
    enum { PIECE = 1 << 20 };
    struct sha256 hash;
    size_t done = 0;
    smol_sha256_start(&hash);
    while (file->size - done > PIECE) {
        smol_sha256_add(&hash, file->data + done, PIECE / SHA256_BLOCK);
        done += PIECE;
        if (listener_cancels(listener, done, file->size))
            return smol_fail(error, SMOL_ERROR_CANCELLED, "%.200s: digest cancelled", name);
    }
    smol_sha256_end(&hash, file->data + done, file->size - done, digest);
    return SMOL_OK;
}

static smol_status check_digest(const struct file_view *file, const char *name, const char *digest,
                                const struct listener *listener, smol_error *error)
{
    char found[SHA256_TEXT_SIZE];
    smol_status status = compute_digest(file, name, listener, found, error);
    if (!status && strcasecmp(found, digest) != 0)
        status = smol_fail(error, SMOL_ERROR_DAMAGED,
                           "%.200s: the SHA-256 digest is %s, but %s is required: download the "
                           "file again from a trusted source",
                           name, found, digest);
    return status;
}

/* Opens the blob. A required digest is computed from a copy in memory, because a file could change
 * after the check. */
static smol_status open_blob(const struct blob_origin *from, const smol_model_params *params,
                             const struct listener *listener, struct blob *blob, smol_error *error)
{
    enum verify verify = params->verify == SMOL_VERIFY_OFF ? VERIFY_OFF : VERIFY_FIRST_USE;
    struct file_view file;
    smol_status status = open_view(from, params, &file, error);
    if (status)
        return smol_blob_unopened(from->name, status, error);
    if (params->require_digest)
        status = check_digest(&file, smol_base_name(from->name), params->require_digest, listener,
                              error);
    if (!status)
        return smol_blob_open_view(&file, from->name, verify, blob, error);
    smol_file_close(&file);
    return status;
}

/* Verifies the whole blob. If the file changed meanwhile, reports that instead of the damage
 * found. */
static smol_status verify_all(const struct blob *blob, const struct listener *listener,
                              smol_error *error)
{
    return file_settle(&blob->file, blob->path, smol_blob_verify(blob, listener, error), error);
}

static void log_opened(const smol_model *model, const smol_model_params *params)
{
    static const char *const digests[] = {[SMOL_VERIFY_FIRST] = "at first use",
                                          [SMOL_VERIFY_OPEN] = "at open",
                                          [SMOL_VERIFY_OFF] = "never"};
    const struct blob *blob = &model->blob;
    smol_log(model, SMOL_LOG_INFO, "opened: %s, %u layers, %zu bytes %s, digests checked %s",
             smol_dtype_name(smol_blob_dtype(blob)), blob->model->n_layers, blob->file.size,
             blob->file.hold == FILE_MAPPED ? "mapped" : "in memory", digests[params->verify]);
    if (blob->n_stop == 0)
        smol_log(model, SMOL_LOG_INFO,
                 "the model has no stop token: answers end at the limit of tokens");
    smol_chat_log(model);
}

static smol_status open_model(const struct blob_origin *from, const smol_model_params *params,
                              smol_model **out, smol_error *error)
{
    const struct listener listener = {params->on_progress, params->user};
    smol_status status = check_params(params, error);
    if (status)
        return status;
    smol_model *model = smol_calloc(1, sizeof *model);
    if (!model)
        return smol_fail_memory(error, "a model");
    status = open_blob(from, params, &listener, &model->blob, error);
    if (!status && params->verify == SMOL_VERIFY_OPEN)
        status = verify_all(&model->blob, &listener, error);
    if (!status)
        status = smol_added_automata_build(&model->blob.tokenizer, &model->added, error);
    if (!status)
        status = smol_network_init(&model->network, &model->blob, error);
    if (status) {
        smol_model_close(model);
        return status;
    }
    model->vocabulary = &model->shared;
    model->on_log = params->on_log;
    model->user = params->user;
    log_opened(model, params);
    *out = model;
    return SMOL_OK;
}

static smol_status open_from(const struct blob_origin *from, const smol_model_params *params,
                             smol_model **model, smol_error *error)
{
    static const smol_model_params defaults = {0};
    error_clear(error);
    *model = NULL;
    return open_model(from, params ? params : &defaults, model, error);
}

smol_status smol_model_open(const char *path, const smol_model_params *params, smol_model **model,
                            smol_error *error)
{
    const struct blob_origin from = {.fd = -1, .name = path};
    return open_from(&from, params, model, error);
}

smol_status smol_model_open_fd(int fd, const char *name, const smol_model_params *params,
                               smol_model **model, smol_error *error)
{
    char number[32];
    snprintf(number, sizeof number, "fd %d", fd);
    const struct blob_origin from = {.fd = fd, .name = name ? name : number};
    if (fd < 0) { /* `name` is no path */
        *model = NULL;
        errno = EBADF;
        return smol_fail_errno(error, from.name, "open");
    }
    return open_from(&from, params, model, error);
}

smol_status smol_model_open_memory(const void *data, size_t size, const char *name,
                                   const smol_model_params *params, smol_model **model,
                                   smol_error *error)
{
    static const _Alignas(SMOL_BLOB_ALIGNMENT) char nothing[1];
    const struct blob_origin from = {.data = data && size > 0 ? data : nothing,
                                     .size = data ? size : 0,
                                     .fd = -1,
                                     .name = name ? name : "memory"};
    return open_from(&from, params, model, error);
}

void smol_model_close(smol_model *model)
{
    if (!model)
        return;
    struct known_vocabulary *known = atomic_load(&model->shared.known);
    if (known)
        atomic_load (&model->shared.release)(known);
    smol_added_automata_free(&model->added);
    smol_blob_close(&model->blob);
    smol_network_free(&model->network);
    smol_free(model);
}

/* --- properties --------------------------------------------------------------------------- */

smol_model_info smol_model_get_info(const smol_model *model)
{
    const struct blob_model *m = model->blob.model;
    const struct blob_embedder *embedder = model->blob.embedder.header;
    return (smol_model_info){
        .dtype = smol_dtype_name(smol_blob_dtype(&model->blob)),
        .n_layers = m->n_layers,
        .hidden_size = m->hidden_size,
        .intermediate_size = m->intermediate_size,
        .n_heads = m->n_heads,
        .n_kv_heads = m->n_kv_heads,
        .head_dim = m->head_dim,
        .vocab_size = m->vocab_size,
        .context_length = m->context_length,
        .bos_id = m->bos_id,
        .has_chat_template = smol_chat_supported(model),
        .blob_bytes = model->blob.file.size,
        .is_encoder = model->blob.encoder != NULL,
        .max_text = model->blob.encoder ? model->blob.encoder->max_length : m->context_length,
        .embedding_size = smol_embedder_width(&model->blob.embedder, m->hidden_size),
        .is_reranker = embedder && embedder->score != SCORE_NONE,
    };
}

/* Appends the names of the prompts to a message. */
static void list_prompts(const struct embedder *embedder, char *text, size_t size)
{
    size_t length = 0;
    text[0] = 0;
    for (size_t i = 0; embedder->header && i < embedder->header->n_prompts && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%.40s", i ? ", " : "it has ",
                                   embedder_prompt_name(embedder, i));
}

smol_status smol_model_prompt(const smol_model *model, const char *name, const char **text,
                              smol_error *error)
{
    const struct embedder *embedder = &model->blob.embedder;
    const struct blob_embedder *header = embedder->header;
    char names[256];
    error_clear(error);
    *text = "";
    if (!name && header && header->default_prompt != NO_TOKEN)
        *text = embedder_prompt_text(embedder, header->default_prompt);
    if (!name)
        return SMOL_OK;
    for (size_t i = 0; header && i < header->n_prompts; i++)
        if (strcmp(name, embedder_prompt_name(embedder, i)) == 0) {
            *text = embedder_prompt_text(embedder, i);
            return SMOL_OK;
        }
    list_prompts(embedder, names, sizeof names);
    if (!names[0])
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "the model has no named prompts, so \"%.40s\" cannot be chosen", name);
    return smol_fail(error, SMOL_ERROR_USAGE, "the model has no prompt \"%.40s\": %s", name, names);
}

const uint32_t *smol_model_stop_ids(const smol_model *model, size_t *n)
{
    *n = model->blob.n_stop;
    return model->blob.stop;
}

int smol_model_is_stop_id(const smol_model *model, uint32_t id)
{
    for (size_t i = 0; i < model->blob.n_stop; i++)
        if (model->blob.stop[i] == id)
            return 1;
    return 0;
}

smol_sampler_params smol_model_default_sampler(const smol_model *model)
{
    const struct blob_generation *generation = model->blob.generation;
    smol_sampler_params params = {.repetition_penalty = generation->repetition_penalty};
    if (!generation->do_sample)
        return params;
    params.temperature = generation->present & GENERATION_TEMPERATURE ? generation->temperature : 1;
    params.top_k = generation->top_k;
    params.top_p = generation->top_p;
    params.min_p = generation->min_p;
    return params;
}
