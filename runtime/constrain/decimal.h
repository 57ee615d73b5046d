/* Decimal numbers of any length, exact: the bounds of numbers in schemas. */
#ifndef SMOL_RUNTIME_DECIMAL_H
#define SMOL_RUNTIME_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/constrain/json_tree.h"

enum { DECIMAL_DIGITS = 400, DECIMAL_EXPONENT_MAX = 100000 };

/* 0.DIGITS * 10^point, without leading and trailing zeros; zero has no digits and is positive. */
struct decimal {
    bool negative;
    bool too_long; /* more than DECIMAL_DIGITS digits, or an extreme exponent: the value is cut */
    uint16_t n;
    int32_t point;
    char digits[DECIMAL_DIGITS];
};

/* Reads a number of JSON. */
void smol_decimal_read(struct json_text text, struct decimal *out);

/* Returns a number below, equal to or above 0. */
int smol_decimal_compare(const struct decimal *a, const struct decimal *b);
int smol_decimal_compare_texts(struct json_text a, struct json_text b);

bool smol_decimal_is_integer(const struct decimal *a);

/* Sets *out if it is a whole number from 0 to 2^32 - 2. */
bool smol_decimal_to_u32(const struct decimal *a, uint32_t *out);

/* Returns whether a is a whole multiple of b. Sets *known to false if that is too long to find. */
bool smol_decimal_is_multiple(const struct decimal *a, const struct decimal *b, bool *known);

#endif
