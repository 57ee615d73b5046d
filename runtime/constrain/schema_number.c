/* Numbers of a schema as terms of their digits, see schema_compiler.h.
 *
 * A number with a bound other than 0, or with multipleOf, is written without an exponent. */
#include <stdio.h>
#include <string.h>

#include "runtime/constrain/schema_compiler.h"

enum {
    SCHEMA_MAX_POINT = 330,       /* digits before or after the point of a bound */
    SCHEMA_MAX_MULTIPLES = 1000,  /* multiples that are listed one by one */
    SCHEMA_MAX_REMAINDERS = 1000, /* states of a division */
};

/* --- digits ------------------------------------------------------------------------------- */

/* Numbers of the wanted types: `tail` follows the digits before the point. */
struct shape {
    struct compiler *c;
    term digit, digits; /* one; any number of them */
    term tail;
    bool integer; /* there is no tail */
};

static term text(struct compiler *c, const char *bytes)
{
    return smol_term_literal(c->table, bytes, strlen(bytes));
}

static term between(struct compiler *c, char first, char last)
{
    struct byte_set set = {{0}};
    if (first > last)
        return TERM_NOTHING;
    byte_set_add(&set, (uint8_t)first, (uint8_t)last);
    return smol_term_bytes(c->table, &set);
}

static term then(struct compiler *c, term first, term second)
{
    return smol_term_then(c->table, first, second);
}

static term either(struct compiler *c, term a, term b)
{
    return smol_term_either(c->table, a, b);
}

/* "e5", "E-05", ... or nothing */
static term exponent(struct compiler *c)
{
    struct byte_set signs = {{0}};
    byte_set_add(&signs, '+', '+');
    byte_set_add(&signs, '-', '-');
    term sign = smol_term_optional(c->table, smol_term_bytes(c->table, &signs));
    term digits = smol_term_repeat(c->table, between(c, '0', '9'), 1, TERM_FOREVER);
    term letter = either(c, text(c, "e"), text(c, "E"));
    return smol_term_optional(c->table, then(c, letter, then(c, sign, digits)));
}

/* ".0" or nothing. More zeros would say the same, and a model might never stop writing them. */
static term zeros(struct compiler *c)
{
    return smol_term_optional(c->table, text(c, ".0"));
}

/* Zeros at the end of a fraction: none where numbers are written, any number of them where all
 * spellings of a number are to be excluded. */
static term padding(struct compiler *c, bool all_spellings)
{
    return all_spellings ? smol_term_repeat(c->table, text(c, "0"), 0, TERM_FOREVER) : TERM_EMPTY;
}

/* digits of which one is not zero */
static term not_zero(const struct shape *shape)
{
    return then(shape->c, shape->digits,
                then(shape->c, between(shape->c, '1', '9'), shape->digits));
}

static struct shape shape_of(struct compiler *c, unsigned types)
{
    struct shape shape = {.c = c, .digit = between(c, '0', '9')};
    shape.digits = smol_term_repeat(c->table, shape.digit, 0, TERM_FOREVER);
    shape.integer = types == TYPE_INTEGER;
    if (shape.integer)
        shape.tail = TERM_EMPTY; /* 1.0 is an integer too, but 1 is the usual spelling */
    else
        shape.tail = smol_term_optional(
            c->table,
            then(c, text(c, "."), smol_term_repeat(c->table, shape.digit, 1, TERM_FOREVER)));
    return shape;
}

/* 0, or digits that do not begin with 0 */
static term whole(const struct shape *shape)
{
    struct compiler *c = shape->c;
    return either(c, text(c, "0"), then(c, between(c, '1', '9'), shape->digits));
}

/* --- bounds ------------------------------------------------------------------------------- */

/* The digits of a bound: whole[0..n_whole) and fraction[0..n_fraction). */
struct digits {
    char whole[SCHEMA_MAX_POINT + 1], fraction[SCHEMA_MAX_POINT + DECIMAL_DIGITS + 1];
    int n_whole, n_fraction;
};

static void split(const struct decimal *number, struct digits *out)
{
    int point = number->point, i = 0;
    out->n_whole = out->n_fraction = 0;
    for (; i < point; i++)
        out->whole[out->n_whole++] = i < number->n ? number->digits[i] : '0';
    if (point <= 0)
        out->whole[out->n_whole++] = '0';
    for (i = point; i < number->n; i++)
        out->fraction[out->n_fraction++] = i < 0 ? '0' : number->digits[i];
}

