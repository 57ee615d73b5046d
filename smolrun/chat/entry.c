/* User input, see entry.h. */
#include "smolrun/chat/entry.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/print.h"
#include "smolrun/chat/editor.h"
#include "smolrun/chat/keys.h"
#include "smolrun/chat/signals.h"
#include "smolrun/lines.h"

static bool interactive, edited;
static struct lines lines;        /* without line editing */
static struct line_origin origin; /* of the last line */

/* --- opening ------------------------------------------------------------------------------ */

void smol_chat_input_open(void)
{
    const char *terminal = getenv("TERM"), *no_color = getenv("NO_COLOR");
    bool capable = terminal && terminal[0] && strcmp(terminal, "dumb") != 0;
    interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    edited = interactive && capable && smol_chat_editor_open(!(no_color && no_color[0]));
}

void smol_chat_input_close(void)
{
    smol_chat_editor_close();
    free(lines.buffer);
}

bool smol_chat_is_interactive(void)
{
    return interactive;
}

const char *smol_chat_editing(void)
{
    if (!interactive)
        return "lines are read from a pipe or file";
    if (edited)
        return "lines are edited with libedit: arrows, Ctrl-R, a history; several may be pasted";
    return "lines are edited by the terminal alone: libedit is not installed, or TERM is dumb";
}

/* --- lines -------------------------------------------------------------------------------- */

static enum entry too_long(smol_error *error)
{
    smol_fail(error, SMOL_ERROR_USAGE, "a message of more than %d MiB: shorten it",
              MAX_MESSAGE >> 20);
    return ENTRY_FAILED;
}

static enum entry out_of_memory(smol_error *error)
{
    smol_fail_memory(error, "a message");
    return ENTRY_FAILED;
}

/* Reads the next line. At a terminal, its kind is LINE_LATER after Ctrl-C. */
static smol_status next_line(struct line *line, smol_error *error)
{
    smol_status status;
    do
        status = smol_lines_next(&lines, !interactive, line, error);
    while (!status && line->kind == LINE_LATER && smol_chat_wait() != WAKE_INTERRUPT);
    return status;
}

static enum entry read_plain(const char *prompt, struct buffer *text, smol_error *error)
{
    struct line line;
    if (interactive) {
        fputs(prompt, stdout);
        fflush(stdout);
        smol_chat_catch_signals(true);
    }
    smol_status status = next_line(&line, error);
    if (interactive)
        smol_chat_catch_signals(false);
    if (status)
        return ENTRY_FAILED;
    if (line.kind == LINE_TOO_LONG)
        return too_long(error);
    if (line.kind == LINE_TEXT) {
        origin = (struct line_origin){0};
        smol_buffer_add(text, line.text, line.size);
        return ENTRY_TEXT;
    }
    /* drops an unfinished line; a terminal can continue after an end of input */
    if (interactive)
        lines = (struct lines){.buffer = lines.buffer};
    return line.kind == LINE_LATER ? ENTRY_INTERRUPTED : ENTRY_END;
}

static enum entry read_edited(const char *prompt, struct buffer *text)
{
    if (smol_chat_editor_read(prompt, text, &origin))
        return ENTRY_TEXT;
    return smol_chat_interrupted() ? ENTRY_INTERRUPTED : ENTRY_END;
}

/* Doubles the slash at the start of a message, so that it is not a command (take_message). */
static void add_slash(struct buffer *text)
{
    smol_buffer_add(text, "/", 1);
    if (!text->failed)
        memmove(text->text + 1, text->text, text->size - 1);
    if (!text->failed)
        text->text[0] = '/';
}

/* Appends a line to *text, without its line end. */
static enum entry read_line(const char *prompt, struct buffer *text, smol_error *error)
{
    size_t start = text->size;
    if (interactive)
        smol_chat_catch_signals(false);
    enum entry entry = edited ? read_edited(prompt, text) : read_plain(prompt, text, error);
    if (interactive && entry != ENTRY_TEXT)
        putchar('\n');
    if (start == 0 && text->size > 0 && text->text[0] == '/' && origin.pasted_start)
        add_slash(text); /* a paste is not a command */
    if (text->failed)
        return out_of_memory(error);
    if (edited && entry == ENTRY_TEXT)
        smol_chat_editor_remember(text->text + start, text->size - start);
    return entry;
}

