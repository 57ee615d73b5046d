/* Opening a blob, see reader.h. The checks follow the order of the file: size, magic, version,
 * digest of the front, section table, then each section. */
#include "format/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/checked.h"
#include "common/hash.h"
#include "common/memory.h"
#include "common/number.h"
#include "format/delta.h"
#include "format/latent.h"
#include "format/model.h"
#include "format/sections.h"

static smol_status damaged(const struct blob *blob, smol_error *error, const char *what,
                           uint64_t offset)
{
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: %s (offset %" PRIu64 "): convert again or fetch a fresh copy", blob->path,
                     what, offset);
}

static const struct blob_section *section_table(const struct blob *blob)
{
    return (const void *)(blob->front + sizeof(struct blob_header));
}

static const struct blob_section *find_section(const struct blob *blob, enum section_kind kind)
{
    const struct blob_section *section = section_table(blob);
    while (section->kind != kind)
        section++;
    return section;
}

/* Reports damage in a section: `what` is wrong at `offset`. */
static smol_status damaged_within(const struct blob *blob, smol_error *error, uint32_t kind,
                                  const char *what, uint64_t offset)
{
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: section %s: %s (offset %" PRIu64 "): convert again or fetch a fresh copy",
                     blob->path, smol_section_name(kind), what, offset);
}

/* Reports damage of a whole section. */
static smol_status damaged_section(const struct blob *blob, smol_error *error,
                                   enum section_kind kind, const char *what)
{
    return damaged_within(blob, error, kind, what, find_section(blob, kind)->offset);
}

/* Reports features that contradict each other. */
static smol_status damaged_features(const struct blob *blob, smol_error *error, const char *what)
{
    return damaged(blob, error, what, offsetof(struct blob_header, required_features));
}

/* Reports damage of a tensor: `what` is wrong at `offset`. */
static smol_status damaged_tensor(const struct blob *blob, smol_error *error, uint32_t kind,
                                  struct tensor_key key, const char *what, uint64_t offset)
{
    char name[MAX_NAME], text[2 * MAX_NAME];
    snprintf(text, sizeof text, "tensor %s %s", smol_tensor_name(key, name), what);
    return damaged_within(blob, error, kind, text, offset);
}

/* Returns whether all bytes are zero: the first byte is 0, and each byte equals the next. memcmp
 * compares many at a time. */
static bool all_zero(const uint8_t *data, uint64_t size)
{
    return size == 0 || (data[0] == 0 && memcmp(data, data + 1, size - 1) == 0);
}

/* --- header ------------------------------------------------------------------------------- */

/* Other files that are often mistaken for blobs: their bytes at `offset`, and a message that says
 * what the file is and what to do. */
static const struct {
    const char *bytes;
    size_t n, offset;
    smol_status status;
    const char *text;
} other_kinds[] = {
    {"\x28\xb5\x2f\xfd", 4, 0, SMOL_ERROR_UNSUPPORTED,
     "compressed with zstd: use `smolconv unpack` first"},
    {DELTA_MAGIC, 4, 0, SMOL_ERROR_DAMAGED, /* or a blob with one bit flipped */
     "a .smoldelta, not a .smol blob (offset 3): see `smolconv patch`"},
    {"\x89SMS", 4, 0, SMOL_ERROR_UNSUPPORTED, "a session, not a .smol blob: see smolrun --session"},
    {"GGUF", 4, 0, SMOL_ERROR_UNSUPPORTED,
     "a GGUF file, not a .smol blob: make one with `smolconv FOLDER OUT.smol` from the folder of "
     "the Hugging Face checkpoint"},
    {"\0\0{\"", 4, 6, SMOL_ERROR_UNSUPPORTED, /* a length below 2^48, and JSON */
     "a safetensors file, not a .smol blob: make one with `smolconv FOLDER OUT.smol` from the "
     "checkpoint's folder"},
};

static smol_status refuse_other_kind(const struct blob *blob, const uint8_t *data, uint64_t size,
                                     smol_error *error)
{
    for (size_t i = 0; i < sizeof other_kinds / sizeof other_kinds[0]; i++)
        if (size >= other_kinds[i].offset + other_kinds[i].n &&
            memcmp(data + other_kinds[i].offset, other_kinds[i].bytes, other_kinds[i].n) == 0)
            return smol_fail(error, other_kinds[i].status, "%s: %s", blob->path,
                             other_kinds[i].text);
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: not a .smol blob (offset 0): make one with smolconv", blob->path);
}

static smol_status check_magic(const struct blob *blob, const uint8_t *data, uint64_t size,
                               smol_error *error)
{
    if (size >= BLOB_MAGIC_SIZE && memcmp(data, BLOB_MAGIC, BLOB_MAGIC_SIZE) == 0)
        return size >= sizeof(struct blob_header)
                   ? SMOL_OK
                   : damaged(blob, error, "truncated within the header", size);
    if (size > 0 && size < BLOB_MAGIC_SIZE && memcmp(data, BLOB_MAGIC, size) == 0)
        return damaged(blob, error, "truncated within the header", size);
    if (size >= 4 && memcmp(data, BLOB_MAGIC, 4) == 0)
        return damaged(blob, error, "line endings were changed: copy it as a binary file", 4);
    return refuse_other_kind(blob, data, size, error);
}

/* Checks the version and data_offset, which determine the size of the front. */
static smol_status check_start(const struct blob *blob, const struct blob_header *header,
                               smol_error *error)
{
    if (header->major != BLOB_MAJOR)
        return smol_fail(
            error, SMOL_ERROR_UNSUPPORTED,
            "%s: format version %u.%u, this program reads %d.x: use a matching release", blob->path,
            header->major, header->minor, BLOB_MAJOR);
    if (header->data_offset % BLOB_CHUNK_SIZE || header->data_offset > header->file_size ||
        header->data_offset > BLOB_MAX_FRONT || header->data_offset < sizeof *header)
        return damaged(blob, error, "data_offset is out of range", 40);
    return SMOL_OK;
}

static smol_status check_header(struct blob *blob, smol_error *error)
{
    const struct blob_header *header = blob->header;
    uint64_t digest =
        smol_digest(blob->front + BLOB_DIGEST_START, header->data_offset - BLOB_DIGEST_START);
    if (digest != header->front_digest)
        return damaged(blob, error, "digest of header and tables does not match", 8);
    uint64_t unknown = header->required_features & ~(uint64_t)KNOWN_FEATURES;
    if (unknown)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: needs features 0x%" PRIx64 ": use a newer release", blob->path,
                         unknown);
    if (header->reserved)
        return damaged(blob, error, "a reserved field is not zero", 56);
    return SMOL_OK;
}

