/* Tests of blobs: the reader returns what the writer wrote, and refuses every violation of a rule
 * of FORMAT.md for the header and the sections, even if the digests are correct. */
#include "common/checked.h"
#include "tests/unit/blob_image.h"
#include "tests/unit/sanitized.h"

#define STRIDE (samples_only() ? 61 : 1)

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
    header()->required_features = 1 << 30;
    header()->n_sections = 10;
    refuses_with(SMOL_ERROR_UNSUPPORTED, "needs features 0x40000000");
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

int main(void)
{
    return run_all_tests("blob", NULL, NULL);
}
