/* Command lines: one table per command serves parsing (getopt_long) and --help. */
#ifndef SMOL_COMMON_OPTIONS_H
#define SMOL_COMMON_OPTIONS_H

#include <stdint.h>
#include <stdio.h>

#include "common/error.h"

/* One option. A table ends with an entry whose name is NULL. */
struct option_spec {
    int id;            /* > 0; what smol_options_next reports */
    char letter;       /* short form, or 0 */
    const char *name;  /* long form, without dashes */
    const char *value; /* what --help calls its argument; NULL: it takes none */
    const char *help;
};

enum { MAX_OPTIONS = 32 };

/* A walk over argv; options and operands may be mixed, `--` ends the options. */
struct options;

/* Starts at argv[1]. One walk at a time in a process: getopt has global state. NULL: out of
 * memory. The caller frees it. */
struct options *smol_options_start(const struct option_spec *table, int argc, char **argv);

/* The next option: its id and argument (NULL where it takes none); id 0 at the end. Errors:
 * STATUS_USAGE, naming the option. */
enum status smol_options_next(struct options *options, int *id, const char **value,
                              struct error *error);

/* After the end: what is left of the command line. */
void smol_options_operands(const struct options *options, int *n, char ***operands);

/* A line for each option of the table. */
void smol_options_help(FILE *out, const struct option_spec *table);

/* The argument `text` of option `name` as a whole number min..max, or a finite real min..max;
 * nothing else may stand in it, and the locale does not matter. Errors: STATUS_USAGE. */
enum status smol_options_integer(const char *name, const char *text, int64_t min, int64_t max,
                                 int64_t *value, struct error *error);
enum status smol_options_real(const char *name, const char *text, double min, double max,
                              double *value, struct error *error);

/* The index of `text` in the NULL-terminated list `words`. Errors: STATUS_USAGE, listing them. */
enum status smol_options_word(const char *name, const char *text, const char *const *words,
                              int *index, struct error *error);

#endif
