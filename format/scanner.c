/* The checks of the scanner section, see FORMAT.md. */
#include "format/scanner.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "common/checked.h"
#include "format/cursor.h"

static smol_status check_header(const struct blob_scanner *h, smol_error *error)
{
    if (!all_zero(h->reserved, sizeof h->reserved))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "a reserved field is not zero");
    if (h->n_stages > SCANNER_MAX_STAGES)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "too many stages (%" PRIu32 ")", h->n_stages);
    if (h->n_classes == 0 || h->n_classes > SCANNER_MAX_CLASSES)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "n_classes is out of range (%" PRIu32 ")",
                         h->n_classes);
    if (h->row <= h->n_classes || h->row > 256 || (h->row & (h->row - 1)))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "invalid row length (%" PRIu32 ")", h->row);
    if (!h->n_ahead_states != !h->n_looks || h->n_looks > AHEAD_LOOK_BITS ||
        (h->n_classes + 1) << h->n_looks > h->row)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "invalid look-aheads (%" PRIu32 ")",
                         h->n_looks);
    if (h->n_class_blocks > CLASS_INDEX_SIZE || h->n_states > SCANNER_MAX_ENTRIES / h->row ||
        h->n_ahead_states > SCANNER_MAX_ENTRIES / h->row)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "tables are too large");
    return SMOL_OK;
}

static smol_status take_tables(const uint8_t *data, size_t size, struct scanner_tables *t,
                               smol_error *error)
{
    const struct blob_scanner *h = &t->header;
    const uint64_t row = h->row; /* the header's limits keep the products below small */
    struct cursor cursor = {data, size, sizeof *h};
    if (!(t->stages = smol_cursor_take(&cursor, "stages", h->n_stages, sizeof *t->stages, error)) ||
        !(t->class_index = smol_cursor_take(&cursor, "class index", CLASS_INDEX_SIZE,
                                            sizeof *t->class_index, error)) ||
        !(t->class_blocks =
              smol_cursor_take(&cursor, "class blocks", h->n_class_blocks, 256, error)) ||
        !(t->byte_classes = smol_cursor_take(&cursor, "byte classes", 256, 1, error)) ||
        !(t->starts =
              smol_cursor_take(&cursor, "starts", h->n_stages * row, sizeof *t->starts, error)) ||
        !(t->states = smol_cursor_take(&cursor, "transitions", h->n_states * row, sizeof *t->states,
                                       error)) ||
        (h->n_ahead_states &&
         !(t->ahead = smol_cursor_take(&cursor, "ahead", h->n_ahead_states * row, sizeof *t->ahead,
                                       error))))
        return SMOL_ERROR_DAMAGED;
    return smol_cursor_end(&cursor, error);
}

static smol_status check_classes(const struct scanner_tables *tables, smol_error *error)
{
    const struct blob_scanner *h = &tables->header;
    for (uint32_t i = 0; i < CLASS_INDEX_SIZE; i++)
        if (tables->class_index[i] >= h->n_class_blocks)
            return smol_fail(error, SMOL_ERROR_DAMAGED, "no such class block (U+%04" PRIX32 ")",
                             i * 256);
    for (size_t i = 0; i < (size_t)h->n_class_blocks * 256; i++)
        if (tables->class_blocks[i] >= h->n_classes)
            return smol_fail(error, SMOL_ERROR_DAMAGED, "no such class (class byte %zu)", i);
    for (unsigned byte = 0; byte < 256; byte++)
        if (tables->byte_classes[byte] >= h->n_classes)
            return smol_fail(error, SMOL_ERROR_DAMAGED, "no such class (byte %u)", byte);
    return SMOL_OK;
}

/* Returns whether the rest of a row, after n symbols, is zero. */
static bool has_clean_end(const struct blob_scanner *h, const uint16_t *row, uint32_t n)
{
    return all_zero(row + n, (h->row - n) * sizeof *row);
}

static bool starts_are_valid(const struct blob_scanner *h, const struct scanner_stage *stage,
                             const uint16_t *starts, uint32_t *last_start)
{
    *last_start = 0;
    for (uint32_t symbol = 0; symbol <= h->n_classes; symbol++) {
        if (starts[symbol] == 0 || starts[symbol] >= stage->n_states)
            return false;
        if (starts[symbol] > *last_start)
            *last_start = starts[symbol];
    }
    return has_clean_end(h, starts, h->n_classes + 1) &&
           (*last_start == 1 || stage->flags & STAGE_LOOKBEHIND);
}

