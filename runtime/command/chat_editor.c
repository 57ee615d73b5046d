/* Editing lines, see chat_editor.h. */
#include "runtime/command/chat_editor.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "common/memory.h"
#include "runtime/command/chat_signals.h"

/* --- libedit (histedit.h, whose interface has not changed since its version 3) ------------ */

struct history_event {
    int number;
    const char *text;
};

struct line_info {
    const wchar_t *buffer, *cursor, *end;
};

static struct {
    void *library;
    void *editor, *history;
    const char *(*gets)(void *, int *);
    int (*set)(void *, int, ...), (*set_wide)(void *, int, ...);
    const struct line_info *(*line)(void *);
    void (*resize)(void *), (*end)(void *);
    int (*remember)(void *, struct history_event *, int, ...);
    void (*forget)(void *);
    int file;     /* of the history; -1: none */
    bool leaving; /* a line, because of Ctrl-C */
} edit = {.file = -1};

enum {
    EL_EDITOR = 2,
    EL_HIST = 10,
    EL_GETCFN = 13,
    EL_PREP_TERM = 16,
    EL_REFRESH = 20,
    EL_PROMPT_ESC = 21,
};
enum { H_SETSIZE = 1, H_ENTER = 10 };
enum { HISTORY_LINES = 1000, HISTORY_BYTES = 1 << 20 };

static const char *prompt;
static bool colored;

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

/* --- characters --------------------------------------------------------------------------- */

/* How many rows of the terminal are above that of the cursor, from the prompt on. */
static int rows_above(void)
{
    struct winsize size = {0};
    int row = 0, column = (int)strlen(prompt);
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < 2)
        return 0;
    const struct line_info *line = edit.line(edit.editor);
    for (const wchar_t *c = line->buffer; c < line->cursor; c++) {
        int width = wcwidth(*c) < 0 ? 2 : wcwidth(*c); /* a control character is shown as ^X */
        row += column + width > size.ws_col;
        column = column + width > size.ws_col ? width : column + width;
    }
    return row + (column == size.ws_col);
}

/* Terminals wrap anew what was written when their size changes, so the line is drawn again from
 * where the prompt has come to stand. */
static void draw_resized(void)
{
    int rows = rows_above();
    edit.resize(edit.editor);
    if (rows > 0)
        printf("\033[%dA", rows);
    printf("\r\033[J");
    edit.set(edit.editor, EL_REFRESH);
}

/* Others had the terminal: it is prepared, and the line drawn, where the cursor stands now. */
static void draw_continued(void)
{
    edit.set(edit.editor, EL_PREP_TERM, 0);
    edit.set(edit.editor, EL_PREP_TERM, 1);
    edit.set(edit.editor, EL_REFRESH);
}

/* The next byte; 0: there is none, -1: Ctrl-C. */
static int read_byte(char *byte)
{
    for (;;) {
        enum wake wake = smol_chat_wait();
        if (wake == WAKE_INTERRUPT)
            return -1;
        if (wake == WAKE_INPUT)
            return read(STDIN_FILENO, byte, 1) == 1;
        if (wake == WAKE_RESIZE)
            draw_resized();
        else
            draw_continued();
    }
}

/* What libedit has for its EL_GETCFN would miss a Ctrl-C between two reads. Bytes that are no
 * character become U+FFFD. Upon Ctrl-C the cursor goes to the line's end, as if by Ctrl-E, so that
 * all of it stays to be read above the next prompt. */
static int read_character(void *editor, wchar_t *character)
{
    mbstate_t state = {0};
    char byte;
    int n = read_byte(&byte);
    (void)editor;
    if (n < 0) {
        *character = L'E' & 0x1f;
        return edit.leaving ? -1 : (edit.leaving = true);
    }
    size_t size = n ? mbrtowc(character, &byte, 1, &state) : 0;
    while (n > 0 && size == (size_t)-2) {
        n = read_byte(&byte);
        if (n > 0)
            size = mbrtowc(character, &byte, 1, &state);
    }
    if (size == (size_t)-1)
        *character = 0xfffd;
    return n;
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

/* --- opening it --------------------------------------------------------------------------- */

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
        !find("el_set", &edit.set) || !find("el_wset", &edit.set_wide) ||
        !find("el_wline", &edit.line) || !find("el_resize", &edit.resize) ||
        !find("el_end", &edit.end) || !find("history_init", &new_history) ||
        !find("history", &edit.remember) || !find("history_end", &edit.forget))
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
    edit.set_wide(edit.editor, EL_GETCFN, read_character);
    return true;
}

bool smol_chat_editor_open(bool in_color)
{
    colored = in_color;
    if (!load_editor())
        return false;
    edit.file = open_history();
    if (edit.file >= 0)
        read_history();
    return true;
}

void smol_chat_editor_close(void)
{
    if (edit.editor)
        edit.end(edit.editor);
    if (edit.history)
        edit.forget(edit.history);
    if (edit.file >= 0)
        close(edit.file);
}

/* --- reading ------------------------------------------------------------------------------ */

bool smol_chat_editor_read(const char *with_prompt, struct buffer *text)
{
    int n = 0;
    prompt = with_prompt;
    edit.leaving = false;
    edit.set(edit.editor, EL_PREP_TERM, 1); /* before the prompt: what is typed then is for it */
    const char *line = edit.gets(edit.editor, &n);
    if (!line || n <= 0)
        return false;
    remember(line);
    smol_buffer_add(text, line, (size_t)n - (line[n - 1] == '\n'));
    return true;
}
