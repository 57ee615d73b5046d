/* Numbers with units, for people. */
#include <inttypes.h>

#include "convert/inspect/inspect_parts.h"

const char *smol_size_text(uint64_t bytes, char text[AMOUNT])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(text, AMOUNT, "%" PRIu64 " B", bytes);
        return text;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    for (; value >= 1023.95 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024; /* 1023.95 would be shown as 1024.0 */
    snprintf(text, AMOUNT, "%.1f %s", value, units[unit]);
    return text;
}

const char *smol_count_text(uint64_t n, char text[AMOUNT])
{
    char digits[AMOUNT];
    size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, n), used = 0;
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

const char *smol_shape_text(unsigned rank, const uint64_t *shape, char text[SHAPE_TEXT])
{
    size_t used = (size_t)snprintf(text, SHAPE_TEXT, "[");
    for (unsigned i = 0; i < rank; i++)
        used +=
            (size_t)snprintf(text + used, SHAPE_TEXT - used, "%s%" PRIu64, i ? ", " : "", shape[i]);
    snprintf(text + used, SHAPE_TEXT - used, "]");
    return text;
}
