/* The patterns of pre-tokenizers, compiled, and the scanner sections that blobs have. An input is
 * what a stage does, a pattern, changes to the section that it gives, and a text to cut. */
#include "common/utf8.h"
#include "convert/tokenizer/scanner.h"
#include "runtime/tokenizer/scanner.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_TEXT = 4096 };

/* The start of an input. */
struct recipe {
    uint8_t behaviour, flags;
    uint8_t n_pattern; /* bytes */
    uint8_t n_changes; /* struct change, after the pattern */
};

struct change {
    uint16_t place; /* modulo the section's size */
    uint8_t bits;   /* that are flipped */
    uint8_t reserved;
};

/* Pieces ascend, are never empty, and lie in the text; with every segment a piece they are all of
 * it. */
static void cut(const struct scanner_tables *tables, const uint8_t *text, size_t size)
{
    struct scan scan;
    smol_error error;
    size_t start, end, last = 0;
    bool all = tables->stages[0].behaviour != SPLIT_REMOVED;
    smol_scanner_start(&scan, tables, 0, text, size);
    for (;;) {
        CLAIM(!smol_scanner_next(&scan, &start, &end, &error));
        if (start == size)
            break;
        CLAIM(all ? start == last : start >= last);
        CLAIM(start < end && end <= size);
        last = end;
    }
    CLAIM(!all || last == size);
    smol_scanner_end(&scan);
}

static void use_section(const uint8_t *data, size_t size, struct fuzz_input *in, unsigned n_changes)
{
    struct scanner_tables tables;
    smol_error error;
    struct change change;
    uint8_t *copy = exact_copy(data, size);
    for (unsigned i = 0; i < n_changes; i++) {
        fuzz_take(in, &change, sizeof change);
        copy[change.place % size] ^= change.bits;
    }
    uint8_t *text = exact_copy(in->data, in->size < MAX_TEXT ? in->size : MAX_TEXT);
    bool opens = !smol_scanner_tables_open(copy, size, &tables, &error);
    CLAIM(opens || n_changes > 0);
    if (opens && tables.header.n_stages > 0)
        cut(&tables, text, in->size < MAX_TEXT ? in->size : MAX_TEXT);
    free(text);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct recipe recipe;
    smol_error error;
    struct scanner_section section = {0};
    struct scanner_plan *plan = calloc(1, sizeof *plan);
    uint32_t stage;
    fuzz_take(&in, &recipe, sizeof recipe);
    size_t n_pattern = recipe.n_pattern < in.size ? recipe.n_pattern : in.size;
    char *pattern = (char *)exact_copy(in.data, n_pattern);
    if (!plan || smol_utf8_well_formed(in.data, n_pattern) < n_pattern)
        goto out;
    plan->n_stages = 1;
    plan->stages[0].behaviour = recipe.behaviour % SPLIT_COUNT;
    plan->stages[0].flags = recipe.flags & (STAGE_INVERT | STAGE_BYTES);
    smol_status status = (recipe.flags & STAGE_SPACE ? smol_pattern_literal : smol_pattern_parse)(
        pattern, n_pattern, &plan->stages[0].pattern, &error);
    in.data += n_pattern;
    in.size -= n_pattern;
    if (!status && !smol_scanner_compile(plan, &section, &stage, &error))
        use_section(section.data, section.size, &in, recipe.n_changes);
out:
    if (plan)
        smol_scanner_plan_free(plan);
    free(plan);
    free(section.data);
    free(pattern);
    return 0;
}
