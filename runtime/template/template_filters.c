/* Filters of chat templates (`x | trim`). See template_call.h. */
#include <string.h>

#include "common/json_reader.h"
#include "common/text.h"
#include "common/utf8.h"
#include "runtime/template/template_call.h"
#include "runtime/template/template_text.h"

enum { MAX_ARGUMENTS = 5 };

/* `argument` holds the arguments in the order of the table at the end, as smol_call_bind returns
 * them. */
typedef bool filter_function(struct machine *machine, const struct value *self,
                             const struct value argument[MAX_ARGUMENTS], struct value *out);

static bool given(const struct value *argument)
{
    return argument->type != VALUE_MISSING;
}

/* --- texts ----------------------------------------------------------------------------------- */

static bool trim(struct machine *machine, const struct value *self, const struct value *argument,
                 struct value *out)
{
    struct value text;
    const struct value *of = is_text(&argument[0]) ? &argument[0] : NULL;
    if (!of && given(&argument[0]) && argument[0].type != VALUE_NONE)
        return smol_template_fail_type(machine, "trim cannot take", &argument[0]);
    if (!smol_text_of(machine, self, &text) ||
        !smol_template_step(machine, (uint64_t)text.n * (of ? of->n : 1)))
        return false;
    *out = smol_text_strip(&text, of, STRIP_LEFT | STRIP_RIGHT);
    return true;
}

static bool change_case(struct machine *machine, const struct value *self, enum text_case to,
                        struct value *out)
{
    struct text_builder builder = {0};
    struct value text;
    if (!smol_text_of(machine, self, &text) ||
        !smol_text_change_case(machine, &builder, &text, 0, text.n, to))
        return false;
    *out = smol_builder_text(&builder);
    return true;
}

static bool upper(struct machine *machine, const struct value *self, const struct value *argument,
                  struct value *out)
{
    (void)argument;
    return change_case(machine, self, CASE_UPPER, out);
}

static bool lower(struct machine *machine, const struct value *self, const struct value *argument,
                  struct value *out)
{
    (void)argument;
    return change_case(machine, self, CASE_LOWER, out);
}

static bool capitalize(struct machine *machine, const struct value *self,
                       const struct value *argument, struct value *out)
{
    (void)argument;
    return change_case(machine, self, CASE_CAPITALIZE, out);
}

/* Returns whether jinja2's title filter separates words at this character. */
static bool is_between_words(uint32_t c)
{
    return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || smol_utf8_is_space(c);
}

/* Returns the end of the run that starts at `start`: all its characters separate words, or none
 * does. *first_length is the length of its first character. */
static size_t run_end(const struct value *text, size_t start, size_t *first_length)
{
    uint32_t c;
    size_t i = start + (*first_length = smol_utf8_decode(text->bytes + start, text->n - start, &c));
    bool between = is_between_words(c);
    while (i < text->n) {
        size_t length = smol_utf8_decode(text->bytes + i, text->n - i, &c);
        if (is_between_words(c) != between)
            break;
        i += length;
    }
    return i;
}

static bool title(struct machine *machine, const struct value *self, const struct value *argument,
                  struct value *out)
{
    struct text_builder builder = {0};
    struct value text;
    (void)argument;
    if (!smol_text_of(machine, self, &text))
        return false;
    for (size_t i = 0; i < text.n;) {
        size_t length, end = run_end(&text, i, &length);
        if (!smol_text_change_case(machine, &builder, &text, i, i + length, CASE_UPPER) ||
            !smol_text_change_case(machine, &builder, &text, i + length, end, CASE_LOWER))
            return false;
        i = end;
    }
    *out = smol_builder_text(&builder);
    return true;
}

static bool replace(struct machine *machine, const struct value *self, const struct value *argument,
                    struct value *out)
{
    struct value text, old, new;
    if (!given(&argument[0]) || !given(&argument[1]))
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "replace: takes two texts");
    bool all = !given(&argument[2]) || argument[2].type == VALUE_NONE;
    if (!all && !is_integral(&argument[2]))
        return smol_template_fail_type(machine, "replace cannot count to", &argument[2]);
    return smol_text_of(machine, self, &text) && smol_text_of(machine, &argument[0], &old) &&
           smol_text_of(machine, &argument[1], &new) &&
           smol_text_replace(machine, &text, &old, &new, all ? -1 : integral(&argument[2]), out);
}

