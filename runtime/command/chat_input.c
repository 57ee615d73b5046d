/* Reading what the user types, see chat_input.h. */
#include "runtime/command/chat_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/command/chat_editor.h"
#include "runtime/command/chat_signals.h"
#include "runtime/command/lines.h"
#include "runtime/command/print.h"

static bool interactive, edited;
static struct lines lines; /* where they are not edited */

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
    return edited ? "lines are edited with libedit: arrows, Ctrl-R, a history"
                  : "lines are edited by the terminal alone: libedit is not there, or TERM is dumb";
}

/* --- lines -------------------------------------------------------------------------------- */

static enum entry too_long(smol_error *error)
{
    smol_command_fail(error, SMOL_ERROR_USAGE, "a message of more than %d MiB: give less",
                      MAX_MESSAGE >> 20);
    return ENTRY_FAILED;
}

/* The next line; at a terminal LINE_LATER after Ctrl-C. */
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
        smol_buffer_add(text, line.text, line.size);
        return ENTRY_TEXT;
    }
    /* what was typed of a line is dropped; and a terminal may go on behind its end */
    if (interactive)
        lines = (struct lines){.buffer = lines.buffer};
    return line.kind == LINE_LATER ? ENTRY_INTERRUPTED : ENTRY_END;
}

static enum entry read_edited(const char *prompt, struct buffer *text)
{
    if (smol_chat_editor_read(prompt, text))
        return ENTRY_TEXT;
    return smol_chat_interrupted() ? ENTRY_INTERRUPTED : ENTRY_END;
}

/* Adds a line to *text, without its end. */
static enum entry read_line(const char *prompt, struct buffer *text, smol_error *error)
{
    if (interactive)
        smol_chat_catch_signals(false);
    enum entry entry = edited ? read_edited(prompt, text) : read_plain(prompt, text, error);
    if (interactive && entry != ENTRY_TEXT)
        putchar('\n');
    if (text->failed) {
        smol_command_fail(error, SMOL_ERROR_MEMORY, "out of memory for a message");
        return ENTRY_FAILED;
    }
    return entry == ENTRY_TEXT && text->size > MAX_MESSAGE ? too_long(error) : entry;
}

/* --- messages ----------------------------------------------------------------------------- */

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
        entry = read_line(". ", text, error);
    }
    if (entry == ENTRY_TEXT)
        text->size -= N_QUOTES;
    else if (entry == ENTRY_END)
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
    enum entry entry = read_line("> ", text, error);
    if (entry == ENTRY_TEXT && text->size >= N_QUOTES && memcmp(text->text, quotes, N_QUOTES) == 0)
        return read_block(text, error);
    while (entry == ENTRY_TEXT && text->size > 0 && text->text[text->size - 1] == '\\') {
        text->text[text->size - 1] = '\n';
        entry = read_line(". ", text, error);
        if (entry == ENTRY_END)
            return ENTRY_TEXT;
    }
    return entry;
}
