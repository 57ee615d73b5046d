/* Line editing, see editor.h. */
#include "smolrun/chat/editor.h"

#include <dlfcn.h>
#include <langinfo.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/print.h"
#include "cli/terminal.h"
#include "smolrun/chat/entry.h"
#include "smolrun/chat/keys.h"
#include "smolrun/chat/signals.h"

/* --- libedit ------------------------------------------------------------------------------ */

/* The declarations of histedit.h in use, unchanged since version 3 of libedit. */
struct history_event {
    int number;
    const char *text;
};

struct line_info {
    const wchar_t *buffer, *cursor, *end;
};

enum {
    EL_EDITOR = 2,
    EL_BIND = 4,
    EL_SETTY = 8,
    EL_ADDFN = 9,
    EL_HIST = 10,
    EL_GETCFN = 13,
    EL_PREP_TERM = 16,
    EL_REFRESH = 20,
    EL_PROMPT_ESC = 21,
};
enum { H_SETSIZE = 1, H_GETSIZE = 2, H_ENTER = 10 };
enum { CC_NORM = 0, CC_REFRESH = 4, CC_CURSOR = 5, CC_ERROR = 6 }; /* results of a key's function */

/* An editor, its history, and the functions of libedit in use: el_gets, el_set, el_wset, el_wline,
 * el_resize, el_end, el_winsertstr, el_cursor, el_wpush, history, history_end. */
struct libedit {
    void *editor, *history;
    const char *(*gets)(void *, int *);
    int (*set)(void *, int, ...), (*set_wide)(void *, int, ...);
    const struct line_info *(*line)(void *);
    void (*resize)(void *), (*end)(void *);
    int (*insert)(void *, const wchar_t *), (*move)(void *, int);
    void (*push)(void *, const wchar_t *);
    int (*remember)(void *, struct history_event *, int, ...);
    void (*forget)(void *);
};

static void *library; /* stays loaded until the program ends */

/* Stores the address of a library function in *function. Copies the bytes, because ISO C cannot
 * convert dlsym's result to a function pointer. */
static bool find(const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* Loads libedit and starts an editor at the terminal. Returns false without libedit. The caller
 * closes *edit in either case. */
static bool open_libedit(struct libedit *edit)
{
    void *(*start)(const char *, FILE *, FILE *, FILE *), *(*new_history)(void);
    library = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library || !find("el_init", &start) || !find("el_gets", &edit->gets) ||
        !find("el_set", &edit->set) || !find("el_wset", &edit->set_wide) ||
        !find("el_wline", &edit->line) || !find("el_resize", &edit->resize) ||
        !find("el_winsertstr", &edit->insert) || !find("el_cursor", &edit->move) ||
        !find("el_wpush", &edit->push) || !find("el_end", &edit->end) ||
        !find("history_init", &new_history) || !find("history", &edit->remember) ||
        !find("history_end", &edit->forget))
        return false;
    edit->history = new_history();
    edit->editor = edit->history ? start("smolrun", stdin, stdout, stderr) : NULL;
    return edit->editor != NULL;
}

static void close_libedit(struct libedit *edit)
{
    if (edit->editor)
        edit->end(edit->editor);
    if (edit->history)
        edit->forget(edit->history);
    *edit = (struct libedit){0};
}

/* --- state -------------------------------------------------------------------------------- */

static struct libedit edit;
static bool leaving;     /* Ctrl-C ends the line */
static int entries_back; /* history entries between the current one and the new line */

enum {
    HISTORY_ENTRIES = 1000,
    KEPT = 1023, /* characters of the new line that libedit keeps while it shows older entries */
};

/* Unused keys for libedit's own history functions, because the usual keys do more here. */
#define OLDER L"\036p"
#define NEWER L"\036n"

static const char *prompt;
static bool colored;

static char *tell_prompt(void *editor)
{
    static char text[32];
    (void)editor;
    /* \1 surrounds characters of no width; libedit drops them at the end of the prompt */
    snprintf(text, sizeof text, colored ? "\1\033[1m\1%c\1\033[0m\1%s" : "%c%s", prompt[0],
             prompt + 1);
    return text;
}

/* --- the terminal ------------------------------------------------------------------------- */

