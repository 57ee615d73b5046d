/* The log, see server.h. */
#include <poll.h>
#include <stdarg.h>
#include <unistd.h>

#include "common/error.h"
#include "smolserve/server.h"

void smol_server_log(struct server *server, const char *format, ...)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    char text[LOG_LINE_SIZE + sizeof "smolserve: "];
    va_list arguments;
    size_t n = (size_t)snprintf(text, sizeof text, "smolserve: ");
    va_start(arguments, format);
    vsnprintf(text + n, LOG_LINE_SIZE, format, arguments);
    va_end(arguments);
    for (n = 0; text[n]; n++)
        if (is_control(text[n]))
            text[n] = '?';
    text[n++] = '\n';
    bool ready = poll(&out, 1, 0) == 1 && out.revents & POLLOUT;
    if (!ready || write(STDERR_FILENO, text, n) != (ssize_t)n)
        atomic_fetch_add(&server->metrics.lost_lines, 1);
}
