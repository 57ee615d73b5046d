/* Tests of a blob's weights: faults in them that only verification finds, and damage that is found
 * when they are used. */
#include "tests/unit/blob_image.h"

/* --- faults that only verification finds -------------------------------------------------- */

/* Expects that the modified blob opens, because its digests are correct, but does not verify. */
static void fails_verification(void)
{
    repair_digests();
    assert_int_equal(try_open(true, VERIFY_FIRST_USE), SMOL_OK);
    complains(try_open(true, VERIFY_AT_OPEN), SMOL_ERROR_DAMAGED, "breaks the format");
    restore();
}

ON_IMAGE(verification_wants_zeros_wherever_there_is_no_weight)
{
    uint64_t gate = tensor(ROLE_MLP_GATE)->offset; /* (35, 7): one group, 25 of 32 inputs unused */
    uint64_t down = tensor(ROLE_MLP_DOWN)->offset; /* (7, 35): two groups, 7 of 16 rows used */
    image.bytes[gate + 64 + 64 + 3] = 1;           /* row 0, input 7 */
    fails_verification();
    image.bytes[gate + 64 + 7 * 64] = 1; /* row 0, input 28 */
    fails_verification();
    image.bytes[gate + 32] = 1; /* scales of a second group, which does not exist */
    fails_verification();
    image.bytes[down + 7 * 2] = 1; /* row 7's scale */
    fails_verification();
    image.bytes[down + 64 + 15 * 4] = 1; /* row 15's weights */
    fails_verification();
    image.bytes[tensor(ROLE_FINAL_NORM)->offset + 7 * 4] = 1; /* after the end of a vector */
    fails_verification();
}

ON_IMAGE(verification_wants_numbers_that_the_format_allows)
{
    uint64_t gate = tensor(ROLE_MLP_GATE)->offset;
    static const uint16_t bad[] = {0x7c00, 0x7e00, 0x8000, 0xfc00};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(image.bytes + gate, &bad[i], 2); /* infinite, NaN, negative */
        fails_verification();
    }
    image.bytes[gate + 64] = 0x80; /* -128 */
    fails_verification();
    image.bytes[gate + 64] = 0x81; /* -127 is valid */
    repair_digests();
    assert_int_equal(try_open(true, VERIFY_AT_OPEN), SMOL_OK);
    restore();
    const float nan = NAN;
    memcpy(image.bytes + tensor(ROLE_FINAL_NORM)->offset + 6 * 4, &nan, 4);
    fails_verification();
}

/* Expects that verification refuses every other value of a byte that is 0. */
static void only_zero_is_valid(uint64_t offset)
{
    for (unsigned bit = 0; bit < 8; bit++) {
        image.bytes[offset] = (uint8_t)(1 << bit);
        fails_verification();
    }
}

ON_MIXED_IMAGE(verification_knows_the_padding_of_codes)
{
    uint64_t up = tensor(ROLE_MLP_UP)->offset;     /* int4, (35, 7): inputs 7 to 31 are missing */
    uint64_t gate = tensor(ROLE_MLP_GATE)->offset; /* int5, (35, 7) */
    uint64_t o = tensor(ROLE_ATTN_O)->offset;      /* int6, (7, 18): rows 7 to 15 are missing */
    image.bytes[up + 64 + 3] = 0x10;               /* quad 1, input 7 */
    fails_verification();
    only_zero_is_valid(up + 64 + 64);
    only_zero_is_valid(up + 32);       /* scales of a second group */
    image.bytes[gate + 64 + 256] ^= 4; /* bit 4 of quad 2 */
    fails_verification();
    image.bytes[gate + 64 + 256 + 3] ^= 2; /* bit 4 of quad 1, input 7 */
    fails_verification();
    only_zero_is_valid(o + 7 * 2);
    only_zero_is_valid(o + 64 + 7 * 4);
    only_zero_is_valid(o + 64 + 256 + 7 * 4);
    only_zero_is_valid(o + 64 + 320 + 7 * 4);
    image.bytes[o + 64 + 320 + 2] ^= 4; /* bit 4 of quad 5, whose inputs are missing */
    fails_verification();
}

ON_MIXED_IMAGE(verification_wants_finite_scales_of_codes)
{
    uint64_t up = tensor(ROLE_MLP_UP)->offset;
    static const uint16_t bad[] = {0x7c00, 0x7e00, 0x8000, 0xfc00, 0xffff};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(image.bytes + up, &bad[i], 2);
        fails_verification();
    }
    const uint16_t negative = 0xbc00;
    memcpy(image.bytes + up, &negative, 2);
    repair_digests();
    assert_int_equal(try_open(true, VERIFY_AT_OPEN), SMOL_OK);
}

