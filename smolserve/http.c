/* HTTP, see http.h. One thread serves all connections. A request whose answer takes time is a job:
 * its connection is suspended, and the job's threads resume it when there is something to send. */
#include "smolserve/http.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "cli/standard.h"
#include "common/clock.h"
#include "smolserve/access.h"
#include "smolserve/completion.h"
#include "smolserve/job.h"

enum {
    HEADERS_MAX = 16 << 10, /* bytes of a request's line and headers */
    DISCARDED_BODIES = 4,   /* of a refused request, as many times the largest body are read */
};

static const struct endpoint *const endpoints[] = {
    &smol_endpoint_chat,     &smol_endpoint_completions,  &smol_endpoint_responses,
    &smol_endpoint_messages, &smol_endpoint_count_tokens, &smol_endpoint_embeddings,
    &smol_endpoint_rerank,   &smol_endpoint_tokenize,     &smol_endpoint_detokenize,
};

/* A request, from its headers until its answer has been sent. */
struct exchange {
    struct server *server;
    struct MHD_Connection *connection;
    struct watched *watched; /* or NULL */
    const struct endpoint *endpoint;
    const struct page *page;
    const char *method;
    char url[300];
    size_t client;          /* number of the key, 0: none */
    struct refusal refusal; /* once it is known */
    struct buffer body;
    size_t n_body; /* bytes received */
    struct job *job;
    unsigned http; /* status of the answer, 0: none yet */
    /* of a streamed answer */
    struct buffer out; /* events, of which `sent` bytes have been sent */
    size_t sent;
    bool done;
};

/* --- answers ---------------------------------------------------------------------------------- */

static const char *header(const struct exchange *e, const char *name)
{
    return MHD_lookup_connection_value(e->connection, MHD_HEADER_KIND, name);
}

/* The chat page runs only its own scripts, asks only this server, is no part of other pages, and
 * never makes elements of text. */
static void add_page_headers(struct MHD_Response *response)
{
    MHD_add_response_header(
        response, "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cross-Origin-Opener-Policy", "same-origin");
}

/* Queues a response, and lets it go. */
static enum MHD_Result queue(struct exchange *e, unsigned http, const char *type,
                             struct MHD_Response *response)
{
    if (!response)
        return MHD_NO;
    e->http = http;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (e->page && e->page->file)
        add_page_headers(response);
    if (http == 401)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (http == 405)
        MHD_add_response_header(response, "Allow", e->page ? "GET, HEAD" : "POST");
    if (http == 429 || http == 503)
        MHD_add_response_header(response, "Retry-After", "1");
    enum MHD_Result result = MHD_queue_response(e->connection, http, response);
    MHD_destroy_response(response);
    smol_metrics_status(&e->server->metrics, http);
    return result;
}

/* Queues a text, which it frees. */
static enum MHD_Result queue_text(struct exchange *e, unsigned http, const char *type,
                                  struct buffer *text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(text->size, text->text, MHD_RESPMEM_MUST_FREE);
    if (!response)
        free(text->text);
    *text = (struct buffer){0};
    return queue(e, http, type, response);
}

/* Queues what was held. */
static enum MHD_Result queue_held(struct exchange *e, unsigned http, const char *type,
                                  struct held_output *held)
{
    struct buffer text;
    if (smol_held_take(held, &text, NULL))
        return MHD_NO; /* out of memory: the connection is closed */
    return queue_text(e, http, type, &text);
}

static enum MHD_Result queue_refusal(struct exchange *e, const struct refusal *refusal)
{
    struct held_output held;
    if (smol_held_start(&held, NULL))
        return MHD_NO;
    struct json_out json = {.file = held.file};
    if (e->endpoint && e->endpoint->write_refusal)
        e->endpoint->write_refusal(refusal, &json);
    else
        smol_refusal_write(refusal, &json);
    fputc('\n', held.file);
    return queue_held(e, refusal->http, "application/json", &held);
}

static enum MHD_Result queue_page(struct exchange *e)
{
    struct held_output held;
    if (e->page->file)
        return queue(e, 200, e->page->type,
                     MHD_create_response_from_buffer(*e->page->file_size,
                                                     (void *)(uintptr_t)e->page->file,
                                                     MHD_RESPMEM_PERSISTENT));
    if (smol_held_start(&held, NULL))
        return MHD_NO;
    unsigned http = e->page->write(e->server, e->url, held.file, &e->refusal);
    if (http)
        return queue_held(e, http, e->page->type, &held);
    smol_held_drop(&held);
    return queue_refusal(e, &e->refusal);
}

