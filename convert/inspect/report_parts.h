/* The parts of smol_report, one file each. */
#ifndef SMOL_CONVERT_REPORT_PARTS_H
#define SMOL_CONVERT_REPORT_PARTS_H

#include "convert/inspect/histogram.h"
#include "convert/inspect/html.h"
#include "convert/inspect/inspect_parts.h"

/* --- report_groups.c: tensors that are the same in every layer ---------------------------- */

struct group_member {
    size_t tensor;
    uint32_t layer;
};

/* Tensors whose names differ in one number, the layer; or one tensor without. */
struct tensor_group {
    const char *name;              /* of the first: name[0..before), the number, name[after..) */
    size_t before, after;          /* both are the name's length where there is no number */
    const char *label;             /* the last part, or all of a name without a number */
    enum part part;                /* of the first */
    bool has_role;                 /* the first has */
    enum tensor_role role;         /* if so */
    uint64_t n_parameters;         /* of all, but for aliases */
    const struct group_member *in; /* (n), by layer */
    size_t n;
};

struct tensor_groups {
    struct tensor_group *all; /* (n), in the order of their first tensors */
    size_t n;
    struct group_member *members; /* (n_tensors) */
    int *of;                      /* (n_tensors), the group of each */
    char (*names)[MAX_NAME];      /* the roles' names of tensors that have one, (n_tensors) */
};

/* Errors: SMOL_ERROR_MEMORY; smol_groups_free is due all the same. */
smol_status smol_groups_make(const struct subject *subject, struct tensor_groups *groups,
                             smol_error *error);
void smol_groups_free(struct tensor_groups *groups);

/* --- report_plots.c: SVG ------------------------------------------------------------------ */

/* A bar whose parts are as wide as their bytes. */
void smol_plot_parts(struct page *page, const struct subject *subject);

/* The shape of a histogram, with its bounds and the share of its fullest bin. */
void smol_plot_histogram(struct page *page, const struct histogram *histogram);

/* One line for each of groups[0..n): its tensors' values over their layers. */
enum { PLOT_LINES = 6 };
struct line_plot {
    const struct tensor_group *groups[PLOT_LINES];
    size_t n;
    const double *values; /* by tensor; NaN: none */
    double low, high;     /* of the axis; low < high */
    const char *unit;
};
void smol_plot_lines(struct page *page, const struct line_plot *plot);

/* --- report_style.c ----------------------------------------------------------------------- */

extern const char smol_report_style[]; /* CSS, for light and dark screens and for paper */

#endif
