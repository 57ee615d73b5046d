/* A JSON reader (RFC 8259), see template_json.h. */
#include "runtime/template/template_json.h"

#include <string.h>

#include "common/utf8.h"
#include "runtime/template/template_text.h"

struct reader {
    struct machine *machine;
    const char *name;
    const uint8_t *text;
    size_t size, at;
    unsigned depth;
};

static bool fail(struct reader *reader, const char *what)
{
    return smol_template_fail(reader->machine, SMOL_ERROR_USAGE,
                              "%s: not valid JSON: %s (byte %zu)", reader->name, what, reader->at);
}

static int peek(const struct reader *reader)
{
    return reader->at < reader->size ? reader->text[reader->at] : -1;
}

static void skip_space(struct reader *reader)
{
    int c;
    while ((c = peek(reader)) == ' ' || c == '\t' || c == '\n' || c == '\r')
        reader->at++;
}

/* --- texts -------------------------------------------------------------------------------- */

static bool read_hex(struct reader *reader, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++, reader->at++) {
        int c = peek(reader);
        int digit = c >= '0' && c <= '9'                     ? c - '0'
                    : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                             : -1;
        if (c < 0 || digit < 0)
            return fail(reader, "four hexadecimal digits are due");
        *unit = *unit << 4 | (uint32_t)digit;
    }
    return true;
}