/* Returns the fractions of numbers that have the bound's whole part and are at least the bound. */
static term fraction_from(const struct shape *shape, const struct digits *low, bool strict)
{
    struct compiler *c = shape->c;
    if (shape->integer)
        return low->n_fraction == 0 && !strict ? shape->tail : TERM_NOTHING;
    if (low->n_fraction == 0)
        return strict ? then(c, text(c, "."), not_zero(shape)) : shape->tail;
    term rest = strict ? not_zero(shape) : shape->digits;
    for (int i = low->n_fraction - 1; i >= 0; i--) {
        char digit = low->fraction[i];
        term above = then(c, between(c, (char)(digit + 1), '9'), shape->digits);
        rest = either(c, above, then(c, between(c, digit, digit), rest));
    }
    return then(c, text(c, "."), rest);
}

/* Returns the fractions of numbers that have the bound's whole part and are at most the bound. */
static term fraction_to(const struct shape *shape, const struct digits *high, bool strict)
{
    struct compiler *c = shape->c;
    bool none = high->n_fraction > 0 || !strict; /* without a fraction it is small enough */
    if (shape->integer)
        return none ? shape->tail : TERM_NOTHING;
    if (high->n_fraction == 0)
        return none ? zeros(c) : TERM_NOTHING;
    term rest = strict ? TERM_NOTHING : TERM_EMPTY;
    for (int i = high->n_fraction - 1; i >= 0; i--) {
        char digit = high->fraction[i];
        term below = then(c, between(c, '0', (char)(digit - 1)), shape->digits);
        rest = either(c, below, then(c, between(c, digit, digit), rest));
        if (i > 0)
            rest = smol_term_optional(c->table, rest);
    }
    return smol_term_optional(c->table, then(c, text(c, "."), rest));
}

/* Numbers without sign from `bound` on, or up to it. */
static term on_one_side(const struct shape *shape, const struct decimal *bound, bool strict,
                        bool from)
{
    struct compiler *c = shape->c;
    struct digits digits;
    split(bound, &digits);
    int n = digits.n_whole;
    term all = from ? fraction_from(shape, &digits, strict) : fraction_to(shape, &digits, strict);
    for (int i = n - 1; i >= 0; i--) {
        char digit = digits.whole[i], lowest = i == 0 && n > 1 ? '1' : '0';
        term other =
            from ? between(c, (char)(digit + 1), '9') : between(c, lowest, (char)(digit - 1));
        uint32_t left = (uint32_t)(n - 1 - i);
        term rest = then(c, smol_term_repeat(c->table, shape->digit, left, left), shape->tail);
        all = either(c, then(c, other, rest), then(c, between(c, digit, digit), all));
    }
    /* more digits, or fewer, before the point */
    term first = between(c, '1', '9');
    if (from) {
        term more = smol_term_repeat(c->table, shape->digit, (uint32_t)n, TERM_FOREVER);
        return either(c, all, then(c, first, then(c, more, shape->tail)));
    }
    if (n == 1)
        return all;
    term fewer = smol_term_repeat(c->table, shape->digit, 0, (uint32_t)(n - 2));
    term shorter = either(c, text(c, "0"), then(c, first, fewer));
    return either(c, all, then(c, shorter, shape->tail));
}

/* Numbers without sign between two bounds, NULL for none. */
static term magnitudes(const struct shape *shape, const struct decimal *low, bool low_strict,
                       const struct decimal *high, bool high_strict)
{
    struct compiler *c = shape->c;
    bool from_zero = !low || (low->n == 0 && !low_strict);
    if (high && high->n == 0 && high_strict)
        return TERM_NOTHING;
    if (from_zero && !high)
        return then(c, whole(shape), shape->tail);
    term below = high ? on_one_side(shape, high, high_strict, false) : TERM_NOTHING;
    if (from_zero)
        return below;
    term above = on_one_side(shape, low, low_strict, true);
    return high ? smol_term_both(c->table, above, below) : above;
}

