/* Runs the code of a chat template. */
#ifndef SMOL_RUNTIME_TEMPLATE_VM_H
#define SMOL_RUNTIME_TEMPLATE_VM_H

#include "runtime/template/template_value.h"

/* Runs function 0 of machine->code, which must exist, with machine->variables. *out is the text
 * that it writes, in the machine's memory. Errors: SMOL_ERROR_USAGE (raise_exception, or an
 * operation that raises an exception in Python), SMOL_ERROR_UNSUPPORTED (a feature that the
 * reference supports and this machine does not; steps or memory exhausted), SMOL_ERROR_DAMAGED
 * (code that no converter generates). */
bool smol_template_run(struct machine *machine, struct value *out);

/* Sets *named to whether machine->code compares a message's role with this name, see
 * template_roles.c. Errors: SMOL_ERROR_UNSUPPORTED (steps exhausted). */
bool smol_template_names_role(struct machine *machine, const struct value *role, bool *named);

/* Sets names[c], of header.n_constants, for each constant c with which machine->code compares a
 * message's role; leaves the others. Errors: the same. */
bool smol_template_role_names(struct machine *machine, bool *names);

#endif
