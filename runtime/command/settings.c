/* Command lines of smolrun, see settings.h. */
#include "runtime/command/settings.h"

#include "runtime/command/print.h"
#include "runtime/command/sandbox.h"
#include "runtime/report.h"

const char *const smol_kv_words[] = {"f32", "f16", "int8", NULL};
const char *const smol_verify_words[] = {"first", "open", "off", NULL};

/* Errors on the way to an exit status; *shown: the help or the release was printed. */
static smol_status parse(const struct command_line *command, int argc, char **argv,
                         struct settings *settings, bool *shown, smol_error *error)
{
    const char *words[2] = {NULL, NULL};
    struct error detail;
    enum status status = smol_options_parse(command, argc, argv, settings, words, shown, &detail);
    if (status)
        return report(error, status, &detail);
    if (*shown)
        return smol_command_flush(error);
    if (!words[0])
        return smol_command_fail(error, SMOL_ERROR_USAGE, "which FILE.smol? see smolrun --help");
    settings->model = words[0];
    settings->text = words[1];
    return SMOL_OK;
}

/* Chat templates may ask for the local time, whose rules lie in a file that the sandbox does not
 * let be read. */
static void read_clock(struct settings *settings)
{
    time_t now = time(NULL);
    if (settings->chat)
        localtime_r(&now, &settings->now);
}

bool smol_settings_parse(const struct command_line *command, int argc, char **argv,
                         struct settings *settings, int *status)
{
    smol_error error;
    bool shown;
    if (argc < 2) {
        smol_options_usage(command);
        *status = SMOL_ERROR_USAGE;
        return false;
    }
    smol_status failed = parse(command, argc, argv, settings, &shown, &error);
    read_clock(settings);
    if (!failed && !shown)
        failed = smol_sandbox_enter(settings->model, settings->output, &error);
    *status = smol_command_status(failed, &error);
    return !shown && *status == SMOL_OK;
}
