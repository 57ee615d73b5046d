/* Descriptions of blobs, safetensors files and checkpoints, see inspect.h. */
#include "convert/inspect/inspect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "convert/inspect/inspect_parts.h"
#include "convert/inspect/print_text.h"
#include "convert/provenance.h"

static void print_line(FILE *out, const char *name, const char *text)
{
    fprintf(out, "%-18s ", name);
    smol_print_text(out, text, strlen(text));
    fprintf(out, "\n");
}

/* --- blobs -------------------------------------------------------------------------------- */

/* What the file says of itself; anybody can write that. */
static void print_provenance(const struct blob *blob, FILE *out)
{
    const char *line, *text = blob->provenance;
    size_t length, size = blob->n_provenance;
    bool ours = smol_provenance_release(text, size, &length);
    fprintf(out, "\nprovenance%s\n", ours ? "" : " (not made by smolconv)");
    if (size == 0)
        fprintf(out, "  none\n");
    while ((line = smol_provenance_line(&text, &size, &length))) {
        fprintf(out, "  ");
        smol_print_text(out, line, length);
        fprintf(out, "\n");
    }
}

/* "template, text": what a reader must know. Whoever opened the blob knows all of them; optional
 * ones have no names yet. */
static void print_features(const struct blob_header *header, FILE *out)
{
    static const char *const names[] = {"blocks", "template", "scanner", "text"};
    _Static_assert(KNOWN_FEATURES == (1 << sizeof names / sizeof names[0]) - 1, "one has no name");
    const char *before = "";
    fprintf(out, "%-18s ", "features");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!(header->required_features >> i & 1))
            continue;
        fprintf(out, "%s%s", before, names[i]);
        before = ", ";
    }
    if (header->required_features == 0)
        fprintf(out, "none");
    if (header->optional_features)
        fprintf(out, "; optional 0x%" PRIx64 ", unknown here", header->optional_features);
    fprintf(out, "\n");
}

static void print_format(const struct blob_header *header, FILE *out)
{
    fprintf(out, "%-18s .smol %u.%u\n", "format", header->major, header->minor);
    print_features(header, out);
}

static void show_blob(const struct blob *blob, FILE *out)
{
    print_format(blob->header, out);
    fprintf(out, "%-18s llama\n%-18s %s\n", "family", "dtype", smol_dtype_name(blob->model->dtype));
    smol_inspect_settings(blob, out);
    print_provenance(blob, out);
}

/* --- checkpoints -------------------------------------------------------------------------- */

/* "272, 269030016 bytes (256.6 MiB): 272 BF16". */
static void print_types(const struct subject *subject, FILE *out)
{
    size_t counts[ST_U64 + 1] = {0};
    uint64_t bytes = 0;
    char size[AMOUNT];
    const char *before = ": ";
    for (size_t i = 0; i < subject->n_tensors; i++) {
        counts[subject->tensors[i].raw->dtype]++;
        bytes += subject->tensors[i].raw->size;
    }
    fprintf(out, "%-18s %zu, %" PRIu64 " bytes (%s)", "tensors", subject->n_tensors, bytes,
            smol_size_text(bytes, size));
    for (size_t i = 0; i <= ST_U64; i++) {
        if (counts[i] == 0)
            continue;
        fprintf(out, "%s%zu %s", before, counts[i], smol_element_name(i));
        before = ", ";
    }
    fprintf(out, "\n");
}

static void print_weights(const struct subject *subject, FILE *out)
{
    const struct shards *shards = &subject->source.shards;
    print_line(out, "weights", smol_base_name(shards->path));
    if (shards->index_mark.size > 0)
        fprintf(out, "%-18s %zu\n", "shards", shards->n_files);
    print_types(subject, out);
}

/* config.json's own words, as far as there are any. */
static void print_names(const struct json_settings *config, FILE *out)
{
    const json_t *list = json_object_get(config->object, "architectures");
    const char *architecture = json_string_value(json_array_get(list, 0));
    const char *type = json_string_value(json_object_get(config->object, "model_type"));
    if (architecture)
        print_line(out, "architecture", architecture);
    if (type)
        print_line(out, "model_type", type);
}

