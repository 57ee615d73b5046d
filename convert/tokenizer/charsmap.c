/* Reads SentencePiece's map of characters, see text_tables.h. Only keys of less than
 * CLUSTER_TOO_LONG bytes are ever looked up, and of those that start alike only the shortest. */
#include "convert/tokenizer/text_tables.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "convert/tokenizer/unicode_clusters.h"

enum {
    BLOCK = 256,
    N_CODE_POINTS = CLASS_INDEX_SIZE * BLOCK,
    MAX_MAP_KEYS = 1 << 18,
    MAX_MAP_WORK = 1 << 26, /* of the walk through the trie: branches may meet again */
};

struct charsmap {
    const char *path;
    uint8_t *bytes; /* owned: u32 the trie's size, the trie, the texts */
    size_t size;
    uint32_t n_units;
    const uint8_t *texts; /* (n_texts), each ends with a zero */
    size_t n_texts;
    uint32_t *changes; /* (N_CODE_POINTS), owned */
    struct cluster_arrays *arrays;
    struct buffer *pool;
    uint64_t n_steps;
    smol_error *error;
};

static smol_status damaged(const struct charsmap *map, const char *what)
{
    return smol_fail(map->error, SMOL_ERROR_DAMAGED,
                     "%s: malformed precompiled_charsmap (%s): download it again", map->path, what);
}

static smol_status unsupported(const struct charsmap *map, const char *what)
{
    return smol_fail(map->error, SMOL_ERROR_UNSUPPORTED,
                     "%s: precompiled_charsmap is not supported (%s): use another model", map->path,
                     what);
}

/* --- base64 --------------------------------------------------------------------------------- */

static int digit_value(char digit)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = memchr(digits, digit, sizeof digits - 1);
    return found ? (int)(found - digits) : -1;
}

/* Decodes text into bytes (3 for each 4 digits), of which *size are set. Returns false unless it is
 * padded base64 without bits left over. */
static bool decode(struct json_text text, uint8_t *bytes, size_t *size)
{
    size_t n = text.size;
    while (n > 0 && text.size - n < 2 && text.data[n - 1] == '=')
        n--;
    if (text.size % 4 != 0)
        return false;
    uint32_t bits = 0, n_bits = 0;
    *size = 0;
    for (size_t i = 0; i < n; i++) {
        int value = digit_value(text.data[i]);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            bytes[(*size)++] = (uint8_t)(bits >> n_bits);
            bits &= (1u << n_bits) - 1;
        }
    }
    return bits == 0;
}

static smol_status read_parts(struct charsmap *map, struct json_text base64)
{
    uint32_t n_trie;
    map->bytes = malloc(base64.size / 4 * 3 + 1);
    if (!map->bytes)
        return smol_fail_memory(map->error, "a map of characters");
    if (!decode(base64, map->bytes, &map->size))
        return damaged(map, "it is not base64");
    if (map->size < sizeof n_trie)
        return damaged(map, "it is too short");
    memcpy(&n_trie, map->bytes, sizeof n_trie);
    if (n_trie % 4 != 0 || n_trie == 0 || n_trie > map->size - sizeof n_trie)
        return damaged(map, "the size of its trie");
    map->n_units = n_trie / 4;
    map->texts = map->bytes + sizeof n_trie + n_trie;
    map->n_texts = map->size - sizeof n_trie - n_trie;
    if (smol_utf8_well_formed(map->texts, map->n_texts) != map->n_texts)
        return damaged(map, "its texts are not UTF-8");
    return SMOL_OK;
}

/* --- the trie ------------------------------------------------------------------------------- */

/* A unit: bits 0 to 7 and 31 are the label, bit 8 says that a key ends here, and bits 9 to 30 are
 * the offset to the children, with bit 9 for a factor of 256. That of a value is bits 0 to 30. */
static uint32_t unit_at(const struct charsmap *map, uint32_t at)
{
    uint32_t unit;
    memcpy(&unit, map->bytes + sizeof unit + (size_t)at * sizeof unit, sizeof unit);
    return unit;
}

static uint32_t offset_of(uint32_t unit)
{
    return unit >> 10 << (unit >> 6 & 8);
}

