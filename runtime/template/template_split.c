/* Cuts and joins texts as Python's str methods do. See template_text.h. */
#include <string.h>

#include "common/utf8.h"
#include "runtime/template/template_text.h"

/* --- strip -------------------------------------------------------------------------------- */

static bool is_stripped(uint32_t code_point, const struct value *of)
{
    if (!of)
        return smol_utf8_is_space(code_point);
    for (size_t i = 0; i < of->n;) {
        uint32_t c;
        i += smol_utf8_decode(of->bytes + i, of->n - i, &c);
        if (c == code_point)
            return true;
    }
    return false;
}

/* Returns the character that ends at `end`, which is not 0, and its start. */
static uint32_t character_before(const struct value *text, size_t end, size_t *start)
{
    uint32_t c;
    *start = end - 1;
    while (*start > 0 && utf8_continues(text->bytes[*start]))
        --*start;
    smol_utf8_decode(text->bytes + *start, end - *start, &c);
    return c;
}

struct value smol_text_strip(const struct value *text, const struct value *of, int sides)
{
    size_t start = 0, end = text->n, next;
    uint32_t c;
    while (sides & STRIP_LEFT && start < end) {
        next = start + smol_utf8_decode(text->bytes + start, end - start, &c);
        if (!is_stripped(c, of))
            break;
        start = next;
    }
    while (sides & STRIP_RIGHT && start < end) {
        c = character_before(text, end, &next);
        if (!is_stripped(c, of))
            break;
        end = next;
    }
    return value_part(text, start, end);
}

/* --- split -------------------------------------------------------------------------------- */

static bool add_part(struct machine *machine, struct value_list *parts, struct value part)
{
    return smol_template_step(machine, part.n) && smol_value_list_add(machine, parts, &part, 1);
}

static struct value list_of(const struct value_list *parts)
{
    return value_items(VALUE_LIST, parts->items, parts->n);
}

static void reverse(struct value_list *parts)
{
    for (uint32_t i = 0; i < parts->n / 2; i++) {
        struct value item = parts->items[i];
        parts->items[i] = parts->items[parts->n - 1 - i];
        parts->items[parts->n - 1 - i] = item;
    }
}

static bool split_forward(struct machine *machine, const struct value *text,
                          const struct value *separator, int64_t limit, struct value_list *parts)
{
    size_t start = 0, found;
    while (limit-- != 0 && (found = smol_text_find(text, separator, start)) != SIZE_MAX) {
        if (!add_part(machine, parts, value_part(text, start, found)))
            return false;
        start = found + separator->n;
    }
    return add_part(machine, parts, value_part(text, start, text->n));
}

static bool split_backward(struct machine *machine, const struct value *text,
                           const struct value *separator, int64_t limit, struct value_list *parts)
{
    size_t end = text->n, at = end;
    while (limit != 0 && at >= separator->n) {
        if (!smol_template_step(machine, separator->n))
            return false;
        if (memcmp(text->bytes + at - separator->n, separator->bytes, separator->n) != 0) {
            at--;
            continue;
        }
        if (!add_part(machine, parts, value_part(text, at, end)))
            return false;
        end = at -= separator->n;
        limit--;
    }
    return add_part(machine, parts, value_part(text, 0, end));
}

/* Returns the text from *i to the next white space, and moves *i there. */
static struct value next_word(const struct value *text, size_t *i)
{
    size_t start = *i;
    while (*i < text->n) {
        uint32_t c;
        size_t length = smol_utf8_decode(text->bytes + *i, text->n - *i, &c);
        if (smol_utf8_is_space(c))
            break;
        *i += length;
    }
    return value_part(text, start, *i);
}

static bool words_forward(struct machine *machine, struct value text, int64_t limit,
                          struct value_list *parts)
{
    for (text = smol_text_strip(&text, NULL, STRIP_LEFT); text.n > 0;) {
        size_t i = 0;
        if (limit-- == 0)
            return add_part(machine, parts, text);
        if (!add_part(machine, parts, next_word(&text, &i)))
            return false;
        text = value_part(&text, i, text.n);
        text = smol_text_strip(&text, NULL, STRIP_LEFT);
    }
    return true;
}

