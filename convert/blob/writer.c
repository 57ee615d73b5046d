/* Writes a blob, see writer.h. */
#include "convert/blob/writer.h"

#include <inttypes.h>
#include <string.h>

#include "cli/output.h"
#include "common/checked.h"
#include "common/hash.h"
#include "common/memory.h"
#include "format/embedder.h"
#include "format/layout.h"
#include "format/model.h"
#include "format/scanner.h"
#include "format/sections.h"
#include "format/template.h"
#include "format/text.h"

struct blob_writer {
    struct blob_sink sink;
    struct output output; /* the target of the sink; without a path if the sink is the caller's */
    uint8_t *front;       /* (data_offset) bytes */
    struct blob_header *header;
    uint64_t *digests; /* (n_chunks), within front */
    size_t n_digested;
    uint64_t written; /* bytes of the file before the partial page */
    size_t n_partial;
    /* The start of an incomplete huge page. Linux keeps a file in the pages in which it was
     * written, so that a new blob can be mapped in huge pages. */
    uint8_t partial[HUGE_PAGE];
};

static uint64_t weights_size(const struct blob_contents *contents)
{
    const struct blob_model *model = contents->model;
    uint64_t size = contents->matrix_bytes;
    bool planned = size > 0;
    struct tensor_key key = {.role = ROLE_EMBED};
    size_t i = 0;
    do {
        const struct storage *storage = planned ? NULL : mix_storage(&contents->mix, i++);
        const struct blob_tensor layout = smol_tensor_layout(model, key, storage);
        bool tied = key.role == ROLE_OUTPUT && model->tied_embeddings;
        if (!tied && !(planned && has_storage(&layout)))
            size += layout.size;
    } while (smol_tensor_next(model, &key));
    return size;
}

static void fill_tensor_table(const struct blob_contents *contents, uint64_t offset,
                              struct blob_tensor *table)
{
    const struct blob_model *model = contents->model;
    const struct blob_tensor *embed = table;
    struct tensor_key key = {.role = ROLE_EMBED};
    do {
        *table =
            smol_tensor_layout(model, key, mix_storage(&contents->mix, (size_t)(table - embed)));
        bool alias = key.role == ROLE_OUTPUT && model->tied_embeddings;
        table->offset = alias ? embed->offset : offset;
        offset += alias ? 0 : table->size;
        table++;
    } while (smol_tensor_next(model, &key));
}

/* Returns the number of data chunks, which determines the size of the digest table. The table does
 * not affect the number: the data starts at a chunk boundary, whatever the size of the front. */
static uint64_t count_chunks(const struct blob_contents *contents)
{
    uint64_t data = round_up(contents->n_tokenizer, BLOB_CHUNK_SIZE) + weights_size(contents);
    return round_up(data, BLOB_CHUNK_SIZE) / BLOB_CHUNK_SIZE;
}

static bool has_tools(const struct blob_contents *contents)
{
    struct blob_template header;
    if (!contents->template_section)
        return false;
    memcpy(&header, contents->template_section, sizeof header);
    return header.tool_style != TOOLS_NONE;
}

/* Returns the features that a reader of the text section needs. */
static uint64_t text_features(const struct blob_contents *contents)
{
    struct text_tables tables;
    smol_error error;
    if (contents->n_text == 0)
        return 0;
    if (smol_text_tables_open(contents->text, contents->n_text, &tables, &error))
        return FEATURE_TEXT;
    return FEATURE_TEXT | (smol_text_is_extended(&tables) ? FEATURE_VOCABULARY : 0) |
           (tables.header.n_cluster_blocks ? FEATURE_CLUSTERS : 0);
}

static bool looks_ahead(const struct blob_contents *contents)
{
    struct scanner_tables tables;
    smol_error error;
    return contents->n_scanner > 0 &&
           !smol_scanner_tables_open(contents->scanner, contents->n_scanner, &tables, &error) &&
           smol_scanner_looks_ahead(&tables);
}

/* Returns the features beyond FEATURE_EMBEDDER that the embedder section needs. */
static uint64_t embedder_features(const struct blob_contents *contents)
{
    struct blob_embedder header;
    if (contents->n_embedder == 0)
        return 0;
    memcpy(&header, contents->embedder, sizeof header);
    return (smol_embedder_is_normed(&header) ? FEATURE_NORMED : 0) |
           (smol_embedder_is_doubled(&header) ? FEATURE_DOUBLED : 0);
}

