/* libsmol: runs the language model in a .smol blob.
 *
 * The way through this header: open a model (shared, read-only), create a context on it (one
 * sequence of tokens with its KV cache and threads), tokenize a prompt, then either call
 * smol_generate, or smol_eval and smol_sample in a loop of your own. docs/embedding.md is the
 * guide, examples/ has whole programs.
 *
 * Structs that the caller fills in: zeros are the defaults, so set all of them to zeros first.
 * Where a pointer to one may be NULL, that means the same.
 *
 * Results: the logits after a sequence of tokens are the same to the bit for any number of
 * threads, any way of splitting the sequence over calls, and any instruction set.
 *
 * Errors: every call that can fail returns a smol_status; where it takes a smol_error, that
 * holds the same status and a message for people. `error` may be NULL. What is no error goes to
 * smol_on_log, if the program has one. The library never prints, exits or changes the locale, and
 * installs a signal handler only when smol_guard_mappings is called.
 *
 * Threads: a smol_model may be used by many threads at once. A smol_context or smol_sampler is
 * for one thread at a time, contexts that share count as one; smol_context_cancel is for any. There
 * is no global state but a list of the mapped files, for smol_guard_mappings, and the functions
 * that memory comes from, see smol_set_allocator.
 *
 * Floating point: calls run with the default rounding mode and without flush-to-zero, whatever
 * the caller's, and leave the caller's as it was; callbacks run in the caller's, an allocator's
 * functions in either. */
#ifndef SMOL_H
#define SMOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SMOL_API __attribute__((visibility("default")))
#else
#define SMOL_API
#endif

/* What kind of thing went wrong. */
typedef enum smol_status {
    SMOL_OK = 0,
    SMOL_ERROR_MISMATCH = 1,     /* compared files differ: smolconv's alone, no call returns it */
    SMOL_ERROR_USAGE = 2,        /* arguments that make no sense; nothing was changed */
    SMOL_ERROR_FILE = 3,         /* a file is missing or unreadable, or changed while in use */
    SMOL_ERROR_DAMAGED = 4,      /* a blob is damaged or breaks its format */
    SMOL_ERROR_UNSUPPORTED = 5,  /* a well-formed blob that this release cannot run */
    SMOL_ERROR_MEMORY = 6,       /* out of memory */
    SMOL_ERROR_NUMERIC = 7,      /* NaN or infinity in activations or logits */
    SMOL_ERROR_CONTEXT_FULL = 8, /* no room for the tokens; nothing was changed */
    SMOL_ERROR_CANCELLED = 9,    /* a callback or smol_context_cancel asked for it */
} smol_status;

/* Room for a path, a place and a remedy; longer messages are cut. */
#define SMOL_ERROR_MESSAGE_SIZE 512

typedef struct smol_error {
    smol_status status;
    char message[SMOL_ERROR_MESSAGE_SIZE]; /* `file: what is wrong (where): what to do`, one line */
} smol_error;

/* The release, "major.minor.patch". */
SMOL_API const char *smol_version(void);

/* Told now and then how far a call that takes long has come: `done` of `total`, 0 < done < total;
 * the end is the call's return. It runs on the thread that made the call. Returns 0 to go on,
 * anything else to end the call with SMOL_ERROR_CANCELLED. It may not use what the call is
 * about. */
typedef int smol_on_progress(void *user, uint64_t done, uint64_t total);

typedef enum smol_log_level {
    SMOL_LOG_INFO = 0, /* what was done, and how */
    SMOL_LOG_WARNING,  /* what went well, but may not be what was meant */
} smol_log_level;

/* Told what may be worth a line in the program's log: `message`, one line without control
 * characters that begins with the blob's name, until the return. Its words may change with any
 * release. Errors are not told, they are returned. It runs on the thread of the call that it is
 * about, so several threads may be in it, and may not call the library. */
typedef void smol_on_log(void *user, smol_log_level level, const char *message);

/* --- memory ------------------------------------------------------------------------------- */

/* Functions that the library takes its memory from. All three may be called by several threads at
 * once, and may not call the library. */
