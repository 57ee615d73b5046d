/* Tests of the assignment of a checkpoint's tensors to the model's roles: every tensor that does
 * not fit is refused by name, and the data decides whether the output is tied. */
#include "convert/checkpoint/checkpoint.h"
#include "tests/unit/temporary.h"
#include "tests/unit/unit.h"

static struct temporary temporary;
static smol_error error;

static const struct blob_model small_model = {
    .family = FAMILY_LLAMA,
    .dtype = DTYPE_F32,
    .n_layers = 2,
    .hidden_size = 6,
    .intermediate_size = 5,
    .n_heads = 4,
    .n_kv_heads = 2,
    .head_dim = 2,
    .vocab_size = 7,
    .context_length = 16,
    .bos_id = NO_TOKEN,
    .rms_norm_eps = 1e-5f,
    .rope_theta = 10000,
};

/* --- families --------------------------------------------------------------------------------- */

TEST(each_name_of_a_family_is_that_of_no_other)
{
    const struct family *family;
    for (size_t i = 0; (family = smol_family_at(i)); i++) {
        const char *const names[] = {family->architecture, family->body, family->pretrained,
                                     family->scorer};
        for (size_t j = 0; j < sizeof names / sizeof names[0]; j++)
            assert_true(!names[j] || smol_family_by_architecture(names[j]) == family);
        assert_ptr_equal(smol_family_by_model_type(family->model_type), family);
    }
}

/* --- a checkpoint made by a test ------------------------------------------------------------- */

enum { MAX_ENTRIES = 64, MAX_BYTES = 1 << 13 };

struct entry {
    char name[80], shape[32];
    const char *dtype;
    size_t n_elements;
    unsigned char fill; /* every byte of its data */
};

static struct {
    struct blob_model model;
    struct entry entries[MAX_ENTRIES];
    size_t n_entries;
    struct safetensors reader;
    const struct safetensors_tensor *sources[MAX_ENTRIES];
} c;

static struct entry *add(const char *name, const char *shape, size_t n_elements)
{
    struct entry *entry = &c.entries[c.n_entries++];
    assert_true(c.n_entries <= MAX_ENTRIES);
    snprintf(entry->name, sizeof entry->name, "%s", name);
    snprintf(entry->shape, sizeof entry->shape, "%s", shape);
    entry->dtype = "F32";
    entry->n_elements = n_elements;
    entry->fill = (unsigned char)c.n_entries;
    return entry;
}

static void add_in_layer(unsigned layer, const char *name, const char *shape, size_t n_elements)
{
    char full[80];
    snprintf(full, sizeof full, "model.layers.%u.%s", layer, name);
    add(full, shape, n_elements);
}

static void add_layer(unsigned layer)
{
    add_in_layer(layer, "input_layernorm.weight", "[6]", 6);
    add_in_layer(layer, "self_attn.q_proj.weight", "[8,6]", 48);
    add_in_layer(layer, "self_attn.k_proj.weight", "[4,6]", 24);
    add_in_layer(layer, "self_attn.v_proj.weight", "[4,6]", 24);
    add_in_layer(layer, "self_attn.o_proj.weight", "[6,8]", 48);
    add_in_layer(layer, "post_attention_layernorm.weight", "[6]", 6);
    add_in_layer(layer, "mlp.gate_proj.weight", "[5,6]", 30);
    add_in_layer(layer, "mlp.up_proj.weight", "[5,6]", 30);
    add_in_layer(layer, "mlp.down_proj.weight", "[6,5]", 30);
}

static void add_biases(unsigned layer)
{
    add_in_layer(layer, "self_attn.q_proj.bias", "[8]", 8);
    add_in_layer(layer, "self_attn.k_proj.bias", "[4]", 4);
    add_in_layer(layer, "self_attn.v_proj.bias", "[4]", 4);
    add_in_layer(layer, "self_attn.o_proj.bias", "[6]", 6);
    add_in_layer(layer, "mlp.gate_proj.bias", "[5]", 5);
    add_in_layer(layer, "mlp.up_proj.bias", "[5]", 5);
    add_in_layer(layer, "mlp.down_proj.bias", "[6]", 6);
}

