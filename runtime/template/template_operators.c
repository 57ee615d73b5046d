/* Operators of chat templates. See template_call.h. */
#include <math.h>
#include <string.h>

#include "common/utf8.h"
#include "runtime/template/template_call.h"

/* --- numbers ------------------------------------------------------------------------------ */

static double real_of(const struct value *number)
{
    return number->type == VALUE_REAL ? number->real : (double)integral(number);
}

static bool beyond(struct machine *machine)
{
    return smol_template_fail_unsupported(machine, "an integer beyond 64 bits");
}

static bool divides_by_zero(struct machine *machine)
{
    return smol_template_fail(machine, SMOL_ERROR_USAGE, "division by zero");
}

/* Divides as Python does: the quotient is rounded down, and the remainder has the divisor's
 * sign. */
static bool divide_integers(struct machine *machine, enum template_binary binary, int64_t x,
                            int64_t y, struct value *out)
{
    if (y == 0)
        return divides_by_zero(machine);
    if (y == -1) { /* avoid the overflow of INT64_MIN / -1 */
        *out = value_integer(0);
        return binary == BINARY_MODULO ||
               smol_template_unary(machine, UNARY_MINUS,
                                   &(struct value){.type = VALUE_INTEGER, .integer = x}, out);
    }
    int64_t quotient = x / y, remainder = x % y;
    if (remainder != 0 && (remainder < 0) != (y < 0)) {
        quotient--;
        remainder += y;
    }
    *out = value_integer(binary == BINARY_MODULO ? remainder : quotient);
    return true;
}

static bool power_of_integers(struct machine *machine, int64_t x, int64_t y, struct value *out)
{
    int64_t power = 1;
    if (y > 64 && x != 0 && x != 1 && x != -1)
        return beyond(machine);
    if (y > 64)
        y = 64 + y % 2;
    for (; y > 0; y--)
        if (__builtin_mul_overflow(power, x, &power))
            return beyond(machine);
    *out = value_integer(power);
    return true;
}

static bool binary_integers(struct machine *machine, enum template_binary binary, int64_t x,
                            int64_t y, struct value *out)
{
    int64_t result = 0;
    bool overflow;
    switch (binary) {
    case BINARY_ADD:
        overflow = __builtin_add_overflow(x, y, &result);
        break;
    case BINARY_SUBTRACT:
        overflow = __builtin_sub_overflow(x, y, &result);
        break;
    case BINARY_MULTIPLY:
        overflow = __builtin_mul_overflow(x, y, &result);
        break;
    case BINARY_POWER:
        return power_of_integers(machine, x, y, out);
    default:
        return divide_integers(machine, binary, x, y, out);
    }
    *out = value_integer(result);
    return !overflow || beyond(machine);
}

