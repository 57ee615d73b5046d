/* Reading what the user types, see chat_input.h. */
#include "runtime/command/chat_input.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/command/print.h"

static bool interactive, colored;

/* --- Ctrl-C ------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void note_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* What is read ends, and what is written does not. */
static void catch_interrupts(bool reading)
{
    const struct sigaction action = {.sa_handler = note_interrupt,
                                     .sa_flags = reading ? 0 : (int)SA_RESTART};
    if (interactive)
        sigaction(SIGINT, &action, NULL);
}

bool smol_chat_interrupted(void)
{
    return interrupted;
}

void smol_chat_forget_interrupt(void)
{
    interrupted = 0;
}

/* --- libedit (histedit.h, whose interface has not changed since its version 2) ------------ */

struct history_event {
    int number;
    const char *text;
};

static struct {
    void *library;
    void *editor, *history;
    const char *(*gets)(void *, int *);
    int (*set)(void *, int, ...);
    void (*end)(void *);
    int (*remember)(void *, struct history_event *, int, ...);
    void (*forget)(void *);
    int file; /* of the history; -1: none */
} edit = {.file = -1};

enum { EL_EDITOR = 2, EL_HIST = 10, EL_PROMPT_ESC = 21, H_SETSIZE = 1, H_ENTER = 10 };
enum { HISTORY_LINES = 1000, HISTORY_BYTES = 1 << 20 };

static const char *prompt = "> ";

static char *tell_prompt(void *editor)
{
    static char text[32];
    (void)editor;
    /* \1 surrounds what takes no room on the screen; behind the last character libedit loses it */
    snprintf(text, sizeof text, colored ? "\1\033[1m\1%c\1\033[0m\1%s" : "%c%s", prompt[0],
             prompt + 1);
    return text;
}