typedef struct smol_allocator {
    /* `size` bytes, > 0, at a multiple of `alignment`, a power of two; NULL: there are none, which
     * becomes SMOL_ERROR_MEMORY. */
    void *(*allocate)(void *user, size_t alignment, size_t size);
    /* Makes `memory`, which was allocated with the alignment of max_align_t, `size` bytes, > 0;
     * it may move, and what fits is kept. NULL: `memory` stays as it is. */
    void *(*resize)(void *user, void *memory, size_t size);
    /* Takes `memory` back, never NULL. */
    void (*release)(void *user, void *memory);
    void *user; /* passed to them */
} smol_allocator;

/* Makes all memory of the library come from `allocator` (NULL: from the C library, as it is without
 * this call), for the whole process: what calls return is given back with smol_free, which knows no
 * model. To be called while nothing of the library exists, no model, context, text or list of ids,
 * and nobody else is in it: best before any other call. The functions must remain; *allocator need
 * not.
 *
 * Models that are mapped take the system's memory, as do the stacks of threads, and what the C
 * library's own functions may need (pthread_create, localtime_r). */
SMOL_API void smol_set_allocator(const smol_allocator *allocator);

/* Gives back what a call returned to be freed with this; NULL is fine. */
SMOL_API void smol_free(void *memory);

/* --- models ------------------------------------------------------------------------------- */

typedef struct smol_model smol_model;

/* When the checksums of a blob's data are checked; header and tables always are, at open. */
typedef enum smol_verify {
    SMOL_VERIFY_FIRST = 0, /* each chunk right before its first use */
    SMOL_VERIFY_OPEN,      /* everything at open */
    SMOL_VERIFY_OFF,       /* nothing: only for blobs checked by other means */
} smol_verify;

typedef struct smol_model_params {
    smol_verify verify;
    int no_mmap; /* 1: read the blob into memory, for media that may change or fail later */
    /* NULL, or the SHA-256 digest that the file must have, 64 hexadecimal digits as sha256sum
     * prints them: nothing but the file's size is looked at before all of it is known to have that
     * digest. The file is read into memory, whatever no_mmap says, so that what runs is what had
     * the digest, even if the file changes or its medium gives other bytes later. Errors: USAGE (no
     * such digits), DAMAGED (another digest). */
    const char *require_digest;
    /* NULL, or told of the bytes that were checked, about once for each MiB: for require_digest
     * those of the file; for SMOL_VERIFY_OPEN, from the start again, those of the data, most of
     * which are looked at twice and count twice. */
    smol_on_progress *on_progress;
    smol_on_log *on_log; /* NULL, or told about the model and its contexts, until it is closed */
    void *user;          /* passed to both */
} smol_model_params;

/* Opens the blob at `path`. `params` NULL: all zeros. A mapped file must not change while it is
 * open (to replace it, rename another one over it), see smol_guard_mappings. On success the caller
 * owns *model; on failure *model is NULL. */
SMOL_API smol_status smol_model_open(const char *path, const smol_model_params *params,
                                     smol_model **model, smol_error *error);

/* A blob is mapped, and reading it raises SIGBUS, which ends the process, when the file has become
 * shorter or the disk fails. After this call, made once, that and a file that was written to while
 * it was open are errors: SMOL_ERROR_FILE, from the call that met it and from every later one on
 * that model; what such a call computed is not handed out. Models that are open already are guarded
 * too.
 *
 * It installs a handler for SIGBUS, for the whole process and for ever, so the library must stay
 * loaded. Faults in files that the library has mapped are the handler's; any other SIGBUS goes to
 * the handler that was there before, or ends the process as it would have. A handler installed
 * later must pass on what it does not know, and threads that call the library must not block
 * SIGBUS. */
SMOL_API void smol_guard_mappings(void);

/* Whether the model's file gives what it gave at open, as far as it was read: OK, or FILE under
 * smol_guard_mappings. To be asked behind smol_token_text; other calls ask it themselves. */
SMOL_API smol_status smol_model_intact(const smol_model *model, smol_error *error);

/* Closes a model whose contexts are all freed; NULL is fine. */
SMOL_API void smol_model_close(smol_model *model);

#define SMOL_NO_TOKEN UINT32_MAX

