/* Shared by the modules of the library: the check of params, and the program's log. */
#ifndef SMOL_RUNTIME_LIBRARY_H
#define SMOL_RUNTIME_LIBRARY_H

#include "runtime/model.h"

/* Refuses the params of a newer release, whose members lie in `reserved`, (n), which is zero in
 * this one's. `params` is the name of their type. Errors: SMOL_ERROR_USAGE. */
smol_status smol_check_reserved(const char *params, const uint64_t *reserved, size_t n,
                                smol_error *error);

/* smol_check_reserved for *params, of the type smol_`name`. */
#define CHECK_RESERVED(name, params, error)                                                        \
    smol_check_reserved("smol_" #name, (params)->reserved,                                         \
                        sizeof(params)->reserved / sizeof *(params)->reserved, error)

/* Passes a line to the model's on_log, if there is one, after the blob's name. */
void smol_log(const smol_model *model, smol_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Warns if text[0..size) is not UTF-8; `what` is its name. */
void smol_log_ill_formed(const smol_model *model, const char *what, const char *text, size_t size);

#endif
