/* libsmol runs the language model in a .smol blob.
 *
 * Typical use: open a model, which is read-only and may be shared; create a context on it, which
 * is one sequence of tokens with its KV cache and threads; tokenize a prompt; then call
 * smol_generate, or call smol_eval and smol_sample in a loop. docs/embedding.md is the guide,
 * examples/ has complete programs.
 *
 * PARAMETERS
 *
 * Structs that the caller fills in follow one rule: zeros are the defaults. Set the whole struct to
 * zero, then the members that matter. Where a pointer to such a struct may be NULL, NULL means all
 * zeros.
 *
 * Structs grow in their `reserved` members, which must be zero. Their size never changes, so a
 * program runs with any library of the same soname. A program that sets a member added by a newer
 * release gets SMOL_ERROR_USAGE from an older library, which finds the value in `reserved`: nothing
 * is ignored silently. (A size member would do the same, but a struct of zeros would not be valid.)
 * Structs that the library fills in set `reserved` to zero. smol_error, smol_allocator and
 * smol_chat_message never change.
 *
 * Arrays are pointers with a shape in parentheses: `logits` (n, vocab_size) has n rows of
 * vocab_size values. Where n is 0 the pointer may be NULL. Texts are UTF-8 with a length in bytes,
 * unless they are called terminated.
 *
 * OWNERSHIP
 *
 * Each type of object has one function that frees it: smol_model_close for models,
 * smol_context_free for contexts, and so on. Plain memory (token ids, texts, bytes) is freed with
 * smol_free. All of them accept NULL. Functions copy what they are given, unless their description
 * says that it must outlive the object.
 *
 * After an error, outputs that the caller would have to free are NULL, and objects are as they were
 * before the call, unless the description says otherwise.
 *
 * ERRORS
 *
 * A function that can fail returns a smol_status. Where it takes a smol_error, it also stores the
 * status and a message there, SMOL_OK and "" on success; `error` may be NULL. Descriptions list
 * the errors of a function, except that any function that allocates may return SMOL_ERROR_MEMORY
 * and any function that reads a guarded model SMOL_ERROR_FILE (see smol_guard_mappings).
 *
 * The library never prints, exits, or changes the locale, and installs a signal handler only in
 * smol_guard_mappings. Pointers to objects and outputs must be valid; they are not checked.
 *
 * THREADS
 *
 * Any number of threads may use a smol_model, smol_prefix_cache or smol_constraint at once. Any
 * other object is for one thread at a time; contexts that share count as one.
 * Only smol_context_cancel may be called by any thread at any time. The only global state is a list
 * of mapped files, for smol_guard_mappings, and the functions set by smol_set_allocator.
 *
 * RESULTS
 *
 * The logits after a sequence of tokens are the same to the bit for any number of threads, any way
 * of splitting the sequence over calls, and any instruction set. Functions run with the default
 * rounding mode and without flush-to-zero, whatever the caller's, and restore the caller's;
 * callbacks run in the caller's environment, an allocator's functions in either. */
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

/* --- version ------------------------------------------------------------------------------ */

/* The release of this header. */
#define SMOL_VERSION_MAJOR 0
#define SMOL_VERSION_MINOR 1
#define SMOL_VERSION_PATCH 0

#define SMOL_QUOTE_EXPANDED(text) #text
#define SMOL_QUOTE(macro) SMOL_QUOTE_EXPANDED(macro)

/* As text: "major.minor.patch". */
#define SMOL_VERSION                                                                               \
    SMOL_QUOTE(SMOL_VERSION_MAJOR)                                                                 \
    "." SMOL_QUOTE(SMOL_VERSION_MINOR) "." SMOL_QUOTE(SMOL_VERSION_PATCH)

/* The release of the library that runs, "major.minor.patch". Static. */
SMOL_API const char *smol_version(void);

/* --- errors ------------------------------------------------------------------------------- */

/* The kind of an error. Values never change; later releases may add some. They are not exit
 * statuses: a program chooses its own. */
typedef enum smol_status {
    SMOL_OK = 0,
    SMOL_ERROR_MISMATCH = 1,     /* two files differ; used by smolconv, not by the library */
    SMOL_ERROR_USAGE = 2,        /* invalid arguments; nothing was changed */
    SMOL_ERROR_FILE = 3,         /* a file is missing or unreadable, or changed while in use */
    SMOL_ERROR_DAMAGED = 4,      /* a blob or session is damaged or violates its format */
    SMOL_ERROR_UNSUPPORTED = 5,  /* well-formed, but not supported by this release */
    SMOL_ERROR_MEMORY = 6,       /* out of memory */
    SMOL_ERROR_NUMERIC = 7,      /* NaN or infinity in activations or logits */
    SMOL_ERROR_CONTEXT_FULL = 8, /* no room for the tokens; nothing was changed */
    SMOL_ERROR_CANCELLED = 9,    /* a callback or smol_context_cancel ended the call */
} smol_status;

/* A short description of `status` such as "out of memory". Static; never NULL, "unknown status"
 * for values that this release does not know. */
SMOL_API const char *smol_status_text(smol_status status);

/* Size of a message with its terminating 0; longer messages are cut. */
#define SMOL_ERROR_MESSAGE_SIZE 512

typedef struct smol_error {
    smol_status status;
    char message[SMOL_ERROR_MESSAGE_SIZE]; /* one line without control characters, for people:
                                              `file: what is wrong (where): what to do` */
} smol_error;

/* --- callbacks ---------------------------------------------------------------------------- */

/* Reports the progress of a long call: `done` of `total`, 0 < done < total. The end is not
 * reported: the call returns. Return 0 to continue, any other value to end the call with
 * SMOL_ERROR_CANCELLED. Runs on the thread of the call, and must not use the object of the call. */
typedef int smol_on_progress(void *user, uint64_t done, uint64_t total);

typedef enum smol_log_level {
    SMOL_LOG_INFO = 0, /* what was done, and how */
    SMOL_LOG_WARNING,  /* it worked, but may not be what was meant */
} smol_log_level;

/* Receives lines for the program's log: `message` is one line without control characters that
 * begins with the blob's name, valid until the callback returns. Its wording may change with any
 * release. Errors are returned, not logged. Runs on the thread of the call, so several threads may
 * run it at once, and must not call the library. */
typedef void smol_on_log(void *user, smol_log_level level, const char *message);

/* --- memory ------------------------------------------------------------------------------- */

/* Functions that allocate the library's memory. Several threads may call them at once; they must
 * not call the library. */
typedef struct smol_allocator {
    /* Returns `size` bytes, > 0, at a multiple of `alignment`, a power of two; or NULL, which
     * becomes SMOL_ERROR_MEMORY. */
    void *(*allocate)(void *user, size_t alignment, size_t size);
    /* Resizes `memory`, allocated with the alignment of max_align_t, to `size` bytes, > 0. It may
     * move; its contents are kept up to the smaller size. NULL: failed, `memory` is unchanged. */
    void *(*resize)(void *user, void *memory, size_t size);
    /* Frees `memory`, never NULL. */
    void (*release)(void *user, void *memory);
    void *user; /* passed to all three */
} smol_allocator;

/* Makes `allocator` the source of all of the library's memory, for the whole process; NULL restores
 * the C library's functions, the default. Call it while nothing of the library exists (models,
 * contexts, texts, lists of ids) and no other thread is using it: best before any other call.
 * *allocator is copied; the functions must remain.
 *
 * Mapped models and the stacks of threads remain the system's, as does memory that functions of
 * the C library allocate (pthread_create, localtime_r). */