/* --- sections ----------------------------------------------------------------------------- */

/* Checks that each section begins at the end of the previous one, rounded up to its alignment, with
 * zeros between. Sections therefore cannot overlap, and no data can hide between them. */
static smol_status check_sections(struct blob *blob, smol_error *error)
{
    const struct blob_header *header = blob->header;
    uint32_t kinds[MAX_SECTIONS];
    size_t n_sections = smol_list_sections(header->required_features, kinds);
    if (header->n_sections != n_sections)
        return damaged(blob, error, "wrong number of sections", 20);
    const struct blob_section *sections = section_table(blob);
    uint64_t end = sizeof *header + n_sections * sizeof *sections;
    for (size_t i = 0; i < n_sections; i++) {
        const struct blob_section *section = &sections[i];
        uint64_t place = sizeof *header + i * sizeof *section;
        bool front = section->kind < SECTION_FIRST_DATA;
        uint64_t start = round_up(end, front ? BLOB_ALIGN : BLOB_CHUNK_SIZE);
        uint64_t limit = front ? header->data_offset : header->file_size;
        if (section->kind != kinds[i] || section->reserved)
            return damaged_within(blob, error, kinds[i], "unexpected entry in its place", place);
        if (section->offset != start || !range_within(start, section->size, limit))
            return damaged_within(blob, error, kinds[i], "wrong offset or size", place);
        /* padding in the data is checked together with the tokenizer */
        if (start <= header->data_offset && !all_zero(blob->front + end, start - end))
            return damaged_within(blob, error, kinds[i], "the padding before it is not zero", end);
        end = start + section->size;
    }
    if (find_section(blob, SECTION_TOKENIZER)->offset != header->data_offset)
        return damaged(blob, error, "the data sections do not start at data_offset", 32);
    if (end != header->file_size)
        return damaged(blob, error, "bytes after the last section", end);
    return SMOL_OK;
}

/* Points *data at section `kind`, whose size must be *n times `unit` bytes. */
static smol_status take(const struct blob *blob, enum section_kind kind, size_t unit,
                        const void **data, size_t *n, smol_error *error)
{
    const struct blob_section *section = find_section(blob, kind);
    if (section->size % unit)
        return damaged_section(blob, error, kind, "its size is not a whole number of elements");
    *data = blob->front + section->offset;
    *n = section->size / unit;
    return SMOL_OK;
}

/* Checks the fields of FEATURE_BLOCKS and FEATURE_COMPONENTS, which the model must need. */
static smol_status check_layers(struct blob *blob, smol_error *error)
{
    bool blocks = blob->header->required_features & FEATURE_BLOCKS;
    bool components = blob->header->required_features & FEATURE_COMPONENTS;
    if (blocks == smol_model_is_plain(blob->model))
        return damaged_section(blob, error, SECTION_MODEL,
                               "its fields do not match the blocks feature");
    if (components != smol_model_has_components(blob->model))
        return damaged_section(blob, error, SECTION_MODEL,
                               "its fields do not match the components feature");
    if (!blocks)
        return SMOL_OK;
    size_t n = 0;
    smol_status status = take(blob, SECTION_LAYERS, 1, (const void **)&blob->layers, &n, error);
    if (status)
        return status;
    if (n != blob->model->n_layers)
        return damaged_section(blob, error, SECTION_LAYERS, "its size does not match n_layers");
    smol_error reason;
    if (smol_layers_check(blob->model, blob->layers, &reason))
        return damaged_section(blob, error, SECTION_LAYERS, reason.message);
    struct blob_model reduced = *blob->model;
    if (!smol_model_reduce(&reduced, blob->layers))
        return damaged_section(blob, error, SECTION_MODEL,
                               "nothing in it needs the blocks feature");
    return SMOL_OK;
}

static smol_status check_model(struct blob *blob, smol_error *error)
{
    const struct blob_section *section = find_section(blob, SECTION_MODEL);
    smol_error reason;
    if (section->size != MODEL_SECTION_SIZE)
        return damaged_section(blob, error, SECTION_MODEL, "wrong size");
    blob->model_copy = smol_calloc(1, sizeof *blob->model_copy);
    if (!blob->model_copy)
        return smol_fail_memory(error, "the model");
    memcpy(blob->model_copy, blob->front + section->offset, MODEL_SECTION_SIZE);
    blob->model = blob->model_copy;
    if (smol_model_check(blob->model, &reason))
        return damaged_section(blob, error, SECTION_MODEL, reason.message);
    return check_layers(blob, error);
}

static bool encoder_is_valid(const struct blob *blob)
{
    const uint32_t others =
        BLOCK_NO_INPUT_NORMS | BLOCK_NORM_OUTPUTS | BLOCK_PARALLEL | BLOCK_ONE_NORM;
    const struct blob_encoder *encoder = blob->encoder;
    const struct blob_model *model = blob->model;
    bool embedder = blob->header->required_features & FEATURE_EMBEDDER;
    bool around = blob->header->required_features & FEATURE_AROUND;
    bool ahead = blob_sees_ahead(blob), stream = model->blocks & BLOCK_NORM_STREAM;
    bool normed = encoder->norms_embedding;
    return encoder->pooling < (embedder ? ENCODER_POOLINGS : ENCODER_LAST) &&
           encoder->normalizes <= 1 && encoder->max_length >= 1 &&
           encoder->max_length <= model->context_length &&
           (ahead && smol_encoder_needs_around(model, encoder)) == around &&
           encoder->norms_embedding <= around &&
           (!ahead || model->context_length <= ENCODER_MAX_CONTEXT) &&
           !(stream && (!ahead || normed || model->blocks & others)) &&
           !(normed && model->blocks & others) &&
           all_zero((const uint8_t *)encoder->reserved, sizeof encoder->reserved);
}