/* Divides as CPython's float_divmod does. */
static double divide_reals(enum template_binary binary, double x, double y)
{
    double remainder = fmod(x, y), quotient = (x - remainder) / y;
    if (remainder != 0 && (y < 0) != (remainder < 0)) {
        remainder += y;
        quotient -= 1;
    }
    if (remainder == 0)
        remainder = copysign(0, y);
    if (binary == BINARY_MODULO)
        return remainder;
    if (quotient == 0)
        return copysign(0, x / y);
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

static bool binary_reals(struct machine *machine, enum template_binary binary, double x, double y,
                         struct value *out)
{
    switch (binary) {
    case BINARY_ADD:
        *out = value_real(x + y);
        return true;
    case BINARY_SUBTRACT:
        *out = value_real(x - y);
        return true;
    case BINARY_MULTIPLY:
        *out = value_real(x * y);
        return true;
    case BINARY_POWER:
        return smol_template_fail_unsupported(machine, "a power of numbers that are not whole");
    default:
        if (y == 0)
            return divides_by_zero(machine);
        *out = value_real(binary == BINARY_DIVIDE ? x / y : divide_reals(binary, x, y));
        return true;
    }
}

/* Returns whether the number is represented exactly as a real. */
static bool is_exact(const struct value *number)
{
    return number->type == VALUE_REAL ||
           (integral(number) <= (int64_t)1 << 53 && integral(number) >= -((int64_t)1 << 53));
}

static bool binary_numbers(struct machine *machine, enum template_binary binary,
                           const struct value *x, const struct value *y, struct value *out)
{
    bool integers = is_integral(x) && is_integral(y);
    bool real = binary == BINARY_DIVIDE || (binary == BINARY_POWER && integers && integral(y) < 0);
    if (integers && !real)
        return binary_integers(machine, binary, integral(x), integral(y), out);
    if (binary == BINARY_DIVIDE && integers && !(is_exact(x) && is_exact(y)))
        return smol_template_fail_unsupported(machine, "a division of integers beyond 53 bits");
    return binary_reals(machine, binary, real_of(x), real_of(y), out);
}

bool smol_template_unary(struct machine *machine, enum template_unary unary, const struct value *x,
                         struct value *out)
{
    int64_t negative;
    if (!is_number(x))
        return smol_template_fail_type(machine, "a sign before", x);
    if (x->type == VALUE_REAL)
        *out = value_real(unary == UNARY_MINUS ? -x->real : x->real);
    else if (unary == UNARY_PLUS)
        *out = value_integer(integral(x));
    else if (__builtin_sub_overflow(0, integral(x), &negative))
        return beyond(machine);
    else
        *out = value_integer(negative);
    return true;
}

/* --- texts and lists ---------------------------------------------------------------------- */

/* Appends a text, or with `escapes` what markupsafe.escape() makes of it. */
static bool add_text(struct machine *machine, struct text_builder *builder,
                     const struct value *text, bool escapes)
{
    static const char special[] = "&<>'\"",
                      escaped[][6] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    if (!escapes)
        return smol_builder_add_part(machine, builder, text, 0, text->n);
    for (uint32_t i = 0; i < text->n; i++) {
        const char *found = memchr(special, text->bytes[i], sizeof special - 1);
        if (found ? !smol_builder_add_literal(machine, builder, escaped[found - special],
                                              text_argument(text, i))
                  : !smol_builder_add_part(machine, builder, text, i, i + 1))
            return false;
    }
    return true;
}

/* A text that is marked safe escapes the other one, even where nothing else escapes. */
static bool join_texts(struct machine *machine, const struct value *x, const struct value *y,
                       struct value *out)
{
    struct text_builder builder = {0};
    if (!add_text(machine, &builder, x, x->safe < y->safe) ||
        !add_text(machine, &builder, y, y->safe < x->safe))
        return false;
    *out = smol_builder_text(&builder);
    out->safe = x->safe | y->safe;
    return true;
}

static bool repeat_text(struct machine *machine, const struct value *text, int64_t times,
                        struct value *out)
{
    struct text_builder builder = {0};
    for (; times > 0 && text->n > 0; times--)
        if (!smol_builder_add_part(machine, &builder, text, 0, text->n))
            return false;
    *out = smol_builder_text(&builder);
    out->safe = text->safe;
    return true;
}

/* Makes a sequence of the items of x, `times` times, followed by those of y. */
static bool join_items(struct machine *machine, const struct value *x, int64_t times,
                       const struct value *y, struct value *out)
{
    uint64_t n;
    if (x->n == 0 || times < 0)
        times = 0;
    if (__builtin_mul_overflow((uint64_t)times, (uint64_t)x->n, &n) || n > TEMPLATE_MEMORY)
        n = TEMPLATE_MEMORY; /* exceeds the memory, so that the allocation fails */
    n += y ? y->n : 0;
    struct value *items = smol_template_alloc(machine, n, sizeof *items);
    if (!items || !smol_template_step(machine, n * 16))
        return false;
    uint32_t at = 0;
    for (int64_t i = 0; i < times; i++, at += x->n)
        memcpy(items + at, x->items, x->n * sizeof *items);
    if (y && y->n > 0)
        memcpy(items + at, y->items, y->n * sizeof *items);
    *out = value_items(x->type, items, (uint32_t)n);
    return true;
}

static bool is_list(const struct value *value)
{
    return value->type == VALUE_LIST || value->type == VALUE_TUPLE;
}

static bool multiply(struct machine *machine, const struct value *x, int64_t times,
                     struct value *out)
{
    return is_text(x) ? repeat_text(machine, x, times, out)
                      : join_items(machine, x, times, NULL, out);
}

bool smol_template_binary(struct machine *machine, enum template_binary binary,
                          const struct value *x, const struct value *y, struct value *out)
{
    if (is_number(x) && is_number(y))
        return binary_numbers(machine, binary, x, y, out);
    if (binary == BINARY_ADD && is_text(x) && is_text(y))
        return join_texts(machine, x, y, out);
    if (binary == BINARY_ADD && is_list(x) && x->type == y->type)
        return join_items(machine, x, 1, y, out);
    if (binary == BINARY_MULTIPLY && is_integral(y) && (is_text(x) || is_list(x)))
        return multiply(machine, x, integral(y), out);
    if (binary == BINARY_MULTIPLY && is_integral(x) && (is_text(y) || is_list(y)))
        return multiply(machine, y, integral(x), out);
    if (binary == BINARY_MODULO && is_text(x))
        return smol_template_fail_unsupported(machine, "formatting with %");
    const char *what = binary == BINARY_ADD ? "cannot add" : "cannot compute with";
    bool first = is_undefined(x) || (!is_number(x) && !is_undefined(y) && binary != BINARY_ADD);
    return smol_template_fail_type(machine, what, first ? x : y);
}

bool smol_template_compare(struct machine *machine, enum template_compare compare,
                           const struct value *x, const struct value *y, bool *out)
{
    int order = 0;
    bool found = false;
    if (compare == COMPARE_EQUAL || compare == COMPARE_UNEQUAL) {
        if (!smol_value_equal(machine, x, y, &found))
            return false;
        *out = found == (compare == COMPARE_EQUAL);
        return true;
    }
    if (compare == COMPARE_IN || compare == COMPARE_NOT_IN) {
        if (!smol_value_contains(machine, y, x, &found))
            return false;
        *out = found == (compare == COMPARE_IN);
        return true;
    }
    if (!smol_value_order(machine, x, y, &order))
        return false;
    bool nan = order == 2;
    *out = !nan && (compare == COMPARE_LESS         ? order < 0
                    : compare == COMPARE_LESS_EQUAL ? order <= 0
                    : compare == COMPARE_GREATER    ? order > 0
                                                    : order >= 0);
    return true;
}

/* --- slices ------------------------------------------------------------------------------- */

struct slice {
    int64_t start, step;
    uint32_t n;
};

/* Reads a bound as Python does and clamps it to low..high. */
static bool read_bound(struct machine *machine, const struct value *bound, int64_t n, int64_t low,
                       int64_t high, int64_t *out)
{
    if (!is_integral(bound))
        return smol_template_fail_type(machine, "cannot slice with", bound);
    int64_t value = integral(bound);
    if (value < 0)
        value += n;
    *out = value < low ? low : value > high ? high : value;
    return true;
}

/* Reads the range of a slice of n items, as CPython's PySlice_AdjustIndices does. */
static bool read_slice(struct machine *machine, const struct value range[3], int64_t n,
                       struct slice *slice)
{
    bool has_step = range[2].type != VALUE_NONE;
    if (has_step && !is_integral(&range[2]))
        return smol_template_fail_type(machine, "cannot slice with", &range[2]);
    int64_t step = has_step ? integral(&range[2]) : 1;
    if (step == 0)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "a slice with step 0");
    int64_t most = (int64_t)1 << 32; /* longer than any sequence */
    step = step > most ? most : step < -most ? -most : step;
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    int64_t start = step < 0 ? high : low, stop = step < 0 ? low : high;
    if (range[0].type != VALUE_NONE && !read_bound(machine, &range[0], n, low, high, &start))
        return false;
    if (range[1].type != VALUE_NONE && !read_bound(machine, &range[1], n, low, high, &stop))
        return false;
    int64_t distance = step > 0 ? stop - start : start - stop;
    int64_t stride = step > 0 ? step : -step;
    *slice = (struct slice){start, step,
                            distance > 0 ? (uint32_t)((distance + stride - 1) / stride) : 0};
    return true;
}

