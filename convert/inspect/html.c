/* Writes pages, see html.h. */
#include "convert/inspect/html.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/quote.h"
#include "common/utf8.h"

enum { PIECE = 1 << 16 };

static void flush(struct page *page)
{
    if (!page->status)
        page->status = smol_output_write(page->output, page->offset, page->text.text,
                                         page->text.size, page->error);
    page->offset += page->text.size;
    page->text.size = 0;
}

static void flush_piece(struct page *page)
{
    if (page->text.size >= PIECE)
        flush(page);
}

static void add(struct page *page, const char *text, size_t size)
{
    smol_buffer_add(&page->text, text, size);
    flush_piece(page);
}

void smol_page_add(struct page *page, const char *markup)
{
    add(page, markup, strlen(markup));
}

void smol_page_print(struct page *page, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    smol_buffer_vprint(&page->text, format, arguments);
    va_end(arguments);
    flush_piece(page);
}

/* Returns the entity of a markup character, or NULL for any other. */
static const char *entity_of(uint32_t c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

void smol_page_text(struct page *page, const char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        uint32_t c;
        uint8_t bytes[UTF8_MAX];
        i += smol_utf8_decode((const uint8_t *)text + i, size - i, &c);
        const char *entity = entity_of(c);
        bool forbidden = (smol_is_steering(c) && c != '\n' && c != '\t') || (c & 0xfffe) == 0xfffe;
        if (entity)
            smol_page_add(page, entity);
        else
            add(page, (const char *)bytes,
                smol_utf8_encode(forbidden ? UTF8_REPLACEMENT : c, bytes));
    }
}

smol_status smol_page_end(struct page *page)
{
    flush(page);
    if (!page->status && page->text.failed)
        page->status = smol_fail_memory(page->error, "the page");
    free(page->text.text);
    page->text = (struct buffer){0};
    return page->status;
}
