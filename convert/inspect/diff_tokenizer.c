/* Compares tokenizers, table by table, see diff.h. */
#include <inttypes.h>
#include <string.h>

#include "cli/quote.h"
#include "common/text.h"
#include "convert/inspect/diff.h"

enum { QUOTE = 100 }; /* bytes of a token's text in a cell */

/* --- tokens ------------------------------------------------------------------------------- */

/* Shows a token's text and flags, or "-" if it does not exist. */
static void show_token(const struct tokenizer_tables *t, uint32_t id, char *out)
{
    bool exists = id < t->header.n_tokens;
    struct token_span span = tokenizer_span(t, id);
    if (!exists || span.flags & TOKEN_UNUSED) {
        snprintf(out, DIFF_CELL, exists ? "unused" : "-");
        return;
    }
    smol_quote_text((const char *)t->text + span.start, span.length, out, QUOTE);
    size_t length = strlen(out);
    if (span.flags & TOKEN_SPECIAL)
        snprintf(out + length, DIFF_CELL - length, " special");
}

static bool same_token(const struct tokenizer_tables *a, const struct tokenizer_tables *b,
                       uint32_t id)
{
    if (id >= a->header.n_tokens || id >= b->header.n_tokens)
        return false;
    struct token_span x = tokenizer_span(a, id), y = tokenizer_span(b, id);
    return x.flags == y.flags && x.length == y.length &&
           memcmp(a->text + x.start, b->text + y.start, x.length) == 0;
}

static void diff_tokens(const struct tokenizer_tables *a, const struct tokenizer_tables *b,
                        struct diff_table *table)
{
    char name[DIFF_CELL], left[DIFF_CELL], right[DIFF_CELL];
    uint32_t n_a = a->header.n_tokens, n_b = b->header.n_tokens;
    if (n_a != n_b) {
        snprintf(left, sizeof left, "%" PRIu32, n_a);
        snprintf(right, sizeof right, "%" PRIu32, n_b);
        smol_diff_row(table, "tokens", left, right);
    }
    for (uint32_t id = 0; id < n_a || id < n_b; id++) {
        if (same_token(a, b, id) || smol_diff_group_is_full(table))
            continue;
        snprintf(name, sizeof name, "token %" PRIu32, id);
        show_token(a, id, left);
        show_token(b, id, right);
        smol_diff_group_row(table, name, left, right);
    }
    smol_diff_end_group(table);
}

static void show_id(uint32_t id, char *out)
{
    if (id == NO_TOKEN)
        snprintf(out, DIFF_CELL, "-");
    else
        snprintf(out, DIFF_CELL, "%" PRIu32, id);
}

static void diff_byte_tokens(const struct tokenizer_tables *a, const struct tokenizer_tables *b,
                             struct diff_table *table)
{
    char name[DIFF_CELL], left[DIFF_CELL], right[DIFF_CELL];
    for (unsigned byte = 0; byte < 256; byte++) {
        uint32_t x = tokenizer_byte(a, (uint8_t)byte), y = tokenizer_byte(b, (uint8_t)byte);
        if (x == y)
            continue;
        snprintf(name, sizeof name, "token of byte %02x", byte);
        show_id(x, left);
        show_id(y, right);
        smol_diff_group_row(table, name, left, right);
    }
    smol_diff_end_group(table);
}

/* --- added tokens ------------------------------------------------------------------------- */

static void show_added(const struct added_token *added, char *out)
{
    static const char *const flags[] = {"normalized", "lstrip", "rstrip", "single word", "special"};
    int n =
        added ? snprintf(out, DIFF_CELL, "id %" PRIu32, added->id) : snprintf(out, DIFF_CELL, "-");
    for (unsigned i = 0; added && i < sizeof flags / sizeof flags[0]; i++)
        if (added->flags >> i & 1)
            n += snprintf(out + n, DIFF_CELL - (size_t)n, ", %s", flags[i]);
}

/* Returns a negative number, 0 or a positive number if a comes before, equals or comes after b.
 * Both tables are in this order. */
static int compare_added(const struct tokenizer_tables *of_a, const struct added_token *a,
                         const struct tokenizer_tables *of_b, const struct added_token *b)
{
    unsigned kind_a = a->flags & ADDED_NORMALIZED, kind_b = b->flags & ADDED_NORMALIZED;
    if (kind_a != kind_b)
        return kind_a < kind_b ? -1 : 1;
    return compare_texts(of_a->text + a->start, a->length, of_b->text + b->start, b->length);
}

/* Adds a row about `token` of table `t` with its values in A and B; NULL if one has no such
 * token. */
static void row_of_added(const struct tokenizer_tables *t, const struct added_token *token,
                         const struct added_token *in_a, const struct added_token *in_b,
                         struct diff_table *table)
{
    char name[DIFF_CELL] = "added ", left[DIFF_CELL], right[DIFF_CELL];
    if (smol_diff_group_is_full(table))
        return;
    smol_quote_text((const char *)t->text + token->start, token->length, name + strlen(name),
                    QUOTE);
    show_added(in_a, left);
    show_added(in_b, right);
    smol_diff_group_row(table, name, left, right);
}