static bool slice_items(struct machine *machine, const struct value *value,
                        const struct slice *slice, struct value *out)
{
    if (slice->step == 1) {
        *out = value_items(value->type, value->n ? value->items + slice->start : NULL, slice->n);
        return true;
    }
    struct value *items = smol_template_alloc(machine, slice->n, sizeof *items);
    if (!items || !smol_template_step(machine, (uint64_t)slice->n * 16))
        return false;
    for (uint32_t i = 0; i < slice->n; i++)
        items[i] = value->items[slice->start + i * slice->step];
    *out = value_items(value->type, items, slice->n);
    return true;
}

static bool slice_text(struct machine *machine, const struct value *text, const struct slice *slice,
                       struct value *out)
{
    struct text_builder builder = {0};
    struct value characters;
    if (slice->step == 1) {
        size_t start = smol_text_offset(text, (size_t)slice->start);
        struct value rest = value_part(text, start, text->n);
        *out = value_part(&rest, 0, smol_text_offset(&rest, slice->n));
        return true;
    }
    if (!smol_value_iterate(machine, text, &characters))
        return false;
    for (uint32_t i = 0; i < slice->n; i++) {
        const struct value *c = &characters.items[slice->start + i * slice->step];
        if (!smol_builder_add_part(machine, &builder, c, 0, c->n))
            return false;
    }
    *out = smol_builder_text(&builder);
    out->safe = text->safe;
    return true;
}

bool smol_template_slice(struct machine *machine, const struct value *value,
                         const struct value range[3], struct value *out)
{
    struct slice slice = {0};
    if (!is_text(value) && !is_sequence(value))
        return smol_template_fail_type(machine, "cannot slice", value);
    int64_t n = is_text(value) ? (int64_t)smol_text_length(value) : value->n;
    if (!smol_template_step(machine, is_text(value) ? value->n : 0) ||
        !read_slice(machine, range, n, &slice))
        return false;
    return is_text(value) ? slice_text(machine, value, &slice, out)
                          : slice_items(machine, value, &slice, out);
}
