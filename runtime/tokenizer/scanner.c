/* Splits text with automata, see scanner.h. */
#include "runtime/tokenizer/scanner.h"

#include "common/memory.h"
#include "common/utf8.h"

/* --- symbols -------------------------------------------------------------------------------- */

/* Returns the class of the character at text[at], at < size. Sets *length to its size in bytes. */
static inline uint32_t class_at(const struct scan *scan, size_t at, bool bytes, size_t *length)
{
    const struct scanner_tables *t = scan->tables;
    uint32_t code_point = scan->text[at];
    *length = 1;
    if (bytes)
        return t->byte_classes[code_point];
    if (code_point < 0x80)
        return scan->ascii[code_point];
    *length = smol_utf8_decode(scan->text + at, scan->size - at, &code_point);
    return t->class_blocks[(size_t)t->class_index[code_point / 256] * 256 + code_point % 256];
}

/* Returns the symbol before text[at]. Sets *size to its size in bytes. */
static uint32_t symbol_before(const struct scan *scan, size_t at, size_t *size)
{
    size_t length, back = 1;
    bool bytes = scan->stage->flags & STAGE_BYTES;
    if (at == 0)
        return scan->end_symbol;
    while (!bytes && back < UTF8_MAX && back < at && utf8_continues(scan->text[at - back]))
        back++;
    *size = back;
    return class_at(scan, at - back, bytes, &length);
}

/* --- walks ---------------------------------------------------------------------------------- */

/* A walk through the states along the text. */
struct walk {
    size_t at;
    uint32_t state;
    size_t end; /* end of the longest match so far, or the start of the walk */
    uint32_t end_state;
};

/* Takes one step. Returns false if a longer match is impossible. */
static inline bool take_step(const struct scan *scan, bool bytes, struct walk *w)
{
    size_t length = 0;
    uint32_t symbol = scan->end_symbol;
    if (w->at < scan->size)
        symbol = class_at(scan, w->at, bytes, &length);
    if (scan->symbols)
        symbol = scan->symbols[w->at];
    uint32_t entry = scan->states[((size_t)w->state << scan->row_bits) + symbol];
    if (entry & 1) {
        w->end = w->at;
        w->end_state = w->state;
    }
    w->state = entry >> 1;
    w->at += length;
    return w->state != 0;
}

/* A pattern may scan far ahead without a match from every position, such as `a*b|a` in a text of
 * a's. Therefore a long walk without a match is marked as hopeless, and a walk stops when it
 * reaches a mark. Each state has one mark for each stretch of the text. The mark belongs to the
 * first character that starts in the stretch. So each state scans a stretch without a match at most
 * once, except within FAR bytes of a walk's last match. */
enum { STRETCH = 64, FAR = 64 };

/* Returns the bytes of the marks of a stretch. */
static size_t mark_bytes(const struct scan *scan)
{
    return scan->stage->n_states / 8 + 1;
}

/* Walks until a longer match is impossible (true), or until the last match is FAR bytes away
 * (false). */
static inline bool walk_near(const struct scan *scan, bool bytes, struct walk *walk)
{
    struct walk w = *walk;
    bool on = true;
    while (on && w.at - w.end < FAR)
        on = take_step(scan, bytes, &w);
    *walk = w;
    return !on;
}

/* Returns the number of the mark of the state at this place: a bit of scan->hopeless, in which the
 * marks of each stretch are whole bytes. */
static uint64_t mark_of(const struct scan *scan, const struct walk *w)
{
    return (uint64_t)(w->at / STRETCH) * mark_bytes(scan) * 8 + w->state;
}

/* Marks the states that a walk passed since its last match. */
static void mark_hopeless(struct scan *scan, bool bytes, const struct walk *walk)
{
    struct walk w = {walk->end, walk->end_state, walk->end, walk->end_state};
    while (w.at < walk->at) {
        size_t before = w.at;
        if (!take_step(scan, bytes, &w))
            return;
        uint64_t mark = mark_of(scan, &w);
        if (w.at / STRETCH != before / STRETCH)
            scan->hopeless[mark / 8] |= (uint8_t)(1 << mark % 8);
    }
}

