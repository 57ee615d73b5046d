/* Prints the description as text, see describe.h: the origin of a model, tables and amounts. A name
 * is the last column of a row, because it may have any length. */
#include "convert/inspect/describe.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli/quote.h"
#include "convert/provenance.h"

/* --- amounts ----------------------------------------------------------------------------- */

const char *smol_size_text(uint64_t bytes, char text[AMOUNT])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(text, AMOUNT, "%" PRIu64 " B", bytes);
        return text;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    for (; value >= 1023.95 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024; /* 1023.95 would be shown as 1024.0 */
    snprintf(text, AMOUNT, "%.1f %s", value, units[unit]);
    return text;
}

const char *smol_count_text(uint64_t n, char text[AMOUNT])
{
    char digits[AMOUNT];
    size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, n), used = 0;
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

const char *smol_shape_text(unsigned rank, const uint64_t *shape, char text[SHAPE_TEXT])
{
    size_t used = (size_t)snprintf(text, SHAPE_TEXT, "[");
    for (unsigned i = 0; i < rank; i++)
        used +=
            (size_t)snprintf(text + used, SHAPE_TEXT - used, "%s%" PRIu64, i ? ", " : "", shape[i]);
    snprintf(text + used, SHAPE_TEXT - used, "]");
    return text;
}

/* --- blobs -------------------------------------------------------------------------------- */

/* Prints the file's own statement about its origin, which anyone can write. */
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

/* Prints the features that a reader must support, such as "template, text". The blob's reader has
 * refused unknown ones. Optional features have no names yet. */
