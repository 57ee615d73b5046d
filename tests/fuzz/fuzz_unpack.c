/* Unpacking, also of what an earlier call has left unfinished. An input is a packed blob (packing,
 * then a blob as build.h has it, then damages), but when it starts with zstd's magic: then it is
 * the packed file itself. */
#include <stdbool.h>
#include <zstd.h>

#include "common/checked.h"
#include "convert/ship/pack.h"
#include "convert/ship/seek_table.h"
#include "format/packed.h"
#include "format/reader.h"
#include "tests/fuzz/files.h"

/* The start of an input, which says how to pack and unpack. */
struct packing {
    uint32_t cut;      /* the first call gets so many bytes only, modulo the size */
    uint8_t switches;  /* bits of enum packing_switch */
    uint8_t piece;     /* with PACK_ODD: so many KiB of blob in each frame, plus one */
    uint8_t n_damages; /* of the packed file */
    uint8_t n_kept;    /* damages of what the first call keeps */
};
enum packing_switch {
    PACK_TWICE = 1 << 0, /* a first call with a cut file keeps what it can */
    PACK_REST = 1 << 1,  /* the second call gets the rest, not the whole file */
    PACK_ODD = 1 << 2,   /* frames of another size than `pack` makes */
    PACK_SUM = 1 << 3,   /* frames with a checksum */
    PACK_NO_SIZE = 1 << 4,
    PACK_NO_TABLE = 1 << 5,
};

static ZSTD_CCtx *compressor(const struct packing *packing)
{
    static ZSTD_CCtx *context;
    if (!context && !(context = ZSTD_createCCtx()))
        abort();
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, (packing->switches & PACK_SUM) != 0);
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, !(packing->switches & PACK_NO_SIZE));
    return context;
}

static struct built pack(const struct packing *packing, const struct built *blob)
{
    struct seek_table table = {0};
    smol_error error;
    size_t piece = packing->switches & PACK_ODD ? (1u + packing->piece) * 1024 : PACKED_PIECE;
    size_t room = (blob->size / piece + 1) * ZSTD_compressBound(piece);
    uint8_t *bytes = malloc(room), *seek = NULL;
    size_t size = 0, seek_size = 0;
    for (size_t at = 0; at < blob->size; at += piece) {
        size_t rest = blob->size - at;
        size_t n = ZSTD_compress2(compressor(packing), bytes + size, room - size, blob->data + at,
                                  rest < piece ? rest : piece);
        CLAIM(!ZSTD_isError(n) && !smol_seek_table_add(&table, (uint32_t)n, &error));
        size += n;
    }
    CLAIM(!smol_seek_table_encode(&table, blob->size, &seek, &seek_size, &error));
    if (packing->switches & PACK_NO_TABLE)
        seek_size = 0;
    struct built packed = {exact_zeros(size + seek_size), size + seek_size};
    memcpy(packed.data, bytes, size);
    memcpy(packed.data + size, seek, seek_size);
    smol_seek_table_free(&table);
    free(seek);
    free(bytes);
    return packed;
}

/* The output is a whole blob, or does not exist. */
static struct built check_output(smol_status status)
{
    struct built out = fuzz_read("out");
    CLAIM((out.data == NULL) == (status != SMOL_OK));
    CLAIM(!out.data || fuzz_is_whole(&out));
    return out;
}

static smol_status unpack(const uint8_t *data, size_t size, int resume, struct unpack_rest *rest)
{
    const struct unpack_options options = {
        .n_threads = 1, .resume = resume, .force = 1, .quiet = 1};
    smol_error error;
    const char *in = fuzz_write("in", data, size);
    fuzz_remove("out");
    smol_status status = smol_unpack(in, fuzz_path("out"), &options, rest, &error);
    CLAIM(resume || !fuzz_remove("out.part"));
    return status;
}

/* A call that keeps what arrived of a file that was cut, damage to that, and a call that goes on.
 */
static smol_status unpack_twice(struct fuzz_input *in, const struct packing *packing,
                                const struct built *packed)
{
    struct unpack_rest rest;
    smol_status status = unpack(packed->data, packing->cut % (packed->size + 1), 1, &rest);
    free(check_output(status).data);
    struct built kept = fuzz_read("out.part");
    if (kept.data) {
        CLAIM(status && rest.is_known && rest.position > 0 && rest.position <= packed->size);
        fuzz_damage(in, packing->n_kept % 8, kept.data, kept.size);
        fuzz_write("out.part", kept.data, kept.size);
        free(kept.data);
    }
    uint64_t from = kept.data && packing->switches & PACK_REST ? rest.position : 0;
    return unpack(packed->data + from, packed->size - from, 1, &rest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct packing packing = {0};
    struct built blob = {NULL, 0}, packed;
    struct unpack_rest rest;
    bool raw = size >= 4 && memcmp(data, "\x28\xb5\x2f\xfd", 4) == 0;
    if (raw) {
        packed = (struct built){exact_copy(data, size), size};
    } else {
        fuzz_take(&in, &packing, sizeof packing);
        blob = fuzz_build_blob(&in);
        packed = pack(&packing, &blob);
        fuzz_damage(&in, packing.n_damages % 8, packed.data, packed.size);
    }
    bool twice = packing.switches & PACK_TWICE;
    smol_status status =
        twice ? unpack_twice(&in, &packing, &packed) : unpack(packed.data, packed.size, 0, &rest);
    struct built out = check_output(status);
    if (!raw && out.data)
        CLAIM(out.size == blob.size && memcmp(out.data, blob.data, out.size) == 0);
    bool good = !raw && packing.n_damages % 8 == 0 && packing.n_kept % 8 == 0 &&
                !(packing.switches & (PACK_ODD | PACK_SUM | PACK_NO_SIZE | PACK_NO_TABLE));
    if (good && fuzz_is_whole(&blob))
        CLAIM(!status);
    fuzz_remove("out.part");
    free(out.data);
    free(packed.data);
    free(blob.data);
    return 0;
}
