/* Checks of the front of a blob, see front.h. They follow the order of the file: digest and
 * features, section table, then each section. */
#include "format/front.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/hash.h"
#include "common/number.h"
#include "format/sections.h"

/* --- what the checks share ---------------------------------------------------------------- */

smol_status smol_damaged(const struct blob *blob, smol_error *error, const char *what,
                         uint64_t offset)
{
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: %s (offset %" PRIu64 "): convert again or fetch a fresh copy", blob->path,
                     what, offset);
}

const struct blob_section *smol_find_section(const struct blob *blob, enum section_kind kind)
{
    const struct blob_section *section = section_table(blob);
    while (section->kind != kind)
        section++;
    return section;
}

smol_status smol_damaged_within(const struct blob *blob, smol_error *error, uint32_t kind,
                                const char *what, uint64_t offset)
{
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: section %s: %s (offset %" PRIu64 "): convert again or fetch a fresh copy",
                     blob->path, smol_section_name(kind), what, offset);
}

smol_status smol_damaged_section(const struct blob *blob, smol_error *error, enum section_kind kind,
                                 const char *what)
{
    return smol_damaged_within(blob, error, kind, what, smol_find_section(blob, kind)->offset);
}

smol_status smol_damaged_features(const struct blob *blob, smol_error *error, const char *what)
{
    return smol_damaged(blob, error, what, offsetof(struct blob_header, required_features));
}

smol_status smol_damaged_tensor(const struct blob *blob, smol_error *error, uint32_t kind,
                                struct tensor_key key, const char *what, uint64_t offset)
{
    char name[MAX_NAME], text[2 * MAX_NAME];
    snprintf(text, sizeof text, "tensor %s %s", smol_tensor_name(key, name), what);
    return smol_damaged_within(blob, error, kind, text, offset);
}

smol_status smol_take_section(const struct blob *blob, enum section_kind kind, size_t unit,
                              const void **data, size_t *n, smol_error *error)
{
    const struct blob_section *section = smol_find_section(blob, kind);
    if (section->size % unit)
        return smol_damaged_section(blob, error, kind,
                                    "its size is not a whole number of elements");
    *data = blob->front + section->offset;
    *n = section->size / unit;
    return SMOL_OK;
}

/* --- header and section table -------------------------------------------------------------- */

static smol_status check_header(struct blob *blob, smol_error *error)
{
    const struct blob_header *header = blob->header;
    uint64_t digest =
        smol_digest(blob->front + BLOB_DIGEST_START, header->data_offset - BLOB_DIGEST_START);
    if (digest != header->front_digest)
        return smol_damaged(blob, error, "digest of header and tables does not match", 8);
    uint64_t unknown = header->required_features & ~(uint64_t)KNOWN_FEATURES;
    if (unknown)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: needs features 0x%" PRIx64 ": use a newer release", blob->path,
                         unknown);
    if (header->reserved)
        return smol_damaged(blob, error, "a reserved field is not zero", 56);
    return SMOL_OK;
}

/* Checks that each section begins at the end of the previous one, rounded up to its alignment, with
 * zeros between. Sections therefore cannot overlap, and no data can hide between them. */
static smol_status check_sections(struct blob *blob, smol_error *error)
{
    const struct blob_header *header = blob->header;
    uint32_t kinds[MAX_SECTIONS];
    size_t n_sections = smol_list_sections(header->required_features, kinds);
    if (header->n_sections != n_sections)
        return smol_damaged(blob, error, "wrong number of sections", 20);
    const struct blob_section *sections = section_table(blob);
    uint64_t end = sizeof *header + n_sections * sizeof *sections;
    for (size_t i = 0; i < n_sections; i++) {
        const struct blob_section *section = &sections[i];
        uint64_t place = sizeof *header + i * sizeof *section;
        bool front = section->kind < SECTION_FIRST_DATA;
        uint64_t start = round_up(end, front ? BLOB_ALIGN : BLOB_CHUNK_SIZE);
        uint64_t limit = front ? header->data_offset : header->file_size;
        if (section->kind != kinds[i] || section->reserved)
            return smol_damaged_within(blob, error, kinds[i], "unexpected entry in its place",
                                       place);
        if (section->offset != start || !range_within(start, section->size, limit))
            return smol_damaged_within(blob, error, kinds[i], "wrong offset or size", place);
        /* padding in the data is checked together with the tokenizer */
        if (start <= header->data_offset && !all_zero(blob->front + end, start - end))
            return smol_damaged_within(blob, error, kinds[i], "the padding before it is not zero",
                                       end);
        end = start + section->size;
    }
    if (smol_find_section(blob, SECTION_TOKENIZER)->offset != header->data_offset)
        return smol_damaged(blob, error, "the data sections do not start at data_offset", 32);
    if (end != header->file_size)
        return smol_damaged(blob, error, "bytes after the last section", end);
    return SMOL_OK;
}