SMOL_API void smol_set_allocator(const smol_allocator *allocator);

/* Frees memory that the library returned. NULL is ignored. */
SMOL_API void smol_free(void *memory);

/* --- models ------------------------------------------------------------------------------- */

typedef struct smol_model smol_model;

/* When the checksums of a blob's data are verified. Those of its header and tables are always
 * verified at open. */
typedef enum smol_verify {
    SMOL_VERIFY_FIRST = 0, /* each chunk immediately before its first use */
    SMOL_VERIFY_OPEN,      /* everything at open */
    SMOL_VERIFY_OFF,       /* never: only for blobs verified by other means */
} smol_verify;

typedef struct smol_model_params {
    smol_verify verify;
    int no_mmap; /* 1: read the file into memory, for media that may change or fail later. Ignored
                    by smol_model_open_memory. */
    /* NULL, or the SHA-256 digest that the whole blob must have: 64 hexadecimal digits, as printed
     * by sha256sum. It is verified before anything but the size is looked at. Implies no_mmap, so
     * that the model that runs is the one that was verified, even if the file changes later.
     * Errors: USAGE (not a digest), DAMAGED (another digest). */
    const char *require_digest;
    /* NULL, or reports verified bytes, about once per MiB: those of the file for require_digest;
     * then, from the start again, those of the data for SMOL_VERIFY_OPEN, which reads most of them
     * twice and counts them twice. */
    smol_on_progress *on_progress;
    smol_on_log *on_log; /* NULL, or receives the log of the model and its contexts */
    void *user;          /* passed to on_progress and on_log */
    uint64_t reserved[8];
} smol_model_params;

/* Opens the blob in the file `path`. `params` may be NULL. The file is mapped, unless params say
 * otherwise, and must not change while the model is open; to replace it, rename another file over
 * it. See also smol_guard_mappings. On success *model is the caller's, on failure it is NULL.
 * Errors: USAGE (params), FILE, DAMAGED, UNSUPPORTED, MEMORY, CANCELLED. */
SMOL_API smol_status smol_model_open(const char *path, const smol_model_params *params,
                                     smol_model **model, smol_error *error);

/* Opens the blob in the regular file that is open as the descriptor `fd`, which must be readable,
 * for programs that open files before they enter a sandbox or receive descriptors. The whole file
 * is used, wherever the descriptor's offset is, and the offset does not change. The descriptor
 * remains the caller's and may be closed after the call. `name` is for messages; NULL: "fd 3" or
 * the like. Otherwise the same as smol_model_open. */
SMOL_API smol_status smol_model_open_fd(int fd, const char *name, const smol_model_params *params,
                                        smol_model **model, smol_error *error);

/* Alignment of the data of smol_model_open_memory in bytes. */
#define SMOL_BLOB_ALIGNMENT 64

/* Opens the blob data[0..size), which must be aligned to SMOL_BLOB_ALIGNMENT: flash memory, a part
 * of the program, an asset that is mapped already. It is used in place, and must neither change nor
 * go away while the model is open. It is verified as a file is. `name` is for messages; NULL:
 * "memory". Otherwise the same as smol_model_open. Errors: also USAGE (alignment). */
SMOL_API smol_status smol_model_open_memory(const void *data, size_t size, const char *name,
                                            const smol_model_params *params, smol_model **model,
                                            smol_error *error);

/* Closes a model. All of its contexts must have been freed. NULL is ignored. */
SMOL_API void smol_model_close(smol_model *model);

/* A mapped file that becomes shorter, or that the disk fails to deliver, raises SIGBUS when it is
 * read, which ends the process. After this function has been called, once, this is an error
 * instead, as is a file that was written to while it was open: SMOL_ERROR_FILE, returned by the
 * call that noticed it and by every later one on that model. Results of such a call are not
 * returned. Models that are already open are guarded too.
 *
 * The function installs a handler for SIGBUS, for the lifetime of the process, so the library must
 * stay loaded. The handler handles faults in files that the library has mapped, and passes any
 * other SIGBUS to the previous handler or ends the process as without it. Handlers installed later
 * must pass on what they do not know. Threads that call the library must not block SIGBUS. */
SMOL_API void smol_guard_mappings(void);

/* No token: an id that no token has. */
#define SMOL_NO_TOKEN UINT32_MAX

typedef struct smol_model_info {
    const char *dtype; /* "int8", "int4", "bf16", ...: of most weights in the layers; static */
    uint32_t n_layers, hidden_size, intermediate_size, n_heads, n_kv_heads, head_dim;
    uint32_t vocab_size;        /* ids are below this; logits have this many values */
    uint32_t context_length;    /* most tokens that the model was made for */
    uint32_t bos_id;            /* or SMOL_NO_TOKEN */
    uint32_t has_chat_template; /* 1: smol_chat_format and smol_chat_tokenize work; 0: they return
                                   UNSUPPORTED, with the reason */
    uint64_t blob_bytes;        /* size of the blob */
    uint32_t is_encoder;        /* 1: computes embeddings of whole texts, and no logits */
    uint32_t max_text;          /* most tokens of a text to be embedded, see `truncate` below */
    uint32_t embedding_size; /* values of an embedding by SMOL_POOL_MODEL; most often hidden_size */
    uint32_t is_reranker;    /* 1: an encoder whose embedding is one value, the score of a pair of
                                texts, see smol_tokenize_pair */
    uint64_t reserved[6];
} smol_model_info;

SMOL_API smol_model_info smol_model_get_info(const smol_model *model);

/* Points *text, terminated and owned by the model, at the prompt `name`, such as "query": a text to
 * put before each text that is embedded. The checkpoint names its prompts. NULL: the default one,
 * which is "" for most models. Errors: USAGE (no such prompt). */
SMOL_API smol_status smol_model_prompt(const smol_model *model, const char *name, const char **text,
                                       smol_error *error);

/* Ids of the tokens that end a text, (*n), ascending; owned by the model. *n may be 0. */
SMOL_API const uint32_t *smol_model_stop_ids(const smol_model *model, size_t *n);

/* Returns 1 if `id` is one of them, otherwise 0. */
SMOL_API int smol_model_is_stop_id(const smol_model *model, uint32_t id);

/* --- tokens ------------------------------------------------------------------------------- */

typedef struct smol_tokenize_params {
    /* 1: special tokens such as <|im_end|> that are spelled out in the text become those tokens.
     * 0: they are ordinary text, as they should be in untrusted input. Added tokens that are not
     * special are always recognized. */
    int parse_special;
    /* 1: adds the tokens that the tokenizer puts around a whole text, mainly bos. For a text to be
     * continued; not for a part of one, nor for a chat, whose template adds them. */
    int whole_text;
    /* NULL, or reports how many bytes of the text have been converted, about once per 256 KiB of
     * work. It may evaluate contexts of the model. */
    smol_on_progress *on_progress;
    void *user; /* passed to on_progress */
    /* 1: a text of more than max_text tokens (smol_model_info) loses the last ones before those
     * that whole_text adds after it. For texts to be embedded. */
    int truncate;
    uint64_t reserved[3];
} smol_tokenize_params;

/* Converts text[0..size) to token ids. Ill-formed UTF-8 is read as U+FFFD. `params` may be NULL.
 * The time is proportional to the size, or to n log n for a word of n bytes. The caller frees *ids,
 * (*n), with smol_free. Errors: USAGE (params), CANCELLED, MEMORY. */
