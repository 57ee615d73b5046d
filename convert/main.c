/* smolconv: the command line. The first word chooses a command; anything else is a checkpoint to
 * convert. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/file.h"
#include "common/options.h"
#include "common/pool.h"
#include "common/version.h"
#include "convert/convert.h"
#include "convert/inspect.h"
#include "format/reader.h"

enum { OPTION_DTYPE = 1, OPTION_THREADS, OPTION_FORCE, OPTION_QUIET, OPTION_HELP, OPTION_VERSION };

#define COMMON_OPTIONS                                                                             \
    {OPTION_HELP, 'h', "help", NULL, "show this and exit"},                                        \
        {OPTION_VERSION, 0, "version", NULL, "show the release and exit"},                         \
    {                                                                                              \
        0, 0, NULL, NULL, NULL                                                                     \
    }

static const struct option_spec convert_options[] = {
    {OPTION_DTYPE, 0, "dtype", "TYPE", "int8 (default), bf16 or f32: how matrices are stored"},
    {OPTION_THREADS, 0, "threads", "N", "threads to use (default: one for each processor)"},
    {OPTION_FORCE, 0, "force", NULL, "overwrite OUT.smol"},
    {OPTION_QUIET, 0, "quiet", NULL, "no progress bar"},
    COMMON_OPTIONS,
};

static const struct option_spec plain_options[] = {COMMON_OPTIONS};

/* A command and what --help says of it. */
struct command {
    const char *name;     /* NULL: the default */
    const char *operands; /* after the options, in --help */
    const char *summary;
    const struct option_spec *options;
    int n_operands;
    enum status (*run)(char **operands, const struct convert_options *options, struct error *error);
};

/* --- commands ----------------------------------------------------------------------------- */

static enum status run_convert(char **operands, const struct convert_options *options,
                               struct error *error)
{
    return smol_convert(operands[0], operands[1], options, error);
}

static enum status run_inspect(char **operands, const struct convert_options *options,
                               struct error *error)
{
    (void)options;
    return smol_inspect(operands[0], stdout, error);
}

static enum status run_verify(char **operands, const struct convert_options *options,
                              struct error *error)
{
    (void)options;
    struct blob blob;
    enum status status = smol_blob_open(operands[0], true, VERIFY_AT_OPEN, &blob, error);
    if (status)
        return status;
    printf("%s: good: %zu bytes, %zu chunks, %zu tensors\n", operands[0], blob.file.size,
           blob.n_chunks, blob.n_tensors);
    smol_blob_close(&blob);
    return STATUS_OK;
}

static const struct command commands[] = {
    {"inspect", "FILE", "show what is in FILE: a .smol blob or a safetensors file", plain_options,
     1, run_inspect},
    {"verify", "FILE.smol", "check every digest and every rule of the format", plain_options, 1,
     run_verify},
    {NULL, "INPUT OUT.smol",
     "convert a Hugging Face checkpoint into a .smol blob\n"
     "INPUT: the checkpoint's folder, or the model.safetensors in it",
     convert_options, 2, run_convert},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

/* --- help --------------------------------------------------------------------------------- */

static void print_usage_line(FILE *out, const struct command *command)
{
    fprintf(out, "smolconv %s%s[options] %s\n", command->name ? command->name : "",
            command->name ? " " : "", command->operands);
}

static void print_help(FILE *out, const struct command *command)
{
    fprintf(out, "usage: ");
    print_usage_line(out, command);
    fprintf(out, "%s\n\n", command->summary);
    smol_options_help(out, command->options);
    if (command->name)
        return;
    fprintf(out, "\nother commands (each has its own --help):\n");
    for (const struct command *other = commands; other->name; other++) {
        fprintf(out, "  ");
        print_usage_line(out, other);
    }
    fprintf(out, "\nexit status: 0 done, 2 wrong usage, 3 a file missing, unreadable or "
                 "unwritable, 4 a file\ndamaged or breaking its format, 5 not supported, "
                 "6 out of memory\n");
}

/* --- parsing ------------------------------------------------------------------------------ */

static enum status parse_dtype(const char *value, enum blob_dtype *dtype, struct error *error)
{
    static const char *const words[] = {"int8", "bf16", "f32", NULL};
    static const enum blob_dtype dtypes[] = {DTYPE_INT8, DTYPE_BF16, DTYPE_F32};
    int index;
    enum status status = smol_options_word("dtype", value, words, &index, error);
    if (!status)
        *dtype = dtypes[index];
    return status;
}

static enum status apply_option(int id, const char *value, struct convert_options *options,
                                struct error *error)
{
    int64_t number;
    enum status status = STATUS_OK;
    switch (id) {
    case OPTION_DTYPE:
        return parse_dtype(value, &options->dtype, error);
    case OPTION_THREADS:
        status = smol_options_integer("threads", value, 1, POOL_MAX_THREADS, &number, error);
        if (!status)
            options->n_threads = (unsigned)number;
        return status;
    case OPTION_FORCE:
        options->force = true;
        return STATUS_OK;
    default:
        options->quiet = true;
        return STATUS_OK;
    }
}

/* Parses and runs one command; argv[0] is its name. */
static enum status run_command(const struct command *command, int argc, char **argv,
                               struct error *error)
{
    struct convert_options options = {.dtype = DTYPE_INT8, .n_threads = smol_cpu_count()};
    struct options *walk = smol_options_start(command->options, argc, argv);
    if (!walk)
        return smol_fail_memory(error, "the command line");
    enum status status;
    int id = 0;
    const char *value;
    while (!(status = smol_options_next(walk, &id, &value, error)) && id) {
        if (id == OPTION_HELP || id == OPTION_VERSION)
            break;
        status = apply_option(id, value, &options, error);
        if (status)
            break;
    }
    int n_operands;
    char **operands;
    smol_options_operands(walk, &n_operands, &operands);
    free(walk);
    if (status)
        return status;
    if (id == OPTION_VERSION)
        printf("smolconv %s\n", SMOL_VERSION);
    else if (id == OPTION_HELP)
        print_help(stdout, command);
    else if (n_operands != command->n_operands)
        return smol_fail(error, STATUS_USAGE, "%d file names given, %d wanted (%s): see --help",
                         n_operands, command->n_operands, command->operands);
    else
        return command->run(operands, &options, error);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    const struct command *command = &commands[N_COMMANDS - 1];
    if (argc < 2) {
        print_help(stderr, command);
        return STATUS_USAGE;
    }
    for (const struct command *c = commands; c->name; c++)
        if (strcmp(argv[1], c->name) == 0)
            command = c;
    int skip = command->name ? 1 : 0;
    struct error error;
    enum status status = run_command(command, argc - skip, argv + skip, &error);
    if (!status && (fflush(stdout) || ferror(stdout)))
        status = smol_fail(&error, STATUS_FILE, "standard output: cannot write");
    if (status)
        fprintf(stderr, "smolconv: %s\n", error.message);
    return (int)status;
}
