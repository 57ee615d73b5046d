/* smolconv: the command line. The first word chooses a command; anything else is a checkpoint to
 * convert. */
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "common/options.h"
#include "common/pool.h"
#include "convert/convert.h"
#include "convert/inspect.h"
#include "format/reader.h"

/* --- commands ----------------------------------------------------------------------------- */

static enum status run_convert(const char *const *words, const struct convert_options *options,
                               struct error *error)
{
    return smol_convert(words[0], words[1], options, error);
}

static enum status run_inspect(const char *const *words, const struct convert_options *options,
                               struct error *error)
{
    (void)options;
    return smol_inspect(words[0], stdout, error);
}

static enum status run_verify(const char *const *words, const struct convert_options *options,
                              struct error *error)
{
    (void)options;
    struct blob blob;
    enum status status = smol_blob_open(words[0], true, VERIFY_AT_OPEN, &blob, error);
    if (status)
        return status;
    printf("%s: good: %zu bytes, %zu chunks, %zu tensors\n", words[0], blob.file.size,
           blob.n_chunks, blob.n_tensors);
    smol_blob_close(&blob);
    return STATUS_OK;
}

/* --- command lines ------------------------------------------------------------------------ */

#define FIELD(name) offsetof(struct convert_options, name)

static const char *const dtype_words[] = {"f32", "bf16", "int8", NULL}; /* as enum blob_dtype */

static const struct option_rule convert_rules[] = {
    {"dtype", 0, "TYPE", "how matrices are stored: int8, bf16 or f32 (int8)", OPTION_CHOICE,
     FIELD(dtype), DTYPE_F32, 0, dtype_words},
    {"threads", 0, "N", "threads (one per available processor)", OPTION_COUNT, FIELD(n_threads), 1,
     POOL_MAX_THREADS, NULL},
    {"force", 0, NULL, "overwrite OUT.smol", OPTION_FLAG, FIELD(force), 0, 0, NULL},
    {"quiet", 0, NULL, "no progress bar, no summary", OPTION_FLAG, FIELD(quiet), 0, 0, NULL},
};

static const struct command {
    const char *name; /* NULL: the one without a name */
    enum status (*run)(const char *const *words, const struct convert_options *options,
                       struct error *error);
    struct command_line line;
} commands[] = {
    {"inspect",
     run_inspect,
     {.program = "smolconv",
      .words = "inspect FILE",
      .about = "Shows what is in FILE, a .smol blob or a safetensors file.\n",
      .notes = "",
      .max_words = 1}},
    {"verify",
     run_verify,
     {.program = "smolconv",
      .words = "verify FILE.smol",
      .about = "Checks every digest and every rule of the format.\n",
      .notes = "",
      .max_words = 1}},
    {NULL,
     run_convert,
     {.program = "smolconv",
      .words = "INPUT OUT.smol",
      .about = "Converts a Hugging Face checkpoint into a .smol blob.\n"
               "INPUT: the checkpoint's folder, or the model.safetensors in it.\n\n"
               "  smolconv inspect     what is in a file\n"
               "  smolconv verify      whether a blob is whole\n",
      .notes = "Exit status: 0 done, 2 wrong usage, 3 a file missing, unreadable or unwritable,\n"
               "4 a file damaged or breaking its format, 5 not supported, 6 out of memory.\n",
      .max_words = 2,
      .rules = convert_rules,
      .n_rules = sizeof convert_rules / sizeof convert_rules[0]}},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

/* Parses and runs one command; argv[0] is its name. */
static enum status run(const struct command *command, int argc, char **argv, struct error *error)
{
    struct convert_options options = {.dtype = DTYPE_INT8, .n_threads = smol_cpu_count()};
    const char *words[2];
    bool shown;
    enum status status =
        smol_options_parse(&command->line, argc, argv, &options, words, &shown, error);
    if (status || shown)
        return status;
    if (!words[command->line.max_words - 1])
        return smol_fail(error, STATUS_USAGE, "a file name is missing (%s): see --help",
                         command->line.words);
    return command->run(words, &options, error);
}

int main(int argc, char **argv)
{
    const struct command *command = &commands[N_COMMANDS - 1];
    if (argc < 2) {
        smol_options_usage(&command->line);
        return STATUS_USAGE;
    }
    for (size_t i = 0; i + 1 < N_COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            command = &commands[i];
    int skip = command->name ? 1 : 0;
    struct error error;
    enum status status = run(command, argc - skip, argv + skip, &error);
    if (!status && (fflush(stdout) || ferror(stdout)))
        status = smol_fail(&error, STATUS_FILE, "standard output: cannot write");
    if (status)
        fprintf(stderr, "smolconv: %s\n", error.message);
    return (int)status;
}
