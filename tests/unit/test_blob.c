/* Tests of blobs: the reader returns what the writer wrote, and refuses every violation of a rule
 * of FORMAT.md, even if the digests are correct. */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "cli/output.h"
#include "common/checked.h"
#include "convert/blob/writer.h"
#include "format/model.h"
#include "format/reader.h"
#include "tests/repair.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/temporary.h"
#include "tests/unit/tiny_blob.h"
#include "tests/unit/unit.h"

#define STRIDE (samples_only() ? 61 : 1)

static struct temporary temporary;
static smol_error error;

/* --- writing a blob ----------------------------------------------------------------------- */

static char path[128]; /* path of the blob under test */

static void make_blob(const struct blob_model *model)
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

static struct blob_section *section(enum section_kind kind)
{
    struct blob_section *table = (void *)(image.bytes + sizeof(struct blob_header));
    for (size_t i = 0; i < ((struct blob_header *)image.bytes)->n_sections; i++)
        if (table[i].kind == kind)
            return &table[i];
    fail_msg("no section %d", kind);
    return NULL;
}

static void *section_data(enum section_kind kind)
{
    return image.bytes + section(kind)->offset;
}

static struct blob_header *header(void)
{
    return (void *)image.bytes;
}

static void map_image(void)
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

static void unmap_image(void)
{
    munmap(image.bytes, image.size);
    free(image.pristine);
}

/* Writes a blob and maps it, so that a test can damage it. */
static void make_image(const struct blob_model *model)
{
    make_blob(model);
    map_image();
}

static void restore(void)
{
    memcpy(image.bytes, image.pristine, image.size);
}

static void repair_digests(void)
{
    repair_blob(image.bytes, image.size, image.data_offset, image.digests_offset);
}

static smol_status try_open(bool use_mmap, enum verify verify)
{
    struct blob blob;
    smol_status status = smol_blob_open(path, use_mmap, verify, &blob, &error);
    if (!status)
        smol_blob_close(&blob);
    else if (blob.file.data || blob.path || blob.checked)
        fail_msg("something stayed open");
    return status;
}

static void complains(smol_status status, smol_status expected, const char *part)
{
    assert_error(&error, status, expected, part);
    assert_non_null(strstr(error.message, "tiny.smol: "));
}

/* Expects that opening refuses the modified blob after a repair of its digests; undoes the
 * modification. */
static void refuses_with(smol_status expected, const char *part)
{
    repair_digests();
    complains(try_open(true, VERIFY_OFF), expected, part);
    complains(try_open(false, VERIFY_FIRST_USE), expected, part);
    restore();
}

static void refuses(const char *part)
{
    refuses_with(SMOL_ERROR_DAMAGED, part);
}

static int set_up(void **state)
{
    (void)state;
    temporary_make(&temporary);
    snprintf(path, sizeof path, "%s/tiny.smol", temporary.folder);
    make_tokenizer();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    temporary_remove(&temporary);
    return 0;
}

#define IN_FOLDER(name) TEST_WITH(name, set_up, tear_down)

static int set_up_image(void **state)
{
    set_up(state);
    make_image(&odd_model);
    return 0;
}

static int set_up_rich_image(void **state)
{
    set_up(state);
    make_image(&rich_model);
    return 0;
}

static int set_up_mixed_image(void **state)
{
    const struct blob_contents contents = mixed_contents_of(&odd_model);
    set_up(state);
    assert_int_equal(write_blob(path, true, &contents, &error), SMOL_OK);
    map_image();
    return 0;
}

static int tear_down_image(void **state)
{
    unmap_image();
    return tear_down(state);
}

#define ON_RICH_IMAGE(name) TEST_WITH(name, set_up_rich_image, tear_down_image)
#define ON_MIXED_IMAGE(name) TEST_WITH(name, set_up_mixed_image, tear_down_image)
#define ON_IMAGE(name) TEST_WITH(name, set_up_image, tear_down_image)

/* --- round trip ------------------------------------------------------------------------------- */

/* Opens the blob at `path` and compares every part with what was written. */
static void check_round_trip(const struct blob_model *model, bool use_mmap)
{
    struct blob blob;
    if (smol_blob_open(path, use_mmap, VERIFY_AT_OPEN, &blob, &error))
        fail_msg("%s", error.message);
    assert_int_equal(blob.file.hold, use_mmap ? FILE_MAPPED : FILE_ALLOCATED);
    assert_memory_equal(blob.model, model, sizeof *model);
    bool plain = smol_model_is_plain(model), components = smol_model_has_components(model);
    bool states = model->states.kind, hybrid = model->hybrid.parallel;
    bool latent = model->latent.kv_rank;
    assert_int_equal(blob.header->required_features,
                     (plain ? 0 : FEATURE_BLOCKS) | (components ? FEATURE_COMPONENTS : 0) |
                         (states ? FEATURE_STATES : 0) | (hybrid ? FEATURE_HYBRID : 0) |
                         (latent ? FEATURE_LATENT : 0));
    assert_int_equal(blob.header->minor, states || latent ? 6 : plain ? 0 : components ? 4 : 1);
    if (plain)
        assert_null(blob.layers);
    else
        assert_memory_equal(blob.layers, rich_layers, model->n_layers);
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

IN_FOLDER(what_is_written_is_read)
{
    static const enum blob_dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_INT8};
    for (unsigned variant = 0; variant < 12; variant++) {
        struct blob_model model = odd_model;
        model.dtype = dtypes[variant % 3];
        model.tied_embeddings = variant / 3 % 2;
        model.attention_bias = model.mlp_bias = variant / 6;
        make_blob(&model);
        check_round_trip(&model, true);
        check_round_trip(&model, false);
    }
}

IN_FOLDER(what_blocks_say_is_read)
{
    static const enum blob_dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_INT8};
    static const uint32_t blocks[] = {0,
                                      BLOCK_NO_INPUT_NORMS,
                                      BLOCK_QK_NORM_ALL,
                                      BLOCK_NORM_OUTPUTS | BLOCK_QK_NORM_HEADS,
                                      BLOCK_NORM_OUTPUTS | BLOCK_NO_INPUT_NORMS,
                                      BLOCK_LAYER_NORM | BLOCK_NO_GATE | BLOCK_POSITIONS,
                                      BLOCK_LAYER_NORM | BLOCK_PARALLEL | BLOCK_ONE_NORM |
                                          BLOCK_OUTPUT_BIAS,
                                      BLOCK_PARALLEL | BLOCK_NO_GATE | BLOCK_ROTATE_NEIGHBOURS,
                                      BLOCK_QK_NORM_ALL | BLOCK_QK_NORM_LATE};
    for (unsigned variant = 0; variant < 3 * sizeof blocks / sizeof blocks[0]; variant++) {
        struct blob_model model = rich_model;
        model.dtype = dtypes[variant % 3];
        model.blocks = blocks[variant / 3];
        model.attention_bias = variant % 3;
        make_blob(&model);
        check_round_trip(&model, true);
        check_round_trip(&model, false);
    }
}

IN_FOLDER(what_states_say_is_read)
{
    for (unsigned variant = 0; variant < 8; variant++) {
        struct blob_model model = stateful_model();
        model.dtype = variant % 2 ? DTYPE_INT8 : DTYPE_BF16;
        model.states.biases = variant / 2 % 2;
        model.states.taps = variant / 4 ? 2 : STATES_MAX_TAPS;
        make_blob(&model);
        check_round_trip(&model, true);
    }
}

/* A byte of a section that breaks a rule, and a part of the message. */
struct byte_case {
    size_t place;
    uint8_t value;
    const char *part;
};

/* Changes the bytes one after the other in a new image of the model. */
static void refuses_bytes(const struct blob_model *model, enum section_kind kind,
                          const struct byte_case *cases, size_t n)
{
    unmap_image();
    make_image(model);
    for (size_t i = 0; i < n; i++) {
        ((uint8_t *)section_data(kind))[cases[i].place] = cases[i].value;
        refuses(cases[i].part);
    }
}

