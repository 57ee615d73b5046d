/* Exact decimal numbers, see decimal.h. */
#include "runtime/constrain/decimal.h"

#include <string.h>

#include "common/text.h"

/* Reads the exponent's digits. Returns DECIMAL_EXPONENT_MAX for larger ones. */
static int32_t read_exponent(const char *at, const char *end)
{
    int32_t value = 0;
    bool negative = at < end && *at == '-';
    for (at += at < end && !is_digit(*at); at < end; at++)
        if (value < DECIMAL_EXPONENT_MAX)
            value = value * 10 + (*at - '0');
    if (value > DECIMAL_EXPONENT_MAX)
        value = DECIMAL_EXPONENT_MAX;
    return negative ? -value : value;
}

void smol_decimal_read(struct json_text text, struct decimal *out)
{
    const char *at = text.at, *end = text.at + text.size;
    bool fraction = false;
    memset(out, 0, sizeof *out);
    out->negative = at < end && *at == '-';
    for (at += out->negative; at < end && (is_digit(*at) || *at == '.'); at++) {
        if (*at == '.') {
            fraction = true;
            continue;
        }
        bool leading = *at == '0' && out->n == 0;
        out->too_long |= !leading && out->n == DECIMAL_DIGITS;
        if (out->point > -DECIMAL_EXPONENT_MAX && out->point < DECIMAL_EXPONENT_MAX)
            out->point += fraction ? -leading : !leading;
        else
            out->too_long = true;
        if (!leading && out->n < DECIMAL_DIGITS)
            out->digits[out->n++] = *at;
    }
    int32_t exponent = at < end ? read_exponent(at + 1, end) : 0;
    out->too_long |= exponent == DECIMAL_EXPONENT_MAX || exponent == -DECIMAL_EXPONENT_MAX;
    out->point += exponent;
    while (out->n > 0 && out->digits[out->n - 1] == '0')
        out->n--;
    if (out->n == 0)
        *out = (struct decimal){0};
}

/* Compares absolute values. */
static int compare_magnitudes(const struct decimal *a, const struct decimal *b)
{
    if (a->n == 0 || b->n == 0)
        return (a->n > 0) - (b->n > 0);
    if (a->point != b->point)
        return a->point < b->point ? -1 : 1;
    size_t common = a->n < b->n ? a->n : b->n;
    int order = memcmp(a->digits, b->digits, common);
    return order ? order : (a->n > b->n) - (a->n < b->n);
}

int smol_decimal_compare(const struct decimal *a, const struct decimal *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    int order = compare_magnitudes(a, b);
    return a->negative ? -order : order;
}

int smol_decimal_compare_texts(struct json_text a, struct json_text b)
{
    struct decimal first, second;
    smol_decimal_read(a, &first);
    smol_decimal_read(b, &second);
    return smol_decimal_compare(&first, &second);
}

bool smol_decimal_is_integer(const struct decimal *a)
{
    return a->n <= a->point || a->n == 0;
}

bool smol_decimal_to_u32(const struct decimal *a, uint32_t *out)
{
    uint64_t value = 0;
    if (a->negative || !smol_decimal_is_integer(a) || a->point > 10)
        return false;
    for (int32_t i = 0; a->n && i < a->point; i++)
        value = value * 10 + (uint64_t)(i < a->n ? a->digits[i] - '0' : 0);
    *out = (uint32_t)value;
    return value < UINT32_MAX;
}

bool smol_decimal_is_multiple(const struct decimal *a, const struct decimal *b, bool *known)
{
    uint64_t modulus = 0, rest = 0;
    int32_t a_last = a->point - a->n, b_last = b->point - b->n; /* exponents of the last digits */
    if (a->n == 0)
        return true;
    if (b->n == 0 || b->n > 15 || a->too_long || b->too_long) {
        *known = *known && b->n == 0;
        return false;
    }
    for (int32_t i = 0; i < b->n; i++)
        modulus = modulus * 10 + (uint64_t)(b->digits[i] - '0');
    /* a = A * 10^a_last, b = modulus * 10^b_last: b divides a if modulus divides A * 10^shift */
    int32_t shift = a_last - b_last;
    if (shift > 2 * DECIMAL_EXPONENT_MAX)
        *known = false;
    if (shift < 0) /* A does not end in zeros: 10^-shift * modulus does not divide it */
        return false;
    for (int32_t i = 0; i < a->n + shift && *known; i++)
        rest = (rest * 10 + (uint64_t)(i < a->n ? a->digits[i] - '0' : 0)) % modulus;
    return *known && rest == 0;
}