ON_IMAGE(verification_knows_f32_tiles_too)
{
    struct blob_model model = odd_model;
    model.dtype = DTYPE_F32;
    unmap_image();
    make_image(&model);
    float *embed = (float *)(void *)(image.bytes + tensor(ROLE_EMBED)->offset); /* (19, 7) */
    embed[0] = INFINITY;
    fails_verification();
    embed[(7 + 6) * 16 + 2] = NAN; /* row 18, input 6: the last one */
    fails_verification();
    embed[7 * 16 + 3] = 1; /* row 19 does not exist */
    fails_verification();
}

ON_IMAGE(verification_knows_bf16_tiles_too)
{
    struct blob_model model = odd_model;
    model.dtype = DTYPE_BF16;
    unmap_image();
    make_image(&model);
    uint16_t *embed = (uint16_t *)(void *)(image.bytes + tensor(ROLE_EMBED)->offset); /* (19, 7) */
    embed[0] = 0x7f80;
    fails_verification();
    embed[1] = 1;                         /* valid: row 0, input 1 */
    embed[(4 + 3) * 32 + 2 * 2] = 0xffc0; /* row 18, input 6: the last one */
    fails_verification();
    embed[(4 + 3) * 32 + 2 * 2 + 1] = 1; /* input 7 does not exist */
    fails_verification();
    embed[4 * 32 + 3 * 2] = 1; /* row 19 does not exist */
    fails_verification();
}

/* Replaces the element (row, col) of a matrix with 33 columns by one that the format does not
 * allow. */
static void spoil(uint8_t *matrix, enum blob_dtype dtype, uint64_t row, uint64_t col)
{
    uint8_t *block = matrix + row / TILE_ROWS * smol_block_bytes(dtype, 33);
    const uint64_t r = row % TILE_ROWS;
    if (dtype == DTYPE_F32)
        ((float *)(void *)block)[col * TILE_ROWS + r] = NAN;
    else if (dtype == DTYPE_BF16)
        ((uint16_t *)(void *)block)[col / 2 * 32 + r * 2 + col % 2] = 0x7f80;
    else
        block[group_weights_offset(DTYPE_INT8, col / 32) + col % 32 / 4 * 64 + r * 4 + col % 4] =
            0x80;
}

ON_IMAGE(verification_looks_at_each_weight)
{
    static const enum blob_dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_INT8};
    for (size_t i = 0; i < 3; i++) {
        struct blob_model model = odd_model;
        model.dtype = dtypes[i];
        model.hidden_size = 33;
        unmap_image();
        make_image(&model);
        for (uint64_t at = 0; at < 19 * 33; at++) { /* a whole row block, and one of three rows */
            spoil(image.bytes + tensor(ROLE_EMBED)->offset, model.dtype, at / 33, at % 33);
            fails_verification();
        }
    }
}

/* --- checking on first use ---------------------------------------------------------------- */

static smol_status use(const struct blob *blob, enum tensor_role role)
{
    const struct blob_tensor *t = blob->tensors;
    while (t->role != role)
        t++;
    return smol_blob_check(blob, t->offset, t->size, &error);
}

ON_IMAGE(a_damaged_tensor_is_reported_by_name_when_it_is_used)
{
    struct blob_model model = wide_model();
    struct blob blob;
    unmap_image();
    make_image(&model);
    image.bytes[image.size - 1000] ^= 1; /* within the output matrix */
    for (int use_mmap = 0; use_mmap < 2; use_mmap++) {
        assert_int_equal(smol_blob_open(path, use_mmap, VERIFY_FIRST_USE, &blob, &error), SMOL_OK);
        assert_int_equal(use(&blob, ROLE_EMBED), SMOL_OK);
        assert_int_equal(use(&blob, ROLE_FINAL_NORM), SMOL_OK);
        complains(use(&blob, ROLE_OUTPUT), SMOL_ERROR_DAMAGED,
                  "data damaged (weights, tensor output");
        complains(use(&blob, ROLE_OUTPUT), SMOL_ERROR_DAMAGED, "output"); /* still */
        smol_blob_close(&blob);
        complains(try_open(use_mmap, VERIFY_AT_OPEN), SMOL_ERROR_DAMAGED, "tensor output");
    }
}