/* --- messages ----------------------------------------------------------------------------- */

static const char quotes[] = "\"\"\"";
enum { N_QUOTES = sizeof quotes - 1 };

/* Returns whether the end of the line is text, even if it looks like quotes or a backslash. */
static bool has_text_end(void)
{
    return origin.pasted_end || origin.recalled;
}

/* Returns whether text[from, size) ends with the closing quotes of a block, typed by hand. */
static bool ends_with_quotes(const struct buffer *text, size_t from)
{
    return text->size >= from + N_QUOTES && !has_text_end() &&
           memcmp(text->text + text->size - N_QUOTES, quotes, N_QUOTES) == 0;
}

static bool begins_with_quotes(const struct buffer *text)
{
    return text->size >= N_QUOTES && !origin.pasted_start && !origin.recalled &&
           memcmp(text->text, quotes, N_QUOTES) == 0;
}

static bool ends_with_backslash(const struct buffer *text)
{
    return text->size > 0 && !has_text_end() && text->text[text->size - 1] == '\\';
}

static void strip_newlines(struct buffer *text)
{
    size_t first = 0;
    while (first < text->size && text->text[first] == '\n')
        first++;
    text->size -= first;
    memmove(text->text, text->text + first, text->size);
    while (text->size > 0 && text->text[text->size - 1] == '\n')
        text->size--;
}

/* Reads a block up to its closing quotes; *text begins with the opening quotes. A block is text,
 * even if it begins with a slash. At a terminal, a block that is too long is read to its end,
 * because its lines are not messages. */
static enum entry read_block(struct buffer *text, smol_error *error)
{
    enum entry entry = ENTRY_TEXT;
    bool fits = true;
    size_t start = 0; /* of the line */
    text->size -= N_QUOTES;
    memmove(text->text, text->text + N_QUOTES, text->size);
    while (entry == ENTRY_TEXT) {
        fits = fits && text->size <= MAX_MESSAGE;
        if (ends_with_quotes(text, start) || (!fits && !interactive))
            break;
        if (!fits)
            text->size = 0;
        smol_buffer_add(text, "\n", 1);
        start = text->size;
        entry = read_line(". ", text, error);
    }
    if (!fits && (entry == ENTRY_TEXT || entry == ENTRY_END))
        return too_long(error);
    if (entry == ENTRY_TEXT)
        text->size -= N_QUOTES;
    else if (entry == ENTRY_END)
        entry = ENTRY_TEXT; /* the block so far */
    strip_newlines(text);
    if (text->size > 0 && text->text[0] == '/')
        add_slash(text);
    return entry;
}

/* Reads the lines that continue a line with a backslash at its end. Treats a message that is too
 * long as read_block does. */
static enum entry read_continued(struct buffer *text, smol_error *error)
{
    enum entry entry = ENTRY_TEXT;
    bool fits = text->size <= MAX_MESSAGE;
    while (entry == ENTRY_TEXT && ends_with_backslash(text) && (fits || interactive)) {
        if (!fits)
            text->size = 1;
        text->text[text->size - 1] = '\n';
        entry = read_line(". ", text, error);
        fits = fits && text->size <= MAX_MESSAGE;
    }
    if (!fits && (entry == ENTRY_TEXT || entry == ENTRY_END))
        return too_long(error);
    return entry == ENTRY_END ? ENTRY_TEXT : entry;
}

enum entry smol_chat_read(struct buffer *text, smol_error *error)
{
    text->size = 0;
    enum entry entry = read_line("> ", text, error);
    if (entry != ENTRY_TEXT)
        return entry;
    entry = begins_with_quotes(text) ? read_block(text, error) : read_continued(text, error);
    return text->failed ? out_of_memory(error) : entry;
}

void smol_chat_read_ahead(void)
{
    if (edited)
        smol_keys_make_room();
}
