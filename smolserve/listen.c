/* The listening socket, see http.h. */
#include "smolserve/http.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/json_reader.h" /* smol_fail */

enum { BACKLOG = 1024 };

/* --- Unix sockets ----------------------------------------------------------------------------- */

/* Removes a socket that nobody listens on any more. */
static void remove_stale(const struct sockaddr_un *address)
{
    struct stat info;
    if (lstat(address->sun_path, &info) || !S_ISSOCK(info.st_mode))
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) && errno == ECONNREFUSED)
        unlink(address->sun_path);
    close(fd);
}

/* Only the owner may connect. */
static smol_status listen_unix(const char *path, struct server_socket *listener, smol_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path[0] || strlen(path) >= sizeof address.sun_path)
        return smol_fail(error, SMOL_ERROR_USAGE, "--unix %.120s: must have 1 to %zu bytes", path,
                         sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    remove_stale(&address);
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t before = umask(S_IXUSR | S_IRWXG | S_IRWXO);
    bool bound = listener->fd >= 0 &&
                 bind(listener->fd, (const struct sockaddr *)&address, sizeof address) == 0;
    int reason = errno;
    umask(before);
    errno = reason;
    if (!bound || listen(listener->fd, BACKLOG))
        return smol_fail_errno(error, path, "listen");
    snprintf(listener->address, sizeof listener->address, "unix:%s", path);
    return SMOL_OK;
}

/* --- TCP -------------------------------------------------------------------------------------- */

/* Describes a bound socket, whose port may have been chosen by the system. */
static void describe(struct server_socket *listener)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    char host[256] = "?", port[16] = "?";
    if (getsockname(listener->fd, (struct sockaddr *)&address, &size) == 0) {
        if (address.ss_family == AF_UNIX) {
            snprintf(listener->address, sizeof listener->address, "unix:%s",
                     ((const struct sockaddr_un *)&address)->sun_path);
            return;
        }
        getnameinfo((const struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    }
    bool is_v6 = strchr(host, ':') != NULL;
    snprintf(listener->address, sizeof listener->address, "http://%s%s%s:%s", is_v6 ? "[" : "",
             host, is_v6 ? "]" : "", port);
}

static int open_tcp(const struct addrinfo *info)
{
    const int on = 1;
    int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    info->ai_protocol);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

static smol_status listen_tcp(const struct serve_settings *settings, struct server_socket *listener,
                              smol_error *error)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char port[16], name[300];
    snprintf(port, sizeof port, "%u", settings->port);
    snprintf(name, sizeof name, "%.200s port %s", settings->host, port);
    int failed = getaddrinfo(settings->host, port, &hints, &found);
    if (failed)
        return smol_fail(error, SMOL_ERROR_USAGE, "--host %.200s: %s", settings->host,
                         gai_strerror(failed));
    listener->fd = -1;
    for (const struct addrinfo *info = found; info && listener->fd < 0; info = info->ai_next)
        listener->fd = open_tcp(info);
    freeaddrinfo(found);
    if (listener->fd < 0)
        return smol_fail_errno(error, name, "listen");
    describe(listener);
    return SMOL_OK;
}

/* --- all -------------------------------------------------------------------------------------- */

/* Returns the socket that systemd passes, or -1. */
static int passed_socket(void)
{
    enum { FIRST = 3 };
    const char *process = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
    if (!process || !n || strtol(process, NULL, 10) != (long)getpid() || strcmp(n, "1") != 0)
        return -1;
    fcntl(FIRST, F_SETFD, FD_CLOEXEC);
    fcntl(FIRST, F_SETFL, fcntl(FIRST, F_GETFL) | O_NONBLOCK);
    return FIRST;
}

smol_status smol_listen(const struct serve_settings *settings, struct server_socket *listener,
                        smol_error *error)
{
    listener->fd = passed_socket();
    listener->is_passed = listener->fd >= 0;
    if (listener->is_passed) {
        describe(listener);
        return SMOL_OK;
    }
    return settings->unix_path ? listen_unix(settings->unix_path, listener, error)
                               : listen_tcp(settings, listener, error);
}