/* Behind "\u"; a pair of surrogates is one character, half a pair is none. */
static bool read_unicode(struct reader *reader, uint32_t *code_point)
{
    uint32_t low;
    if (!read_hex(reader, code_point))
        return false;
    if (*code_point < 0xd800 || *code_point >= 0xe000)
        return true;
    if (*code_point >= 0xdc00 || reader->size - reader->at < 2 ||
        memcmp(reader->text + reader->at, "\\u", 2) != 0)
        return fail(reader, "half a surrogate pair");
    reader->at += 2;
    if (!read_hex(reader, &low))
        return false;
    if (low < 0xdc00 || low >= 0xe000)
        return fail(reader, "half a surrogate pair");
    *code_point = 0x10000 + ((*code_point - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static bool read_escape(struct reader *reader, struct text_builder *builder)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(reader);
    uint32_t code_point;
    const char *found = c > 0 ? strchr(from, c) : NULL;
    reader->at++;
    if (c == 'u') {
        if (!read_unicode(reader, &code_point))
            return false;
    } else if (found) {
        code_point = (uint8_t)to[found - from];
    } else {
        return fail(reader, "an unknown escape");
    }
    return smol_builder_add_code_point(reader->machine, builder, code_point, true);
}

/* From `start` to the quote, none of which needs another form: shared with the caller's text. */
static struct value shared_text(const struct reader *reader, size_t start)
{
    struct value text = value_text(reader->text + start, reader->at - start);
    text.argument = 1;
    return text;
}

static bool read_text(struct reader *reader, struct value *value)
{
    struct text_builder builder = {0};
    size_t start = ++reader->at;
    for (;; reader->at++) {
        int c = peek(reader);
        if (c < 0x20)
            return fail(reader, c < 0 ? "a text without an end" : "a control character in a text");
        if (c != '"' && c != '\\')
            continue;
        if (c == '"' && builder.n == 0)
            break;
        if (!smol_builder_add(reader->machine, &builder, reader->text + start, reader->at - start,
                              true))
            return false;
        if (c == '"')
            break;
        reader->at++;
        if (!read_escape(reader, &builder))
            return false;
        start = reader->at--;
    }
    *value = builder.n == 0 ? shared_text(reader, start) : smol_builder_text(&builder);
    reader->at++;
    return smol_template_step(reader->machine, value->n);
}

/* --- numbers ------------------------------------------------------------------------------ */

static size_t skip_digits(struct reader *reader)
{
    size_t start = reader->at;
    while (peek(reader) >= '0' && peek(reader) <= '9')
        reader->at++;
    return reader->at - start;
}

/* A number that begins at `start`. */
static bool refuse(struct reader *reader, size_t start, const char *what)
{
    return smol_template_fail(reader->machine, SMOL_ERROR_UNSUPPORTED,
                              "%s: %s is not supported (byte %zu)", reader->name, what, start);
}

static bool read_integer(struct reader *reader, size_t start, struct value *value)
{
    bool negative = reader->text[start] == '-';
    int64_t number = 0;
    for (size_t i = start + negative; i < reader->at; i++) {
        int digit = reader->text[i] - '0';
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_sub_overflow(number, digit, &number)) /* below zero there is one more */
            return refuse(reader, start, "an integer beyond 64 bits, one of them its sign,");
    }
    if (!negative && number == INT64_MIN)
        return refuse(reader, start, "an integer beyond 64 bits, one of them its sign,");
    *value = value_integer(negative ? number : -number);
    return true;
}

static bool read_real(struct reader *reader, size_t start, struct value *value)
{
    bool whole;
    size_t n = reader->at - start;
    if (n > TEXT_REAL)
        return refuse(reader, start, "a number of more than 63 characters");
    double real = smol_text_read_real(reader->text + start, n, &whole);
    if (real - real != 0)
        return refuse(reader, start, "a number beyond a double's range");
    *value = value_real(real);
    return true;
}

static bool read_number(struct reader *reader, struct value *value)
{
    size_t start = reader->at;
    bool real = false;
    reader->at += peek(reader) == '-';
    bool zero = peek(reader) == '0';
    size_t n = skip_digits(reader);
    if (n == 0 || (zero && n > 1))
        return fail(reader, "a value is due");
    if (peek(reader) == '.') {
        real = true;
        reader->at++;
        if (skip_digits(reader) == 0)
            return fail(reader, "a digit is due");
    }
    if (peek(reader) == 'e' || peek(reader) == 'E') {
        real = true;
        reader->at++;
        reader->at += peek(reader) == '+' || peek(reader) == '-';
        if (skip_digits(reader) == 0)
            return fail(reader, "a digit is due");
    }
    return real ? read_real(reader, start, value) : read_integer(reader, start, value);
}

/* --- lists and objects -------------------------------------------------------------------- */

/* Values that gather, `each` at a time. */
struct gathered {
    struct value *items;
    uint32_t n, capacity;
};

static bool gather(struct reader *reader, struct gathered *list, const struct value *values,
                   uint32_t each)
{
    if (list->capacity - list->n < each) {
        uint32_t capacity = list->capacity ? list->capacity * 2 : 8;
        struct value *items = smol_template_alloc(reader->machine, capacity, sizeof *items);
        if (!items)
            return false;
        if (list->n > 0)
            memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    memcpy(list->items + list->n, values, each * sizeof *values);
    list->n += each;
    return true;
}

static bool read_value(struct reader *reader, struct value *value);

/* "," or the bracket that closes, which ends it; anything else is no JSON. */
static bool read_separator(struct reader *reader, int close, bool *more)
{
    skip_space(reader);
    int c = peek(reader);
    if (c != ',' && c != close)
        return fail(reader, close == ']' ? "a comma or ] is due" : "a comma or } is due");
    reader->at++;
    *more = c == ',';
    return true;
}

static bool read_list(struct reader *reader, struct value *value)
{
    struct gathered list = {0};
    bool more = true;
    reader->at++;
    skip_space(reader);
    if (peek(reader) == ']') {
        reader->at++;
        more = false;
    }
    while (more) {
        struct value item;
        if (!read_value(reader, &item) || !gather(reader, &list, &item, 1) ||
            !read_separator(reader, ']', &more))
            return false;
    }
    *value = value_items(VALUE_LIST, list.items, list.n);
    return true;
}

static bool read_member(struct reader *reader, struct gathered *list)
{
    struct value pair[2];
    const struct value *found;
    skip_space(reader);
    if (peek(reader) != '"')
        return fail(reader, "a member's name is due");
    if (!read_text(reader, &pair[0]))
        return false;
    skip_space(reader);
    if (peek(reader) != ':')
        return fail(reader, "a colon is due");
    reader->at++;
    struct value so_far = value_items(VALUE_DICT, list->items, list->n / 2);
    if (!read_value(reader, &pair[1]) ||
        !smol_dict_find(reader->machine, &so_far, &pair[0], &found))
        return false;
    if (found) {
        list->items[found - list->items] = pair[1];
        return true;
    }
    if (list->n / 2 == TEMPLATE_MAX_MEMBERS)
        return smol_template_fail(reader->machine, SMOL_ERROR_UNSUPPORTED,
                                  "%s: an object of more than %d members", reader->name,
                                  TEMPLATE_MAX_MEMBERS);
    return gather(reader, list, pair, 2);
}

static bool read_object(struct reader *reader, struct value *value)
{
    struct gathered list = {0};
    bool more = true;
    reader->at++;
    skip_space(reader);
    if (peek(reader) == '}') {
        reader->at++;
        more = false;
    }
    while (more)
        if (!read_member(reader, &list) || !read_separator(reader, '}', &more))
            return false;
    *value = value_items(VALUE_DICT, list.items, list.n / 2);
    return true;
}

static bool read_word(struct reader *reader, const char *word, struct value is, struct value *value)
{
    size_t n = strlen(word);
    if (reader->size - reader->at < n || memcmp(reader->text + reader->at, word, n) != 0)
        return fail(reader, "a value is due");
    reader->at += n;
    *value = is;
    return true;
}

static bool read_nested(struct reader *reader, struct value *value)
{
    if (++reader->depth > TEMPLATE_MAX_DEPTH - 8) /* room for what a template puts around it */
        return smol_template_fail(reader->machine, SMOL_ERROR_UNSUPPORTED,
                                  "%s: more than %d lists or objects within each other",
                                  reader->name, TEMPLATE_MAX_DEPTH - 8);
    bool good = peek(reader) == '[' ? read_list(reader, value) : read_object(reader, value);
    reader->depth--;
    return good;
}

static bool read_value(struct reader *reader, struct value *value)
{
    if (!smol_template_step(reader->machine, 0))
        return false;
    skip_space(reader);
    switch (peek(reader)) {
    case '"':
        return read_text(reader, value);
    case '[':
    case '{':
        return read_nested(reader, value);
    case 't':
        return read_word(reader, "true", value_boolean(true), value);
    case 'f':
        return read_word(reader, "false", value_boolean(false), value);
    case 'n':
        return read_word(reader, "null", value_none(), value);
    default:
        return read_number(reader, value);
    }
}

static bool begin(struct reader *reader, struct machine *machine, const char *name,
                  const char *text, size_t size)
{
    *reader = (struct reader){machine, name, (const uint8_t *)text, size, 0, 0};
    if (size > TEMPLATE_MEMORY)
        return smol_template_fail(machine, SMOL_ERROR_UNSUPPORTED, "%s: longer than %d MiB", name,
                                  TEMPLATE_MEMORY >> 20);
    reader->at = utf8_well_formed(reader->text, size);
    if (reader->at < size)
        return fail(reader, "ill-formed UTF-8");
    reader->at = 0;
    return true;
}

bool smol_template_read_json(struct machine *machine, const char *name, const char *text,
                             size_t size, struct value *value)
{
    struct reader reader;
    if (!begin(&reader, machine, name, text, size) || !read_value(&reader, value))
        return false;
    skip_space(&reader);
    return reader.at == size || fail(&reader, "something behind the value");
}

/* --- an object, member by member ------------------------------------------------------------ */

static bool give_member(struct reader *reader, json_member *member, void *user)
{
    struct value name, value;
    skip_space(reader);
    if (peek(reader) != '"')
        return fail(reader, "a member's name is due");
    if (!read_text(reader, &name))
        return false;
    skip_space(reader);
    if (peek(reader) != ':')
        return fail(reader, "a colon is due");
    reader->at++;
    skip_space(reader);
    size_t start = reader->at;
    if (!read_value(reader, &value))
        return false;
    const char *text = (const char *)reader->text + start;
    return member(user, &name, &value, text, reader->at - start);
}

bool smol_template_read_members(struct machine *machine, const char *name, const char *text,
                                size_t size, json_member *member, void *user)
{
    struct reader reader;
    bool more = true;
    if (!begin(&reader, machine, name, text, size))
        return false;
    skip_space(&reader);
    if (peek(&reader) != '{')
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "%s: an object is due (byte %zu)",
                                  name, reader.at);
    reader.at++;
    reader.depth++;
    skip_space(&reader);
    if (peek(&reader) == '}') {
        reader.at++;
        more = false;
    }
    while (more)
        if (!give_member(&reader, member, user) || !read_separator(&reader, '}', &more))
            return false;
    skip_space(&reader);
    return reader.at == size || fail(&reader, "something behind the value");
}
