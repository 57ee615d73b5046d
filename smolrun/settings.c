/* Command lines of smolrun, see settings.h. */
#include "smolrun/settings.h"

#include <fcntl.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/print.h"
#include "cli/standard.h"

const char *const smol_json_space_words[] = {"spaced", "compact", "indented", NULL};

/* Replaces a top_p of 0, which means "not given" to the library. On the command line, as in
 * transformers, 0 leaves only the best token. */
static void resolve_top_p(struct settings *settings)
{
    if (settings->sampler.top_p == 0)
        settings->sampler.top_p = FLT_MIN;
}

/* Parses the words. *shown: the help or the release was printed. */
static smol_status parse(const struct command_line *command, int argc, char **argv,
                         struct settings *settings, bool *shown, smol_error *error)
{
    const char *words[1 + OPTION_MAX_TEXTS] = {NULL};
    smol_status status = smol_options_parse(command, argc, argv, settings, words, shown, error);
    if (status)
        return status;
    if (*shown)
        return smol_standard_flush(error);
    if (!words[0])
        return smol_fail(error, SMOL_ERROR_USAGE, "FILE.smol is missing: see smolrun --help");
    resolve_top_p(settings);
    settings->model = words[0];
    settings->text = words[1];
    for (size_t i = 0; i < OPTION_MAX_TEXTS && words[1 + i]; i++)
        settings->texts.items[settings->texts.n++] = words[1 + i];
    return SMOL_OK;
}

smol_status smol_settings_reread(const struct command_line *command, int argc, char **argv,
                                 smol_sampler *sampler, size_t *max_tokens, smol_error *error)
{
    bool shown;
    const char *words[2];
    struct settings settings = {.sampler = smol_sampler_get_params(sampler),
                                .max_tokens = *max_tokens};
    if (settings.sampler.top_p == 0) /* from a session that the library created; it means 1 */
        settings.sampler.top_p = 1;
    smol_status status = smol_options_parse(command, argc, argv, &settings, words, &shown, error);
    if (status)
        return status;
    resolve_top_p(&settings);
    *max_tokens = settings.max_tokens;
    return smol_sampler_set_params(sampler, &settings.sampler, error);
}

/* Applies --model-defaults, then the options, to *params. */
static smol_status override(const struct settings *settings, const smol_model *model,
                            smol_sampler_params *params, smol_error *error)
{
    bool shown;
    struct settings again = {.sampler = *params};
    if (settings->model_defaults) {
        again.sampler = smol_model_default_sampler(model);
        again.sampler.seed = params->seed;
    }
    if (again.sampler.top_p == 0) /* "not given", to the library */
        again.sampler.top_p = 1;
    smol_status status =
        parse(settings->command, settings->argc, settings->argv, &again, &shown, error);
    *params = again.sampler;
    return status;
}

smol_status smol_settings_sampling(const struct settings *settings, const smol_model *model,
                                   smol_sampler_params *params, smol_error *error)
{
    *params = settings->sampler;
    return settings->model_defaults ? override(settings, model, params, error) : SMOL_OK;
}

smol_status smol_settings_resample(const struct settings *settings, const smol_model *model,
                                   smol_sampler *sampler, smol_error *error)
{
    smol_sampler_params params = smol_sampler_get_params(sampler);
    smol_status status = override(settings, model, &params, error);
    return status ? status : smol_sampler_set_params(sampler, &params, error);
}

smol_json_space smol_settings_json_space(const struct settings *settings)
{
    return settings->json_space ? (smol_json_space)(settings->json_space - 1) : SMOL_JSON_SPACED;
}

/* Replaces a link by its target. A session is read and then replaced, so a link means its target,
 * and the sandbox must allow the target's folder. */
static void follow_link(struct settings *settings)
{
    struct stat info;
    bool is_link =
        settings->session && lstat(settings->session, &info) == 0 && S_ISLNK(info.st_mode);
    if (is_link && realpath(settings->session, settings->session_file))
        settings->session = settings->session_file;
}

