/* Prints the table of differences, see diff_rows.h. */
#include <inttypes.h>

#include "cli/quote.h"
#include "convert/inspect/diff_rows.h"

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
