/* The journal of an unfinished output, see journal.h. */
#include "convert/ship/journal.h"

#include "common/hash.h"
#include "format/packed.h"

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
