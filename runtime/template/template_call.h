/* The operations that chat templates call: filters, tests, methods, functions, attributes and
 * items. Each one behaves as in jinja2 and Python, or fails as not supported. */
#ifndef SMOL_RUNTIME_TEMPLATE_CALL_H
#define SMOL_RUNTIME_TEMPLATE_CALL_H

#include "runtime/template/template_value.h"

/* The arguments of a call. Each named argument is two values: its name, a text, and its value. */
struct call {
    const struct value *positional; /* (n) */
    uint32_t n;
    const struct value *named; /* (2 n_named) */
    uint32_t n_named;
};

/* Places the arguments into `out` in the order of the names, which blanks separate; an argument
 * that is not given is VALUE_MISSING. `callee` is used in messages. Errors: too many, unknown or
 * repeated arguments. */
bool smol_call_bind(struct machine *machine, const char *callee, const struct call *call,
                    const char *names, struct value *out);

/* --- template_filters.c, template_tests.c --------------------------------------------------- */

bool smol_template_filter(struct machine *machine, enum template_filter filter,
                          const struct value *self, const struct call *call, struct value *out);
bool smol_template_test(struct machine *machine, enum template_test test, const struct value *self,
                        const struct call *call, bool *out);

/* --- template_methods.c --------------------------------------------------------------------- */

/* value.name and value[key] */
bool smol_template_attribute(struct machine *machine, const struct value *value,
                             const struct value *name, struct value *out);
bool smol_template_item(struct machine *machine, const struct value *value, const struct value *key,
                        struct value *out);
bool smol_template_method(struct machine *machine, const struct value_method *method,
                          const struct call *call, struct value *out);

/* --- template_functions.c ------------------------------------------------------------------- */

/* Finds the function of that name; returns false if it does not exist. */
bool smol_template_builtin(const struct value *name, struct value *out);
bool smol_template_call_builtin(struct machine *machine, enum builtin builtin,
                                const struct call *call, struct value *out);
bool smol_template_store(struct machine *machine, const struct value *names,
                         const struct value *name, const struct value *value);

/* --- template_operators.c ------------------------------------------------------------------- */

bool smol_template_unary(struct machine *machine, enum template_unary unary, const struct value *x,
                         struct value *out);
bool smol_template_binary(struct machine *machine, enum template_binary binary,
                          const struct value *x, const struct value *y, struct value *out);
bool smol_template_compare(struct machine *machine, enum template_compare compare,
                           const struct value *x, const struct value *y, bool *out);
/* value[start:stop:step]; each bound is None or an integer */
bool smol_template_slice(struct machine *machine, const struct value *value,
                         const struct value range[3], struct value *out);

#endif
