/* Compares tensors, see diff.h. Elements are widened to double in pieces. This is exact for
 * every type that is compared as numbers. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/quote.h"
#include "convert/checkpoint/tensor.h"
#include "convert/inspect/diff.h"

/* --- elements as numbers ------------------------------------------------------------------ */

/* Adds a piece that starts at element `start`; returns the sum of its absolute differences. */
static double compare_piece(const double *a, const double *b, uint64_t n, uint64_t start,
                            struct diff_values *values)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i])))
            continue;
        values->n_different++;
        if (!isfinite(a[i]) || !isfinite(b[i])) {
            if (values->n_not_finite++ == 0)
                values->first_not_finite = start + i;
            continue;
        }
        double difference = fabs(a[i] - b[i]);
        sum += difference;
        if (difference > values->largest) {
            values->largest = difference;
            values->largest_at = start + i;
        }
    }
    return sum;
}

struct diff_values smol_diff_values(const struct model_tensor *a, const struct model_tensor *b)
{
    /* tiled tensors are read by rows; others are one row */
    const struct blob_tensor *tiled = a->tiled ? a->tiled : b->tiled;
    uint64_t rows = tiled ? tiled->rows : 1, cols = tiled ? tiled->cols : a->n_elements;
    struct diff_values values = {.n = a->n_elements};
    double left[TENSOR_PIECE], right[TENSOR_PIECE], sum = 0;
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t col = 0; col < cols; col += TENSOR_PIECE) {
            uint64_t n = cols - col < TENSOR_PIECE ? cols - col : TENSOR_PIECE;
            smol_tensor_read(a, cols, row, col, n, left);
            smol_tensor_read(b, cols, row, col, n, right);
            sum += compare_piece(left, right, n, row * cols + col, &values);
        }
    }
    if (values.n > values.n_not_finite)
        values.mean = sum / (double)(values.n - values.n_not_finite);
    return values;
}

/* --- the list --------------------------------------------------------------------------- */

enum { INDENT = 2 };

struct listing {
    FILE *out;
    size_t name_width;
    uint64_t n;     /* lines */
    size_t pending; /* spaces to print before the next column, if any follows */
};

/* --- lines -------------------------------------------------------------------------------- */

static void pad(FILE *out, size_t used, size_t width)
{
    fprintf(out, "%*s", used < width ? (int)(width - used) : 0, "");
}

/* Pads to the column after the positions. */
static void reach_column(struct listing *listing)
{
    pad(listing->out, 0, listing->pending);
    listing->pending = 0;
}

static void print_heading(const struct listing *listing)
{
    fprintf(listing->out, "\n%-*s  %12s %12s %12s %12s  %-16s %s\n",
            (int)listing->name_width + INDENT, "tensor", "differ", "of", "largest", "mean", "at",
            "chunks");
}

static void begin_line(struct listing *listing, const struct model_tensor *tensor)
{
    if (listing->n++ == 0)
        print_heading(listing);
    pad(listing->out, 0, INDENT);
    smol_print_text(listing->out, tensor->name, strlen(tensor->name));
    pad(listing->out, smol_text_width(tensor->name), listing->name_width);
    fprintf(listing->out, "  ");
}

static void list_missing(struct listing *listing, const struct model_tensor *tensor, char side)
{
    begin_line(listing, tensor);
    fprintf(listing->out, "only in %c\n", side);
}

/* Prints numbers as "[49152, 576]"; returns the length. */
static size_t print_numbers(FILE *out, const uint64_t *numbers, unsigned n)
{
    size_t length = 2;
    fputc('[', out);
    for (unsigned i = 0; i < n; i++)
        length += (size_t)fprintf(out, "%s%" PRIu64, i ? ", " : "", numbers[i]);
    fputc(']', out);
    return length;
}

static size_t print_place(FILE *out, const struct model_tensor *tensor, uint64_t element)
{
    uint64_t place[SAFETENSORS_MAX_RANK];
    for (unsigned d = tensor->rank; d-- > 0; element /= tensor->shape[d])
        place[d] = element % tensor->shape[d];
    return print_numbers(out, place, tensor->rank);
}

