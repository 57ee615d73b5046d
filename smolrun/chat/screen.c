/* Text output with line breaks between words, see screen.h. */
#include "smolrun/chat/screen.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/terminal.h"
#include "cli/text.h"
#include "smolrun/chat/entry.h"

/* The terminal's current line. Spaces are held back until a word follows them in the same line. A
 * word is held back until it ends or reaches the edge, except at the start of a line, where it
 * stays in any case. */
static struct {
    size_t columns; /* of the terminal */
    size_t column;  /* of the cursor; `columns` after the last character that fits */
    char gap[64];   /* (gap_size) spaces and tabs before the word */
    size_t gap_size;
    char word[256]; /* (size) */
    size_t size, width;
    bool is_wide; /* the word's last character is two columns wide: a line may break around it */
    bool started; /* a part of the word is on the screen: the rest is printed at once */
} line;

static void move_cursor(size_t width)
{
    line.column = line.column + width > line.columns ? width : line.column + width;
}

/* Returns the number of columns that the gap takes from the cursor on. */
static size_t gap_width(void)
{
    size_t column = line.column;
    for (size_t i = 0; i < line.gap_size; i++)
        column += line.gap[i] == '\t' ? 8 - column % 8 : 1;
    return column - line.column;
}

static void print_gap(void)
{
    move_cursor(gap_width());
    smol_terminal_print(line.gap, line.gap_size);
    line.gap_size = 0;
}

static bool fits(void)
{
    return line.column + gap_width() + line.width <= line.columns;
}

/* Prints the word so far. If a new word does not fit in this line, begins it in the next line. The
 * terminal breaks a word that is longer than a line. */
static void print_word(void)
{
    if (line.size == 0)
        return;
    if (line.column > 0 && !line.started && !fits()) {
        putchar('\n');
        line.column = line.gap_size = 0;
    }
    print_gap();
    smol_terminal_print(line.word, line.size);
    move_cursor(line.width);
    line.size = line.width = 0;
}

static void start_word(void)
{
    print_word();
    line.started = true;
}

static void end_word(void)
{
    print_word();
    line.started = false;
}

static void add_space(char space)
{
    end_word();
    if (line.gap_size == sizeof line.gap)
        print_gap();
    line.gap[line.gap_size++] = space;
}

static void add_character(const char *text, size_t size, size_t width)
{
    if (width == 2 || (width > 0 && line.is_wide))
        end_word();
    if (width > 0)
        line.is_wide = width == 2;
    if (line.size + size > sizeof line.word)
        start_word();
    memcpy(line.word + line.size, text, size);
    line.size += size;
    line.width += width;
    if (line.started || line.column + line.gap_size == 0 || !fits())
        start_word();
}

static size_t width_of(uint32_t character)
{
    /* controls are shown as U+FFFD */
    return utf8_is_control(character) ? 1 : smol_terminal_width(character);
}

void smol_screen_print(const char *text, size_t size)
{
    line.columns = smol_terminal_columns(STDOUT_FILENO);
    if (!smol_chat_is_interactive() || line.columns == SIZE_MAX) {
        smol_terminal_print(text, size);
        return;
    }
    for (size_t i = 0, length; i < size; i += length) {
        uint32_t character;
        length = smol_utf8_decode((const uint8_t *)text + i, size - i, &character);
        if (character == ' ' || character == '\t') {
            add_space(text[i]);
        } else if (character == '\n') {
            smol_screen_end();
        } else {
            add_character(text + i, length, width_of(character));
        }
    }
}

void smol_screen_end(void)
{
    end_word();
    line.gap_size = line.column = 0;
    line.is_wide = false;
    putchar('\n');
}

/* --- conversations ------------------------------------------------------------------------ */

enum { SHORTENED = 2000 }; /* bytes shown of a long message */

/* Prints a message as it was typed: the first line after "> ", the others after ". ". */
static void show_question(const char *text, size_t size)
{
    for (const char *mark = "> ";; mark = ". ") {
        const char *end = size ? memchr(text, '\n', size) : NULL;
        size_t length = end ? (size_t)(end - text) : size;
        smol_screen_print(mark, strlen(mark));
        smol_screen_print(text, length);
        smol_screen_end();
        if (!end)
            return;
        text = end + 1;
        size -= length + 1;
    }
}

static void show_message(const struct message *message, bool shortened)
{
    const char *text = message->text;
    size_t size = message->size;
    if (shortened && size > SHORTENED) {
        text += size - SHORTENED;
        size = SHORTENED;
        while (size > 0 && utf8_continues((uint8_t)*text)) /* inside a character */
            text++, size--;
        puts("[...]");
    }
    if (message->role == ROLE_SYSTEM)
        puts("[system]");
    if (message->role == ROLE_USER) {
        show_question(text, size);
    } else {
        smol_screen_print(text, size);
        smol_screen_end();
    }
}

void smol_screen_show(const struct conversation *conversation, size_t n_messages, bool shortened)
{
    size_t first = n_messages < conversation->n ? conversation->n - n_messages : 0;
    for (size_t i = first; i < conversation->n; i++)
        show_message(&conversation->messages[i], shortened);
}