ON_IMAGE(states_that_break_a_rule_are_refused)
{
    static const struct byte_case cases[] = {
        {0, 0, "kind is 0"},
        {0, 99, "kind is 99"},
        {4, 0, "taps is 0"},
        {4, 1, "taps is 1"},
        {4, 17, "taps is 17"},
        {7, 255, "taps is"},
        {8, 2, "biases is 2"},
        {0, 2, "n_heads is 0: must be from 1 to 4096"},
        {12, 1, "a short convolution has no heads"},
        {28, 1, "a reserved field is not zero"},
        {63, 1, "a reserved field is not zero"},
        {64, 0, "no layer has a state"},
        {64, 3, "every layer has a state"},
        {64, 5, "layer 2 has a state, but there is no such layer"},
        {191, 128, "layer 1023 has a state, but there is no such layer"},
        {4, 4, "tensor layers.0.mixer_conv does not match the model"},
        {8, 0, "wrong number of tensors"},
        {64, 2, "does not match the model"},
    };
    struct blob_model model = stateful_model();
    refuses_bytes(&model, SECTION_STATES, cases, sizeof cases / sizeof cases[0]);
    header()->required_features = 0;
    refuses("wrong number of sections");
}

IN_FOLDER(what_hybrids_say_is_read)
{
    for (unsigned variant = 0; variant < 24; variant++) {
        struct blob_model model = hybrid_model();
        model.dtype = variant % 2 ? DTYPE_INT8 : DTYPE_F32;
        model.hybrid.input_biases = variant / 2 % 2;
        model.hybrid.output_bias = variant / 4 % 2;
        model.hybrid.norm = variant / 8;
        model.states.layers[0] = variant % 3 + 1; /* one of the layers, or both */
        make_blob(&model);
        check_round_trip(&model, true);
    }
}

ON_IMAGE(hybrids_that_break_a_rule_are_refused)
{
    static const struct byte_case cases[] = {
        {0, 0, "parallel is 0"},
        {0, 2, "parallel is 2"},
        {4, 3, "norm is 3"},
        {8, 2, "input_biases is 2"},
        {12, 2, "output_bias is 2"},
        {60, 1, "a reserved field is 1"},
        {19, 0xbf, "attention_in is -0.5"},
        {19, 0, "attention_in is 0"},
        {23, 0x7f, "attention_out is inf"},
        {27, 0xff, "mixer_in is"},
        {59, 0xc0, "mlp_out is"},
        {4, 2, "wrong number of tensors"},
        {8, 0, "wrong number of tensors"},
        {12, 0, "wrong number of tensors"},
    };
    struct blob_model model = hybrid_model();
    refuses_bytes(&model, SECTION_HYBRID, cases, sizeof cases / sizeof cases[0]);
    ((struct blob_states *)section_data(SECTION_STATES))->kind = STATE_DELTA;
    refuses("only Mamba2 stands side by side");
    ((struct blob_states *)section_data(SECTION_STATES))->layers[0] = 0;
    refuses("no layer has a state");
    header()->required_features ^= FEATURE_STATES;
    refuses("wrong number of sections");
}

TEST(hybrids_have_blocks_one_after_the_other)
{
    static const uint32_t blocks[] = {BLOCK_NORM_OUTPUTS, BLOCK_NO_INPUT_NORMS,
                                      BLOCK_NO_GATE,      BLOCK_PARALLEL,
                                      BLOCK_ONE_NORM,     BLOCK_ATTENTION_GATE};
    struct blob_model model = hybrid_model();
    smol_error reason;
    assert_int_equal(smol_hybrid_check(&model, &reason), SMOL_OK);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        model.blocks = blocks[i];
        assert_int_equal(smol_hybrid_check(&model, &reason), SMOL_ERROR_DAMAGED);
        assert_non_null(strstr(reason.message, "not with attention and states side by side"));
    }
}

IN_FOLDER(what_latent_vectors_say_is_read)
{
    for (unsigned variant = 0; variant < 4; variant++) {
        struct blob_model model = latent_model();
        model.dtype = variant % 2 ? DTYPE_INT8 : DTYPE_F32;
        model.latent.q_rank *= variant / 2;
        make_blob(&model);
        check_round_trip(&model, true);
    }
}

ON_IMAGE(latent_vectors_that_break_a_rule_are_refused)
{
    static const struct byte_case cases[] = {
        {0, 0, "kv_rank is 0: must be a multiple of 16 from 16 to 1024"},
        {0, 8, "kv_rank is 8"},
        {0, 24, "kv_rank is 24"},
        {1, 5, "kv_rank is 1296"},
        {0, 32, "latent vectors need one key head"},
        {7, 1, "q_rank is 16777221"},
        {8, 0, "query_dim is 0"},
        {9, 5, "query_dim is 1283"},
        {12, 0, "value_dim is 0"},
        {12, 33, "value_dim is 33"},
        {19, 0x80, "norm_eps is"},
        {19, 0x7f, "norm_eps is"},
        {20, 1, "a reserved field is not zero"},
        {63, 1, "a reserved field is not zero"},
        {4, 4, "tensor layers.0.attn_q_down does not match the model"},
        {4, 0, "wrong number of tensors"},
        {8, 4, "tensor layers.0.attn_q does not match the model"},
        {12, 16, "tensor layers.0.attn_v_up does not match the model"},
    };
    struct blob_model model = latent_model();
    refuses_bytes(&model, SECTION_LATENT, cases, sizeof cases / sizeof cases[0]);
    header()->required_features ^= FEATURE_LATENT;
    refuses("wrong number of sections");
}

TEST(latent_vectors_go_with_few_other_parts)
{
    struct blob_model models[8];
    smol_error reason;
    for (size_t i = 0; i < 8; i++) {
        models[i] = latent_model();
        assert_int_equal(smol_latent_check(&models[i], &reason), SMOL_OK);
    }
    models[0].states = stateful_model().states;
    models[1].attention_bias = BIAS_QKVO;
    models[2].query_growth = 1;
    models[3].attention_softcap = 1;
    models[4].experts.n_experts = 1;
    models[5].blocks = BLOCK_QK_NORM_HEADS;
    models[6].blocks = BLOCK_QK_NORM_ALL;
    models[7].blocks = BLOCK_ATTENTION_GATE;
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(smol_latent_check(&models[i], &reason), SMOL_ERROR_DAMAGED);
        assert_non_null(strstr(reason.message, "latent vectors come with no"));
    }
    models[0] = latent_model();
    models[0].n_kv_heads = 3;
    assert_int_equal(smol_latent_check(&models[0], &reason), SMOL_ERROR_DAMAGED);
    struct blob_model plain = odd_model;
    plain.attention_bias = BIAS_NONE;
    plain.head_dim = 16;
    plain.latent = latent_model().latent;
    assert_int_equal(smol_latent_check(&plain, &reason), SMOL_ERROR_DAMAGED);
}

ON_IMAGE(latent_vectors_with_experts_are_refused)
{
    struct blob_model model = latent_model();
    model.mlp_bias = 0;
    model.experts = (struct blob_experts){
        .n_experts = 2, .n_used = 1, .width = model.intermediate_size, .scale = 1};
    unmap_image();
    make_image(&model);
    refuses("section latent: latent vectors come with no experts");
}

ON_RICH_IMAGE(a_gate_of_attention_needs_states)
{
    struct blob_model *model = section_data(SECTION_MODEL);
    model->blocks |= BLOCK_ATTENTION_GATE;
    header()->required_features |= FEATURE_COMPONENTS;
    header()->minor = BLOB_MINOR_COMPONENTS;
    refuses("a gate of attention needs the states feature");
}