/* Makes a complete, untied checkpoint, which tests then modify. */
static int set_up(void **state)
{
    (void)state;
    temporary_make(&temporary);
    memset(&c, 0, sizeof c);
    c.model = small_model;
    add("lm_head.weight", "[7,6]", 42); /* not in the order of the roles */
    add("model.norm.weight", "[6]", 6);
    for (unsigned layer = 0; layer < c.model.n_layers; layer++)
        add_layer(layer);
    add("model.embed_tokens.weight", "[7,6]", 42);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    smol_safetensors_close(&c.reader);
    temporary_remove(&temporary);
    return 0;
}

#define IN_FOLDER(name) TEST_WITH(name, set_up, tear_down)

static struct entry *find(const char *name)
{
    for (size_t i = 0; i < c.n_entries; i++)
        if (strcmp(c.entries[i].name, name) == 0)
            return &c.entries[i];
    fail_msg("no entry %s", name);
    return NULL;
}

static void drop(const char *name)
{
    struct entry *entry = find(name);
    *entry = c.entries[--c.n_entries];
}

static size_t element_size(const struct entry *entry)
{
    static const struct {
        const char *name;
        size_t size;
    } sizes[] = {{"F64", 8},  {"I64", 8}, {"F32", 4}, {"I32", 4},
                 {"BF16", 2}, {"F16", 2}, {"I8", 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (strcmp(entry->dtype, sizes[i].name) == 0)
            return sizes[i].size;
    abort();
}

/* Writes the entries as a safetensors file and maps them. */
static smol_status map(void)
{
    static char file[8 + 2 * MAX_BYTES];
    size_t header = 8, data = 0;
    header += (size_t)sprintf(file + header, "{");
    for (size_t i = 0; i < c.n_entries; i++) {
        const struct entry *entry = &c.entries[i];
        size_t size = entry->n_elements * element_size(entry);
        header += (size_t)sprintf(
            file + header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}",
            i ? "," : "", entry->name, entry->dtype, entry->shape, data, data + size);
        data += size;
    }
    header += (size_t)sprintf(file + header, "}");
    uint64_t length = header - 8;
    memcpy(file, &length, 8);
    for (size_t i = 0; i < c.n_entries; i++) {
        size_t size = c.entries[i].n_elements * element_size(&c.entries[i]);
        memset(file + header, c.entries[i].fill, size);
        header += size;
    }
    assert_true(header <= sizeof file);
    smol_safetensors_close(&c.reader);
    if (smol_safetensors_open(temporary_write(&temporary, "model.safetensors", file, header),
                              &c.reader, &error))
        fail_msg("%s", error.message);
    return smol_checkpoint_map(&c.reader, smol_family_of(&c.model, false), &c.model, c.sources,
                               &error);
}

static void maps(void)
{
    if (map())
        fail_msg("refused: %s", error.message);
}

/* Expects a message that contains the file, `name` and `part`. */
static void refuses(smol_status status, const char *name, const char *part)
{
    assert_int_equal(map(), status);
    assert_int_equal(error.status, status);
    assert_non_null(strstr(error.message, "/model.safetensors: "));
    if (!strstr(error.message, name) || !strstr(error.message, part))
        fail_msg("no \"%s\" or no \"%s\" in: %s", name, part, error.message);
}

/* --- checkpoints that fit -------------------------------------------------------------------- */

static const struct safetensors_tensor *source_of(enum tensor_role role, uint32_t layer)
{
    struct tensor_key key = {.role = ROLE_EMBED};
    size_t i = 0;
    while (key.role != role || key.layer != layer) {
        assert_true(smol_tensor_next(&c.model, &key));
        i++;
    }
    return c.sources[i];
}

static void is_source(enum tensor_role role, uint32_t layer, const char *name)
{
    assert_string_equal(source_of(role, layer)->name, name);
}

IN_FOLDER(every_role_finds_its_tensor)
{
    c.model.attention_bias = c.model.mlp_bias = 1;
    add_biases(0);
    add_biases(1);
    maps();
    is_source(ROLE_EMBED, 0, "model.embed_tokens.weight");
    is_source(ROLE_ATTN_NORM, 0, "model.layers.0.input_layernorm.weight");
    is_source(ROLE_ATTN_Q, 1, "model.layers.1.self_attn.q_proj.weight");
    is_source(ROLE_ATTN_K, 0, "model.layers.0.self_attn.k_proj.weight");
    is_source(ROLE_ATTN_V, 1, "model.layers.1.self_attn.v_proj.weight");
    is_source(ROLE_ATTN_O, 0, "model.layers.0.self_attn.o_proj.weight");
    is_source(ROLE_ATTN_Q_BIAS, 1, "model.layers.1.self_attn.q_proj.bias");
    is_source(ROLE_ATTN_K_BIAS, 0, "model.layers.0.self_attn.k_proj.bias");
    is_source(ROLE_ATTN_V_BIAS, 1, "model.layers.1.self_attn.v_proj.bias");
    is_source(ROLE_ATTN_O_BIAS, 0, "model.layers.0.self_attn.o_proj.bias");
    is_source(ROLE_MLP_NORM, 1, "model.layers.1.post_attention_layernorm.weight");
    is_source(ROLE_MLP_GATE, 0, "model.layers.0.mlp.gate_proj.weight");
    is_source(ROLE_MLP_UP, 1, "model.layers.1.mlp.up_proj.weight");
    is_source(ROLE_MLP_DOWN, 0, "model.layers.0.mlp.down_proj.weight");
    is_source(ROLE_MLP_GATE_BIAS, 1, "model.layers.1.mlp.gate_proj.bias");
    is_source(ROLE_MLP_UP_BIAS, 0, "model.layers.0.mlp.up_proj.bias");
    is_source(ROLE_MLP_DOWN_BIAS, 1, "model.layers.1.mlp.down_proj.bias");
    is_source(ROLE_FINAL_NORM, 0, "model.norm.weight");
    is_source(ROLE_OUTPUT, 0, "lm_head.weight");
    assert_int_equal(c.model.tied_embeddings, 0);
}

IN_FOLDER(the_three_float_types_may_be_mixed)
{
    find("model.norm.weight")->dtype = "BF16";
    find("model.embed_tokens.weight")->dtype = "F16";
    maps();
    assert_int_equal(source_of(ROLE_FINAL_NORM, 0)->dtype, ST_BF16);
}

IN_FOLDER(rope_buffers_of_old_checkpoints_are_skipped)
{
    add("model.layers.0.self_attn.rotary_emb.inv_freq", "[1]", 1);
    add("model.rotary_emb.inv_freq", "[1]", 1)->dtype = "I64";
    maps();
}

/* --- checkpoints that do not fit ------------------------------------------------------------- */

IN_FOLDER(every_missing_tensor_is_named)
{
    c.model.attention_bias = c.model.mlp_bias = 1;
    add_biases(0);
    add_biases(1);
    for (size_t i = 0; i < c.n_entries; i++) {
        struct entry entry = c.entries[i], last = c.entries[c.n_entries - 1];
        drop(entry.name);
        refuses(SMOL_ERROR_DAMAGED, entry.name, "is missing");
        c.entries[i] = entry;
        c.entries[c.n_entries++] = last;
    }
    maps();
}

IN_FOLDER(tensors_that_the_model_does_not_have_are_named)
{
    add("model.layers.0.self_attn.q_norm.weight", "[6]", 6);
    refuses(SMOL_ERROR_DAMAGED, "model.layers.0.self_attn.q_norm.weight",
            "is not part of the model");
}

IN_FOLDER(weights_that_need_scales_are_named)
{
    static const char *const names[] = {"q_proj.weight_scale_inv", "q_proj.weight_scale",
                                        "q_proj.input_scale"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char name[80];
        snprintf(name, sizeof name, "model.layers.0.self_attn.%s", names[i]);
        add(name, "[1]", 1);
        refuses(SMOL_ERROR_UNSUPPORTED, name, "scales");
        drop(name);
    }
}

IN_FOLDER(a_layer_too_many_is_named)
{
    add_layer(2);
    refuses(SMOL_ERROR_DAMAGED, "model.layers.2.", "is not part of the model");
}

IN_FOLDER(biases_that_the_configuration_denies_are_named)
{
    add("model.layers.1.mlp.up_proj.bias", "[5]", 5);
    refuses(SMOL_ERROR_DAMAGED, "model.layers.1.mlp.up_proj.bias", "is not part of the model");
}

IN_FOLDER(tensors_of_another_shape_are_named_with_both_shapes)
{
    static const struct {
        const char *name, *shape, *found, *expected;
        size_t n_elements;
    } cases[] = {
        {"model.layers.1.mlp.down_proj.weight", "[5,6]", "[5, 6]", "[6, 5]", 30},
        {"model.layers.0.self_attn.k_proj.weight", "[8,6]", "[8, 6]", "[4, 6]", 48},
        {"model.layers.0.self_attn.v_proj.weight", "[24]", "[24]", "[4, 6]", 24},
        {"model.layers.0.mlp.up_proj.weight", "[5,2,3]", "[5, 2, 3]", "[5, 6]", 30},
        {"model.layers.0.mlp.gate_proj.weight", "[]", "shape []", "[5, 6]", 1},
        {"model.norm.weight", "[1,6]", "[1, 6]", "[6]", 6},
        {"model.norm.weight", "[7]", "[7]", "[6]", 7},
        {"lm_head.weight", "[8,6]", "[8, 6]", "[7, 6]", 48},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct entry *entry = find(cases[i].name), saved = *entry;
        strcpy(entry->shape, cases[i].shape);
        entry->n_elements = cases[i].n_elements;
        refuses(SMOL_ERROR_DAMAGED, cases[i].name, cases[i].expected);
        refuses(SMOL_ERROR_DAMAGED, cases[i].name, cases[i].found);
        *entry = saved;
    }
}

IN_FOLDER(tensors_that_are_no_floats_are_named_with_their_type)
{
    static const char *const dtypes[] = {"I8", "I32", "I64", "F64"};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        find("model.layers.1.self_attn.o_proj.weight")->dtype = dtypes[i];
        refuses(SMOL_ERROR_UNSUPPORTED, "model.layers.1.self_attn.o_proj.weight", dtypes[i]);
    }
}

