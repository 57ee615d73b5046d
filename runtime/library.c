/* Functions of smol.h that do not belong to an object, and functions that the modules of the
 * library share. */
#include "runtime/model.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/error.h"
#include "common/file.h"
#include "common/memory.h"
#include "common/utf8.h"

const char *smol_version(void)
{
    return SMOL_VERSION;
}

const char *smol_status_text(smol_status status)
{
    switch (status) {
    case SMOL_OK:
        return "no error";
    case SMOL_ERROR_MISMATCH:
        return "files differ";
    case SMOL_ERROR_USAGE:
        return "invalid arguments";
    case SMOL_ERROR_FILE:
        return "file missing, unreadable or changed while in use";
    case SMOL_ERROR_DAMAGED:
        return "damaged file";
    case SMOL_ERROR_UNSUPPORTED:
        return "not supported by this release";
    case SMOL_ERROR_MEMORY:
        return "out of memory";
    case SMOL_ERROR_NUMERIC:
        return "NaN or infinity in activations or logits";
    case SMOL_ERROR_CONTEXT_FULL:
        return "context is full";
    case SMOL_ERROR_CANCELLED:
        return "cancelled";
    }
    return "unknown status";
}

void smol_set_allocator(const smol_allocator *allocator)
{
    if (!allocator) {
        smol_memory_use(NULL);
        return;
    }
    const struct memory_source source = {
        .allocate = allocator->allocate,
        .resize = allocator->resize,
        .release = allocator->release,
        .user = allocator->user,
    };
    smol_memory_use(&source);
}

void smol_guard_mappings(void)
{
    smol_mapping_guard();
}

smol_status smol_check_reserved(const char *params, const uint64_t *reserved, size_t n,
                                smol_error *error)
{
    for (size_t i = 0; i < n; i++)
        if (reserved[i])
            return smol_fail(
                error, SMOL_ERROR_USAGE,
                "%s: reserved[%zu] is not 0: set the struct to zeros, or use a library "
                "newer than %s",
                params, i, SMOL_VERSION);
    return SMOL_OK;
}

/* --- the log ------------------------------------------------------------------------------ */

void smol_log(const smol_model *model, smol_log_level level, const char *format, ...)
{
    char text[SMOL_ERROR_MESSAGE_SIZE];
    smol_error line; /* smol_fail makes one line without control characters */
    va_list arguments;
    if (!model->on_log)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    smol_fail(&line, SMOL_OK, "%.200s: %s", smol_base_name(model->blob.path), text);
    model->on_log(model->user, level, line.message);
}

void smol_log_ill_formed(const smol_model *model, const char *what, const char *text, size_t size)
{
    size_t good = model->on_log ? smol_utf8_well_formed((const uint8_t *)text, size) : size;
    if (good < size)
        smol_log(model, SMOL_LOG_WARNING,
                 "%s is not UTF-8 (from byte %zu on): ill-formed bytes are read as U+FFFD", what,
                 good);
}