ON_RICH_IMAGE(relative_positions_need_their_feature_and_an_encoder)
{
    static const struct {
        uint32_t bit, feature;
        const char *message;
    } cases[] = {
        {BLOCK_RELATIVE, 0, "its blocks and the relative feature contradict each other"},
        {0, FEATURE_RELATIVE, "its blocks and the relative feature contradict each other"},
        {BLOCK_RELATIVE, FEATURE_RELATIVE, "relative positions need an encoder without windows"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ((struct blob_model *)section_data(SECTION_MODEL))->blocks |= cases[i].bit;
        header()->required_features |= cases[i].feature | (cases[i].bit ? FEATURE_COMPONENTS : 0);
        header()->minor = cases[i].feature ? BLOB_MINOR_STATES : BLOB_MINOR_COMPONENTS;
        refuses(cases[i].message);
    }
}

TEST(sizes_of_recurrences_have_their_ranges)
{
    static const struct {
        uint32_t n_heads, head_dim, size, n_groups;
        const char *part; /* NULL: accepted */
    } cases[] = {
        {4, 16, 8, 2, NULL},
        {4096, 1024, 1024, 4096, NULL},
        {0, 16, 8, 2, "n_heads is 0"},
        {4097, 16, 8, 1, "n_heads is 4097"},
        {4, 0, 8, 2, "head_dim is 0"},
        {4, 1025, 8, 2, "head_dim is 1025"},
        {4, 16, 0, 2, "size is 0"},
        {4, 16, 1025, 2, "size is 1025"},
        {4, 16, 8, 0, "n_groups is 0"},
        {4, 16, 8, 3, "n_heads is 4: not a multiple of n_groups 3"},
    };
    for (uint32_t kind = STATE_MAMBA2; kind <= STATE_DELTA; kind++)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            struct blob_model model = stateful_model();
            smol_error reason = {.message = ""};
            model.states.kind = kind;
            model.states.n_heads = cases[i].n_heads;
            model.states.head_dim = cases[i].head_dim;
            model.states.size = cases[i].size;
            model.states.n_groups = cases[i].n_groups;
            smol_status status = smol_states_check(&model, NULL, &reason);
            assert_int_equal(status, cases[i].part ? SMOL_ERROR_DAMAGED : SMOL_OK);
            assert_true(!cases[i].part || strstr(reason.message, cases[i].part));
        }
}

/* Bits of `blocks` that exclude each other, or need another. */
TEST(blocks_that_contradict_themselves_are_refused)
{
    static const struct {
        uint32_t blocks;
        const char *reason;
    } cases[] = {
        {BLOCK_QK_NORM_HEADS | BLOCK_QK_NORM_ALL, "bits 4 and 8"},
        {BLOCK_QK_NORM_LATE, "bit 16, norms after RoPE, needs bit 4 or 8"},
        {BLOCK_LAYER_NORM | BLOCK_NORM_OUTPUTS, "excludes bits 1 and 2"},
        {BLOCK_LAYER_NORM | BLOCK_NO_INPUT_NORMS, "excludes bits 1 and 2"},
        {BLOCK_ONE_NORM, "needs bit 256"},
        {BLOCK_ONE_NORM | BLOCK_PARALLEL | BLOCK_NO_INPUT_NORMS, "excludes bit 2"},
        {ALL_BLOCK_BITS + 1, "must be from 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct blob_model model = rich_model;
        smol_error failure;
        model.dtype = DTYPE_F32;
        model.blocks = cases[i].blocks;
        assert_int_equal(smol_model_check(&model, &failure), SMOL_ERROR_DAMAGED);
        assert_non_null(strstr(failure.message, cases[i].reason));
    }
}

TEST(a_plain_model_that_is_spelled_out_is_reduced)
{
    struct blob_model model = odd_model, full;
    static const uint8_t layers[2];
    assert_true(smol_model_is_plain(&model));
    assert_false(smol_model_reduce(&model, NULL));
    assert_memory_equal(&model, &odd_model, sizeof model);
    smol_model_fill(&model);
    assert_false(smol_model_is_plain(&model));
    full = model;
    assert_true(full.attention_scale == 1.0f / sqrtf(6));
    assert_false(smol_model_reduce(&model, layers));
    assert_memory_equal(&model, &odd_model, sizeof model);
    assert_true(smol_model_reduce(&model, rich_layers)); /* the layers differ */
    assert_memory_equal(&model, &full, sizeof model);
    model = odd_model;
    model.activation = ACTIVATION_GELU_TANH;
    assert_true(smol_model_reduce(&model, NULL));
    assert_false(smol_model_is_plain(&model));
    model = odd_model;
    model.attention_bias = BIAS_QKV;
    assert_true(smol_model_reduce(&model, NULL));
    model = rich_model;
    assert_true(smol_model_reduce(&model, rich_layers));
    assert_memory_equal(&model, &rich_model, sizeof model);
}

TEST(tensors_come_in_order_and_have_names)
{
    static const char *const names[] = {
        "embed",           "layers.0.attn_norm", "layers.0.attn_q",   "layers.0.attn_k",
        "layers.0.attn_v", "layers.0.attn_o",    "layers.0.mlp_norm", "layers.0.mlp_gate",
        "layers.0.mlp_up", "layers.0.mlp_down",  "layers.1.attn_norm"};
    struct blob_model model = odd_model;
    model.attention_bias = model.mlp_bias = 0;
    struct tensor_key key = {.role = ROLE_EMBED};
    char name[MAX_NAME];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_string_equal(smol_tensor_name(key, name), names[i]);
        assert_int_equal(smol_tensor_layout(&model, key, NULL).layout == LAYOUT_TILES,
                         !strstr(names[i], "norm"));
        assert_true(smol_tensor_next(&model, &key));
    }
    while (key.role < ROLE_FINAL_NORM)
        assert_true(smol_tensor_next(&model, &key));
    assert_string_equal(smol_tensor_name(key, name), "final_norm");
    assert_int_equal(key.layer, 0);
    assert_true(smol_tensor_next(&model, &key));
    assert_string_equal(smol_tensor_name(key, name), "output");
    assert_int_equal(key.layer, 0);
    assert_false(smol_tensor_next(&model, &key));
}

TEST(norms_stand_where_a_layer_uses_them)
{
    static const char *const names[] = {"layers.1.attn_norm",
                                        "layers.1.attn_q",
                                        "layers.1.attn_k",
                                        "layers.1.attn_v",
                                        "layers.1.attn_o",
                                        "layers.1.attn_q_bias",
                                        "layers.1.attn_k_bias",
                                        "layers.1.attn_v_bias",
                                        "layers.1.attn_q_norm",
                                        "layers.1.attn_k_norm",
                                        "layers.1.attn_out_norm",
                                        "layers.1.mlp_norm",
                                        "layers.1.mlp_gate",
                                        "layers.1.mlp_up",
                                        "layers.1.mlp_down",
                                        "layers.1.mlp_out_norm",
                                        "final_norm"};
    struct blob_model model = rich_model;
    model.mlp_bias = 0;
    struct tensor_key key = {.role = ROLE_ATTN_NORM, .layer = 1};
    char name[MAX_NAME];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_string_equal(smol_tensor_name(key, name), names[i]);
        assert_true(smol_tensor_next(&model, &key));
    }
    const struct tensor_key q_norm = {.role = ROLE_ATTN_Q_NORM},
                            k_norm = {.role = ROLE_ATTN_K_NORM};
    assert_int_equal(smol_tensor_layout(&model, q_norm, NULL).cols, 6);
    assert_int_equal(smol_tensor_layout(&model, k_norm, NULL).cols, 6);
    model.blocks = BLOCK_QK_NORM_ALL | BLOCK_NO_INPUT_NORMS;
    assert_int_equal(smol_tensor_layout(&model, q_norm, NULL).cols, 18);
    assert_int_equal(smol_tensor_layout(&model, k_norm, NULL).cols, 6);
    key = (struct tensor_key){.role = ROLE_EMBED};
    assert_true(smol_tensor_next(&model, &key));
    assert_int_equal(key.role, ROLE_ATTN_Q);
}

IN_FOLDER(sections_may_be_empty_where_the_model_has_nothing)
{
    struct blob_contents contents = contents_of(&odd_model);
    contents.stop = NULL, contents.n_stop = 0;
    contents.provenance = NULL, contents.n_provenance = 0;
    assert_int_equal(write_blob(path, true, &contents, &error), SMOL_OK);
    struct blob blob;
    assert_int_equal(smol_blob_open(path, true, VERIFY_AT_OPEN, &blob, &error), SMOL_OK);
    assert_int_equal(blob.n_stop, 0);
    assert_int_equal(blob.n_provenance, 0);
    smol_blob_close(&blob);
}

