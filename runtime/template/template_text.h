/* Texts of chat templates: values as text, and Python's string methods. */
#ifndef SMOL_RUNTIME_TEMPLATE_TEXT_H
#define SMOL_RUNTIME_TEMPLATE_TEXT_H

#include "runtime/template/template_value.h"

/* --- template_print.c --------------------------------------------------------------------- */

/* Adds the value as `{{ value }}` writes it: a text itself, other values as Python's str does. The
 * bytes produced by str are marked as arguments. */
bool smol_text_print(struct machine *machine, struct text_builder *builder,
                     const struct value *value);

/* Converts the value to a text as smol_text_print writes it. */
bool smol_text_of(struct machine *machine, const struct value *value, struct value *text);

/* The style of JSON text, with the options of Python's json.dumps. All of the text is marked as
 * arguments. */
struct json_style {
    bool ascii; /* escapes all other characters as \u.... */
    bool sort_keys;
    bool indented;
    struct value indent;       /* a text, repeated for each level */
    struct value comma, colon; /* texts */
};
bool smol_text_json(struct machine *machine, struct text_builder *builder,
                    const struct value *value, const struct json_style *style);

/* --- template_case.c ---------------------------------------------------------------------- */

enum text_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITALIZE };

/* Converts bytes [start, end) of a text to another case, as str.upper, lower, title and capitalize
 * do. */
bool smol_text_change_case(struct machine *machine, struct text_builder *builder,
                           const struct value *text, size_t start, size_t end, enum text_case to);

/* Returns whether Python's repr leaves the character unescaped. */
bool smol_code_point_is_printable(uint32_t code_point);

/* --- template_split.c --------------------------------------------------------------------- */

enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };

/* Returns the text without the characters of `of` (NULL: white space) at its ends. */
struct value smol_text_strip(const struct value *text, const struct value *of, int sides);

/* Splits the text at each `separator` (NULL: at white space), at most `limit` times (< 0: without a
 * limit), from the end if `from_end`. Errors: an empty separator. */
bool smol_text_split(struct machine *machine, const struct value *text,
                     const struct value *separator, int64_t limit, bool from_end,
                     struct value *list);

bool smol_text_split_lines(struct machine *machine, const struct value *text, bool keep_ends,
                           struct value *list);

/* Replaces each `old`, at most `limit` times (< 0: all). */
bool smol_text_replace(struct machine *machine, const struct value *text, const struct value *old,
                       const struct value *new, int64_t limit, struct value *out);

/* Joins the items as text, with `separator` between them. */
bool smol_text_join(struct machine *machine, const struct value *separator,
                    const struct value *list, struct value *out);

#endif