/* The terminal's modes before the chat changed them, and between two lines. libedit switches
 * between the latter and its own modes for editing. */
static struct termios own, between_lines;
static bool taken;

/* May be called by a signal handler, like the functions below up to stop_at_once. */
static void switch_pastes(bool on)
{
    const char *sequence = on ? PASTE_MODE_ON : PASTE_MODE_OFF;
    ssize_t n = write(STDOUT_FILENO, sequence, strlen(sequence));
    (void)n; /* if the terminal is gone, printing reports it */
}

static void return_terminal(void)
{
    tcgetattr(STDIN_FILENO, &between_lines);
    tcsetattr(STDIN_FILENO, TCSANOW, &own);
    switch_pastes(false);
}

static void take_terminal_again(void)
{
    tcsetattr(STDIN_FILENO, TCSANOW, &between_lines);
    switch_pastes(true);
}

static void stop_at_once(void)
{
    return_terminal();
    smol_chat_stop();
    take_terminal_again();
}

/* Hides typed characters between two lines, and keeps them for the next line. A signal does not
 * flush the terminal's queue: a paste without its beginning would be read as keys. */
static void take_terminal(void)
{
    if (!taken)
        edit.set(edit.editor, EL_SETTY, "-x", "-icanon", "-echo", "-icrnl", "+noflsh", NULL);
    taken = true;
}

static void prepare_for_line(void)
{
    edit.set(edit.editor, EL_PREP_TERM, 1);
    smol_keys_take();
    fflush(stdout);
    switch_pastes(true);
}

static void stop_amid_line(void)
{
    edit.set(edit.editor, EL_PREP_TERM, 0);
    fflush(stdout);
    stop_at_once();
}

/* --- the screen --------------------------------------------------------------------------- */

/* Returns the number of terminal rows from the start of the prompt to the row above the cursor. */
static int rows_above(void)
{
    size_t known = smol_terminal_columns(STDOUT_FILENO);
    int columns = (int)known, row = 0, column = (int)strlen(prompt);
    if (known < 2 || known == SIZE_MAX)
        return 0;
    const struct line_info *line = edit.line(edit.editor);
    for (const wchar_t *c = line->buffer; c < line->cursor; c++) {
        int width = *c == L'\t'       ? 8 - column % 8
                    : wcwidth(*c) < 0 ? 2 /* a control character is shown as ^X */
                                      : wcwidth(*c);
        if (*c == L'\n') {
            row += 1 + (column == columns);
            column = 0;
            continue;
        }
        row += column + width > columns;
        column = column + width > columns ? width : column + width;
    }
    return row + (column == columns);
}

/* Draws the line again from the start of its prompt. Terminals wrap their text again when their
 * size changes, which moves the prompt. */
static void draw_resized(void)
{
    int rows = rows_above();
    edit.resize(edit.editor);
    if (rows > 0)
        printf("\033[%dA", rows);
    printf("\r\033[J");
    edit.set(edit.editor, EL_REFRESH);
}

/* Prepares the terminal again after other programs used it, and draws the line in the cursor's
 * row. */
static void draw_continued(void)
{
    edit.set(edit.editor, EL_PREP_TERM, 0);
    prepare_for_line();
    edit.resize(edit.editor);
    printf("\r\033[J"); /* the line is still there if no other program wrote anything */
    edit.set(edit.editor, EL_REFRESH);
}

/* Prints a message below the line, then draws the line again below the message. */
static void say(const char *what)
{
    printf("\n\033[Jsmolrun: %s\n", what);
    edit.set(edit.editor, EL_REFRESH);
}

/* --- the line ----------------------------------------------------------------------------- */

/* The first and the last paste in the line, owned, or NULL. */
static wchar_t *pastes[2];

static void keep_paste(int place, wchar_t *text)
{
    free(pastes[place]);
    pastes[place] = text;
}

static void forget_pastes(void)
{
    keep_paste(0, NULL);
    keep_paste(1, NULL);
}

