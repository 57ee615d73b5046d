/* Arguments of calls as JSON, see arguments.h. */
#include "runtime/arguments.h"

#include <string.h>

#include "common/json_reader.h"
#include "common/memory.h"
#include "common/text.h"
#include "runtime/constrain/spelling.h"

/* Appends text within a string of JSON. */
static void add_escaped(struct buffer *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if ((unsigned char)c < 0x20)
            smol_buffer_print(out, "\\u%04x", (unsigned)c);
        else if (c == '"' || c == '\\')
            smol_buffer_print(out, "\\%c", c);
        else
            smol_buffer_add(out, &c, 1);
    }
}

static char innermost(const struct argument_reader *r)
{
    return r->open.size > 0 ? r->open.text[r->open.size - 1] : '\0';
}

/* The place before a member or an element. */
static enum argument_place before_next(const struct argument_reader *r)
{
    return innermost(r) == '{' ? ARGUMENT_KEY : ARGUMENT_VALUE;
}

static void open_bracket(struct argument_reader *r, char bracket, struct buffer *out)
{
    smol_buffer_add(&r->open, &bracket, 1);
    smol_buffer_add(out, &bracket, 1);
    r->place = before_next(r);
}

/* Reads a bracket that closes the innermost one. */
static enum argument_step close_bracket(struct argument_reader *r, char c, struct buffer *out)
{
    bool arguments = r->open.size == 1 && r->texts->syntax == ARGUMENTS_PYTHON;
    bool object = innermost(r) == '{';
    if (r->open.size == 0 || c != (arguments ? ')' : object ? '}' : ']'))
        return ARGUMENTS_WRONG;
    smol_buffer_add(out, object ? "}" : "]", 1);
    r->open.size--;
    r->place = ARGUMENT_AFTER;
    return r->open.size == 0 ? ARGUMENTS_END : ARGUMENTS_CONTINUE;
}

static enum argument_step key_byte(struct argument_reader *r, char c, struct buffer *out)
{
    bool empty = r->held.size == 0;
    if (empty && json_is_space(c))
        return ARGUMENTS_CONTINUE;
    if (empty && c == ',')
        return ARGUMENTS_WRONG;
    if (empty && (c == '}' || c == ')'))
        return close_bracket(r, c, out);
    if (empty && c == '"' && r->texts->syntax == ARGUMENTS_PYTHON) {
        r->place = ARGUMENT_STRING;
        r->is_key = true;
        smol_buffer_add(out, "\"", 1);
        return ARGUMENTS_CONTINUE;
    }
    if (c != (r->texts->syntax == ARGUMENTS_PYTHON ? '=' : ':')) {
        smol_buffer_add(&r->held, &c, 1);
        return ARGUMENTS_CONTINUE;
    }
    smol_buffer_add(out, "\"", 1);
    add_escaped(out, r->held.text, r->held.size);
    smol_buffer_add(out, "\": ", 3);
    buffer_clear(&r->held);
    r->place = ARGUMENT_VALUE;
    return ARGUMENTS_CONTINUE;
}

static void begin_string(struct argument_reader *r, struct buffer *out)
{
    buffer_clear(&r->held);
    r->escaped = r->is_key = false;
    r->place = ARGUMENT_STRING;
    smol_buffer_add(out, "\"", 1);
}

static void quote_byte(struct argument_reader *r, char c, struct buffer *out)
{
    smol_buffer_add(&r->held, &c, 1);
    if (r->held.size == strlen(r->texts->quote))
        begin_string(r, out);
}

static enum argument_step value_byte(struct argument_reader *r, char c, struct buffer *out)
{
    if (json_is_space(c))
        return ARGUMENTS_CONTINUE;
    if (c == '{' || c == '[')
        open_bracket(r, c, out);
    else if (c == ']')
        return close_bracket(r, c, out);
    else if (c == ',' || c == '}' || c == ')')
        return ARGUMENTS_WRONG;
    else if (c == r->texts->quote[0])
        r->place = ARGUMENT_QUOTE, quote_byte(r, c, out);
    else
        r->place = ARGUMENT_WORD, smol_buffer_add(&r->held, &c, 1);
    return ARGUMENTS_CONTINUE;
}

