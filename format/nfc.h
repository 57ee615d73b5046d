/* Unicode's normalization forms C and D, with the flat tables of a text section. */
#ifndef SMOL_FORMAT_NFC_H
#define SMOL_FORMAT_NFC_H

#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "format/format.h"

/* All pointers point into the section, which must have been checked. */
struct nfc_tables {
    const uint16_t *index;            /* (CLASS_INDEX_SIZE) code point / 256 -> block */
    const uint16_t *blocks;           /* (n_blocks, 256) -> letter */
    const struct nfc_letter *letters; /* (n_letters) */
    const uint32_t *texts;            /* decompositions */
    const struct nfc_pair *pairs;     /* (n_pairs), ascending */
    uint32_t n_pairs;
};

/* Returns the number of bytes of text[0..size), well-formed UTF-8, before the first character that
 * may change, or `size` if the text is known to be normalized. */
size_t smol_nfc_unchanged(const struct nfc_tables *tables, const uint8_t *text, size_t size);

/* Appends text[0..size), normalized, in linear time. Sets out->failed if memory runs out. */
void smol_nfc(const struct nfc_tables *tables, const uint8_t *text, size_t size,
              struct buffer *out);

/* These do the same for normalization form D. */
size_t smol_nfd_unchanged(const struct nfc_tables *tables, const uint8_t *text, size_t size);
void smol_nfd(const struct nfc_tables *tables, const uint8_t *text, size_t size,
              struct buffer *out);

#endif
