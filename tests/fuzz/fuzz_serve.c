/* smolserve as a whole, in this process, but for its command line and its sandbox. An input is what
 * a client sends: bytes as they are, or the body of a request to an endpoint. Then the client waits
 * for the answer, or goes away. An answer is HTTP, its body is JSON or events of JSON, and an error
 * is told in the form of OpenAI or Anthropic. Nothing of the request is left in the server. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/buffer.h"
#include "convert/convert.h"
#include "smolserve/http.h"
#include "smolserve/job.h"
#include "tests/fuzz/files.h"

enum {
    CONTEXT = 512,        /* tokens */
    PATIENCE = 20 * 1000, /* milliseconds, of a client and until a request has ended */
    HALF_OPEN = 50,       /* milliseconds in which a client that has said all gets an answer */
};

/* The first byte of an input, from its lowest bit on. */
struct way {
    unsigned endpoint; /* 0: bytes as they are */
    bool chunked, leaves;
    unsigned n_pieces;
};

static const struct endpoint *const endpoints[] = {
    &smol_endpoint_chat,       &smol_endpoint_completions, &smol_endpoint_responses,
    &smol_endpoint_embeddings, &smol_endpoint_tokenize,    &smol_endpoint_detokenize,
    &smol_endpoint_rerank,     &smol_endpoint_messages,    &smol_endpoint_count_tokens,
};
enum { N_ENDPOINTS = sizeof endpoints / sizeof endpoints[0] };

/* --- the server, kept from one input to the next ---------------------------------------------- */

static struct sockaddr_un address;
static socklen_t address_size = sizeof(sa_family_t); /* the system chooses a name */

static int open_listener(void)
{
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    address.sun_family = AF_UNIX;
    CLAIM(bind(listener, (struct sockaddr *)&address, address_size) == 0);
    address_size = sizeof address;
    CLAIM(getsockname(listener, (struct sockaddr *)&address, &address_size) == 0);
    CLAIM(listen(listener, 16) == 0);
    return listener;
}

/* The bundled model, with a chat template that knows tools. */
static const char *make_blob(void)
{
    const struct convert_options options = {.dtype = DTYPE_INT8,
                                            .n_threads = 1,
                                            .quiet = true,
                                            .source.template_file =
                                                "tests/data/templates/qwen3.jinja"};
    const char *path = fuzz_path("model.smol");
    CLAIM(!smol_convert("demo/model", path, &options, NULL));
    return path;
}

static struct server *start(void)
{
    static struct serve_settings settings = {
        .n_sequences = 4,
        .n_queued = 8,
        .timeout = PATIENCE / 1000,
        .max_body = 1 << 16,
        .n_connections = 32,
        .cache_memory = 1 << 20,
        .open = {.no_mmap = 1}, /* a sanitizer sees where memory ends */
        .context = {.n_threads = 1, .n_ctx = CONTEXT},
    };
    static struct server server = {.settings = &settings, .statm = -1, .watcher = -1};
    if (server.daemon)
        return &server;
    settings.files = (struct option_texts){.n = 1, .items = {make_blob()}};
    int fd = open(settings.files.items[0], O_RDONLY | O_CLOEXEC);
    smol_connections_init(&server.connections, settings.n_connections);
    smol_models_init(&server.models, &server);
    CLAIM(!smol_preparers_start(&server.preparers, NULL));
    CLAIM(!smol_http_start(&server, open_listener(), NULL));
    CLAIM(!smol_models_load(&server.models, &fd, NULL));
    atomic_store(&server.state, SERVER_READY);
    return &server;
}

/* --- the client ------------------------------------------------------------------------------- */

/* Returns what is sent to an endpoint. HTTP/1.0 is answered without chunks. */
static struct buffer make_request(const struct way *way, const uint8_t *body, size_t size)
{
    struct buffer out = {0};
    const char *path = endpoints[(way->endpoint - 1) % N_ENDPOINTS]->path;
    smol_buffer_print(&out, "POST %s HTTP/1.%d\r\nContent-Type: application/json\r\n", path,
                      way->chunked);
    if (!way->chunked) {
        smol_buffer_print(&out, "Content-Length: %zu\r\n\r\n", size);
        smol_buffer_add(&out, (const char *)body, size);
        return out;
    }
    smol_buffer_print(&out,
                      "Host: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (size_t n; size > 0; body += n, size -= n) {
        n = size < 100 ? size : 100;
        smol_buffer_print(&out, "%zx\r\n", n);
        smol_buffer_add(&out, (const char *)body, n);
        smol_buffer_print(&out, "\r\n");
    }
    smol_buffer_print(&out, "0\r\n\r\n");
    return out;
}