/* Continues a walk. Returns true at a new match if a longer one is possible, and false if a longer
 * match is impossible. */
static bool walk_far(struct scan *scan, bool bytes, struct walk *w)
{
    const size_t end = w->end;
    for (;;) {
        size_t before = w->at;
        bool on = take_step(scan, bytes, w);
        if (w->end != end)
            return on;
        uint64_t mark = mark_of(scan, w);
        if (on &&
            (w->at / STRETCH == before / STRETCH || !(scan->hopeless[mark / 8] >> mark % 8 & 1)))
            continue;
        mark_hopeless(scan, bytes, w);
        return false;
    }
}

static smol_status allow_marks(struct scan *scan, smol_error *error)
{
    if (!scan->hopeless)
        scan->hopeless = smol_calloc(scan->size / STRETCH + 1, mark_bytes(scan));
    return scan->hopeless ? SMOL_OK : smol_fail_memory(error, "cutting a text");
}

/* Returns whether a match ends at text[at], at < size, where a walk starts. */
static bool starts_with_match(const struct scan *scan, bool bytes, size_t at, uint32_t start)
{
    struct walk w = {at, start, SIZE_MAX, start};
    take_step(scan, bytes, &w);
    return w.end == at;
}

/* Sets *end to the end of the match that starts at text[at], at < size, or to `at` if there is no
 * match or an empty one, which sets *empty. */
static smol_status find_match(struct scan *scan, size_t at, size_t *end, bool *empty,
                              smol_error *error)
{
    const bool bytes = scan->stage->flags & STAGE_BYTES;
    uint32_t start = scan->starts[0];
    size_t length;
    if (scan->stage->flags & STAGE_LOOKBEHIND)
        start = scan->starts[symbol_before(scan, at, &length)];
    struct walk walk = {at, start, at, start};
    if (scan->stage->flags & STAGE_EMPTY)
        *empty = starts_with_match(scan, bytes, at, start);
    smol_status status = SMOL_OK;
    while (!status && !(bytes ? walk_near(scan, true, &walk) : walk_near(scan, false, &walk))) {
        status = allow_marks(scan, error);
        if (!status && !walk_far(scan, bytes, &walk))
            break;
    }
    *end = walk.end;
    return status;
}

/* --- looking ahead -------------------------------------------------------------------------- */

/* Fills scan->symbols: at each place the symbol, and which look-aheads hold there. */
static smol_status look_ahead(struct scan *scan, smol_error *error)
{
    const struct blob_scanner *h = &scan->tables->header;
    const uint32_t looks = (1u << AHEAD_LOOK_BITS) - 1;
    if (!(scan->symbols = smol_calloc(scan->size + 1, 1)))
        return smol_fail_memory(error, "cutting a text");
    uint32_t after = scan->end_symbol; /* the symbol after the place */
    uint32_t entry = scan->ahead[after];
    for (size_t at = scan->size, length;; at -= length) {
        uint32_t before = symbol_before(scan, at, &length);
        entry = scan->ahead[((size_t)(entry >> AHEAD_LOOK_BITS) << scan->row_bits) + before];
        scan->symbols[at] = (uint8_t)((entry & looks) * (h->n_classes + 1) + after);
        if (at == 0)
            return SMOL_OK;
        after = before;
    }
}

/* --- segments ------------------------------------------------------------------------------- */