static smol_status check_embedder(struct blob *blob, smol_error *error)
{
    smol_error reason;
    bool normed = blob->header->required_features & FEATURE_NORMED;
    bool doubled = blob->header->required_features & FEATURE_DOUBLED;
    if (!(blob->header->required_features & FEATURE_EMBEDDER))
        return normed || doubled
                   ? damaged_features(blob, error,
                                      "the normed or doubled feature without that of an embedder")
                   : SMOL_OK;
    smol_status status = take(blob, SECTION_EMBEDDER, 1, (const void **)&blob->embedder_section,
                              &blob->n_embedder, error);
    if (status)
        return status;
    if (smol_embedder_open(blob->embedder_section, blob->n_embedder, blob->model, &blob->embedder,
                           &reason))
        return damaged_section(blob, error, SECTION_EMBEDDER, reason.message);
    if (smol_embedder_is_normed(blob->embedder.header) != normed)
        return damaged_section(blob, error, SECTION_EMBEDDER,
                               "its activations and the normed feature contradict each other");
    if (smol_embedder_is_doubled(blob->embedder.header) != doubled)
        return damaged_section(blob, error, SECTION_EMBEDDER,
                               "its fields and the doubled feature contradict each other");
    return SMOL_OK;
}

/* Checks that relative positions stand where all of a text is seen, and have their feature. */
static smol_status check_relative(const struct blob *blob, smol_error *error)
{
    const struct blob_model *model = blob->model;
    bool relative = blob->header->required_features & FEATURE_RELATIVE;
    if (relative != !!(model->blocks & BLOCK_RELATIVE))
        return damaged_section(blob, error, SECTION_MODEL,
                               "its blocks and the relative feature contradict each other");
    if (relative && (!blob_sees_ahead(blob) || model->sliding_window ||
                     model->attention_softcap > 0 || model->query_period))
        return damaged_section(blob, error, SECTION_MODEL,
                               "relative positions need an encoder without windows and caps");
    return SMOL_OK;
}

static smol_status check_encoder(struct blob *blob, smol_error *error)
{
    size_t n = 0;
    uint64_t features = blob->header->required_features;
    if (check_relative(blob, error))
        return SMOL_ERROR_DAMAGED;
    if (features & FEATURE_AROUND && !(features & FEATURE_ENCODER))
        return damaged_features(blob, error, "the around feature without that of an encoder");
    if (!(features & (FEATURE_ENCODER | FEATURE_EMBEDDER)))
        return blob->model->blocks & BLOCK_NORM_STREAM
                   ? damaged_section(blob, error, SECTION_MODEL,
                                     "its blocks are an encoder's, without that feature")
                   : SMOL_OK;
    smol_status status = take(blob, SECTION_ENCODER, sizeof *blob->encoder,
                              (const void **)&blob->encoder, &n, error);
    if (status)
        return status;
    if (n != 1 || !encoder_is_valid(blob))
        return damaged_section(blob, error, SECTION_ENCODER, "its fields do not fit the model");
    return check_embedder(blob, error);
}

/* Copies the sections that are parts of the model, each one struct. */
static smol_status take_parts(struct blob *blob, smol_error *error)
{
    struct blob_model *model = blob->model_copy;
    const struct {
        uint64_t feature;
        enum section_kind kind;
        void *part;
        size_t size;
    } parts[] = {
        {FEATURE_HYBRID, SECTION_HYBRID, &model->hybrid, sizeof model->hybrid},
        {FEATURE_STATES, SECTION_STATES, &model->states, sizeof model->states},
        {FEATURE_EXPERTS, SECTION_EXPERTS, &model->experts, sizeof model->experts},
        {FEATURE_LATENT, SECTION_LATENT, &model->latent, sizeof model->latent},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!(blob->header->required_features & parts[i].feature))
            continue;
        const struct blob_section *section = find_section(blob, parts[i].kind);
        if (section->size != parts[i].size)
            return damaged_section(blob, error, parts[i].kind, "wrong size");
        memcpy(parts[i].part, blob->front + section->offset, section->size);
    }
    return SMOL_OK;
}

static smol_status check_parts(struct blob *blob, smol_error *error)
{
    uint64_t features = blob->header->required_features;
    const struct blob_model *model = blob->model;
    smol_error reason;
    smol_status status = take_parts(blob, error);
    if (status)
        return status;
    if (features & FEATURE_HYBRID && !(features & FEATURE_STATES))
        return damaged_section(blob, error, SECTION_HYBRID, "it needs the states feature");
    if (model->blocks & BLOCK_ATTENTION_GATE && !(features & FEATURE_STATES))
        return damaged_section(blob, error, SECTION_MODEL,
                               "a gate of attention needs the states feature");
    if (features & FEATURE_HYBRID && smol_hybrid_check(model, &reason))
        return damaged_section(blob, error, SECTION_HYBRID, reason.message);
    if (features & FEATURE_STATES && smol_states_check(model, blob->layers, &reason))
        return damaged_section(blob, error, SECTION_STATES, reason.message);
    if (features & FEATURE_EXPERTS && smol_experts_check(model, &reason))
        return damaged_section(blob, error, SECTION_EXPERTS, reason.message);
    if (features & FEATURE_LATENT && smol_latent_check(model, &reason))
        return damaged_section(blob, error, SECTION_LATENT, reason.message);
    return blob_sees_ahead(blob) && features & (FEATURE_STATES | FEATURE_EXPERTS | FEATURE_LATENT)
               ? damaged_features(blob, error,
                                  "an encoder has no states, experts or latent vectors")
               : SMOL_OK;
}

static smol_status check_inv_freq(struct blob *blob, smol_error *error)
{
    size_t n = 0;
    smol_status status =
        take(blob, SECTION_INV_FREQ, sizeof(float), (const void **)&blob->inv_freq, &n, error);
    if (status)
        return status;
    if (n != smol_inv_freq_count(blob->model))
        return damaged_section(blob, error, SECTION_INV_FREQ, "its size does not match the model");
    for (size_t i = 0; i < n; i++)
        if (!(blob->inv_freq[i] >= 0 && blob->inv_freq[i] <= 1))
            return damaged_section(blob, error, SECTION_INV_FREQ, "out of range");
    return SMOL_OK;
}

/* Returns whether absent fields are zero and present ones are valid sampler parameters. */
static bool generation_is_valid(const struct blob_generation *g)
{
    const uint32_t fields[] = {
        g->do_sample, /* in the order of enum generation_field */
        f32_bits(g->temperature),
        g->top_k,
        f32_bits(g->top_p),
        f32_bits(g->min_p),
        f32_bits(g->repetition_penalty),
    };
    const float reals[] = {g->temperature, g->top_p, g->min_p, g->repetition_penalty};
    enum { N_FIELDS = sizeof fields / sizeof fields[0] };
    for (size_t i = 0; i < N_FIELDS; i++)
        if (!(g->present >> i & 1) && fields[i])
            return false;
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        if (!f32_is_finite(reals[i]) || reals[i] < 0)
            return false;
    return g->present < 1u << N_FIELDS && g->do_sample <= 1 &&
           all_zero(g->reserved, sizeof g->reserved);
}

