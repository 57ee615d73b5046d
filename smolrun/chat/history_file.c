/* The history file, see editor.h. */
#include "smolrun/chat/editor.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/text.h"

enum { MAX_FILE = 1 << 20, MAX_ENTRY = 1 << 16 }; /* bytes */

static int file = -1; /* or -1 */

static void exchange(char *text, size_t size, char from, char to)
{
    for (char *c = text; (c = memchr(c, from, size - (size_t)(c - text))); c++)
        *c = to;
}

/* Opens the file; creates it and its folders if necessary. Returns -1 if there is no history. */
static int open_file(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char path[4096];
    int n = state && state[0] == '/' ? snprintf(path, sizeof path, "%s/smol/chat_history", state)
            : home && home[0] == '/'
                ? snprintf(path, sizeof path, "%s/.local/state/smol/chat_history", home)
                : -1;
    if (n < 0 || (size_t)n >= sizeof path)
        return -1;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, S_IRWXU);
        *slash = '/';
    }
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd >= 0 && fchmod(fd, S_IRUSR | S_IWUSR)) {
        close(fd);
        return -1;
    }
    return fd;
}

static void remember_lines(char *text, void (*remember)(const char *entry))
{
    char *end;
    for (; (end = strchr(text, '\n')); text = end + 1) {
        *end = '\0';
        exchange(text, (size_t)(end - text), '\r', '\n');
        remember(text);
    }
}

void smol_chat_history_open(void (*remember)(const char *entry))
{
    file = open_file();
    if (file < 0)
        return;
    char *text = malloc(MAX_FILE + 1), *first = text;
    struct stat info;
    if (text && fstat(file, &info) == 0 && S_ISREG(info.st_mode)) {
        off_t start = info.st_size > MAX_FILE ? info.st_size - MAX_FILE : 0;
        ssize_t n = pread(file, text, MAX_FILE, start);
        text[n > 0 ? n : 0] = '\0';
        char *end = start > 0 ? strchr(text, '\n') : NULL;
        if (end) { /* a large file is cut down to its last whole entries */
            first = end + 1;
            if (ftruncate(file, 0) || write(file, first, strlen(first)) < 0)
                first = text; /* a history that is lost is no reason to stop */
        }
        remember_lines(first, remember);
    }
    free(text);
}

void smol_chat_history_close(void)
{
    if (file >= 0)
        close(file);
}

void smol_chat_history_add(const char *entry, size_t size)
{
    if (file < 0 || size > MAX_ENTRY)
        return;
    struct buffer line = {0};
    smol_buffer_add(&line, entry, size);
    smol_buffer_add(&line, "\n", 1);
    if (!line.failed) {
        exchange(line.text, size, '\n', '\r');
        if (write(file, line.text, line.size) < 0) {
            close(file); /* a full disk must not end the chat */
            file = -1;
        }
    }
    smol_free(line.text);
}