static bool string(struct machine *machine, const struct value *self, const struct value *argument,
                   struct value *out)
{
    (void)argument;
    return smol_text_of(machine, self, out);
}

static bool safe(struct machine *machine, const struct value *self, const struct value *argument,
                 struct value *out)
{
    (void)argument;
    bool good = smol_text_of(machine, self, out);
    out->safe = 1;
    return good;
}

/* Returns `width` spaces, or `width` itself if it is a text. */
static bool indentation(struct machine *machine, const struct value *width, int64_t by_default,
                        struct value *out)
{
    struct text_builder builder = {0};
    if (is_text(width) && width->safe)
        return smol_template_fail_unsupported(machine, "an indentation marked safe");
    if (is_text(width)) {
        *out = *width;
        return true;
    }
    if (given(width) && !is_integral(width))
        return smol_template_fail_type(machine, "cannot indent by", width);
    for (int64_t n = given(width) ? integral(width) : by_default; n > 0; n--)
        if (!smol_builder_add_literal(machine, &builder, " ", false))
            return false;
    *out = smol_builder_text(&builder);
    return true;
}

static bool indent(struct machine *machine, const struct value *self, const struct value *argument,
                   struct value *out)
{
    const struct value newline = value_text("\n", 1);
    struct value space, text, lines;
    bool first = smol_value_truth(&argument[1]), blank = smol_value_truth(&argument[2]);
    struct text_builder builder = {0};
    if (!is_text(self))
        return smol_template_fail_type(machine, "indent cannot take", self);
    if (!indentation(machine, &argument[0], 4, &space) ||
        !smol_template_binary(machine, BINARY_ADD, self, &newline, &text) ||
        !smol_text_split_lines(machine, &text, false, &lines))
        return false;
    for (uint32_t i = 0; i < lines.n; i++) {
        const struct value *each = &lines.items[i];
        bool indented = i == 0 ? first : blank || each->n > 0;
        if ((i > 0 && !smol_builder_add_part(machine, &builder, &newline, 0, 1)) ||
            (indented && !smol_builder_add_part(machine, &builder, &space, 0, space.n)) ||
            !smol_builder_add_part(machine, &builder, each, 0, each->n))
            return false;
    }
    *out = smol_builder_text(&builder);
    return true;
}

static bool read_separators(struct machine *machine, const struct value *argument,
                            struct json_style *style)
{
    style->comma = style->indented ? value_text(",", 1) : value_text(", ", 2);
    style->colon = value_text(": ", 2);
    if (!given(argument) || argument->type == VALUE_NONE)
        return true;
    if (!is_sequence(argument) || argument->n != 2 || !is_text(&argument->items[0]) ||
        !is_text(&argument->items[1]))
        return smol_template_fail_type(machine, "separators cannot be", argument);
    style->comma = argument->items[0];
    style->colon = argument->items[1];
    return true;
}

static bool tojson(struct machine *machine, const struct value *self, const struct value *argument,
                   struct value *out)
{
    struct text_builder builder = {0};
    struct json_style style = {
        .ascii = smol_value_truth(&argument[0]),
        .indented = given(&argument[1]) && argument[1].type != VALUE_NONE,
        .sort_keys = smol_value_truth(&argument[3]),
    };
    if ((style.indented && !indentation(machine, &argument[1], 0, &style.indent)) ||
        !read_separators(machine, &argument[2], &style) ||
        !smol_text_json(machine, &builder, self, &style))
        return false;
    *out = smol_builder_text(&builder);
    return true;
}

/* --- numbers --------------------------------------------------------------------------------- */

/* Parses an integer as Python's int(text) does: white space, a sign, digits. Other text is not an
 * integer. */
static bool parse_integer(struct machine *machine, const struct value *text, struct value *out,
                          bool *good)
{
    struct value digits = smol_text_strip(text, NULL, STRIP_LEFT | STRIP_RIGHT);
    bool negative = digits.n > 0 && digits.bytes[0] == '-';
    uint32_t i = digits.n > 0 && (negative || digits.bytes[0] == '+');
    int64_t number = 0;
    *good = i < digits.n;
    for (; i < digits.n && *good; i++) {
        uint8_t c = digits.bytes[i];
        if (c >= 0x80 || c == '_')
            return smol_template_fail_unsupported(machine, "int of these digits");
        *good = is_digit(c);
        if (*good && (__builtin_mul_overflow(number, 10, &number) ||
                      __builtin_sub_overflow(number, c - '0', &number)))
            return smol_template_fail_unsupported(machine, "an integer beyond 64 bits");
    }
    return smol_template_unary(machine, negative ? UNARY_PLUS : UNARY_MINUS,
                               &(struct value){.type = VALUE_INTEGER, .integer = number}, out);
}