static smol_status check_small_sections(struct blob *blob, smol_error *error)
{
    smol_status status = take(blob, SECTION_STOP, sizeof *blob->stop, (const void **)&blob->stop,
                              &blob->n_stop, error);
    if (status)
        return status;
    for (size_t i = 0; i < blob->n_stop; i++)
        if (blob->stop[i] >= blob->model->vocab_size ||
            (i > 0 && blob->stop[i] <= blob->stop[i - 1]))
            return damaged_section(blob, error, SECTION_STOP, "ids out of range or out of order");

    size_t n = 0;
    status = take(blob, SECTION_GENERATION, sizeof *blob->generation,
                  (const void **)&blob->generation, &n, error);
    if (status)
        return status;
    if (n != 1 || !generation_is_valid(blob->generation))
        return damaged_section(blob, error, SECTION_GENERATION, "malformed generation defaults");
    return take(blob, SECTION_PROVENANCE, 1, (const void **)&blob->provenance, &blob->n_provenance,
                error);
}

static smol_status check_text(struct blob *blob, smol_error *error)
{
    bool vocabulary = blob->header->required_features & FEATURE_VOCABULARY;
    bool clusters = blob->header->required_features & FEATURE_CLUSTERS;
    if (!(blob->header->required_features & FEATURE_TEXT))
        return vocabulary || clusters
                   ? damaged_features(blob, error,
                                      "the vocabulary or clusters feature without a text section")
                   : SMOL_OK;
    const struct blob_section *section = find_section(blob, SECTION_TEXT);
    smol_error reason;
    blob->text_section = blob->front + section->offset;
    blob->n_text = section->size;
    if (smol_text_tables_open(blob->text_section, blob->n_text, &blob->text, &reason))
        return damaged_section(blob, error, SECTION_TEXT, reason.message);
    if (smol_text_is_extended(&blob->text) != vocabulary)
        return damaged_section(blob, error, SECTION_TEXT,
                               "its fields do not match the vocabulary feature");
    if ((blob->text.header.n_cluster_blocks > 0) != clusters)
        return damaged_section(blob, error, SECTION_TEXT,
                               "its fields do not match the clusters feature");
    return SMOL_OK;
}

static smol_status take_levels(struct blob *blob, smol_error *error)
{
    if (!(blob->header->required_features & FEATURE_MIXED))
        return SMOL_OK;
    if (blob->model->dtype != DTYPE_INT8)
        return damaged_section(blob, error, SECTION_MODEL,
                               "its dtype does not match the mixed feature");
    return take(blob, SECTION_LEVELS, sizeof *blob->levels, (const void **)&blob->levels,
                &blob->n_levels, error);
}

/* Returns whether exactly the first n levels are set and strictly ascending. */
static bool levels_are_valid(const struct blob_levels *levels, size_t n)
{
    bool valid = levels->values[0] != -128;
    for (size_t i = 1; i < n; i++)
        valid &= levels->values[i] > levels->values[i - 1];
    return valid && all_zero((const uint8_t *)levels->values + n, MAX_LEVELS - n);
}

/* Checks the storage of a matrix of a blob with FEATURE_MIXED. *n_used is the number of tables of
 * levels that it and the matrices before it use. Returns what is wrong, or NULL. */
static const char *check_storage(const struct blob *blob, const struct storage *storage,
                                 size_t *n_used)
{
    if (storage->dtype < DTYPE_INT8 || storage->dtype > DTYPE_INT4)
        return "has a dtype that is not allowed";
    if (storage->dtype == DTYPE_INT8)
        return storage->levels ? "has levels, but int8 uses none" : NULL;
    if (storage->levels > *n_used || storage->levels >= blob->n_levels)
        return "has levels that are missing or not next in order";
    *n_used += storage->levels == *n_used;
    return levels_are_valid(&blob->levels[storage->levels], level_count(storage->dtype))
               ? NULL
               : "has levels that are malformed";
}

/* Checks that every table is used, and the feature needed. */
static smol_status finish_mix(const struct blob *blob, size_t n_used, smol_error *error)
{
    if (!(blob->header->required_features & FEATURE_MIXED))
        return SMOL_OK;
    if (n_used != blob->n_levels)
        return damaged_section(blob, error, SECTION_LEVELS, "not every table is used");
    if (n_used == 0)
        return damaged_section(blob, error, SECTION_LEVELS, "no matrix needs the mixed feature");
    return SMOL_OK;
}

/* Compares each field, because the table must be exactly the one that the model and the storage of
 * its matrices require. */
static smol_status check_tensors(struct blob *blob, smol_error *error)
{
    smol_status status = take(blob, SECTION_TENSORS, sizeof *blob->tensors,
                              (const void **)&blob->tensors, &blob->n_tensors, error);
    if (status)
        return status;
    const struct blob_section *weights = find_section(blob, SECTION_WEIGHTS);
    uint64_t place = find_section(blob, SECTION_TENSORS)->offset;
    if (blob->n_tensors != smol_tensor_count(blob->model))
        return damaged_section(blob, error, SECTION_TENSORS, "wrong number of tensors");
    bool mixed = blob->header->required_features & FEATURE_MIXED;
    size_t n_used = 0; /* tables of levels */
    uint64_t end = weights->offset;
    struct tensor_key key = {.role = ROLE_EMBED};
    for (size_t i = 0; i < blob->n_tensors; i++) {
        bool alias = key.role == ROLE_OUTPUT && blob->model->tied_embeddings;
        const struct blob_tensor *entry = &blob->tensors[alias ? 0 : i];
        const struct storage storage = {entry->dtype, entry->levels};
        struct blob_tensor expected = smol_tensor_layout(blob->model, key, mixed ? &storage : NULL);
        const char *wrong = NULL;
        if (mixed && has_storage(&expected))
            wrong = check_storage(blob, &storage, &n_used);
        if (wrong)
            return damaged_tensor(blob, error, SECTION_TENSORS, key, wrong,
                                  place + i * sizeof expected);
        expected.offset = alias ? blob->tensors[0].offset : end;
        if (memcmp(&expected, &blob->tensors[i], sizeof expected))
            return damaged_tensor(blob, error, SECTION_TENSORS, key, "does not match the model",
                                  place + i * sizeof expected);
        if (!alias && !checked_add(end, expected.size, &end))
            return damaged_section(blob, error, SECTION_TENSORS, "tensor sizes overflow");
        smol_tensor_next(blob->model, &key);
    }
    if (end != weights->offset + weights->size)
        return damaged_section(blob, error, SECTION_TENSORS,
                               "the tensors do not fill the weights section");
    return finish_mix(blob, n_used, error);
}

