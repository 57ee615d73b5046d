/* Writes plots as SVG, see report_plots.h, and holds the style sheet of the page. Coordinates have
 * two decimals. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "convert/inspect/report_plots.h"

/* --- axes --------------------------------------------------------------------------------- */

/* A frame within a picture, and the values at its edges. */
struct plot_frame {
    double left, top, right, bottom;
    double x_low, x_high, y_low, y_high;
};

static double x_at(const struct plot_frame *frame, double value)
{
    return frame->left +
           (value - frame->x_low) / (frame->x_high - frame->x_low) * (frame->right - frame->left);
}

static double y_at(const struct plot_frame *frame, double value)
{
    return frame->bottom -
           (value - frame->y_low) / (frame->y_high - frame->y_low) * (frame->bottom - frame->top);
}

/* Returns a step of 1, 2 or 5 times a power of ten that divides `span` into about `n` steps. */
static double nice_step(double span, double n)
{
    double power = pow(10, floor(log10(span / n)));
    double steps = span / n / power;
    return power * (steps < 1.5 ? 1 : steps < 3.5 ? 2 : steps < 7.5 ? 5 : 10);
}

static void add_tick_x(struct page *page, const struct plot_frame *frame, double value, int digits,
                       const char *anchor)
{
    smol_page_print(page,
                    "<text class=\"x\" x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\">%.*g</text>\n",
                    x_at(frame, value), frame->bottom + 15, anchor, digits, value);
}

static void add_ticks_y(struct page *page, const struct plot_frame *frame)
{
    double step = nice_step(frame->y_high - frame->y_low, 5);
    double first = ceil(frame->y_low / step - 1e-9);
    for (int i = 0; (first + i) * step <= frame->y_high + step * 1e-9; i++) {
        double y = y_at(frame, (first + i) * step);
        smol_page_print(page,
                        "<line class=\"grid\" x1=\"%.2f\" x2=\"%.2f\" y1=\"%.2f\" y2=\"%.2f\"/>",
                        frame->left, frame->right, y, y);
        smol_page_print(page,
                        "<text class=\"y\" x=\"%.2f\" y=\"%.2f\" text-anchor=\"end\">%.4g</text>\n",
                        frame->left - 7, y + 4, (first + i) * step);
    }
}

/* --- parts -------------------------------------------------------------------------------- */

void smol_plot_parts(struct page *page, const struct subject *subject)
{
    enum { WIDTH = 960, HEIGHT = 26 };
    double total = 0, x = 0;
    for (int i = 0; i < PART_COUNT; i++)
        total += (double)subject->parts[i].bytes;
    smol_page_print(page,
                    "<svg class=\"bar\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
                    "role=\"img\" aria-label=\"bytes by part\">\n",
                    WIDTH, HEIGHT);
    for (int i = 0; total > 0 && i < PART_COUNT; i++) {
        double width = (double)subject->parts[i].bytes / total * WIDTH;
        if (width > 0)
            smol_page_print(page, "<rect class=\"p%d\" x=\"%.2f\" width=\"%.2f\" height=\"%d\"/>\n",
                            i, x, width, HEIGHT);
        x += width;
    }
    smol_page_add(page, "</svg>\n");
}

/* --- histograms --------------------------------------------------------------------------- */

static uint64_t fullest(const struct histogram *histogram)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < HISTOGRAM_BINS; i++)
        most = histogram->bins[i] > most ? histogram->bins[i] : most;
    return most;
}

/* Adds the outline of all bins as one path. */
static void add_outline(struct page *page, const struct plot_frame *frame,
                        const struct histogram *histogram)
{
    smol_page_print(page, "<path class=\"area\" d=\"M%.2f %.2f", frame->left, frame->bottom);
    for (unsigned i = 0; i < HISTOGRAM_BINS; i++)
        smol_page_print(page, "V%.2fH%.2f", y_at(frame, (double)histogram->bins[i]),
                        x_at(frame, smol_histogram_edge(histogram, i + 1)));
    smol_page_print(page, "V%.2fZ\"/>\n", frame->bottom);
}