static void print_values(struct listing *listing, const struct model_tensor *tensor,
                         const struct diff_values *values)
{
    enum { PLACE_WIDTH = 16 };
    FILE *out = listing->out;
    fprintf(out, "%12" PRIu64 " %12" PRIu64, values->n_different, values->n);
    if (values->n_different == values->n_not_finite) {
        fprintf(out, " %12s %12s", "-", "-");
        listing->pending = 2 + PLACE_WIDTH;
        return;
    }
    fprintf(out, " %12.6g %12.6g  ", values->largest, values->mean);
    size_t used = print_place(out, tensor, values->largest_at);
    listing->pending = used < PLACE_WIDTH ? PLACE_WIDTH - used : 0;
}

/* Ends a line with remarks that have no column. */
static void end_line(struct listing *listing, const struct model_tensor *a,
                     const struct model_tensor *b, const struct diff_values *values)
{
    FILE *out = listing->out;
    if (strcmp(smol_tensor_dtype(a), smol_tensor_dtype(b)) != 0) {
        reach_column(listing);
        fprintf(out, "  %s | %s", smol_tensor_dtype(a), smol_tensor_dtype(b));
    }
    if (values->n_not_finite) {
        reach_column(listing);
        fprintf(out, "  NaN or infinite: %" PRIu64 ", first at ", values->n_not_finite);
        print_place(out, a, values->first_not_finite);
    }
    listing->pending = 0;
    fputc('\n', out);
}

/* --- bytes -------------------------------------------------------------------------------- */

/* Returns whether tensors with the same numbers have the same bytes. */
static bool same_type(const struct model_tensor *a, const struct model_tensor *b)
{
    if (a->tiled && b->tiled)
        return a->tiled->dtype == b->tiled->dtype &&
               (!a->levels || memcmp(a->levels, b->levels, MAX_LEVELS) == 0);
    return a->raw && b->raw && a->raw->dtype == b->raw->dtype && tensor_is_plain(a->raw) &&
           tensor_is_plain(b->raw) && !a->added && !b->added;
}

static bool same_bytes(const struct model_tensor *a, const struct model_tensor *b)
{
    return smol_tensor_size(a) == 0 || memcmp(a->data, b->data, smol_tensor_size(a)) == 0;
}

/* Prints the number of chunks of b's file that contain bytes of the tensor, and of those with
 * changed bytes. */
static void print_chunks(struct listing *listing, const struct model_tensor *a,
                         const struct model_tensor *b)
{
    uint64_t size = smol_tensor_size(b), n = 0, n_changed = 0, length;
    for (uint64_t at = 0; at < size; at += length) {
        length = BLOB_CHUNK_SIZE - (b->tiled->offset + at) % BLOB_CHUNK_SIZE;
        length = length < size - at ? length : size - at;
        n_changed += memcmp(a->data + at, b->data + at, length) != 0;
        n++;
    }
    reach_column(listing);
    fprintf(listing->out, " %" PRIu64 " of %" PRIu64, n_changed, n);
}

/* --- one pair ----------------------------------------------------------------------------- */

static void list_shapes(struct listing *listing, const struct model_tensor *a,
                        const struct model_tensor *b)
{
    begin_line(listing, a);
    fprintf(listing->out, "shape ");
    print_numbers(listing->out, a->shape, a->rank);
    fprintf(listing->out, " | ");
    print_numbers(listing->out, b->shape, b->rank);
    fputc('\n', listing->out);
}

/* Compares tensors of different types. A tensor of a blob and one of safetensors may still be equal
 * as numbers. */
static void compare_types(struct listing *listing, const struct model_tensor *a,
                          const struct model_tensor *b)
{
    if (!smol_tensor_is_number(a) || !smol_tensor_is_number(b)) {
        begin_line(listing, a);
        fprintf(listing->out, "%s | %s, not compared\n", smol_tensor_dtype(a),
                smol_tensor_dtype(b));
        return;
    }
    struct diff_values values = smol_diff_values(a, b);
    bool other_type = a->raw && b->raw && a->raw->dtype != b->raw->dtype;
    if (!values.n_different && !other_type)
        return;
    begin_line(listing, a);
    print_values(listing, a, &values);
    end_line(listing, a, b, &values);
}

