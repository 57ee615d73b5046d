/* The appearance of a report: its plots as SVG, and its style sheet. */
#ifndef SMOL_CONVERT_REPORT_PLOTS_H
#define SMOL_CONVERT_REPORT_PLOTS_H

#include "convert/inspect/histogram.h"
#include "convert/inspect/html.h"
#include "convert/inspect/tensor_groups.h"

/* Plots a bar whose parts are as wide as their bytes. */
void smol_plot_parts(struct page *page, const struct subject *subject);

/* Plots a histogram with its bounds and the share of its fullest bin. */
void smol_plot_histogram(struct page *page, const struct histogram *histogram);

/* Plots one line for each of groups[0..n): the values of its tensors by layer. */
enum { PLOT_LINES = 6 };
struct line_plot {
    const struct tensor_group *groups[PLOT_LINES];
    size_t n;
    const double *values; /* by tensor; NaN: none */
    double low, high;     /* of the axis; low < high */
    const char *unit;
};
void smol_plot_lines(struct page *page, const struct line_plot *plot);

extern const char smol_report_style[]; /* CSS, for light and dark screens and for paper */

#endif
