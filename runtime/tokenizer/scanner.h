/* Cutting a text by the tables of a scanner section: one stage, from piece to piece. */
#ifndef SMOL_RUNTIME_SCANNER_H
#define SMOL_RUNTIME_SCANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/scanner.h"

/* A stretch of the text that is a match of the stage's pattern, or lies between two. */
struct scan_segment {
    size_t start, end;
    bool is_match;
};

struct scan {
    const struct scanner_tables *tables;
    const struct scanner_stage *stage;
    const uint16_t *starts, *states; /* the stage's */
    const uint8_t *ascii;            /* (128): the classes of these characters */
    uint32_t row_bits;               /* a row has 1 << row_bits symbols */
    uint32_t end_symbol;
    const uint8_t *text; /* (size) */
    size_t size;
    size_t at;                 /* where the next match is looked for */
    struct scan_segment match; /* found, but something comes before it; empty if none */
    struct scan_segment piece; /* what the next segment may join; empty if there is none */
    bool last_was_match;       /* the segment that came last */
    uint8_t *hopeless;         /* see scanner.c; NULL while there was no need */
};

/* Starts cutting text[0..size), UTF-8 (ill-formed parts are safe), by stage number `stage`. */
void smol_scanner_start(struct scan *scan, const struct scanner_tables *tables, uint32_t stage,
                        const uint8_t *text, size_t size);

/* The next piece: text[*start, *end), never empty; *start is `size` when there is none. All pieces
 * together take time in proportion to the text, with a factor of up to the number of states for
 * patterns made to be slow. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_scanner_next(struct scan *scan, size_t *start, size_t *end, smol_error *error);

/* Gives the memory back; before the end is fine, too. */
void smol_scanner_end(struct scan *scan);

#endif