/* Numbers with sign within the bounds. */
static term within(const struct shape *shape, const struct bounds *bounds)
{
    struct compiler *c = shape->c;
    struct decimal low = bounds->low, high = bounds->high;
    bool low_negative = !bounds->has_low || low.negative;
    bool high_negative = bounds->has_high && high.negative;
    term positive = TERM_NOTHING, negative = TERM_NOTHING;
    if (!high_negative)
        positive = magnitudes(shape, low_negative ? NULL : &low, bounds->low_strict,
                              bounds->has_high ? &high : NULL, bounds->high_strict);
    low.negative = high.negative = false;
    if (low_negative)
        negative = magnitudes(shape, high_negative ? &high : NULL, bounds->high_strict,
                              bounds->has_low ? &low : NULL, bounds->low_strict);
    /* up to 0, but not -0 */
    if (low_negative && bounds->has_high && high.n == 0 && bounds->high_strict)
        negative =
            magnitudes(shape, &high, true, bounds->has_low ? &low : NULL, bounds->low_strict);
    return either(c, positive, then(c, text(c, "-"), negative));
}

static void narrow(struct bounds *out, bool is_low, const struct decimal *bound, bool strict)
{
    struct decimal *own = is_low ? &out->low : &out->high;
    bool *has = is_low ? &out->has_low : &out->has_high;
    bool *own_strict = is_low ? &out->low_strict : &out->high_strict;
    int order = *has ? smol_decimal_compare(bound, own) : 0;
    bool tighter = is_low ? order > 0 : order < 0;
    if (!*has || tighter || (order == 0 && strict))
        *own = *bound, *own_strict = strict;
    *has = true;
}

bool smol_schema_bounds(struct compiler *c, const struct facts *facts, struct bounds *out)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < facts->n; i++) {
        const struct claim *claim = &facts->claims[i];
        bool exclusive =
            claim->word == WORD_EXCLUSIVE_MINIMUM || claim->word == WORD_EXCLUSIVE_MAXIMUM;
        bool is_low = claim->word == WORD_MINIMUM || claim->word == WORD_EXCLUSIVE_MINIMUM;
        struct decimal bound;
        if (!exclusive && claim->word != WORD_MINIMUM && claim->word != WORD_MAXIMUM)
            continue;
        if (!smol_schema_is(c, JSON_NUMBER, claim->value))
            return true;
        exclusive |=
            smol_json_has_true(claim->owner, is_low ? "exclusiveMinimum" : "exclusiveMaximum");
        smol_decimal_read(claim->value->text, &bound);
        if (bound.too_long || bound.point > SCHEMA_MAX_POINT || bound.point < -SCHEMA_MAX_POINT) {
            smol_schema_fail_claim(c, claim, "the bound has too many digits");
            return true;
        }
        narrow(out, is_low != claim->negative, &bound, exclusive != claim->negative);
    }
    int order = out->has_low && out->has_high ? smol_decimal_compare(&out->low, &out->high) : -1;
    return order < 0 || (order == 0 && !out->low_strict && !out->high_strict);
}

/* --- multiples ---------------------------------------------------------------------------- */

/* A multiple is a whole multiple of modulus after its point is moved by `places` to the right. */
struct divisor {
    uint32_t modulus;
    int places;
    int deciding; /* last digits that decide, -1 if all do */
};

static void read_divisor(struct compiler *c, const struct claim *claim, struct divisor *out)
{
    struct decimal number = {0};
    if (claim->value->kind == JSON_NUMBER)
        smol_decimal_read(claim->value->text, &number);
    if (number.n == 0 || number.negative) {
        smol_schema_wrong(c, claim->value, "must be a number above 0");
        return;
    }
    out->places = number.n > number.point ? number.n - number.point : 0;
    number.point += out->places;
    if (number.too_long || out->places > SCHEMA_MAX_POINT ||
        !smol_decimal_to_u32(&number, &out->modulus)) {
        smol_schema_fail_claim(c, claim, "the number has too many digits");
        return;
    }
    uint64_t power = 1;
    out->deciding = 0;
    for (; power % out->modulus != 0 && out->deciding >= 0; power *= 10)
        out->deciding = out->deciding < 11 ? out->deciding + 1 : -1;
    if (out->deciding >= 0 && power / out->modulus > SCHEMA_MAX_MULTIPLES)
        out->deciding = -1;
}