static smol_status check_template(struct blob *blob, smol_error *error)
{
    if (!(blob->header->required_features & FEATURE_TEMPLATE))
        return SMOL_OK;
    smol_error reason;
    smol_status status = take(blob, SECTION_TEMPLATE, 1, (const void **)&blob->template_section,
                              &blob->n_template, error);
    if (status)
        return status;
    status = smol_template_open(blob->template_section, blob->n_template, &blob->template, &reason);
    if (status == SMOL_ERROR_MEMORY)
        return smol_fail_memory(error, "the check of the template");
    if (status)
        return damaged_section(blob, error, SECTION_TEMPLATE, reason.message);
    return SMOL_OK;
}

/* Checks that the feature is set if and only if the template section needs it. */
static smol_status check_tools(struct blob *blob, smol_error *error)
{
    bool tools = blob->header->required_features & FEATURE_TOOLS;
    bool has_style = blob->template_section && blob->template.header.tool_style != TOOLS_NONE;
    if (tools == has_style)
        return SMOL_OK;
    return damaged_features(blob, error,
                            "the style of tool calls does not match the tools feature");
}

static smol_status check_digest_table(struct blob *blob, smol_error *error)
{
    smol_status status = take(blob, SECTION_DIGESTS, sizeof *blob->digests,
                              (const void **)&blob->digests, &blob->n_chunks, error);
    if (status)
        return status;
    uint64_t data_size = blob->header->file_size - blob->header->data_offset;
    if (blob->n_chunks != (data_size + BLOB_CHUNK_SIZE - 1) / BLOB_CHUNK_SIZE)
        return damaged_section(blob, error, SECTION_DIGESTS, "wrong number of chunk digests");
    return SMOL_OK;
}

static smol_status check_scanner(struct blob *blob, smol_error *error)
{
    bool ahead = blob->header->required_features & FEATURE_AHEAD;
    if (!(blob->header->required_features & FEATURE_SCANNER))
        return ahead ? damaged_features(blob, error, "the ahead feature without a scanner")
                     : SMOL_OK;
    smol_error reason;
    smol_status status = take(blob, SECTION_SCANNER, 1, (const void **)&blob->scanner_section,
                              &blob->n_scanner, error);
    if (status)
        return status;
    if (smol_scanner_tables_open(blob->scanner_section, blob->n_scanner, &blob->scanner, &reason))
        return damaged_section(blob, error, SECTION_SCANNER, reason.message);
    if (smol_scanner_looks_ahead(&blob->scanner) != ahead)
        return damaged_section(blob, error, SECTION_SCANNER,
                               "its fields do not match the ahead feature");
    return SMOL_OK;
}

/* Passes the scanner to the tokenizer, which must use a scanner if and only if the blob has one. */
static smol_status join_scanner(struct blob *blob, smol_error *error)
{
    bool wanted = blob->tokenizer.header.pretokenizer == PRETOKENIZE_SCANNER;
    blob->tokenizer.scanner = blob->scanner;
    return wanted == (blob->n_scanner > 0) ? SMOL_OK
                                           : damaged_section(blob, error, SECTION_TOKENIZER,
                                                             "does not match the scanner section");
}

static smol_status check_tokenizer(struct blob *blob, smol_error *error)
{
    const struct blob_section *section = blob->tokenizer_section =
        find_section(blob, SECTION_TOKENIZER);
    smol_status status = smol_blob_check(blob, section->offset, section->size, error);
    if (status)
        return status;
    uint64_t end = section->offset + section->size;
    if (!all_zero(blob->file.data + end, find_section(blob, SECTION_WEIGHTS)->offset - end))
        return damaged_within(blob, error, SECTION_TOKENIZER, "the padding after it is not zero",
                              end);
    smol_error reason;
    if (smol_tokenizer_tables_open(blob->file.data + section->offset, section->size,
                                   blob->model->vocab_size, blob->n_text ? &blob->text : NULL,
                                   &blob->tokenizer, &reason))
        return damaged_section(blob, error, SECTION_TOKENIZER, reason.message);
    return join_scanner(blob, error);
}

/* --- open and close ----------------------------------------------------------------------- */

static smol_status check_front(struct blob *blob, smol_error *error)
{
    static smol_status (*const checks[])(struct blob * blob, smol_error * error) = {
        check_header,   check_sections,       check_model, check_encoder, check_parts,
        check_inv_freq, check_small_sections, take_levels, check_tensors, check_template,
        check_tools,    check_digest_table,   check_text,  check_scanner,
    };
    smol_status status = SMOL_OK;
    blob->header = (const void *)blob->front;
    for (size_t i = 0; !status && i < sizeof checks / sizeof checks[0]; i++)
        status = checks[i](blob, error);
    return status;
}

static smol_status check_size(const struct blob_header *header, size_t size, const char *name,
                              smol_error *error)
{
    if (header->file_size == size)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: has %zu bytes, expected %" PRIu64 " (%s): fetch it again", name, size,
                     header->file_size, size < header->file_size ? "truncated" : "bytes appended");
}

/* Locates the front at the start of the file. Copies the front of a mapped file, because the file
 * may change while it is open or its medium may fail, but checked data must not change. */
static smol_status take_front(struct blob *blob, smol_error *error)
{
    struct blob_header header;
    const struct file_view *file = &blob->file;
    smol_status status = smol_blob_check_header(file->data, file->size, blob->path, error);
    if (status)
        return status;
    memcpy(&header, file->data, sizeof header);
    status = check_size(&header, file->size, blob->path, error);
    if (status)
        return status;
    blob->front = file->data;
    if (file->hold != FILE_MAPPED)
        return SMOL_OK;
    status = check_start(blob, &header, error); /* checks this copy of the header */
    if (status)
        return status;
    blob->front_copy = smol_aligned_alloc(BLOB_ALIGN, header.data_offset);
    if (!blob->front_copy)
        return smol_fail_memory(error, "the blob's front");
    memcpy(blob->front_copy, &header, sizeof header);
    memcpy((uint8_t *)blob->front_copy + sizeof header, file->data + sizeof header,
           header.data_offset - sizeof header);
    blob->front = blob->front_copy;
    return SMOL_OK;
}

