/* Writes a page of HTML that is XML too, piece by piece, into a file under construction. An error
 * is kept until the end. */
#ifndef SMOL_CONVERT_HTML_H
#define SMOL_CONVERT_HTML_H

#include <stddef.h>
#include <stdint.h>

#include "cli/output.h"
#include "common/buffer.h"
#include "common/error.h"

struct page {
    struct buffer text; /* that is not written yet */
    struct output *output;
    uint64_t offset;
    smol_status status;
    smol_error *error;
};

/* Adds markup. The formatted text is at most 255 bytes, none of it untrusted. */
void smol_page_add(struct page *page, const char *markup);
void smol_page_print(struct page *page, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds text, whatever it is: markup in it stays text, and what XML cannot hold or what sets the
 * direction of writing becomes U+FFFD. */
void smol_page_text(struct page *page, const char *text, size_t size);

/* Writes what is left and frees the page's memory. Errors: SMOL_ERROR_FILE, SMOL_ERROR_MEMORY. */
smol_status smol_page_end(struct page *page);

#endif