SMOL_API smol_status smol_tokenize(const smol_model *model, const char *text, size_t size,
                                   const smol_tokenize_params *params, uint32_t **ids, size_t *n,
                                   smol_error *error);

/* Converts ids[0..n) to text, the same that smol_generate reports for these tokens. Ill-formed
 * UTF-8 becomes U+FFFD. `show_special` 1 includes the text of special tokens. The caller frees
 * *text, (*size), not terminated, with smol_free. Errors: USAGE (an id out of range), MEMORY. */
SMOL_API smol_status smol_detokenize(const smol_model *model, const uint32_t *ids, size_t n,
                                     int show_special, char **text, size_t *size,
                                     smol_error *error);

/* Points *text at the bytes of token `id`, (*size), not terminated; owned by the model. They may be
 * part of a character, and a text need not be the sum of its tokens' bytes: see smol_detokenize.
 * *size is 0 for tokens without text. *special (may be NULL) becomes 1 for tokens that are normally
 * not shown, otherwise 0. Errors: USAGE (id out of range). */
SMOL_API smol_status smol_token_text(const smol_model *model, uint32_t id, const char **text,
                                     size_t *size, int *special, smol_error *error);

/* --- contexts ----------------------------------------------------------------------------- */

typedef struct smol_context smol_context;
typedef struct smol_prefix_cache smol_prefix_cache; /* see smol_prefix_cache_create */

/* Element type of the KV cache. */
typedef enum smol_kv {
    SMOL_KV_DEFAULT = 0, /* f32 for f32 blobs, otherwise f16 */
    SMOL_KV_F32,
    SMOL_KV_F16,
    SMOL_KV_INT8,
    SMOL_KV_INT4,
} smol_kv;

typedef struct smol_context_params {
    uint32_t n_ctx;     /* capacity in tokens; 0: the model's context_length, the maximum */
    uint32_t n_threads; /* 0: one per processor that the process may use. Threads inherit the CPU
                           affinity of the thread that creates the context. A library built without
                           threads uses the caller's only: 0 or 1. */
    smol_kv kv;
    /* NULL, or a context of the same model: the new one uses its threads and working memory
     * (n_threads: 0, or the same number), so that smol_eval_many can evaluate both together.
     * Contexts that share are for one thread at a time; they may be freed in any order. */
    smol_context *share;
    /* NULL, or reports how many tokens of a call that evaluates more than 128 are in the sequence.
     * Cancelling here has the effect of smol_context_cancel on that call. */
    smol_on_progress *on_progress;
    void *user; /* passed to on_progress */
    /* NULL, or a cache of the same model and KV type, through which contexts share the keys and
     * values of common beginnings; it must outlive the context. Only contexts of the same group
     * share: a server that gives each of its clients a group does not let one tell, from the time
     * that an answer takes, what another has asked. */
    smol_prefix_cache *prefix_cache;
    uint64_t prefix_group; /* any number */
    uint64_t reserved[6];
} smol_context_params;

/* Creates an empty sequence. `params` may be NULL. The KV cache grows with the sequence. The model
 * must outlive the context. Errors: USAGE (params: n_ctx above the model's, `share` of another
 * model), MEMORY. */
SMOL_API smol_status smol_context_create(const smol_model *model, const smol_context_params *params,
                                         smol_context **context, smol_error *error);

/* NULL is ignored. */
SMOL_API void smol_context_free(smol_context *context);

/* Appends ids[0..n), n > 0, to the sequence and computes the logits after each of the last
 * n_logits of them, 0 <= n_logits <= n: logits (n_logits, vocab_size). After an error the sequence
 * is the same as before. Errors: USAGE (an id out of range, n, n_logits), CONTEXT_FULL, NUMERIC,
 * DAMAGED, CANCELLED, MEMORY. */
SMOL_API smol_status smol_eval(smol_context *context, const uint32_t *ids, size_t n,
                               size_t n_logits, float *logits, smol_error *error);

/* The arguments of smol_eval for one of several sequences, and its result. */
typedef struct smol_eval_part {
    smol_context *context;
    const uint32_t *ids; /* (n) */
    size_t n, n_logits;
    float *logits;    /* (n_logits, vocab_size) */
    smol_error error; /* set by the library */
    uint64_t reserved[4];
} smol_eval_part;

/* Calls smol_eval for parts[0..n_parts), each of a different context, all of which share (see
 * smol_context_params). The model's weights are read once for all parts, for up to 128 tokens at a
 * time, so eight sequences take one token each in little more time than one sequence. Each part
 * gets the same logits, to the bit, as alone.
 *
 * A part fails alone if its arguments are invalid, its context is full, cancelled or out of memory,
 * or its numbers are out of range; a damaged or changed blob fails all parts. The sequence of a
 * part that fails is the same as before the call. Returns the status of the first part that failed,
 * and its error in *error. */
SMOL_API smol_status smol_eval_many(smol_eval_part *parts, size_t n_parts, smol_error *error);

/* With `cancel` 1, ends the current evaluation on the context within the time of one layer, and
 * every later one at once, until a call with `cancel` 0. Calls end with SMOL_ERROR_CANCELLED and
 * leave the sequence as it was; smol_generate ends with SMOL_FINISH_CANCELLED and keeps what it
 * generated. Other contexts that are evaluated together continue.
 *
 * Since cancellation persists, it cannot be lost between two calls. Reset it where a new request
 * begins. May be called by any thread at any time, and by a signal handler. */
SMOL_API void smol_context_cancel(smol_context *context, int cancel);

/* Number of tokens in the sequence. */
SMOL_API size_t smol_context_length(const smol_context *context);

/* Ids of the sequence, (*n); owned by the context, valid until the next call on it. */
SMOL_API const uint32_t *smol_context_ids(const smol_context *context, size_t *n);

/* Most tokens that the sequence can have. */
SMOL_API size_t smol_context_capacity(const smol_context *context);

/* Removes all but the first `n` tokens. Does nothing if there are no more than n. In a model with
 * sliding windows, keys and values that are needed for the n tokens may have been freed; the next
 * evaluation then evaluates some or all of them again first. It keeps those for the last 256
 * lengths and for where the newest prompt of smol_generate begins and ends. */
SMOL_API void smol_context_truncate(smol_context *context, size_t n);

/* Makes room for n_room more tokens, if there is not enough: keeps the first n_keep tokens and the
 * newest half of the others (or half of that, and so on, until there is room), and evaluates that
 * part again at its new positions, which takes as long as a prompt of the same length. Later
 * results are the same, to the bit, as in a new context with these ids. Errors: CONTEXT_FULL
 * (n_keep and n_room together exceed the capacity; nothing was changed), CANCELLED before it began
 * (nothing was changed); after other errors, those of smol_eval, the sequence is its first n_keep
 * tokens. */
SMOL_API smol_status smol_context_slide(smol_context *context, size_t n_keep, size_t n_room,
                                        smol_error *error);

/* The last token that smol_generate reported, if nothing else was evaluated since: it is not in the
 * sequence yet. SMOL_NO_TOKEN if there is none. */
SMOL_API uint32_t smol_context_pending(const smol_context *context);

typedef struct smol_context_info {
    uint32_t n_threads;
    const char *kv;     /* "f32", "f16", "int8" or "int4"; static */
    const char *isa;    /* the kernels in use: "scalar", "avx2", ...; static */
    size_t kv_bytes;    /* current size of the KV cache; contexts that use a block each count it */
    size_t state_bytes; /* other memory of the context; contexts that share each count it all */
    uint64_t reserved[4];
} smol_context_info;

