/* Writes the page from top to bottom, see inspect.h. */
#include "convert/inspect/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "convert/inspect/describe.h"
#include "convert/inspect/report_plots.h"

/* The contents of the page. */
struct report {
    struct subject subject;
    struct statistics *all; /* (n_tensors) */
    struct tensor_groups groups;
    struct histogram *histograms; /* (groups.n) */
    double *decibels, *rmse;      /* (n_tensors), NaN: none */
    struct page page;
};

/* --- the head ------------------------------------------------------------------------------ */

static void add_text(struct page *page, const char *text)
{
    smol_page_text(page, text, strlen(text));
}

static void add_fact(struct page *page, const char *name, const char *value)
{
    smol_page_print(page, "<div><dt>%s</dt><dd>%s</dd></div>\n", name, value);
}

static void add_facts(struct report *report)
{
    const struct subject *subject = &report->subject;
    struct page *page = &report->page;
    uint64_t bytes = 0, n_tensors = 0;
    char text[AMOUNT], dtypes[MAX_MIX];
    for (int i = 0; i < PART_COUNT; i++) {
        bytes += subject->parts[i].bytes;
        n_tensors += subject->parts[i].n_tensors;
    }
    smol_page_add(page, "<dl>\n");
    add_fact(page, "parameters", smol_count_text(subject->n_parameters, text));
    add_fact(page, "size", smol_size_text(bytes, text));
    add_fact(page, "tensors", smol_count_text(n_tensors, text));
    if (subject->kind == SUBJECT_BLOB)
        add_fact(page, "matrices", smol_blob_dtypes(subject->blob, dtypes));
    if (subject->blob) {
        add_fact(page, "layers", smol_count_text(subject->blob->model->n_layers, text));
        add_fact(page, "hidden size", smol_count_text(subject->blob->model->hidden_size, text));
        add_fact(page, "longest text", smol_count_text(subject->blob->model->context_length, text));
    }
    smol_page_add(page, "</dl>\n");
}

/* Returns the last part of the path, or the whole path if that is empty. */
static const char *title_of(const struct subject *subject)
{
    const char *name = smol_base_name(subject->path);
    return *name ? name : subject->path;
}

static void add_head(struct report *report)
{
    static const char *const kinds[] = {"a .smol blob", "a checkpoint", "a safetensors file"};
    struct page *page = &report->page;
    smol_page_add(page,
                  "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n"
                  "<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
                  "content=\"width=device-width,initial-scale=1\"/>\n<title>");
    add_text(page, title_of(&report->subject));
    smol_page_add(page, "</title>\n<style>\n");
    smol_page_add(page, smol_report_style);
    smol_page_add(page, "</style>\n</head>\n<body>\n<h1>");
    add_text(page, title_of(&report->subject));
    smol_page_print(page, "</h1>\n<p>%s</p>\n", kinds[report->subject.kind]);
    if (report->subject.reason.status) {
        smol_page_add(page, "<p>This checkpoint cannot be converted: ");
        add_text(page, report->subject.reason.message);
        smol_page_add(page, "</p>\n");
    }
    add_facts(report);
}

/* --- sums ---------------------------------------------------------------------------------- */

static void add_part(struct page *page, enum part part, const struct part_sum *sum, double total)
{
    char count[AMOUNT] = "", size[AMOUNT];
    if (sum->n_tensors > 0)
        smol_count_text(sum->n_parameters, count);
    smol_page_print(page,
                    "<tr><td><svg viewBox=\"0 0 1 1\"><rect class=\"p%d\" width=\"1\" "
                    "height=\"1\"/></svg>%s</td>",
                    part, smol_part_name(part));
    smol_page_print(page, "<td>%s</td><td>%s</td><td>%.1f%%</td></tr>\n", count,
                    smol_size_text(sum->bytes, size), 100 * (double)sum->bytes / total);
}

