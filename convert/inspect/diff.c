/* Compares two models, see inspect.h. */
#include "convert/inspect/inspect.h"

#include <inttypes.h>
#include <string.h>

#include "cli/quote.h"
#include "convert/inspect/diff.h"
#include "convert/provenance.h"

/* --- rows ----------------------------------------------------------------------------------- */

enum { NAME_WIDTH = 26, VALUE_WIDTH = 26, SHOWN = 10 };

static void print_cell(FILE *out, const char *text, size_t width)
{
    size_t used = smol_text_width(text);
    fprintf(out, "%s%*s", text, used < width ? (int)(width - used) : 0, "");
}

static void print_row(FILE *out, const char *indent, const char *name, const char *a, const char *b)
{
    fputs(indent, out);
    print_cell(out, name, NAME_WIDTH - smol_text_width(indent));
    print_cell(out, a, *b ? VALUE_WIDTH - 1 : 0);
    fprintf(out, "%s%s\n", *b ? " " : "", b);
}

void smol_diff_row(struct diff_table *table, const char *name, const char *a, const char *b)
{
    if (table->n++ == 0) {
        fputc('\n', table->out);
        print_row(table->out, "", table->heading, "A", "B");
    }
    print_row(table->out, "  ", name, a, b);
}

bool smol_diff_group_is_full(struct diff_table *table)
{
    bool full = table->n_group >= SHOWN;
    table->n_group += full;
    table->n += full;
    return full;
}

void smol_diff_group_row(struct diff_table *table, const char *name, const char *a, const char *b)
{
    if (smol_diff_group_is_full(table))
        return;
    table->n_group++;
    smol_diff_row(table, name, a, b);
}

void smol_diff_end_group(struct diff_table *table)
{
    if (table->n_group > SHOWN)
        fprintf(table->out, "  ... and %" PRIu64 " more\n", table->n_group - SHOWN);
    table->n_group = 0;
}

/* --- the comparison ------------------------------------------------------------------------- */

static void print_side(FILE *out, char letter, const struct subject *side)
{
    const struct blob *blob = &side->file.blob;
    char dtypes[MAX_MIX];
    fprintf(out, "%c  ", letter);
    smol_print_text(out, side->path, strlen(side->path));
    if (side->kind == SUBJECT_BLOB)
        fprintf(out, "  (.smol %u.%u, %s)\n", blob->header->major, blob->header->minor,
                smol_blob_dtypes(blob, dtypes));
    else
        fprintf(out, "  (%s)\n", side->kind == SUBJECT_CHECKPOINT ? "a checkpoint" : "safetensors");
}

static const char *provenance_of(const struct subject *side, size_t *size)
{
    const struct blob *blob = &side->file.blob;
    *size = side->kind == SUBJECT_BLOB ? blob->n_provenance : 0;
    return side->kind == SUBJECT_BLOB ? blob->provenance : "";
}

/* Explains differences that calibration causes: it folds factors into the weights. */
static void print_calibration(FILE *out, const struct subject *a, const struct subject *b)
{
    size_t n, m;
    const char *of_a = provenance_of(a, &n), *of_b = provenance_of(b, &m);
    if (!smol_provenance_calibrated_alike(of_a, n, of_b, m))
        fprintf(
            out,
            "\nA and B do not have the same calibration. It moves factors from one tensor to the\n"
            "next, so elements differ even if both are of the same checkpoint. To check that, use\n"
            "smolconv verify BLOB --source CHECKPOINT --calibration STATS\n");
}

/* Returns whether the weights of two blobs have the same places. */
static bool same_layout(const struct blob *a, const struct blob *b)
{
    bool same = a->model->dtype == b->model->dtype;
    for (size_t i = 0; same && i < a->n_tensors && i < b->n_tensors; i++)
        same = a->tensors[i].dtype == b->tensors[i].dtype;
    return same;
}