SMOL_API smol_context_info smol_context_get_info(const smol_context *context);

/* --- common prefixes ---------------------------------------------------------------------- */

/* A cache of prefixes holds keys and values of token sequences in blocks of 64 tokens, for contexts
 * that name it in smol_context_params. smol_eval, smol_eval_many and smol_generate take the keys
 * and values of the first tokens of a sequence from the cache as far as it has them, and evaluate
 * the others; full blocks that they have evaluated enter the cache. Several contexts refer to one
 * block, which never changes: a context that is to continue within a block gets a copy. Logits are
 * the same to the bit, whatever the cache contains.
 *
 * A block is found by all token ids from the start of the sequence to its end, which are compared.
 * smol_embed evaluates all tokens but adds their blocks. What smol_context_restore has read is not
 * added, nor is what follows it, because the bytes may come from anyone. */

typedef struct smol_prefix_cache_params {
    size_t max_bytes; /* of all blocks in the cache, those that contexts use included */
    smol_kv kv;       /* the KV type of the contexts */
    uint64_t reserved[4];
} smol_prefix_cache_params;

/* Creates an empty cache. When there is no room for a block, those that no context uses are
 * evicted, the least recently used first; if all are in use, the new one remains its context's own.
 * Of layers with a sliding window, keys and values that windows have passed are evicted first.
 * The model must outlive the cache. Errors: USAGE (params: no room for a single block, a value of
 * `kv`), MEMORY. */
SMOL_API smol_status smol_prefix_cache_create(const smol_model *model,
                                              const smol_prefix_cache_params *params,
                                              smol_prefix_cache **cache, smol_error *error);

/* Frees a cache. All contexts that use it must have been freed. NULL is ignored. */
SMOL_API void smol_prefix_cache_free(smol_prefix_cache *cache);

typedef struct smol_prefix_cache_info {
    size_t bytes, max_bytes;
    size_t block_bytes;      /* of a whole one */
    size_t n_blocks, n_used; /* those in the cache, and those of them that contexts use */
    uint64_t n_reused;       /* tokens that were found in the cache, ever */
    uint64_t n_evicted;      /* blocks, ever */
    uint64_t reserved[4];
} smol_prefix_cache_info;

SMOL_API smol_prefix_cache_info smol_prefix_cache_get_info(smol_prefix_cache *cache);

/* Returns how many of the first tokens of ids[0..n) a new context of the group would take from the
 * cache now, instead of evaluating them. A program that decides whose prompt comes first can count
 * what is left to read; smol_generate evaluates the last token of a prompt in any case. */
SMOL_API size_t smol_prefix_cache_count(smol_prefix_cache *cache, uint64_t group,
                                        const uint32_t *ids, size_t n);

/* --- embeddings --------------------------------------------------------------------------- */

/* Which hidden states smol_embed returns. */
typedef enum smol_pooling {
    SMOL_POOL_NONE = 0, /* those of all tokens: (n, hidden_size) */
    SMOL_POOL_MEAN,     /* their mean, summed in double precision: (hidden_size) */
    SMOL_POOL_LAST,     /* that of the last token, which has seen all others: (hidden_size) */
    SMOL_POOL_FIRST,    /* that of the first token, an encoder's [CLS]: (hidden_size) */
    SMOL_POOL_MAX,      /* the largest value of each element: (hidden_size) */
    SMOL_POOL_MODEL,    /* as an embedding model's checkpoint says: (embedding_size); for other
                           models the mean, scaled to length 1: (hidden_size) */
} smol_pooling;

/* Appends ids[0..n), n > 0, to the sequence as smol_eval does, and computes hidden states after the
 * model's final norm instead of logits (last_hidden_state in transformers): `states`, of the shape
 * above. For independent texts, truncate the context to 0 in between. An encoder reads a whole
 * text at once, into an empty context. Errors: those of smol_eval, after which the contents of
 * `states` are undefined. */
SMOL_API smol_status smol_embed(smol_context *context, const uint32_t *ids, size_t n,
                                smol_pooling pooling, float *states, smol_error *error);

/* Calls smol_embed for parts as smol_eval_many calls smol_eval: parts[].logits receives the states,
 * and n_logits is 0. Each part gets the same bits as alone. Of a model whose layers have states
 * (docs/families.md), the call holds at most 256 MiB of them (but those of one text): contexts that
 * were empty give up theirs as others need room, and compute them again if their sequences go on.
 */
SMOL_API smol_status smol_embed_many(smol_eval_part *parts, size_t n_parts, smol_pooling pooling,
                                     smol_error *error);

/* Converts a query and a text to the ids whose embedding by SMOL_POOL_MODEL is their score: the
 * higher, the better the text answers the query. Special tokens in either are ordinary text. Pairs
 * of more than max_text tokens (smol_model_info) are cut as the reference cuts them: the longer one
 * of the two, at its end. The caller frees *ids, (*n), with smol_free. Errors: UNSUPPORTED (the
 * model is no reranker), MEMORY. */
SMOL_API smol_status smol_tokenize_pair(const smol_model *model, const char *query,
                                        size_t query_size, const char *text, size_t size,
                                        uint32_t **ids, size_t *n, smol_error *error);

/* --- chats -------------------------------------------------------------------------------- */

typedef struct smol_chat_message {
    const char *role;    /* terminated: "system", "developer", "user", "assistant", "tool",
                            "function", "ipython", or a role that the template names */
    const char *content; /* (size); ill-formed UTF-8 is read as U+FFFD */
    size_t size;
} smol_chat_message;

struct tm; /* <time.h> */

/* A conversation, with the arguments of apply_chat_template in transformers. JSON texts are
 * terminated UTF-8; NULL: none. */
typedef struct smol_chat_params {
    const smol_chat_message *messages; /* (n_messages) */
    size_t n_messages;
    const char *messages_json;  /* instead of `messages`: a list of objects */
    const char *tools_json;     /* a list of objects: JSON schemas of functions. If not NULL, a
                                   checkpoint's template "tool_use" is used where there is one, as in
                                   transformers. */
    const char *documents_json; /* a list of objects */
    const char *variables_json; /* an object: further variables of the template (enable_thinking),
                                   not those that the other parameters set */
    int add_generation_prompt;  /* 1: the text ends where the assistant's answer begins */
    const struct tm *now;       /* local date and time for strftime_now; NULL: the current time */
    /* NULL, or reports how many bytes of the rendered text smol_chat_tokenize has converted, as in
     * smol_tokenize_params. smol_chat_format does not call it. */
    smol_on_progress *on_progress;
    void *user;          /* passed to on_progress */
    int parse_arguments; /* 1: the arguments of tool calls that are texts, as in OpenAI's messages,
                            are read as JSON, which most templates expect: a text that was
                            cut off as {"INVALID_JSON": text}. They stay texts for a template
                            that fails otherwise */
    int continue_final_message; /* 1: the text ends with the content of the last message, so that
                                   what is generated continues it; without add_generation_prompt */
    uint64_t reserved[7];
} smol_chat_params;

typedef struct smol_chat_text {
    char *text; /* (size), and a terminating 0 */
    size_t size;
    /* (size): 1 for each byte that comes from the conversation, 0 for those of the template.
     * Numbers, lists and objects that the template prints count as the conversation's. */
    unsigned char *from_conversation;
    uint64_t reserved[2];
} smol_chat_text;