void smol_plot_histogram(struct page *page, const struct histogram *histogram)
{
    enum { WIDTH = 220, HEIGHT = 118, ROOM = 48 };
    uint64_t most = fullest(histogram), n = histogram->n_outside;
    struct plot_frame frame = {.left = 6, .top = 18, .right = WIDTH - 6, .bottom = HEIGHT - 20};
    for (unsigned i = 0; i < HISTOGRAM_BINS; i++)
        n += histogram->bins[i];
    frame.x_low = histogram->low;
    frame.x_high = histogram->high;
    frame.y_high = most ? (double)most : 1;
    smol_page_print(page, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"histogram\">\n",
                    WIDTH, HEIGHT);
    add_outline(page, &frame, histogram);
    smol_page_print(page,
                    "<line class=\"axis\" x1=\"%.2f\" x2=\"%.2f\" y1=\"%.2f\" y2=\"%.2f\"/>\n",
                    frame.left, frame.right, frame.bottom, frame.bottom);
    add_tick_x(page, &frame, histogram->low, 3, "start");
    add_tick_x(page, &frame, histogram->high, 3, "end");
    if (histogram->low < 0 && histogram->high > 0 && x_at(&frame, 0) > frame.left + ROOM &&
        x_at(&frame, 0) < frame.right - ROOM)
        add_tick_x(page, &frame, 0, 1, "middle");
    smol_page_print(page, "<text class=\"y\" x=\"%.2f\" y=\"12\">peak %.2g%%</text>\n</svg>\n",
                    frame.left, n ? 100 * (double)most / (double)n : 0);
}

/* --- lines -------------------------------------------------------------------------------- */

/* The height of a line's label, at or near its last point. */
struct end_label {
    size_t line;
    double y;
};

static int compare_labels(const void *left, const void *right)
{
    const struct end_label *a = left, *b = right;
    return a->y < b->y ? -1 : a->y > b->y;
}

/* Moves labels apart, n > 0: down from the top, then up from the bottom. */
static void spread(struct end_label *labels, size_t n, const struct plot_frame *frame)
{
    enum { LINE = 15 };
    qsort(labels, n, sizeof *labels, compare_labels);
    for (size_t i = 1; i < n; i++)
        labels[i].y = fmax(labels[i].y, labels[i - 1].y + LINE);
    labels[n - 1].y = fmin(labels[n - 1].y, frame->bottom);
    for (size_t i = n - 1; i-- > 0;)
        labels[i].y = fmin(labels[i].y, labels[i + 1].y - LINE);
}

/* Adds at most `most` characters, and an ellipsis if there are more. */
static void add_short(struct page *page, const char *text, size_t most)
{
    size_t size = strlen(text), n = 0, i = 0;
    for (; i < size; i++) {
        bool starts = !utf8_continues(text[i]);
        if (starts && n++ == most)
            break;
    }
    smol_page_text(page, text, i);
    smol_page_add(page, i < size ? "\xe2\x80\xa6" : "");
}

/* Returns the number of a line's colour. It depends on the role, so it is the same in every page.
 * For unknown names it is the number of the line. */
static size_t color_of(const struct tensor_group *group, size_t line)
{
    if (group->has_role && group->part == PART_ATTENTION)
        return (group->role - ROLE_ATTN_Q) % PLOT_LINES;
    if (group->has_role && group->part == PART_MLP)
        return (group->role - ROLE_MLP_GATE) % PLOT_LINES;
    return line;
}

/* Adds the points that have values, each with a title; returns the height of the last one, or
 * NaN. */
