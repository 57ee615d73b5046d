/* Runs the code of a chat template. */
#ifndef SMOL_RUNTIME_TEMPLATE_VM_H
#define SMOL_RUNTIME_TEMPLATE_VM_H

#include "runtime/template/template_value.h"

/* Runs function 0 of machine->code, which is there, with machine->variables. *out is the text that
 * it writes, in the machine's memory. Errors: SMOL_ERROR_USAGE (raise_exception, and what Python
 * raises errors for), SMOL_ERROR_UNSUPPORTED (what the reference can do and this machine cannot;
 * more memory or steps than there are), SMOL_ERROR_DAMAGED (code that no converter makes). */
bool smol_template_run(struct machine *machine, struct value *out);

/* Whether machine->code compares a message's role with this name, see template_roles.c. Errors:
 * SMOL_ERROR_UNSUPPORTED (more steps than there are). */
bool smol_template_names_role(struct machine *machine, const struct value *role, bool *named);

#endif
