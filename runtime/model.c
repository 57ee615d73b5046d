/* Opening a model, see smol.h. */
#include "runtime/model.h"

#include <string.h>
#include <strings.h>

#include "common/memory.h"
#include "common/sha256.h"
#include "common/version.h"
#include "format/model.h"
#include "runtime/chat.h"
#include "runtime/engine/fpenv.h"
#include "runtime/log.h"
#include "runtime/report.h"
#include "runtime/tokenizer/tokenizer.h"

const char *smol_version(void)
{
    return SMOL_VERSION;
}

/* What is computed here, the scale of the attention, is a part of every result. */
static void fill(smol_model *model)
{
    fenv_t saved;
    model->filled = *model->blob.model;
    fpenv_enter(&saved);
    smol_model_fill(&model->filled);
    fpenv_leave(&saved);
}

static smol_status index_tensors(smol_model *model, smol_error *error)
{
    const struct blob *blob = &model->blob;
    fill(model);
    model->layers = smol_calloc(blob->model->n_layers, sizeof *model->layers);
    if (!model->layers)
        return smol_fail_memory(error, "the layer table");
    for (uint32_t i = 0; blob->layers && i < blob->model->n_layers; i++)
        model->layers[i].bits = blob->layers[i];
    for (size_t i = 0; i < blob->n_tensors; i++) {
        const struct blob_tensor *tensor = &blob->tensors[i];
        bool outer = tensor->role == ROLE_EMBED || tensor->role == ROLE_FINAL_NORM ||
                     tensor->role == ROLE_OUTPUT;
        struct layer *layer = outer ? &model->outer : &model->layers[tensor->layer];
        layer->tensor[tensor->role] = tensor;
    }
    return SMOL_OK;
}

/* Whether `text` is a digest as sha256sum prints it, in small letters or capitals. */
static bool is_digest(const char *text)
{
    return strspn(text, "0123456789abcdefABCDEF") == SHA256_TEXT_SIZE - 1 &&
           strlen(text) == SHA256_TEXT_SIZE - 1;
}

static smol_status check_params(const smol_model_params *params, smol_error *error)
{
    if ((unsigned)params->verify > SMOL_VERIFY_OFF)
        return smol_fail(error, SMOL_ERROR_USAGE, "verify: not one of smol_verify");
    if (params->require_digest && !is_digest(params->require_digest))
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "\"%.80s\" is not a SHA-256 digest: give 64 hexadecimal digits, as "
                         "sha256sum prints them",
                         params->require_digest);
    return SMOL_OK;
}

