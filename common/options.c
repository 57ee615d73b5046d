/* Command lines, see options.h. */
#include "common/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct options {
    int argc;
    char **argv;
    char letters[2 * MAX_OPTIONS + 2];
    struct option names[MAX_OPTIONS + 1];
    const struct option_spec *table;
};

struct options *smol_options_start(const struct option_spec *table, int argc, char **argv)
{
    struct options *options = calloc(1, sizeof *options);
    if (!options)
        return NULL;
    options->argc = argc;
    options->argv = argv;
    options->table = table;
    char *letter = options->letters;
    *letter++ = ':'; /* report a missing argument as such, and print nothing */
    for (size_t i = 0; i < MAX_OPTIONS && table[i].name; i++) {
        options->names[i] = (struct option){
            table[i].name, table[i].value ? required_argument : no_argument, NULL, table[i].id};
        if (table[i].letter) {
            *letter++ = table[i].letter;
            if (table[i].value)
                *letter++ = ':';
        }
    }
    optind = 0; /* both glibc and musl start afresh from 0 */
    opterr = 0;
    return options;
}

/* getopt reports a short option by its letter. */
static int id_of(const struct option_spec *table, int found)
{
    for (; table->name; table++)
        if (table->letter == found)
            return table->id;
    return found;
}

enum status smol_options_next(struct options *options, int *id, const char **value,
                              struct error *error)
{
    int found = getopt_long(options->argc, options->argv, options->letters, options->names, NULL);
    *value = optarg;
    if (found == -1) {
        *id = 0;
        return STATUS_OK;
    }
    if (found == '?' || found == ':') {
        const char *text = options->argv[optind - 1];
        char letter[] = {'-', (char)optopt, '\0'};
        bool is_letter = optopt > 0 && optopt < 128 && strncmp(text, "--", 2) != 0;
        return smol_fail(error, STATUS_USAGE, "%s: %s: see --help", is_letter ? letter : text,
                         found == ':' ? "needs a value" : "unknown option");
    }
    *id = id_of(options->table, found);
    return STATUS_OK;
}

void smol_options_operands(const struct options *options, int *n, char ***operands)
{
    *n = options->argc - optind;
    *operands = options->argv + optind;
}

void smol_options_help(FILE *out, const struct option_spec *table)
{
    for (; table->name; table++) {
        char left[64];
        snprintf(left, sizeof left, "%c%c%s--%s%s%s", table->letter ? '-' : ' ',
                 table->letter ? table->letter : ' ', table->letter ? ", " : "  ", table->name,
                 table->value ? " " : "", table->value ? table->value : "");
        fprintf(out, "  %-28s %s\n", left, table->help);
    }
}

enum status smol_options_integer(const char *name, const char *text, int64_t min, int64_t max,
                                 int64_t *value, struct error *error)
{
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    if (end == text || *end || text[strspn(text, "+-0123456789")])
        return smol_fail(error, STATUS_USAGE, "--%s: \"%s\" is not a whole number", name, text);
    if (errno || parsed < min || parsed > max)
        return smol_fail(error, STATUS_USAGE, "--%s: %s is out of range: use %lld to %lld", name,
                         text, (long long)min, (long long)max);
    *value = parsed;
    return STATUS_OK;
}

enum status smol_options_real(const char *name, const char *text, double min, double max,
                              double *value, struct error *error)
{
    /* the tools never call setlocale, so the decimal point is a point */
    char *end;
    double parsed = strtod(text, &end);
    if (end == text || *end || text[strspn(text, "+-.0123456789eE")])
        return smol_fail(error, STATUS_USAGE, "--%s: \"%s\" is not a number", name, text);
    if (!(parsed >= min && parsed <= max))
        return smol_fail(error, STATUS_USAGE, "--%s: %s is out of range: use %g to %g", name, text,
                         min, max);
    *value = parsed;
    return STATUS_OK;
}

enum status smol_options_word(const char *name, const char *text, const char *const *words,
                              int *index, struct error *error)
{
    char list[128] = "";
    for (int i = 0; words[i]; i++) {
        if (strcmp(text, words[i]) == 0) {
            *index = i;
            return STATUS_OK;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
    }
    return smol_fail(error, STATUS_USAGE, "--%s: \"%s\" is not one of %s", name, text, list);
}
