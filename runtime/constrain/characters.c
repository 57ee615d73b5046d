/* Terms of characters, see json_terms.h. */
#include "runtime/constrain/json_terms.h"

/* --- UTF-8 ------------------------------------------------------------------------------------ */

/* A byte after which the same texts follow. */
struct branch {
    struct byte_set bytes;
    term next;
};

/* Adds the terms of `n` branches. */
static term join(struct term_table *table, const struct branch *branches, size_t n)
{
    term terms[64];
    for (size_t i = 0; i < n; i++)
        terms[i] =
            smol_term_then(table, smol_term_bytes(table, &branches[i].bytes), branches[i].next);
    return smol_term_any_of(table, terms, n);
}

/* Adds a byte and what follows it to branches[0..n), and returns their number. */
static size_t add_branch(struct branch *branches, size_t n, unsigned byte, term next)
{
    size_t i = 0;
    if (next == TERM_NOTHING)
        return n;
    while (i < n && branches[i].next != next)
        i++;
    if (i == n)
        branches[n++] = (struct branch){.next = next};
    byte_set_add(&branches[i].bytes, byte, byte);
    return n;
}

/* The characters that are written, of those that begin with the same byte. */
struct characters {
    const struct code_range *ranges; /* (n), ascending and disjoint */
    size_t n;
    uint32_t min; /* the first that may be written in as many bytes */
    term full[4]; /* any 0 to 3 bytes after the first */
};

/* Returns the last `n_bytes` bytes (0..3) of those characters that they tell apart from `first`. */
static term utf8_tail(struct term_table *table, const struct characters *set, uint32_t first,
                      unsigned n_bytes)
{
    const uint32_t last = first + (1u << 6 * n_bytes) - 1;
    size_t low = code_ranges_find(set->ranges, set->n, first);
    const bool surrogates = last >= 0xd800 && first < 0xe000;
    if (low == set->n || set->ranges[low].first > last || last < set->min ||
        (surrogates && first >= 0xd800 && last < 0xe000))
        return TERM_NOTHING;
    if (n_bytes == 0)
        return TERM_EMPTY;
    if (set->ranges[low].first <= first && last <= set->ranges[low].last && first >= set->min &&
        !surrogates)
        return set->full[n_bytes];
    struct branch branches[64];
    size_t n = 0;
    for (unsigned i = 0; i < 64; i++)
        n = add_branch(branches, n, 0x80 + i,
                       utf8_tail(table, set, first + (i << 6 * (n_bytes - 1)), n_bytes - 1));
    return join(table, branches, n);
}

