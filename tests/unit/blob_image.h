/* A blob in a file that tests damage through a mapping. Each file that includes this has its own.
 * Repairing the digests leaves the modification as the only fault. */
#ifndef SMOL_TESTS_UNIT_BLOB_IMAGE_H
#define SMOL_TESTS_UNIT_BLOB_IMAGE_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "format/model.h"
#include "format/reader.h"
#include "tests/repair.h"
#include "tests/unit/temporary.h"
#include "tests/unit/tiny_blob.h"
#include "tests/unit/unit.h"

static struct temporary temporary;
static smol_error error;

/* --- writing a blob ----------------------------------------------------------------------- */

static char path[128]; /* path of the blob under test */

static inline void make_blob(const struct blob_model *model)
{
    const struct blob_contents contents = contents_of(model);
    if (write_blob(path, true, &contents, &error))
        fail_msg("%s", error.message);
}

/* --- damaging a blob ---------------------------------------------------------------------- */

static struct image {
    uint8_t *bytes; /* the file, in a shared mapping */
    uint8_t *pristine;
    size_t size;
    uint64_t data_offset, digests_offset;
} image;

static inline struct blob_section *section(enum section_kind kind)
{
    struct blob_section *table = (void *)(image.bytes + sizeof(struct blob_header));
    for (size_t i = 0; i < ((struct blob_header *)image.bytes)->n_sections; i++)
        if (table[i].kind == kind)
            return &table[i];
    fail_msg("no section %d", kind);
    return NULL;
}

static inline void *section_data(enum section_kind kind)
{
    return image.bytes + section(kind)->offset;
}

static inline struct blob_header *header(void)
{
    return (void *)image.bytes;
}

/* Returns the table entry of a role, of the first layer that has it. */
static inline struct blob_tensor *tensor(enum tensor_role role)
{
    struct blob_tensor *t = section_data(SECTION_TENSORS);
    while (t->role != role)
        t++;
    return t;
}