typedef struct smol_model_info {
    const char *dtype; /* "int8", "bf16", "f32" */
    uint32_t n_layers, hidden_size, intermediate_size, n_heads, n_kv_heads, head_dim;
    uint32_t vocab_size;
    uint32_t context_length; /* most tokens that the model was made for */
    uint32_t bos_id;         /* or SMOL_NO_TOKEN */
    uint64_t blob_bytes;
} smol_model_info;

SMOL_API smol_model_info smol_model_get_info(const smol_model *model);

/* The ids that end a text, ascending; the model's, *n may be 0. */
SMOL_API const uint32_t *smol_model_stop_ids(const smol_model *model, size_t *n);

/* Whether `id` is one of them: 1 or 0. */
SMOL_API int smol_model_is_stop_id(const smol_model *model, uint32_t id);

/* --- tokens ------------------------------------------------------------------------------- */

typedef struct smol_tokenize_params {
    /* 1: spelled-out special tokens such as <|im_end|> become those tokens. 0: they are ordinary
     * text, as untrusted text should be. Added tokens that are not special are always found. */
    int parse_special;
    /* 1: adds the tokens that the tokenizer puts around a whole text, bos above all: for a text to
     * be continued; not for its parts, nor for a chat, whose template writes them. */
    int whole_text;
    /* NULL, or called about once for each 256 KiB of work with the bytes of the text that have
     * their tokens. */
    smol_on_progress *on_progress;
    void *user; /* passed to on_progress */
} smol_tokenize_params;

/* The ids of text[0..size), UTF-8 (ill-formed parts count as U+FFFD). `params` NULL: all zeros. The
 * time is in proportion to the size, or to n log n for a word of n bytes. The caller frees *ids
 * with smol_free; *ids is NULL on failure. Errors: MEMORY, FILE, CANCELLED. */
SMOL_API smol_status smol_tokenize(const smol_model *model, const char *text, size_t size,
                                   const smol_tokenize_params *params, uint32_t **ids, size_t *n,
                                   smol_error *error);

/* The text of ids[0..n), UTF-8, not terminated (an ill-formed sequence is shown as U+FFFD): what
 * smol_generate streams for these tokens. With `show_special` 1, the text of special tokens is in
 * it. The caller frees *text with smol_free; *text is NULL on failure. Errors: MEMORY, FILE. */
SMOL_API smol_status smol_detokenize(const smol_model *model, const uint32_t *ids, size_t n,
                                     int show_special, char **text, size_t *size,
                                     smol_error *error);

/* The bytes of token `id`, the model's, not terminated; they may be part of a character, and a
 * text of many tokens need not be the sum of theirs: see smol_detokenize. *size is 0 for ids
 * without text. *special (may be NULL): 1 for tokens that are usually not shown. */
SMOL_API const char *smol_token_text(const smol_model *model, uint32_t id, size_t *size,
                                     int *special);

/* --- contexts ----------------------------------------------------------------------------- */

typedef struct smol_context smol_context;

/* Element type of the KV cache. */
typedef enum smol_kv {
    SMOL_KV_DEFAULT = 0, /* f32 for f32 blobs, f16 otherwise */
    SMOL_KV_F32,
    SMOL_KV_F16,
    SMOL_KV_INT8,
} smol_kv;

typedef struct smol_context_params {
    uint32_t n_ctx;     /* most tokens to hold; 0: the model's context_length */
    uint32_t n_threads; /* 0: one for each processor that the process may use. Threads run where
                           the creating thread may: its affinity (taskset) is theirs. A library
                           built without threads has the caller's alone: 0 or 1 */
    smol_kv kv;
    /* NULL, or a context of the same model: the new one uses that one's threads and working memory
     * (n_threads: 0, or as many as these are), so that both can be evaluated together, see
     * smol_eval_many. All that share are for one thread at a time; any may be freed first. */
    smol_context *share;
    /* NULL, or told by calls that evaluate more than 128 tokens how many of them are in the
     * sequence; what it cancels is as after smol_context_cancel. */
    smol_on_progress *on_progress;
    void *user; /* passed to on_progress */
} smol_context_params;

/* A new, empty sequence. `params` NULL: all zeros. The KV cache grows with the sequence. The
 * model must outlive the context. Errors: USAGE (n_ctx beyond the model's; nothing to share),
 * MEMORY. */
SMOL_API smol_status smol_context_create(const smol_model *model, const smol_context_params *params,
                                         smol_context **context, smol_error *error);