static void add_parts(struct report *report)
{
    const struct part_sum *parts = report->subject.parts;
    double total = 0;
    for (int i = 0; i < PART_COUNT; i++)
        total += (double)parts[i].bytes;
    smol_page_add(&report->page, "<h2>Bytes</h2>\n");
    smol_plot_parts(&report->page, &report->subject);
    smol_page_add(&report->page, "<table>\n<tr><th>part</th><th>parameters</th><th>size</th>"
                                 "<th>share</th></tr>\n");
    for (int i = 0; i < PART_COUNT; i++)
        if (parts[i].bytes > 0)
            add_part(&report->page, i, &parts[i], total);
    smol_page_add(&report->page, "</table>\n");
}

static void add_memory(struct report *report)
{
    const struct subject *subject = &report->subject;
    struct page *page = &report->page;
    char text[AMOUNT];
    if (subject->n_needs == 0)
        return;
    smol_page_add(page,
                  "<h2>Memory</h2>\n<p>The blob, and the keys, values and states of a text.</p>\n"
                  "<table>\n<tr><th>matrices</th><th>blob</th>");
    for (size_t i = 0; i < subject->n_contexts; i++)
        smol_page_print(page, "<th>with %s tokens</th>",
                        smol_count_text(subject->contexts[i], text));
    smol_page_add(page, "</tr>\n");
    for (size_t n = 0; n < subject->n_needs; n++) {
        const struct memory_need *need = &subject->needs[n];
        smol_page_print(page, "<tr><td>%s</td><td>%s</td>", smol_dtype_name(need->dtype),
                        smol_size_text(need->blob, text));
        for (size_t i = 0; i < subject->n_contexts; i++)
            smol_page_print(page, "<td>%s</td>", smol_size_text(need->total[i], text));
        smol_page_add(page, "</tr>\n");
    }
    smol_page_add(page, "</table>\n");
}

/* --- histograms ---------------------------------------------------------------------------- */

enum { MOST_HISTOGRAMS = 24 };

static void add_group_name(struct page *page, const struct tensor_group *group)
{
    if (group->has_role || group->before == group->after) {
        add_text(page, group->label);
        return;
    }
    smol_page_text(page, group->name, group->before);
    smol_page_add(page, "*");
    add_text(page, group->name + group->after);
}

static bool has_histogram(const struct report *report, size_t group)
{
    return report->histograms[group].low < report->histograms[group].high &&
           report->groups.all[group].n_parameters > 0;
}

static void add_histograms(struct report *report)
{
    struct page *page = &report->page;
    size_t n = 0;
    char text[AMOUNT];
    smol_page_add(page, "<h2>Weights</h2>\n<p>The distribution of each kind of tensor, "
                        "over all layers. The axis ends five standard deviations from the mean, or "
                        "at the farthest element.</p>\n<div class=\"many\">\n");
    for (size_t g = 0; g < report->groups.n; g++) {
        const struct tensor_group *group = &report->groups.all[g];
        if (!has_histogram(report, g) || n++ >= MOST_HISTOGRAMS)
            continue;
        smol_page_add(page, "<figure><figcaption><b>");
        add_group_name(page, group);
        smol_page_print(page, "</b><span class=\"soft\">%s</span></figcaption>\n",
                        smol_count_text(group->n_parameters, text));
        smol_plot_histogram(page, &report->histograms[g]);
        smol_page_add(page, "</figure>\n");
    }
    smol_page_add(page, "</div>\n");
    if (n > MOST_HISTOGRAMS)
        smol_page_print(page, "<p>%zu more kinds of tensors are not shown.</p>\n",
                        n - MOST_HISTOGRAMS);
}

/* --- int8's error -------------------------------------------------------------------------- */

static bool is_drawn(const struct report *report, const struct tensor_group *group)
{
    size_t n = 0;
    for (size_t i = 0; i < group->n; i++)
        n += isfinite(report->decibels[group->in[i].tensor]);
    return n > 1 && group->in[0].layer < group->in[group->n - 1].layer;
}

