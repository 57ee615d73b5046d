/* JSON text of the caller's (messages, tools, documents, variables) as values. */
#ifndef SMOL_RUNTIME_TEMPLATE_JSON_H
#define SMOL_RUNTIME_TEMPLATE_JSON_H

#include "runtime/template/template_value.h"

/* Reads text[0..size), one JSON value; all texts in it count as the arguments'. It must outlive the
 * value. At most TEMPLATE_MAX_DEPTH levels, TEMPLATE_MAX_MEMBERS members of an object; of members
 * with the same name the last one counts. `name` is whose text it is, for messages. Errors:
 * SMOL_ERROR_USAGE (no JSON, or not UTF-8), SMOL_ERROR_UNSUPPORTED (too deep, too large). */
bool smol_template_read_json(struct machine *machine, const char *name, const char *text,
                             size_t size, struct value *value);

#endif