ON_IMAGE(data_starts_at_the_next_64_kib_and_padding_is_zero)
{
    assert_int_equal(image.data_offset, 65536);
    assert_int_equal(section(SECTION_TOKENIZER)->offset, 65536);
    assert_int_equal(section(SECTION_WEIGHTS)->offset, 131072);
    uint64_t end = image.digests_offset + section(SECTION_DIGESTS)->size;
    for (uint64_t i = end; i < 65536; i++)
        assert_int_equal(image.bytes[i], 0);
    assert_int_equal(section(SECTION_DIGESTS)->size, 16);
}

/* --- damage ------------------------------------------------------------------------------- */

ON_IMAGE(every_truncation_is_refused)
{
    size_t steps = 0;
    for (size_t size = image.size; size-- > 0; steps++) {
        if (size > 4096 && steps % STRIDE)
            continue;
        assert_int_equal(truncate(path, (off_t)size), 0);
        complains(try_open(true, VERIFY_OFF), SMOL_ERROR_DAMAGED, size ? "truncated" : "offset 0");
    }
}

ON_IMAGE(appended_bytes_are_refused)
{
    for (size_t extra = 1; extra <= 70000; extra += 9999) {
        assert_int_equal(truncate(path, (off_t)(image.size + extra)), 0);
        complains(try_open(true, VERIFY_OFF), SMOL_ERROR_DAMAGED, "bytes appended");
    }
}

ON_IMAGE(a_spoilt_tokenizer_is_refused_at_open_by_its_digest)
{
    image.bytes[image.data_offset + offsetof(__typeof__(tokenizer), text)] ^= 1;
    complains(try_open(true, VERIFY_FIRST_USE), SMOL_ERROR_DAMAGED,
              "data damaged (section tokenizer");
    assert_int_equal(try_open(true, VERIFY_OFF), SMOL_OK); /* no rule is broken */
}

/* --- other types of file ------------------------------------------------------------------ */

static void refuses_file(const void *bytes, size_t size, smol_status status, const char *part)
{
    temporary_write(&temporary, "tiny.smol", bytes, size);
    complains(try_open(true, VERIFY_OFF), status, part);
}

IN_FOLDER(other_kinds_of_file_are_named)
{
    static const char zeros[4096];
    refuses_file("\x28\xb5\x2f\xfd....", 8, SMOL_ERROR_UNSUPPORTED, "zstd");
    refuses_file("GGUF\3\0\0\0........", 16, SMOL_ERROR_UNSUPPORTED, "GGUF");
    refuses_file("GGUF", 4, SMOL_ERROR_UNSUPPORTED, "GGUF");
    refuses_file("GGU", 3, SMOL_ERROR_DAMAGED, "not a .smol blob");
    refuses_file("\x40\0\0\0\0\0\0\0{\"a\"", 12, SMOL_ERROR_UNSUPPORTED, "a safetensors file");
    refuses_file("\x40\0\0\0\0\0\0\0{\"", 10, SMOL_ERROR_UNSUPPORTED, "a safetensors file");
    refuses_file("\x40\0\0\0\0\0\0\0{", 9, SMOL_ERROR_DAMAGED, "not a .smol blob");
    refuses_file("\x89SMS\r\n\x1a\n", 8, SMOL_ERROR_UNSUPPORTED, "a session");
    refuses_file("\x89SMC\r\n\x1a\n", 8, SMOL_ERROR_UNSUPPORTED, "calibration statistics");
    refuses_file("\x89SMD\r\n\x1a\n", 8, SMOL_ERROR_DAMAGED, "a .smoldelta");
    refuses_file("{\"model\": 1}", 12, SMOL_ERROR_DAMAGED, "not a .smol blob");
    refuses_file("SMOL\1\0\0\0", 8, SMOL_ERROR_DAMAGED, "not a .smol blob");
    refuses_file(zeros, sizeof zeros, SMOL_ERROR_DAMAGED, "not a .smol blob");
    refuses_file("", 0, SMOL_ERROR_DAMAGED, "not a .smol blob");
}

IN_FOLDER(line_ends_changed_by_a_text_transfer_are_recognised)
{
    static char file[4096];
    static const char *const damaged[] = {"\x89SML\n\x1a\n", "\x89SML\r\n\x1a\r\n",
                                          "\x89SML\r\r\n\x1a\r\n", "\x89SML\r\r\x1a\r"};
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        memcpy(file, damaged[i], strlen(damaged[i]));
        refuses_file(file, sizeof file, SMOL_ERROR_DAMAGED, "line endings were changed");
    }
    refuses_file("\x89SML\r\n", 6, SMOL_ERROR_DAMAGED, "truncated"); /* cut at the control-Z */
}

IN_FOLDER(what_is_no_file_is_refused)
{
    complains(try_open(true, VERIFY_OFF), SMOL_ERROR_FILE, "cannot open");
    assert_int_equal(mkdir(path, 0700), 0);
    complains(try_open(false, VERIFY_OFF), SMOL_ERROR_FILE, "a folder");
}

/* --- rules of the header ------------------------------------------------------------------ */

ON_IMAGE(newer_versions_and_unknown_needs_are_unsupported)
{
    header()->major = 2;
    refuses_with(SMOL_ERROR_UNSUPPORTED, "format version 2.0, this program reads 1.x");
    header()->major = 0;
    refuses_with(SMOL_ERROR_UNSUPPORTED, "format version 0.0");
    header()->required_features = 1ull << 63;
    refuses_with(SMOL_ERROR_UNSUPPORTED, "needs features 0x8000000000000000");
    /* features are checked before anything that they may change */
    header()->required_features = 1 << 20;
    header()->n_sections = 10;
    refuses_with(SMOL_ERROR_UNSUPPORTED, "needs features 0x100000");
}

ON_IMAGE(newer_minor_versions_and_optional_features_are_read)
{
    header()->minor = 7;
    header()->optional_features = 0x8000000000000001;
    repair_digests();
    assert_int_equal(try_open(true, VERIFY_AT_OPEN), SMOL_OK);
}

ON_IMAGE(the_headers_rules_are_checked)
{
    header()->file_size++;
    refuses("truncated");
    header()->file_size--;
    refuses("bytes appended");
    header()->file_size = INT64_MAX;
    refuses("truncated");
    header()->file_size = UINT64_MAX;
    refuses("file_size is out of range (offset 24)");
    static const uint64_t offsets[] = {0, 64, 65535, 65537, 1ull << 40, UINT64_MAX & ~0xffffull};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        header()->data_offset = offsets[i];
        refuses("data_offset is out of range (offset 32)");
    }
    header()->reserved = 1;
    refuses("reserved");
    header()->n_sections = 8;
    refuses("wrong number of sections");
    header()->n_sections = UINT32_MAX;
    refuses("wrong number of sections");
}

ON_IMAGE(the_data_must_start_where_the_header_says)
{
    header()->data_offset = 131072; /* the front would extend to the weights */
    image.data_offset = 131072;
    refuses("data sections do not start at data_offset");
    image.data_offset = 65536;
}

/* --- rules of the section table ----------------------------------------------------------- */

ON_IMAGE(sections_must_be_the_known_ones_in_order)
{
    static const uint32_t kinds[] = {0, 8, 31, 34, UINT32_MAX}; /* 8, 34: not used yet */
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        section(SECTION_STOP)->kind = kinds[i];
        refuses("section stop: unexpected entry in its place (offset 112)");
    }
    section(SECTION_STOP)->kind = SECTION_INV_FREQ; /* appears twice */
    refuses("section stop: unexpected entry in its place (offset 112)");
    struct blob_section *stop_ids = section(SECTION_STOP), saved = *stop_ids;
    stop_ids[0] = stop_ids[1], stop_ids[1] = saved; /* out of order */
    refuses("section stop: unexpected entry in its place (offset 112)");
    section(SECTION_MODEL)->reserved = 1;
    refuses("section model: unexpected entry in its place (offset 64)");
}