/* NULL is fine. */
SMOL_API void smol_context_free(smol_context *context);

/* Appends ids[0..n), n > 0, to the sequence and computes the logits after each of its last
 * `n_logits` tokens (0..n): logits (n_logits, vocab_size), the caller's. On CONTEXT_FULL and
 * USAGE (an id out of range) nothing has changed; after any other error the sequence is as before
 * the call. */
SMOL_API smol_status smol_eval(smol_context *context, const uint32_t *ids, size_t n,
                               size_t n_logits, float *logits, smol_error *error);

/* One sequence's part of smol_eval_many: the arguments of smol_eval, and its result. */
typedef struct smol_eval_part {
    smol_context *context;
    const uint32_t *ids; /* (n) */
    size_t n, n_logits;
    float *logits;    /* (n_logits, vocab_size), the caller's */
    smol_error error; /* filled in: how it went */
} smol_eval_part;

/* smol_eval for parts[0..n_parts), each of a context of its own, all of which share (see
 * smol_context_params): the model's weights are read once for all of them, 128 tokens at a time, so
 * that eight sequences take one token each in little more time than one of them. Each gets the
 * logits to the bit that it would get alone.
 *
 * A part whose arguments make no sense, whose context is full or has no memory, or whose numbers
 * are out of range, fails alone; a blob that is damaged or changed fails all. What fails leaves its
 * sequence as it was before the call. Returns the status of the first part that failed, *error is
 * its error. */
SMOL_API smol_status smol_eval_many(smol_eval_part *parts, size_t n_parts, smol_error *error);

/* With `cancel` 1, ends what is being evaluated on the context, within a layer of the model, and
 * whatever is evaluated on it later, at once: calls end with SMOL_ERROR_CANCELLED and leave the
 * sequence as it was, or for smol_generate, with SMOL_FINISH_CANCELLED and as far as it came; of
 * contexts that are evaluated together the others go on. This lasts until a call with `cancel` 0.
 * So nothing is lost when it comes just before a call, and a program that takes it back where it
 * begins with something new does not end that by mistake.
 *
 * Of all calls on a context, this one may be made by any thread, at any time, and by a signal
 * handler. */
SMOL_API void smol_context_cancel(smol_context *context, int cancel);

/* Tokens in the sequence. */
SMOL_API size_t smol_context_length(const smol_context *context);

/* The ids (*n) of the sequence, the context's until the next call on it. */
SMOL_API const uint32_t *smol_context_ids(const smol_context *context, size_t *n);

/* Most tokens that the sequence can hold. */
SMOL_API size_t smol_context_capacity(const smol_context *context);

/* Forgets all but the first `n` tokens; n beyond the length changes nothing. */
SMOL_API void smol_context_truncate(smol_context *context, size_t n);

/* Makes room for `n_room` more tokens where there is none: keeps the first n_keep tokens and of the
 * others the newest half, or a half of that and so on where it takes more, and evaluates these anew
 * at their new places. That takes as long as a prompt of as many tokens. What follows has the same
 * bits as in a new context with these ids (smol_context_ids). Errors: CONTEXT_FULL (n_keep and
 * n_room together are too many; nothing was changed), CANCELLED (nothing either, if that came
 * before); after others, as of smol_eval, the sequence is its first n_keep tokens. */
SMOL_API smol_status smol_context_slide(smol_context *context, size_t n_keep, size_t n_room,
                                        smol_error *error);

/* The last token that smol_generate brought, until something else is evaluated: it is not in the
 * sequence yet. SMOL_NO_TOKEN: there is none. */
SMOL_API uint32_t smol_context_pending(const smol_context *context);

typedef struct smol_context_info {
    uint32_t n_threads;
    const char *kv;     /* "f16", ... */
    const char *isa;    /* the kernel set in use: "scalar", "avx2", ... */
    size_t kv_bytes;    /* memory of the KV cache now */
    size_t state_bytes; /* memory of the context besides; what is shared counts for each */
} smol_context_info;

SMOL_API smol_context_info smol_context_get_info(const smol_context *context);

/* --- embeddings --------------------------------------------------------------------------- */