/* Returns the tensors with bytes in [begin, end), as a report names them. */
static void name_tensors(const struct blob_model *model, uint64_t begin, uint64_t end, char *text,
                         size_t size)
{
    struct tensor_key key = {.role = ROLE_EMBED};
    uint64_t at = section(SECTION_WEIGHTS)->offset;
    char first[MAX_NAME] = "", last[MAX_NAME];
    do {
        uint64_t bytes = smol_tensor_layout(model, key, NULL).size;
        if (key.role == ROLE_OUTPUT && model->tied_embeddings)
            bytes = 0;
        if (bytes > 0 && at < end && begin < at + bytes)
            smol_tensor_name(key, first[0] ? last : strcpy(last, smol_tensor_name(key, first)));
        at += bytes;
    } while (smol_tensor_next(model, &key));
    if (strcmp(first, last) == 0)
        snprintf(text, size, "data damaged (weights, tensor %s, bytes", first);
    else
        snprintf(text, size, "data damaged (weights, tensor %s to %s, bytes", first, last);
}

ON_IMAGE(damage_is_reported_with_all_tensors_of_the_chunk_and_its_bytes)
{
    for (uint32_t tied = 0; tied < 2; tied++) {
        struct blob_model model = wide_model();
        model.tied_embeddings = tied;
        unmap_image();
        make_image(&model);
        uint64_t weights = section(SECTION_WEIGHTS)->offset, n = 0;
        for (uint64_t begin = weights; begin < image.size; begin += BLOB_CHUNK_SIZE, n++) {
            uint64_t rest = image.size - begin;
            uint64_t end = begin + (rest < BLOB_CHUNK_SIZE ? rest : BLOB_CHUNK_SIZE);
            char part[4 * MAX_NAME], place[64];
            image.bytes[end - 1] ^= 1;
            name_tensors(&model, begin, end, part, sizeof part);
            snprintf(place, sizeof place, ", bytes %llu to %llu): fetch a fresh copy",
                     (unsigned long long)begin, (unsigned long long)end - 1);
            complains(try_open(true, VERIFY_AT_OPEN), SMOL_ERROR_DAMAGED, part);
            complains(try_open(false, VERIFY_AT_OPEN), SMOL_ERROR_DAMAGED, place);
            image.bytes[end - 1] ^= 1;
        }
        assert_true(n >= 3);
    }
}

ON_IMAGE(with_checking_off_damage_is_reported_by_verify_only)
{
    struct blob blob;
    image.bytes[tensor(ROLE_OUTPUT)->offset + 64] ^= 1;
    assert_int_equal(smol_blob_open(path, true, VERIFY_OFF, &blob, &error), SMOL_OK);
    assert_int_equal(use(&blob, ROLE_OUTPUT), SMOL_OK);
    complains(smol_blob_verify(&blob, NULL, &error), SMOL_ERROR_DAMAGED, "data damaged (weights");
    smol_blob_close(&blob);
}

ON_IMAGE(a_chunk_found_right_is_not_read_again_but_by_verify)
{
    struct blob blob;
    assert_int_equal(smol_blob_open(path, true, VERIFY_FIRST_USE, &blob, &error), SMOL_OK);
    assert_int_equal(use(&blob, ROLE_OUTPUT), SMOL_OK);
    image.bytes[tensor(ROLE_OUTPUT)->offset + 64] ^= 1;
    assert_int_equal(use(&blob, ROLE_OUTPUT), SMOL_OK);
    assert_int_equal(smol_blob_verify(&blob, NULL, &error), SMOL_ERROR_DAMAGED);
    smol_blob_close(&blob);
}

ON_IMAGE(a_blob_read_into_memory_does_not_see_later_damage)
{
    struct blob blob;
    assert_int_equal(smol_blob_open(path, false, VERIFY_FIRST_USE, &blob, &error), SMOL_OK);
    memset(image.bytes, 0xff, image.size);
    assert_int_equal(smol_blob_verify(&blob, NULL, &error), SMOL_OK);
    assert_memory_equal(blob.file.data, image.pristine, image.size);
    smol_blob_close(&blob);
}

ON_IMAGE(using_nothing_is_fine)
{
    struct blob blob;
    assert_int_equal(smol_blob_open(path, true, VERIFY_FIRST_USE, &blob, &error), SMOL_OK);
    memset(image.bytes + image.data_offset, 0xff, image.size - image.data_offset);
    assert_int_equal(smol_blob_check(&blob, image.size, 0, &error), SMOL_OK);
    assert_int_equal(smol_blob_check(&blob, image.size - 1, 1, &error), SMOL_ERROR_DAMAGED);
    smol_blob_close(&blob);
}

int main(void)
{
    return run_all_tests("blob weights", NULL, NULL);
}