static smol_status open_checked(struct blob *blob, enum verify verify, smol_error *error)
{
    smol_status status = take_front(blob, error);
    if (!status)
        status = check_front(blob, error);
    if (status)
        return status;
    blob->checked = smol_malloc(blob->n_chunks);
    if (!blob->checked)
        return smol_fail_memory(error, "the chunk table");
    for (size_t i = 0; i < blob->n_chunks; i++)
        atomic_init(&blob->checked[i], verify == VERIFY_OFF);
    status = check_tokenizer(blob, error);
    if (!status && verify == VERIFY_AT_OPEN)
        status = smol_blob_verify(blob, NULL, error);
    return status;
}

/* Opens the file. If the file changed meanwhile, reports that instead of the damage found. */
static smol_status open_file(struct blob *blob, enum verify verify, smol_error *error)
{
    return file_settle(&blob->file, blob->path, open_checked(blob, verify, error), error);
}

/* Names the blob and opens it with `open`. Closes it after an error. */
static smol_status open_named(struct blob *blob, const char *name, enum verify verify,
                              smol_status (*open)(struct blob *, enum verify, smol_error *),
                              smol_error *error)
{
    blob->path = smol_strdup(name);
    smol_status status = blob->path ? open(blob, verify, error) : smol_fail_memory(error, "a name");
    if (status)
        smol_blob_close(blob);
    return status;
}

smol_status smol_blob_read(int fd, const char *path, struct file_view *file, smol_error *error)
{
    struct blob_header header;
    const char *name = smol_base_name(path);
    size_t n, size;
    smol_status status =
        fd < 0 ? smol_file_peek(path, &header, sizeof header, &n, &size, error)
               : smol_file_peek_fd(fd, path, &header, sizeof header, &n, &size, error);
    if (!status)
        status = smol_blob_check_header(&header, n, name, error);
    if (!status)
        status = check_size(&header, size, name, error);
    if (status)
        return status;
    return fd < 0 ? smol_file_read(path, size, file, error)
                  : smol_file_read_fd(fd, path, size, file, error);
}

smol_status smol_blob_unopened(const char *path, smol_status status, smol_error *error)
{
    if (status != SMOL_ERROR_FILE || !smol_is_folder(path))
        return status;
    return smol_fail(error, SMOL_ERROR_FILE,
                     "%s: a folder, not a .smol blob: convert a checkpoint with `smolconv FOLDER "
                     "OUT.smol`",
                     path);
}

smol_status smol_blob_open(const char *path, bool use_mmap, enum verify verify, struct blob *blob,
                           smol_error *error)
{
    struct file_view file;
    *blob = (struct blob){0};
    smol_status status =
        use_mmap ? smol_file_map(path, &file, error) : smol_blob_read(-1, path, &file, error);
    return status ? smol_blob_unopened(path, status, error)
                  : smol_blob_open_view(&file, path, verify, blob, error);
}

smol_status smol_blob_open_view(struct file_view *file, const char *path, enum verify verify,
                                struct blob *blob, smol_error *error)
{
    *blob = (struct blob){.file = *file};
    *file = (struct file_view){0};
    return open_named(blob, smol_base_name(path), verify, open_file, error);
}

smol_status smol_blob_open_bytes(const void *data, size_t size, const char *name,
                                 enum verify verify, struct blob *blob, smol_error *error)
{
    *blob = (struct blob){.file = {.data = data, .size = size}};
    return open_named(blob, name, verify, open_checked, error);
}

smol_status smol_blob_check_header(const void *data, size_t size, const char *name,
                                   smol_error *error)
{
    struct blob_header header;
    const struct blob blob = {.path = (char *)(uintptr_t)name}; /* for messages */
    smol_status status = check_magic(&blob, data, size, error);
    if (status)
        return status;
    memcpy(&header, data, sizeof header);
    return check_start(&blob, &header, error);
}

static smol_status open_front(struct blob *blob, enum verify verify, smol_error *error)
{
    (void)verify;
    return check_front(blob, error);
}

smol_status smol_blob_open_front(const void *front, const char *name, struct blob *blob,
                                 smol_error *error)
{
    *blob = (struct blob){.front = front};
    return open_named(blob, name, VERIFY_FIRST_USE, open_front, error);
}

void smol_blob_close(struct blob *blob)
{
    smol_file_close(&blob->file);
    smol_free(blob->front_copy);
    smol_free(blob->model_copy);
    smol_free((void *)blob->checked);
    smol_free(blob->path);
    *blob = (struct blob){0};
}

/* --- chunks ------------------------------------------------------------------------------- */

/* Returns the tensor that contains the byte at `offset`, or NULL. */
static const struct blob_tensor *tensor_at(const struct blob *blob, uint64_t offset)
{
    for (size_t i = 0; i < blob->n_tensors; i++) {
        const struct blob_tensor *tensor = &blob->tensors[i];
        if (offset >= tensor->offset && offset - tensor->offset < tensor->size)
            return tensor;
    }
    return NULL;
}

static const char *tensor_name(const struct blob_tensor *tensor, char name[MAX_NAME])
{
    return smol_tensor_name(tensor_key(tensor), name);
}

const char *smol_blob_place(const struct blob *blob, uint64_t offset, char name[MAX_PLACE])
{
    const struct blob_section *sections = section_table(blob);
    const struct blob_tensor *tensor = tensor_at(blob, offset);
    char label[MAX_NAME];
    size_t n = 0;
    while (n < blob->header->n_sections && sections[n].offset <= offset)
        n++;
    if (tensor)
        snprintf(name, MAX_PLACE, "weights, tensor %s", tensor_name(tensor, label));
    else if (n > 0)
        snprintf(name, MAX_PLACE, "section %s", smol_section_name(sections[n - 1].kind));
    else
        snprintf(name, MAX_PLACE, offset < sizeof *blob->header ? "header" : "section table");
    return name;
}