/* Finds the bounds of the axis for all lines that may be drawn, with a margin. */
static void find_bounds(const struct report *report, const double *values, struct line_plot *plot)
{
    plot->low = INFINITY;
    plot->high = -INFINITY;
    for (size_t g = 0; g < report->groups.n; g++) {
        const struct tensor_group *group = &report->groups.all[g];
        for (size_t i = 0; is_drawn(report, group) && i < group->n; i++) {
            double value = values[group->in[i].tensor];
            if (isfinite(value)) {
                plot->low = fmin(plot->low, value);
                plot->high = fmax(plot->high, value);
            }
        }
    }
    double room = fmax(0.06 * (plot->high - plot->low), 1e-3 * fabs(plot->high) + 1e-30);
    plot->low -= room;
    plot->high += room;
}

/* Plots the lines of one part of the blocks, or of tensors with unknown names. */
static void add_plot(struct report *report, const double *values, const char *unit, enum part part)
{
    struct line_plot plot = {.values = values, .unit = unit};
    size_t left_out = 0;
    for (size_t g = 0; g < report->groups.n; g++) {
        const struct tensor_group *group = &report->groups.all[g];
        if (group->part != part || !is_drawn(report, group))
            continue;
        if (plot.n < PLOT_LINES)
            plot.groups[plot.n++] = group;
        else
            left_out++;
    }
    if (plot.n == 0)
        return;
    find_bounds(report, values, &plot);
    smol_page_print(&report->page, "<figure><h3>%s</h3>\n", smol_part_name(part));
    smol_plot_lines(&report->page, &plot);
    if (left_out > 0)
        smol_page_print(&report->page, "<p>%zu more are not shown.</p>\n", left_out);
    smol_page_add(&report->page, "</figure>\n");
}

/* Lists the matrices outside the layers. */
static void add_single_errors(struct report *report)
{
    struct page *page = &report->page;
    const char *before = "<p>Outside the layers: ";
    enum { MOST = 12 };
    size_t n = 0;
    for (size_t g = 0; g < report->groups.n; g++) {
        const struct tensor_group *group = &report->groups.all[g];
        size_t tensor = group->in[0].tensor;
        if (is_drawn(report, group) || !isfinite(report->decibels[tensor]) ||
            report->subject.tensors[tensor].is_alias || n++ >= MOST)
            continue;
        smol_page_add(page, before);
        add_group_name(page, group);
        smol_page_print(page, " %.2f dB", report->decibels[tensor]);
        before = ", ";
    }
    if (n > 0)
        smol_page_print(page, "%s.</p>\n", n > MOST ? ", and others" : "");
}

static void add_errors(struct report *report)
{
    static const enum part parts[] = {PART_ATTENTION, PART_STATES, PART_MLP, PART_OTHER};
    bool estimated = false;
    for (size_t i = 0; i < report->subject.n_tensors; i++)
        estimated |= report->all[i].int8.kind == ERROR_ESTIMATED;
    bool mixed = report->subject.kind == SUBJECT_BLOB && report->subject.blob->levels;
    smol_page_print(&report->page,
                    "<h2>Error of %s</h2>\n<p>The signal-to-noise ratio, and the root mean square "
                    "of the error, of each matrix%s, by layer. ",
                    mixed ? "quantization" : "int8", mixed ? "" : " in int8");
    smol_page_add(&report->page,
                  estimated ? "A quantized blob does not contain its source: these are estimates "
                              "from its scales.</p>\n"
                            : "Measured as a conversion would quantize it.</p>\n");
    smol_page_add(&report->page, "<div class=\"two\">\n");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        add_plot(report, report->decibels, "signal-to-noise, dB", parts[i]);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        add_plot(report, report->rmse, "root mean square error", parts[i]);
    smol_page_add(&report->page, "</div>\n");
    add_single_errors(report);
}

/* --- the table ------------------------------------------------------------------------------ */

static void add_real(struct page *page, double value)
{
    if (isfinite(value))
        smol_page_print(page, "<td>%.4g</td>", value);
    else
        smol_page_add(page, "<td></td>");
}