/* The part after the point: `free` digits, then the n last digits of an ending, then `end`. */
static term ending_fraction(const struct shape *shape, uint32_t free, const char *digits, int n,
                            term end)
{
    struct compiler *c = shape->c;
    while (n > 0 && digits[n - 1] == '0')
        n--;
    if (n == 0 && free == 0)
        return smol_term_optional(c->table, then(c, text(c, ".0"), end));
    term first = smol_term_repeat(c->table, shape->digit, n ? free : 1, free);
    term last = then(c, smol_term_literal(c->table, digits, (size_t)n), end);
    term all = then(c, text(c, "."), then(c, first, last));
    return n ? all : smol_term_optional(c->table, all);
}

/* Multiples without sign whose last digits decide: every ending is listed. `end_zeros`: see
 * padding. */
static term by_endings(const struct shape *shape, const struct divisor *by, term end_zeros)
{
    struct compiler *c = shape->c;
    struct term_choices all = {.table = c->table};
    int n = by->deciding, after = n < by->places ? n : by->places, before = n - after;
    uint64_t end = 1;
    for (int i = 0; i < n; i++)
        end *= 10;
    for (uint64_t ending = 0; ending < end; ending += by->modulus) {
        char digits[24] = {0};
        uint64_t rest = ending;
        int zero = 0;
        for (int i = n - 1; i >= 0; i--, rest /= 10)
            digits[i] = (char)('0' + rest % 10);
        while (zero < before - 1 && digits[zero] == '0')
            zero++;
        term start = whole(shape);
        if (before > 0) {
            term last = smol_term_literal(c->table, digits, (size_t)before);
            start = smol_term_literal(c->table, digits + zero, (size_t)(before - zero));
            start = either(c, start, then(c, between(c, '1', '9'), then(c, shape->digits, last)));
        }
        term fraction = ending_fraction(shape, (uint32_t)(by->places - after), digits + before,
                                        after, end_zeros);
        smol_choices_add(&all, then(c, start, fraction));
    }
    return smol_choices_end(&all);
}

/* Fills in ends[k][r]: what may follow when k digits are left and the remainder is r. */
static void fill_ends(const struct shape *shape, const struct divisor *by, term *ends)
{
    struct compiler *c = shape->c;
    uint32_t m = by->modulus;
    for (uint32_t r = 0; r < m; r++)
        ends[r] = r ? TERM_NOTHING : smol_term_repeat(c->table, text(c, "0"), 0, TERM_FOREVER);
    for (int k = 1; k <= by->places; k++) {
        for (uint32_t r = 0; r < m; r++) {
            uint64_t padded = r;
            term next[10];
            for (int i = 0; i < k; i++)
                padded = padded * 10 % m;
            for (uint32_t d = 0; d < 10; d++)
                next[d] = then(c, between(c, (char)('0' + d), (char)('0' + d)),
                               ends[(size_t)(k - 1) * m + (r * 10 + d) % m]);
            term all = smol_term_any_of(c->table, next, 10);
            bool fits = padded == 0 && k < by->places;
            ends[(size_t)k * m + r] = fits ? smol_term_optional(c->table, all) : all;
        }
    }
}

/* Multiples without sign by long division: a rule for each remainder. */
static term by_division(const struct shape *shape, const struct divisor *by)
{
    struct compiler *c = shape->c;
    uint32_t m = by->modulus;
    term *rules = smol_schema_take(c, m * sizeof *rules), next[11], first[10];
    term *ends = smol_schema_take(c, (size_t)(by->places + 1) * m * sizeof *ends);
    if (!rules || !ends)
        return TERM_NOTHING;
    fill_ends(shape, by, ends);
    for (uint32_t r = 0; r < m; r++)
        rules[r] = smol_term_rule(c->table);
    term after_zero = TERM_NOTHING;
    for (uint32_t r = 0; r < m; r++) {
        uint64_t padded = r;
        for (int i = 0; i < by->places; i++)
            padded = padded * 10 % m;
        term fraction = by->places ? then(c, text(c, "."), ends[(size_t)by->places * m + r])
                        : r == 0   ? (shape->integer ? TERM_EMPTY : zeros(c))
                                   : TERM_NOTHING;
        next[10] = padded == 0 ? smol_term_optional(c->table, fraction) : fraction;
        if (r == 0)
            after_zero = next[10];
        for (uint32_t d = 0; d < 10; d++) {
            next[d] =
                then(c, between(c, (char)('0' + d), (char)('0' + d)), rules[(r * 10 + d) % m]);
            if (r == 0)
                first[d] = next[d];
        }
        smol_term_define(c->table, rules[r], smol_term_any_of(c->table, next, 11));
    }
    first[0] = then(c, text(c, "0"), after_zero);
    return smol_term_any_of(c->table, first, 10);
}

