/* smolconv verify FILE.smol: checks a blob, and optionally that it was made from a checkpoint. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/quote.h"
#include "convert/command/command.h"
#include "convert/convert.h"
#include "convert/provenance.h"
#include "format/reader.h"
#include "smol.h"

struct verify_options {
    const char *checkpoint; /* or NULL */
    struct source_options source;
    uint32_t n_threads;
};

#define FIELD(name) offsetof(struct verify_options, name)

static const struct option_rule rules[] = {
    {"source", 0, "INPUT", "convert the checkpoint INPUT again, in memory, and compare every byte",
     OPTION_TEXT, FIELD(checkpoint), 0, 0, NULL},
    RULE_CALIBRATION,
    RULES_SOURCE,
    {"threads", 0, "N", "threads for --source (one per available processor)", OPTION_COUNT,
     FIELD(n_threads), 1, POOL_MAX_THREADS, NULL},
};

static const struct command_line line = {
    .program = "smolconv",
    .words = "verify FILE.smol",
    .about = "Checks every digest of a blob and every rule of the format.\n",
    .notes =
        "With --source, exit status 0 means that FILE.smol was made from INPUT: converting it\n"
        "gives the same bytes, except for the release in the provenance, which is reported if\n"
        "it is another. Exit status 1 means that it was not; the first difference is shown.\n"
        "A blob that was converted with --calibration needs the same STATS again.\n"
        "A damaged FILE.smol is status 4 either way.\n",
    .min_words = 1,
    .max_words = 1,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

static smol_status verify_source(const char *path, const struct blob *blob,
                                 const struct verify_options *options, smol_error *error)
{
    bool same_release = false;
    size_t n = 0;
    smol_status status = smol_convert_compare(options->checkpoint, &options->source, blob,
                                              options->n_threads, &same_release, error);
    if (status)
        return status;
    const char *release = smol_provenance_release(blob->provenance, blob->n_provenance, &n);
    smol_print_text(stdout, path, strlen(path));
    printf(": made from ");
    smol_print_text(stdout, options->checkpoint, strlen(options->checkpoint));
    if (same_release) {
        printf(" by this release, smolconv %s: every byte is the same\n", SMOL_VERSION);
        return SMOL_OK;
    }
    printf(", but by smolconv ");
    smol_print_text(stdout, release, n);
    printf(": this is %s, which makes the same bytes except for its number\n", SMOL_VERSION);
    return SMOL_OK;
}

smol_status smolconv_verify(int argc, char **argv, smol_error *error)
{
    struct verify_options options = {.n_threads = smol_cpu_count()};
    const char *path;
    bool shown;
    struct blob blob;
    smol_status status = smol_options_parse(&line, argc, argv, &options, &path, &shown, error);
    if (status || shown)
        return status;
    status = smol_blob_open(path, true, VERIFY_AT_OPEN, &blob, error);
    if (status)
        return status;
    smol_print_text(stdout, path, strlen(path));
    printf(": good: %zu bytes, %zu chunks, %zu tensors\n", blob.file.size, blob.n_chunks,
           blob.n_tensors - (blob.model->tied_embeddings ? 1 : 0)); /* the output is an alias */
    if (options.checkpoint)
        status = verify_source(path, &blob, &options, error);
    smol_blob_close(&blob);
    return status;
}