/* Counts the chunks with different digests, of two blobs with the same dtypes. */
static void print_chunks(FILE *out, const struct subject *a, const struct subject *b)
{
    const struct blob *x = &a->file.blob, *y = &b->file.blob;
    if (a->kind != SUBJECT_BLOB || b->kind != SUBJECT_BLOB || !same_layout(x, y))
        return;
    size_t n = 0;
    for (size_t i = 0; i < y->n_chunks; i++)
        n += i >= x->n_chunks || x->digests[i] != y->digests[i];
    fprintf(out, ", chunks %zu of %zu", n, y->n_chunks);
}

/* Numbers of differences. */
struct summary {
    uint64_t n_settings, n_tokenizer, n_tensors;
    uint64_t n_compared; /* tensors of either side */
    bool other_provenance;
};

static smol_status print_summary(FILE *out, const struct subject *a, const struct subject *b,
                                 const struct summary *found)
{
    bool with_settings = a->blob && b->blob;
    bool same = !found->n_settings && !found->n_tokenizer && !found->n_tensors;
    if (same)
        fprintf(out, "\nthe same%s", found->other_provenance ? " except for the provenance" : "");
    else
        fprintf(out,
                "\ndifferent: settings %" PRIu64 ", tokenizer %" PRIu64 ", tensors %" PRIu64
                " of %" PRIu64,
                found->n_settings, found->n_tokenizer, found->n_tensors, found->n_compared);
    if (!same)
        print_chunks(out, a, b);
    fprintf(out, "%s\n",
            with_settings ? "" : " (tensors only: a safetensors file has nothing else)");
    return same ? SMOL_OK : SMOL_ERROR_MISMATCH;
}

static smol_status compare(const struct subject *a, const struct subject *b, FILE *out,
                           smol_error *error)
{
    struct summary found = {0};
    struct diff_table settings = {out, "settings", 0, 0}, tokenizer = {out, "tokenizer", 0, 0};
    print_side(out, 'A', a);
    print_side(out, 'B', b);
    print_calibration(out, a, b);
    if (a->blob && b->blob) {
        smol_diff_settings(a, b, &settings);
        smol_diff_tokenizer(a, b, &tokenizer);
        found.n_settings = settings.n;
        found.n_tokenizer = tokenizer.n;
    }
    if (a->kind == SUBJECT_BLOB && b->kind == SUBJECT_BLOB)
        found.other_provenance = smol_diff_provenance(&a->file.blob, &b->file.blob, out);
    smol_status status = smol_diff_tensors(a, b, out, &found.n_tensors, &found.n_compared, error);
    return status ? status : print_summary(out, a, b, &found);
}

static smol_status open_side(const char *path, struct subject *side, smol_error *error)
{
    const struct source_options options = {0};
    bool is_checkpoint = smol_source_is_checkpoint(path);
    smol_status status =
        smol_subject_open(path, is_checkpoint ? &options : NULL, VERIFY_AT_OPEN, side, error);
    if (status || !side->reason.status)
        return status;
    *error = side->reason;
    return error->status;
}

/* Stores the dense layers of a checkpoint as the other side does, or exactly. */
static smol_status match_dtype(struct subject *side, const struct subject *other, smol_error *error)
{
    if (side->kind != SUBJECT_CHECKPOINT)
        return SMOL_OK;
    enum blob_dtype dtype = other->kind == SUBJECT_BLOB ? other->blob->model->dtype : DTYPE_F32;
    return smol_subject_set_dtype(side, dtype, error);
}

smol_status smol_diff(const char *path_a, const char *path_b, FILE *out, smol_error *error)
{
    struct subject a, b = {0};
    struct safetensors split_a = {0}, split_b = {0};
    smol_status status = open_side(path_a, &a, error);
    if (!status)
        status = open_side(path_b, &b, error);
    if (!status)
        status = match_dtype(&a, &b, error);
    if (!status)
        status = match_dtype(&b, &a, error);
    if (!status)
        status = smol_diff_list(&a, &b, &split_a, error);
    if (!status)
        status = smol_diff_list(&b, &a, &split_b, error);
    if (!status)
        status = compare(&a, &b, out, error);
    status = smol_subject_settle(&a, status, error);
    status = smol_subject_settle(&b, status, error);
    smol_safetensors_close(&split_a);
    smol_safetensors_close(&split_b);
    smol_subject_close(&a);
    smol_subject_close(&b);
    return status;
}