/* Sets *out to a bound in units of 10^-places, rounded towards the numbers within. */
static bool scale(const struct decimal *bound, bool strict, bool is_low, int places, int64_t *out)
{
    int64_t value = 0;
    int end = bound->point + places;
    bool rest = bound->n > (end > 0 ? end : 0);
    if (end > 17)
        return false;
    for (int i = 0; bound->n && i < end; i++)
        value = value * 10 + (i < bound->n ? bound->digits[i] - '0' : 0);
    value = bound->negative ? -value : value;
    if (is_low && (rest ? !bound->negative : strict))
        value++;
    if (!is_low && (rest ? bound->negative : strict))
        value--;
    *out = value;
    return true;
}

/* Lists the multiples between bounds. Returns false if there are too many. */
static bool list_multiples(const struct shape *shape, const struct bounds *bounds,
                           const struct divisor *by, term *out)
{
    struct compiler *c = shape->c;
    struct term_choices all = {.table = c->table};
    int64_t low, high, m = by->modulus, step = 1;
    if (!bounds->has_low || !bounds->has_high || by->places > 17 ||
        !scale(&bounds->low, bounds->low_strict, true, by->places, &low) ||
        !scale(&bounds->high, bounds->high_strict, false, by->places, &high) ||
        (high - low) / m > SCHEMA_MAX_MULTIPLES)
        return false;
    for (int i = 0; i < by->places; i++)
        step *= 10;
    for (low += ((-low % m) + m) % m; low <= high; low += m) {
        int64_t magnitude = low < 0 ? -low : low;
        char digits[48];
        int point = snprintf(digits, sizeof digits, "%s%lld", low < 0 ? "-" : "",
                             (long long)(magnitude / step));
        if (shape->integer && magnitude % step != 0)
            continue;
        term number = smol_term_literal(c->table, digits, (size_t)point);
        snprintf(digits, sizeof digits, "%0*lld", by->places, (long long)(magnitude % step));
        term fraction = ending_fraction(shape, 0, digits, by->places, TERM_EMPTY);
        smol_choices_add(&all, then(c, number, fraction));
    }
    *out = smol_choices_end(&all);
    return true;
}

/* --- numbers ------------------------------------------------------------------------------ */

/* Returns the multiples among `numbers`, which are `narrowed` if they are not all within bounds. */
static term multiples(const struct shape *shape, const struct bounds *bounds,
                      const struct claim *claim, term numbers, bool narrowed, bool *recursive)
{
    struct compiler *c = shape->c;
    struct divisor by = {1, 0, 0};
    term sign = smol_term_optional(c->table, text(c, "-")), listed;
    read_divisor(c, claim, &by);
    if (c->status)
        return TERM_NOTHING;
    if (by.deciding >= 0) {
        term all = then(c, sign, by_endings(shape, &by, padding(c, claim->negative)));
        return claim->negative ? smol_term_without(c->table, numbers, all)
                               : smol_term_both(c->table, numbers, all);
    }
    if (!claim->negative && list_multiples(shape, bounds, &by, &listed))
        return smol_term_both(c->table, numbers, listed);
    bool signs_only = !bounds->has_high && (!bounds->has_low || bounds->low.n == 0) &&
                      !bounds->low_strict && (!shape->integer || by.places == 0);
    if (claim->negative || !signs_only ||
        (by.places + 1) * (double)by.modulus > SCHEMA_MAX_REMAINDERS) {
        smol_schema_fail_claim(c, claim, "multipleOf is not supported with these bounds");
        return TERM_NOTHING;
    }
    if (narrowed) {
        smol_schema_fail_claim(c, claim, "multipleOf is not supported beside these conditions");
        return TERM_NOTHING;
    }
    *recursive = true;
    term all = by_division(shape, &by);
    return bounds->has_low ? all : then(c, sign, all);
}