static void add_error_cells(struct page *page, const struct int8_error *error)
{
    if (error->kind == ERROR_NONE) {
        smol_page_add(page, "<td></td><td></td><td></td>");
        return;
    }
    add_real(page, error->rmse);
    add_real(page, error->largest);
    if (isfinite(error->snr))
        smol_page_print(page, "<td>%.2f</td>", error->snr);
    else
        smol_page_add(page, "<td>exact</td>");
}

static void add_row(struct report *report, size_t i)
{
    const struct model_tensor *tensor = &report->subject.tensors[i];
    const struct statistics *s = &report->all[i];
    struct page *page = &report->page;
    const double reals[] = {s->mean, s->variance, s->min, s->max, s->sum};
    char shape[SHAPE_TEXT];
    smol_page_add(page, "<tr><td>");
    add_text(page, tensor->name);
    smol_page_print(page, "</td><td class=\"left\">%s</td><td class=\"left\">%s</td>",
                    smol_tensor_dtype(tensor), smol_shape_text(tensor->rank, tensor->shape, shape));
    for (size_t k = 0; k < sizeof reals / sizeof reals[0]; k++)
        add_real(page, s->is_known ? reals[k] : NAN);
    smol_page_print(page, "<td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td>",
                    s->n_zeros, s->n_outliers, s->n_nan + s->n_infinite);
    add_error_cells(page, &s->int8);
    smol_page_add(page, "</tr>\n");
}

static void add_table(struct report *report)
{
    smol_page_print(&report->page,
                    "<h2>Tensors</h2>\n<p>Variance with n &#8722; 1. Outliers are more than %d "
                    "standard deviations from the mean.</p>\n",
                    OUTLIER_DEVIATIONS);
    smol_page_add(&report->page,
                  "<div class=\"wide\"><table>\n<tr><th>tensor</th><th class=\"left\">type</th>"
                  "<th class=\"left\">shape</th><th>mean</th><th>variance</th><th>min</th>"
                  "<th>max</th><th>sum</th><th>zeros</th><th>outliers</th><th>not finite</th>"
                  "<th>int8 rmse</th><th>int8 max</th><th>SNR, dB</th></tr>\n");
    for (size_t i = 0; i < report->subject.n_tensors; i++)
        add_row(report, i);
    smol_page_add(&report->page, "</table></div>\n");
}

static smol_status add_settings(struct report *report, smol_error *error)
{
    if (report->subject.kind == SUBJECT_SAFETENSORS)
        return SMOL_OK;
    char *lines = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&lines, &size);
    if (!stream)
        return smol_fail_memory(error, "the page");
    smol_describe_lines(&report->subject, stream);
    bool failed = ferror(stream);
    failed |= fclose(stream) != 0 || !lines; /* glibc's fclose does not report this */
    smol_page_add(&report->page, "<h2>Settings and provenance</h2>\n<pre>");
    if (!failed)
        smol_page_text(&report->page, lines, size);
    smol_page_add(&report->page, "</pre>\n");
    free(lines);
    return failed ? smol_fail_memory(error, "the page") : SMOL_OK;
}

static smol_status write_page(struct report *report, smol_error *error)
{
    add_head(report);
    if (report->subject.has_weights) {
        add_parts(report);
        add_memory(report);
        add_histograms(report);
        add_errors(report);
        add_table(report);
    }
    smol_status status = add_settings(report, error);
    smol_page_add(&report->page, "</body>\n</html>\n");
    return status;
}

/* --- measuring ----------------------------------------------------------------------------- */

/* Extends a group's bounds to contain this tensor, up to five standard deviations. */
static void stretch(struct histogram *histogram, const struct statistics *s)
{
    enum { DEVIATIONS = 5 };
    double reach = DEVIATIONS * sqrt(s->variance);
    if (!isfinite(s->mean) || !isfinite(reach))
        return;
    histogram->low = fmin(histogram->low, fmax(s->min, s->mean - reach));
    histogram->high = fmax(histogram->high, fmin(s->max, s->mean + reach));
}

