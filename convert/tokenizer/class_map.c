/* Classes of characters, see automaton.h. All code points start in one class. Each set splits the
 * classes that it contains only in part. */
#include <stdlib.h>

#include "convert/tokenizer/automaton.h"
#include "format/format.h"

static int compare_code_points(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Collects the starts and ends of all ranges. */
static smol_status collect_starts(const struct pattern *patterns, size_t n, struct class_map *map,
                                  smol_error *error)
{
    size_t n_ranges = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < patterns[i].n_sets; k++)
            n_ranges += patterns[i].sets[k].n;
    map->starts = calloc(2 * n_ranges + 1, sizeof *map->starts);
    map->classes = calloc(2 * n_ranges + 1, 1);
    if (!map->starts || !map->classes)
        return smol_fail_memory(error, "character classes");
    size_t n_starts = 1; /* the first run starts at 0 */
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < patterns[i].n_sets; k++) {
            const struct code_set *set = &patterns[i].sets[k];
            for (size_t r = 0; r < set->n; r++) {
                map->starts[n_starts++] = set->ranges[r].first;
                if (set->ranges[r].last < LAST_CODE_POINT)
                    map->starts[n_starts++] = set->ranges[r].last + 1;
            }
        }
    }
    qsort(map->starts, n_starts, sizeof *map->starts, compare_code_points);
    for (size_t i = 0; i < n_starts; i++)
        if (i == 0 || map->starts[i] != map->starts[i - 1])
            map->starts[map->n_starts++] = map->starts[i];
    return SMOL_OK;
}

/* Returns the run that contains code_point. */
static size_t find_run(const struct class_map *map, uint32_t code_point)
{
    size_t low = 0, high = map->n_starts;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (map->starts[middle] <= code_point)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Sets *first to the first run of a range, and returns the end of its runs (exclusive). */
static size_t runs_of(const struct class_map *map, const struct code_range *range, size_t *first)
{
    *first = find_run(map, range->first);
    return range->last == LAST_CODE_POINT ? map->n_starts : find_run(map, range->last + 1);
}

/* Splits each class: its runs inside the set become a new class, unless all of them are. Returns
 * false if there are too many classes. */
static bool cut(struct class_map *map, const struct code_set *set)
{
    uint32_t total[SCANNER_MAX_CLASSES] = {0}, inside[SCANNER_MAX_CLASSES] = {0};
    uint32_t n_before = map->n_classes, moved[SCANNER_MAX_CLASSES];
    for (size_t run = 0; run < map->n_starts; run++)
        total[map->classes[run]]++;
    size_t i, end;
    for (size_t r = 0; r < set->n; r++)
        for (end = runs_of(map, &set->ranges[r], &i); i < end; i++)
            inside[map->classes[i]]++;
    for (uint32_t c = 0; c < n_before; c++) {
        moved[c] = c;
        if (inside[c] == 0 || inside[c] == total[c])
            continue;
        if (map->n_classes == SCANNER_MAX_CLASSES)
            return false;
        moved[c] = map->n_classes++;
    }
    for (size_t r = 0; r < set->n; r++)
        for (end = runs_of(map, &set->ranges[r], &i); i < end; i++)
            map->classes[i] = (uint8_t)moved[map->classes[i]];
    return true;
}

smol_status smol_class_map_make(const struct pattern *patterns, size_t n, struct class_map *map,
                                smol_error *error)
{
    smol_status status = collect_starts(patterns, n, map, error);
    map->n_classes = 1;
    for (size_t i = 0; !status && i < n; i++)
        for (size_t k = 0; !status && k < patterns[i].n_sets; k++)
            if (!cut(map, &patterns[i].sets[k]))
                status = smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                                   "more than %d classes of characters", SCANNER_MAX_CLASSES);
    return status;
}

void smol_class_map_symbols(const struct class_map *map, const struct code_set *set,
                            struct symbol_set *symbols)
{
    *symbols = (struct symbol_set){{0}};
    size_t i, end;
    for (size_t r = 0; r < set->n; r++)
        for (end = runs_of(map, &set->ranges[r], &i); i < end; i++)
            symbol_add(symbols, map->classes[i]);
}

void smol_class_map_free(struct class_map *map)
{
    free(map->starts);
    free(map->classes);
    *map = (struct class_map){0};
}