/* Returns the features that a reader of the contents needs, as bits of enum blob_feature. */
static uint64_t features_of(const struct blob_contents *contents)
{
    return (smol_model_is_plain(contents->model) ? 0 : FEATURE_BLOCKS) |
           (contents->template_section ? FEATURE_TEMPLATE : 0) |
           (contents->n_scanner ? FEATURE_SCANNER : 0) |
           (looks_ahead(contents) ? FEATURE_AHEAD : 0) | text_features(contents) |
           (contents->mix.storage ? FEATURE_MIXED : 0) | (has_tools(contents) ? FEATURE_TOOLS : 0) |
           (smol_model_has_components(contents->model) ? FEATURE_COMPONENTS : 0) |
           (contents->sees_ahead ? FEATURE_ENCODER : 0) |
           (contents->sees_ahead && smol_encoder_needs_around(contents->model, contents->encoder)
                ? FEATURE_AROUND
                : 0) |
           (contents->model->states.kind ? FEATURE_STATES : 0) |
           (contents->model->experts.n_experts > 0 ? FEATURE_EXPERTS : 0) |
           (contents->model->experts.own_norms ? FEATURE_OWN_NORMS : 0) |
           (contents->n_embedder ? FEATURE_EMBEDDER : 0) |
           (contents->model->hybrid.parallel ? FEATURE_HYBRID : 0) |
           (model_has_latent(contents->model) ? FEATURE_LATENT : 0) |
           (model_is_varied(contents->model) ? FEATURE_VARIED : 0) |
           (smol_model_is_partial(contents->model) ? FEATURE_PARTIAL : 0) |
           (contents->model->blocks & BLOCK_RELATIVE ? FEATURE_RELATIVE : 0) |
           (contents->model->blocks & BLOCK_GATE_HEADS ? FEATURE_HEAD_GATES : 0) |
           (smol_model_has_further(contents->model) ? FEATURE_FURTHER : 0) |
           embedder_features(contents);
}

/* Returns the lowest minor version that defines the features. */
static uint16_t minor_of(uint64_t features)
{
    return features >= FEATURE_STATES                          ? BLOB_MINOR_STATES
           : features & (FEATURE_VOCABULARY | FEATURE_ENCODER) ? BLOB_MINOR_VOCABULARY
           : features & FEATURE_COMPONENTS                     ? BLOB_MINOR_COMPONENTS
           : features & FEATURE_TOOLS                          ? BLOB_MINOR_TOOLS
           : features & FEATURE_MIXED                          ? BLOB_MINOR_MIXED
           : features                                          ? BLOB_MINOR_FEATURES
                                                               : BLOB_MINOR;
}

/* The contents of a section: NULL for those that are written later. */
struct contents_part {
    const void *data;
    uint64_t size;
};

static struct contents_part part_of(const struct blob_contents *contents, enum section_kind kind)
{
    const struct blob_model *model = contents->model;
    switch (kind) {
    case SECTION_MODEL:
        return (struct contents_part){model, MODEL_SECTION_SIZE};
    case SECTION_INV_FREQ:
        return (struct contents_part){contents->inv_freq,
                                      smol_inv_freq_count(model) * sizeof(float)};
    case SECTION_STOP:
        return (struct contents_part){contents->stop, contents->n_stop * sizeof *contents->stop};
    case SECTION_GENERATION:
        return (struct contents_part){contents->generation, sizeof *contents->generation};
    case SECTION_PROVENANCE:
        return (struct contents_part){contents->provenance, contents->n_provenance};
    case SECTION_TENSORS:
        return (struct contents_part){NULL, smol_tensor_count(model) * sizeof(struct blob_tensor)};
    case SECTION_DIGESTS:
        return (struct contents_part){NULL, count_chunks(contents) * sizeof(uint64_t)};
    case SECTION_LAYERS:
        return (struct contents_part){contents->layers, model->n_layers};
    case SECTION_SCANNER:
        return (struct contents_part){contents->scanner, contents->n_scanner};
    case SECTION_TEXT:
        return (struct contents_part){contents->text, contents->n_text};
    case SECTION_TEMPLATE:
        return (struct contents_part){contents->template_section, contents->n_template};
    case SECTION_ENCODER:
        return (struct contents_part){contents->encoder, sizeof *contents->encoder};
    case SECTION_STATES:
        return (struct contents_part){&model->states, sizeof model->states};
    case SECTION_EXPERTS:
        return (struct contents_part){&model->experts, sizeof model->experts};
    case SECTION_HYBRID:
        return (struct contents_part){&model->hybrid, sizeof model->hybrid};
    case SECTION_LATENT:
        return (struct contents_part){&model->latent, sizeof model->latent};
    case SECTION_VARIED:
        return (struct contents_part){&model->varied, sizeof model->varied};
    case SECTION_PARTIAL:
        return (struct contents_part){&model->partial, sizeof model->partial};
    case SECTION_EMBEDDER:
        return (struct contents_part){contents->embedder, contents->n_embedder};
    case SECTION_LEVELS:
        return (struct contents_part){contents->mix.levels,
                                      contents->mix.n_levels * sizeof *contents->mix.levels};
    case SECTION_TOKENIZER:
        return (struct contents_part){NULL, contents->n_tokenizer};
    case SECTION_WEIGHTS:
        break;
    }
    return (struct contents_part){NULL, weights_size(contents)};
}

