/* Blobs from inputs, see build.h. Laid out here once more, and not by the writer: what the two do
 * not agree about, the reader will notice. */
#include <math.h>

#include "common/checked.h"
#include "common/hash.h"
#include "convert/weights/tile.h"
#include "format/layout.h"
#include "format/model.h"
#include "format/reader.h"
#include "format/sections.h"
#include "tests/fuzz/build.h"

enum {
    MAX_LAYERS = 3,
    MAX_COLS = 256,
    MAX_STOP = 8,
    DAMAGE_SIZE = 8,
    MAX_RECIPE = 1024,
    FIRST = 1024, /* where most of what is checked lies */
};

struct contents {
    struct blob_model model;
    struct blob_generation generation;
    uint64_t features;
    struct built text; /* a section, for FEATURE_TEXT */
    float inv_freq[MAX_HEAD_DIM];
    uint8_t layers[MAX_LAYERS];
    uint32_t stop[MAX_STOP];
    uint8_t provenance[256];
    struct blob_levels levels[3];
    struct blob_tensor tensors[128];
    size_t n_tensors;
    uint64_t weights_size;
};

/* A file that grows section by section. */
struct plan {
    struct blob_header header;
    struct blob_section sections[MAX_SECTIONS];
    unsigned n, n_due; /* that are there, and that there will be */
};

void fuzz_damage(struct fuzz_input *in, unsigned n, uint8_t *data, size_t size)
{
    while (n-- > 0 && size > 0) {
        struct {
            uint32_t place;
            uint8_t length;
            uint8_t bytes[DAMAGE_SIZE];
        } damage;
        fuzz_take(in, &damage.place, sizeof damage.place);
        damage.length = fuzz_take_byte(in) % (DAMAGE_SIZE + 1);
        fuzz_take(in, damage.bytes, damage.length);
        size_t start = size < FIRST ? size : FIRST;
        size_t place = damage.place & 1 ? (damage.place >> 1) % start : damage.place % size;
        size_t length = damage.length < size - place ? damage.length : size - place;
        memcpy(data + place, damage.bytes, length);
    }
}

/* --- contents ------------------------------------------------------------------------------- */

/* Returns whether the blob has FEATURE_MIXED. */
static bool is_mixed(const struct blob_recipe *r)
{
    return r->dtype >= 128;
}

static struct blob_model make_model(const struct blob_recipe *r)
{
    uint32_t n_kv_heads = 1 + r->n_kv_heads % 3, vocab_size = 1 + r->vocab_size % 255;
    return (struct blob_model){
        .family = FAMILY_LLAMA,
        .dtype = is_mixed(r) ? DTYPE_INT8 : DTYPE_F32 + r->dtype % 3,
        .n_layers = 1 + r->n_layers % MAX_LAYERS,
        .hidden_size = 1 + r->hidden_size % 48,
        .intermediate_size = 1 + r->intermediate_size % 80,
        .n_heads = n_kv_heads * (1 + r->heads_per_kv_head % 3),
        .n_kv_heads = n_kv_heads,
        .head_dim = 2 + 2 * (r->head_dim % 12),
        .vocab_size = vocab_size,
        .context_length = 1 + r->context_length,
        .bos_id = r->switches & BLOB_BOS ? 0 : NO_TOKEN,
        .tied_embeddings = (r->switches & BLOB_TIED) != 0,
        .rms_norm_eps = 1e-5f,
        .attention_bias = (r->switches & BLOB_ATTENTION_BIAS) != 0,
        .mlp_bias = (r->switches & BLOB_MLP_BIAS) != 0,
        .rope_theta = 10000,
    };
}