ON_IMAGE(sections_must_lie_one_after_the_other)
{
    static const struct {
        enum section_kind kind;
        const char *part;
    } sections[] = {{SECTION_MODEL, "section model: wrong offset or size (offset 64)"},
                    {SECTION_INV_FREQ, "section inv_freq: wrong offset or size (offset 88)"},
                    {SECTION_STOP, "section stop: wrong offset or size (offset 112)"},
                    {SECTION_GENERATION, "section generation: wrong offset or size (offset 136)"},
                    {SECTION_PROVENANCE, "section provenance: wrong offset or size (offset 160)"},
                    {SECTION_TENSORS, "section tensors: wrong offset or size (offset 184)"},
                    {SECTION_DIGESTS, "section digests: wrong offset or size (offset 208)"},
                    {SECTION_TOKENIZER, "section tokenizer: wrong offset or size (offset 232)"},
                    {SECTION_WEIGHTS, "section weights: wrong offset or size (offset 256)"}};
    static const uint64_t moves[] = {1, 64, 65536, -64ull, -65536ull, 1ull << 63};
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        for (size_t j = 0; j < sizeof moves / sizeof moves[0]; j++) {
            section(sections[i].kind)->offset += moves[j];
            refuses(sections[i].part);
        }
}

ON_IMAGE(sections_must_lie_within_their_part_of_the_file)
{
    static const uint64_t sizes[] = {65536, 1ull << 40, UINT64_MAX, UINT64_MAX - 65535};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        section(SECTION_MODEL)->size = sizes[i];
        refuses("section model: wrong offset or size");
        section(SECTION_WEIGHTS)->size = sizes[i];
        refuses("section weights: wrong offset or size");
        section(SECTION_TOKENIZER)->size = sizes[i];
        refuses(i ? "section tokenizer: wrong offset or size"
                  : "section tokenizer: the section must end with its last table");
    }
}

ON_IMAGE(bytes_between_sections_must_be_zero)
{
    image.bytes[sizeof(struct blob_header) + 9 * sizeof(struct blob_section)] = 1;
    refuses("section model: the padding before it is not zero");
    image.bytes[section(SECTION_STOP)->offset - 1] = 1;
    refuses("section stop: the padding before it is not zero");
    image.bytes[image.data_offset - 1] = 1;
    refuses("section tokenizer: the padding before it is not zero");
    image.bytes[section(SECTION_WEIGHTS)->offset - 1] = 1;
    refuses("section tokenizer: the padding after it is not zero");
}

ON_IMAGE(nothing_may_follow_the_last_section)
{
    section(SECTION_WEIGHTS)->size -= 64;
    refuses("bytes after the last section");
}

/* --- rules of the front sections ---------------------------------------------------------- */

/* Shortens a section; the bytes after it become padding. */
static void shrink(enum section_kind kind, uint64_t size)
{
    memset((uint8_t *)section_data(kind) + size, 0, section(kind)->size - size);
    section(kind)->size = size;
}

ON_IMAGE(front_sections_must_have_the_size_of_their_contents)
{
    shrink(SECTION_MODEL, 127);
    refuses("section model: wrong size");
    shrink(SECTION_INV_FREQ, 8);
    refuses("section inv_freq: its size does not match the model");
    section(SECTION_INV_FREQ)->size = 16;
    refuses("section inv_freq: its size does not match the model");
    shrink(SECTION_INV_FREQ, 11);
    refuses("section inv_freq: its size is not a whole number of elements");
    section(SECTION_STOP)->size = 13;
    refuses("section stop: its size is not a whole number of elements");
    shrink(SECTION_GENERATION, 60);
    refuses("section generation: its size is not a whole number of elements");
    shrink(SECTION_TENSORS, section(SECTION_TENSORS)->size - 1);
    refuses("section tensors: its size is not a whole number of elements");
    section(SECTION_TENSORS)->size -= 64;
    refuses("section digests: wrong offset or size");
    section(SECTION_DIGESTS)->size = 24;
    refuses("wrong number of chunk digests");
    section(SECTION_DIGESTS)->size = 17;
    refuses("section digests: its size is not a whole number of elements");
}

/* Makes a front section `delta` bytes (a multiple of 64) larger or smaller and moves the bytes
 * after it, so that all sections are valid again. */
static void resize(enum section_kind kind, int delta)
{
    uint64_t end = round_up(section(kind)->offset + section(kind)->size, BLOB_ALIGN);
    uint64_t rest = image.digests_offset + section(SECTION_DIGESTS)->size - end;
    memmove(image.bytes + end + delta, image.bytes + end, rest);
    if (delta > 0)
        memset(image.bytes + end, 0, (size_t)delta);
    else
        memset(image.bytes + end + delta + rest, 0, (size_t)-delta);
    section(kind)->size += (uint64_t)delta;
    for (enum section_kind after = kind + 1; after <= SECTION_DIGESTS; after++)
        section(after)->offset += (uint64_t)delta;
    image.digests_offset += (uint64_t)delta;
}