/* Renders a conversation with the model's chat template. Uses at most 64 MiB of memory and 33
 * million steps. The caller frees *text with smol_chat_text_free; it is all zeros after an error.
 * Errors: USAGE (invalid JSON; an unknown role; a conversation that the template rejects, with its
 * message), UNSUPPORTED (no template, or one that could not be compiled, with the reason; too much
 * memory or too many steps), MEMORY. */
SMOL_API smol_status smol_chat_format(const smol_model *model, const smol_chat_params *params,
                                      smol_chat_text *text, smol_error *error);

/* Returns 1 if the chat template reads a variable, such as enable_thinking, otherwise 0. */
SMOL_API int smol_chat_reads(const smol_model *model, const char *variable);

/* Frees the members of *text. NULL and a struct of zeros are ignored. */
SMOL_API void smol_chat_text_free(smol_chat_text *text);

/* Renders a conversation and converts it to token ids. A message cannot forge a turn: special
 * tokens, and other added tokens that the template writes, are recognized only where all of their
 * bytes are the template's; spelled out in the conversation they are ordinary text. The caller
 * frees *ids, (*n), with smol_free. Errors: those of smol_chat_format. */
SMOL_API smol_status smol_chat_tokenize(const smol_model *model, const smol_chat_params *params,
                                        uint32_t **ids, size_t *n, smol_error *error);

/* --- sampling ----------------------------------------------------------------------------- */

/* Adds a number to the logit of token `id`. */
typedef struct smol_logit_bias {
    uint32_t id;
    float bias; /* finite */
} smol_logit_bias;

/* Meaning and order are those of Hugging Face transformers: biases, repetition penalty,
 * temperature, top-k, top-p, min-p. The frequency and presence penalties, which follow the
 * repetition penalty, are OpenAI's. All zeros: greedy decoding. */
typedef struct smol_sampler_params {
    float temperature; /* >= 0; 0: greedy, the lowest id among equals */
    uint32_t top_k;    /* keep the k most likely tokens, and their equals; 0: all */
    float top_p;       /* 0..1: keep the smallest set with this probability; 0 or 1: all */
    float min_p;       /* 0..1: keep tokens with this share of the best's probability; 0: all */
    float repetition_penalty; /* >= 0: divides positive, multiplies negative logits; 0 or 1: none */
    uint64_t seed;
    /* Finite; subtracted from the logit of a token that has been generated: times the number of its
     * occurrences, and once. smol_generate counts generated tokens, smol_sample those of `history`.
     */
    float frequency_penalty, presence_penalty;
    const smol_logit_bias *logit_bias; /* (n_logit_bias); copied. Errors of smol_sample: USAGE (an
                                          id out of range) */
    size_t n_logit_bias;
    uint64_t reserved[1];
} smol_sampler_params;

typedef struct smol_sampler smol_sampler;

/* Creates a sampler. `params` may be NULL: greedy. Errors: USAGE (a parameter out of range, named),
 * MEMORY. */
SMOL_API smol_status smol_sampler_create(const smol_sampler_params *params, smol_sampler **sampler,
                                         smol_error *error);

/* NULL is ignored. */
SMOL_API void smol_sampler_free(smol_sampler *sampler);

/* Chooses a token from logits (n), n > 0. The repetition penalty applies to `history` (n_history),
 * normally the sequence so far. The k-th call on a sampler uses the k-th random number of its seed
 * (Philox4x32-10); greedy calls count, failed calls do not. Errors: NUMERIC (NaN or infinity in the
 * logits), USAGE (n 0), MEMORY. */
SMOL_API smol_status smol_sample(smol_sampler *sampler, const float *logits, size_t n,
                                 const uint32_t *history, size_t n_history, uint32_t *id,
                                 smol_error *error);

/* Does the same among the tokens of `mask`: bit i % 64 of mask[i / 64] is token i's. Their
 * probabilities are those of all tokens, renormalised; top-k, top-p and min-p apply after the mask.
 * Errors: also USAGE (an empty mask). */
SMOL_API smol_status smol_sample_masked(smol_sampler *sampler, const float *logits, size_t n,
                                        const uint64_t *mask, const uint32_t *history,
                                        size_t n_history, uint32_t *id, smol_error *error);

/* Biases remain the sampler's, until its parameters change. */
SMOL_API smol_sampler_params smol_sampler_get_params(const smol_sampler *sampler);

/* Changes the parameters. A new seed starts with its first random number; with the same seed the
 * sequence of numbers continues. Errors: USAGE, as in smol_sampler_create; nothing was changed. */
SMOL_API smol_status smol_sampler_set_params(smol_sampler *sampler,
                                             const smol_sampler_params *params, smol_error *error);

/* The sampling parameters that the model's authors recommend, from generation_config.json of its
 * checkpoint, with seed 0. Greedy unless do_sample is true there, as in transformers; a repetition
 * penalty applies in either case. Parameters that the file does not specify are off, but
 * temperature is 1. All zeros if it specifies nothing. */
SMOL_API smol_sampler_params smol_model_default_sampler(const smol_model *model);

/* --- structured output -------------------------------------------------------------------- */

/* A constraint is a set of texts: those valid for a JSON Schema, matched by a regular expression,
 * derived by a grammar, or listed. It may be shared by any number of threads. */
typedef struct smol_constraint smol_constraint;

typedef enum smol_constraint_kind {
    SMOL_CONSTRAINT_JSON_SCHEMA = 0, /* draft 2020-12, and what older drafts spell differently */
    SMOL_CONSTRAINT_REGEX,           /* the whole text must match */
    SMOL_CONSTRAINT_CHOICES,         /* one of the texts in a JSON list */
    SMOL_CONSTRAINT_GRAMMAR,         /* EBNF, or llama.cpp's GBNF; see docs/structured-output.md */
    SMOL_CONSTRAINT_TOOLS, /* calls of tools in a JSON list, as smol_chat_params.tools_json,
                              in the model's style */
} smol_constraint_kind;

typedef enum smol_json_space {
    SMOL_JSON_SPACED = 0, /* {"a": 1, "b": [2, 3]}, as most JSON that models have read */
    SMOL_JSON_COMPACT,    /* {"a":1,"b":[2,3]} */
    SMOL_JSON_INDENTED,   /* a member or element a line, two spaces a level */
} smol_json_space;

/* The reasoning that may come before the text of an answer: see "reasoning" below. */
typedef enum smol_reasoning {
    SMOL_REASONING_NONE = 0, /* no reasoning */
    SMOL_REASONING_POSSIBLE, /* reasoning, after its first marker */
    SMOL_REASONING_BEGUN,    /* reasoning, whose first marker the prompt has */
} smol_reasoning;

typedef struct smol_constraint_params {
    smol_constraint_kind kind;
    const char *text; /* (size): the schema, expression or grammar */
    size_t size;
    smol_json_space json_space; /* for JSON Schema */
    int any_order;              /* 1: properties in any order; 0: in the order of the schema */
    /* for tools, terminated: "auto", or NULL: text, calls, or text and then calls; "none": text;
     * "required": calls; or the name of the only tool that may be called, and must be */
    const char *tool_choice;
    int one_call; /* 1: at most one call */
    /* A smol_reasoning: the answer may be, or is, any reasoning up to its last marker, a little
     * white space, and then the text. Ignored if the model does not mark reasoning. */
    uint64_t reasoning;
    /* for tools, terminated: the JSON Schema of an answer that calls none; then no text comes
     * before calls. NULL: any text. Not for models whose calls may look like JSON. */
    const char *answer_schema;
    uint64_t reserved[1];
} smol_constraint_params;