static smol_status take_digest(const struct file_view *file, const char *name,
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

/* Runs the file with that digest and no other: it is read before it is hashed, as bytes that stayed
 * in the file could be others when they are used. */
static smol_status open_required(const char *path, const char *digest,
                                 const struct listener *listener, enum verify verify,
                                 struct blob *blob, smol_error *error)
{
    struct file_view file;
    char found[SHA256_TEXT_SIZE];
    const char *name = smol_base_name(path);
    smol_status status = smol_file_read(path, SIZE_MAX, &file, error);
    if (status)
        return status;
    status = take_digest(&file, name, listener, found, error);
    if (!status && strcasecmp(found, digest) != 0)
        status = smol_fail(error, SMOL_ERROR_DAMAGED,
                           "%.200s: has the SHA-256 digest %s, but %s is required: fetch the file "
                           "anew from those who vouch for it",
                           name, found, digest);
    if (!status)
        return smol_blob_open_view(&file, path, verify, blob, error);
    smol_file_close(&file);
    return status;
}

/* All digests and values, with somebody who may want to know how far that is. A file may give way
 * meanwhile, which is the better explanation. */
static smol_status verify_all(const struct blob *blob, const struct listener *listener,
                              smol_error *error)
{
    return file_settle(&blob->file, blob->path, smol_blob_verify(blob, listener, error), error);
}

static smol_status open_model(smol_model *model, const char *path, const smol_model_params *params,
                              smol_error *error)
{
    const struct listener listener = {params->on_progress, params->user};
    enum verify verify = params->verify == SMOL_VERIFY_OFF ? VERIFY_OFF : VERIFY_FIRST_USE;
    struct blob *blob = &model->blob;
    smol_status status =
        params->require_digest
            ? open_required(path, params->require_digest, &listener, verify, blob, error)
            : smol_blob_open(path, !params->no_mmap, verify, blob, error);
    if (!status && params->verify == SMOL_VERIFY_OPEN)
        status = verify_all(blob, &listener, error);
    if (!status)
        status = smol_added_automata_build(&blob->tokenizer, &model->added, error);
    return status ? status : index_tensors(model, error);
}

/* What a log should have of a model. */
static void log_opened(const smol_model *model, const smol_model_params *params)
{
    static const char *const digests[] = {[SMOL_VERIFY_FIRST] = "at first use",
                                          [SMOL_VERIFY_OPEN] = "at open",
                                          [SMOL_VERIFY_OFF] = "never"};
    const struct blob *blob = &model->blob;
    smol_log(model, SMOL_LOG_INFO, "opened: %s, %u layers, %zu bytes %s, digests checked %s",
             smol_dtype_name(blob->model->dtype), blob->model->n_layers, blob->file.size,
             blob->file.hold == FILE_MAPPED ? "mapped" : "in memory", digests[params->verify]);
    if (blob->n_stop == 0)
        smol_log(model, SMOL_LOG_INFO,
                 "no token of the model ends a text: answers take all tokens that they may");
    smol_chat_log(model);
}

smol_status smol_model_open(const char *path, const smol_model_params *params, smol_model **out,
                            smol_error *error)
{
    const smol_model_params defaults = {0};
    smol_error detail;
    *out = NULL;
    if (!params)
        params = &defaults;
    smol_status status = check_params(params, &detail);
    if (status)
        return report(error, status, &detail);
    smol_model *model = smol_calloc(1, sizeof *model);
    if (!model)
        return report(error, smol_fail_memory(&detail, "a model"), &detail);
    status = open_model(model, path, params, &detail);
    if (status) {
        smol_model_close(model);
        return report(error, status, &detail);
    }
    model->on_log = params->on_log;
    model->user = params->user;
    log_opened(model, params);
    *out = model;
    return report(error, SMOL_OK, NULL);
}

smol_status smol_model_intact(const smol_model *model, smol_error *error)
{
    smol_error detail;
    return report(error, smol_file_check(&model->blob.file, model->blob.path, &detail), &detail);
}

void smol_guard_mappings(void)
{
    smol_mapping_guard();
}

void smol_model_close(smol_model *model)
{
    if (!model)
        return;
    smol_added_automata_free(&model->added);
    smol_blob_close(&model->blob);
    smol_free(model->layers);
    smol_free(model);
}

smol_model_info smol_model_get_info(const smol_model *model)
{
    const struct blob_model *m = model->blob.model;
    return (smol_model_info){
        .dtype = smol_dtype_name(m->dtype),
        .n_layers = m->n_layers,
        .hidden_size = m->hidden_size,
        .intermediate_size = m->intermediate_size,
        .n_heads = m->n_heads,
        .n_kv_heads = m->n_kv_heads,
        .head_dim = m->head_dim,
        .vocab_size = m->vocab_size,
        .context_length = m->context_length,
        .bos_id = m->bos_id,
        .blob_bytes = model->blob.file.size,
    };
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

smol_status smol_tokenize(const smol_model *model, const char *text, size_t size,
                          const smol_tokenize_params *params, uint32_t **ids, size_t *n,
                          smol_error *error)
{
    const smol_tokenize_params defaults = {0};
    if (!params)
        params = &defaults;
    const struct listener listener = {params->on_progress, params->user};
    const struct encode_params encode = {.flags = (params->parse_special ? ENCODE_SPECIAL : 0U) |
                                                  (params->whole_text ? ENCODE_AROUND : 0U),
                                         .added = &model->added,
                                         .listener = &listener};
    struct token_list list = {0};
    smol_error detail;
    const struct blob *blob = &model->blob;
    smol_log_ill_formed(model, "a text", text, size);
    smol_status status =
        smol_tokenizer_encode(&blob->tokenizer, text, size, &encode, &list, &detail);
    status = file_settle(&blob->file, blob->path, status, &detail);
    if (status)
        smol_free(list.ids);
    *ids = status ? NULL : list.ids;
    *n = status ? 0 : list.n;
    return report(error, status, &detail);
}

const char *smol_token_text(const smol_model *model, uint32_t id, size_t *size, int *special)
{
    struct token_text text = smol_tokenizer_text(&model->blob.tokenizer, id);
    *size = text.length;
    if (special)
        *special = text.special;
    return (const char *)text.bytes;
}
