/* Upper and lower case as in Python. See template_text.h. */
#include "common/utf8.h"
#include "runtime/template/template_text.h"
#include "runtime/template/template_unicode.h"

bool smol_code_point_is_printable(uint32_t code_point)
{
    return !packed_ranges_have(unprintable, sizeof unprintable, code_point);
}

static bool is_cased(uint32_t c)
{
    return packed_ranges_have(cased, sizeof cased, c);
}

static bool is_ignorable(uint32_t c)
{
    return packed_ranges_have(case_ignorable, sizeof case_ignorable, c);
}

/* The result of a case mapping: one to three characters, padded with zeros. */
struct mapped {
    uint32_t to[3];
};

struct case_mapping {
    const uint8_t *runs, *runs_end, *several, *several_end;
};
#define MAPPING(name)                                                                              \
    {                                                                                              \
        name##_runs, name##_runs + sizeof name##_runs, name##_several,                             \
            name##_several + sizeof name##_several                                                 \
    }
static const struct case_mapping to_lower = MAPPING(lower), to_upper = MAPPING(upper),
                                 to_title = MAPPING(title);

static bool map_to_several(const struct case_mapping *mapping, uint32_t c, struct mapped *out)
{
    uint32_t from = 0;
    for (const uint8_t *at = mapping->several; at < mapping->several_end && from < c;) {
        from += packed_number(&at);
        const uint32_t n = packed_number(&at);
        struct mapped to = {{0}};
        for (uint32_t i = 0; i < n; i++)
            to.to[i] = packed_number(&at);
        if (from == c) {
            *out = to;
            return true;
        }
    }
    return false;
}

static bool map(const struct case_mapping *mapping, uint32_t c, struct mapped *out)
{
    if (map_to_several(mapping, c, out))
        return true;
    uint32_t first = 0, last = 0, stride = 0, delta = 0;
    const uint8_t *at = mapping->runs;
    do {
        first = last + packed_number(&at);
        stride = packed_number(&at);
        last = first + (stride >> 1);
        delta = packed_number(&at);
    } while (at < mapping->runs_end && last < c);
    if (c < first || c > last || (stride & 1 & (c - first)))
        return false;
    *out = (struct mapped){{delta & 1 ? c - (delta >> 1) : c + (delta >> 1)}};
    return true;
}

/* --- capital sigma, whose lower case differs at the end of a word ------------------------- */

static uint32_t before(const struct value *text, size_t start, size_t *i)
{
    uint32_t c;
    do
        --*i;
    while (*i > start && utf8_continues(text->bytes[*i]));
    smol_utf8_decode(text->bytes + *i, text->n - *i, &c);
    return c;
}

/* Returns whether Unicode's Final_Sigma holds for the sigma at `at` within bytes [start, end). */
static bool sigma_is_final(const struct value *text, size_t start, size_t end, size_t at)
{
    uint32_t c = 0;
    size_t i = at;
    do
        c = i > start ? before(text, start, &i) : 0;
    while (c && is_ignorable(c));
    if (!c || !is_cased(c))
        return false;
    i = at + 2; /* U+03A3 takes two bytes */
    do {
        c = 0;
        if (i < end)
            i += smol_utf8_decode(text->bytes + i, end - i, &c);
    } while (c && is_ignorable(c));
    return !c || !is_cased(c);
}

/* --- texts -------------------------------------------------------------------------------- */

static struct mapped convert(const struct value *text, size_t start, size_t end, size_t at,
                             uint32_t c, enum text_case to)
{
    struct mapped out = {{c}};
    if (to == CASE_LOWER && c == 0x3a3)
        out.to[0] = sigma_is_final(text, start, end, at) ? 0x3c2 : 0x3c3;
    else if (to == CASE_LOWER)
        map(&to_lower, c, &out);
    else if (to == CASE_UPPER || !map(&to_title, c, &out))
        map(&to_upper, c, &out);
    return out;
}

/* Returns the mapping of a character: title and capitalize treat the first one differently. */
static enum text_case case_of(enum text_case to, bool first, bool within_word)
{
    if (to == CASE_CAPITALIZE)
        return first ? CASE_TITLE : CASE_LOWER;
    if (to == CASE_TITLE)
        return within_word ? CASE_LOWER : CASE_TITLE;
    return to;
}

bool smol_text_change_case(struct machine *machine, struct text_builder *builder,
                           const struct value *text, size_t start, size_t end, enum text_case to)
{
    bool within_word = false;
    for (size_t i = start; i < end;) {
        uint32_t c;
        size_t length = smol_utf8_decode(text->bytes + i, end - i, &c);
        enum text_case each = case_of(to, i == start, within_word);
        struct mapped mapped = convert(text, start, end, i, c, each);
        bool argument = text_argument(text, i);
        for (unsigned k = 0; k < 3 && (k == 0 || mapped.to[k]); k++)
            if (!smol_builder_add_code_point(machine, builder, mapped.to[k], argument))
                return false;
        within_word = is_cased(c);
        i += length;
    }
    return true;
}
