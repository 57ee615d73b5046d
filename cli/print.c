/* Errors and output of smolrun, see print.h. */
#include "cli/print.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "runtime/report.h"

smol_status smol_command_fail(smol_error *error, smol_status status, const char *format, ...)
{
    char message[SMOL_ERROR_MESSAGE_SIZE];
    smol_error detail;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return report(error, smol_fail(&detail, status, "%s", message), &detail);
}

int smol_command_status(smol_status status, const smol_error *error)
{
    if (status && error->message[0])
        fprintf(stderr, "smolrun: %s\n", error->message);
    return (int)status;
}

/* The bytes of the control character that text begins with, C0 or C1; 0: there is none. */
static size_t control_size(const char *text, size_t size)
{
    unsigned char first = (unsigned char)text[0];
    if (first == '\n' || first == '\t')
        return 0;
    if (first < 0x20 || first == 0x7f)
        return 1;
    return first == 0xc2 && size > 1 && ((unsigned char)text[1] & 0xe0) == 0x80 ? 2 : 0;
}

void smol_command_print(const char *text, size_t size)
{
    static int terminal = -1; /* asked once */
    if (terminal < 0)
        terminal = isatty(STDOUT_FILENO);
    for (size_t start = 0, i = 0; i < size;) {
        size_t control = terminal ? control_size(text + i, size - i) : 0;
        i += control ? 0 : 1;
        if (control || i == size)
            fwrite(text + start, 1, i - start, stdout);
        if (control)
            fputs("\xef\xbf\xbd", stdout);
        i += control;
        start = control ? i : start;
    }
}

smol_status smol_command_flush(smol_error *error)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return SMOL_OK;
    if (errno == EPIPE) {
        *error = (smol_error){.status = SMOL_ERROR_FILE};
        return SMOL_ERROR_FILE;
    }
    return smol_command_fail(error, SMOL_ERROR_FILE, "standard output: cannot write (%s)",
                             strerror(errno));
}

bool smol_command_colors(void)
{
    const char *wish = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if (wish && wish[0])
        return false;
    return isatty(STDOUT_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
}

size_t smol_command_columns(void)
{
    struct winsize size = {0};
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : SIZE_MAX;
}