/* --- streams ---------------------------------------------------------------------------------- */

/* Writes what ends a stream: an error, or that it is complete. */
static void write_end(struct exchange *e, FILE *out)
{
    const struct refusal *refusal = &e->job->refusal;
    if (!refusal->http) {
        e->endpoint->write_end(e->job, out);
    } else if (e->endpoint->write_error) {
        e->endpoint->write_error(e->job, out, refusal);
    } else {
        struct event event = smol_event_begin(out);
        smol_refusal_write(refusal, &event.json);
        smol_event_end(&event);
    }
}

/* Makes events of what is new, or of a part of it if that is much. Returns false if memory runs
 * out. */
static bool make_events(struct exchange *e, bool ended)
{
    struct held_output held;
    struct job *job = e->job;
    free(e->out.text);
    e->out = (struct buffer){0};
    e->sent = 0;
    if (smol_held_start(&held, NULL))
        return false;
    bool complete = smol_completion_events(job, held.file);
    pthread_mutex_lock(&job->lock);
    e->done = ended && !job->news;
    pthread_mutex_unlock(&job->lock);
    if (e->done)
        write_end(e, held.file);
    return smol_held_take(&held, &e->out, NULL) == SMOL_OK && complete;
}

/* Returns whether there is nothing to send yet; then the connection is suspended. *ended: the job
 * has ended. */
static bool must_wait(struct job *job, bool *ended)
{
    pthread_mutex_lock(&job->lock);
    *ended = job->ended;
    bool waits = !job->ended && !(job->stream && job->news);
    if (waits) {
        job->suspended = true;
        MHD_suspend_connection(job->connection);
    }
    job->news = false;
    pthread_mutex_unlock(&job->lock);
    return waits;
}

static ssize_t read_stream(void *user, uint64_t position, char *out, size_t size)
{
    struct exchange *e = user;
    (void)position;
    while (e->sent == e->out.size) {
        bool ended;
        if (e->done)
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (must_wait(e->job, &ended))
            return 0;
        if (!make_events(e, ended))
            return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t n = e->out.size - e->sent;
    n = n < size ? n : size;
    memcpy(out, e->out.text + e->sent, n);
    e->sent += n;
    return (ssize_t)n;
}

static enum MHD_Result queue_stream(struct exchange *e)
{
    enum { BLOCK = 4096 };
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, e, NULL);
    if (response)
        MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* for a proxy */
    return queue(e, 200, "text/event-stream", response);
}

/* Continues an exchange whose job has news. */
static enum MHD_Result answer_job(struct exchange *e)
{
    struct job *job = e->job;
    bool ended;
    if (must_wait(job, &ended))
        return MHD_YES;
    if (atomic_load(&job->gone))
        return MHD_NO;
    if (ended && job->refusal.http)
        return queue_refusal(e, &job->refusal);
    if (!job->stream)
        return queue_text(e, 200, "application/json", &job->answer);
    pthread_mutex_lock(&job->lock);
    job->news = true; /* for the first event */
    pthread_mutex_unlock(&job->lock);
    return queue_stream(e);
}

/* --- requests --------------------------------------------------------------------------------- */

/* Counts the job among those of its key, unless there are too many. */
static bool admit(struct exchange *e, struct job *job)
{
    if (!e->client)
        return true;
    struct key *key = &e->server->keys.items[e->client - 1];
    job->client = e->client;
    if (atomic_fetch_add(&key->n_jobs, 1) < key->limit || !key->limit)
        return true;
    atomic_fetch_sub(&key->n_jobs, 1);
    smol_refuse(&e->refusal, 429, "rate_limit_exceeded",
                "this key may have %u requests at a time: try again later", key->limit);
    return false;
}

static bool refuse_state(struct exchange *e)
{
    int state = atomic_load(&e->server->state);
    if (state != SERVER_READY)
        smol_refuse(&e->refusal, 503, state == SERVER_LOADING ? "loading" : "draining",
                    state == SERVER_LOADING ? "the models are being loaded: try again"
                                            : "the server is shutting down");
    return state != SERVER_READY;
}

/* Starts the job of a request that has arrived. The job is created before the state is checked:
 * drain() sets the state before it counts jobs, so it sees every job that was admitted. */