/* Parses a decimal number as Python's float(text) does. */
static bool parse_real(struct machine *machine, const struct value *text, struct value *out,
                       bool *good)
{
    struct value trimmed = smol_text_strip(text, NULL, STRIP_LEFT | STRIP_RIGHT);
    *good = false;
    for (uint32_t i = 0; i < trimmed.n; i++)
        if (!strchr("+-.0123456789eE", trimmed.bytes[i]) || trimmed.bytes[i] == 0)
            return trimmed.bytes[i] < 0x80 && !strchr("_iInN", trimmed.bytes[i])
                       ? true
                       : smol_template_fail_unsupported(machine, "float of these digits");
    if (trimmed.n > DECIMAL_MAX)
        return smol_template_fail_unsupported(machine, "float of more than 63 characters");
    *out = value_real(smol_read_decimal(trimmed.bytes, trimmed.n, good));
    return true;
}

static bool truncate_real(struct machine *machine, double real, struct value *out, bool *good)
{
    *good = real == real;
    if (*good && !(real > -0x1p63 && real < 0x1p63)) /* of infinity Python makes none */
        return smol_template_fail_unsupported(machine, "an integer beyond 64 bits");
    if (*good)
        *out = value_integer((int64_t)real);
    return true;
}

/* Computes int(text), or int(float(text)) if the text is not an integer. */
static bool text_to_integer(struct machine *machine, const struct value *text, struct value *out,
                            bool *good)
{
    struct value real;
    if (!parse_integer(machine, text, out, good))
        return false;
    if (*good)
        return true;
    return parse_real(machine, text, &real, good) &&
           (!*good || truncate_real(machine, real.real, out, good));
}

static bool to_integer(struct machine *machine, const struct value *self,
                       const struct value *argument, struct value *out)
{
    bool good = is_integral(self);
    if (given(&argument[1]) && !(is_integral(&argument[1]) && integral(&argument[1]) == 10))
        return smol_template_fail_unsupported(machine, "int with another base");
    if (is_undefined(self))
        return smol_template_fail_type(machine, "no integer:", self);
    if (good)
        *out = value_integer(integral(self));
    if ((self->type == VALUE_REAL && !truncate_real(machine, self->real, out, &good)) ||
        (is_text(self) && !text_to_integer(machine, self, out, &good)))
        return false;
    if (!good)
        *out = given(&argument[0]) ? argument[0] : value_integer(0);
    return true;
}

static bool to_real(struct machine *machine, const struct value *self, const struct value *argument,
                    struct value *out)
{
    bool good = is_number(self);
    if (is_undefined(self))
        return smol_template_fail_type(machine, "no number:", self);
    if (good)
        *out = value_real(self->type == VALUE_REAL ? self->real : (double)integral(self));
    else if (is_text(self) && !parse_real(machine, self, out, &good))
        return false;
    if (!good)
        *out = given(&argument[0]) ? argument[0] : value_real(0);
    return true;
}

static bool absolute(struct machine *machine, const struct value *self,
                     const struct value *argument, struct value *out)
{
    (void)argument;
    if (!is_number(self))
        return smol_template_fail_type(machine, "no absolute value of", self);
    bool negative = self->type == VALUE_REAL ? self->real < 0 : integral(self) < 0;
    if (self->type == VALUE_REAL && self->real == 0) {
        *out = value_real(0);
        return true;
    }
    return smol_template_unary(machine, negative ? UNARY_MINUS : UNARY_PLUS, self, out);
}

/* --- values ---------------------------------------------------------------------------------- */

static bool by_default(struct machine *machine, const struct value *self,
                       const struct value *argument, struct value *out)
{
    (void)machine;
    bool boolean = given(&argument[1]) && smol_value_truth(&argument[1]);
    *out = *self;
    if (is_undefined(self) || (boolean && !smol_value_truth(self)))
        *out = given(&argument[0]) ? argument[0] : value_text("", 0);
    return true;
}