/* Reports a damaged chunk, naming everything that has bytes in it. */
static smol_status damaged_chunk(const struct blob *blob, uint64_t offset, uint64_t size,
                                 smol_error *error)
{
    const struct blob_tensor *first = tensor_at(blob, offset);
    const struct blob_tensor *last = tensor_at(blob, offset + size - 1);
    bool several = last && last != first;
    char place[MAX_PLACE], name[MAX_NAME];
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: data damaged (%s%s%s, bytes %" PRIu64 " to %" PRIu64
                     "): fetch a fresh copy",
                     blob->path, smol_blob_place(blob, offset, place), several ? " to " : "",
                     several ? tensor_name(last, name) : "", offset, offset + size - 1);
}

static uint64_t chunk_start(const struct blob *blob, size_t chunk)
{
    return blob->header->data_offset + (uint64_t)chunk * BLOB_CHUNK_SIZE;
}

/* Returns the bytes of a chunk; the last one may be shorter. */
static uint64_t chunk_size(const struct blob *blob, size_t chunk)
{
    uint64_t rest = blob->header->file_size - chunk_start(blob, chunk);
    return rest < BLOB_CHUNK_SIZE ? rest : BLOB_CHUNK_SIZE;
}

smol_status smol_blob_check_chunk(const struct blob *blob, size_t chunk, const uint8_t *data,
                                  smol_error *error)
{
    uint64_t start = chunk_start(blob, chunk), length = chunk_size(blob, chunk);
    if (smol_digest(data, length) != blob->digests[chunk])
        return damaged_chunk(blob, start, length, error);
    return SMOL_OK;
}

static smol_status check_chunk(const struct blob *blob, size_t chunk, smol_error *error)
{
    const uint8_t *data = blob->file.data + chunk_start(blob, chunk);
    smol_status status = smol_blob_check_chunk(blob, chunk, data, error);
    if (status)
        return status;
    /* relaxed: the flag only avoids repeated work on bytes that do not change */
    atomic_store_explicit(&blob->checked[chunk], 1, memory_order_relaxed);
    return SMOL_OK;
}

smol_status smol_blob_check(const struct blob *blob, uint64_t offset, uint64_t size,
                            smol_error *error)
{
    if (size == 0)
        return SMOL_OK;
    size_t first = (offset - blob->header->data_offset) / BLOB_CHUNK_SIZE;
    size_t last = (offset - blob->header->data_offset + size - 1) / BLOB_CHUNK_SIZE;
    smol_status status = SMOL_OK;
    for (size_t chunk = first; !status && chunk <= last; chunk++)
        if (!atomic_load_explicit(&blob->checked[chunk], memory_order_relaxed))
            status = check_chunk(blob, chunk, error);
    return status;
}

/* --- dtypes ------------------------------------------------------------------------------- */

enum blob_dtype smol_blob_dtype(const struct blob *blob)
{
    uint64_t weights[DTYPE_INT4 + 1] = {0};
    for (size_t i = 0; i < blob->n_tensors; i++) {
        const struct blob_tensor *t = &blob->tensors[i];
        if (has_storage(t) && t->role != ROLE_EMBED && t->role != ROLE_OUTPUT)
            weights[t->dtype] += t->rows * t->cols;
    }
    enum blob_dtype most = DTYPE_F32;
    for (enum blob_dtype dtype = DTYPE_BF16; dtype <= DTYPE_INT4; dtype++)
        most = weights[dtype] > weights[most] ? dtype : most;
    return most;
}

/* Appends ", NAME DTYPE" if it fits, with a bracket for the first. */
static void add_exception(char text[MAX_MIX], const char *name, enum blob_dtype dtype)
{
    size_t n = strlen(text);
    snprintf(text + n, MAX_MIX - n, "%s%s %s", strchr(text, '(') ? ", " : " (", name,
             smol_dtype_name(dtype));
}

const char *smol_blob_dtypes(const struct blob *blob, char text[MAX_MIX])
{
    enum blob_dtype most = smol_blob_dtype(blob);
    bool others[DTYPE_INT4 + 1] = {false};
    const struct blob_tensor *embed = blob->tensors, *output = embed + blob->n_tensors - 1;
    snprintf(text, MAX_MIX, "%s", smol_dtype_name(most));
    if (embed->dtype != most)
        add_exception(text, "embedding", embed->dtype);
    if (output->dtype != most && !blob->model->tied_embeddings)
        add_exception(text, "output", output->dtype);
    for (const struct blob_tensor *t = embed + 1; t < output; t++)
        others[t->dtype] |= has_storage(t) && t->dtype != most;
    for (enum blob_dtype dtype = DTYPE_F32; dtype <= DTYPE_INT4; dtype++)
        if (others[dtype])
            add_exception(text, "others", dtype);
    if (strchr(text, '('))
        snprintf(text + strlen(text), MAX_MIX - strlen(text), ")");
    return text;
}

/* --- verification of everything ----------------------------------------------------------- */

/* Returns whether all of values[0..n) are finite. */
static bool all_finite(const float *values, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!f32_is_finite(values[i]))
            return false;
    return true;
}

/* Parts of a block without padding, which are most of it, are checked without a branch per element
 * so that compilers can vectorize the loop. */

static bool f32_column_is_finite(const float column[TILE_ROWS])
{
    bool finite = true;
    for (size_t row = 0; row < TILE_ROWS; row++)
        finite &= f32_is_finite(column[row]);
    return finite;
}

static bool f32_block_is_well_formed(const float *block, uint64_t cols, uint64_t rows)
{
    for (uint64_t col = 0; col < cols; col++, block += TILE_ROWS)
        if (rows == TILE_ROWS
                ? !f32_column_is_finite(block)
                : !all_finite(block, rows) || !all_zero((const uint8_t *)(block + rows),
                                                        (TILE_ROWS - rows) * sizeof *block))
            return false;
    return true;
}

enum { PAIR_COLUMN = 2 * TILE_ROWS }; /* elements of two neighbouring columns */

static bool bf16_columns_are_finite(const uint16_t columns[PAIR_COLUMN])
{
    bool finite = true;
    for (size_t i = 0; i < PAIR_COLUMN; i++)
        finite &= f32_is_finite(f32_from_bf16(columns[i]));
    return finite;
}

static bool bf16_block_is_well_formed(const uint16_t *block, uint64_t cols, uint64_t rows)
{
    for (uint64_t col = 0; col < cols; col += 2, block += PAIR_COLUMN) {
        if (rows == TILE_ROWS && col + 1 < cols) {
            if (!bf16_columns_are_finite(block))
                return false;
            continue;
        }
        for (uint64_t i = 0; i < PAIR_COLUMN; i++)
            if (i / 2 < rows && col + i % 2 < cols ? !f32_is_finite(f32_from_bf16(block[i]))
                                                   : block[i] != 0)
                return false;
    }
    return true;
}

