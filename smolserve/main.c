/* smolserve FILE.smol...: serves models over HTTP. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli/print.h"
#include "cli/request/reasoning.h"
#include "cli/sandbox.h"
#include "cli/standard.h"
#include "smolserve/http.h"
#include "smolserve/models.h"

/* --- the command line ------------------------------------------------------------------------- */

#define FIELD(name) offsetof(struct serve_settings, name)

static const struct option_rule rules[] = {
    {"host", 0, "HOST", "listen on this address (127.0.0.1)", OPTION_TEXT, FIELD(host), 0, 0, NULL},
    {"port", 0, "PORT", "listen on this port; 0: any (8080)", OPTION_COUNT, FIELD(port), 0, 65535,
     NULL},
    {"unix", 0, "PATH", "listen on a Unix socket instead, for its owner only", OPTION_TEXT,
     FIELD(unix_path), 0, 0, NULL},
    {"server-name", 0, "NAME", "a name of this server, in Host headers; may be repeated",
     OPTION_TEXTS, FIELD(server_names), 0, 0, NULL},
    {"api-keys", 0, "FILE", "answer only with a key in FILE (see below)", OPTION_TEXT,
     FIELD(api_keys), 0, 0, NULL},
    {"sequences", 0, "N", "generate N answers of a model at a time (32)", OPTION_COUNT,
     FIELD(n_sequences), 1, SERVE_MAX_SEQUENCES, NULL},
    {"queue", 0, "N", "let N further requests wait, and refuse more (256)", OPTION_COUNT,
     FIELD(n_queued), 1, 65536, NULL},
    {"timeout", 0, "SECONDS", "end a request after this time, waiting included (600)", OPTION_COUNT,
     FIELD(timeout), 1, 86400, NULL},
    {"max-body", 0, "SIZE", "refuse longer requests (4MiB)", OPTION_SIZE, FIELD(max_body), 1, 0,
     NULL},
    {"connections", 0, "N", "keep at most N connections (1024)", OPTION_COUNT, FIELD(n_connections),
     1, 65536, NULL},
    {"cache-memory", 0, "SIZE",
     "keep keys and values of prompts, SIZE for each model; 0: none (128MiB)", OPTION_SIZE,
     FIELD(cache_memory), 0, 0, NULL},
    {"share-cache", 0, "", "let the keys of --api-keys share that cache (see below)", OPTION_FLAG,
     FIELD(share_cache), 0, 0, NULL},
    {"lookup", 0, "", "guess tokens from earlier text: faster where it repeats, same output",
     OPTION_FLAG, FIELD(lookup), 0, 0, NULL},
    {"model-defaults", 0, "", "sample as the model's authors recommend, unless a request differs",
     OPTION_FLAG, FIELD(model_defaults), 0, 0, NULL},
    {"reasoning-format", 0, "FORMAT",
     "separate reasoning from replies (`auto`), or leave it there (`none`) (auto)", OPTION_CHOICE,
     FIELD(reasoning), 0, 0, smol_reasoning_words},
    {"reasoning-budget", 0, "N",
     "end reasoning after N tokens, unless a request differs; -1: never (-1)", OPTION_LIMIT,
     FIELD(reasoning_budget), 0, 0, NULL},
    {"log", 0, "", "print a line for each request, without its content", OPTION_FLAG, FIELD(log), 0,
     0, NULL},
    {"ctx", 0, "N", "room for N tokens of prompt and output (the model's)", OPTION_COUNT,
     FIELD(context.n_ctx), 1, UINT32_MAX, NULL},
    {"threads", 0, "N", "threads of each model (one per available processor)", OPTION_COUNT,
     FIELD(context.n_threads), 1, 256, NULL},
    {"kv", 0, "TYPE", "KV cache: f32, f16, int8 or int4 (f32 for f32 blobs, otherwise f16)",
     OPTION_CHOICE, FIELD(context.kv), SMOL_KV_F32, 0, smol_kv_words},
    {"verify", 0, "WHEN", "check the blobs' digests at `first` use, at `open`, or `off` (first)",
     OPTION_CHOICE, FIELD(open.verify), SMOL_VERIFY_FIRST, 0, smol_verify_words},
    {"no-mmap", 0, "", "read the blobs into memory instead of mapping them", OPTION_FLAG,
     FIELD(open.no_mmap), 0, 0, NULL},
    {"sandbox", 0, "WHEN", "drop rights: `require` it, `on` as far as possible, or `off` (on)",
     OPTION_CHOICE, FIELD(sandbox_mode), 1, 0, smol_sandbox_words},
};