term smol_utf8_term(void *user, struct term_table *table, const struct code_range *ranges, size_t n)
{
    static const struct {
        uint8_t first, last, n_more; /* lead bytes, and the bytes after each */
        uint32_t min;
    } lengths[] = {
        {0, 0x7f, 0, 0}, {0xc2, 0xdf, 1, 0x80}, {0xe0, 0xef, 2, 0x800}, {0xf0, 0xf4, 3, 0x10000}};
    struct branch branches[64]; /* ASCII is one, and there are 51 other first bytes */
    size_t n_branches = 0;
    struct byte_set more = {{0}};
    struct characters set = {ranges, n, 0, {TERM_EMPTY}};
    (void)user;
    byte_set_add(&more, 0x80, 0xbf);
    for (unsigned i = 0; i < 3; i++)
        set.full[i + 1] = smol_term_then(table, smol_term_bytes(table, &more), set.full[i]);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (unsigned byte = lengths[i].first; byte <= lengths[i].last; byte++) {
            const unsigned n_more = lengths[i].n_more;
            set.min = lengths[i].min;
            const uint32_t bits = n_more ? byte & 0x3fu >> n_more : byte;
            n_branches = add_branch(branches, n_branches, byte,
                                    utf8_tail(table, &set, bits << 6 * n_more, n_more));
        }
    return join(table, branches, n_branches);
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* A hexadecimal digit from first to last, in either case. */
static term hex_digit(struct term_table *table, unsigned first, unsigned last)
{
    struct byte_set set = {{0}};
    for (unsigned i = first; i <= last; i++) {
        byte_set_add(&set, (uint8_t) "0123456789abcdef"[i], (uint8_t) "0123456789abcdef"[i]);
        byte_set_add(&set, (uint8_t) "0123456789ABCDEF"[i], (uint8_t) "0123456789ABCDEF"[i]);
    }
    return smol_term_bytes(table, &set);
}

/* n hexadecimal digits with a value from low to high. */
static term hex_between(struct term_table *table, uint32_t low, uint32_t high, unsigned n)
{
    if (n == 0)
        return TERM_EMPTY;
    uint32_t unit = (uint32_t)1 << 4 * (n - 1), first = low / unit, last = high / unit;
    if (first == last)
        return smol_term_then(table, hex_digit(table, first, first),
                              hex_between(table, low % unit, high % unit, n - 1));
    term all = TERM_NOTHING;
    if (low % unit != 0) {
        all = smol_term_then(table, hex_digit(table, first, first),
                             hex_between(table, low % unit, unit - 1, n - 1));
        first++;
    }
    if (high % unit != unit - 1) {
        term end = smol_term_then(table, hex_digit(table, last, last),
                                  hex_between(table, 0, high % unit, n - 1));
        all = smol_term_either(table, all, end);
        last--;
    }
    if (first <= last) {
        term middle = smol_term_then(table, hex_digit(table, first, last),
                                     hex_between(table, 0, unit - 1, n - 1));
        all = smol_term_either(table, all, middle);
    }
    return all;
}

/* The digits after \u, for code points below 0x10000. */
static term escape_range(struct term_table *table, uint32_t first, uint32_t last)
{
    return smol_term_then(table, smol_term_literal(table, "\\u", 2),
                          hex_between(table, first, last, 4));
}

/* Code points from 0x10000 as surrogate pairs. */
static term pair_range(struct term_table *table, uint32_t first, uint32_t last)
{
    uint32_t low = first - 0x10000, high = last - 0x10000;
    term all = TERM_NOTHING;
    while (low <= high) {
        /* one first half, or all that go with every second half */
        uint32_t end = low | 0x3ff;
        if ((low & 0x3ff) == 0 && high - low >= 0x3ff)
            end = ((high + 1) & ~(uint32_t)0x3ff) - 1;
        if (end > high)
            end = high;
        term half = escape_range(table, 0xd800 + (low >> 10), 0xd800 + (end >> 10));
        uint32_t last_low = end - low >= 0x3ff ? 0x3ff : end & 0x3ff;
        term rest = escape_range(table, 0xdc00 + (low & 0x3ff), 0xdc00 + last_low);
        all = smol_term_either(table, all, smol_term_then(table, half, rest));
        low = end + 1;
    }
    return all;
}

/* Calls make for the parts of first..last that are within low..high. */
static term clipped(struct term_table *table, term (*make)(struct term_table *, uint32_t, uint32_t),
                    const struct code_range *range, uint32_t low, uint32_t high)
{
    uint32_t first = range->first > low ? range->first : low;
    uint32_t last = range->last < high ? range->last : high;
    return first <= last ? make(table, first, last) : TERM_NOTHING;
}

/* Returns the characters that need no escape, as UTF-8. */
static term raw(struct term_table *table, const struct code_range *ranges, size_t n)
{
    struct byte_set ascii = {{0}};
    size_t i = 0;
    for (uint8_t c = 0x20; c < 0x80; c++)
        if (c != '"' && c != '\\' && code_ranges_have(ranges, n, c))
            byte_set_add(&ascii, c, c);
    term all = smol_term_bytes(table, &ascii);
    while (i < n && ranges[i].last < 0x80)
        i++;
    if (i < n && ranges[i].first < 0x80) {
        const struct code_range rest = {0x80, ranges[i++].last};
        all = smol_term_either(table, all, smol_utf8_term(NULL, table, &rest, 1));
    }
    return smol_term_either(table, all, smol_utf8_term(NULL, table, ranges + i, n - i));
}

term smol_json_character(struct term_table *table, const struct code_range *ranges, size_t n)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    struct term_choices all = {.table = table};
    struct byte_set set = {{0}};
    smol_choices_add(&all, raw(table, ranges, n));
    for (size_t i = 0; i < n; i++) {
        smol_choices_add(&all, clipped(table, escape_range, &ranges[i], 0, 0xd7ff));
        smol_choices_add(&all, clipped(table, escape_range, &ranges[i], 0xe000, 0xffff));
        smol_choices_add(&all, clipped(table, pair_range, &ranges[i], 0x10000, 0x10ffff));
    }
    for (size_t k = 0; values[k]; k++)
        if (code_ranges_have(ranges, n, (uint8_t)values[k]))
            byte_set_add(&set, (uint8_t)names[k], (uint8_t)names[k]);
    smol_choices_add(&all, smol_term_then(table, smol_term_literal(table, "\\", 1),
                                          smol_term_bytes(table, &set)));
    return smol_choices_end(&all);
}

term smol_json_any_character(struct term_table *table)
{
    static const struct code_range all = {0, 0x10ffff};
    return smol_json_character(table, &all, 1);
}