static void diff_added(const struct tokenizer_tables *a, const struct tokenizer_tables *b,
                       struct diff_table *table)
{
    uint32_t n_a = a->header.n_added, n_b = b->header.n_added, i = 0, j = 0;
    while (i < n_a || j < n_b) {
        const struct added_token none = {0};
        const struct added_token x = i < n_a ? tokenizer_added(a, i) : none;
        const struct added_token y = j < n_b ? tokenizer_added(b, j) : none;
        int order = j == n_b ? -1 : i == n_a ? 1 : compare_added(a, &x, b, &y);
        if (order < 0)
            row_of_added(a, &x, &x, NULL, table);
        else if (order > 0)
            row_of_added(b, &y, NULL, &y, table);
        else if (x.id != y.id || x.flags != y.flags)
            row_of_added(a, &x, &x, &y, table);
        i += order <= 0;
        j += order >= 0;
    }
    smol_diff_end_group(table);
}

/* --- merges ------------------------------------------------------------------------------- */

static void quote_token(const struct tokenizer_tables *t, uint32_t id, char *out)
{
    struct token_span span = tokenizer_span(t, id);
    smol_quote_text((const char *)t->text + span.start, span.length, out, QUOTE);
}

/* Lists the merges of `t`. A merge that `other` lacks, or that produces another token there,
 * becomes a row. A merge that differs only in rank is counted. */
struct merge_listing {
    const struct tokenizer_tables *t, *other;
    bool t_is_a;
    struct diff_table *table;
    uint32_t n_merges, n_ranks;
};

static void list_merge(struct merge_listing *listing, const struct token_merge *merge,
                       struct merge match)
{
    char name[DIFF_CELL], first[QUOTE], second[QUOTE], ours[DIFF_CELL], theirs[DIFF_CELL];
    if (smol_diff_group_is_full(listing->table))
        return;
    quote_token(listing->t, merge->left, first);
    quote_token(listing->t, merge->right, second);
    snprintf(name, sizeof name, "merge %s %s", first, second);
    snprintf(ours, sizeof ours, "rank %" PRIu32 ", gives %" PRIu32, merge->rank, merge->merged);
    if (match.rank != NO_RANK)
        snprintf(theirs, sizeof theirs, "rank %" PRIu32 ", gives %" PRIu32, match.rank,
                 match.merged);
    else
        snprintf(theirs, sizeof theirs, "-");
    smol_diff_group_row(listing->table, name, listing->t_is_a ? ours : theirs,
                        listing->t_is_a ? theirs : ours);
}

static void list_merges(struct merge_listing *listing)
{
    for (uint32_t slot = 0; slot < listing->t->header.n_merge_slots; slot++) {
        const struct token_merge *merge = &listing->t->merges[slot];
        if (merge->left == NO_TOKEN)
            continue;
        struct merge match = tokenizer_merge(listing->other, merge->left, merge->right);
        bool in_both = match.rank != NO_RANK;
        listing->n_merges++;
        if (in_both && match.merged == merge->merged)
            listing->n_ranks += match.rank != merge->rank;
        else if (!in_both || listing->t_is_a) /* merges in both are listed once */
            list_merge(listing, merge, match);
    }
    smol_diff_end_group(listing->table);
}

static void diff_merges(const struct tokenizer_tables *a, const struct tokenizer_tables *b,
                        struct diff_table *table)
{
    char left[DIFF_CELL], right[DIFF_CELL];
    struct merge_listing of_a = {a, b, true, table, 0, 0}, of_b = {b, a, false, table, 0, 0};
    list_merges(&of_a);
    list_merges(&of_b);
    if (of_a.n_merges != of_b.n_merges) {
        snprintf(left, sizeof left, "%" PRIu32, of_a.n_merges);
        snprintf(right, sizeof right, "%" PRIu32, of_b.n_merges);
        smol_diff_row(table, "merges", left, right);
    }
    if (of_a.n_ranks) {
        snprintf(left, sizeof left, "%" PRIu32 " of those in both", of_a.n_ranks);
        smol_diff_row(table, "merge ranks", left, "");
    }
}

/* --- how text is split -------------------------------------------------------------------- */

static void show_splitting(const struct tokenizer_tables *t, char *out)
{
    const struct blob_scanner *scanner = &t->scanner.header;
    if (t->header.pretokenizer == PRETOKENIZE_SCANNER)
        snprintf(out, DIFF_CELL, "%" PRIu32 " patterns, %" PRIu32 " states", scanner->n_stages,
                 scanner->n_states);
    else
        snprintf(out, DIFF_CELL, "as GPT-2%s",
                 t->header.pretokenizer & PRETOKENIZE_DIGITS ? ", single digits" : "");
}

