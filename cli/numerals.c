/* Numbers on the command line, see numerals.h. */
#include "cli/numerals.h"

#include <float.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

smol_status smol_parse_whole(const char *name, const char *text, uint64_t low, uint64_t high,
                             uint64_t *value, smol_error *error)
{
    uint64_t number = 0;
    bool good = *text != '\0';
    for (const char *c = text; good && *c; c++)
        good = *c >= '0' && *c <= '9' && !__builtin_mul_overflow(number, 10, &number) &&
               !__builtin_add_overflow(number, (uint64_t)(*c - '0'), &number);
    if (good && number >= low && number <= high) {
        *value = number;
        return SMOL_OK;
    }
    return smol_fail(error, SMOL_ERROR_USAGE,
                     "%s: \"%s\" is not a whole number from %" PRIu64 " to %" PRIu64, name, text,
                     low, high);
}

static void describe_range(float low, float high, char *out, size_t size)
{
    if (low == FLT_MIN)
        snprintf(out, size, "above 0");
    else if (high == FLT_MAX)
        snprintf(out, size, "of at least %g", (double)low);
    else
        snprintf(out, size, "from %g to %g", (double)low, (double)high);
}

/* Returns whether the text can be a decimal number. Excludes hexadecimal, infinity, NaN and leading
 * spaces, which strtod accepts. The programs never change LC_NUMERIC, so the decimal separator is a
 * point. */
static bool is_decimal(const char *text)
{
    return *text != '\0' && text[strspn(text, "+-.0123456789eE")] == '\0';
}

smol_status smol_parse_real(const char *name, const char *text, float low, float high, float *value,
                            smol_error *error)
{
    char *end = NULL;
    double number = is_decimal(text) ? strtod(text, &end) : 0;
    bool good = end && end != text && *end == '\0';
    if (good && number >= (double)low && number <= (double)high) {
        *value = (float)number;
        return SMOL_OK;
    }
    char range[64];
    describe_range(low, high, range, sizeof range);
    return smol_fail(error, SMOL_ERROR_USAGE, "%s: \"%s\" is %s: give one %s", name, text,
                     good ? "out of range" : "not a number", range);
}

/* Returns the bytes of the unit at the end of the text, and its place in *unit; 0: there is none.
 */
static double find_unit(const char *text, const char **unit)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                 {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9}};
    *unit = text + strspn(text, ".0123456789");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(*unit, units[i].name) == 0)
            return units[i].bytes;
    return 0;
}

smol_status smol_parse_size(const char *name, const char *text, uint64_t least, uint64_t *bytes,
                            smol_error *error)
{
    const char *unit;
    char *end = NULL;
    double factor = find_unit(text, &unit), number;
    if (*unit == '\0' && !smol_parse_whole(name, text, least, UINT64_MAX, bytes, error))
        return SMOL_OK;
    number = factor > 0 && unit != text ? strtod(text, &end) * factor : 0;
    if (end != unit || number < 1 || number >= 0x1p63)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "%s: \"%s\" is not a size: give one such as 85MB, 81.5MiB or 85000000",
                         name, text);
    *bytes = (uint64_t)number;
    return SMOL_OK;
}