/* Returns whether each transition leads to state 0 or to a state in which no scan starts, no
 * transition follows the end, and each match has at least one character. */
static bool row_is_valid(const struct blob_scanner *h, const struct scanner_stage *stage,
                         uint32_t last_start, uint32_t state, const uint16_t *row)
{
    const uint32_t n_plain = h->n_classes + 1, n_states = stage->n_states;
    const uint32_t n_symbols = stage->n_ahead_states ? n_plain << h->n_looks : n_plain;
    for (uint32_t symbol = 0; symbol < n_symbols; symbol++) {
        uint32_t to = row[symbol] >> 1;
        bool match = row[symbol] & 1;
        if (to >= n_states || (to > 0 && to <= last_start) ||
            (match && state <= last_start && !(stage->flags & STAGE_EMPTY)) ||
            (to > 0 && (state == 0 || symbol % n_plain == h->n_classes)))
            return false;
    }
    return has_clean_end(h, row, n_symbols);
}

/* Returns whether each transition of a text that is read backwards leads to a state of the stage.
 */
static bool ahead_is_valid(const struct blob_scanner *h, const struct scanner_stage *stage,
                           const uint16_t *rows)
{
    for (uint32_t state = 0; state < stage->n_ahead_states; state++, rows += h->row) {
        for (uint32_t symbol = 0; symbol <= h->n_classes; symbol++)
            if (rows[symbol] >> AHEAD_LOOK_BITS >= stage->n_ahead_states ||
                (rows[symbol] & ((1 << AHEAD_LOOK_BITS) - 1)) >> h->n_looks)
                return false;
        if (!has_clean_end(h, rows, h->n_classes + 1))
            return false;
    }
    return true;
}

static smol_status check_stages(const struct scanner_tables *tables, smol_error *error)
{
    const struct blob_scanner *h = &tables->header;
    const uint32_t known =
        STAGE_INVERT | STAGE_BYTES | STAGE_SPACE | STAGE_LOOKBEHIND | STAGE_EMPTY;
    uint32_t n_before = 0, n_ahead = 0;
    for (uint32_t i = 0; i < h->n_stages; i++) {
        const struct scanner_stage *stage = &tables->stages[i];
        uint32_t last_start;
        if (stage->behaviour >= SPLIT_COUNT || stage->flags & ~known ||
            (stage->flags & STAGE_EMPTY && stage->behaviour > SPLIT_ISOLATED) ||
            stage->n_states > h->n_states - n_before ||
            stage->n_ahead_states > h->n_ahead_states - n_ahead ||
            (stage->n_ahead_states &&
             !ahead_is_valid(h, stage, tables->ahead + (size_t)n_ahead * h->row)) ||
            !starts_are_valid(h, stage, tables->starts + (size_t)i * h->row, &last_start))
            return smol_fail(error, SMOL_ERROR_DAMAGED, "bad stage (%" PRIu32 ")", i);
        for (uint32_t state = 0; state < stage->n_states; state++)
            if (!row_is_valid(h, stage, last_start, state,
                              tables->states + (size_t)(n_before + state) * h->row))
                return smol_fail(error, SMOL_ERROR_DAMAGED,
                                 "bad transitions (stage %" PRIu32 ", state %" PRIu32 ")", i,
                                 state);
        n_before += stage->n_states;
        n_ahead += stage->n_ahead_states;
    }
    return n_before == h->n_states && n_ahead == h->n_ahead_states
               ? SMOL_OK
               : smol_fail(error, SMOL_ERROR_DAMAGED, "states without a stage");
}

smol_status smol_scanner_tables_open(const uint8_t *data, size_t size,
                                     struct scanner_tables *tables, smol_error *error)
{
    *tables = (struct scanner_tables){0};
    if (size < sizeof tables->header)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "too small for its header");
    memcpy(&tables->header, data, sizeof tables->header);
    smol_status status = check_header(&tables->header, error);
    if (!status)
        status = take_tables(data, size, tables, error);
    if (!status)
        status = check_classes(tables, error);
    return status ? status : check_stages(tables, error);
}

bool smol_scanner_looks_ahead(const struct scanner_tables *tables)
{
    bool empty = false;
    for (uint32_t i = 0; i < tables->header.n_stages; i++)
        empty |= tables->stages[i].flags & STAGE_EMPTY;
    return empty || tables->header.n_ahead_states > 0;
}