static bool items(struct machine *machine, const struct value *self, const struct value *argument,
                  struct value *out)
{
    struct value pairs = value_items(VALUE_LIST, NULL, 0);
    (void)argument;
    if (!is_undefined(self) && self->type != VALUE_DICT)
        return smol_template_fail_type(machine, "items cannot take", self);
    if (self->type == VALUE_DICT) {
        const struct value_method method = {*self, METHOD_DICT_ITEMS, "items"};
        if (!smol_template_method(machine, &method, &(struct call){0}, &pairs))
            return false;
        pairs.type = VALUE_LIST;
    }
    return smol_value_iterator(machine, pairs, out);
}

static bool length(struct machine *machine, const struct value *self, const struct value *argument,
                   struct value *out)
{
    (void)argument;
    bool counted = is_text(self) || is_sequence(self) || self->type == VALUE_DICT ||
                   self->type == VALUE_VIEW || self->type == VALUE_LOOP || is_undefined(self);
    if (!counted)
        return smol_template_fail_type(machine, "no length of", self);
    *out = value_integer(is_undefined(self)         ? 0
                         : is_text(self)            ? (int64_t)smol_text_length(self)
                         : self->type == VALUE_LOOP ? self->loop->n
                                                    : self->n);
    return smol_template_step(machine, is_text(self) ? self->n : 0);
}

/* --- lists ----------------------------------------------------------------------------------- */

/* Performs one step of get_path. A part of digits is an integer key. */
static bool get_part(struct machine *machine, struct value key, const struct value *value,
                     struct value *out)
{
    struct value number;
    bool digits = is_text(&key) && key.n > 0;
    for (uint32_t i = 0; digits && i < key.n; i++)
        digits = is_digit(key.bytes[i]);
    if (digits && !parse_integer(machine, &key, &number, &digits))
        return false;
    return smol_template_item(machine, value, digits ? &number : &key, out);
}

/* How get_path reads the items of a list. */
struct getter {
    const struct value *path;        /* "a.b.0", a key, or the whole item if None or missing */
    const struct value *replacement; /* replaces an undefined result at any step, or NULL */
    bool fold;                       /* converts texts to lower case */
};

static bool get_path(struct machine *machine, const struct getter *getter, struct value value,
                     struct value *out)
{
    const struct value dot = value_text(".", 1), *path = getter->path;
    struct value parts = value_items(VALUE_LIST, NULL, 0);
    if (is_text(path) && !smol_text_split(machine, path, &dot, -1, false, &parts))
        return false;
    if (given(path) && path->type != VALUE_NONE && !is_text(path))
        parts = value_items(VALUE_LIST, path, 1);
    *out = value;
    for (uint32_t i = 0; i < parts.n; i++) {
        value = *out;
        if (!get_part(machine, parts.items[i], &value, out))
            return false;
        if (is_undefined(out) && getter->replacement)
            *out = *getter->replacement;
    }
    const struct value_method small = {*out, METHOD_LOWER, "lower"};
    return !getter->fold || !is_text(out) ||
           smol_template_method(machine, &small, &(struct call){0}, out);
}

/* Makes a new list of get_path of each item. */
static bool get_paths(struct machine *machine, const struct value *path, bool fold,
                      const struct value *list, struct value **out)
{
    const struct getter getter = {path, NULL, fold};
    *out = smol_template_alloc(machine, list->n, sizeof **out);
    for (uint32_t i = 0; *out && i < list->n; i++)
        if (!smol_template_step(machine, 16) ||
            !get_path(machine, &getter, list->items[i], &(*out)[i]))
            return false;
    return *out != NULL;
}

static bool join(struct machine *machine, const struct value *self, const struct value *argument,
                 struct value *out)
{
    struct value separator = value_text("", 0), list;
    struct value *parts;
    if ((given(&argument[0]) && !smol_text_of(machine, &argument[0], &separator)) ||
        !smol_value_iterate(machine, self, &list) ||
        !get_paths(machine, &argument[1], false, &list, &parts))
        return false;
    list.items = parts;
    return smol_text_join(machine, &separator, &list, out);
}

static bool first(struct machine *machine, const struct value *self, const struct value *argument,
                  struct value *out)
{
    struct value list;
    (void)argument;
    if (!smol_value_iterate(machine, self, &list))
        return false;
    *out = list.n > 0 ? list.items[0] : value_undefined((const uint8_t *)"first", 5);
    if (self->type == VALUE_ITERATOR && list.n > 0) { /* the remaining items can still be read */
        self->iterator->list = value_items(VALUE_LIST, list.items + 1, list.n - 1);
        self->iterator->used = false;
    }
    return true;
}