static double add_line(struct page *page, const struct plot_frame *frame,
                       const struct line_plot *plot, size_t line)
{
    const struct tensor_group *group = plot->groups[line];
    size_t color = color_of(group, line);
    double last = NAN;
    smol_page_print(page, "<polyline class=\"line l%zu\" points=\"", color);
    for (size_t i = 0; i < group->n; i++) {
        double value = plot->values[group->in[i].tensor];
        if (!isfinite(value))
            continue;
        last = y_at(frame, value);
        smol_page_print(page, "%.2f,%.2f ", x_at(frame, group->in[i].layer), last);
    }
    smol_page_add(page, "\"/>\n");
    for (size_t i = 0; i < group->n; i++) {
        double value = plot->values[group->in[i].tensor];
        if (!isfinite(value))
            continue;
        smol_page_print(page,
                        "<circle class=\"dot l%zu\" cx=\"%.2f\" cy=\"%.2f\" r=\"2.2\"><title>",
                        color, x_at(frame, group->in[i].layer), y_at(frame, value));
        add_short(page, group->label, 40);
        smol_page_print(page, ", layer %u: %.4g %s</title></circle>\n", group->in[i].layer, value,
                        plot->unit);
    }
    return last;
}

static void add_layers_axis(struct page *page, const struct plot_frame *frame)
{
    double step = fmax(nice_step(frame->x_high - frame->x_low, 6), 1);
    for (unsigned i = 0; i * step <= frame->x_high; i++)
        add_tick_x(page, frame, i * step, 6, "middle");
    smol_page_print(page,
                    "<text class=\"unit\" x=\"%.2f\" y=\"%.2f\" text-anchor=\"end\">layer</text>\n",
                    frame->right, frame->bottom + 30);
}

void smol_plot_lines(struct page *page, const struct line_plot *plot)
{
    enum { WIDTH = 560, HEIGHT = 280, NAMES = 96 };
    struct plot_frame frame = {60, 24, WIDTH - NAMES, HEIGHT - 36, 0, 1, plot->low, plot->high};
    struct end_label labels[PLOT_LINES];
    size_t n_labels = 0;
    for (size_t i = 0; i < plot->n; i++) {
        const struct tensor_group *group = plot->groups[i];
        frame.x_high = fmax(frame.x_high, group->in[group->n - 1].layer);
    }
    smol_page_print(page, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s by layer\">\n",
                    WIDTH, HEIGHT, plot->unit);
    add_ticks_y(page, &frame);
    smol_page_print(page, "<text class=\"unit\" x=\"%.2f\" y=\"12\">%s</text>\n", frame.left,
                    plot->unit);
    add_layers_axis(page, &frame);
    for (size_t i = 0; i < plot->n; i++) {
        double y = add_line(page, &frame, plot, i);
        if (isfinite(y))
            labels[n_labels++] = (struct end_label){i, y};
    }
    if (n_labels > 0)
        spread(labels, n_labels, &frame);
    for (size_t i = 0; i < n_labels; i++) {
        const struct tensor_group *group = plot->groups[labels[i].line];
        smol_page_print(page, "<text class=\"name n%zu\" x=\"%.2f\" y=\"%.2f\">",
                        color_of(group, labels[i].line), frame.right + 8, labels[i].y + 4);
        add_short(page, group->label, 14);
        smol_page_add(page, "</text>\n");
    }
    smol_page_add(page, "</svg>\n");
}

/* --- style ------------------------------------------------------------------------------- */