/* Checks that at most one input is standard input. */
static smol_status check_standard_input(const struct settings *settings, smol_error *error)
{
    const char *const names[] = {settings->text,    settings->decode,      settings->tokens,
                                 settings->kl_from, settings->json_schema, settings->grammar};
    size_t n = settings->jsonl || settings->before_sandbox; /* requests, or a chat's lines */
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        n += names[i] && strcmp(names[i], "-") == 0;
    for (size_t i = 1; i < settings->texts.n; i++) /* the first is settings->text */
        n += strcmp(settings->texts.items[i], "-") == 0;
    return n < 2 ? SMOL_OK
                 : smol_fail(error, SMOL_ERROR_USAGE,
                             "standard input can be read only once: name a file instead of -");
}

/* Opens the files to read once: renaming others over them later has no effect, and the sandbox need
 * not allow opening files. O_NONBLOCK keeps a FIFO from blocking. */
static smol_status open_inputs(struct settings *settings, smol_error *error)
{
    smol_status status = SMOL_OK;
    settings->model_fd = open(settings->model, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (settings->model_fd < 0)
        return smol_fail_errno(error, settings->model, "open");
    if (settings->text_is_file && settings->text)
        status = smol_input_open(settings->text, &settings->text_file, error);
    for (size_t i = 0; !status && settings->texts_are_files && i < settings->texts.n; i++)
        status = smol_input_open(settings->texts.items[i], &settings->text_files[i], error);
    if (!status && settings->texts_are_files && settings->output)
        status = smol_output_resume(settings->output, true, &settings->resumed, error);
    const char *constraint = settings->json_schema ? settings->json_schema : settings->grammar;
    if (!status && constraint)
        status = smol_input_open(constraint, &settings->constraint_file, error);
    if (!status && settings->kl_from)
        status = smol_input_open(settings->kl_from, &settings->kl_file, error);
    return status;
}

static smol_status enter_sandbox(struct settings *settings, smol_error *error)
{
    char inside[PATH_MAX]; /* a name in the folder of --save-dir */
    if (settings->save_dir) {
        mkdir(settings->save_dir, S_IRWXU); /* the chat reports errors */
        snprintf(inside, sizeof inside, "%s/.", settings->save_dir);
    }
    const char *output = settings->session    ? settings->session
                         : settings->save_dir ? inside
                                              : settings->output;
    return smol_sandbox_start("smolrun", settings->sandbox_mode, output,
                              settings->before_sandbox ? SANDBOX_TERMINAL : 0, &settings->sandbox,
                              error);
}

/* Opens files and enters the sandbox. Sessions are private: only their owner can read them. */
static smol_status prepare(const struct command_line *command, struct settings *settings,
                           smol_error *error)
{
    smol_status status = SMOL_OK;
    if (command->commands) /* the first word may be a misspelled command */
        status = smol_options_check_file(command, settings->model, error);
    if (!status)
        status = check_standard_input(settings, error);
    if (!status)
        status = open_inputs(settings, error);
    if (status)
        return status;
    if (settings->before_sandbox)
        settings->before_sandbox();
    follow_link(settings);
    if (settings->session || settings->save_dir)
        umask(S_IRWXG | S_IRWXO);
    return enter_sandbox(settings, error);
}

/* Reads the local time for chat templates, because the sandbox does not allow reading the time zone
 * later. */
static void read_clock(struct settings *settings)
{
    time_t now = time(NULL);
    if (settings->chat || settings->jsonl)
        localtime_r(&now, &settings->now);
}

smol_status smol_settings_parse(const struct command_line *command, int argc, char **argv,
                                struct settings *settings, bool *shown, smol_error *error)
{
    settings->command = command;
    settings->argc = argc;
    settings->argv = argv;
    if (argc < 2) {
        smol_options_usage(command);
        *error = (smol_error){.status = SMOL_ERROR_USAGE};
        return SMOL_ERROR_USAGE;
    }
    smol_status status = parse(command, argc, argv, settings, shown, error);
    read_clock(settings);
    return status || *shown ? status : prepare(command, settings, error);
}
