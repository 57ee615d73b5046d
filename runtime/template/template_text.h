/* Texts of chat templates: values as text, and what Python's string methods make of texts. */
#ifndef SMOL_RUNTIME_TEMPLATE_TEXT_H
#define SMOL_RUNTIME_TEMPLATE_TEXT_H

#include "runtime/template/template_value.h"

/* --- template_print.c --------------------------------------------------------------------- */

/* Adds the value as `{{ value }}` writes it: a text itself, everything else as Python's str does;
 * the bytes that are made for that count as the arguments'. */
bool smol_text_print(struct machine *machine, struct text_builder *builder,
                     const struct value *value);

/* The same as a text of its own. */
bool smol_text_of(struct machine *machine, const struct value *value, struct value *text);

/* The JSON text of a value, as Python's json.dumps makes it. All of it counts as the arguments'. */
struct json_style {
    bool ascii; /* everything else as \u.... */
    bool sort_keys;
    bool indented;
    struct value indent;       /* text, once for each level */
    struct value comma, colon; /* texts */
};
bool smol_text_json(struct machine *machine, struct text_builder *builder,
                    const struct value *value, const struct json_style *style);

/* --- template_case.c ---------------------------------------------------------------------- */

enum text_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITALIZE };

/* Bytes [start, end) of a text in another case, as str.upper, lower, title, capitalize do. */
bool smol_text_change_case(struct machine *machine, struct text_builder *builder,
                           const struct value *text, size_t start, size_t end, enum text_case to);

/* Whether Python's repr shows the character as it is. */
bool smol_code_point_is_printable(uint32_t code_point);

/* --- template_split.c --------------------------------------------------------------------- */

enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };

/* The text without the characters of `of` at its ends (NULL: without white space). */
struct value smol_text_strip(const struct value *text, const struct value *of, int sides);

/* Cut at each `separator`, or, where it is NULL, at white space; at most `limit` times (< 0: as
 * often as it goes), from the end when `from_end`. Errors: an empty separator. */
bool smol_text_split(struct machine *machine, const struct value *text,
                     const struct value *separator, int64_t limit, bool from_end,
                     struct value *list);

bool smol_text_split_lines(struct machine *machine, const struct value *text, bool keep_ends,
                           struct value *list);

/* Every `old` replaced, at most `limit` times (< 0: all). */
bool smol_text_replace(struct machine *machine, const struct value *text, const struct value *old,
                       const struct value *new, int64_t limit, struct value *out);

/* The items as text, `separator` between them. */
bool smol_text_join(struct machine *machine, const struct value *separator,
                    const struct value *list, struct value *out);

#endif