/* Compiles a constraint for the model's tokenizer. The model must outlive it. Errors: USAGE (the
 * text is not JSON, or no schema; no such tool), UNSUPPORTED (not a regular expression or grammar;
 * a keyword that cannot be enforced exactly, by name; nothing satisfies the constraint; a limit;
 * the model has no known style of tool calls, or none that can be told from JSON). */
SMOL_API smol_status smol_constraint_create(const smol_model *model,
                                            const smol_constraint_params *params,
                                            smol_constraint **constraint, smol_error *error);

/* NULL is ignored. */
SMOL_API void smol_constraint_free(smol_constraint *constraint);

/* Returns a number that tells constraints apart: the same parameters give the same one everywhere.
 */
SMOL_API uint64_t smol_constraint_digest(const smol_constraint *constraint);

/* Returns the bytes of memory that the constraint takes. They grow while masks are found, to a few
 * hundred MiB at most: then it forgets what it found and begins anew. */
SMOL_API size_t smol_constraint_bytes(smol_constraint *constraint);

/* Follows one text through a constraint, token by token. For one thread at a time. */
typedef struct smol_matcher smol_matcher;

/* Creates a matcher at the start of a text. The constraint must outlive it. */
SMOL_API smol_status smol_matcher_create(smol_constraint *constraint, smol_matcher **matcher,
                                         smol_error *error);

/* Creates another one at the same place. */
SMOL_API smol_status smol_matcher_copy(const smol_matcher *matcher, smol_matcher **copy,
                                       smol_error *error);

/* NULL is ignored. */
SMOL_API void smol_matcher_free(smol_matcher *matcher);

/* Sets mask[0..(vocab_size + 63) / 64) to the tokens that may come next, as smol_sample_masked
 * reads them: those after which the text can still be completed, and the model's stop tokens if it
 * may end here. It is empty after a stop token. Errors: UNSUPPORTED (a limit of the constraint's
 * memory).
 */
SMOL_API smol_status smol_matcher_mask(smol_matcher *matcher, uint64_t *mask, smol_error *error);

/* Goes on to the text with token `id` appended. A stop token ends the text. Errors: USAGE (the
 * token may not come next; nothing was changed), UNSUPPORTED. */
SMOL_API smol_status smol_matcher_accept(smol_matcher *matcher, uint32_t id, smol_error *error);

/* Returns the tokens that were accepted, (*n), valid until the next call on the matcher. They are
 * its state: a new matcher that accepts them is at the same place, also in another process. */
SMOL_API const uint32_t *smol_matcher_ids(const smol_matcher *matcher, size_t *n);

/* Takes back the last n tokens, or all if there are fewer. */
SMOL_API void smol_matcher_rollback(smol_matcher *matcher, size_t n);

/* Writes to ids (capacity) the tokens of the text that must come next because nothing else may, and
 * their number to *n: they can be evaluated together. The last one may be left for the mask, where
 * another token could cover it too. The matcher does not move. */
SMOL_API smol_status smol_matcher_forced(smol_matcher *matcher, uint32_t *ids, size_t capacity,
                                         size_t *n, smol_error *error);

/* Returns 1 if the text may end here, otherwise 0. */
SMOL_API int smol_matcher_complete(smol_matcher *matcher);

/* --- tools -------------------------------------------------------------------------------- */

/* A conversation names its tools in smol_chat_params.tools_json. A constraint of kind
 * SMOL_CONSTRAINT_TOOLS makes the calls in the answer well-formed, and a reader separates them from
 * the text around them. How a model writes calls is its style, which smolconv finds in the chat
 * template. */

/* Returns the name of the style, such as "hermes", or NULL if none is known. Static. */
SMOL_API const char *smol_model_tool_style(const smol_model *model);

/* Reads an answer as it comes. For one thread at a time. */
typedef struct smol_tool_reader smol_tool_reader;

typedef enum smol_tool_part {
    SMOL_TOOL_TEXT = 0,  /* text that belongs to no call */
    SMOL_TOOL_CALL,      /* a call begins: the name of the tool */
    SMOL_TOOL_ARGUMENTS, /* the next piece of its arguments, a JSON object in all */
    SMOL_TOOL_CALL_END,  /* no text */
} smol_tool_part;

/* Receives text[0..size), a part of the answer, valid until the callback returns. White space
 * between text and calls is left out. Return 0 to continue, any other value to cancel. */
typedef int smol_on_tool_part(void *user, smol_tool_part part, const char *text, size_t size);

/* Creates a reader of one answer. `tools` is the terminated list that the conversation names; in
 * some styles it determines whether an argument such as 5 is a string. NULL: it is a number.
 * Errors: UNSUPPORTED (the model has no known style), USAGE (the list is not JSON, where it is
 * read). */
SMOL_API smol_status smol_tool_reader_create(const smol_model *model, const char *tools,
                                             smol_on_tool_part *on_part, void *user,
                                             smol_tool_reader **reader, smol_error *error);

/* Tells the reader, before the first text, that calls come first, as they do with an answer_schema:
 * in an answer that begins with other text, nothing is a call. */
SMOL_API void smol_tool_reader_calls_first(smol_tool_reader *reader);

/* Reads the next text[0..size) of the answer, generated with show_special. What is no call, though
 * it begins like one, is reported as text. Errors: CANCELLED (by the callback). */
SMOL_API smol_status smol_tool_reader_add(smol_tool_reader *reader, const char *text, size_t size,
                                          smol_error *error);

/* Ends the answer: reports what was held back because it might have begun a call, and ends a call
 * that was cut off. If its name is not complete, it is text, or after other calls left out.
 * Errors: CANCELLED. */
SMOL_API smol_status smol_tool_reader_end(smol_tool_reader *reader, smol_error *error);

/* NULL is ignored. */
SMOL_API void smol_tool_reader_free(smol_tool_reader *reader);

/* --- reasoning ---------------------------------------------------------------------------- */

/* Some models reason before they reply, between markers such as <think> and </think> or [THINK] and
 * [/THINK]. A model has those that its chat template or its vocabulary has. A reader separates the
 * reasoning of an answer from the reply as the answer comes. */

/* Sets *reasoning to how an answer to prompt[0..n) may begin, which the end of the prompt tells. If
 * the model has no markers, it is NONE. */
SMOL_API smol_status smol_reasoning_after(const smol_model *model, const uint32_t *prompt, size_t n,
                                          smol_reasoning *reasoning, smol_error *error);

/* Reads an answer. For one thread at a time. */
typedef struct smol_reasoning_reader smol_reasoning_reader;

/* The new part of an answer: first reasoning, then reply. UTF-8, valid until the next call on the
 * reader. */
typedef struct smol_reasoning_parts {
    const char *reasoning; /* (n_reasoning) */
    size_t n_reasoning;
    const char *reply; /* (n_reply) */
    size_t n_reply;
    size_t n_tokens; /* tokens of all the reasoning so far, with those of its markers */
    size_t n_held;   /* bytes at the end that may begin a marker or be left out: not known yet */
    uint64_t reserved[2];
} smol_reasoning_parts;

/* The texts that a reply may have. */
typedef enum smol_reply {
    SMOL_REPLY_FREE = 0,     /* any text */
    SMOL_REPLY_TOOLS,        /* SMOL_CONSTRAINT_TOOLS: a call of a tool ends the reasoning too */
    SMOL_REPLY_CONSTRAINED,  /* another constraint: all that it allows, <answer> included */
    SMOL_REPLY_TOOLS_SCHEMA, /* SMOL_CONSTRAINT_TOOLS with an answer_schema: both */
} smol_reply;