static enum MHD_Result start_job(struct exchange *e)
{
    struct job *job = smol_job_new(e->server, e->endpoint);
    if (!job)
        return MHD_NO;
    if (refuse_state(e) || !admit(e, job)) {
        smol_job_release(job);
        return queue_refusal(e, &e->refusal);
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(e->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    e->job = job;
    job->body = e->body;
    e->body = (struct buffer){0};
    job->connection = e->connection;
    job->fd = info ? info->connect_fd : -1;
    job->suspended = true;
    smol_connections_busy(&e->server->connections, e->watched,
                          e->server->settings->timeout + CONNECTION_SECONDS);
    MHD_suspend_connection(e->connection);
    smol_preparers_submit(&e->server->preparers, smol_job_hold(job));
    return MHD_YES;
}

/* Finds what the path asks for. */
static void find_route(struct exchange *e, const char *url)
{
    for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++) {
        const char *other = endpoints[i]->other_path;
        if (strcmp(url, endpoints[i]->path) == 0 || (other && strcmp(url, other) == 0))
            e->endpoint = endpoints[i];
    }
    e->page = smol_page_find(url);
    bool gets = strcmp(e->method, "GET") == 0 || strcmp(e->method, "HEAD") == 0;
    if (!e->endpoint && !e->page)
        smol_refuse(&e->refusal, 404, "unknown_url", "%s %.200s: no such path", e->method, url);
    else if (e->page ? !gets : strcmp(e->method, "POST") != 0)
        smol_refuse(&e->refusal, 405, "method_not_allowed", "%s %.200s: use %s", e->method, url,
                    e->page ? "GET" : "POST");
}

/* A page in a browser cannot send JSON to another site without asking it first, which this server
 * never permits. */
static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    return type && strncasecmp(type, json, sizeof json - 1) == 0 &&
           strchr(" \t;", type[sizeof json - 1]); /* which finds the terminating 0 too */
}

/* Returns the number of the key that a request is sent with, in one of the two ways of clients, or
 * 0. */
static size_t find_client(const struct exchange *e)
{
    static const char scheme[] = "Bearer ";
    const struct keys *keys = &e->server->keys;
    const char *authorization = header(e, "Authorization");
    size_t client = 0;
    if (authorization && strncasecmp(authorization, scheme, sizeof scheme - 1) == 0)
        client = smol_keys_find(keys, authorization + sizeof scheme - 1);
    return client ? client : smol_keys_find(keys, header(e, "x-api-key"));
}

/* Refuses requests by their headers. */
static void check_headers(struct exchange *e, const char *version)
{
    const struct keys *keys = &e->server->keys;
    const char *host = header(e, "Host");
    if (!host && strcmp(version, "HTTP/1.1") == 0)
        smol_refuse(&e->refusal, 400, "host_missing", "the Host header is missing");
    else if (host && !smol_access_host(e->server->settings, host))
        smol_refuse(&e->refusal, 403, "host_refused",
                    "Host: %.200s: not a name of this server: see --server-name", host);
    if (e->refusal.http || (e->page && e->page->is_public))
        return;
    const char *coding = header(e, "Content-Encoding");
    e->client = find_client(e);
    if (keys->n > 0 && !e->client)
        smol_refuse(&e->refusal, 401, "invalid_api_key",
                    "a valid API key is needed: send Authorization: Bearer KEY, or x-api-key: KEY");
    else if (e->endpoint && !e->refusal.http && !is_json(header(e, "Content-Type")))
        smol_refuse(&e->refusal, 415, "not_json", "send Content-Type: application/json");
    else if (e->endpoint && coding && strcasecmp(coding, "identity") != 0)
        smol_refuse(&e->refusal, 415, "encoded_body",
                    "Content-Encoding: %.40s: not supported: send the body as it is", coding);
}

/* Returns the announced size of the body, 0 if it is unknown. */
static unsigned long long announced(const struct exchange *e)
{
    const char *length = header(e, "Content-Length");
    return length ? strtoull(length, NULL, 10) : 0;
}

static void refuse_size(struct exchange *e)
{
    smol_refuse(&e->refusal, 413, "body_too_large", "the body has more than %llu bytes",
                (unsigned long long)e->server->settings->max_body);
}

/* Handles the headers. A refused request is answered after its body has been read, because a client
 * that is still sending might not read the answer; but at once, and with the end of the connection,
 * if it is unclear where the body ends, if that is very long, or if the client waits for permission
 * to send it. */