/* Appends a number, or a word as JSON writes it; as a string, if it is neither. */
static void add_word(const struct buffer *word, struct buffer *out)
{
    const struct json_text text = {word->text, word->size};
    const char *known = smol_spelling_find_word(text);
    if (known) {
        smol_buffer_add(out, known, strlen(known));
    } else if (smol_spelling_is_value(text)) {
        smol_buffer_add(out, text.at, text.size);
    } else {
        smol_buffer_add(out, "\"", 1);
        add_escaped(out, text.at, text.size);
        smol_buffer_add(out, "\"", 1);
    }
}

static void string_byte(struct argument_reader *r, char c, struct buffer *out)
{
    const char *quote = r->quote;
    size_t n = strlen(quote);
    struct buffer *held = &r->held;
    if (r->texts->syntax == ARGUMENTS_PYTHON) {
        smol_buffer_add(out, &c, 1);
        if (c == '"' && !r->escaped)
            r->place = ARGUMENT_AFTER;
        r->escaped = c == '\\' && !r->escaped;
        return;
    }
    smol_buffer_add(held, &c, 1);
    size_t keep = smol_buffer_overlap(held, quote);
    add_escaped(out, held->text, held->size - keep);
    smol_buffer_keep_last(held, keep);
    if (keep < n)
        return;
    smol_buffer_add(out, "\"", 1);
    buffer_clear(held);
    r->place = r->texts->syntax != ARGUMENTS_XML ? ARGUMENT_AFTER
               : quote == r->texts->quote        ? ARGUMENT_TAG
                                                 : ARGUMENT_CLOSE;
}

static enum argument_step after_byte(struct argument_reader *r, char c, struct buffer *out)
{
    if (json_is_space(c))
        return ARGUMENTS_CONTINUE;
    if (r->is_key) {
        r->is_key = false;
        r->place = ARGUMENT_VALUE;
        smol_buffer_add(out, ": ", 2);
        return c == ':' ? ARGUMENTS_CONTINUE : ARGUMENTS_WRONG;
    }
    if (c != ',')
        return close_bracket(r, c, out);
    smol_buffer_add(out, ", ", 2);
    r->place = before_next(r);
    return ARGUMENTS_CONTINUE;
}

/* --- XML -------------------------------------------------------------------------------------- */

static enum argument_step tag_byte(struct argument_reader *r, char c, struct buffer *out)
{
    static const char end[] = "</function>";
    const char *key = r->texts->key;
    struct buffer *held = &r->held;
    if (held->size == 0 && json_is_space(c))
        return ARGUMENTS_CONTINUE;
    smol_buffer_add(held, &c, 1);
    size_t n = held->size, n_key = strlen(key);
    bool may_end = n < sizeof end && memcmp(held->text, end, n) == 0;
    if (!may_end && !(n <= n_key && memcmp(held->text, key, n) == 0))
        return ARGUMENTS_WRONG;
    if (may_end && n == sizeof end - 1) {
        smol_buffer_add(out, "}", 1);
        return ARGUMENTS_END;
    }
    if (!may_end && n == n_key) {
        r->place = ARGUMENT_NAME;
        buffer_clear(held);
    }
    return ARGUMENTS_CONTINUE;
}

static void begin_value(struct argument_reader *r, struct buffer *out)
{
    r->quote = r->texts->quote;
    r->quoted = r->escaped = false;
    r->place = ARGUMENT_TEXT;
    if (r->is_string)
        begin_string(r, out);
}

static void name_byte(struct argument_reader *r, char c, struct buffer *out)
{
    struct buffer *held = &r->held;
    smol_buffer_add(held, &c, 1);
    if (!bytes_end_with(held->text, held->size, r->texts->key_end))
        return;
    held->size -= strlen(r->texts->key_end);
    r->is_string = smol_spelling_is_string(r->schema, (struct json_text){held->text, held->size});
    if (!r->is_first)
        smol_buffer_add(out, ", ", 2);
    smol_buffer_add(out, "\"", 1);
    add_escaped(out, held->text, held->size);
    smol_buffer_add(out, "\": ", 3);
    buffer_clear(held);
    r->is_first = false;
    if (r->texts->cdata)
        r->place = ARGUMENT_START;
    else
        begin_value(r, out);
}