static bool group_has_none(const int8_t weights[QUAD_BYTES * GROUP_QUADS], int8_t value)
{
    bool none = true;
    for (size_t i = 0; i < QUAD_BYTES * GROUP_QUADS; i++)
        none &= weights[i] != value;
    return none;
}

/* Returns whether scales are finite and not negative, no weight is -128, and padding is zero. */
static bool int8_block_is_well_formed(const uint8_t *block, uint64_t cols, uint64_t rows)
{
    uint64_t groups = count_groups(cols);
    if (groups % 2 && !all_zero(block + group_scales_offset(DTYPE_INT8, groups), SCALES_BYTES / 2))
        return false;
    for (uint64_t group = 0; group < groups; group++) {
        const uint16_t *scales = (const void *)(block + group_scales_offset(DTYPE_INT8, group));
        const int8_t *weights = (const void *)(block + group_weights_offset(DTYPE_INT8, group));
        for (uint64_t row = 0; row < TILE_ROWS; row++)
            if (row < rows ? scales[row] >= 0x7c00 : scales[row] != 0)
                return false;
        if (rows == TILE_ROWS && (group + 1) * GROUP_INPUTS <= cols) {
            if (!group_has_none(weights, -128))
                return false;
            continue;
        }
        for (uint64_t i = 0; i < QUAD_BYTES * GROUP_QUADS; i++) {
            uint64_t row = i % QUAD_BYTES / 4;
            uint64_t col = group * GROUP_INPUTS + i / QUAD_BYTES * 4 + i % 4;
            if (row < rows && col < cols ? weights[i] == -128 : weights[i] != 0)
                return false;
        }
    }
    return true;
}

/* Returns whether a scale of int6, int5 or int4 is finite and not -0. */
static bool scale_is_valid(uint16_t scale)
{
    return (scale & 0x7fff) < 0x7c00 && scale != 0x8000;
}

/* Returns whether the scales of int6, int5 or int4 are valid, and padding is zero. */
static bool coded_block_is_well_formed(const uint8_t *block, enum blob_dtype dtype, uint64_t cols,
                                       uint64_t rows)
{
    uint64_t groups = count_groups(cols);
    if (groups % 2 && !all_zero(block + group_scales_offset(dtype, groups), SCALES_BYTES / 2))
        return false;
    for (uint64_t group = 0; group < groups; group++) {
        const uint16_t *scales = (const void *)(block + group_scales_offset(dtype, group));
        const uint8_t *weights = block + group_weights_offset(dtype, group);
        uint64_t inputs = cols - group * GROUP_INPUTS;
        for (uint64_t row = 0; row < TILE_ROWS; row++)
            if (row < rows ? !scale_is_valid(scales[row]) : scales[row] != 0)
                return false;
        for (uint64_t i = 0; (rows < TILE_ROWS || inputs < GROUP_INPUTS) && i < GROUP_INPUTS; i++)
            for (uint64_t row = i < inputs ? rows : 0; row < TILE_ROWS; row++)
                if (group_code(dtype, weights, i, row) != 0)
                    return false;
    }
    return true;
}

/* Checks one row block of a matrix, of which `rows` rows are not padding. */
static bool block_is_well_formed(const uint8_t *block, enum blob_dtype dtype, uint64_t cols,
                                 uint64_t rows)
{
    switch (dtype) {
    case DTYPE_F32:
        return f32_block_is_well_formed((const void *)block, cols, rows);
    case DTYPE_BF16:
        return bf16_block_is_well_formed((const void *)block, cols, rows);
    case DTYPE_INT8:
        return int8_block_is_well_formed(block, cols, rows);
    case DTYPE_INT6:
    case DTYPE_INT5:
    case DTYPE_INT4:
        return coded_block_is_well_formed(block, dtype, cols, rows);
    }
    return false;
}

static bool tensor_is_well_formed(const uint8_t *data, const struct blob_tensor *tensor)
{
    if (tensor->layout != LAYOUT_TILES) {
        uint64_t n = tensor->rows * tensor->cols, used = n * sizeof(float);
        return all_finite((const void *)data, n) && all_zero(data + used, tensor->size - used);
    }
    uint64_t bytes = smol_block_bytes(tensor->dtype, tensor->cols);
    for (uint64_t row = 0; row < tensor->rows; row += TILE_ROWS, data += bytes) {
        uint64_t rows = rows_in_block(row, tensor->rows);
        if (!block_is_well_formed(data, tensor->dtype, tensor->cols, rows))
            return false;
    }
    return true;
}

/* Progress of a verification, in bytes. */
struct verification {
    const struct listener *listener;
    uint64_t done, told, total;
};

static struct verification start_verification(const struct blob *blob,
                                              const struct listener *listener)
{
    uint64_t total = blob->header->file_size - blob->header->data_offset;
    for (size_t i = 0; i < blob->n_tensors; i++)
        total += blob->tensors[i].size;
    return (struct verification){.listener = listener, .total = total};
}

static smol_status advance(struct verification *v, uint64_t size, const struct blob *blob,
                           smol_error *error)
{
    enum { TELL_AFTER = 1 << 20 };
    v->done += size;
    if (v->done - v->told < TELL_AFTER || v->done >= v->total)
        return SMOL_OK;
    v->told = v->done;
    return listener_cancels(v->listener, v->done, v->total)
               ? smol_fail(error, SMOL_ERROR_CANCELLED, "%s: verification cancelled", blob->path)
               : SMOL_OK;
}

smol_status smol_blob_verify(const struct blob *blob, const struct listener *listener,
                             smol_error *error)
{
    struct verification v = start_verification(blob, listener);
    smol_status status = SMOL_OK;
    for (size_t chunk = 0; !status && chunk < blob->n_chunks; chunk++) {
        status = check_chunk(blob, chunk, error);
        if (!status)
            status = advance(&v, chunk_size(blob, chunk), blob, error);
    }
    for (size_t i = 0; !status && i < blob->n_tensors; i++) {
        const struct blob_tensor *tensor = &blob->tensors[i];
        if (!tensor_is_well_formed(blob->file.data + tensor->offset, tensor))
            status = damaged_tensor(blob, error, SECTION_WEIGHTS, tensor_key(tensor),
                                    "breaks the format", tensor->offset);
        else
            status = advance(&v, tensor->size, blob, error);
    }
    return status;
}