/* Creates a reader of the answer to prompt[0..n), whose end tells whether the reasoning has begun
 * there, or has ended there: then all of the answer is reply. If it has done neither, there is
 * reasoning only if the answer begins with its marker. *reader is NULL if the model has no markers.
 */
SMOL_API smol_status smol_reasoning_reader_create(const smol_model *model, const uint32_t *prompt,
                                                  size_t n, smol_reply reply,
                                                  smol_reasoning_reader **reader,
                                                  smol_error *error);

/* Reads the next text[0..size) of the answer and the token that it came with, as smol_on_text
 * receives them, generated with show_special 2 (or 1), for the model, which must still be open.
 * Markers are left out, and the white space around the reasoning; so are <answer> or <response>
 * around the reply, if the template has them (SMOL_REPLY_CONSTRAINED and SMOL_REPLY_TOOLS_SCHEMA:
 * not these, and reasoning follows no white space). Reasoning whose end is missing is reasoning to
 * the end of the answer. */
SMOL_API smol_status smol_reasoning_reader_add(smol_reasoning_reader *reader, const char *text,
                                               size_t size, uint32_t id,
                                               smol_reasoning_parts *parts, smol_error *error);

/* Ends the answer: what was held back because it might have begun a marker. */
SMOL_API smol_status smol_reasoning_reader_end(smol_reasoning_reader *reader,
                                               smol_reasoning_parts *parts, smol_error *error);

/* NULL is ignored. */
SMOL_API void smol_reasoning_reader_free(smol_reasoning_reader *reader);

/* Ends the reasoning of one answer after some tokens. For one generation, and those that go on with
 * the same answer. */
typedef struct smol_reasoning_limit smol_reasoning_limit;

/* Creates the limit of an answer to prompt[0..n), with `reply` as for a reader: after `most`
 * tokens between the markers, those of the last marker follow as if nothing else could. A character
 * or a marker that has begun is completed. *limit is NULL if the model has no markers. */
SMOL_API smol_status smol_reasoning_limit_create(const smol_model *model, const uint32_t *prompt,
                                                 size_t n, smol_reply reply, size_t most,
                                                 smol_reasoning_limit **limit, smol_error *error);

/* NULL is ignored. */
SMOL_API void smol_reasoning_limit_free(smol_reasoning_limit *limit);

/* --- generation --------------------------------------------------------------------------- */

typedef enum smol_finish {
    SMOL_FINISH_STOP = 0,     /* a stop token or stop string, or the end of a matcher's text */
    SMOL_FINISH_LENGTH,       /* max_tokens were generated */
    SMOL_FINISH_CONTEXT_FULL, /* no room for another token */
    SMOL_FINISH_CANCELLED,    /* by a callback or smol_context_cancel */
} smol_finish;

/* Receives text as it is generated: text[0..size), whole UTF-8 characters (ill-formed sequences as
 * U+FFFD), never part of a stop string; valid until the callback returns. Not every token produces
 * text, so size may be 0. `id` is the newest token, or SMOL_NO_TOKEN in a last call with text that
 * was held back. Stop tokens are not reported. Return 0 to continue, any other value to cancel.
 * The callback may read the context, save it with its sampler (a later generation continues after
 * `id`), and cancel it; it must not otherwise change or free either. */
typedef int smol_on_text(void *user, const char *text, size_t size, uint32_t id);

/* Receives each token as it is chosen, before its text is reported, and the logits (n) it was
 * chosen from, as the model computed them; valid until the callback returns. A token that had to
 * follow, because a matcher allowed nothing else, has no logits: NULL, n 0. It may do the same as
 * smol_on_text. With `all_tokens`, it also receives the tokens of the prompt, each with the logits
 * after the one before it: the first has none. While it receives these, it may only cancel. */
typedef void smol_on_token(void *user, uint32_t id, const float *logits, size_t n);

typedef struct smol_generate_params {
    size_t max_tokens; /* 0: until the model stops or the context is full */
    int prompt_only;   /* 1: evaluates the prompt and generates nothing: SMOL_FINISH_LENGTH */
    /* (n_stop) terminated texts, UTF-8, not empty. Any of them ends the generation, whatever tokens
     * it is spread over, and is not reported: the first that is complete, the longest of several.
     */
    const char *const *stop;
    size_t n_stop;
    int show_special;     /* 1: also reports the text of special tokens; 2: only of those that are
                             markers of reasoning */
    int slide;            /* 1: a full context slides (smol_context_slide) instead of ending the
                             generation, and to make room for the prompt */
    size_t n_keep;        /* with `slide`: tokens at the start of the context that are kept */
    int penalize_context; /* 1: the repetition penalty applies to the context before the prompt too;
                             0: to the prompt and the output */
    smol_on_text *on_text;   /* may be NULL */
    smol_on_token *on_token; /* may be NULL */
    void *user;              /* passed to on_text and on_token */
    smol_matcher *matcher;   /* may be NULL; constrains the output, and accepts its tokens, without
                                a stop token. Of a constraint for this model; it must outlive the
                                generation. The text is then exactly what the matcher accepts, also
                                where the tokenizer omits a first blank */
    /* 1: smol_generation_step evaluates a slice of the prompt even if nothing else is generated, so
     * that others may join soon; 0: then the whole prompt. A slice has at most 128 tokens, or about
     * two for each other generation that decodes. */
    uint64_t slice_prompt;
    /* 1: tokens that followed where the newest ones occurred before are evaluated with them, as
     * guesses. The output is the same, to the bit; text that repeats takes fewer passes. Takes
     * memory for 15 more rows of logits. */
    uint64_t lookup;
    /* 1: on_token also receives the tokens of the prompt, and a stop token that is chosen. Then
     * nothing of the prompt is taken from a cache of prefixes, and it is read in passes of at most
     * 16 tokens. Takes memory for 15 more rows of logits. */
    uint64_t all_tokens;
    smol_reasoning_limit *reasoning_limit; /* may be NULL; it must outlive the generation */
    /* 1: the text begins anew, as an answer in a conversation does: a tokenizer that omits a blank
     * at the start of a text omits it. 0: it continues that of the sequence, as always with n 0. */
    uint64_t new_text;
    uint64_t reserved[2];
} smol_generate_params;

typedef struct smol_generate_result {
    smol_finish finish;
    size_t n_prompt;            /* tokens of the prompt */
    size_t n_generated;         /* tokens generated, without a stop token */
    double prompt_seconds;      /* wall time: until the prompt was evaluated, */
    double first_token_seconds; /* until the first token was chosen, */
    double decode_seconds;      /* from then to the last token */
    size_t n_slides;            /* how often the context slid after the prompt */
    double slide_seconds;       /* time for that, included in decode_seconds */
    uint64_t n_reused; /* tokens of the prompt that were in a cache of prefixes: not evaluated */
    uint64_t n_guessed, n_guessed_right; /* with `lookup`: guesses that were evaluated */
    uint64_t stop_text; /* number of the text in params->stop that ended it, from 1; 0: none did */
    uint64_t reserved[4];
} smol_generate_result;