/* Some of FEATURE_COMPONENTS, as many as go together. */
static void make_components(uint8_t choice, struct contents *c)
{
    struct blob_model *m = &c->model;
    m->blocks |= choice & 1 ? BLOCK_NO_GATE : 0;
    m->blocks |= choice & 2 ? BLOCK_POSITIONS | BLOCK_OUTPUT_BIAS : 0;
    m->blocks |= choice & 4 ? BLOCK_PARALLEL : 0;
    if (choice & 8 && m->blocks & (BLOCK_QK_NORM_HEADS | BLOCK_QK_NORM_ALL))
        m->blocks |= BLOCK_QK_NORM_LATE;
    if (choice & 8 && !(m->blocks & (BLOCK_NORM_OUTPUTS | BLOCK_NO_INPUT_NORMS)))
        m->blocks |= BLOCK_LAYER_NORM;
    if (choice & 16 && m->blocks & BLOCK_PARALLEL && !(m->blocks & BLOCK_NO_INPUT_NORMS))
        m->blocks |= BLOCK_ONE_NORM;
    m->blocks |= choice & 16 ? BLOCK_ROTATE_NEIGHBOURS : 0;
    m->query_period = choice & 32 ? 2 : 0;
    m->query_growth = choice & 32 ? 0.1f : 0;
    c->features |= smol_model_has_components(m) ? FEATURE_COMPONENTS : 0;
}

/* Whatever FEATURE_BLOCKS has. That it says something new is up to the input. */
static void make_blocks(struct fuzz_input *in, struct contents *c)
{
    struct blob_model *m = &c->model;
    struct blocks_recipe r;
    fuzz_take(in, &r, sizeof r);
    c->features |= FEATURE_BLOCKS;
    m->attention_bias = r.attention_bias % 3;
    m->activation = r.activation % 4 % 3;
    m->blocks = r.blocks % 12; /* not both kinds of q and k norms */
    m->embedding_scale = r.scales & 1 ? 3.5f : 1;
    m->residual_scale = r.scales & 2 ? 0.3f : 1;
    m->attention_scale = r.scales & 4 ? 0.7f : 1.0f / sqrtf((float)m->head_dim);
    m->attention_softcap = r.scales & 8 ? 2 : 0;
    m->logit_divisor = r.scales & 16 ? 1.7f : 1;
    m->logit_softcap = r.scales & 32 ? 5 : 0;
    m->rotary_dim = 2 + 2 * (r.rotary_dim % (m->head_dim / 2));
    unsigned used = 0;
    for (uint32_t i = 0; i < m->n_layers; i++)
        used |= c->layers[i] = r.layers[i % 2] % 6; /* not both kinds of rotation */
    m->sliding_window = used & LAYER_WINDOWED ? 1 + r.sliding_window % 8 : 0;
    m->n_rope_tables = used & LAYER_SECOND_TABLE ? 2 : 1;
    m->rope_scale[0] = r.scales & 64 ? 1.25f : 1;
    m->rope_scale[1] = m->n_rope_tables == 2 ? 0.5f : 0;
    make_components(r.activation / 4, c);
}

/* Any dtype of a mix for each role. Tables are those of int4, int6 and int5, which in an order of
 * their own may not be valid. */
static struct storage make_storage(const struct contents *c, enum tensor_role role, uint8_t seed)
{
    if (role == ROLE_OUTPUT && c->model.tied_embeddings)
        role = ROLE_EMBED;
    if (role == ROLE_EMBED)
        return (struct storage){DTYPE_INT4, 0};
    enum blob_dtype dtype = DTYPE_INT8 + (role * 5 + seed) % 4;
    return (struct storage){dtype, dtype == DTYPE_INT6 ? 1 : dtype == DTYPE_INT5 ? 2 : 0};
}

/* The tensors of the model, from the start of the weights on. */
static void make_tensors(struct contents *c, const struct blob_recipe *r)
{
    struct tensor_key key = {.role = ROLE_EMBED};
    if (is_mixed(r)) {
        c->features |= FEATURE_MIXED;
        c->levels[0] = smol_levels_default(DTYPE_INT4);
        c->levels[1] = smol_levels_default(DTYPE_INT6);
        c->levels[2] = smol_levels_default(DTYPE_INT5);
    }
    do {
        const struct storage storage = make_storage(c, key.role, r->dtype);
        struct blob_tensor tensor =
            smol_tensor_layout(&c->model, key, is_mixed(r) ? &storage : NULL);
        bool alias = key.role == ROLE_OUTPUT && c->model.tied_embeddings;
        tensor.offset = alias ? 0 : c->weights_size;
        c->weights_size += alias ? 0 : tensor.size;
        c->tensors[c->n_tensors++] = tensor;
    } while (smol_tensor_next(&c->model, &key));
}