static void print_features(const struct blob_header *header, FILE *out)
{
    static const char *const names[] = {
        "blocks",     "template", "scanner", "text",     "mixed",    "tools",    "components",
        "vocabulary", "encoder",  "states",  "experts",  "embedder", "clusters", "ahead",
        "around",     "hybrid",   "latent",  "normed",   "doubled",  "relative", "head gates",
        "further",    "varied",   "partial", "own norms"};
    _Static_assert(KNOWN_FEATURES < 1 << sizeof names / sizeof names[0], "one has no name");
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

/* Prints such as "calibrated: Gram matrices, 36412 tokens, text xxh3 0f1e2d3c4b5a6978". */
static void print_quantization(const struct blob *blob, FILE *out)
{
    struct quantization found = smol_provenance_quantization(blob->provenance, blob->n_provenance);
    if (!is_grouped(smol_blob_dtype(blob)))
        return;
    fprintf(out, "%-18s %s%s", "quantization", found.method, found.statistics ? ": " : "");
    smol_print_text(out, found.statistics, found.n_statistics);
    fprintf(out, "\n");
}

static void show_blob(const struct blob *blob, FILE *out)
{
    char dtypes[MAX_MIX];
    print_format(blob->header, out);
    fprintf(out, "%-18s llama\n%-18s %s\n", "family", "dtype", smol_blob_dtypes(blob, dtypes));
    print_quantization(blob, out);
    smol_describe_settings(blob, out);
    print_provenance(blob, out);
}

/* --- checkpoints -------------------------------------------------------------------------- */

static void print_line(FILE *out, const char *name, const char *text)
{
    fprintf(out, "%-18s ", name);
    smol_print_text(out, text, strlen(text));
    fprintf(out, "\n");
}

/* Prints "272, 269030016 bytes (256.6 MiB): 272 BF16". */
static void print_types(const struct subject *subject, FILE *out)
{
    size_t counts[N_ELEMENT_DTYPES] = {0};
    uint64_t bytes = 0;
    char size[AMOUNT];
    const char *before = ": ";
    for (size_t i = 0; i < subject->n_tensors; i++) {
        counts[subject->tensors[i].raw->dtype]++;
        bytes += subject->tensors[i].raw->size;
    }
    fprintf(out, "%-18s %zu, %" PRIu64 " bytes (%s)", "tensors", subject->n_tensors, bytes,
            smol_size_text(bytes, size));
    for (size_t i = 0; i < N_ELEMENT_DTYPES; i++) {
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
    if (subject->source.quantized[0])
        fprintf(out, "%-18s yes: %s; the original checkpoint gives a better blob\n", "quantized",
                subject->source.quantized);
}

/* Prints the architecture and model type of config.json, if present. */
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

/* Prints the file of the chat template, and the names if there are several. */
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

/* Prints which of the two lists of longrope factors a blob would have. */
static void print_longrope(const struct config *config, FILE *out)
{
    if (config->longrope == LONGROPE_NONE)
        return;
    fprintf(out, "%-18s %s factors, for texts of up to %" PRIu32 " of %" PRIu32 " tokens\n",
            "longrope", config->longrope == LONGROPE_SHORT ? "short" : "long",
            config->model.context_length, config->max_positions);
}

/* Prints which tensors a blob would not have. */
static void print_skipped(const struct skipped_tensors *skipped, FILE *out)
{
    char text[SKIPPED_TEXT];
    if (smol_nested_tell(skipped, text))
        print_line(out, "skipped", text);
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
    print_skipped(&subject->source.skipped, out);
    print_names(&subject->config, out);
    if (subject->blob)
        smol_describe_settings(subject->blob, out);
    print_template_place(subject, out);
    if (subject->blob)
        print_longrope(&subject->source.config, out);
}

/* --- tensors ------------------------------------------------------------------------------ */

static void end_line(const struct model_tensor *tensor, FILE *out)
{
    fprintf(out, "  ");
    smol_print_text(out, tensor->name, strlen(tensor->name));
    fprintf(out, "%s\n", tensor->is_alias ? " = embed" : "");
}

/* Prints "int8   [576, 1536]           884,736    918.0 KiB         58720256  layers.0.mlp_down".
 * Only tensors of a blob have an offset. */
static void print_tensor(const struct model_tensor *tensor, FILE *out)
{
    char shape[SHAPE_TEXT], count[AMOUNT], size[AMOUNT];
    fprintf(out, "%-8s %-20s %15s %11s", smol_tensor_dtype(tensor),
            smol_shape_text(tensor->rank, tensor->shape, shape),
            smol_count_text(tensor->n_elements, count),
            smol_size_text(smol_tensor_size(tensor), size));
    if (tensor->tiled)
        fprintf(out, " %14" PRIu64, tensor->tiled->offset);
    end_line(tensor, out);
}

static void describe_tensors(const struct subject *subject, FILE *out)
{
    bool is_blob = subject->kind == SUBJECT_BLOB;
    fprintf(out, "\n%-8s %-20s %15s %11s%s  %s\n", "dtype", "shape", "parameters", "size",
            is_blob ? "         offset" : "", "tensor");
    for (size_t i = 0; i < subject->n_tensors && !ferror(out); i++)
        print_tensor(&subject->tensors[i], out);
}

/* --- statistics --------------------------------------------------------------------------- */

static void print_real(double value, FILE *out)
{
    if (isfinite(value))
        fprintf(out, " %11.4g", value);
    else
        fprintf(out, " %11s", "-");
}

static void print_error(const struct int8_error *error, FILE *out)
{
    if (error->kind == ERROR_NONE) {
        fprintf(out, " %11s %11s %8s", "-", "-", "-");
        return;
    }
    print_real(error->rmse, out);
    print_real(error->largest, out);
    if (isfinite(error->snr))
        fprintf(out, " %7.2f%c", error->snr, error->kind == ERROR_ESTIMATED ? '~' : ' ');
    else
        fprintf(out, " %8s", "exact ");
}

static void print_statistics(const struct statistics *s, FILE *out)
{
    const double reals[] = {s->mean, s->variance, s->min, s->max, s->sum};
    if (!s->is_known) {
        fprintf(out, "%-*s", 112, " elements of this type cannot be read as numbers");
        return;
    }
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        print_real(reals[i], out);
    fprintf(out, " %10" PRIu64 " %10" PRIu64, s->n_zeros, s->n_outliers);
    print_error(&s->int8, out);
}

/* Prints the numbers of elements that a tensor's statistics exclude. */
static void print_not_finite(const struct model_tensor *tensor, const struct statistics *s,
                             FILE *out)
{
    if (s->n_nan + s->n_infinite == 0)
        return;
    fprintf(out, "not finite: %" PRIu64 " NaN, %" PRIu64 " infinite, the first is element %" PRIu64,
            s->n_nan, s->n_infinite, s->first_not_finite);
    end_line(tensor, out);
}

static void describe_statistics(const struct subject *subject, const struct statistics *all,
                                FILE *out)
{
    bool estimated = false, mixed = subject->kind == SUBJECT_BLOB && subject->blob->levels;
    fprintf(out, "\n %11s %11s %11s %11s %11s %10s %10s %11s %11s %8s  %s\n", "mean", "variance",
            "min", "max", "sum", "zeros", "outliers", mixed ? "rmse" : "int8 rmse",
            mixed ? "max error" : "int8 max", "SNR, dB ", "tensor");
    for (size_t i = 0; i < subject->n_tensors && !ferror(out); i++) {
        print_statistics(&all[i], out);
        end_line(&subject->tensors[i], out);
        estimated |= all[i].int8.kind == ERROR_ESTIMATED;
    }
    for (size_t i = 0; i < subject->n_tensors && !ferror(out); i++)
        print_not_finite(&subject->tensors[i], &all[i], out);
    fprintf(out, "outliers: more than %d standard deviations from the mean\n", OUTLIER_DEVIATIONS);
    if (estimated)
        fprintf(out,
                "%s~: the blob does not contain its source; rmse and SNR are estimates from the "
                "scales, max is a bound\n",
                mixed ? "" : "int8, ");
}

/* --- the summary -------------------------------------------------------------------------- */

static void print_part(const char *name, const struct part_sum *part, uint64_t total, FILE *out)
{
    char count[AMOUNT], size[AMOUNT];
    if (part->n_tensors > 0)
        fprintf(out, "%-18s %8" PRIu64 " %15s", name, part->n_tensors,
                smol_count_text(part->n_parameters, count));
    else
        fprintf(out, "%-18s %8s %15s", name, "", "");
    fprintf(out, " %11s %7.1f%%\n", smol_size_text(part->bytes, size),
            total > 0 ? 100 * (double)part->bytes / (double)total : 0);
}

static void print_parts(const struct subject *subject, FILE *out)
{
    struct part_sum total = {0};
    for (size_t i = 0; i < PART_COUNT; i++) {
        total.n_tensors += subject->parts[i].n_tensors;
        total.n_parameters += subject->parts[i].n_parameters;
        total.bytes += subject->parts[i].bytes;
    }
    fprintf(out, "\n%-18s %8s %15s %11s %8s\n", "part", "tensors", "parameters", "size", "share");
    for (int i = 0; i < PART_COUNT; i++)
        if (subject->parts[i].bytes > 0)
            print_part(smol_part_name(i), &subject->parts[i], total.bytes, out);
    print_part("total", &total, total.bytes, out);
}

static void print_needs(const struct subject *subject, FILE *out)
{
    char text[AMOUNT], heading[AMOUNT + 16];
    int widths[SUBJECT_CONTEXTS];
    fprintf(out, "\n%-18s %13s %11s", "memory", "blob, bytes", "blob");
    for (size_t i = 0; i < subject->n_contexts; i++) {
        snprintf(heading, sizeof heading, "with %s tokens",
                 smol_count_text(subject->contexts[i], text));
        widths[i] = fprintf(out, " %17s", heading);
    }
    fprintf(out, "\n");
    for (size_t n = 0; n < subject->n_needs; n++) {
        const struct memory_need *need = &subject->needs[n];
        fprintf(out, "%-18s %13" PRIu64 " %11s", smol_dtype_name(need->dtype), need->blob,
                smol_size_text(need->blob, text));
        for (size_t i = 0; i < subject->n_contexts; i++)
            fprintf(out, "%*s", widths[i], smol_size_text(need->total[i], text));
        fprintf(out, "\n");
    }
}

static void describe_summary(const struct subject *subject, FILE *out)
{
    print_parts(subject, out);
    if (subject->n_needs > 0)
        print_needs(subject, out);
}

/* --- entry points ------------------------------------------------------------------------- */

void smol_describe_lines(const struct subject *subject, FILE *out)
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

void smol_describe_text(const struct subject *subject, bool with_tensors,
                        const struct statistics *all, FILE *out)
{
    smol_describe_lines(subject, out);
    if (!subject->has_weights)
        return;
    if (with_tensors)
        describe_tensors(subject, out);
    if (all && !ferror(out))
        describe_statistics(subject, all, out);
    if (!ferror(out))
        describe_summary(subject, out);
}