/* Where the chat template is, and the names of several. */
static void print_template_place(const struct subject *subject, FILE *out)
{
    const struct template_list *list = &subject->templates;
    if (!subject->template_in)
        return;
    fprintf(out, "%-18s ", "template from");
    smol_print_text(out, subject->template_in, strlen(subject->template_in));
    bool single = list->n == 1 && strcmp(list->items[0].name, "default") == 0;
    for (size_t i = 0; !single && i < list->n; i++) {
        fprintf(out, "%s", i ? " " : ": ");
        smol_print_text(out, list->items[i].name, strlen(list->items[i].name));
    }
    fprintf(out, "\n");
}

/* Which of its lists of factors a blob would have. */
static void print_longrope(const struct config *config, FILE *out)
{
    if (config->longrope == LONGROPE_NONE)
        return;
    fprintf(out, "%-18s %s factors, for texts of up to %" PRIu32 " of %" PRIu32 " tokens\n",
            "longrope", config->longrope == LONGROPE_SHORT ? "short" : "long",
            config->model.context_length, config->max_positions);
}

static void show_checkpoint(const struct subject *subject, FILE *out)
{
    print_line(out, "checkpoint", subject->path);
    if (subject->reason.status)
        fprintf(out, "%-18s no: %s\n", "supported", subject->reason.message);
    else
        fprintf(out, "%-18s yes\n", "supported");
    if (!subject->has_weights)
        return;
    print_weights(subject, out);
    print_names(&subject->config, out);
    if (subject->blob)
        smol_inspect_settings(subject->blob, out);
    print_template_place(subject, out);
    if (subject->blob)
        print_longrope(&subject->source.config, out);
}

/* --- the whole ---------------------------------------------------------------------------- */

void smol_inspect_lines(const struct subject *subject, FILE *out)
{
    if (subject->kind == SUBJECT_BLOB)
        show_blob(subject->blob, out);
    if (subject->kind == SUBJECT_CHECKPOINT)
        show_checkpoint(subject, out);
    if (subject->kind == SUBJECT_SAFETENSORS) {
        print_line(out, "format", "safetensors");
        print_types(subject, out);
    }
}

static void show(const struct subject *subject, bool with_tensors, const struct statistics *all,
                 FILE *out)
{
    smol_inspect_lines(subject, out);
    if (!subject->has_weights)
        return;
    if (with_tensors)
        smol_inspect_tensors(subject, out);
    if (all && !ferror(out))
        smol_inspect_statistics(subject, all, out);
    if (!ferror(out))
        smol_inspect_summary(subject, out);
}

static smol_status measure(const struct subject *subject, uint32_t n_threads,
                           struct statistics **all, smol_error *error)
{
    struct pool *pool = NULL;
    *all = calloc(subject->n_tensors + 1, sizeof **all);
    if (!*all)
        return smol_fail_memory(error, "statistics");
    smol_status status = smol_pool_create(n_threads, &pool, error);
    if (!status)
        status = smol_statistics(subject->tensors, subject->n_tensors, pool, false, *all, error);
    smol_pool_destroy(pool);
    return status;
}

smol_status smol_inspect(const char *path, const struct inspect_request *request, FILE *out,
                         smol_error *error)
{
    struct subject subject;
    struct statistics *all = NULL;
    enum verify verify = request->with_statistics ? VERIFY_AT_OPEN : VERIFY_FIRST_USE;
    smol_status status =
        smol_subject_open(path, request->checkpoint, request->context, verify, &subject, error);
    if (status)
        return status;
    if (request->with_statistics)
        status = measure(&subject, request->n_threads, &all, error);
    if (!status && request->as_json)
        smol_inspect_json(&subject, all, out);
    else if (!status)
        show(&subject, request->with_tensors, all, out);
    status = smol_subject_settle(&subject, status, error);
    free(all);
    smol_subject_close(&subject);
    return status;
}
