/* What smolrun says: errors on standard error, results on standard output. */
#ifndef SMOL_CLI_PRINT_H
#define SMOL_CLI_PRINT_H

#include <stdbool.h>
#include <stddef.h>

#include "smol.h"

/* Fills *error and returns `status`. */
smol_status smol_command_fail(smol_error *error, smol_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Prints the message of a failure and returns the exit status. */
int smol_command_status(smol_status status, const smol_error *error);

/* Prints text of the model. On a terminal, control characters but line feed and tab become U+FFFD:
 * nobody knows what a model, or a text that it repeats, would have the terminal do. */
void smol_command_print(const char *text, size_t size);

/* Sends on what was printed to standard output. Errors: FILE. When the reader has gone away
 * (`smolrun ... | head`) the message is empty: nobody needs to be told. */
smol_status smol_command_flush(smol_error *error);

/* Whether standard output is to be coloured: a terminal that can, and no NO_COLOR (no-color.org).
 */
bool smol_command_colors(void);

/* The columns of the terminal that standard output is; SIZE_MAX: it is none, or does not say. */
size_t smol_command_columns(void);

#endif
