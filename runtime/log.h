/* What the library tells a program that wants to keep a log, see smol_on_log. */
#ifndef SMOL_RUNTIME_LOG_H
#define SMOL_RUNTIME_LOG_H

#include "runtime/model.h"

/* Tells the model's listener, if there is one, a line that begins with the blob's name. */
void smol_log(const smol_model *model, smol_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Warns if text[0..size) is not UTF-8, of which `what` says what it is. */
void smol_log_ill_formed(const smol_model *model, const char *what, const char *text, size_t size);

#endif