uint64_t smol_writer_plan(const struct blob_contents *contents, struct section_plan *plan)
{
    uint32_t kinds[MAX_SECTIONS];
    plan->n = smol_list_sections(features_of(contents), kinds);
    uint64_t end = sizeof(struct blob_header) + plan->n * sizeof *plan->table;
    for (size_t i = 0; i < plan->n; i++) {
        bool front = kinds[i] < SECTION_FIRST_DATA;
        struct contents_part part = part_of(contents, kinds[i]);
        plan->data[i] = part.data;
        plan->table[i] = (struct blob_section){
            .kind = kinds[i],
            .offset = round_up(end, front ? BLOB_ALIGN : BLOB_CHUNK_SIZE),
            .size = part.size,
        };
        end = plan->table[i].offset + part.size;
    }
    return end;
}

static uint64_t offset_of(const struct section_plan *plan, enum section_kind kind)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < plan->n; i++)
        if (plan->table[i].kind == kind)
            offset = plan->table[i].offset;
    return offset;
}

static smol_status build_front(struct blob_writer *writer, const struct blob_contents *contents,
                               smol_error *error)
{
    struct section_plan plan;
    uint64_t file_size = smol_writer_plan(contents, &plan);
    uint64_t data_offset = offset_of(&plan, SECTION_TOKENIZER);
    if (data_offset > BLOB_MAX_FRONT)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "header and tables of %" PRIu64 " bytes: a blob has room for %d",
                         data_offset, BLOB_MAX_FRONT);
    writer->front = smol_calloc(1, data_offset);
    if (!writer->front)
        return smol_fail_memory(error, "the blob's front");
    writer->header = (struct blob_header *)writer->front;
    *writer->header = (struct blob_header){
        .magic = BLOB_MAGIC,
        .major = BLOB_MAJOR,
        .minor = minor_of(features_of(contents)),
        .n_sections = (uint32_t)plan.n,
        .file_size = file_size,
        .data_offset = data_offset,
        .required_features = features_of(contents),
    };
    memcpy(writer->front + sizeof *writer->header, plan.table, plan.n * sizeof *plan.table);
    for (size_t i = 0; i < plan.n; i++)
        if (plan.data[i] && plan.table[i].size)
            memcpy(writer->front + plan.table[i].offset, plan.data[i], plan.table[i].size);
    fill_tensor_table(contents, offset_of(&plan, SECTION_WEIGHTS),
                      (void *)(writer->front + offset_of(&plan, SECTION_TENSORS)));
    writer->digests = (void *)(writer->front + offset_of(&plan, SECTION_DIGESTS));
    writer->written = data_offset;
    return SMOL_OK;
}

/* Digests and writes whole chunks, or the last chunk, which may be shorter. */
static smol_status write_chunks(struct blob_writer *writer, const uint8_t *bytes, size_t size,
                                smol_error *error)
{
    for (size_t at = 0; at < size; at += BLOB_CHUNK_SIZE) {
        size_t length = size - at < BLOB_CHUNK_SIZE ? size - at : BLOB_CHUNK_SIZE;
        writer->digests[writer->n_digested++] = smol_digest(bytes + at, length);
    }
    smol_status status = writer->sink.put(writer->sink.target, writer->written, bytes, size, error);
    writer->written += size;
    return status;
}