/* The names beside the lines also distinguish them, not only the colours. */
const char smol_report_style[] =
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1b2733;--soft:#5d6b7a;--rule:#dde3ea;"
    "--wash:#f5f7f9;--area:#7d9cba;"
    "--c0:#2a6496;--c1:#b65c22;--c2:#3d7f56;--c3:#8a4f93;--c4:#8c6d1f;--c5:#a23b4a}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#14191f;--ink:#dfe6ed;--soft:#93a1b0;"
    "--rule:#2c3640;--wash:#1b222a;--area:#4d7397;"
    "--c0:#7fb2de;--c1:#e49a63;--c2:#82c49b;--c3:#cb98d4;--c4:#d3b45f;--c5:#e58b98}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:2.5rem 1.5rem 4rem;max-width:80rem;background:var(--paper);"
    "color:var(--ink);font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",\"Noto Sans\","
    "\"Liberation Sans\",Arial,sans-serif}\n"
    "h1{margin:0;font-size:1.75rem;font-weight:600;overflow-wrap:anywhere}\n"
    "h2{margin:3rem 0 .4rem;padding-top:.9rem;border-top:1px solid var(--rule);font-size:1.15rem;"
    "font-weight:600}\n"
    "h3{margin:0 0 .3rem;font-size:.95rem;font-weight:600}\n"
    "p{margin:.3rem 0 1rem;max-width:46rem;color:var(--soft);overflow-wrap:anywhere}\n"
    "dl{display:flex;flex-wrap:wrap;gap:.8rem 2.6rem;margin:1.4rem 0 0}\n"
    "dt{color:var(--soft);font-size:.82rem}\n"
    "dd{margin:0;font-size:1.25rem;font-variant-numeric:tabular-nums}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.22rem .9rem .22rem 0;border-bottom:1px solid var(--rule);text-align:right;"
    "white-space:nowrap}\n"
    "th{color:var(--soft);font-size:.82rem;font-weight:500}\n"
    "th:first-child,td:first-child,.left{text-align:left}\n"
    "tr:last-child td{border-bottom:0}\n"
    "tr.total td{border-top:1px solid var(--soft);font-weight:600}\n"
    ".wide{overflow-x:auto;font-size:.78rem}\n"
    ".wide th,.wide td{padding-right:.4rem}.wide th{font-size:.78rem;white-space:normal}\n"
    ".wide td:first-child{min-width:9rem;max-width:26rem;white-space:normal;"
    "overflow-wrap:anywhere}\n"
    ".soft{color:var(--soft)}\n"
    ".two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));"
    "gap:1.2rem 2rem}\n"
    ".many{display:grid;grid-template-columns:repeat(auto-fill,minmax(13rem,1fr));"
    "gap:1.2rem 1.6rem}\n"
    "figure{margin:0;min-width:0}\n"
    "figcaption{display:flex;justify-content:space-between;gap:.8rem;font-size:.85rem}\n"
    "figcaption b{font-weight:600;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}\n"
    "svg{display:block;width:100%;height:auto}\n"
    "svg.bar{height:1.6rem;margin:1rem 0}\n"
    "svg text{fill:var(--soft);font-size:11px;font-family:inherit;"
    "font-variant-numeric:tabular-nums}\n"
    "svg text.name{font-size:12px;font-weight:600}\n"
    ".grid{stroke:var(--rule)}\n"
    ".axis{stroke:var(--soft)}\n"
    ".area{fill:var(--area)}\n"
    ".line{fill:none;stroke-width:1.6;stroke-linejoin:round}\n"
    ".l0{stroke:var(--c0)}.l1{stroke:var(--c1)}.l2{stroke:var(--c2)}.l3{stroke:var(--c3)}"
    ".l4{stroke:var(--c4)}.l5{stroke:var(--c5)}\n"
    ".dot{fill:var(--paper);stroke-width:1.2}\n"
    "svg text.n0{fill:var(--c0)}svg text.n1{fill:var(--c1)}svg text.n2{fill:var(--c2)}"
    "svg text.n3{fill:var(--c3)}svg text.n4{fill:var(--c4)}svg text.n5{fill:var(--c5)}\n"
    ".p0{fill:var(--c0)}.p1{fill:var(--c2)}.p2{fill:var(--area)}.p3{fill:var(--c5)}"
    ".p4{fill:var(--c3)}.p5{fill:var(--soft)}.p6{fill:var(--c4)}.p7{fill:var(--ink)}\n"
    "td svg{display:inline-block;width:.8rem;height:.8rem;margin-right:.5rem;"
    "vertical-align:-.05rem}\n"
    "pre{margin:.6rem 0;padding:1rem;overflow-x:auto;background:var(--wash);border-radius:4px;"
    "font:12.5px/1.5 ui-monospace,\"Liberation Mono\",\"DejaVu Sans Mono\",monospace}\n"
    "@media(max-width:72rem){.wide,.wide th{font-size:.7rem}}\n"
    "@media(max-width:44rem){table{display:block;overflow-x:auto}}\n"
    "@media print{:root{color-scheme:light}h2{break-after:avoid}figure,tr{break-inside:avoid}}\n";