/* Adds the text of a value to the pool. Sets *change to the change to it. */
static smol_status add_text(const struct charsmap *map, uint32_t value, uint32_t *change)
{
    if (value >= map->n_texts || (map->texts[value] & 0xc0) == 0x80)
        return damaged(map, "a key without a text");
    const uint8_t *text = map->texts + value, *end = memchr(text, 0, map->n_texts - value);
    size_t size = end ? (size_t)(end - text) : map->n_texts - value;
    if (size > TEXT_MAX_LENGTH)
        return unsupported(map, "a long text");
    if (map->pool->size > MAP_START_MASK)
        return unsupported(map, "too many texts");
    *change = map_change((uint32_t)map->pool->size, (uint32_t)size);
    smol_buffer_add(map->pool, (const char *)text, size);
    return SMOL_OK;
}

/* Adds the key text[0..size), less than CLUSTER_TOO_LONG bytes. */
static smol_status add_key(struct charsmap *map, const uint8_t *text, size_t size, uint32_t value)
{
    struct cluster_arrays *arrays = map->arrays;
    uint32_t point, change = 0;
    if (smol_utf8_well_formed(text, size) != size)
        return unsupported(map, "a key that is not UTF-8");
    smol_status status = add_text(map, value, &change);
    if (status)
        return status;
    if (smol_utf8_decode(text, size, &point) == size) {
        map->changes[point] = change;
        return SMOL_OK;
    }
    if (arrays->n_clusters == MAX_MAP_KEYS)
        return unsupported(map, "too many keys");
    struct text_cluster *cluster = &arrays->clusters[arrays->n_clusters++];
    memcpy(cluster->text, text, size);
    cluster->size = (uint8_t)size;
    cluster->change = change;
    return SMOL_OK;
}

/* Adds the keys that start with text[0..size); the children of its node are at `base`. */
static smol_status walk(struct charsmap *map, uint32_t base, uint8_t *text, size_t size)
{
    smol_status status = SMOL_OK;
    for (uint32_t byte = 1; byte < 256 && !status; byte++) {
        uint32_t at = base ^ byte;
        if (++map->n_steps > MAX_MAP_WORK)
            return unsupported(map, "too many keys");
        if (at >= map->n_units)
            return damaged(map, "its trie points outside it");
        uint32_t unit = unit_at(map, at);
        if ((unit & 0x800000ff) != byte)
            continue;
        uint32_t children = at ^ offset_of(unit);
        text[size] = (uint8_t)byte;
        if (!(unit >> 8 & 1))
            status = size + 2 < CLUSTER_TOO_LONG ? walk(map, children, text, size + 1) : SMOL_OK;
        else if (children >= map->n_units)
            status = damaged(map, "its trie points outside it");
        else
            status = add_key(map, text, size + 1, unit_at(map, children) & 0x7fffffff);
    }
    return status;
}

/* --- the tables ----------------------------------------------------------------------------- */

static smol_status allocate(struct charsmap *map)
{
    struct cluster_arrays *arrays = map->arrays;
    map->changes = calloc(N_CODE_POINTS, sizeof *map->changes);
    arrays->index = calloc(CLASS_INDEX_SIZE, sizeof *arrays->index);
    arrays->blocks = calloc(CLASS_INDEX_SIZE, sizeof *arrays->blocks);
    arrays->clusters = calloc(MAX_MAP_KEYS, sizeof *arrays->clusters);
    bool all = map->changes && arrays->index && arrays->blocks && arrays->clusters;
    return all ? SMOL_OK : smol_fail_memory(map->error, "a map of characters");
}

static void make_classes(struct cluster_arrays *arrays)
{
    text_classes_fill(cluster_classes, sizeof cluster_classes, UINT32_MAX,
                      (uint8_t *)arrays->blocks, &arrays->n_blocks, arrays->index);
    arrays->transitions = cluster_transitions;
    arrays->n_classes = N_CLUSTER_CLASSES;
    arrays->n_states = N_CLUSTER_STATES;
}

smol_status smol_charsmap_read(struct json_text base64, const char *path, struct map_arrays *maps,
                               struct cluster_arrays *arrays, struct buffer *pool,
                               smol_error *error)
{
    struct charsmap map = {.path = path, .arrays = arrays, .pool = pool, .error = error};
    uint8_t text[CLUSTER_TOO_LONG];
    smol_status status;
    if (arrays->n_blocks > 0)
        return unsupported(&map, "a second one");
    if (!(status = read_parts(&map, base64)) && !(status = allocate(&map)) &&
        !(status = walk(&map, offset_of(unit_at(&map, 0)), text, 0)) &&
        !(status = smol_map_arrays_add_changes(maps, map.changes, error)))
        make_classes(arrays);
    free(map.bytes);
    free(map.changes);
    return status;
}