static void set_bounds(struct report *report)
{
    for (size_t g = 0; g < report->groups.n; g++)
        report->histograms[g] = (struct histogram){.low = INFINITY, .high = -INFINITY};
    for (size_t i = 0; i < report->subject.n_tensors; i++)
        if (report->all[i].is_known && !report->subject.tensors[i].is_alias)
            stretch(&report->histograms[report->groups.of[i]], &report->all[i]);
    for (size_t i = 0; i < report->subject.n_tensors; i++)
        if (report->subject.tensors[i].is_alias ||
            !has_histogram(report, (size_t)report->groups.of[i]))
            report->groups.of[i] = -1;
}

static smol_status allocate(struct report *report, smol_error *error)
{
    size_t n = report->subject.n_tensors + 1;
    report->all = calloc(n, sizeof *report->all);
    report->decibels = calloc(n, sizeof *report->decibels);
    report->rmse = calloc(n, sizeof *report->rmse);
    report->histograms = calloc(report->groups.n + 1, sizeof *report->histograms);
    return report->all && report->decibels && report->rmse && report->histograms
               ? SMOL_OK
               : smol_fail_memory(error, "statistics");
}

static smol_status measure(struct report *report, const struct report_options *options,
                           smol_error *error)
{
    const struct subject *subject = &report->subject;
    struct pool *pool = NULL;
    smol_status status = smol_groups_make(subject, &report->groups, error);
    if (!status)
        status = allocate(report, error);
    if (!status)
        status = smol_pool_create(options->n_threads, &pool, error);
    if (!status)
        status = smol_statistics(subject->tensors, subject->n_tensors, pool, options->quiet,
                                 report->all, error);
    if (!status) {
        set_bounds(report);
        status = smol_histograms(subject->tensors, subject->n_tensors, report->groups.of, pool,
                                 options->quiet, report->histograms, error);
    }
    for (size_t i = 0; !status && i < subject->n_tensors; i++) {
        const struct int8_error *int8 = &report->all[i].int8;
        report->decibels[i] = int8->kind == ERROR_NONE ? NAN : int8->snr;
        report->rmse[i] = int8->kind == ERROR_NONE ? NAN : int8->rmse;
    }
    smol_pool_destroy(pool);
    return status;
}

/* --- entry point ---------------------------------------------------------------------------- */

/* Refuses an output that is an input, which --force would replace. */
static smol_status check_output(const struct subject *subject, const struct report_options *options,
                                smol_error *error)
{
    if (subject->kind == SUBJECT_CHECKPOINT)
        return smol_source_check_output(&subject->source, &options->source, options->output, error);
    if (!smol_same_file(options->output, subject->path))
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_USAGE, "%s: is a file of the input: name another output",
                     options->output);
}

/* Measures the model and writes the page into the open output. */
static smol_status write_file(struct report *report, const struct report_options *options,
                              struct output *output, smol_error *error)
{
    smol_status status = measure(report, options, error);
    if (!status) {
        report->page = (struct page){.output = output, .error = error};
        status = write_page(report, error);
        smol_status written = smol_page_end(&report->page);
        status = status ? status : written;
    }
    status = smol_subject_settle(&report->subject, status, error);
    if (!status)
        return smol_output_commit(output, error);
    smol_output_discard(output);
    return status;
}

smol_status smol_report(const char *path, const struct report_options *options, smol_error *error)
{
    struct report report = {0};
    struct output output;
    bool asked = options->source.config != NULL || smol_source_is_checkpoint(path);
    smol_status status = smol_subject_open(path, asked ? &options->source : NULL, VERIFY_AT_OPEN,
                                           &report.subject, error);
    if (status)
        return status;
    status = smol_subject_list(&report.subject, 0, error);
    if (!status)
        status = check_output(&report.subject, options, error);
    if (!status)
        status = smol_output_open(options->output, options->force, &output, error);
    if (!status)
        status = write_file(&report, options, &output, error);
    else
        status = smol_subject_settle(&report.subject, status, error);
    smol_groups_free(&report.groups);
    free(report.all);
    free(report.decibels);
    free(report.rmse);
    free(report.histograms);
    smol_subject_close(&report.subject);
    return status;
}
