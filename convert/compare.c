/* Compares a conversion with a blob, see compare.h. */
#include "convert/compare.h"

#include <inttypes.h>
#include <string.h>

#include "common/checked.h"
#include "convert/provenance.h"

static smol_status fail_at(const struct blob *blob, uint64_t offset, smol_error *error)
{
    char place[MAX_PLACE];
    return smol_fail(error, SMOL_ERROR_MISMATCH,
                     "%s: differs from what this checkpoint gives (%s, offset %" PRIu64
                     "): convert again, or see smolconv diff",
                     blob->path, smol_blob_place(blob, offset, place), offset);
}

/* Compares the blob's bytes at `offset` with those that the conversion made. Either may be
 * longer. */
static smol_status compare_range(const struct blob *blob, uint64_t offset, const void *theirs,
                                 size_t n_theirs, const void *made, size_t n_made,
                                 smol_error *error)
{
    const uint8_t *a = theirs, *b = made;
    size_t n = n_theirs < n_made ? n_theirs : n_made, i = 0;
    if (n_theirs == n_made && (n == 0 || memcmp(a, b, n) == 0))
        return SMOL_OK;
    while (i < n && a[i] == b[i])
        i++;
    return fail_at(blob, offset + i, error);
}

smol_status smol_compare_contents(const struct blob *blob, const struct blob_contents *made,
                                  smol_error *error)
{
    const struct blob_section *tokenizer = blob->tokenizer_section;
    const struct blob_section *theirs = (const void *)(blob->front + sizeof *blob->header);
    struct section_plan plan;
    smol_writer_plan(made, &plan);
    /* both lists end with the weights: neither is the start of the other */
    for (size_t i = 0; i < plan.n; i++, theirs++) {
        smol_status status = SMOL_OK;
        if (theirs->kind != plan.table[i].kind)
            status = fail_at(blob, (uint64_t)((const uint8_t *)theirs - blob->front), error);
        else if (plan.data[i] && theirs->kind != SECTION_PROVENANCE)
            status = compare_range(blob, theirs->offset, blob->front + theirs->offset, theirs->size,
                                   plan.data[i], plan.table[i].size, error);
        if (status)
            return status;
    }
    return compare_range(blob, tokenizer->offset, blob->file.data + tokenizer->offset,
                         tokenizer->size, made->tokenizer, made->n_tokenizer, error);
}

/* Skips the magic and the digest of the front. They were checked when the blob was opened; the
 * bytes after them show the place of a difference. */
smol_status smol_compare_bytes(void *target, uint64_t offset, const void *data, size_t size,
                               smol_error *error)
{
    const struct blob *blob = target;
    const uint8_t *made = data, *theirs = offset ? blob->file.data : blob->front;
    if (!range_within(offset, size, offset ? blob->file.size : blob->header->data_offset))
        return fail_at(blob, offset, error);
    size_t skip = offset ? 0 : BLOB_DIGEST_START;
    return compare_range(blob, offset + skip, theirs + offset + skip, size - skip, made + skip,
                         size - skip, error);
}

/* Reports a difference. `expected` points into the line that the blob should have, within
 * made[0..size). */
static smol_status fail_provenance(const struct blob *blob, const char *theirs, const char *made,
                                   size_t size, const char *expected, smol_error *error)
{
    const char *line = expected;
    while (line > made && line[-1] != '\n')
        line--;
    const char *end = memchr(line, '\n', (size_t)(made + size - line));
    return smol_fail(error, SMOL_ERROR_MISMATCH,
                     "%s: the contents are what this checkpoint gives, but the provenance is not "
                     "(offset %zu): expected \"%.*s\"",
                     blob->path, (size_t)((const uint8_t *)theirs - blob->front),
                     end ? (int)(end - line) : 0, line);
}

smol_status smol_compare_provenance(const struct blob *blob, const char *made, size_t size,
                                    bool *same_release, smol_error *error)
{
    const char *a = blob->provenance, *a_end = a + blob->n_provenance;
    const char *b = made, *b_end = made + size;
    size_t n_theirs = 0, n_ours = 0;
    const char *theirs = smol_provenance_release(a, blob->n_provenance, &n_theirs);
    const char *ours = smol_provenance_release(made, size, &n_ours);
    *same_release = theirs && n_theirs == n_ours && memcmp(theirs, ours, n_ours) == 0;
    if (theirs) { /* the release may differ, but the rest must be the same */
        a = theirs + n_theirs;
        b = ours + n_ours;
    }
    for (; a < a_end && b < b_end && *a == *b; b++)
        a++;
    return a == a_end && b == b_end ? SMOL_OK : fail_provenance(blob, a, made, size, b, error);
}