/* Which hidden states of a text's tokens. */
typedef enum smol_pooling {
    SMOL_POOL_NONE = 0, /* all: (n, hidden_size) */
    SMOL_POOL_MEAN,     /* their mean, summed in double: (hidden_size) */
    SMOL_POOL_LAST,     /* the last one, which has seen all others: (hidden_size) */
} smol_pooling;

/* As smol_eval, but instead of logits gives the hidden states behind the model's final norm, which
 * are what transformers calls last_hidden_state: `states`, the caller's, in the shape above. For
 * texts that do not continue each other, truncate the context to 0 in between. After an error what
 * is in `states` means nothing. */
SMOL_API smol_status smol_embed(smol_context *context, const uint32_t *ids, size_t n,
                                smol_pooling pooling, float *states, smol_error *error);

/* --- chats -------------------------------------------------------------------------------- */

typedef struct smol_chat_message {
    const char *role;    /* "system", "user", "assistant" ...; terminated */
    const char *content; /* (size), UTF-8; ill-formed parts count as U+FFFD */
    size_t size;
} smol_chat_message;

struct tm; /* <time.h> */

/* A conversation, as the reference's apply_chat_template takes it: messages of either form, and
 * what else a template may ask for. JSON texts are terminated UTF-8; NULL: there is none. */
typedef struct smol_chat_params {
    const smol_chat_message *messages; /* (n_messages) */
    size_t n_messages;
    const char *messages_json;  /* a list of objects, instead of `messages` */
    const char *tools_json;     /* a list of objects: JSON schemas of functions. A checkpoint's
                                   template "tool_use", where there is one, counts when this is not
                                   NULL, as in the reference */
    const char *documents_json; /* a list of objects */
    const char *variables_json; /* an object: more variables of the template (enable_thinking) */
    int add_generation_prompt;  /* 1: ends where the assistant's answer starts */
    const struct tm *now; /* local time for strftime_now, of which the date and the time of day
                             count; NULL: the clock's */
    smol_on_progress *on_progress; /* as for smol_tokenize, with the bytes of the formatted text;
                                      smol_chat_format does not call it */
    void *user;                    /* passed to on_progress */
} smol_chat_params;

typedef struct smol_chat_text {
    char *text; /* (size), UTF-8, and a terminating 0 */
    size_t size;
    /* (size): 1 for each byte that stems from the conversation, 0 for those of the template. What
     * the template makes of numbers, lists and objects stems from the conversation too. */
    unsigned char *from_conversation;
} smol_chat_text;

/* The text that the model's chat template makes of a conversation. To be given back with
 * smol_chat_text_free; all zeros after an error. It takes at most 64 MiB of memory and 33 million
 * steps. Errors: USAGE (no JSON; a conversation that the template refuses, with its words),
 * UNSUPPORTED (the blob has no template, or one that could not be compiled, and why; more memory or
 * steps than there are), MEMORY. */
SMOL_API smol_status smol_chat_format(const smol_model *model, const smol_chat_params *params,
                                      smol_chat_text *text, smol_error *error);
SMOL_API void smol_chat_text_free(smol_chat_text *text);

/* The ids of that text. A message cannot forge a turn: special tokens, and other added tokens that
 * the template writes, are found only where all of their bytes are the template's; spelled out in
 * the conversation they are ordinary text. The caller frees *ids with smol_free. */
SMOL_API smol_status smol_chat_tokenize(const smol_model *model, const smol_chat_params *params,
                                        uint32_t **ids, size_t *n, smol_error *error);

/* --- sampling ----------------------------------------------------------------------------- */

/* Meaning and order as in Hugging Face transformers: repetition penalty, temperature, top-k,
 * top-p, min-p. Zeros everywhere are greedy decoding. */
typedef struct smol_sampler_params {
    float temperature;        /* 0: greedy, the lowest id among equals */
    uint32_t top_k;           /* keep the k most likely (and their equals); 0: all */
    float top_p;              /* keep the smallest set of at least this probability; 0 or 1: all */
    float min_p;              /* keep what has this share of the best's probability; 0: all */
    float repetition_penalty; /* divides positive, multiplies negative logits; 0 or 1: none */
    uint64_t seed;
} smol_sampler_params;

typedef struct smol_sampler smol_sampler;

