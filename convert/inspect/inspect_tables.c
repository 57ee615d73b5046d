/* The tables of inspect, see inspect_parts.h. Names come last: they may be of any length. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "convert/inspect/inspect_parts.h"
#include "convert/inspect/print_text.h"

/* --- tensors ------------------------------------------------------------------------------ */

static void end_line(const struct model_tensor *tensor, FILE *out)
{
    fprintf(out, "  ");
    smol_print_text(out, tensor->name, strlen(tensor->name));
    fprintf(out, "%s\n", tensor->is_alias ? " = embed" : "");
}

/* "int8   [576, 1536]           884,736    918.0 KiB         58720256  layers.0.mlp_down"; where
 * it lies only of a blob, of which everything lies somewhere. */
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

void smol_inspect_tensors(const struct subject *subject, FILE *out)
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
        fprintf(out, "%-*s", 112, " elements of this type are not read as numbers");
        return;
    }
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        print_real(reals[i], out);
    fprintf(out, " %10" PRIu64 " %10" PRIu64, s->n_zeros, s->n_outliers);
    print_error(&s->int8, out);
}

/* What is left out of a tensor's statistics. */
static void print_not_finite(const struct model_tensor *tensor, const struct statistics *s,
                             FILE *out)
{
    if (s->n_nan + s->n_infinite == 0)
        return;
    fprintf(out, "not finite: %" PRIu64 " NaN, %" PRIu64 " infinite, the first is element %" PRIu64,
            s->n_nan, s->n_infinite, s->first_not_finite);
    end_line(tensor, out);
}

void smol_inspect_statistics(const struct subject *subject, const struct statistics *all, FILE *out)
{
    bool estimated = false;
    fprintf(out, "\n %11s %11s %11s %11s %11s %10s %10s %11s %11s %8s  %s\n", "mean", "variance",
            "min", "max", "sum", "zeros", "outliers", "int8 rmse", "int8 max", "SNR, dB ",
            "tensor");
    for (size_t i = 0; i < subject->n_tensors && !ferror(out); i++) {
        print_statistics(&all[i], out);
        end_line(&subject->tensors[i], out);
        estimated |= all[i].int8.kind == ERROR_ESTIMATED;
    }
    for (size_t i = 0; i < subject->n_tensors && !ferror(out); i++)
        print_not_finite(&subject->tensors[i], &all[i], out);
    fprintf(out, "outliers: farther than %d standard deviations from the mean\n",
            OUTLIER_DEVIATIONS);
    if (estimated)
        fprintf(out, "int8, ~: its source is not in the blob; rmse and SNR are estimates from the "
                     "scales, max is a bound\n");
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
            fprintf(out, "%*s", widths[i], smol_size_text(need->blob + need->cache[i], text));
        fprintf(out, "\n");
    }
}

void smol_inspect_summary(const struct subject *subject, FILE *out)
{
    print_parts(subject, out);
    if (subject->n_needs > 0)
        print_needs(subject, out);
}
