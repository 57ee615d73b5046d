/* The watcher, see models.h. It looks at the files twice a second: that works on all file systems,
 * also where a link to the file or a folder above it is replaced, which notifications of the kernel
 * do not all report. */
#include "smolserve/models.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_EVERY = 500 }; /* milliseconds */

/* Distinguishes one state of a file from another. */
struct identity {
    dev_t device;
    ino_t number;
    off_t size;
    struct timespec written;
};

struct watched_file {
    struct identity sent; /* the server has it, or had it and did not want it */
    struct identity last; /* seen when looked at before */
};

/* The message about one file: its number, and the file as control data. */
union control {
    struct cmsghdr head; /* for the alignment */
    char space[CMSG_SPACE(sizeof(int))];
};

static bool is_same(const struct identity *a, const struct identity *b)
{
    return a->device == b->device && a->number == b->number && a->size == b->size &&
           a->written.tv_sec == b->written.tv_sec && a->written.tv_nsec == b->written.tv_nsec;
}

static struct identity identify(const struct stat *s)
{
    return (struct identity){s->st_dev, s->st_ino, s->st_size, s->st_mtim};
}

/* --- the watcher's process ------------------------------------------------------------------ */

static void send_file(int to, uint32_t index, int fd)
{
    union control control = {.space = {0}};
    struct iovec number = {&index, sizeof index};
    struct msghdr message = {.msg_iov = &number,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.space};
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(part), &fd, sizeof fd);
    sendmsg(to, &message, MSG_NOSIGNAL);
}

/* Sends a file that has changed, and that has not changed since the last look: one that is being
 * written in place is left alone. */
static void look(int to, const char *path, uint32_t index, struct watched_file *file)
{
    struct stat state;
    if (stat(path, &state))
        return; /* there is none now */
    struct identity now = identify(&state), before = file->last;
    file->last = now;
    if (is_same(&now, &file->sent) || !is_same(&now, &before))
        return;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &state)) {
        file->sent = now; /* which is not readable */
    } else {
        file->sent = identify(&state);
        send_file(to, index, fd);
    }
    if (fd >= 0)
        close(fd);
}

/* Looks until the other end of the socket is closed; nothing is ever received. */
static void watch(const struct option_texts *files, struct watched_file *states, int to)
{
    struct pollfd other = {.fd = to, .events = POLLIN};
    while (poll(&other, 1, LOOK_EVERY) == 0)
        for (size_t i = 0; i < files->n; i++)
            look(to, files->items[i], (uint32_t)i, &states[i]);
}

/* Lets go of whatever the server has, and takes no notice of the signals to its group: the watcher
 * ends after the server. */
static void settle(const struct option_texts *files, const int *fds, int server_end)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    for (size_t i = 0; i < files->n; i++)
        close(fds[i]);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
    close(server_end);
}

/* --- the server's process ------------------------------------------------------------------- */

smol_status smol_watcher_start(const struct option_texts *files, const int *fds, int *socket,
                               smol_error *error)
{
    static struct watched_file states[OPTION_MAX_TEXTS];
    int ends[2];
    for (size_t i = 0; i < files->n; i++) {
        struct stat state;
        if (fstat(fds[i], &state))
            return smol_fail_errno(error, files->items[i], "examine");
        states[i].sent = states[i].last = identify(&state);
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return smol_fail_errno(error, "the watcher of files", "create a socket for");
    pid_t child = fork();
    if (child == 0) {
        settle(files, fds, ends[0]);
        watch(files, states, ends[1]);
        _exit(0);
    }
    close(ends[1]);
    *socket = ends[0];
    return child < 0 ? smol_fail_errno(error, "the watcher of files", "start") : SMOL_OK;
}

bool smol_watcher_next(int socket, size_t *index, int *fd)
{
    uint32_t number = UINT32_MAX;
    union control control;
    struct iovec place = {&number, sizeof number};
    struct msghdr message = {.msg_iov = &place,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.space};
    if (recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof number)
        return false;
    const struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    if (!part || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
        return false;
    memcpy(fd, CMSG_DATA(part), sizeof *fd);
    *index = number;
    return true;
}