static bool last(struct machine *machine, const struct value *self, const struct value *argument,
                 struct value *out)
{
    struct value list;
    (void)argument;
    if (self->type == VALUE_ITERATOR)
        return smol_template_fail_type(machine, "last cannot take", self);
    if (!smol_value_iterate(machine, self, &list))
        return false;
    *out = list.n > 0 ? list.items[list.n - 1] : value_undefined((const uint8_t *)"last", 4);
    return true;
}

static bool list(struct machine *machine, const struct value *self, const struct value *argument,
                 struct value *out)
{
    (void)argument;
    return smol_value_iterate(machine, self, out);
}

static bool reverse(struct machine *machine, const struct value *self, const struct value *argument,
                    struct value *out)
{
    const struct value whole[3] = {value_none(), value_none(), value_integer(-1)};
    struct value forward, backward;
    (void)argument;
    if (is_text(self))
        return smol_template_slice(machine, self, whole, out);
    return smol_value_iterate(machine, self, &forward) &&
           smol_template_slice(machine, &forward, whole, &backward) &&
           smol_value_iterator(machine, backward, out);
}

static bool unique(struct machine *machine, const struct value *self, const struct value *argument,
                   struct value *out)
{
    struct value list, *keys;
    if (!smol_value_iterate(machine, self, &list) ||
        !get_paths(machine, &argument[1], !smol_value_truth(&argument[0]), &list, &keys))
        return false;
    struct value *kept = smol_template_alloc(machine, list.n, sizeof *kept);
    struct value *seen = smol_template_alloc(machine, (uint64_t)list.n * 2, sizeof *seen);
    uint32_t n = 0;
    for (uint32_t i = 0; kept && seen && i < list.n; i++) {
        const struct value so_far = value_items(VALUE_DICT, seen, n);
        const struct value *found;
        if (!smol_dict_find(machine, &so_far, &keys[i], &found))
            return false;
        if (found)
            continue;
        seen[2 * n] = keys[i];
        seen[2 * n + 1] = value_none();
        kept[n++] = list.items[i];
    }
    return kept && seen && smol_value_iterator(machine, value_items(VALUE_LIST, kept, n), out);
}

/* --- order ----------------------------------------------------------------------------------- */

/* A list, its sort keys, and spare space for both. */
struct sorting {
    struct value *items, *keys, *spare_items, *spare_keys;
    bool backward;
};

/* Merges the sorted items [start, middle) and [middle, end) into the spare space. Stable: equal
 * items keep their order. */
static bool merge(struct machine *machine, const struct sorting *s, uint64_t start, uint64_t middle,
                  uint64_t end)
{
    uint64_t a = start, b = middle;
    for (uint64_t at = start; at < end; at++) {
        int order = 0;
        if (a < middle && b < end && !smol_value_order(machine, &s->keys[a], &s->keys[b], &order))
            return false;
        bool later = order != 2 && (s->backward ? order < 0 : order > 0);
        uint64_t from = a == middle || (b < end && later) ? b++ : a++;
        s->spare_items[at] = s->items[from];
        s->spare_keys[at] = s->keys[from];
    }
    return true;
}

static bool sort_by(struct machine *machine, struct value *items, struct value *keys, uint32_t n,
                    bool backward)
{
    struct value *spare = smol_template_alloc(machine, (uint64_t)n * 2, sizeof *spare);
    const struct sorting sorting = {items, keys, spare, spare + n, backward};
    for (uint64_t width = 1; spare && width < n; width *= 2) {
        for (uint64_t start = 0; start < n; start += 2 * width) {
            uint64_t middle = start + width < n ? start + width : n;
            uint64_t end = middle + width < n ? middle + width : n;
            if (!merge(machine, &sorting, start, middle, end))
                return false;
        }
        memcpy(items, spare, n * sizeof *items);
        memcpy(keys, spare + n, n * sizeof *keys);
    }
    return spare != NULL;
}

static bool sort(struct machine *machine, const struct value *self, const struct value *argument,
                 struct value *out)
{
    struct value list, *keys;
    if (is_text(&argument[2]) && memchr(argument[2].bytes, ',', argument[2].n))
        return smol_template_fail_unsupported(machine, "sort by several attributes");
    if (!smol_value_iterate(machine, self, &list) ||
        !get_paths(machine, &argument[2], !smol_value_truth(&argument[1]), &list, &keys))
        return false;
    struct value *sorted = smol_template_alloc(machine, list.n, sizeof *sorted);
    if (!sorted)
        return false;
    if (list.n > 0)
        memcpy(sorted, list.items, list.n * sizeof *sorted);
    *out = value_items(VALUE_LIST, sorted, list.n);
    return sort_by(machine, sorted, keys, list.n, smol_value_truth(&argument[0]));
}