/* Reads a value that may turn out to be a string when it ends. In a list or an object, what would
 * end it may be in a string. */
static void text_byte(struct argument_reader *r, char c, struct buffer *out)
{
    struct buffer *held = &r->held;
    smol_buffer_add(held, &c, 1);
    if (r->texts->cdata && held->size > 0 && strchr("[{", held->text[0])) {
        r->quoted ^= c == '"' && !r->escaped;
        r->escaped = r->quoted && c == '\\' && !r->escaped;
    }
    if (r->quoted || !bytes_end_with(held->text, held->size, r->texts->quote))
        return;
    held->size -= strlen(r->texts->quote);
    add_word(held, out);
    buffer_clear(held);
    r->place = ARGUMENT_TAG;
}

/* Reads what may begin a section: without it, it begins the value. */
static void start_byte(struct argument_reader *r, char c, struct buffer *out)
{
    char start[sizeof CDATA_OPEN];
    smol_buffer_add(&r->held, &c, 1);
    size_t n = r->held.size;
    bool may_open = n == 0 || memcmp(r->held.text, CDATA_OPEN, n) == 0;
    if (may_open && n == sizeof CDATA_OPEN - 1) {
        r->quote = CDATA_CLOSE;
        begin_string(r, out);
    }
    if (may_open)
        return;
    memcpy(start, r->held.text, n);
    buffer_clear(&r->held);
    begin_value(r, out);
    for (size_t i = 0; i < n; i++)
        r->is_string ? string_byte(r, start[i], out) : text_byte(r, start[i], out);
}

static enum argument_step close_byte(struct argument_reader *r, char c)
{
    const char *quote = r->texts->quote;
    if (c != quote[r->held.size])
        return ARGUMENTS_WRONG;
    smol_buffer_add(&r->held, &c, 1);
    if (r->held.size == strlen(quote)) {
        buffer_clear(&r->held);
        r->place = ARGUMENT_TAG;
    }
    return ARGUMENTS_CONTINUE;
}

/* --- entry ------------------------------------------------------------------------------------ */

enum argument_step smol_arguments_byte(struct argument_reader *r, char c, struct buffer *out)
{
    switch (r->place) {
    case ARGUMENT_KEY:
        return key_byte(r, c, out);
    case ARGUMENT_VALUE:
        return value_byte(r, c, out);
    case ARGUMENT_WORD:
        if (!json_is_space(c) && !strchr(",]})", c)) {
            smol_buffer_add(&r->held, &c, 1);
            break;
        }
        add_word(&r->held, out);
        buffer_clear(&r->held);
        r->place = ARGUMENT_AFTER;
        return after_byte(r, c, out);
    case ARGUMENT_QUOTE:
        quote_byte(r, c, out);
        break;
    case ARGUMENT_STRING:
        string_byte(r, c, out);
        break;
    case ARGUMENT_TAG:
        return tag_byte(r, c, out);
    case ARGUMENT_NAME:
        name_byte(r, c, out);
        break;
    case ARGUMENT_START:
        start_byte(r, c, out);
        break;
    case ARGUMENT_TEXT:
        text_byte(r, c, out);
        break;
    case ARGUMENT_CLOSE:
        return close_byte(r, c);
    case ARGUMENT_AFTER:
        return after_byte(r, c, out);
    }
    return ARGUMENTS_CONTINUE;
}

void smol_arguments_begin(struct argument_reader *r, const struct tool_style_texts *texts,
                          const struct json_node *schema, struct buffer *out)
{
    r->texts = texts;
    r->schema = schema;
    r->is_first = true;
    r->is_key = r->escaped = false;
    r->quote = texts->quote;
    buffer_clear(&r->open);
    buffer_clear(&r->held);
    open_bracket(r, '{', out);
    if (texts->syntax == ARGUMENTS_XML)
        r->place = ARGUMENT_TAG;
}

void smol_arguments_free(struct argument_reader *r)
{
    smol_free(r->open.text);
    smol_free(r->held.text);
}