/* Returns whether two scanners have the same tables. */
static bool same_scanner(const struct scanner_tables *a, const struct scanner_tables *b)
{
    const struct blob_scanner *h = &a->header;
    size_t row = h->row * sizeof *a->states;
    return memcmp(h, &b->header, sizeof *h) == 0 &&
           memcmp(a->stages, b->stages, h->n_stages * sizeof *a->stages) == 0 &&
           memcmp(a->class_index, b->class_index, CLASS_INDEX_SIZE * sizeof *a->class_index) == 0 &&
           memcmp(a->class_blocks, b->class_blocks, (size_t)h->n_class_blocks * 256) == 0 &&
           memcmp(a->byte_classes, b->byte_classes, 256) == 0 &&
           memcmp(a->starts, b->starts, h->n_stages * row) == 0 &&
           memcmp(a->states, b->states, h->n_states * row) == 0 &&
           (h->n_ahead_states == 0 || memcmp(a->ahead, b->ahead, h->n_ahead_states * row) == 0);
}

static bool same_splitting(const struct tokenizer_tables *a, const struct tokenizer_tables *b)
{
    bool scanners = a->header.pretokenizer & b->header.pretokenizer & PRETOKENIZE_SCANNER;
    return scanners ? same_scanner(&a->scanner, &b->scanner)
                    : a->header.pretokenizer == b->header.pretokenizer;
}

static void diff_splitting(const struct tokenizer_tables *a, const struct tokenizer_tables *b,
                           struct diff_table *table)
{
    char name[DIFF_CELL], left[DIFF_CELL], right[DIFF_CELL];
    if (!same_splitting(a, b)) {
        show_splitting(a, left);
        show_splitting(b, right);
        smol_diff_row(table, "splitting", left, right);
    }
    for (uint32_t c = 0; c < 256 * CLASS_INDEX_SIZE; c++) {
        unsigned x = tokenizer_classes(a, c), y = tokenizer_classes(b, c);
        if (x == y || smol_diff_group_is_full(table))
            continue;
        snprintf(name, sizeof name, "classes of U+%04" PRIX32, c);
        snprintf(left, sizeof left, "%u", x);
        snprintf(right, sizeof right, "%u", y);
        smol_diff_group_row(table, name, left, right);
    }
    smol_diff_end_group(table);
}

/* --- the text section ----------------------------------------------------------------------- */

/* Names of the fields of struct blob_text, in order. */
static const char *const text_fields[] = {
    "flags",         "unknown",        "split",           "strip",
    "strip at most", "name probes",    "ids before",      "ids after",
    "steps",         "late steps",     "name slots",      "pool",
    "letter index",  "letter blocks",  "letters",         "letter texts",
    "pairs",         "model",          "prefix",          "prefix bytes",
    "longest word",  "maps",           "map blocks",      "nodes",
    "scores",        "cluster blocks", "cluster classes", "cluster states",
    "clusters",
};

static void diff_text(const struct blob *a, const struct blob *b, struct diff_table *table)
{
    enum { N_FIELDS = sizeof text_fields / sizeof text_fields[0] };
    uint32_t x[N_FIELDS] = {0}, y[N_FIELDS] = {0};
    char name[DIFF_CELL], left[DIFF_CELL], right[DIFF_CELL];
    if (a->n_text == b->n_text &&
        (a->n_text == 0 || memcmp(a->text_section, b->text_section, a->n_text) == 0))
        return;
    if (a->n_text)
        memcpy(x, a->text_section, sizeof x);
    if (b->n_text)
        memcpy(y, b->text_section, sizeof y);
    if (memcmp(x, y, sizeof x) == 0)
        smol_diff_row(table, "text tables", "same size, other contents", "");
    for (unsigned i = 0; i < N_FIELDS; i++) {
        if (x[i] == y[i])
            continue;
        snprintf(name, sizeof name, "text, %s", text_fields[i]);
        snprintf(left, sizeof left, "%" PRIu32, x[i]);
        snprintf(right, sizeof right, "%" PRIu32, y[i]);
        smol_diff_row(table, name, a->n_text ? left : "-", b->n_text ? right : "-");
    }
}

/* Returns the bytes of the tokenizer's section: header, spans and other tables. */
static size_t tokenizer_size(const struct subject *subject)
{
    return subject->kind == SUBJECT_BLOB ? subject->blob->tokenizer_section->size
                                         : subject->source.tokenizer.size;
}

static bool same_tables(const struct subject *a, const struct subject *b)
{
    const struct tokenizer_tables *x = &a->blob->tokenizer, *y = &b->blob->tokenizer;
    size_t size = tokenizer_size(a);
    return size == tokenizer_size(b) && memcmp(&x->header, &y->header, sizeof x->header) == 0 &&
           memcmp(x->spans, y->spans, size - sizeof x->header) == 0;
}

void smol_diff_tokenizer(const struct subject *a, const struct subject *b, struct diff_table *table)
{
    const struct tokenizer_tables *x = &a->blob->tokenizer, *y = &b->blob->tokenizer;
    diff_text(a->blob, b->blob, table);
    if (same_tables(a, b) && same_splitting(x, y))
        return;
    uint64_t before = table->n;
    diff_tokens(x, y, table);
    diff_byte_tokens(x, y, table);
    diff_added(x, y, table);
    diff_merges(x, y, table);
    diff_splitting(x, y, table);
    if (table->n == before)
        smol_diff_row(table, "tables", "same contents, other layout", "");
}