static bool sort_dict(struct machine *machine, const struct value *self,
                      const struct value *argument, struct value *out)
{
    struct value pairs;
    if (self->type != VALUE_DICT)
        return smol_template_fail_type(machine, "dictsort cannot take", self);
    if (given(&argument[1]) && !text_is(&argument[1], "key") && !text_is(&argument[1], "value"))
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "dictsort: by is 'key' or 'value'");
    const struct value_method method = {*self, METHOD_DICT_ITEMS, "items"};
    if (!smol_template_method(machine, &method, &(struct call){0}, &pairs))
        return false;
    const struct value by = value_integer(text_is(&argument[1], "value"));
    const struct value arguments[MAX_ARGUMENTS] = {argument[2], argument[0], by};
    return sort(machine, &pairs, arguments, out);
}

/* Finds the least or greatest item, the first of equal ones. */
static bool extreme(struct machine *machine, const struct value *self, const struct value *argument,
                    bool greatest, struct value *out)
{
    struct value list, *keys;
    uint32_t best = 0;
    if (!smol_value_iterate(machine, self, &list) ||
        !get_paths(machine, &argument[1], !smol_value_truth(&argument[0]), &list, &keys))
        return false;
    for (uint32_t i = 1; i < list.n; i++) {
        int order;
        if (!smol_value_order(machine, &keys[i], &keys[best], &order))
            return false;
        if (order != 2 && (greatest ? order > 0 : order < 0))
            best = i;
    }
    *out = list.n > 0 ? list.items[best] : value_undefined((const uint8_t *)"min or max", 10);
    return true;
}

static bool least(struct machine *machine, const struct value *self, const struct value *argument,
                  struct value *out)
{
    return extreme(machine, self, argument, false, out);
}

static bool greatest(struct machine *machine, const struct value *self,
                     const struct value *argument, struct value *out)
{
    return extreme(machine, self, argument, true, out);
}

static bool sum(struct machine *machine, const struct value *self, const struct value *argument,
                struct value *out)
{
    struct value list, *numbers;
    if (!smol_value_iterate(machine, self, &list) ||
        !get_paths(machine, &argument[0], false, &list, &numbers))
        return false;
    *out = given(&argument[1]) ? argument[1] : value_integer(0);
    if (is_text(out))
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "sum cannot add texts: use join");
    for (uint32_t i = 0; i < list.n; i++) {
        struct value so_far = *out;
        if (!smol_template_binary(machine, BINARY_ADD, &so_far, &numbers[i], out))
            return false;
    }
    return true;
}

/* --- the filter format ----------------------------------------------------------------------- */

/* Appends an argument as %s or %d writes it. */
static bool format_argument(struct machine *machine, struct text_builder *builder, char field,
                            const struct value *argument)
{
    if (field == 's')
        return smol_text_print(machine, builder, argument);
    if (is_text(argument) || argument->type == VALUE_NONE)
        return smol_template_fail_type(machine, "format: %d cannot take", argument);
    if (!is_integral(argument))
        return smol_template_fail_unsupported(machine, "%d of anything but an integer");
    const struct value number = value_integer(integral(argument));
    return smol_text_print(machine, builder, &number);
}

/* Replaces each %s and %d by the next argument; %% is a percent sign. */
static bool format(struct machine *machine, const struct value *self, const struct call *call,
                   struct value *out)
{
    struct text_builder builder = {0};
    struct value text;
    uint32_t next = 0;
    if (call->n_named > 0)
        return smol_template_fail_unsupported(machine, "named arguments of the filter format");
    if (!smol_text_of(machine, self, &text))
        return false;
    for (size_t i = 0, start = 0; i <= text.n; start = i) {
        while (i < text.n && text.bytes[i] != '%')
            i++;
        char field = i + 1 < text.n ? (char)text.bytes[i + 1] : '\0';
        if (!smol_builder_add_part(machine, &builder, &text, start, i + (field == '%')))
            return false;
        if (i == text.n)
            break;
        i += 2;
        if (field == '%')
            continue;
        if (i > text.n)
            return smol_template_fail(machine, SMOL_ERROR_USAGE, "format: incomplete format");
        if (field != 's' && field != 'd')
            return smol_template_fail_unsupported(machine,
                                                  "a field of the filter format but %s, %d and %%");
        if (next == call->n)
            return smol_template_fail(machine, SMOL_ERROR_USAGE, "format: too few arguments");
        if (!format_argument(machine, &builder, field, &call->positional[next++]))
            return false;
    }
    if (next < call->n)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "format: too many arguments");
    *out = smol_builder_text(&builder);
    return smol_template_step(machine, text.n);
}