/* Handles PASTE_KEY: inserts the paste into the line. */
static unsigned char insert_paste(void *editor, wint_t key)
{
    const struct paste *paste = smol_keys_pasted();
    bool too_long = paste->too_long;
    wchar_t *text = too_long || paste->bytes.failed ? NULL : smol_paste_text(paste);
    bool inserted = text && (!text[0] || edit.insert(edit.editor, text) == 0);
    (void)editor, (void)key;
    smol_keys_drop_paste();
    if (inserted)
        keep_paste(pastes[0] ? 1 : 0, text);
    else
        free(text);
    if (!inserted)
        say(too_long ? "a message of more than 1 MiB: paste less"
                     : "out of memory for what is pasted");
    return inserted ? CC_REFRESH : CC_NORM;
}

/* Compares the line with the pastes, because libedit does not report its edits. */
static struct line_origin find_origin(bool has_rows)
{
    const struct line_info *line = edit.line(edit.editor);
    const wchar_t *end = line->end;
    struct line_origin origin = {.recalled = has_rows && !pastes[0]};
    while (end > line->buffer && end[-1] == L'\n')
        end--;
    size_t length = (size_t)(end - line->buffer);
    for (int i = 0; i < 2 && pastes[i]; i++) {
        size_t n = wcslen(pastes[i]);
        while (n > 0 && pastes[i][n - 1] == L'\n')
            n--;
        if (n > 0 && n <= length && wmemcmp(line->buffer, pastes[i], n) == 0)
            origin.pasted_start = true;
        if (n > 0 && n <= length && wmemcmp(end - n, pastes[i], n) == 0)
            origin.pasted_end = true;
    }
    return origin;
}

/* Return the start and the end of the row that `place` is in. The end is after the row's last
 * character. */
static const wchar_t *row_start(const struct line_info *line, const wchar_t *place)
{
    while (place > line->buffer && place[-1] != L'\n')
        place--;
    return place;
}

static const wchar_t *row_end(const struct line_info *line, const wchar_t *place)
{
    while (place < line->end && *place != L'\n')
        place++;
    return place;
}

/* Moves the cursor to the same column of the row above (-1) or below (1). Returns false if there is
 * no such row. */
static bool move_to_row(int direction)
{
    const struct line_info *line = edit.line(edit.editor);
    const wchar_t *start = row_start(line, line->cursor), *end = row_end(line, line->cursor);
    size_t column = (size_t)(line->cursor - start);
    if (direction < 0 ? start == line->buffer : end == line->end)
        return false;
    start = direction < 0 ? row_start(line, start - 1) : end + 1;
    end = row_end(line, start);
    start = (size_t)(end - start) < column ? end : start + column;
    edit.move(edit.editor, (int)(start - line->cursor));
    return true;
}

/* Handles the keys for older (-1) and newer (1) history entries. Does nothing where libedit would
 * lose the new line: if the new line is longer than KEPT, or is already the newest. */
static unsigned char move_in_history(int direction)
{
    struct history_event event = {0};
    const struct line_info *line = edit.line(edit.editor);
    if (entries_back == 0 && (direction > 0 || line->end - line->buffer > KEPT))
        return CC_ERROR;
    edit.remember(edit.history, &event, H_GETSIZE);
    if (entries_back - direction <= event.number)
        entries_back -= direction;
    forget_pastes();
    edit.push(edit.editor, direction < 0 ? OLDER : NEWER);
    return CC_NORM;
}

static unsigned char go_up(void *editor, wint_t key)
{
    (void)editor, (void)key;
    return move_to_row(-1) ? CC_CURSOR : move_in_history(-1);
}

static unsigned char go_down(void *editor, wint_t key)
{
    (void)editor, (void)key;
    return move_to_row(1) ? CC_CURSOR : move_in_history(1);
}

/* --- characters --------------------------------------------------------------------------- */

/* Waits for input. Returns false after Ctrl-C. */
static bool wait_for_input(void)
{
    for (;;) {
        switch (smol_chat_wait()) {
        case WAKE_INPUT:
            return true;
        case WAKE_INTERRUPT:
            return false;
        case WAKE_RESIZE:
            draw_resized();
            break;
        case WAKE_STOP:
            stop_amid_line();
            break;
        case WAKE_CONTINUE:
            draw_continued();
        }
    }
}

/* Reads a character. Replaces libedit's own function, which would miss a Ctrl-C between two reads.
 * Invalid bytes become U+FFFD. After Ctrl-C, moves the cursor to the end of the line, as Ctrl-E
 * does, so that the whole line stays readable above the next prompt. */