/* Sets *segment to the next match or the text before it; empty at the end of the text. */
static smol_status next_segment(struct scan *scan, struct scan_segment *segment, smol_error *error)
{
    *segment = scan->match;
    scan->match = (struct scan_segment){0};
    if (segment->end > segment->start)
        return SMOL_OK;
    size_t start = scan->at, at = start, end = start, length;
    bool empty = false;
    smol_status status = SMOL_OK;
    /* an empty match right after the last one does not count */
    while (!status && at < scan->size && !(status = find_match(scan, at, &end, &empty, error)) &&
           end == at && !(empty && at > start)) {
        class_at(scan, at, scan->stage->flags & STAGE_BYTES, &length);
        end = at += length;
    }
    *segment = (struct scan_segment){start, at, false};
    if (end > at && at > start)
        scan->match = (struct scan_segment){at, end, true};
    else if (end > at)
        *segment = (struct scan_segment){at, end, true};
    scan->at = end;
    return status;
}

/* Returns whether a segment extends the current piece. */
static bool joins(const struct scan *scan, bool is_match)
{
    switch (scan->stage->behaviour) {
    case SPLIT_PREVIOUS:
        return is_match && !scan->last_was_match;
    case SPLIT_NEXT:
        return !is_match && scan->last_was_match;
    case SPLIT_CONTIGUOUS:
        return is_match == scan->last_was_match;
    default:
        return false;
    }
}

/* Adds a segment, or ends the last piece if the segment is empty. Returns true if *piece is
 * complete. */
static bool take_segment(struct scan *scan, const struct scan_segment *segment,
                         struct scan_segment *piece)
{
    bool is_match = segment->is_match != ((scan->stage->flags & STAGE_INVERT) != 0);
    if (scan->stage->behaviour == SPLIT_ISOLATED || scan->stage->behaviour == SPLIT_REMOVED) {
        *piece = *segment;
        return scan->stage->behaviour == SPLIT_ISOLATED || !is_match;
    }
    bool has_piece = scan->piece.end > scan->piece.start;
    if (segment->end > segment->start && has_piece && joins(scan, is_match)) {
        scan->piece.end = segment->end;
        scan->last_was_match = is_match;
        return false;
    }
    *piece = scan->piece;
    scan->piece = *segment;
    scan->last_was_match = is_match;
    return has_piece;
}

/* --- entry points --------------------------------------------------------------------------- */

void smol_scanner_start(struct scan *scan, const struct scanner_tables *tables, uint32_t stage,
                        const uint8_t *text, size_t size)
{
    size_t n_before = 0, n_ahead = 0;
    for (uint32_t i = 0; i < stage; i++) {
        n_before += tables->stages[i].n_states;
        n_ahead += tables->stages[i].n_ahead_states;
    }
    *scan = (struct scan){
        .tables = tables,
        .stage = &tables->stages[stage],
        .starts = tables->starts + (size_t)stage * tables->header.row,
        .states = tables->states + n_before * tables->header.row,
        .ahead = tables->ahead ? tables->ahead + n_ahead * tables->header.row : NULL,
        .ascii = tables->class_blocks + (size_t)tables->class_index[0] * 256,
        .end_symbol = tables->header.n_classes,
        .row_bits = (uint32_t)__builtin_ctz(tables->header.row),
        .text = text,
        .size = size,
    };
}

smol_status smol_scanner_next(struct scan *scan, size_t *start, size_t *end, smol_error *error)
{
    struct scan_segment segment, piece;
    smol_status status = SMOL_OK;
    if (scan->stage->n_ahead_states && !scan->symbols && (status = look_ahead(scan, error)))
        return status;
    do {
        if ((status = next_segment(scan, &segment, error)))
            return status;
        if (take_segment(scan, &segment, &piece) && piece.end > piece.start)
            break;
        piece = (struct scan_segment){scan->size, scan->size, false};
    } while (segment.end > segment.start);
    *start = piece.start;
    *end = piece.end;
    return SMOL_OK;
}

void smol_scanner_end(struct scan *scan)
{
    smol_free(scan->hopeless);
    scan->hopeless = NULL;
    smol_free(scan->symbols);
    scan->symbols = NULL;
}
