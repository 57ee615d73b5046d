/* Compiles patterns to the scanner section, see scanner.h. */
#include "convert/tokenizer/scanner.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "convert/tokenizer/automaton.h"
#include "convert/tokenizer/byte_level.h"
#include "convert/tokenizer/text_tables.h"

enum { BLOCK = 256 };

/* The tables under construction. */
struct tables {
    struct blob_scanner header;
    struct class_map map;
    struct automaton automata[SCANNER_MAX_STAGES];
    struct scanner_stage stages[SCANNER_MAX_STAGES];
    uint16_t class_index[CLASS_INDEX_SIZE];
    uint8_t *class_blocks; /* (CLASS_INDEX_SIZE, 256); n_class_blocks are used */
    uint8_t byte_classes[256];
    uint16_t *starts; /* (n_stages, row) */
    uint16_t *states; /* (n_states, row) */
    uint16_t *ahead;  /* (n_ahead_states, row) */
};

/* --- classes -------------------------------------------------------------------------------- */

static smol_status make_classes(struct tables *t, smol_error *error)
{
    const struct class_map *map = &t->map;
    t->class_blocks =
        calloc(CLASS_INDEX_SIZE, BLOCK); /* one class per code point, then compacted */
    if (!t->class_blocks)
        return smol_fail_memory(error, "character classes");
    for (size_t i = 0; i < map->n_starts; i++) {
        uint32_t end = i + 1 < map->n_starts ? map->starts[i + 1] : CLASS_INDEX_SIZE * BLOCK;
        memset(t->class_blocks + map->starts[i], map->classes[i], end - map->starts[i]);
    }
    for (unsigned byte = 0; byte < 256; byte++)
        t->byte_classes[byte] = t->class_blocks[byte_level_character((uint8_t)byte)];
    for (size_t i = 0; i < CLASS_INDEX_SIZE; i++)
        t->class_index[i] = text_block_add(t->class_blocks, &t->header.n_class_blocks,
                                           t->class_blocks + i * BLOCK, BLOCK);
    return SMOL_OK;
}

/* --- automata ------------------------------------------------------------------------------- */

static bool looks_behind(const struct automaton *automaton, uint32_t n_classes)
{
    for (uint32_t symbol = 1; symbol <= n_classes; symbol++)
        if (automaton->starts[symbol] != automaton->starts[0])
            return true;
    return false;
}

static smol_status make_automata(struct tables *t, const struct scanner_plan *plan, uint32_t *stage,
                                 smol_error *error)
{
    uint64_t n_states = 0;
    for (uint32_t i = 0; i < plan->n_stages; i++) {
        struct automaton *automaton = &t->automata[i];
        *stage = i;
        smol_status status =
            smol_automaton_make(&plan->stages[i].pattern, &t->map, automaton, error);
        if (status)
            return status;
        t->stages[i] = (struct scanner_stage){
            .n_states = automaton->n_states,
            .behaviour = plan->stages[i].behaviour,
            .n_ahead_states = automaton->n_ahead_states,
            .flags = plan->stages[i].flags |
                     (looks_behind(automaton, t->map.n_classes) ? STAGE_LOOKBEHIND : 0),
        };
        if (automaton->empty && plan->stages[i].behaviour != SPLIT_ISOLATED &&
            plan->stages[i].behaviour != SPLIT_REMOVED)
            return smol_fail(error, SMOL_ERROR_UNSUPPORTED, "may match the empty string");
        t->stages[i].flags |= automaton->empty ? STAGE_EMPTY : 0;
        n_states += automaton->n_states;
        t->header.n_ahead_states += automaton->n_ahead_states;
        if (automaton->n_looks > t->header.n_looks)
            t->header.n_looks = automaton->n_looks;
        while (t->header.row < automaton->n_symbols)
            t->header.row *= 2;
        if ((n_states + t->header.n_ahead_states) * t->header.row > SCANNER_MAX_ENTRIES)
            return smol_fail(error, SMOL_ERROR_UNSUPPORTED, "the tables are too large");
    }
    t->header.n_states = (uint32_t)n_states;
    return SMOL_OK;
}

/* Copies n rows of n_symbols into rows of header.row. */
static uint16_t *copy_rows(const struct tables *t, uint16_t *to, const uint16_t *rows, size_t n,
                           uint32_t n_symbols)
{
    for (size_t i = 0; i < n; i++, to += t->header.row)
        memcpy(to, rows + i * n_symbols, n_symbols * sizeof *rows);
    return to;
}