static int read_character(void *editor, wchar_t *character)
{
    mbstate_t state = {0};
    char byte;
    (void)editor;
    int n = smol_keys_read(&byte, wait_for_input);
    if (n < 0) {
        *character = L'E' & 0x1f;
        return leaving ? -1 : (leaving = true);
    }
    size_t size = n ? mbrtowc(character, &byte, 1, &state) : 0;
    while (n > 0 && size == (size_t)-2) {
        n = smol_keys_read(&byte, wait_for_input);
        if (n > 0)
            size = mbrtowc(character, &byte, 1, &state);
    }
    if (size == (size_t)-1)
        *character = 0xfffd;
    return n;
}

/* --- opening ------------------------------------------------------------------------------ */

/* Uses the characters of the user's locale, or UTF-8 if the locale has another encoding. */
static void set_characters(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

static void bind_keys(void)
{
    static const wchar_t *const keys[][2] = {
        {L"\\e^E", L"ed-move-to-end"}, {L"^_", L"smol-paste"},       {L"\\e^_", L"smol-paste"},
        {L"^^p", L"ed-prev-history"},  {L"^^n", L"ed-next-history"}, {L"^P", L"smol-up"},
        {L"^N", L"smol-down"},         {L"\\e[A", L"smol-up"},       {L"\\e[B", L"smol-down"},
        {L"\\eOA", L"smol-up"},        {L"\\eOB", L"smol-down"},
    };
    edit.set_wide(edit.editor, EL_ADDFN, L"smol-paste", L"Insert what is pasted", insert_paste);
    edit.set_wide(edit.editor, EL_ADDFN, L"smol-up", L"Go up a row, or to older entries", go_up);
    edit.set_wide(edit.editor, EL_ADDFN, L"smol-down", L"Go down, or to newer entries", go_down);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        edit.set_wide(edit.editor, EL_BIND, keys[i][0], keys[i][1], NULL);
}

static void remember(const char *entry)
{
    struct history_event event;
    edit.remember(edit.history, &event, H_ENTER, entry);
}

bool smol_chat_editor_open(bool in_color)
{
    struct history_event event;
    colored = in_color;
    set_characters();
    if (tcgetattr(STDIN_FILENO, &own) || !open_libedit(&edit))
        return false;
    edit.remember(edit.history, &event, H_SETSIZE, HISTORY_ENTRIES);
    edit.set(edit.editor, EL_EDITOR, "emacs");
    edit.set(edit.editor, EL_HIST, edit.remember, edit.history);
    edit.set(edit.editor, EL_PROMPT_ESC, tell_prompt, '\1');
    edit.set_wide(edit.editor, EL_GETCFN, read_character);
    bind_keys();
    smol_chat_history_open(remember);
    return true;
}

void smol_chat_editor_close(void)
{
    if (taken)
        smol_chat_at_stop(smol_chat_stop);
    close_libedit(&edit);
    if (taken)
        return_terminal();
    smol_keys_drop_paste();
    forget_pastes();
    smol_chat_history_close();
}

/* --- reading ------------------------------------------------------------------------------ */

void smol_chat_editor_remember(const char *text, size_t size)
{
    struct buffer entry = {0};
    smol_buffer_add(&entry, text, size);
    smol_buffer_add(&entry, "", 1);
    if (size > 0 && !entry.failed) {
        remember(entry.text);
        smol_chat_history_add(text, size);
    }
    smol_free(entry.text);
}

bool smol_chat_editor_read(const char *with_prompt, struct buffer *text, struct line_origin *origin)
{
    int n = 0;
    prompt = with_prompt;
    leaving = false;
    forget_pastes();
    entries_back = 0;
    smol_keys_drop_paste(); /* left by a line that Ctrl-C ended */
    smol_chat_at_stop(NULL);
    take_terminal();
    prepare_for_line();
    const char *line = edit.gets(edit.editor, &n);
    smol_chat_at_stop(stop_at_once);
    if (!line || n <= 0)
        return false;
    while (n > 0 && line[n - 1] == '\n') /* a paste may end with some */
        n--;
    *origin = find_origin(memchr(line, '\n', (size_t)n));
    smol_buffer_add(text, line, (size_t)n);
    return true;
}
