/* Lines for a program's log, see log.h. */
#include "runtime/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/error.h"
#include "common/file.h"
#include "common/utf8.h"

void smol_log(const smol_model *model, smol_log_level level, const char *format, ...)
{
    char what[SMOL_ERROR_MESSAGE_SIZE];
    smol_error line; /* a message as those of errors: one line, without control characters */
    va_list arguments;
    if (!model->on_log)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    smol_fail(&line, SMOL_OK, "%.200s: %s", smol_base_name(model->blob.path), what);
    model->on_log(model->user, level, line.message);
}

void smol_log_ill_formed(const smol_model *model, const char *what, const char *text, size_t size)
{
    size_t good = model->on_log ? utf8_well_formed((const uint8_t *)text, size) : size;
    if (good < size)
        smol_log(model, SMOL_LOG_WARNING,
                 "%s is not UTF-8 (from byte %zu on): what is ill-formed is read as U+FFFD", what,
                 good);
}