/* --- small sections ------------------------------------------------------------------------ */

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
    smol_status status = smol_take_section(blob, SECTION_STOP, sizeof *blob->stop,
                                           (const void **)&blob->stop, &blob->n_stop, error);
    if (status)
        return status;
    for (size_t i = 0; i < blob->n_stop; i++)
        if (blob->stop[i] >= blob->model->vocab_size ||
            (i > 0 && blob->stop[i] <= blob->stop[i - 1]))
            return smol_damaged_section(blob, error, SECTION_STOP,
                                        "ids out of range or out of order");

    size_t n = 0;
    status = smol_take_section(blob, SECTION_GENERATION, sizeof *blob->generation,
                               (const void **)&blob->generation, &n, error);
    if (status)
        return status;
    if (n != 1 || !generation_is_valid(blob->generation))
        return smol_damaged_section(blob, error, SECTION_GENERATION,
                                    "malformed generation defaults");
    return smol_take_section(blob, SECTION_PROVENANCE, 1, (const void **)&blob->provenance,
                             &blob->n_provenance, error);
}

static smol_status check_template(struct blob *blob, smol_error *error)
{
    if (!(blob->header->required_features & FEATURE_TEMPLATE))
        return SMOL_OK;
    smol_error reason;
    smol_status status =
        smol_take_section(blob, SECTION_TEMPLATE, 1, (const void **)&blob->template_section,
                          &blob->n_template, error);
    if (status)
        return status;
    status = smol_template_open(blob->template_section, blob->n_template, &blob->template, &reason);
    if (status == SMOL_ERROR_MEMORY)
        return smol_fail_memory(error, "the check of the template");
    if (status)
        return smol_damaged_section(blob, error, SECTION_TEMPLATE, reason.message);
    return SMOL_OK;
}

/* Checks that the feature is set if and only if the template section needs it. */
static smol_status check_tools(struct blob *blob, smol_error *error)
{
    bool tools = blob->header->required_features & FEATURE_TOOLS;
    bool has_style = blob->template_section && blob->template.header.tool_style != TOOLS_NONE;
    if (tools == has_style)
        return SMOL_OK;
    return smol_damaged_features(blob, error,
                                 "the style of tool calls does not match the tools feature");
}

static smol_status check_digest_table(struct blob *blob, smol_error *error)
{
    smol_status status = smol_take_section(blob, SECTION_DIGESTS, sizeof *blob->digests,
                                           (const void **)&blob->digests, &blob->n_chunks, error);
    if (status)
        return status;
    uint64_t data_size = blob->header->file_size - blob->header->data_offset;
    if (blob->n_chunks != (data_size + BLOB_CHUNK_SIZE - 1) / BLOB_CHUNK_SIZE)
        return smol_damaged_section(blob, error, SECTION_DIGESTS, "wrong number of chunk digests");
    return SMOL_OK;
}

/* --- text and tokenizer --------------------------------------------------------------------- */