static bool words_backward(struct machine *machine, struct value text, int64_t limit,
                           struct value_list *parts)
{
    for (text = smol_text_strip(&text, NULL, STRIP_RIGHT); text.n > 0;) {
        size_t start = text.n, next;
        if (limit-- == 0)
            return add_part(machine, parts, text);
        while (start > 0 && !smol_utf8_is_space(character_before(&text, start, &next)))
            start = next;
        if (!add_part(machine, parts, value_part(&text, start, text.n)))
            return false;
        text = value_part(&text, 0, start);
        text = smol_text_strip(&text, NULL, STRIP_RIGHT);
    }
    return true;
}

bool smol_text_split(struct machine *machine, const struct value *text,
                     const struct value *separator, int64_t limit, bool from_end,
                     struct value *list)
{
    struct value_list parts = {0};
    if (separator && separator->n == 0)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "split: an empty separator");
    bool good = !smol_template_step(machine, text->n) ? false
                : separator && from_end ? split_backward(machine, text, separator, limit, &parts)
                : separator             ? split_forward(machine, text, separator, limit, &parts)
                : from_end              ? words_backward(machine, *text, limit, &parts)
                                        : words_forward(machine, *text, limit, &parts);
    if (from_end)
        reverse(&parts);
    *list = list_of(&parts);
    return good;
}

/* Returns the length of the line break at text[i], or 0. Line breaks are those of
 * str.splitlines. */
static size_t line_end(const struct value *text, size_t i)
{
    uint32_t c;
    size_t length = smol_utf8_decode(text->bytes + i, text->n - i, &c);
    if (c == '\r' && i + 1 < text->n && text->bytes[i + 1] == '\n')
        return 2;
    bool ends = (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
                c == 0x2029;
    return ends ? length : 0;
}

bool smol_text_split_lines(struct machine *machine, const struct value *text, bool keep_ends,
                           struct value *list)
{
    struct value_list parts = {0};
    size_t start = 0, i = 0;
    while (i < text->n) {
        size_t length = line_end(text, i);
        i += length ? length : 1; /* continuation bytes never start a line break */
        if (length == 0)
            continue;
        if (!add_part(machine, &parts, value_part(text, start, keep_ends ? i : i - length)))
            return false;
        start = i;
    }
    if (start < text->n && !add_part(machine, &parts, value_part(text, start, text->n)))
        return false;
    *list = list_of(&parts);
    return true;
}

/* --- replace and join --------------------------------------------------------------------- */

/* Replaces an empty `old`, which matches before each character and at the end. */
static bool replace_empty(struct machine *machine, const struct value *text,
                          const struct value *new, int64_t limit, struct text_builder *builder)
{
    size_t i = 0;
    while (limit-- != 0) {
        if (!smol_builder_add_part(machine, builder, new, 0, new->n))
            return false;
        if (i == text->n)
            return true;
        uint32_t c;
        size_t length = smol_utf8_decode(text->bytes + i, text->n - i, &c);
        if (!smol_builder_add_part(machine, builder, text, i, i + length))
            return false;
        i += length;
    }
    return smol_builder_add_part(machine, builder, text, i, text->n);
}

bool smol_text_replace(struct machine *machine, const struct value *text, const struct value *old,
                       const struct value *new, int64_t limit, struct value *out)
{
    struct text_builder builder = {0};
    size_t start = 0, found;
    if (!smol_template_step(machine, text->n))
        return false;
    if (old->n == 0) {
        if (!replace_empty(machine, text, new, limit, &builder))
            return false;
        *out = smol_builder_text(&builder);
        return true;
    }
    if (smol_text_find(text, old, 0) == SIZE_MAX) {
        *out = *text;
        return true;
    }
    while (limit-- != 0 && (found = smol_text_find(text, old, start)) != SIZE_MAX) {
        if (!smol_builder_add_part(machine, &builder, text, start, found) ||
            !smol_builder_add_part(machine, &builder, new, 0, new->n))
            return false;
        start = found + old->n;
    }
    if (!smol_builder_add_part(machine, &builder, text, start, text->n))
        return false;
    *out = smol_builder_text(&builder);
    return true;
}

bool smol_text_join(struct machine *machine, const struct value *separator,
                    const struct value *list, struct value *out)
{
    struct text_builder builder = {0};
    for (uint32_t i = 0; i < list->n; i++) {
        if (!smol_template_step(machine, 0) ||
            (i > 0 && !smol_builder_add_part(machine, &builder, separator, 0, separator->n)) ||
            !smol_text_print(machine, &builder, &list->items[i]))
            return false;
    }
    *out = smol_builder_text(&builder);
    return true;
}