static smol_status make_rows(struct tables *t, smol_error *error)
{
    size_t row = t->header.row;
    t->starts = calloc(t->header.n_stages * row + 1, sizeof *t->starts);
    t->states = calloc(t->header.n_states * row + 1, sizeof *t->states);
    t->ahead = calloc(t->header.n_ahead_states * row + 1, sizeof *t->ahead);
    if (!t->starts || !t->states || !t->ahead)
        return smol_fail_memory(error, "the scanner's tables");
    uint16_t *starts = t->starts, *states = t->states, *ahead = t->ahead;
    const uint32_t n_plain = t->header.n_classes + 1;
    for (uint32_t i = 0; i < t->header.n_stages; i++) {
        const struct automaton *a = &t->automata[i];
        starts = copy_rows(t, starts, a->starts, 1, n_plain);
        states = copy_rows(t, states, a->next, a->n_states, a->n_symbols);
        ahead = copy_rows(t, ahead, a->ahead, a->n_ahead_states, n_plain);
    }
    return SMOL_OK;
}

/* --- the section ---------------------------------------------------------------------------- */

static smol_status lay_out(const struct tables *t, struct scanner_section *section,
                           smol_error *error)
{
    const struct blob_scanner *h = &t->header;
    const struct {
        const void *bytes;
        size_t size;
    } parts[] = {
        {h, sizeof *h},
        {t->stages, h->n_stages * sizeof *t->stages},
        {t->class_index, sizeof t->class_index},
        {t->class_blocks, (size_t)h->n_class_blocks * BLOCK},
        {t->byte_classes, sizeof t->byte_classes},
        {t->starts, (size_t)h->n_stages * h->row * sizeof *t->starts},
        {t->states, (size_t)h->n_states * h->row * sizeof *t->states},
        {t->ahead, (size_t)h->n_ahead_states * h->row * sizeof *t->ahead},
    };
    enum { N_PARTS = sizeof parts / sizeof parts[0] };
    size_t offsets[N_PARTS], end = 0;
    const size_t n = h->n_ahead_states ? N_PARTS : N_PARTS - 1;
    for (size_t i = 0; i < n; i++) {
        offsets[i] = (size_t)round_up(end, BLOB_ALIGN);
        end = offsets[i] + parts[i].size;
    }
    if (!(section->data = calloc(end, 1)))
        return smol_fail_memory(error, "the scanner's tables");
    section->size = end;
    for (size_t i = 0; i < n; i++)
        memcpy(section->data + offsets[i], parts[i].bytes, parts[i].size);
    return SMOL_OK;
}

static smol_status make_map(struct tables *t, const struct scanner_plan *plan, smol_error *error)
{
    struct pattern patterns[SCANNER_MAX_STAGES];
    for (uint32_t i = 0; i < plan->n_stages; i++)
        patterns[i] = plan->stages[i].pattern;
    smol_status status = smol_class_map_make(patterns, plan->n_stages, &t->map, error);
    if (status)
        return status;
    t->header.n_stages = plan->n_stages;
    t->header.n_classes = t->map.n_classes;
    for (t->header.row = 1; t->header.row <= t->map.n_classes;)
        t->header.row *= 2;
    return SMOL_OK;
}

static void release(struct tables *t)
{
    for (uint32_t i = 0; i < SCANNER_MAX_STAGES; i++)
        smol_automaton_free(&t->automata[i]);
    smol_class_map_free(&t->map);
    free(t->class_blocks);
    free(t->starts);
    free(t->states);
    free(t->ahead);
    free(t);
}

smol_status smol_scanner_compile(const struct scanner_plan *plan, struct scanner_section *section,
                                 uint32_t *stage, smol_error *error)
{
    *section = (struct scanner_section){0};
    *stage = 0;
    struct tables *t = calloc(1, sizeof *t);
    if (!t)
        return smol_fail_memory(error, "the scanner's tables");
    smol_status status = make_map(t, plan, error);
    if (!status)
        status = make_classes(t, error);
    if (!status)
        status = make_automata(t, plan, stage, error);
    if (!status)
        status = make_rows(t, error);
    if (!status)
        status = lay_out(t, section, error);
    release(t);
    return status;
}

void smol_scanner_plan_free(struct scanner_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_stages; i++)
        smol_pattern_free(&plan->stages[i].pattern);
    plan->n_stages = 0;
}