static enum MHD_Result begin(struct server *server, struct MHD_Connection *connection,
                             const char *url, const char *method, const char *version, void **state)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct exchange *e = calloc(1, sizeof *e);
    *state = e;
    if (!e)
        return MHD_NO;
    e->server = server;
    e->connection = connection;
    e->watched = info ? info->socket_context : NULL;
    e->method = method;
    snprintf(e->url, sizeof e->url, "%s", url);
    const char *ambiguity = smol_access_ambiguity(connection, version);
    if (ambiguity) {
        smol_refuse(&e->refusal, 400, "ambiguous_request", "%s", ambiguity);
        return queue_refusal(e, &e->refusal);
    }
    find_route(e, url);
    if (!e->refusal.http)
        check_headers(e, version);
    unsigned long long size = announced(e);
    uint64_t most = server->settings->max_body;
    if (!e->refusal.http && size > most)
        refuse_size(e);
    bool waits = e->refusal.http && header(e, "Expect");
    return waits || size / DISCARDED_BODIES > most ? queue_refusal(e, &e->refusal) : MHD_YES;
}

static enum MHD_Result collect(struct exchange *e, const char *data, size_t *size)
{
    uint64_t most = e->server->settings->max_body;
    e->n_body += *size;
    if (!e->refusal.http && e->endpoint) {
        if (e->n_body > most)
            refuse_size(e);
        else
            smol_buffer_add(&e->body, data, *size);
    }
    *size = 0;
    return e->body.failed || e->n_body / DISCARDED_BODIES > most ? MHD_NO : MHD_YES;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **state)
{
    struct exchange *e = *state;
    if (!e)
        return begin(user, connection, url, method, version, state);
    if (*size > 0)
        return collect(e, data, size);
    if (e->job)
        return answer_job(e);
    if (e->refusal.http)
        return queue_refusal(e, &e->refusal);
    return e->page ? queue_page(e) : start_job(e);
}

/* --- ends ------------------------------------------------------------------------------------- */

/* Prints a line about a request, without its content. */
static void log_exchange(const struct exchange *e)
{
    struct server *server = e->server;
    const struct job *job = e->job;
    char text[LOG_LINE_SIZE]; /* the texts below, at their longest, fit */
    int n = snprintf(text, sizeof text, "%.16s %s %u", e->method, e->url, e->http);
    if (e->client)
        n += snprintf(text + n, sizeof text - (size_t)n, " key=%s",
                      server->keys.items[e->client - 1].name);
    if (job)
        snprintf(text + n, sizeof text - (size_t)n, " id=%s prompt=%zu ms=%.0f", job->id,
                 smol_job_count(job), (clock_seconds() - job->arrived) * 1e3);
    smol_server_log(server, "%s", text);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct exchange *e = *state;
    (void)user, (void)connection, (void)why;
    if (!e)
        return;
    *state = NULL;
    if (e->server->settings->log)
        log_exchange(e);
    if (e->job)
        smol_job_disconnect(e->job);
    smol_connections_idle(&e->server->connections, e->watched);
    free(e->body.text);
    free(e->out.text);
    free(e);
}

static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct server *server = user;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (what == MHD_CONNECTION_NOTIFY_STARTED && info) {
        *context = smol_connections_add(&server->connections, info->connect_fd);
    } else if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        smol_connections_remove(&server->connections, *context);
        *context = NULL;
    }
}

/* Ignores the library's messages: they report faults of clients. */
static void ignore(void *user, const char *format, va_list arguments)
{
    (void)user, (void)format, (void)arguments;
}

/* --- the thread ------------------------------------------------------------------------------- */

/* Decodes a part of a path. A NUL would end it early, so then it stays as it is, and leads nowhere.
 */
static size_t unescape(void *user, struct MHD_Connection *connection, char *text)
{
    (void)user;
    (void)connection;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

smol_status smol_http_start(struct server *server, int listener, smol_error *error)
{
    enum { SPARE_CONNECTIONS = 64 }; /* until an older one has been closed */
    unsigned n_connections = server->settings->n_connections + SPARE_CONNECTIONS;
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
        on_request, server, MHD_OPTION_EXTERNAL_LOGGER, ignore, NULL, MHD_OPTION_LISTEN_SOCKET,
        listener, MHD_OPTION_CONNECTION_LIMIT, n_connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)HEADERS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)CONNECTION_SECONDS,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, server, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_STRICT_FOR_CLIENT,
        1, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_END);
    if (server->daemon)
        return SMOL_OK;
    return smol_fail(
        error, SMOL_ERROR_MEMORY,
        "the HTTP thread cannot be started: free memory, or allow more open files (ulimit -n)");
}

void smol_http_drain(struct server *server, const struct server_socket *listener)
{
    MHD_quiesce_daemon(server->daemon);
    if (!listener->is_passed)
        shutdown(listener->fd, SHUT_RDWR); /* not close: the HTTP thread may be accepting */
}

void smol_http_stop(struct server *server)
{
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
}