/* Returns the bytes from `written` to the end of its huge page. */
static size_t page_rest(const struct blob_writer *writer)
{
    return HUGE_PAGE - writer->written % HUGE_PAGE;
}

static smol_status write_partial(struct blob_writer *writer, smol_error *error)
{
    size_t size = writer->n_partial;
    writer->n_partial = 0;
    return write_chunks(writer, writer->partial, size, error);
}

smol_status smol_writer_append(struct blob_writer *writer, const void *data, size_t size,
                               smol_error *error)
{
    const uint8_t *bytes = data;
    smol_status status = SMOL_OK;
    while (!status && size > 0) {
        size_t rest = page_rest(writer), room = rest - writer->n_partial;
        size_t n = size < room ? size : room;
        if (n == rest) { /* without a copy */
            status = write_chunks(writer, bytes, n, error);
        } else {
            memcpy(writer->partial + writer->n_partial, bytes, n);
            writer->n_partial += n;
            if (writer->n_partial == rest)
                status = write_partial(writer, error);
        }
        bytes += n;
        size -= n;
    }
    return status;
}

static smol_status append_tokenizer(struct blob_writer *writer,
                                    const struct blob_contents *contents, smol_error *error)
{
    static const uint8_t zeros[BLOB_CHUNK_SIZE];
    size_t padded = round_up(contents->n_tokenizer, BLOB_CHUNK_SIZE);
    smol_status status =
        smol_writer_append(writer, contents->tokenizer, contents->n_tokenizer, error);
    if (status)
        return status;
    return smol_writer_append(writer, zeros, padded - contents->n_tokenizer, error);
}

static struct blob_writer *new_writer(void)
{
    struct blob_writer *writer = smol_calloc(1, sizeof *writer);
    if (writer)
        writer->output.fd = -1;
    return writer;
}

/* Writes everything before the weights into the sink, which is set. Frees the writer on an
 * error. */
static smol_status start_blob(struct blob_writer *writer, const struct blob_contents *contents,
                              struct blob_writer **out, smol_error *error)
{
    smol_status status = build_front(writer, contents, error);
    if (!status)
        status = append_tokenizer(writer, contents, error);
    if (status)
        smol_writer_abort(writer);
    else
        *out = writer;
    return status;
}

static smol_status put_into_output(void *target, uint64_t offset, const void *data, size_t size,
                                   smol_error *error)
{
    return smol_output_write(target, offset, data, size, error);
}

smol_status smol_writer_open(struct output *output, const struct blob_contents *contents,
                             struct blob_writer **out, smol_error *error)
{
    *out = NULL;
    struct blob_writer *writer = new_writer();
    if (!writer) {
        smol_output_discard(output);
        return smol_fail_memory(error, "the blob writer");
    }
    writer->output = *output;
    *output = (struct output){.fd = -1};
    writer->sink = (struct blob_sink){put_into_output, &writer->output};
    return start_blob(writer, contents, out, error);
}

smol_status smol_writer_open_sink(const struct blob_sink *sink,
                                  const struct blob_contents *contents, struct blob_writer **out,
                                  smol_error *error)
{
    *out = NULL;
    struct blob_writer *writer = new_writer();
    if (!writer)
        return smol_fail_memory(error, "the blob writer");
    writer->sink = *sink;
    return start_blob(writer, contents, out, error);
}

smol_status smol_writer_finish(struct blob_writer *writer, smol_error *error)
{
    smol_status status = write_partial(writer, error);
    if (!status) {
        struct blob_header *header = writer->header;
        header->front_digest =
            smol_digest(writer->front + BLOB_DIGEST_START, header->data_offset - BLOB_DIGEST_START);
        status =
            writer->sink.put(writer->sink.target, 0, writer->front, header->data_offset, error);
    }
    if (!status && writer->output.path)
        status = smol_output_commit(&writer->output, error);
    smol_writer_abort(writer);
    return status;
}

void smol_writer_abort(struct blob_writer *writer)
{
    if (!writer)
        return;
    smol_output_discard(&writer->output);
    smol_free(writer->front);
    smol_free(writer);
}
