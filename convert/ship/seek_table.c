/* The seek table of a packed file and the journal, see seek_table.h. */
#include "convert/ship/seek_table.h"

#include <stdlib.h>

#include "common/hash.h"
#include "common/memory.h"
#include "format/packed.h"

smol_status smol_seek_table_add(struct seek_table *table, uint32_t size, smol_error *error)
{
    if (!GROW(table->sizes, table->n, &table->capacity))
        return smol_fail_memory(error, "the seek table");
    table->sizes[table->n++] = size;
    table->end += size;
    return SMOL_OK;
}

void smol_seek_table_cut(struct seek_table *table, size_t n)
{
    while (table->n > n)
        table->end -= table->sizes[--table->n];
}

static uint8_t *put_u32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        *out++ = (uint8_t)(value >> 8 * i);
    return out;
}

smol_status smol_seek_table_encode(const struct seek_table *table, uint64_t content,
                                   uint8_t **bytes, size_t *size, smol_error *error)
{
    *bytes = NULL;
    if (table->n > SEEK_TABLE_MAX_FRAMES)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "the blob is too large for a seek table: "
                         "compress it with zstd");
    *size = SEEK_TABLE_HEADER_SIZE + table->n * SEEK_TABLE_ENTRY_SIZE + SEEK_TABLE_FOOTER_SIZE;
    uint8_t *out = *bytes = malloc(*size);
    if (!out)
        return smol_fail_memory(error, "the seek table");
    out = put_u32(out, SEEK_TABLE_MAGIC);
    out = put_u32(out, (uint32_t)(*size - SEEK_TABLE_HEADER_SIZE));
    for (size_t i = 0; i < table->n; i++, content -= PACKED_PIECE) {
        out = put_u32(out, table->sizes[i]);
        out = put_u32(out, content < PACKED_PIECE ? (uint32_t)content : PACKED_PIECE);
    }
    out = put_u32(out, (uint32_t)table->n);
    *out++ = 0; /* no checksums */
    put_u32(out, SEEK_TABLE_FOOTER_MAGIC);
    return SMOL_OK;
}

void smol_seek_table_free(struct seek_table *table)
{
    free(table->sizes);
    *table = (struct seek_table){0};
}

/* --- the journal --------------------------------------------------------------------------- */

struct journal smol_journal_start(const struct blob_header *header)
{
    return (struct journal){.place = header->file_size, .check = header->front_digest};
}

static struct journal_entry next_entry(const struct journal *journal, uint64_t end)
{
    const uint64_t checked[2] = {journal->check, end};
    return (struct journal_entry){end, smol_digest(checked, sizeof checked)};
}

static void advance(struct journal *journal, const struct journal_entry *entry)
{
    journal->n++;
    journal->place += sizeof *entry;
    journal->end = entry->end;
    journal->check = entry->check;
}

void smol_journal_pass(struct journal *journal, uint32_t size)
{
    const struct journal_entry entry = next_entry(journal, journal->end + size);
    advance(journal, &entry);
}

smol_status smol_journal_add(struct journal *journal, struct output *output, uint32_t size,
                             smol_error *error)
{
    const struct journal_entry entry = next_entry(journal, journal->end + size);
    smol_status status = smol_output_write(output, journal->place, &entry, sizeof entry, error);
    if (!status)
        advance(journal, &entry);
    return status;
}

smol_status smol_journal_read(struct journal journal, const struct output *output,
                              struct seek_table *table, smol_error *error)
{
    smol_status status = SMOL_OK;
    while (!status) {
        struct journal_entry entry;
        size_t n = 0;
        status = smol_output_read(output, journal.place, &entry, sizeof entry, &n, error);
        if (status || n < sizeof entry)
            break;
        struct journal_entry expected = next_entry(&journal, entry.end);
        uint64_t size = entry.end - journal.end;
        if (entry.check != expected.check || size == 0 || size > PACKED_MAX_FRAME)
            break;
        advance(&journal, &entry);
        status = smol_seek_table_add(table, (uint32_t)size, error);
    }
    return status;
}
