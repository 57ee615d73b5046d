/* Damages a blob in memory in the ways in which storage does, again and again, and wants every
 * damage refused by verification: for blobs too large to try every bit (see unit/test_every_bit.c).
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "format/reader.h"
#include "tests/repair.h"

static const char usage[] =
    "usage: damage BLOB ROUNDS SEED\n"
    "Each round is a few flipped bits, an overwritten stretch, two pieces of equal size in each\n"
    "other's place, or a mixture of the blob with a newer version of it.\n";

enum { PAGE = 4096, MAX_STRETCH = 1 << 20, MAX_FLIPS = 8 };

struct stretch {
    size_t start, size;
};

struct target {
    const uint8_t *good;   /* (size) the blob */
    const uint8_t *newer;  /* (size) another good one, see make_newer */
    uint8_t *bytes;        /* (size) what is damaged */
    size_t size;           /* bytes */
    const size_t *changed; /* (n_changed) pages in which the two good ones differ */
    size_t n_changed;
    struct stretch *touched; /* (n_touched) where `bytes` may differ from `good` */
    size_t n_touched;
    uint64_t random;
};

/* Splitmix64 (Steele, Lea and Flood, 2014). */
static uint64_t next(struct target *t)
{
    uint64_t z = t->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t below(struct target *t, size_t limit)
{
    return next(t) % limit;
}

/* --- kinds of damage ---------------------------------------------------------------------- */

/* Room for a change, which is undone after the round. */
static uint8_t *touch(struct target *t, size_t start, size_t size)
{
    t->touched[t->n_touched++] = (struct stretch){start, size};
    return t->bytes + start;
}

static void flip_bits(struct target *t)
{
    for (size_t n = 1 + below(t, MAX_FLIPS); n > 0; n--)
        *touch(t, below(t, t->size), 1) ^= (uint8_t)(1 << below(t, 8));
}

/* Somewhere in the file: any bytes, or whole sectors, pages or chunks. */
static struct stretch any_stretch(struct target *t)
{
    static const size_t units[] = {1, 512, PAGE, BLOB_CHUNK_SIZE};
    size_t unit = units[below(t, 4)], most = MAX_STRETCH >> below(t, 20);
    size_t size = most < unit ? unit : most / unit * unit;
    return (struct stretch){below(t, (t->size - size) / unit + 1) * unit, size};
}

/* Zeros, ones, noise, or what belongs elsewhere. */
static void overwrite(struct target *t)
{
    struct stretch s = any_stretch(t);
    uint8_t *at = touch(t, s.start, s.size);
    size_t kind = below(t, 4);
    if (kind < 2)
        memset(at, kind ? 0xff : 0, s.size);
    else if (kind == 2)
        memcpy(at, t->good + below(t, t->size - s.size + 1), s.size);
    else
        for (size_t i = 0; i < s.size; i++)
            at[i] = (uint8_t)next(t);
}

static void swap(struct target *t)
{
    struct stretch a = any_stretch(t), b = any_stretch(t);
    b.size = a.size;
    b.start = below(t, (t->size - a.size) / a.size + 1) * a.size;
    memcpy(touch(t, a.start, a.size), t->good + b.start, a.size);
    memcpy(touch(t, b.start, b.size), t->good + a.start, a.size);
}

/* An update in place that lost power: changed pages reached the medium in order, in any order, all
 * but one, or one alone. */
static void tear(struct target *t)
{
    size_t kind = below(t, 4), at = 1 + below(t, t->n_changed - 1);
    for (size_t i = 0; i < t->n_changed; i++) {
        const bool written[] = {i < at, below(t, 2), i != at, i == at};
        size_t start = t->changed[i] * PAGE, left = t->size - start;
        size_t size = left < PAGE ? left : PAGE;
        if (written[kind])
            memcpy(touch(t, start, size), t->newer + start, size);
    }
}

static void undo(struct target *t)
{
    for (; t->n_touched > 0; t->n_touched--) {
        struct stretch s = t->touched[t->n_touched - 1];
        memcpy(t->bytes + s.start, t->good + s.start, s.size);
    }
}

/* Whether everything is as it was: zeros written over zeros are no damage. */
static bool is_good(const struct target *t)
{
    for (size_t i = 0; i < t->n_touched; i++) {
        struct stretch s = t->touched[i];
        if (memcmp(t->bytes + s.start, t->good + s.start, s.size) != 0)
            return false;
    }
    return true;
}

static const struct kind {
    const char *name;
    void (*damage)(struct target *);
} kinds[] = {{"flips", flip_bits}, {"overwrites", overwrite}, {"swaps", swap}, {"torn", tear}};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

/* --- the blob and a newer version of it --------------------------------------------------- */

static smol_status verify(const uint8_t *bytes, size_t size, smol_error *error)
{
    struct blob blob;
    smol_status status =
        smol_blob_open_bytes(bytes, size, "the blob", VERIFY_AT_OPEN, &blob, error);
    if (!status)
        smol_blob_close(&blob);
    return status;
}

static const struct blob_section *find(const uint8_t *bytes, enum section_kind kind)
{
    const struct blob_section *section = (const void *)(bytes + sizeof(struct blob_header));
    while (section->kind != kind)
        section++;
    return section;
}

/* Another training run: in each chunk of each tensor some elements change in their lowest bit, and
 * remain numbers that the format allows. Then the digests are made right. */
static void make_newer(struct target *t, uint8_t *newer)
{
    const struct blob_section *table = find(newer, SECTION_TENSORS);
    const struct blob_tensor *tensors = (const void *)(newer + table->offset);
    for (size_t i = 0; i < table->size / sizeof *tensors; i++) {
        const struct blob_tensor *tensor = &tensors[i];
        if (i > 0 && tensor->offset == tensors[0].offset)
            continue; /* the alias of a tied output: its bytes have changed already */
        size_t first = tensor->layout == LAYOUT_TILES ? SCALES_BYTES : 0; /* after int8's scales */
        for (size_t at = first; at < tensor->size; at += at % 64 < 60 ? 4 : BLOB_CHUNK_SIZE - 60) {
            uint8_t *low = newer + tensor->offset + at;
            *low ^= *low > 1 && *low < 0x7f;
        }
    }
    const struct blob_header *header = (const void *)newer;
    repair_blob(newer, t->size, header->data_offset, find(newer, SECTION_DIGESTS)->offset);
}

static size_t list_changed_pages(const struct target *t, size_t *pages)
{
    size_t n = 0;
    for (size_t start = 0; start < t->size; start += PAGE)
        if (memcmp(t->good + start, t->newer + start,
                   t->size - start < PAGE ? t->size - start : PAGE) != 0)
            pages[n++] = start / PAGE;
    return n;
}

/* Prints why not and returns false. */
static bool prepare(struct target *t, const char *path)
{
    smol_error error;
    struct file_view file;
    if (smol_file_read(path, SIZE_MAX, &file, &error)) {
        fprintf(stderr, "damage: %s\n", error.message);
        return false;
    }
    size_t room = round_up(file.size, BLOB_ALIGN);
    uint8_t *newer = aligned_alloc(BLOB_ALIGN, room);
    size_t *changed = calloc(file.size / PAGE + 1, sizeof *changed);
    *t = (struct target){.good = file.data, .newer = newer, .size = file.size, .changed = changed};
    t->bytes = aligned_alloc(BLOB_ALIGN, room);
    t->touched = calloc(file.size / PAGE + MAX_FLIPS, sizeof *t->touched);
    if (!newer || !changed || !t->bytes || !t->touched || file.size < 2 * MAX_STRETCH) {
        fprintf(stderr, "damage: out of memory, or too small a blob\n");
        return false;
    }
    memcpy(newer, file.data, file.size);
    memcpy(t->bytes, file.data, file.size);
    if (verify(t->good, t->size, &error)) {
        fprintf(stderr, "damage: %s\n", error.message);
        return false;
    }
    make_newer(t, newer);
    t->n_changed = list_changed_pages(t, changed);
    if (verify(newer, t->size, &error) || t->n_changed < 4) {
        fprintf(stderr, "damage: the newer version is not good: %s\n", error.message);
        return false;
    }
    return true;
}

/* --- rounds ------------------------------------------------------------------------------- */

/* Whether the damage of this round is refused. */
static bool round_is_refused(struct target *t, const struct kind *kind)
{
    smol_error error;
    do {
        undo(t);
        kind->damage(t);
    } while (is_good(t));
    smol_status status = verify(t->bytes, t->size, &error);
    return status == SMOL_ERROR_DAMAGED || status == SMOL_ERROR_UNSUPPORTED;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fputs(usage, stderr);
        return 2;
    }
    struct target target;
    if (!prepare(&target, argv[1]))
        return 3;
    size_t rounds = strtoul(argv[2], NULL, 10), refused[N_KINDS] = {0}, missed = 0;
    for (size_t i = 0; i < rounds; i++) {
        target.random = strtoul(argv[3], NULL, 10) + i; /* so that a round can be repeated */
        if (round_is_refused(&target, &kinds[i % N_KINDS])) {
            refused[i % N_KINDS]++;
        } else {
            printf("round %zu (%s) was not refused\n", i, kinds[i % N_KINDS].name);
            missed++;
        }
    }
    for (size_t i = 0; i < N_KINDS; i++)
        printf("%zu %s refused\n", refused[i], kinds[i].name);
    printf("%zu passed, %zu failed\n", rounds - missed, missed);
    return missed > 0 || rounds == 0;
}
