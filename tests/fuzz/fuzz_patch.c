/* Applying a delta. An input is how the delta is made (struct making and parts), then the old blob
 * as build.h has it; the new one is built from the same bytes with some of them changed. The
 * delta's parts are right, and their digests too, where they are not damaged on purpose. */
#include <stdbool.h>
#include <stddef.h>

#include "common/checked.h"
#include "common/hash.h"
#include "convert/ship/delta.h"
#include "convert/ship/delta_coding.h"
#include "tests/fuzz/files.h"

enum { MAX_PARTS = 16 };

struct making {
    uint8_t n_changes; /* of the new blob's recipe */
    uint8_t n_parts;   /* described; what they leave comes in one more */
    uint8_t n_header;  /* damages of the header, before its digest is computed */
    uint8_t n_late;    /* damages of the whole delta */
};

struct part {
    uint8_t method;    /* modulo 4; a copy of bytes that differ is coded instead */
    uint8_t n_damages; /* before its digest is computed */
    uint32_t new_size, old_offset, old_size;
};

/* The delta so far. */
struct delta {
    const struct built *old, *new;
    uint8_t *data; /* (capacity) */
    size_t size, capacity, made;
};

static void append(struct delta *delta, const void *bytes, size_t size)
{
    CLAIM(size <= delta->capacity - delta->size);
    memcpy(delta->data + delta->size, bytes, size);
    delta->size += size;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Makes a valid part from the next bytes of NEW, as the wish says. */
static struct delta_part choose(const struct delta *delta, const struct part *wish)
{
    uint64_t rest = delta->new->size - delta->made;
    struct delta_part part = {
        .method = wish->method % DELTA_METHODS,
        .new_size = smaller(smaller((uint64_t)wish->new_size + 1, rest), DELTA_MAX_NEW)};
    part.old_offset = wish->old_offset % delta->old->size;
    uint64_t room = delta->old->size - part.old_offset;
    if (part.method == DELTA_ZSTD) {
        part.old_size = smaller(wish->old_size % (room + 1), DELTA_MAX_OLD);
        part.old_offset = part.old_size > 0 ? part.old_offset : 0;
        return part;
    }
    part.new_size = smaller(part.new_size, room);
    if (part.method == DELTA_HALVES && part.new_size % 2)
        part.method = DELTA_BYTES;
    if (part.method == DELTA_COPY && memcmp(delta->old->data + part.old_offset,
                                            delta->new->data + delta->made, part.new_size) != 0)
        part.method = DELTA_BYTES;
    part.old_size = part.new_size;
    return part;
}

static void add_part(struct fuzz_input *in, const struct part *wish, struct delta *delta)
{
    static struct delta_record record;
    smol_error error;
    record.part = choose(delta, wish);
    if (record.part.method != DELTA_COPY)
        CLAIM(!smol_delta_encode(&record, delta->old->data + record.part.old_offset,
                                 delta->new->data + delta->made, 1, &error));
    delta->made += record.part.new_size;
    size_t size = sizeof record.part + record.part.coded_size;
    fuzz_damage(in, wish->n_damages % 4, (uint8_t *)&record, size);
    if (record.part.coded_size <= size - sizeof record.part)
        record.part.digest = smol_delta_digest(&record);
    append(delta, &record, size);
}

static void read_blob(const struct built *file, struct delta_blob *blob)
{
    const struct blob_header *header = (const void *)file->data;
    *blob = (struct delta_blob){header->front_digest, file->size};
}

static void write_header(struct fuzz_input *in, unsigned n_damages, struct delta *delta)
{
    const size_t covered = offsetof(struct delta_header, major);
    struct delta_header header = {
        .major = DELTA_MAJOR, .minor = DELTA_MINOR, .file_size = delta->size};
    memcpy(header.magic, DELTA_MAGIC, BLOB_MAGIC_SIZE);
    read_blob(delta->old, &header.old_blob);
    read_blob(delta->new, &header.new_blob);
    fuzz_damage(in, n_damages, (uint8_t *)&header, sizeof header);
    header.digest = smol_digest((const uint8_t *)&header + covered, sizeof header - covered);
    memcpy(delta->data, &header, sizeof header);
}

/* Returns whether nothing was damaged. The caller frees delta->data. */
static bool make_delta(struct fuzz_input *in, const struct making *making, const struct part *parts,
                       struct delta *delta)
{
    const struct part rest = {.method = DELTA_ZSTD, .new_size = DELTA_MAX_NEW};
    bool damaged = making->n_header % 4 > 0 || making->n_late % 8 > 0;
    delta->capacity = sizeof(struct delta_header) + 2 * delta->new->size + (1 << 18);
    delta->data = exact_zeros(delta->capacity);
    delta->size = sizeof(struct delta_header);
    for (unsigned i = 0; i < making->n_parts % MAX_PARTS && delta->made < delta->new->size; i++) {
        add_part(in, &parts[i], delta);
        damaged |= parts[i].n_damages % 4 > 0;
    }
    while (delta->made < delta->new->size)
        add_part(in, &rest, delta);
    write_header(in, making->n_header % 4, delta);
    fuzz_damage(in, making->n_late % 8, delta->data, delta->size);
    return !damaged;
}

static void apply(const struct delta *delta, bool is_good)
{
    smol_error error;
    const char *old = fuzz_write("old", delta->old->data, delta->old->size);
    const char *in = fuzz_write("delta", delta->data, delta->size);
    fuzz_remove("new");
    smol_status status = smol_patch(old, in, fuzz_path("new"), false, &error);
    struct built out = fuzz_read("new");
    CLAIM((out.data == NULL) == (status != SMOL_OK));
    if (out.data && fuzz_is_whole(delta->new))
        CLAIM(out.size == delta->new->size &&memcmp(out.data, delta->new->data, out.size) == 0);
    if (is_good && fuzz_is_whole(delta->old) && fuzz_is_whole(delta->new))
        CLAIM(!status);
    free(out.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct making making;
    struct part parts[MAX_PARTS] = {{0}};
    fuzz_take(&in, &making, sizeof making);
    for (unsigned i = 0; i < making.n_parts % MAX_PARTS; i++)
        fuzz_take(&in, &parts[i], sizeof parts[i]);
    const struct fuzz_input recipe = in;
    struct built old = fuzz_build_blob(&in);
    struct built new = fuzz_build_changed(&in, &recipe, making.n_changes % 8);
    /* cut off within its header a blob has no digest to name it by */
    if (old.size >= sizeof(struct blob_header) && new.size >= sizeof(struct blob_header)) {
        struct delta delta = {.old = &old, .new = &new};
        bool is_good = make_delta(&in, &making, parts, &delta);
        apply(&delta, is_good);
        free(delta.data);
    }
    free(new.data);
    free(old.data);
    return 0;
}
