/* Codes a part of a delta, see delta_coding.h. */
#include "convert/ship/delta_coding.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "common/hash.h"

/* OLD's bytes must stay within the window up to the last byte of NEW. */
enum { WINDOW_LOG = 23 };
_Static_assert(DELTA_MAX_OLD + DELTA_MAX_NEW <= 1 << WINDOW_LOG, "window");
_Static_assert(ZSTD_COMPRESSBOUND(DELTA_MAX_NEW) <= DELTA_MAX_CODED, "coded");

uint64_t smol_delta_digest(const struct delta_record *record)
{
    const size_t covered = offsetof(struct delta_part, method);
    return smol_digest((const uint8_t *)record + covered,
                       sizeof record->part - covered + record->part.coded_size);
}

/* --- differences -------------------------------------------------------------------------- */

static void subtract_bytes(const uint8_t *bytes, const uint8_t *old, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(bytes[i] - old[i]);
}

static void add_bytes(const uint8_t *differences, const uint8_t *old, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(old[i] + differences[i]);
}

static uint16_t load_half(const uint8_t *from)
{
    return (uint16_t)(from[0] | from[1] << 8);
}

/* Codes differences of 16-bit numbers. Small differences of either sign become small codes: 0, -1,
 * 1, -2 and 2 become 0 to 4. So the upper bytes are nearly all zero. All lower bytes are stored
 * first, then all upper bytes. */
static void subtract_halves(const uint8_t *bytes, const uint8_t *old, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n / 2; i++) {
        unsigned difference = (unsigned)load_half(bytes + 2 * i) - load_half(old + 2 * i);
        unsigned code = difference << 1 ^ (difference & 0x8000 ? 0xffff : 0);
        out[i] = (uint8_t)code;
        out[n / 2 + i] = (uint8_t)(code >> 8);
    }
}

static void add_halves(const uint8_t *differences, const uint8_t *old, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n / 2; i++) {
        unsigned code = differences[i] | (unsigned)differences[n / 2 + i] << 8;
        unsigned value = load_half(old + 2 * i) + (code >> 1 ^ (code & 1 ? 0xffff : 0));
        out[2 * i] = (uint8_t)value;
        out[2 * i + 1] = (uint8_t)(value >> 8);
    }
}

/* --- coding ------------------------------------------------------------------------------- */

/* Compresses one frame. Uses a new context, because the state that another frame left in it could
 * change the result. Returns 0 when memory runs out. */
static size_t compress(const uint8_t *bytes, size_t n, const uint8_t *prefix, size_t n_prefix,
                       int level, uint8_t *coded)
{
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    if (!zstd)
        return 0;
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_windowLog, WINDOW_LOG);
    ZSTD_CCtx_refPrefix(zstd, prefix, n_prefix);
    size_t size = ZSTD_compress2(zstd, coded, DELTA_MAX_CODED, bytes, n);
    ZSTD_freeCCtx(zstd);
    return ZSTD_isError(size) ? 0 : size;
}

smol_status smol_delta_encode(struct delta_record *record, const uint8_t *old, const uint8_t *bytes,
                              int level, smol_error *error)
{
    struct delta_part *part = &record->part;
    size_t n = part->new_size, size = 0;
    if (part->method == DELTA_ZSTD) {
        size = compress(bytes, n, old, part->old_size, level, record->coded);
    } else {
        uint8_t *differences = malloc(n);
        if (differences) {
            (part->method == DELTA_BYTES ? subtract_bytes : subtract_halves)(bytes, old, n,
                                                                             differences);
            size = compress(differences, n, NULL, 0, level, record->coded);
        }
        free(differences);
    }
    part->coded_size = (uint32_t)size;
    return size > 0 ? SMOL_OK : smol_fail_memory(error, "compressing");
}

/* --- decoding ----------------------------------------------------------------------------- */

smol_status smol_delta_decoder_open(struct delta_decoder *decoder, smol_error *error)
{
    decoder->zstd = ZSTD_createDCtx();
    decoder->differences = malloc(DELTA_MAX_NEW);
    return decoder->zstd && decoder->differences ? SMOL_OK
                                                 : smol_fail_memory(error, "decompressing");
}

void smol_delta_decoder_close(struct delta_decoder *decoder)
{
    ZSTD_freeDCtx(decoder->zstd);
    free(decoder->differences);
    *decoder = (struct delta_decoder){0};
}

/* Returns whether the data is exactly one frame of `n` bytes. ZSTD_decompressDCtx also accepts
 * several frames, skippable frames and the formats of early releases. */
static bool is_one_frame(const uint8_t *coded, size_t size, size_t n)
{
    static const uint8_t magic[] = {0x28, 0xb5, 0x2f, 0xfd};
    return size >= sizeof magic && memcmp(coded, magic, sizeof magic) == 0 &&
           ZSTD_getFrameContentSize(coded, size) == n &&
           ZSTD_findFrameCompressedSize(coded, size) == size;
}

static smol_status decompress(const struct delta_decoder *decoder, const uint8_t *coded,
                              size_t size, const uint8_t *prefix, size_t n_prefix, uint8_t *bytes,
                              size_t n)
{
    if (!is_one_frame(coded, size, n))
        return SMOL_ERROR_DAMAGED;
    if (ZSTD_isError(ZSTD_DCtx_refPrefix(decoder->zstd, prefix, n_prefix)))
        return SMOL_ERROR_MEMORY;
    return ZSTD_decompressDCtx(decoder->zstd, bytes, n, coded, size) == n ? SMOL_OK
                                                                          : SMOL_ERROR_DAMAGED;
}

smol_status smol_delta_decode(const struct delta_decoder *decoder,
                              const struct delta_record *record, const uint8_t *old, uint8_t *bytes)
{
    const struct delta_part *part = &record->part;
    size_t n = part->new_size, size = part->coded_size;
    if (part->method == DELTA_ZSTD)
        return decompress(decoder, record->coded, size, old, part->old_size, bytes, n);
    uint8_t *differences = decoder->differences;
    smol_status status = decompress(decoder, record->coded, size, NULL, 0, differences, n);
    if (!status)
        (part->method == DELTA_BYTES ? add_bytes : add_halves)(differences, old, n, bytes);
    return status;
}