static inline void map_image(void)
{
    int fd = open(path, O_RDWR);
    struct stat info;
    assert_true(fd >= 0 && fstat(fd, &info) == 0);
    image.size = (size_t)info.st_size;
    image.bytes = mmap(NULL, image.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(image.bytes != MAP_FAILED);
    close(fd);
    image.pristine = malloc(image.size);
    memcpy(image.pristine, image.bytes, image.size);
    image.data_offset = header()->data_offset;
    image.digests_offset = section(SECTION_DIGESTS)->offset;
}

static inline void unmap_image(void)
{
    munmap(image.bytes, image.size);
    free(image.pristine);
}

/* Writes a blob and maps it, so that a test can damage it. */
static inline void make_image(const struct blob_model *model)
{
    make_blob(model);
    map_image();
}

static inline void restore(void)
{
    memcpy(image.bytes, image.pristine, image.size);
}

static inline void repair_digests(void)
{
    repair_blob(image.bytes, image.size, image.data_offset, image.digests_offset);
}

static inline smol_status try_open(bool use_mmap, enum verify verify)
{
    struct blob blob;
    smol_status status = smol_blob_open(path, use_mmap, verify, &blob, &error);
    if (!status)
        smol_blob_close(&blob);
    else if (blob.file.data || blob.path || blob.checked)
        fail_msg("something stayed open");
    return status;
}

static inline void complains(smol_status status, smol_status expected, const char *part)
{
    assert_error(&error, status, expected, part);
    assert_non_null(strstr(error.message, "tiny.smol: "));
}

/* Expects that opening refuses the modified blob after a repair of its digests; undoes the
 * modification. */
static inline void refuses_with(smol_status expected, const char *part)
{
    repair_digests();
    complains(try_open(true, VERIFY_OFF), expected, part);
    complains(try_open(false, VERIFY_FIRST_USE), expected, part);
    restore();
}

static inline void refuses(const char *part)
{
    refuses_with(SMOL_ERROR_DAMAGED, part);
}

static inline int set_up(void **state)
{
    (void)state;
    temporary_make(&temporary);
    snprintf(path, sizeof path, "%s/tiny.smol", temporary.folder);
    make_tokenizer();
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    temporary_remove(&temporary);
    return 0;
}

#define IN_FOLDER(name) TEST_WITH(name, set_up, tear_down)

static inline int set_up_image(void **state)
{
    set_up(state);
    make_image(&odd_model);
    return 0;
}

static inline int set_up_rich_image(void **state)
{
    set_up(state);
    make_image(&rich_model);
    return 0;
}

static inline int set_up_mixed_image(void **state)
{
    const struct blob_contents contents = mixed_contents_of(&odd_model);
    set_up(state);
    assert_int_equal(write_blob(path, true, &contents, &error), SMOL_OK);
    map_image();
    return 0;
}

static inline int tear_down_image(void **state)
{
    unmap_image();
    return tear_down(state);
}

#define ON_RICH_IMAGE(name) TEST_WITH(name, set_up_rich_image, tear_down_image)
#define ON_MIXED_IMAGE(name) TEST_WITH(name, set_up_mixed_image, tear_down_image)
#define ON_IMAGE(name) TEST_WITH(name, set_up_image, tear_down_image)

/* A model whose embedding and output take several chunks each. */
static inline struct blob_model wide_model(void)
{
    struct blob_model model = odd_model;
    model.dtype = DTYPE_F32;
    model.hidden_size = 33;
    model.vocab_size = 900;
    return model;
}

/* --- round trip --------------------------------------------------------------------------- */

/* Opens the blob at `path` and compares every part with what was written. */
static inline void check_round_trip(const struct blob_model *model, bool use_mmap)
{
    struct blob blob;
    if (smol_blob_open(path, use_mmap, VERIFY_AT_OPEN, &blob, &error))
        fail_msg("%s", error.message);
    assert_int_equal(blob.file.hold, use_mmap ? FILE_MAPPED : FILE_ALLOCATED);
    assert_memory_equal(blob.model, model, sizeof *model);
    bool plain = smol_model_is_plain(model), components = smol_model_has_components(model);
    bool states = model->states.kind, hybrid = model->hybrid.parallel;
    bool latent = model->latent.kv_rank, gates = model->blocks & BLOCK_GATE_HEADS;
    bool varied = model->varied.head_dim, partial = smol_model_is_partial(model);
    assert_int_equal(blob.header->required_features,
                     (plain ? 0 : FEATURE_BLOCKS) | (components ? FEATURE_COMPONENTS : 0) |
                         (states ? FEATURE_STATES : 0) | (hybrid ? FEATURE_HYBRID : 0) |
                         (latent ? FEATURE_LATENT : 0) | (gates ? FEATURE_HEAD_GATES : 0) |
                         (varied ? FEATURE_VARIED : 0) | (partial ? FEATURE_PARTIAL : 0));
    assert_int_equal(blob.header->minor, states || latent || varied || partial ? 6
                                         : plain                               ? 0
                                         : components                          ? 4
                                                                               : 1);
    if (plain)
        assert_null(blob.layers);
    else
        assert_memory_equal(blob.layers, layers_of(model), model->n_layers);
    assert_memory_equal(blob.inv_freq, inv_freq, smol_inv_freq_count(model) * sizeof *inv_freq);
    assert_int_equal(blob.n_stop, 3);
    assert_memory_equal(blob.stop, stop, sizeof stop);
    assert_memory_equal(blob.generation, &generation, sizeof generation);
    assert_int_equal(blob.n_provenance, strlen(provenance));
    assert_memory_equal(blob.provenance, provenance, blob.n_provenance);
    assert_int_equal(blob.tokenizer_section->size, sizeof tokenizer);
    assert_memory_equal(&blob.tokenizer.header, &tokenizer.header, sizeof tokenizer.header);
    assert_memory_equal(blob.tokenizer.spans, tokenizer.spans,
                        sizeof tokenizer - offsetof(__typeof__(tokenizer), spans));
    assert_int_equal(blob.n_tensors, smol_tensor_count(model));
    struct tensor_key key = {.role = ROLE_EMBED};
    for (size_t i = 0; i < blob.n_tensors; i++) {
        struct blob_tensor want = smol_tensor_layout(model, key, NULL);
        bool alias = key.role == ROLE_OUTPUT && model->tied_embeddings;
        want.offset = alias ? blob.tensors[0].offset : blob.tensors[i].offset;
        assert_memory_equal(&blob.tensors[i], &want, sizeof want);
        assert_int_equal(want.offset % BLOB_ALIGN, 0);
        if (!alias)
            assert_memory_equal(blob.file.data + want.offset, tensor_data(&want), want.size);
        assert_int_equal(smol_tensor_next(model, &key), i + 1 < blob.n_tensors);
    }
    smol_blob_close(&blob);
}

#endif