/* `params` NULL: all zeros. Errors: USAGE (a parameter out of range, named), MEMORY. */
SMOL_API smol_status smol_sampler_create(const smol_sampler_params *params, smol_sampler **sampler,
                                         smol_error *error);
SMOL_API void smol_sampler_free(smol_sampler *sampler);

/* Picks a token id from logits (n). `history` (n_history) is the sequence so far, which the
 * repetition penalty applies to. The k-th call on a sampler uses the k-th random number of its
 * seed (Philox4x32-10), greedy calls included, those that failed not. Errors: NUMERIC (NaN or
 * infinity in the logits), MEMORY, USAGE (n 0). */
SMOL_API smol_status smol_sample(smol_sampler *sampler, const float *logits, size_t n,
                                 const uint32_t *history, size_t n_history, uint32_t *id,
                                 smol_error *error);

SMOL_API smol_sampler_params smol_sampler_get_params(const smol_sampler *sampler);

/* Errors: USAGE, as above; nothing was changed. Another seed starts with its first random number,
 * the same one goes on. */
SMOL_API smol_status smol_sampler_set_params(smol_sampler *sampler,
                                             const smol_sampler_params *params, smol_error *error);

/* --- generation --------------------------------------------------------------------------- */

typedef enum smol_finish {
    SMOL_FINISH_STOP = 0,     /* a stop token or stop string */
    SMOL_FINISH_LENGTH,       /* max_tokens were generated */
    SMOL_FINISH_CONTEXT_FULL, /* no room for another token */
    SMOL_FINISH_CANCELLED,    /* a callback or smol_context_cancel asked for it */
} smol_finish;

/* Receives text as it is generated: whole UTF-8 characters (an ill-formed sequence as U+FFFD),
 * never part of a stop string. Not every token brings text, so size may be 0; `id` is the newest
 * token, or SMOL_NO_TOKEN in the last call, which brings held-back text. A stop token itself is
 * not reported. Return 0 to go on, anything else to cancel. It may look at the context, save it
 * with its sampler, to go on behind `id`, and cancel it; nothing that changes either, nor free
 * them. */
typedef int smol_on_text(void *user, const char *text, size_t size, uint32_t id);

/* Sees each token as it is chosen, before its text is reported, and the logits (n) that it was
 * chosen from, as the model gave them; they are the library's. It may do what smol_on_text may. */
typedef void smol_on_token(void *user, uint32_t id, const float *logits, size_t n);

typedef struct smol_generate_params {
    size_t max_tokens; /* SIZE_MAX: no limit but the context's */
    /* (n_stop) texts, UTF-8 and not empty, that end generation and are not reported, whatever
     * tokens they are spread over: the first to be complete, of several the longest. */
    const char *const *stop;
    size_t n_stop;
    int show_special;        /* 1: text of special tokens is reported too */
    int slide;               /* 1: a full context does not end it: see smol_context_slide ... */
    size_t n_keep;           /* ... which keeps so many of the context's first tokens */
    int penalize_context;    /* 1: what was in the context before the prompt is history too */
    smol_on_text *on_text;   /* may be NULL */
    void *user;              /* passed to on_text and on_token */
    smol_on_token *on_token; /* may be NULL */
} smol_generate_params;

typedef struct smol_generate_result {
    smol_finish finish;
    size_t n_prompt;    /* tokens evaluated as prompt */
    size_t n_generated; /* tokens generated, a stop token not counted */
    double prompt_seconds, first_token_seconds, decode_seconds; /* wall time; decode: without the
                                                                   first token */
    size_t n_slides;      /* how often the context slid after the prompt ... */
    double slide_seconds; /* ... and for how long in all, which is part of decode_seconds */
} smol_generate_result;

/* Appends the prompt ids to the context and generates. The generated tokens are in the context
 * afterwards, but for the last one, unless a stop token came behind it: see smol_context_pending.
 * Without a prompt (n 0) it goes on where the sequence ends, as if the call before had not ended:
 * that token, or where there is none the last of the sequence once more, is evaluated as the
 * prompt. `history` for the repetition penalty is the prompt given here and the output; once the
 * context has slid, what it holds. Errors: as smol_eval and smol_sample, USAGE for stop strings and
 * for n 0 on an empty sequence; *result then says how far it came. A full context in the middle is
 * not an error but SMOL_FINISH_CONTEXT_FULL, unless params->slide: then it goes on, and the prompt
 * too gets room. Nor is it one to be cancelled but SMOL_FINISH_CANCELLED; in the prompt, the
 * context is as before (or as smol_context_slide left it) and result->n_prompt is 0. */