static smol_status check_text(struct blob *blob, smol_error *error)
{
    bool vocabulary = blob->header->required_features & FEATURE_VOCABULARY;
    bool clusters = blob->header->required_features & FEATURE_CLUSTERS;
    if (!(blob->header->required_features & FEATURE_TEXT))
        return vocabulary || clusters
                   ? smol_damaged_features(
                         blob, error, "the vocabulary or clusters feature without a text section")
                   : SMOL_OK;
    const struct blob_section *section = smol_find_section(blob, SECTION_TEXT);
    smol_error reason;
    blob->text_section = blob->front + section->offset;
    blob->n_text = section->size;
    if (smol_text_tables_open(blob->text_section, blob->n_text, &blob->text, &reason))
        return smol_damaged_section(blob, error, SECTION_TEXT, reason.message);
    if (smol_text_is_extended(&blob->text) != vocabulary)
        return smol_damaged_section(blob, error, SECTION_TEXT,
                                    "its fields do not match the vocabulary feature");
    if ((blob->text.header.n_cluster_blocks > 0) != clusters)
        return smol_damaged_section(blob, error, SECTION_TEXT,
                                    "its fields do not match the clusters feature");
    return SMOL_OK;
}

static smol_status check_scanner(struct blob *blob, smol_error *error)
{
    bool ahead = blob->header->required_features & FEATURE_AHEAD;
    if (!(blob->header->required_features & FEATURE_SCANNER))
        return ahead ? smol_damaged_features(blob, error, "the ahead feature without a scanner")
                     : SMOL_OK;
    smol_error reason;
    smol_status status = smol_take_section(
        blob, SECTION_SCANNER, 1, (const void **)&blob->scanner_section, &blob->n_scanner, error);
    if (status)
        return status;
    if (smol_scanner_tables_open(blob->scanner_section, blob->n_scanner, &blob->scanner, &reason))
        return smol_damaged_section(blob, error, SECTION_SCANNER, reason.message);
    if (smol_scanner_looks_ahead(&blob->scanner) != ahead)
        return smol_damaged_section(blob, error, SECTION_SCANNER,
                                    "its fields do not match the ahead feature");
    return SMOL_OK;
}

/* Passes the scanner to the tokenizer, which must use a scanner if and only if the blob has one. */
static smol_status join_scanner(struct blob *blob, smol_error *error)
{
    bool wanted = blob->tokenizer.header.pretokenizer == PRETOKENIZE_SCANNER;
    blob->tokenizer.scanner = blob->scanner;
    return wanted == (blob->n_scanner > 0)
               ? SMOL_OK
               : smol_damaged_section(blob, error, SECTION_TOKENIZER,
                                      "does not match the scanner section");
}

smol_status smol_front_check_tokenizer(struct blob *blob, smol_error *error)
{
    const struct blob_section *section = blob->tokenizer_section =
        smol_find_section(blob, SECTION_TOKENIZER);
    smol_status status = smol_blob_check(blob, section->offset, section->size, error);
    if (status)
        return status;
    uint64_t end = section->offset + section->size;
    if (!all_zero(blob->file.data + end, smol_find_section(blob, SECTION_WEIGHTS)->offset - end))
        return smol_damaged_within(blob, error, SECTION_TOKENIZER,
                                   "the padding after it is not zero", end);
    smol_error reason;
    if (smol_tokenizer_tables_open(blob->file.data + section->offset, section->size,
                                   blob->model->vocab_size, blob->n_text ? &blob->text : NULL,
                                   &blob->tokenizer, &reason))
        return smol_damaged_section(blob, error, SECTION_TOKENIZER, reason.message);
    return join_scanner(blob, error);
}

/* --- all of them ----------------------------------------------------------------------------- */

smol_status smol_front_check(struct blob *blob, smol_error *error)
{
    static smol_status (*const checks[])(struct blob * blob, smol_error * error) = {
        check_header,         check_sections,           smol_front_check_model,
        check_small_sections, smol_front_check_tensors, check_template,
        check_tools,          check_digest_table,       check_text,
        check_scanner,
    };
    smol_status status = SMOL_OK;
    blob->header = (const void *)blob->front;
    for (size_t i = 0; !status && i < sizeof checks / sizeof checks[0]; i++)
        status = checks[i](blob, error);
    return status;
}
