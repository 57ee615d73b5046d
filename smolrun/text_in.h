/* Text that the user gives: in an argument, in a file or on standard input. */
#ifndef SMOL_SMOLRUN_TEXT_IN_H
#define SMOL_SMOLRUN_TEXT_IN_H

#include "smol.h"

struct text_in {
    const char *text;
    size_t size;
    char *owned; /* to be freed; NULL for an argument */
};

/* The argument itself, or for "-" all of standard input, as it is. Errors: FILE, MEMORY. */
smol_status smol_text_read(const char *argument, struct text_in *in, smol_error *error);

/* All of the file `path`, or for "-" of standard input. Errors: FILE, MEMORY. */
smol_status smol_text_read_file(const char *path, struct text_in *in, smol_error *error);

/* A list of token ids below vocab_size, separated by white space or commas, from an argument or
 * standard input. The caller frees *ids; *n may be 0. Errors: USAGE, FILE, MEMORY. */
smol_status smol_text_ids(const char *argument, uint32_t vocab_size, uint32_t **ids, size_t *n,
                          smol_error *error);

/* The ids of a prompt, special tokens recognized; bos for an empty one. The caller frees *ids.
 * Errors: USAGE (empty, and the model has no bos), FILE, MEMORY. */
smol_status smol_text_prompt(const char *argument, const smol_model *model, uint32_t **ids,
                             size_t *n, smol_error *error);

/* The same for text[0..size). Errors: USAGE, MEMORY. */
smol_status smol_text_prompt_ids(const char *text, size_t size, const smol_model *model,
                                 uint32_t **ids, size_t *n, smol_error *error);

#endif