SMOL_API smol_status smol_generate(smol_context *context, smol_sampler *sampler,
                                   const uint32_t *prompt, size_t n,
                                   const smol_generate_params *params, smol_generate_result *result,
                                   smol_error *error);

/* --- sessions ----------------------------------------------------------------------------- */

/* What is saved with a context, and restored. */
typedef struct smol_session {
    smol_sampler *sampler; /* its parameters and its place among the random numbers; NULL: none */
    void *data;            /* (size), at most 64 MiB: anything of the caller's, or NULL */
    size_t size;
} smol_session;

/* Takes data[0..size), of which the next call brings the continuation. Returns 0 to go on, anything
 * else to end with SMOL_ERROR_FILE. */
typedef int smol_on_write(void *user, const void *data, size_t size);

/* Brings the next bytes: data[0..*n), at most `size`, and 0 only at the end. Returns as above. */
typedef int smol_on_read(void *user, void *data, size_t size, size_t *n);

/* Writes the sequence, its keys and values, and *session (may be NULL) in the format of
 * format/SESSION.md: the same bytes for the same state. Nothing is changed. Errors: USAGE (too much
 * data), NUMERIC (NaN or infinity in the cache, which the next smol_eval would have met), FILE (the
 * callback's), MEMORY. */
SMOL_API smol_status smol_context_save(const smol_context *context, const smol_session *session,
                                       smol_on_write *write, void *user, smol_error *error);

/* Makes the context what it was when it was saved, whatever it holds: what is evaluated from here
 * on gives the same bits as if nothing had come between, on any machine and for any number of
 * threads. The bytes may be a stranger's. Into *session (may be NULL) go the sampler's state, where
 * there is one in the session and session->sampler is not NULL, and the data, which the caller
 * frees with smol_free. After an error the context is empty, the sampler as it was, and there are
 * no data. Errors: DAMAGED (damaged, or no session), UNSUPPORTED (of another version, blob or KV
 * type), CONTEXT_FULL (longer than this context's capacity), FILE (the callback's), MEMORY. */
SMOL_API smol_status smol_context_restore(smol_context *context, smol_session *session,
                                          smol_on_read *read, void *user, smol_error *error);

/* The same into memory, which the caller frees with smol_free, and from memory. */
SMOL_API smol_status smol_context_save_memory(const smol_context *context,
                                              const smol_session *session, void **bytes,
                                              size_t *size, smol_error *error);
SMOL_API smol_status smol_context_restore_memory(smol_context *context, smol_session *session,
                                                 const void *bytes, size_t size, smol_error *error);

/* The same for several sequences at once, a step at a time: each step evaluates them together (see
 * smol_eval_many), and generations may join and leave between steps. Each brings what smol_generate
 * would, to the bit. */
typedef struct smol_generation smol_generation;

/* A generation that is about to begin, with the arguments of smol_generate, n > 0; nothing is
 * evaluated yet. What is given is copied, but context, sampler and params->user, which must
 * outlive it. From the first step until it has finished, the context is its alone. Errors: MEMORY,
 * USAGE (of params). */
SMOL_API smol_status smol_generation_create(smol_context *context, smol_sampler *sampler,
                                            const uint32_t *prompt, size_t n,
                                            const smol_generate_params *params,
                                            smol_generation **generation, smol_error *error);
/* NULL is fine. */
SMOL_API void smol_generation_free(smol_generation *generation);

/* One step of generations[0..n), whose contexts share and are each another's: those that generate
 * get their next token, and as many tokens of prompts are read beside them as go into the same
 * pass. One that fails has finished, and the others go on. */
SMOL_API void smol_generation_step(smol_generation *const *generations, size_t n);

/* Whether it has finished. *result is how far it has come, *error (may be NULL) what it failed
 * with, or OK. */
SMOL_API int smol_generation_finished(const smol_generation *generation,
                                      smol_generate_result *result, smol_error *error);

#ifdef __cplusplus
}
#endif

#endif