static const struct command_line command = {
    .program = "smolserve",
    .words = "FILE.smol...",
    .about = "Serves models over HTTP with the interfaces of OpenAI and Anthropic, which many\n"
             "programs use. A model's name is its file's, without .smol. Answers are generated\n"
             "together, and each has the same bits as if its request were the only one.\n"
             "Prints `listening on http://HOST:PORT` when it is ready.\n",
    .notes =
        "POST /v1/chat/completions, /v1/completions, /v1/responses and, in Anthropic's form,\n"
        "/v1/messages answer, whole or streamed; POST /v1/embeddings makes embeddings,\n"
        "/v1/rerank scores documents, /tokenize and /detokenize convert text to tokens and back.\n"
        "GET /v1/models lists the models, GET /health says whether requests are accepted, GET\n"
        "/metrics has counters for Prometheus. A member of a request that is unknown or not\n"
        "supported is an error.\n\n"
        "A line of the file of --api-keys is NAME KEY or NAME KEY LIMIT: who may send requests,\n"
        "and how many at a time. Clients send Authorization: Bearer KEY, or x-api-key: KEY. If\n"
        "requests wait, those go first whose keys have the fewest in progress.\n\n"
        "If a prompt begins like an earlier one, for instance with the same system prompt, the\n"
        "keys and values of that beginning are not computed again, which changes no answer. The\n"
        "time until an answer could tell a client what another has sent, so each API key has a\n"
        "cache of its own, unless --share-cache is given. Without --api-keys all clients share.\n\n"
        "A request whose Host header is neither an address, nor localhost, nor a --server-name\n"
        "is refused, so that no web site can reach the server through a visitor's browser.\n"
        "A proxy in front of the server should add TLS.\n\n"
        "To replace a blob, rename another one over it: new requests get the new model, those in\n"
        "progress finish with the old one. If the new one is damaged, the old one stays.\n\n"
        "SIGTERM or SIGINT lets requests in progress finish; a second one ends at once.\n\n"
        "Exit status: 0 success, 2 wrong usage, 3 a file is missing or unreadable, or the address\n"
        "is not available, 4 a damaged blob, 5 not supported, 6 out of memory.\n",
    .min_words = 1,
    .max_words = OPTION_MAX_TEXTS,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

/* --- the start -------------------------------------------------------------------------------- */

/* The files and the socket, opened before the sandbox. */
struct opened {
    int models[OPTION_MAX_TEXTS];
    struct input keys;
    struct server_socket listener;
};

static smol_status open_files(const struct serve_settings *settings, struct opened *opened,
                              int *watcher, smol_error *error)
{
    for (size_t i = 0; i < settings->files.n; i++) {
        opened->models[i] = open(settings->files.items[i], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (opened->models[i] < 0)
            return smol_fail_errno(error, settings->files.items[i], "open");
    }
    smol_status status = smol_watcher_start(&settings->files, opened->models, watcher, error);
    if (!status && settings->api_keys)
        status = smol_input_open(settings->api_keys, &opened->keys, error);
    return status;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void wait_for_signal(struct server *server, const sigset_t *signals)
{
    const struct timespec pause = {.tv_nsec = 500 * 1000 * 1000};
    while (sigtimedwait(signals, NULL, &pause) < 0) {
        size_t index;
        int fd;
        smol_connections_sweep(&server->connections);
        while (smol_watcher_next(server->watcher, &index, &fd))
            smol_models_replace(&server->models, index, fd);
        smol_models_sweep(&server->models);
    }
}

/* Waits until no request is in progress. Another signal ends the process. */
static void drain(struct server *server, const struct server_socket *listener,
                  const sigset_t *signals)
{
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    atomic_store(&server->state, SERVER_DRAINING);
    smol_http_drain(server, listener);
    pthread_sigmask(SIG_UNBLOCK, signals, NULL);
    while (atomic_load(&server->n_jobs) > 0) {
        nanosleep(&pause, NULL);
        smol_connections_sweep(&server->connections);
    }
}

static smol_status serve(struct server *server, struct opened *opened, const sigset_t *signals,
                         smol_error *error)
{
    smol_status status = SMOL_OK;
    if (server->settings->api_keys)
        status = smol_keys_read(&opened->keys, &server->keys, error);
    if (!status)
        status = smol_preparers_start(&server->preparers, error);
    if (!status)
        status = smol_http_start(server, opened->listener.fd, error);
    if (!status)
        status = smol_models_load(&server->models, opened->models, error);
    if (status)
        return status == SMOL_ERROR_CANCELLED ? SMOL_OK : status; /* by a signal */
    atomic_store(&server->state, SERVER_READY);
    printf("listening on %s\n", opened->listener.address);
    status = smol_standard_flush(error);
    if (status)
        return status;
    wait_for_signal(server, signals);
    drain(server, &opened->listener, signals);
    return SMOL_OK;
}

static smol_status run(const struct serve_settings *settings, smol_error *error)
{
    struct opened opened = {.keys.fd = -1};
    struct server server = {.settings = settings};
    sigset_t signals;
    smol_status status = open_files(settings, &opened, &server.watcher, error);
    if (!status)
        status = smol_listen(settings, &opened.listener, error);
    server.statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    tzset(); /* for chat templates; the sandbox does not allow reading the time zone later */
    if (!status)
        status = smol_sandbox_start("smolserve", settings->sandbox_mode, NULL, SANDBOX_SERVER,
                                    &(struct sandbox){0}, error);
    if (status)
        return status;
    sigemptyset(&signals); /* blocked in all threads: the main thread waits for them */
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    smol_connections_init(&server.connections, settings->n_connections);
    smol_models_init(&server.models, &server);
    status = serve(&server, &opened, &signals, error);
    smol_http_stop(&server);
    smol_preparers_stop(&server.preparers);
    smol_models_stop(&server.models);
    smol_keys_free(&server.keys);
    smol_connections_destroy(&server.connections);
    return status;
}

/* Raises the limit of open files to what the connections need, if the system permits it. */
static smol_status raise_limit(const struct serve_settings *settings, smol_error *error)
{
    enum { OTHER_FILES = 256 };
    const rlim_t needed = (rlim_t)settings->n_connections + OTHER_FILES;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= needed)
        return SMOL_OK;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
    if (limit.rlim_cur == needed && setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_USAGE,
                     "--connections %u: needs %llu open files, but the limit is %llu: raise it "
                     "(ulimit -n), or allow fewer connections",
                     settings->n_connections, (unsigned long long)needed,
                     (unsigned long long)before);
}

int main(int argc, char **argv)
{
    struct serve_settings settings = {.host = "127.0.0.1",
                                      .port = 8080,
                                      .reasoning_budget = SIZE_MAX,
                                      .n_sequences = 32,
                                      .n_queued = 256,
                                      .timeout = 600,
                                      .max_body = 4 << 20,
                                      .cache_memory = 128 << 20,
                                      .n_connections = 1024};
    const char *words[OPTION_MAX_TEXTS];
    smol_error error;
    bool shown;
    smol_standard_reserve();
    signal(SIGPIPE, SIG_IGN);
    smol_guard_mappings();
    smol_status status = smol_options_parse(&command, argc, argv, &settings, words, &shown, &error);
    if (!status && shown)
        status = smol_standard_flush(&error);
    for (size_t i = 0; i < OPTION_MAX_TEXTS && !status && words[i]; i++)
        settings.files.items[settings.files.n++] = words[i];
    if (!status && !shown)
        status = raise_limit(&settings, &error);
    if (!status && !shown)
        status = run(&settings, &error);
    return smol_exit_status("smolserve", status, &error);
}