/* dlsym's result as a function, which ISO C has no conversion for. */
static bool find(const char *name, void *function)
{
    void *symbol = dlsym(edit.library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* Characters are those of the user's locale; of one that knows ASCII only, UTF-8 all the same. */
static void set_characters(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

static bool load_editor(void)
{
    void *(*start)(const char *, FILE *, FILE *, FILE *), *(*new_history)(void);
    struct history_event event;
    edit.library = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!edit.library || !find("el_init", &start) || !find("el_gets", &edit.gets) ||
        !find("el_set", &edit.set) || !find("el_end", &edit.end) ||
        !find("history_init", &new_history) || !find("history", &edit.remember) ||
        !find("history_end", &edit.forget))
        return false;
    set_characters();
    edit.history = new_history();
    edit.editor = edit.history ? start("smolrun", stdin, stdout, stderr) : NULL;
    if (!edit.editor)
        return false;
    edit.remember(edit.history, &event, H_SETSIZE, HISTORY_LINES);
    edit.set(edit.editor, EL_EDITOR, "emacs");
    edit.set(edit.editor, EL_HIST, edit.remember, edit.history);
    edit.set(edit.editor, EL_PROMPT_ESC, tell_prompt, '\1');
    return true;
}

/* --- its history -------------------------------------------------------------------------- */

/* Opens the file, with the folders that lead to it; -1: there is to be none. */
static int open_history(void)
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

static void remember_lines(char *text)
{
    struct history_event event;
    char *end;
    for (; (end = strchr(text, '\n')); text = end + 1) {
        *end = '\0';
        edit.remember(edit.history, &event, H_ENTER, text);
    }
}

/* The file's lines become the history. One that has grown large is cut down to the last of them. */
static void read_history(void)
{
    char *text = malloc(HISTORY_BYTES + 1), *first = text;
    struct stat info;
    if (text && fstat(edit.file, &info) == 0 && S_ISREG(info.st_mode)) {
        off_t start = info.st_size > HISTORY_BYTES ? info.st_size - HISTORY_BYTES : 0;
        ssize_t n = pread(edit.file, text, HISTORY_BYTES, start);
        text[n > 0 ? n : 0] = '\0';
        if (start > 0) {
            first = text + strcspn(text, "\n");
            if (ftruncate(edit.file, 0) || write(edit.file, first, strlen(first)) < 0)
                first = text; /* it is a history: what is lost of it is no reason to stop */
        }
        remember_lines(first);
    }
    free(text);
}

static void remember(const char *line)
{
    struct history_event event;
    size_t length = strcspn(line, "\n");
    if (length == 0)
        return;
    edit.remember(edit.history, &event, H_ENTER, line);
    if (edit.file < 0)
        return;
    struct buffer entry = {0};
    smol_buffer_add(&entry, line, length);
    smol_buffer_add(&entry, "\n", 1);
    if (!entry.failed && write(edit.file, entry.text, entry.size) < 0) {
        close(edit.file); /* a full disk must not end the conversation */
        edit.file = -1;
    }
    smol_free(entry.text);
}

/* --- opening ------------------------------------------------------------------------------ */

void smol_chat_input_open(void)
{
    const char *terminal = getenv("TERM"), *no_color = getenv("NO_COLOR");
    interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (!interactive)
        return;
    bool capable = terminal && terminal[0] && strcmp(terminal, "dumb") != 0;
    colored = capable && !(no_color && no_color[0]);
    if (!capable || !load_editor()) {
        edit.editor = NULL;
        return;
    }
    edit.file = open_history();
    if (edit.file >= 0)
        read_history();
}

void smol_chat_input_close(void)
{
    if (edit.editor)
        edit.end(edit.editor);
    if (edit.editor && edit.history)
        edit.forget(edit.history);
    if (edit.file >= 0)
        close(edit.file);
}

bool smol_chat_is_interactive(void)
{
    return interactive;
}

const char *smol_chat_editing(void)
{
    if (!interactive)
        return "lines are read from a pipe or file";
    return edit.editor ? "lines are edited with libedit: arrows, Ctrl-R, a history"
                       : "lines are edited by the terminal alone: libedit is not there";
}

/* --- lines -------------------------------------------------------------------------------- */

/* Adds a line to *text, without its end. */
static enum entry read_edited(struct buffer *text)
{
    int n = 0;
    const char *line = edit.gets(edit.editor, &n);
    if (!line || n <= 0) {
        putchar('\n');
        return interrupted ? ENTRY_INTERRUPTED : ENTRY_END;
    }
    remember(line);
    smol_buffer_add(text, line, (size_t)n - (line[n - 1] == '\n'));
    return ENTRY_TEXT;
}

static enum entry read_plain(struct buffer *text, smol_error *error)
{
    static char *line;
    static size_t room;
    if (interactive) {
        fputs(prompt, stdout);
        fflush(stdout);
    }
    ssize_t n;
    do {
        clearerr(stdin);
        errno = 0;
        n = getline(&line, &room, stdin);
    } while (n < 0 && errno == EINTR && !interrupted);
    if (n > 0) {
        smol_buffer_add(text, line, (size_t)n - (line[n - 1] == '\n'));
        return ENTRY_TEXT;
    }
    if (interactive)
        putchar('\n');
    if (interrupted)
        return ENTRY_INTERRUPTED;
    if (errno == ENOMEM) /* which the stream does not note */
        smol_command_fail(error, SMOL_ERROR_MEMORY, "out of memory for a message");
    else if (ferror(stdin))
        smol_command_fail(error, SMOL_ERROR_FILE, "standard input: cannot read (%s)",
                          strerror(errno));
    return ENTRY_END;
}

static enum entry read_line(struct buffer *text, smol_error *error)
{
    catch_interrupts(true);
    enum entry entry = edit.editor ? read_edited(text) : read_plain(text, error);
    catch_interrupts(false);
    if (!text->failed)
        return entry;
    smol_command_fail(error, SMOL_ERROR_MEMORY, "out of memory for a message");
    return ENTRY_END;
}

static const char quotes[] = "\"\"\"";
enum { N_QUOTES = sizeof quotes - 1 };

static bool ends_with_quotes(const struct buffer *text, size_t from)
{
    return text->size >= from + N_QUOTES &&
           memcmp(text->text + text->size - N_QUOTES, quotes, N_QUOTES) == 0;
}

/* Everything up to the closing quotes; the opening ones are there. */
static enum entry read_block(struct buffer *text, smol_error *error)
{
    enum entry entry = ENTRY_TEXT;
    size_t start = N_QUOTES; /* of the line */
    while (entry == ENTRY_TEXT && !ends_with_quotes(text, start)) {
        smol_buffer_add(text, "\n", 1);
        start = text->size;
        entry = read_line(text, error);
    }
    if (entry == ENTRY_TEXT)
        text->size -= N_QUOTES;
    else if (entry == ENTRY_END && !error->status)
        entry = ENTRY_TEXT; /* what there is */
    size_t first = N_QUOTES;
    while (first < text->size && text->text[first] == '\n')
        first++;
    text->size -= first;
    memmove(text->text, text->text + first, text->size);
    while (text->size > 0 && text->text[text->size - 1] == '\n')
        text->size--;
    return entry;
}

enum entry smol_chat_read(struct buffer *text, smol_error *error)
{
    text->size = 0;
    error->status = SMOL_OK;
    prompt = "> ";
    enum entry entry = read_line(text, error);
    prompt = ". ";
    if (entry == ENTRY_TEXT && text->size >= N_QUOTES && memcmp(text->text, quotes, N_QUOTES) == 0)
        return read_block(text, error);
    while (entry == ENTRY_TEXT && text->size > 0 && text->text[text->size - 1] == '\\') {
        text->text[text->size - 1] = '\n';
        entry = read_line(text, error);
        if (entry == ENTRY_END && !error->status)
            return ENTRY_TEXT;
    }
    return entry;
}
