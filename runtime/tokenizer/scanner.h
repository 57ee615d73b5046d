/* Splits a text with the tables of a scanner section, one stage at a time. */
#ifndef SMOL_RUNTIME_TOKENIZER_SCANNER_H
#define SMOL_RUNTIME_TOKENIZER_SCANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/scanner.h"

/* A match of the stage's pattern, or the text between two matches. */
struct scan_segment {
    size_t start, end;
    bool is_match;
};

struct scan {
    const struct scanner_tables *tables;
    const struct scanner_stage *stage;
    const uint16_t *starts, *states, *ahead; /* of the stage */
    const uint8_t *ascii;                    /* (128): the classes of these characters */
    uint32_t row_bits;                       /* a row has 1 << row_bits symbols */
    uint32_t end_symbol;
    const uint8_t *text; /* (size) */
    size_t size;
    size_t at;                 /* where the search for the next match starts */
    struct scan_segment match; /* found, but text before it is returned first; may be empty */
    struct scan_segment piece; /* the next segment may extend it; may be empty */
    bool last_was_match;       /* the last segment was a match */
    uint8_t *hopeless;         /* see scanner.c; NULL until it is needed */
    uint8_t *symbols; /* (size + 1): of a stage that looks ahead; NULL until it is needed */
};

/* Starts to split text[0..size), UTF-8 (ill-formed parts are safe), with stage number `stage`. */
void smol_scanner_start(struct scan *scan, const struct scanner_tables *tables, uint32_t stage,
                        const uint8_t *text, size_t size);

/* Returns the next piece as text[*start, *end), never empty; *start is `size` after the last piece.
 * All pieces together take linear time, multiplied by at most the number of states for patterns
 * made to be slow. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_scanner_next(struct scan *scan, size_t *start, size_t *end, smol_error *error);

/* Frees the memory of a scan; may be called before the last piece. */
void smol_scanner_end(struct scan *scan);

#endif