/* --- filters that take filters and tests ----------------------------------------------------- */

/* Returns the arguments after the first n. */
static struct call arguments_after(const struct call *call, uint32_t n)
{
    struct call rest = *call;
    rest.positional += n;
    rest.n -= n;
    return rest;
}

/* Implements map(attribute=..., default=...). */
static bool map_attribute(struct machine *machine, const struct call *call,
                          const struct value *list, struct value *mapped)
{
    struct value argument[2];
    if (!smol_call_bind(machine, "map", call, "attribute default", argument))
        return false;
    if (list->n > 0 && !given(&argument[0]))
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "map: the attribute is missing");
    bool replaces = given(&argument[1]) && argument[1].type != VALUE_NONE;
    const struct getter getter = {&argument[0], replaces ? &argument[1] : NULL, false};
    for (uint32_t i = 0; i < list->n; i++)
        if (!smol_template_step(machine, 16) ||
            !get_path(machine, &getter, list->items[i], &mapped[i]))
            return false;
    return true;
}

static bool map_filter(struct machine *machine, const struct call *call, const struct value *list,
                       struct value *mapped)
{
    if (call->n == 0 || !is_text(call->positional))
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "map: the filter is missing");
    const struct value *name = call->positional;
    int filter = smol_template_find_filter((const char *)name->bytes, name->n);
    if (filter < 0)
        return smol_template_fail_unsupported(machine, "map with this filter");
    const struct call rest = arguments_after(call, 1);
    for (uint32_t i = 0; i < list->n; i++)
        if (!smol_template_filter(machine, (enum template_filter)filter, &list->items[i], &rest,
                                  &mapped[i]))
            return false;
    return true;
}

static bool map(struct machine *machine, const struct value *self, const struct call *call,
                struct value *out)
{
    struct value list = value_items(VALUE_LIST, NULL, 0);
    if (smol_value_truth(self) && !smol_value_iterate(machine, self, &list))
        return false;
    struct value *mapped = smol_template_alloc(machine, list.n, sizeof *mapped);
    bool attribute = call->n == 0 && call->n_named > 0;
    if (!mapped || !(attribute ? map_attribute(machine, call, &list, mapped)
                               : list.n == 0 || map_filter(machine, call, &list, mapped)))
        return false;
    return smol_value_iterator(machine, value_items(VALUE_LIST, mapped, list.n), out);
}

/* The arguments of select and reject, or of selectattr and rejectattr, which look at an attribute
 * of each item. Without a test, the condition is whether the value is true. */
struct selection {
    const struct value *path; /* or NULL */
    int test;                 /* enum template_test, or -1 */
    struct call rest;
    bool keep;
};

static bool read_selection(struct machine *machine, enum template_filter filter,
                           const struct call *call, struct selection *selection)
{
    bool attribute = filter == FILTER_SELECTATTR || filter == FILTER_REJECTATTR;
    *selection = (struct selection){.keep = filter == FILTER_SELECT || filter == FILTER_SELECTATTR,
                                    .test = -1};
    if (attribute && call->n == 0)
        return smol_template_fail(machine, SMOL_ERROR_USAGE,
                                  "selectattr or rejectattr: the attribute is missing");
    if (attribute)
        selection->path = call->positional;
    selection->rest = arguments_after(call, attribute);
    if (selection->rest.n == 0)
        return true;
    const struct value *name = selection->rest.positional;
    if (is_text(name))
        selection->test = smol_template_find_test((const char *)name->bytes, name->n);
    selection->rest = arguments_after(&selection->rest, 1);
    return selection->test >= 0 || smol_template_fail_unsupported(machine, "select with this test");
}