/* Appends prompt[0..n) to the context and generates. `params` may be NULL. *result (may be NULL) is
 * set after errors too, to how far the generation came.
 *
 * Afterwards the generated tokens are in the context, except the last one if no stop token
 * followed: see smol_context_pending. With n 0, the generation continues where the sequence ends:
 * the pending token, or if there is none the last token of the sequence, is evaluated again as the
 * prompt.
 *
 * The repetition penalty applies to the prompt and the output (see penalize_context); after the
 * context has slid, to its contents. A full context ends the generation with
 * SMOL_FINISH_CONTEXT_FULL unless params->slide is set; a prompt that does not fit is an error.
 * Cancellation is not an error but SMOL_FINISH_CANCELLED; if it occurs in the prompt, the context
 * is as before (or as smol_context_slide left it) and result->n_prompt is 0.
 *
 * Errors: USAGE (params: an empty stop string, n_keep not below the capacity; n 0 with an empty
 * sequence), those of smol_eval and smol_sample. */
SMOL_API smol_status smol_generate(smol_context *context, smol_sampler *sampler,
                                   const uint32_t *prompt, size_t n,
                                   const smol_generate_params *params, smol_generate_result *result,
                                   smol_error *error);

/* A generation that runs step by step, so that several sequences generate together: each step
 * evaluates them in one pass (see smol_eval_many), and generations may join and leave between
 * steps. Each produces the same as smol_generate, to the bit. */
typedef struct smol_generation smol_generation;

/* Prepares a generation, with the arguments of smol_generate, n > 0. Nothing is evaluated yet. The
 * arguments are copied, except context, sampler and params->user, which must outlive the
 * generation. No other call may change the context from the first step until the generation has
 * finished. Errors: USAGE (params, n 0), MEMORY. */
SMOL_API smol_status smol_generation_create(smol_context *context, smol_sampler *sampler,
                                            const uint32_t *prompt, size_t n,
                                            const smol_generate_params *params,
                                            smol_generation **generation, smol_error *error);

/* NULL is ignored. */
SMOL_API void smol_generation_free(smol_generation *generation);

/* Runs one step of generations[0..n), whose contexts share and differ: each one that is generating
 * gets its next token, and as many tokens of prompts are evaluated as fit into the same pass. With
 * others, or slice_prompt, one whose matcher needs long to find what may follow gets none: the work
 * continues in the next steps, a few milliseconds in each.
 * A sampler may be shared: it chooses for one after the other, those that decode first. A matcher
 * is for one generation. With a cache of prefixes, a prompt waits while one before it reads a block
 * that both begin with. Finished ones are skipped. One that fails has finished; the others
 * continue. */
SMOL_API void smol_generation_step(smol_generation *const *generations, size_t n);

/* Returns 1 if the generation has finished, otherwise 0. *result (may be NULL) is set to how far it
 * has come, *error (may be NULL) to the error that it failed with, or SMOL_OK. */
SMOL_API int smol_generation_finished(const smol_generation *generation,
                                      smol_generate_result *result, smol_error *error);

/* --- sessions ----------------------------------------------------------------------------- */

/* Most bytes of a caller's data in a session: 64 MiB. */
#define SMOL_SESSION_MAX_DATA 67108864

/* State that is saved and restored with a context. */
typedef struct smol_session {
    smol_sampler *sampler; /* its parameters and its place in the random numbers; NULL: none */
    void *data;            /* (size): any data of the caller's, or NULL */
    size_t size;           /* at most SMOL_SESSION_MAX_DATA */
    uint64_t reserved[4];
} smol_session;

/* Receives data[0..size), which continues the previous call's. Return 0 to continue, any other
 * value to end the call with SMOL_ERROR_FILE. */
typedef int smol_on_write(void *user, const void *data, size_t size);

/* Provides the next bytes: data[0..*n), at most `size`; *n is 0 only at the end. Return 0 to
 * continue, any other value to end the call with SMOL_ERROR_FILE. */
typedef int smol_on_read(void *user, void *data, size_t size, size_t *n);

/* Writes the sequence, its keys and values, and *session (may be NULL) in the format of
 * format/SESSION.md. The same state gives the same bytes. Errors: USAGE (too much data; a sampler
 * with biases, a frequency or a presence penalty, which a session does not hold), NUMERIC
 * (NaN or infinity in the cache, which the next smol_eval would report), FILE (from the callback),
 * MEMORY. */
SMOL_API smol_status smol_context_save(const smol_context *context, const smol_session *session,
                                       smol_on_write *write, void *user, smol_error *error);

/* Replaces the contents of the context by those that were saved: later results are the same, to the
 * bit, as without interruption, on any machine and with any number of threads. The bytes may be
 * untrusted. If session is not NULL, the data is stored in *session, to be freed with smol_free,
 * and a saved sampler's state in *session->sampler, unless that is NULL. After an error the context
 * is empty, the sampler is unchanged, and there is no data. Errors: DAMAGED (damaged, or not a
 * session), UNSUPPORTED (of another version, blob or KV type), CONTEXT_FULL (longer than the
 * context's capacity), FILE (from the callback), MEMORY. */
SMOL_API smol_status smol_context_restore(smol_context *context, smol_session *session,
                                          smol_on_read *read, void *user, smol_error *error);

/* smol_context_save into memory: the caller frees *bytes, (*size), with smol_free. */
SMOL_API smol_status smol_context_save_memory(const smol_context *context,
                                              const smol_session *session, void **bytes,
                                              size_t *size, smol_error *error);

/* smol_context_restore from bytes[0..size). */
SMOL_API smol_status smol_context_restore_memory(smol_context *context, smol_session *session,
                                                 const void *bytes, size_t size, smol_error *error);

/* --- calibration -------------------------------------------------------------------------- */

/* Reads the bytes at `offset` of a file: data[0..*n), at most `size`; fewer only at the end of the
 * file. Return 0 to continue, any other value to end the call with SMOL_ERROR_FILE. */
typedef int smol_on_read_at(void *user, uint64_t offset, void *data, size_t size, size_t *n);

/* Writes data[0..size) at `offset` of a file. Return 0 or another value as from smol_on_read_at. */
typedef int smol_on_write_at(void *user, uint64_t offset, const void *data, size_t size);

typedef struct smol_calibrate_params {
    int diagonal;     /* 1: only the diagonals of the Gram matrices */
    size_t max_bytes; /* of memory for sums, or one matrix if that is larger; 0: 1 GiB */
    smol_on_write_at *write;
    smol_on_read_at *read;         /* NULL, or of the same file, which an earlier call has begun */
    smol_on_progress *on_progress; /* NULL, or reports evaluated tokens, about every 128 */
    void *user;                    /* passed to the callbacks */
    uint64_t reserved[8];
} smol_calibrate_params;

/* Evaluates sequences of tokens, `ids`, each from an empty context, and writes statistics of the
 * inputs of all matrices in the format of format/STATS.md, from which smolconv quantizes a model
 * better than without. windows (n_windows) are the lengths of the sequences. The model must have
 * f32 or bf16 weights. *size (may be NULL) is set to the size of the file.
 *
 * If the sums of all matrices exceed max_bytes, the text is evaluated several times. What `read`
 * provides is checked, and only what is missing is computed. The same model and tokens give the
 * same bytes on any machine, for any number of threads. Afterwards the context is empty. Errors:
 * USAGE (params, a window longer than the context, no tokens), UNSUPPORTED (other weights), FILE
 * (from a callback), CANCELLED, NUMERIC, DAMAGED, MEMORY. */
SMOL_API smol_status smol_calibrate(smol_context *context, const uint32_t *ids,
                                    const uint32_t *windows, size_t n_windows,
                                    const smol_calibrate_params *params, uint64_t *size,
                                    smol_error *error);

#ifdef __cplusplus
}
#endif

#endif