static int dial(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CLAIM(fd >= 0 && connect(fd, (struct sockaddr *)&address, address_size) == 0);
    return fd;
}

/* Sends in pieces. The server may have heard enough earlier. */
static void send_all(int fd, const struct buffer *data, unsigned n_pieces)
{
    size_t each = data->size / n_pieces + 1;
    for (size_t at = 0; at < data->size;) {
        size_t n = data->size - at < each ? data->size - at : each;
        ssize_t sent = send(fd, data->text + at, n, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return;
        at += sent > 0 ? (size_t)sent : 0;
    }
}

/* Waits for bytes, or the end. The fuzzer's timer interrupts. */
static bool wait_for_bytes(int fd, int milliseconds)
{
    struct pollfd in = {.fd = fd, .events = POLLIN};
    int n;
    while ((n = poll(&in, 1, milliseconds)) < 0)
        CLAIM(errno == EINTR);
    return n > 0;
}

/* Receives until the server closes the connection, or says nothing for so long; returns whether it
 * has closed it. */
static bool receive(int fd, int milliseconds, struct buffer *answer)
{
    char part[4096];
    while (wait_for_bytes(fd, milliseconds)) {
        ssize_t n = recv(fd, part, sizeof part, 0);
        if (n == 0 || (n < 0 && errno != EINTR))
            return true;
        smol_buffer_add(answer, part, n > 0 ? (size_t)n : 0);
    }
    return false;
}

/* --- answers ---------------------------------------------------------------------------------- */

static void check_json(const char *text, size_t size, bool good)
{
    json_t *json = json_loadb(text, size, JSON_ALLOW_NUL, NULL);
    CLAIM(json_is_object(json));
    const json_t *error = json_object_get(json, "error");
    CLAIM(good || json_string_length(json_object_get(error, "message")) > 0);
    json_decref(json);
}

static void check_events(char *text)
{
    char *rest;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        bool data = strncmp(line, "data: ", 6) == 0;
        CLAIM(data || strncmp(line, "event: ", 7) == 0);
        if (data && strcmp(line, "data: [DONE]") != 0)
            check_json(line + 6, strlen(line + 6), true);
    }
}

/* Checks a whole answer, which has no chunks. */
static void check_answer(struct buffer *answer)
{
    unsigned status = 0;
    smol_buffer_add(answer, "", 1);
    CLAIM(sscanf(answer->text, "HTTP/1.1 %3u ", &status) == 1 && status >= 200 && status < 600);
    char *body = strstr(answer->text, "\r\n\r\n");
    CLAIM(body);
    body += 4;
    bool events = strstr(answer->text, "\r\nContent-Type: text/event-stream\r\n") != NULL;
    if (events && status == 200)
        check_events(body);
    else
        check_json(body, answer->size - 1 - (size_t)(body - answer->text), status == 200);
}

/* Waits until the server has let go of the request. */
static void wait_for_end(struct server *server)
{
    int left = PATIENCE;
    for (; atomic_load(&server->n_jobs) > 0 && left > 0; left--)
        usleep(1000);
    CLAIM(left > 0);
    CLAIM(atomic_load(&server->n_waiting) == 0);
    smol_connections_sweep(&server->connections);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct server *server = start();
    struct fuzz_input in = {data, size};
    uint8_t first = fuzz_take_byte(&in);
    const struct way way = {first & 15, first >> 4 & 1, first >> 5 & 1, 1 + (first >> 6)};
    struct buffer request = {0}, answer = {0};
    int fd = dial();
    if (way.endpoint == 0)
        smol_buffer_add(&request, (const char *)in.data, in.size);
    else
        request = make_request(&way, in.data, in.size);
    send_all(fd, &request, way.n_pieces);
    if (way.endpoint == 0) {
        shutdown(fd, SHUT_WR);
        receive(fd, HALF_OPEN, &answer);
    } else if (!way.leaves) {
        CLAIM(receive(fd, PATIENCE, &answer));
        if (!way.chunked)
            check_answer(&answer);
    }
    close(fd);
    wait_for_end(server);
    free(request.text);
    free(answer.text);
    return 0;
}