ON_IMAGE(resized_front_sections_are_refused_even_in_place)
{
    static const struct {
        enum section_kind kind;
        int delta;
        const char *part;
    } cases[] = {
        {SECTION_MODEL, 128, "section model: wrong size"},
        {SECTION_MODEL, -128, "section model: wrong size"},
        {SECTION_INV_FREQ, 64, "section inv_freq: its size does not match the model"},
        {SECTION_GENERATION, 64, "section generation: malformed generation defaults"},
        {SECTION_GENERATION, -64, "section generation: malformed generation defaults"},
        {SECTION_TENSORS, 64, "wrong number of tensors"},
        {SECTION_TENSORS, -64, "wrong number of tensors"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t digests_offset = image.digests_offset;
        resize(cases[i].kind, cases[i].delta);
        refuses(cases[i].part);
        image.digests_offset = digests_offset;
    }
    resize(SECTION_PROVENANCE, 64); /* this one may have any size */
    repair_digests();
    assert_int_equal(try_open(true, VERIFY_OFF), SMOL_OK);
}

ON_IMAGE(hyper_parameters_are_checked_at_open)
{
    struct blob_model *model = section_data(SECTION_MODEL);
    model->n_kv_heads = 2;
    refuses("n_heads is 3: not a multiple of n_kv_heads 2");
    model->n_kv_heads = 0;
    refuses("n_kv_heads is 0");
    model->dtype = 4;
    refuses("dtype is 4");
    model->query_period = 1;
    refuses("rotary_dim is 0");
    model->activation = ACTIVATION_GELU_TANH;
    refuses("activation is 1");
    model->attention_bias = BIAS_QKV;
    refuses("attention_bias is 2");
    model->logit_softcap = 1;
    refuses("rotary_dim is 0");
    smol_model_fill(model);
    refuses("section model: its fields do not match the blocks feature");
}

ON_IMAGE(inv_freq_must_be_between_0_and_1)
{
    static const float bad[] = {-1e-30f, 1.0000001f, INFINITY, NAN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ((float *)section_data(SECTION_INV_FREQ))[2] = bad[i];
        refuses("section inv_freq: out of range");
    }
}

ON_IMAGE(stop_ids_must_ascend_within_the_vocabulary)
{
    static const uint32_t bad[][3] = {{0, 0, 18}, {2, 1, 18}, {0, 2, 19}, {0, 2, NO_TOKEN}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memcpy(section_data(SECTION_STOP), bad[i], sizeof bad[i]);
        refuses("section stop: ids");
    }
}

ON_IMAGE(generation_defaults_must_be_what_they_say)
{
    struct blob_generation *g = section_data(SECTION_GENERATION);
    g->present |= 1 << 6;
    refuses("section generation: malformed generation defaults");
    g->present &= ~(uint32_t)GENERATION_TOP_K; /* absent, but not zero */
    refuses("section generation: malformed generation defaults");
    g->min_p = 0.5f;
    refuses("section generation: malformed generation defaults");
    g->present |= GENERATION_DO_SAMPLE;
    g->do_sample = 2;
    refuses("section generation: malformed generation defaults");
    g->temperature = NAN;
    refuses("section generation: malformed generation defaults");
    g->temperature = INFINITY;
    refuses("section generation: malformed generation defaults");
    g->temperature = -1;
    refuses("section generation: malformed generation defaults");
    g->reserved[35] = 1;
    refuses("section generation: malformed generation defaults");
}

ON_IMAGE(every_field_of_every_tensor_must_be_what_the_model_calls_for)
{
    size_t n = section(SECTION_TENSORS)->size / sizeof(struct blob_tensor);
    assert_int_equal(n, smol_tensor_count(&odd_model));
    struct tensor_key key = {.role = ROLE_EMBED};
    for (size_t i = 0; i < n; i++, smol_tensor_next(&odd_model, &key)) {
        char name[MAX_NAME], part[128];
        snprintf(part, sizeof part, "section tensors: tensor %s does not match the model",
                 smol_tensor_name(key, name));
        for (size_t byte = 0; byte < sizeof(struct blob_tensor); byte++) {
            ((struct blob_tensor *)section_data(SECTION_TENSORS))[i].reserved[0] = 0;
            ((uint8_t *)section_data(SECTION_TENSORS))[i * 64 + byte] ^= 0x40;
            repair_digests();
            complains(try_open(true, VERIFY_OFF), SMOL_ERROR_DAMAGED, part);
            ((uint8_t *)section_data(SECTION_TENSORS))[i * 64 + byte] ^= 0x40;
        }
    }
}

ON_IMAGE(a_model_of_another_size_does_not_fit_the_tensors)
{
    struct blob_model *model = section_data(SECTION_MODEL);
    model->n_layers = 3;
    refuses("wrong number of tensors");
    model->n_layers = 1 << 10;
    refuses("wrong number of tensors");
    model->mlp_bias = 0;
    refuses("wrong number of tensors");
    model->tied_embeddings = 1; /* the bytes of the output matrix have no tensor */
    refuses("tensor output does not match the model");
    model->vocab_size = 1 << 24;
    refuses("tensor embed does not match the model");
}

ON_IMAGE(the_tensors_must_fill_the_weights_section)
{
    image.size += 64;
    unmap_image();
    assert_int_equal(truncate(path, (off_t)image.size), 0);
    map_image();
    header()->file_size += 64;
    section(SECTION_WEIGHTS)->size += 64;
    refuses("the tensors do not fill the weights section");
}

ON_IMAGE(the_tokenizers_rules_are_checked)
{
    struct blob_tokenizer *t = section_data(SECTION_TOKENIZER);
    t->n_tokens = 20;
    refuses("more tokens than the model's vocabulary");
    t->max_probe = MERGE_MAX_PROBE + 1;
    refuses("max_probe");
    section(SECTION_TOKENIZER)->size = 63;
    refuses("convert again"); /* what is cut off is no padding, or the header is missing */
    section(SECTION_TOKENIZER)->size += 64;
    refuses("must end with its last table");
}

/* --- ranges ------------------------------------------------------------------------------- */

struct limits {
    size_t offset;
    uint32_t low, high;
};
#define LIMITS(field, low, high)                                                                   \
    {                                                                                              \
        offsetof(struct blob_model, field), low, high                                              \
    }

static bool accepts_value(size_t offset, uint32_t value)
{
    struct blob_model model = odd_model;
    model.n_kv_heads = 1;
    model.n_heads = 4096;
    model.bos_id = NO_TOKEN;
    memcpy((char *)&model + offset, &value, sizeof value);
    smol_status status = smol_model_check(&model, &error);
    if (status)
        assert_int_equal(status, SMOL_ERROR_DAMAGED);
    return !status;
}

TEST(every_hyper_parameter_has_its_range)
{
    static const struct limits limits[] = {
        LIMITS(family, 1, 1),
        LIMITS(n_layers, 1, 1024),
        LIMITS(hidden_size, 1, 1048576),
        LIMITS(intermediate_size, 1, 4194304),
        LIMITS(n_heads, 1, 4096),
        LIMITS(n_kv_heads, 1, 4096),
        LIMITS(head_dim, 2, 1024),
        LIMITS(vocab_size, 1, 16777216),
        LIMITS(context_length, 1, 16777216),
        LIMITS(tied_embeddings, 0, 1),
        LIMITS(attention_bias, 0, 1),
        LIMITS(mlp_bias, 0, 1),
        LIMITS(activation, 0, 0),
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const struct limits *l = &limits[i];
        assert_true(accepts_value(l->offset, l->low));
        assert_true(accepts_value(l->offset, l->high));
        assert_false(accepts_value(l->offset, l->low - 1)); /* 0 - 1 wraps around to the maximum */
        assert_false(accepts_value(l->offset, l->high + 1));
        assert_false(accepts_value(l->offset, 0x80000000u));
        assert_false(accepts_value(l->offset, UINT32_MAX));
    }
    assert_false(accepts_value(offsetof(struct blob_model, head_dim), 5));
    assert_true(accepts_value(offsetof(struct blob_model, bos_id), 18));
    assert_false(accepts_value(offsetof(struct blob_model, bos_id), 19));
    assert_true(accepts_value(offsetof(struct blob_model, dtype), DTYPE_BF16));
    assert_false(accepts_value(offsetof(struct blob_model, dtype), 0));
    assert_false(accepts_value(offsetof(struct blob_model, dtype), 4));
}

static bool accepts_model(const struct blob_model *model)
{
    smol_status status = smol_model_check(model, &error);
    if (status)
        assert_int_equal(status, SMOL_ERROR_DAMAGED);
    return !status;
}

TEST(fields_of_blocks_have_their_ranges)
{
    static const struct limits limits[] = {
        LIMITS(attention_bias, 0, 2), LIMITS(activation, 0, 2), LIMITS(sliding_window, 0, 1 << 24),
        LIMITS(n_rope_tables, 2, 2), /* the scale applies to both */
    };
    struct blob_model model = rich_model;
    assert_true(accepts_model(&model));
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        const struct limits *l = &limits[i];
        const uint32_t values[] = {l->low, l->high, l->low - 1, l->high + 1, UINT32_MAX};
        for (size_t j = 0; j < 5; j++) {
            memcpy((char *)&model + l->offset, &values[j], 4);
            assert_int_equal(accepts_model(&model), j < 2);
        }
        model = rich_model;
    }
    for (uint32_t blocks = 0; blocks < 16; blocks++) {
        model.blocks = blocks;
        assert_int_equal(accepts_model(&model), blocks < 12);
    }
    model = rich_model;
    for (uint32_t dim = 0; dim < 10; dim++) {
        model.rotary_dim = dim;
        assert_int_equal(accepts_model(&model), dim == 2 || dim == 4 || dim == 6);
    }
}

TEST(scales_and_caps_are_finite_and_not_negative)
{
    static const size_t places[] = {
        offsetof(struct blob_model, embedding_scale),   offsetof(struct blob_model, residual_scale),
        offsetof(struct blob_model, attention_scale),   offsetof(struct blob_model, logit_divisor),
        offsetof(struct blob_model, rope_scale),        offsetof(struct blob_model, rope_scale) + 4,
        offsetof(struct blob_model, attention_softcap), offsetof(struct blob_model, logit_softcap)};
    enum { CAPS = 6 }; /* these may be 0 */
    static const float bad[] = {-0.0f, -1, INFINITY, NAN}, good[] = {1e-45f, 1, 3e38f};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct blob_model model = rich_model;
        float *field = (float *)((char *)&model + places[i]);
        for (size_t j = 0; j < 4; j++) {
            *field = bad[j];
            assert_false(accepts_model(&model));
        }
        for (size_t j = 0; j < 3; j++) {
            *field = good[j];
            assert_true(accepts_model(&model));
        }
        *field = 0;
        assert_int_equal(accepts_model(&model), i >= CAPS);
    }
    struct blob_model model = rich_model;
    model.n_rope_tables = 1;
    assert_false(accepts_model(&model)); /* a scale without a table */
    model.rope_scale[1] = 0;
    assert_true(accepts_model(&model));
}