static void compare_bytes(struct listing *listing, const struct model_tensor *a,
                          const struct model_tensor *b)
{
    struct diff_values values = {0};
    if (same_bytes(a, b))
        return;
    begin_line(listing, a);
    if (smol_tensor_is_number(a)) {
        values = smol_diff_values(a, b);
        print_values(listing, a, &values);
    } else {
        fprintf(listing->out, "different bytes: %s cannot be compared as numbers",
                smol_tensor_dtype(a));
    }
    if (a->tiled)
        print_chunks(listing, a, b);
    end_line(listing, a, b, &values);
}

static void compare(struct listing *listing, const struct model_tensor *a,
                    const struct model_tensor *b)
{
    if (a->is_alias && b->is_alias) /* the embeddings have been compared */
        return;
    if (a->rank != b->rank || memcmp(a->shape, b->shape, sizeof a->shape) != 0)
        list_shapes(listing, a, b);
    else if (same_type(a, b))
        compare_bytes(listing, a, b);
    else
        compare_types(listing, a, b);
}

/* --- all tensors -------------------------------------------------------------------------- */

static int compare_names(const void *left, const void *right)
{
    const struct model_tensor *const *a = left, *const *b = right;
    if ((*a)->has_role != (*b)->has_role) /* a file's own name may equal a role's name */
        return (*a)->has_role ? -1 : 1;
    return strcmp((*a)->name, (*b)->name);
}

/* Returns the tensors sorted by name; the caller frees the array. */
static const struct model_tensor **sort(const struct subject *side, smol_error *error)
{
    const struct model_tensor **sorted = malloc((side->n_tensors + 1) * sizeof *sorted);
    if (!sorted) {
        smol_fail_memory(error, "the tensor list");
        return NULL;
    }
    for (size_t i = 0; i < side->n_tensors; i++)
        sorted[i] = &side->tensors[i];
    qsort(sorted, side->n_tensors, sizeof *sorted, compare_names);
    return sorted;
}

static const struct model_tensor *find(const struct model_tensor **sorted, size_t n,
                                       const struct model_tensor *wanted)
{
    const struct model_tensor **found = bsearch(&wanted, sorted, n, sizeof *sorted, compare_names);
    return found ? *found : NULL;
}

static size_t widest_name(const struct subject *side, size_t width)
{
    enum { WIDEST = 50 };
    for (size_t i = 0; i < side->n_tensors; i++) {
        size_t own = smol_text_width(side->tensors[i].name);
        width = own > width && own <= WIDEST ? own : width;
    }
    return width;
}

smol_status smol_diff_tensors(const struct subject *a, const struct subject *b, FILE *out,
                              uint64_t *n_different, uint64_t *n_compared, smol_error *error)
{
    struct listing listing = {out, widest_name(b, widest_name(a, 0)), 0, 0};
    const struct model_tensor **in_a = sort(a, error), **in_b = in_a ? sort(b, error) : NULL;
    smol_status status = in_b ? SMOL_OK : SMOL_ERROR_MEMORY;
    for (size_t i = 0; in_b && i < a->n_tensors; i++) {
        const struct model_tensor *other = find(in_b, b->n_tensors, &a->tensors[i]);
        if (other)
            compare(&listing, &a->tensors[i], other);
        else
            list_missing(&listing, &a->tensors[i], 'A');
    }
    *n_compared = a->n_tensors;
    for (size_t i = 0; in_b && i < b->n_tensors; i++) {
        if (find(in_a, a->n_tensors, &b->tensors[i]))
            continue;
        list_missing(&listing, &b->tensors[i], 'B');
        ++*n_compared;
    }
    free(in_a);
    free(in_b);
    *n_different = listing.n;
    return status;
}
