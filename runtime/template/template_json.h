/* The caller's JSON text (messages, tools, documents, variables) as values. */
#ifndef SMOL_RUNTIME_TEMPLATE_JSON_H
#define SMOL_RUNTIME_TEMPLATE_JSON_H

#include "runtime/template/template_value.h"

/* Reads text[0..size), one JSON value, and marks all texts in it as arguments. The text must
 * outlive the value. Limits: TEMPLATE_MAX_DEPTH levels and TEMPLATE_MAX_MEMBERS members of an
 * object; of members with the same name, the last one counts. `name` describes the text in
 * messages. Errors: SMOL_ERROR_USAGE (not JSON, or not UTF-8), SMOL_ERROR_UNSUPPORTED (too deep or
 * too large). */
bool smol_template_read_json(struct machine *machine, const char *name, const char *text,
                             size_t size, struct value *value);

#endif