ON_RICH_IMAGE(layers_must_fit_the_model)
{
    uint8_t *layers = section_data(SECTION_LAYERS);
    struct blob_model *model = section_data(SECTION_MODEL);
    layers[1] = 8;
    refuses("section layers: layer 1 has invalid bits 8");
    layers[0] = LAYER_NO_ROTATION | LAYER_SECOND_TABLE;
    refuses("section layers: layer 0 has invalid bits 6");
    layers[0] = LAYER_SECOND_TABLE;
    refuses("sliding_window is 2, but no layer is windowed");
    model->sliding_window = 0;
    refuses("sliding_window is 0, but a layer is windowed");
    layers[0] = LAYER_WINDOWED;
    refuses("n_rope_tables is 2, but no layer uses a second");
    model->n_rope_tables = 1;
    model->rope_scale[1] = 0;
    refuses("n_rope_tables is 1, but a layer uses a second");
    shrink(SECTION_LAYERS, 1);
    refuses("section layers: its size does not match n_layers");
    section(SECTION_LAYERS)->size = 3;
    refuses("section layers: its size does not match n_layers");
    header()->required_features = 0;
    refuses("wrong number of sections");
}

ON_RICH_IMAGE(a_feature_must_be_needed)
{
    struct blob_model *model = section_data(SECTION_MODEL);
    const size_t start = offsetof(struct blob_model, blocks);
    memset(section_data(SECTION_LAYERS), 0, 2);
    model->activation = ACTIVATION_SILU;
    model->attention_bias = BIAS_QKVO;
    memset((char *)model + start, 0, MODEL_SECTION_SIZE - start);
    smol_model_fill(model);
    refuses("section model: nothing in it needs the blocks feature");
    memset(section_data(SECTION_LAYERS), 0, 2);
    model->activation = ACTIVATION_SILU;
    model->attention_bias = BIAS_QKVO;
    memset((char *)model + start, 0, MODEL_SECTION_SIZE - start);
    refuses("section model: its fields do not match the blocks feature");
}

/* Returns the table entry of a role in layer 0. */
static struct blob_tensor *entry_of(enum tensor_role role)
{
    struct blob_tensor *entry = section_data(SECTION_TENSORS);
    while (entry->role != role)
        entry++;
    return entry;
}

ON_MIXED_IMAGE(a_mix_is_read_as_it_was_written)
{
    struct blob blob;
    char text[MAX_MIX];
    assert_int_equal(smol_blob_open(path, true, VERIFY_AT_OPEN, &blob, &error), SMOL_OK);
    assert_int_equal(blob.header->required_features, FEATURE_MIXED);
    assert_int_equal(blob.header->minor, 2);
    assert_int_equal(blob.n_levels, 3);
    for (size_t i = 0; i < blob.n_tensors; i++) {
        const struct blob_tensor *t = &blob.tensors[i];
        struct storage want = mixed_roles[t->role];
        if (t->layout == LAYOUT_VECTOR)
            want = (struct storage){DTYPE_F32, 0};
        assert_int_equal(t->dtype, want.dtype);
        assert_int_equal(t->levels, want.levels);
        assert_memory_equal(blob.file.data + t->offset, tensor_data(t), t->size);
    }
    assert_int_equal(smol_blob_dtype(&blob), DTYPE_INT4);
    assert_string_equal(smol_blob_dtypes(&blob, text),
                        "int4 (embedding int6, others int8, others int6, others int5)");
    smol_blob_close(&blob);
}

ON_MIXED_IMAGE(the_storage_of_a_matrix_is_checked)
{
    static const uint32_t bad_dtypes[] = {0, DTYPE_F32, DTYPE_BF16, 7, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad_dtypes / sizeof bad_dtypes[0]; i++) {
        entry_of(ROLE_ATTN_Q)->dtype = bad_dtypes[i];
        refuses("tensor layers.0.attn_q has a dtype that is not allowed");
    }
    entry_of(ROLE_ATTN_Q)->dtype = DTYPE_INT5;
    refuses("tensor layers.0.attn_q has levels that are malformed");
    entry_of(ROLE_FINAL_NORM)->levels = 1;
    refuses("tensor final_norm does not match the model");
    entry_of(ROLE_ATTN_K)->levels = 1;
    refuses("tensor layers.0.attn_k has levels, but int8 uses none");
    entry_of(ROLE_EMBED)->levels = 1;
    refuses("tensor embed has levels that are missing or not next in order");
    entry_of(ROLE_OUTPUT)->levels = 3;
    refuses("tensor output has levels that are missing or not next in order");
    entry_of(ROLE_ATTN_O)->reserved[0] = 1;
    refuses("tensor layers.0.attn_o does not match the model");
}

ON_MIXED_IMAGE(a_mix_must_be_of_an_int8_model_and_needed)
{
    ((struct blob_model *)section_data(SECTION_MODEL))->dtype = DTYPE_BF16;
    refuses("section model: its dtype does not match the mixed feature");
    header()->required_features = 0;
    refuses("wrong number of sections");
    struct blob_contents contents = mixed_contents_of(&odd_model);
    for (size_t i = 0; i < smol_tensor_count(&odd_model); i++)
        if (contents.mix.storage[i].dtype == DTYPE_INT5)
            contents.mix.storage[i] = (struct storage){DTYPE_INT8, 0};
    assert_int_equal(write_blob(path, true, &contents, &error), SMOL_OK);
    complains(try_open(true, VERIFY_OFF), SMOL_ERROR_DAMAGED,
              "section levels: not every table is used");
    for (size_t i = 0; i < smol_tensor_count(&odd_model); i++)
        contents.mix.storage[i] = (struct storage){DTYPE_INT8, 0};
    contents.mix.n_levels = 0;
    assert_int_equal(write_blob(path, true, &contents, &error), SMOL_OK);
    complains(try_open(true, VERIFY_OFF), SMOL_ERROR_DAMAGED,
              "section levels: no matrix needs the mixed feature");
}

ON_MIXED_IMAGE(levels_ascend_within_127_and_zeros_follow)
{
    struct blob_levels *levels = section_data(SECTION_LEVELS);
    levels[1].values[16] = 105;
    refuses("tensor layers.0.attn_q has levels that are malformed");
    levels[1].values[63] = 1;
    refuses("tensor layers.0.attn_q has levels that are malformed");
    levels[1].values[15] = levels[1].values[14];
    refuses("tensor layers.0.attn_q has levels that are malformed");
    levels[1].values[0] = -128;
    refuses("tensor layers.0.attn_q has levels that are malformed");
    levels[0].values[63] = levels[0].values[62];
    refuses("tensor embed has levels that are malformed");
    levels[1].values[15] = 127; /* also good */
    repair_digests();
    assert_int_equal(try_open(true, VERIFY_AT_OPEN), SMOL_OK);
    restore();
}

TEST(epsilon_and_theta_have_ranges_that_exclude_nan)
{
    static const float bad_epsilon[] = {-1e-9f, 1, INFINITY, NAN};
    static const double bad_theta[] = {0.999, 0, -1, 1.0001e30, INFINITY, NAN};
    for (size_t i = 0; i < sizeof bad_epsilon / sizeof bad_epsilon[0]; i++) {
        struct blob_model model = odd_model;
        model.rms_norm_eps = bad_epsilon[i];
        assert_int_equal(smol_model_check(&model, &error), SMOL_ERROR_DAMAGED);
        assert_non_null(strstr(error.message, "rms_norm_eps"));
    }
    for (size_t i = 0; i < sizeof bad_theta / sizeof bad_theta[0]; i++) {
        struct blob_model model = odd_model;
        model.rope_theta = bad_theta[i];
        assert_int_equal(smol_model_check(&model, &error), SMOL_ERROR_DAMAGED);
        assert_non_null(strstr(error.message, "rope_theta"));
    }
    struct blob_model model = odd_model;
    model.rms_norm_eps = 0, model.rope_theta = 1;
    assert_int_equal(smol_model_check(&model, &error), SMOL_OK);
    model.rope_theta = 1e30;
    assert_int_equal(smol_model_check(&model, &error), SMOL_OK);
}

