/* Writes a page of HTML that is also XML, piece by piece, into a file under construction. The first
 * error is kept until smol_page_end. */
#ifndef SMOL_CONVERT_HTML_H
#define SMOL_CONVERT_HTML_H

#include <stddef.h>
#include <stdint.h>

#include "cli/output.h"
#include "common/buffer.h"
#include "common/error.h"

struct page {
    struct buffer text; /* not yet written */
    struct output *output;
    uint64_t offset;
    smol_status status;
    smol_error *error;
};

/* Add markup. Formatted text must be at most 255 bytes and contain no untrusted text. */
void smol_page_add(struct page *page, const char *markup);
void smol_page_print(struct page *page, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds untrusted text. Escapes markup. Replaces characters that XML forbids or that change the
 * writing direction by U+FFFD. */
void smol_page_text(struct page *page, const char *text, size_t size);

/* Writes the remaining text and frees the page's memory. Errors: SMOL_ERROR_FILE,
 * SMOL_ERROR_MEMORY. */
smol_status smol_page_end(struct page *page);

#endif