/* A number in all spellings without exponent. */
static term spellings(struct compiler *c, const struct decimal *number)
{
    struct digits digits;
    split(number, &digits);
    term sign = number->negative ? text(c, "-")
                : number->n == 0 ? smol_term_optional(c->table, text(c, "-"))
                                 : TERM_EMPTY;
    term whole = smol_term_literal(c->table, digits.whole, (size_t)digits.n_whole);
    term fraction = smol_term_literal(c->table, digits.fraction, (size_t)digits.n_fraction);
    if (digits.n_fraction > 0)
        fraction = then(c, text(c, "."), then(c, fraction, padding(c, true)));
    else
        fraction = smol_term_optional(c->table, then(c, text(c, ".0"), padding(c, true)));
    return then(c, sign, then(c, whole, fraction));
}

/* The numbers of enum or const, in all spellings without exponent. */
static term listed(struct compiler *c, const struct claim *claim)
{
    bool one = claim->word == WORD_CONST;
    const struct json_node *value = one ? claim->value : claim->value->first;
    struct term_choices all = {.table = c->table};
    for (; value; value = one ? NULL : value->next) {
        struct decimal number;
        if (value->kind != JSON_NUMBER)
            continue;
        smol_decimal_read(value->text, &number);
        if (number.too_long || number.point > SCHEMA_MAX_POINT || number.point < -SCHEMA_MAX_POINT)
            smol_schema_fail_claim(c, claim, "a number has too many digits");
        else
            smol_choices_add(&all, spellings(c, &number));
    }
    return smol_choices_end(&all);
}

/* Returns whether the claims say no more than that a number is above 0, or from 0 on. */
static bool is_positive(const struct shape *shape, const struct facts *facts,
                        const struct bounds *bounds)
{
    bool alone = !shape->integer && bounds->has_low && bounds->low.n == 0 && !bounds->has_high &&
                 (facts->types & TYPE_NUMBER) == TYPE_NUMBER;
    for (size_t i = 0; i < facts->n; i++)
        alone = alone && facts->claims[i].word != WORD_MULTIPLE_OF &&
                facts->claims[i].word != WORD_CONST && facts->claims[i].word != WORD_ENUM;
    return alone;
}

/* Numbers from 0 on, or above 0, also with an exponent. */
static term positive(const struct shape *shape, bool strict)
{
    struct compiler *c = shape->c;
    term numbers = then(c, whole(shape), shape->tail);
    if (strict)
        numbers = either(c, then(c, between(c, '1', '9'), then(c, shape->digits, shape->tail)),
                         then(c, text(c, "0."), not_zero(shape)));
    return then(c, numbers, exponent(c));
}

term smol_schema_number(struct compiler *c, const struct facts *facts)
{
    unsigned types = facts->types & TYPE_NUMBER;
    struct shape shape = shape_of(c, types);
    struct bounds bounds;
    bool recursive = false, plain = types == TYPE_NUMBER, narrowed = types == TYPE_FRACTION;
    if (!smol_schema_bounds(c, facts, &bounds) || c->status)
        return TERM_NOTHING;
    for (size_t i = 0; i < facts->n; i++)
        plain = plain && !(smol_schema_word_types((enum word)facts->claims[i].word) & TYPE_NUMBER);
    if (plain)
        return smol_json_number_term(c->table);
    term all = within(&shape, &bounds);
    if (is_positive(&shape, facts, &bounds))
        all = positive(&shape, bounds.low_strict);
    if (types == TYPE_FRACTION)
        all = smol_term_both(c->table, all,
                             then(c, smol_term_optional(c->table, text(c, "-")),
                                  then(c, whole(&shape), then(c, text(c, "."), not_zero(&shape)))));
    for (size_t i = 0; i < facts->n && !c->status; i++) {
        const struct claim *claim = &facts->claims[i];
        bool multiple = claim->word == WORD_MULTIPLE_OF;
        if (!multiple && claim->word != WORD_ENUM && claim->word != WORD_CONST)
            continue;
        term without = multiple ? TERM_NOTHING : listed(c, claim);
        if (!multiple && without == TERM_NOTHING)
            continue;
        if (recursive)
            smol_schema_fail_claim(c, claim, "not supported beside this multipleOf");
        else if (multiple)
            all = multiples(&shape, &bounds, claim, all, narrowed, &recursive);
        else
            all = smol_term_without(c->table, all, without);
        narrowed = true;
    }
    return recursive || c->status ? all : smol_term_unit(c->table, all);
}