static bool select_items(struct machine *machine, const struct value *self,
                         enum template_filter filter, const struct call *call, struct value *out)
{
    struct value list = value_items(VALUE_LIST, NULL, 0);
    struct selection selection;
    uint32_t n = 0;
    if (smol_value_truth(self) && !smol_value_iterate(machine, self, &list))
        return false;
    if (list.n > 0 && !read_selection(machine, filter, call, &selection))
        return false;
    struct value *kept = smol_template_alloc(machine, list.n, sizeof *kept);
    for (uint32_t i = 0; kept && i < list.n; i++) {
        const struct getter getter = {selection.path, NULL, false};
        struct value value = list.items[i];
        bool is = false;
        if (!smol_template_step(machine, 16) ||
            (selection.path && !get_path(machine, &getter, list.items[i], &value)))
            return false;
        if (selection.test < 0)
            is = smol_value_truth(&value);
        else if (!smol_template_test(machine, (enum template_test)selection.test, &value,
                                     &selection.rest, &is))
            return false;
        if (is == selection.keep)
            kept[n++] = list.items[i];
    }
    return kept && smol_value_iterator(machine, value_items(VALUE_LIST, kept, n), out);
}

/* --- the table ------------------------------------------------------------------------------- */

static const struct {
    filter_function *function;
    char name[11], arguments[41]; /* see smol_call_bind */
} filters[N_TEMPLATE_FILTERS] = {
    [FILTER_TRIM] = {trim, "trim", "chars"},
    [FILTER_TOJSON] = {tojson, "tojson", "ensure_ascii indent separators sort_keys"},
    [FILTER_DEFAULT] = {by_default, "default", "default_value boolean"},
    [FILTER_ITEMS] = {items, "items", ""},
    [FILTER_LENGTH] = {length, "length", ""},
    [FILTER_UPPER] = {upper, "upper", ""},
    [FILTER_LOWER] = {lower, "lower", ""},
    [FILTER_CAPITALIZE] = {capitalize, "capitalize", ""},
    [FILTER_TITLE] = {title, "title", ""},
    [FILTER_JOIN] = {join, "join", "d attribute"},
    [FILTER_FIRST] = {first, "first", ""},
    [FILTER_LAST] = {last, "last", ""},
    [FILTER_REPLACE] = {replace, "replace", "old new count"},
    [FILTER_STRING] = {string, "string", ""},
    [FILTER_INT] = {to_integer, "int", "default base"},
    [FILTER_FLOAT] = {to_real, "float", "default"},
    [FILTER_LIST] = {list, "list", ""},
    [FILTER_REVERSE] = {reverse, "reverse", ""},
    [FILTER_INDENT] = {indent, "indent", "width first blank"},
    [FILTER_UNIQUE] = {unique, "unique", "case_sensitive attribute"},
    [FILTER_SORT] = {sort, "sort", "reverse case_sensitive attribute"},
    [FILTER_DICTSORT] = {sort_dict, "dictsort", "case_sensitive by reverse"},
    [FILTER_ABS] = {absolute, "abs", ""},
    [FILTER_MIN] = {least, "min", "case_sensitive attribute"},
    [FILTER_MAX] = {greatest, "max", "case_sensitive attribute"},
    [FILTER_SUM] = {sum, "sum", "attribute start"},
    [FILTER_SAFE] = {safe, "safe", ""},
};

/* Returns whether a filter treats a text that is marked safe like any other. Most others return
 * a text that is marked too, or escape their arguments. */
static bool takes_safe(enum template_filter filter)
{
    const uint64_t filters_of_safe =
        1ull << FILTER_TOJSON | 1ull << FILTER_DEFAULT | 1ull << FILTER_LENGTH |
        1ull << FILTER_STRING | 1ull << FILTER_INT | 1ull << FILTER_FLOAT | 1ull << FILTER_SAFE;
    return filters_of_safe >> filter & 1;
}

static bool apply(struct machine *machine, enum template_filter filter, const struct value *self,
                  const struct call *call, struct value *out)
{
    struct value argument[MAX_ARGUMENTS] = {{0}};
    if (is_text(self) && self->safe && !takes_safe(filter))
        return smol_template_fail_unsupported(machine, "this filter of a text marked safe");
    if (filter == FILTER_FORMAT)
        return format(machine, self, call, out);
    if (filter == FILTER_MAP)
        return map(machine, self, call, out);
    if (!filters[filter].function)
        return select_items(machine, self, filter, call, out);
    return smol_call_bind(machine, filters[filter].name, call, filters[filter].arguments,
                          argument) &&
           filters[filter].function(machine, self, argument, out);
}

bool smol_template_filter(struct machine *machine, enum template_filter filter,
                          const struct value *self, const struct call *call, struct value *out)
{
    return smol_value_enter(machine) && apply(machine, filter, self, call, out) &&
           smol_value_leave(machine);
}