static void make_contents(struct fuzz_input *in, const struct blob_recipe *r, struct contents *c)
{
    memset(c, 0, sizeof *c);
    c->model = make_model(r);
    if (r->switches & BLOB_BLOCKS)
        make_blocks(in, c);
    for (size_t i = 0; i < smol_inv_freq_count(&c->model); i++)
        c->inv_freq[i] = 1.0f / (float)(1 + i * i);
    for (uint32_t i = 0; i < r->n_stop % MAX_STOP && i < c->model.vocab_size; i++)
        c->stop[i] = i;
    if (r->generation & 1)
        c->generation =
            (struct blob_generation){.present = GENERATION_TOP_K, .top_k = r->generation};
    fuzz_take(in, c->provenance, r->n_provenance);
    make_tensors(c, r);
}

/* Numbers of one tensor, from -1 to 1 times a scale, by a linear congruential generator. */
static void fill_tensor(const struct blob_tensor *tensor, uint8_t kind, uint8_t *out)
{
    static const float scales[] = {1, 0.125f, 0, 16, 1e-30f, 1e18f, 1e-44f, 3e38f};
    static float values[64 * MAX_COLS], scratch[MAX_COLS];
    uint32_t random = tensor->role + 31 * tensor->layer + kind;
    size_t n = tensor->rows * tensor->cols;
    CLAIM(n <= sizeof values / sizeof values[0] && tensor->cols <= MAX_COLS);
    for (size_t i = 0; i < n; i++) {
        random = random * 1664525 + 1013904223;
        values[i] = ((float)(random >> 16) / 32768 - 1) * scales[kind % 8];
    }
    const struct safetensors_tensor source = {.dtype = ST_F32, .data = (const uint8_t *)values};
    if (tensor->layout != LAYOUT_TILES) {
        smol_tile_vector(&source, tensor, out);
        return;
    }
    static struct level_search search;
    const struct tile_rule rule = {.levels = &search};
    if (tensor->dtype > DTYPE_INT8) {
        const struct blob_levels levels = smol_levels_default(tensor->dtype);
        smol_levels_prepare(&search, &levels, tensor->dtype);
    }
    uint64_t bytes = smol_block_bytes(tensor->dtype, tensor->cols);
    for (uint64_t row = 0; row < tensor->rows; row += TILE_ROWS, out += bytes)
        smol_tile_block(&source, tensor, &rule, row, scratch, out);
}

/* --- the file ------------------------------------------------------------------------------- */

/* Gives the next section its place: after what is there, at a multiple of `align`. */
static void add_section(struct plan *plan, enum section_kind kind, uint64_t size, uint64_t align)
{
    struct blob_section *section = &plan->sections[plan->n];
    const struct blob_section *before = plan->n > 0 ? section - 1 : NULL;
    uint64_t end = before ? before->offset + before->size
                          : sizeof plan->header + plan->n_due * sizeof plan->sections[0];
    *section = (struct blob_section){kind, 0, round_up(end, align), size};
    plan->n++;
}