/* The largest model that passes the check: many products exceed 2^32. */
static struct blob_model largest_model(enum blob_dtype dtype)
{
    struct blob_model model = odd_model;
    model.dtype = dtype;
    model.n_layers = 1 << 10;
    model.hidden_size = 1 << 20;
    model.intermediate_size = 1 << 22;
    model.n_heads = model.n_kv_heads = 1 << 12;
    model.head_dim = 1 << 10;
    model.vocab_size = model.context_length = 1 << 24;
    return model;
}

TEST(no_size_overflows_even_for_the_largest_model)
{
    static const enum blob_dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_INT8};
    for (size_t i = 0; i < 3; i++) {
        struct blob_model model = largest_model(dtypes[i]);
        struct tensor_key key = {.role = ROLE_EMBED};
        unsigned __int128 total = 0;
        size_t n = 0;
        assert_int_equal(smol_model_check(&model, &error), SMOL_OK);
        do {
            struct blob_tensor t = smol_tensor_layout(&model, key, NULL);
            unsigned __int128 elements = (unsigned __int128)t.rows * t.cols;
            unsigned __int128 bytes = t.dtype == DTYPE_F32    ? elements * 4
                                      : t.dtype == DTYPE_BF16 ? elements * 2
                                                              : elements / 32 * 34;
            assert_true(t.size == bytes); /* all sizes are multiples of the tile size */
            total += t.size;
            n++;
        } while (smol_tensor_next(&model, &key));
        assert_int_equal(n, smol_tensor_count(&model));
        assert_true(total < (unsigned __int128)1 << 63);
    }
}

ON_IMAGE(the_largest_model_in_a_tiny_file_is_refused)
{
    struct blob_model largest = largest_model(DTYPE_F32);
    memcpy(section_data(SECTION_MODEL), &largest, MODEL_SECTION_SIZE);
    refuses("section inv_freq: its size does not match the model");
    largest = largest_model(DTYPE_INT8);
    largest.head_dim = 6;
    largest.n_layers = 2;
    memcpy(section_data(SECTION_MODEL), &largest, MODEL_SECTION_SIZE);
    refuses("does not match the model");
}

/* --- faults that only verification finds -------------------------------------------------- */

static struct blob_tensor *tensor(enum tensor_role role)
{
    struct blob_tensor *t = section_data(SECTION_TENSORS);
    while (t->role != role)
        t++;
    return t;
}

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

/* A model whose embedding and output take several chunks each. */
static struct blob_model wide_model(void)
{
    struct blob_model model = odd_model;
    model.dtype = DTYPE_F32;
    model.hidden_size = 33;
    model.vocab_size = 900;
    return model;
}

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

/* --- the writer --------------------------------------------------------------------------- */

static bool file_is(const char *text)
{
    char bytes[16] = "";
    FILE *file = fopen(path, "rb");
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return n == strlen(text) && memcmp(bytes, text, n) == 0;
}

ON_IMAGE(the_same_contents_give_the_same_bytes)
{
    make_blob(&odd_model); /* again, while the first one is mapped */
    struct file_view view;
    assert_int_equal(smol_file_read(path, SIZE_MAX, &view, &error), SMOL_OK);
    assert_int_equal(view.size, image.size);
    assert_memory_equal(view.data, image.pristine, image.size);
    smol_file_close(&view);
}

ON_IMAGE(the_pieces_that_data_comes_in_do_not_matter)
{
    const struct blob_contents contents = contents_of(&odd_model);
    struct blob_writer *writer;
    struct output output;
    const uint8_t *data = image.pristine + section(SECTION_WEIGHTS)->offset;
    size_t size = section(SECTION_WEIGHTS)->size;
    assert_int_equal(smol_output_open(path, true, &output, &error), SMOL_OK);
    assert_int_equal(smol_writer_open(&output, &contents, &writer, &error), SMOL_OK);
    for (size_t at = 0, n = 1; at < size; at += n, n = n * 3 % 1013 + 1) {
        n = n < size - at ? n : size - at;
        assert_int_equal(smol_writer_append(writer, data + at, n, &error), SMOL_OK);
    }
    assert_int_equal(smol_writer_finish(writer, &error), SMOL_OK);
    check_round_trip(&odd_model, true);
}

IN_FOLDER(blobs_larger_than_the_writers_buffer_are_whole)
{
    struct blob_model model = wide_model();
    model.vocab_size = 900;
    model.intermediate_size = 900; /* about 1.2 MiB */
    make_blob(&model);
    check_round_trip(&model, true);
}

IN_FOLDER(an_existing_file_is_kept_without_force)
{
    const struct blob_contents contents = contents_of(&odd_model);
    temporary_write_text(&temporary, "tiny.smol", "old");
    complains(write_blob(path, false, &contents, &error), SMOL_ERROR_FILE, "exists already");
    assert_true(file_is("old"));
    assert_int_equal(write_blob(path, true, &contents, &error), SMOL_OK);
    check_round_trip(&odd_model, true);
    assert_int_equal(temporary_count(&temporary), 1);
}

IN_FOLDER(giving_up_leaves_nothing_behind)
{
    const struct blob_contents contents = contents_of(&odd_model);
    struct blob_writer *writer;
    struct output output;
    assert_int_equal(smol_output_open(path, false, &output, &error), SMOL_OK);
    assert_int_equal(smol_writer_open(&output, &contents, &writer, &error), SMOL_OK);
    assert_int_equal(append_tensors(writer, &contents, &error), SMOL_OK);
    smol_writer_abort(writer);
    assert_int_equal(temporary_count(&temporary), 0);
    smol_writer_abort(NULL);
}

/* Writes a blob while the size of files is limited to `limit` bytes. */
static smol_status write_within(rlim_t limit, const struct blob_contents *contents)
{
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit small = {limit, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    smol_status status = write_blob(path, true, contents, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    return status;
}

IN_FOLDER(a_failing_write_keeps_the_old_file_and_leaves_nothing_behind)
{
    struct blob_model model = wide_model(); /* larger than the writer's buffer of 1 MiB */
    model.intermediate_size = 1800;
    const struct blob_contents contents = contents_of(&model);
    make_blob(&model);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_true(info.st_size > 1 << 20);
    for (rlim_t limit = 0; limit < (rlim_t)info.st_size; limit += 100000) {
        temporary_write_text(&temporary, "tiny.smol", "old");
        complains(write_within(limit, &contents), SMOL_ERROR_FILE, "cannot write (File too large)");
        assert_true(file_is("old"));
        assert_int_equal(temporary_count(&temporary), 1);
    }
}

/* A failure while data is written must not be forgotten when the disk has space again. */
IN_FOLDER(appending_reports_a_failing_write_itself)
{
    static const uint8_t data[3 << 20];
    struct blob_model model = wide_model();
    model.vocab_size = 1 << 16; /* 17 MiB, of which these are the first */
    const struct blob_contents contents = contents_of(&model);
    struct blob_writer *writer;
    struct output output;
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit small = {100000, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(smol_output_open(path, true, &output, &error), SMOL_OK);
    assert_int_equal(smol_writer_open(&output, &contents, &writer, &error), SMOL_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    smol_status status = smol_writer_append(writer, data, sizeof data, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    complains(status, SMOL_ERROR_FILE, "cannot write");
    smol_writer_abort(writer);
    assert_int_equal(temporary_count(&temporary), 0);
}

IN_FOLDER(a_folder_that_is_missing_is_reported)
{
    const struct blob_contents contents = contents_of(&odd_model);
    char missing[256];
    snprintf(missing, sizeof missing, "%s/no/tiny.smol", temporary.folder);
    complains(write_blob(missing, false, &contents, &error), SMOL_ERROR_FILE, "cannot create");
}

IN_FOLDER(the_umask_is_honoured)
{
    struct stat info;
    mode_t old = umask(027);
    make_blob(&odd_model);
    umask(old);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0640);
}

int main(void)
{
    return run_all_tests("blob", NULL, NULL);
}