/* --- the head -------------------------------------------------------------------------------- */

IN_FOLDER(a_tied_head_may_be_absent)
{
    c.model.tied_embeddings = 1;
    drop("lm_head.weight");
    maps();
    assert_null(source_of(ROLE_OUTPUT, 0));
    assert_int_equal(c.model.tied_embeddings, 1);
}

IN_FOLDER(an_untied_head_may_not_be_absent)
{
    drop("lm_head.weight");
    refuses(SMOL_ERROR_DAMAGED, "lm_head.weight", "is missing");
}

IN_FOLDER(a_head_that_equals_the_embedding_is_stored_once)
{
    find("lm_head.weight")->fill = find("model.embed_tokens.weight")->fill;
    for (uint32_t tied = 0; tied < 2; tied++) { /* independent of the configuration */
        c.model.tied_embeddings = tied;
        maps();
        assert_int_equal(c.model.tied_embeddings, 1);
        assert_null(source_of(ROLE_OUTPUT, 0));
    }
}

IN_FOLDER(a_head_that_differs_is_not_tied_whatever_the_configuration_says)
{
    for (uint32_t tied = 0; tied < 2; tied++) {
        c.model.tied_embeddings = tied;
        maps();
        assert_int_equal(c.model.tied_embeddings, 0);
        is_source(ROLE_OUTPUT, 0, "lm_head.weight");
    }
}

IN_FOLDER(a_head_of_another_type_is_not_tied)
{
    struct entry *head = find("lm_head.weight");
    head->fill = find("model.embed_tokens.weight")->fill;
    head->dtype = "BF16";
    c.model.tied_embeddings = 1;
    maps();
    assert_int_equal(c.model.tied_embeddings, 0);
}

int main(void)
{
    return run_all_tests("checkpoint", NULL, NULL);
}