static struct plan make_plan(const struct contents *c, const struct blob_recipe *r,
                             size_t tokenizer_size)
{
    bool blocks = c->features & FEATURE_BLOCKS, text = c->features & FEATURE_TEXT;
    bool mixed = c->features & FEATURE_MIXED;
    struct plan plan = {.n_due = 9 + blocks + text + mixed};
    uint32_t n_stop = r->n_stop % MAX_STOP;
    n_stop = n_stop < c->model.vocab_size ? n_stop : c->model.vocab_size;
    uint64_t data = round_up(tokenizer_size, BLOB_CHUNK_SIZE) + c->weights_size;
    uint64_t n_chunks = (data + BLOB_CHUNK_SIZE - 1) / BLOB_CHUNK_SIZE;
    add_section(&plan, SECTION_MODEL, MODEL_SECTION_SIZE, BLOB_ALIGN);
    add_section(&plan, SECTION_INV_FREQ, smol_inv_freq_count(&c->model) * sizeof(float),
                BLOB_ALIGN);
    add_section(&plan, SECTION_STOP, n_stop * sizeof(uint32_t), BLOB_ALIGN);
    add_section(&plan, SECTION_GENERATION, sizeof c->generation, BLOB_ALIGN);
    add_section(&plan, SECTION_PROVENANCE, r->n_provenance, BLOB_ALIGN);
    add_section(&plan, SECTION_TENSORS, c->n_tensors * sizeof c->tensors[0], BLOB_ALIGN);
    add_section(&plan, SECTION_DIGESTS, n_chunks * sizeof(uint64_t), BLOB_ALIGN);
    if (blocks)
        add_section(&plan, SECTION_LAYERS, c->model.n_layers, BLOB_ALIGN);
    if (text)
        add_section(&plan, SECTION_TEXT, c->text.size, BLOB_ALIGN);
    if (mixed)
        add_section(&plan, SECTION_LEVELS, sizeof c->levels, BLOB_ALIGN);
    add_section(&plan, SECTION_TOKENIZER, tokenizer_size, BLOB_CHUNK_SIZE);
    add_section(&plan, SECTION_WEIGHTS, c->weights_size, BLOB_CHUNK_SIZE);
    const struct blob_section *weights = &plan.sections[plan.n - 1], *tokenizer = weights - 1;
    plan.header = (struct blob_header){
        .major = BLOB_MAJOR,
        .minor = BLOB_MINOR,
        .n_sections = plan.n,
        .file_size = weights->offset + weights->size,
        .data_offset = tokenizer->offset,
        .required_features = c->features,
    };
    memcpy(plan.header.magic, BLOB_MAGIC, BLOB_MAGIC_SIZE);
    return plan;
}

/* Returns the contents of a section, or NULL when it is written otherwise. */
static const void *part_of(const struct contents *c, const struct built *tokenizer, uint32_t kind)
{
    switch ((enum section_kind)kind) {
    case SECTION_MODEL:
        return &c->model;
    case SECTION_INV_FREQ:
        return c->inv_freq;
    case SECTION_STOP:
        return c->stop;
    case SECTION_GENERATION:
        return &c->generation;
    case SECTION_PROVENANCE:
        return c->provenance;
    case SECTION_TENSORS:
        return c->tensors;
    case SECTION_LAYERS:
        return c->layers;
    case SECTION_TOKENIZER:
        return tokenizer->data;
    case SECTION_LEVELS:
        return c->levels;
    case SECTION_SCANNER:
    case SECTION_TEXT:
        return c->text.data;
    case SECTION_ENCODER:
    case SECTION_STATES:
    case SECTION_EXPERTS:
    case SECTION_HYBRID:
    case SECTION_LATENT:
    case SECTION_VARIED:
    case SECTION_PARTIAL:
    case SECTION_EMBEDDER:
    case SECTION_DIGESTS:
    case SECTION_TEMPLATE:
    case SECTION_WEIGHTS:
        break;
    }
    return NULL;
}

static void write_sections(const struct plan *plan, struct contents *c,
                           const struct built *tokenizer, uint8_t kind, uint8_t *file)
{
    const struct blob_section *weights = &plan->sections[plan->n - 1];
    for (size_t i = 0; i < c->n_tensors; i++) {
        bool alias = i > 0 && c->tensors[i].offset == 0;
        c->tensors[i].offset += weights->offset;
        if (!alias)
            fill_tensor(&c->tensors[i], kind, file + c->tensors[i].offset);
    }
    memcpy(file, &plan->header, sizeof plan->header);
    memcpy(file + sizeof plan->header, plan->sections, plan->n * sizeof plan->sections[0]);
    for (unsigned i = 0; i < plan->n; i++) {
        const void *part = part_of(c, tokenizer, plan->sections[i].kind);
        if (part)
            memcpy(file + plan->sections[i].offset, part, plan->sections[i].size);
    }
}

/* Where sections lie is known from the plan, whatever damages have made of the file. */
static void write_digests(const struct plan *plan, uint8_t *file)
{
    const struct blob_header *header = &plan->header;
    const struct blob_section *table = plan->sections;
    while (table->kind != SECTION_DIGESTS)
        table++;
    uint64_t *digests = (void *)(file + table->offset);
    for (uint64_t at = header->data_offset; at < header->file_size; at += BLOB_CHUNK_SIZE) {
        uint64_t rest = header->file_size - at;
        *digests++ = smol_digest(file + at, rest < BLOB_CHUNK_SIZE ? rest : BLOB_CHUNK_SIZE);
    }
}

static void write_front_digest(const struct plan *plan, uint8_t *file)
{
    uint64_t digest =
        smol_digest(file + BLOB_DIGEST_START, plan->header.data_offset - BLOB_DIGEST_START);
    memcpy(file + offsetof(struct blob_header, front_digest), &digest, sizeof digest);
}

/* Changes the size of a file to one near it, which the input states. */
static struct built resize(struct fuzz_input *in, struct built file)
{
    uint32_t size;
    fuzz_take(in, &size, sizeof size);
    struct built resized = {NULL, size % (file.size + BLOB_CHUNK_SIZE)};
    resized.data = exact_zeros(resized.size);
    memcpy(resized.data, file.data, resized.size < file.size ? resized.size : file.size);
    free(file.data);
    return resized;
}

struct built fuzz_build_blob(struct fuzz_input *in)
{
    static struct contents contents;
    struct blob_recipe r;
    fuzz_take(in, &r, sizeof r);
    make_contents(in, &r, &contents);
    struct fuzz_input start = *in;
    struct built tokenizer =
        fuzz_build_tokenizer(in, contents.model.vocab_size, r.switches & BLOB_TEXT);
    if (r.switches & BLOB_TEXT) {
        contents.features |= FEATURE_TEXT;
        contents.text = fuzz_build_text(in, 1 + fuzz_take_byte(&start) % contents.model.vocab_size);
    }
    struct plan plan = make_plan(&contents, &r, tokenizer.size);
    struct built file = {exact_zeros(plan.header.file_size), plan.header.file_size};
    write_sections(&plan, &contents, &tokenizer, r.weights, file.data);
    free(tokenizer.data);
    free(contents.text.data);
    /* Damage of the front keeps off the digest table when the digests come last. */
    if (!(r.switches & BLOB_STALE))
        fuzz_damage(in, r.n_early % 8, file.data, file.size);
    write_digests(&plan, file.data);
    if (r.switches & BLOB_STALE)
        fuzz_damage(in, r.n_early % 8, file.data, file.size);
    write_front_digest(&plan, file.data);
    fuzz_damage(in, r.n_late % 8, file.data, file.size);
    return r.switches & BLOB_RESIZED ? resize(in, file) : file;
}

struct built fuzz_build_changed(struct fuzz_input *in, const struct fuzz_input *recipe, unsigned n)
{
    uint8_t copy[MAX_RECIPE];
    size_t size = recipe->size < sizeof copy ? recipe->size : sizeof copy;
    struct fuzz_input changed = {copy, size};
    if (size > 0)
        memcpy(copy, recipe->data, size);
    fuzz_damage(in, n, copy, size);
    return fuzz_build_blob(&changed);
}

bool fuzz_is_whole(const struct built *file)
{
    struct blob blob;
    smol_error error;
    smol_status status =
        smol_blob_open_bytes(file->data, file->size, "fuzz", VERIFY_AT_OPEN, &blob, &error);
    smol_blob_close(&blob);
    return !status;
}
