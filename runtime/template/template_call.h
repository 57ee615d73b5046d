/* What chat templates call: filters, tests, methods and functions; and attributes and
 * items. Each does what jinja2 and Python do, or says that it is not supported. */
#ifndef SMOL_RUNTIME_TEMPLATE_CALL_H
#define SMOL_RUNTIME_TEMPLATE_CALL_H

#include "runtime/template/template_value.h"

/* The arguments of a call: named ones are a text and a value each. */
struct call {
    const struct value *positional; /* (n) */
    uint32_t n;
    const struct value *named; /* (2 n_named) */
    uint32_t n_named;
};

/* Puts the arguments into `out` in the order of names[0..n_names); VALUE_MISSING where one is not
 * given. `callee` is for messages. Errors: too many, unknown or repeated arguments. */
bool smol_call_bind(struct machine *machine, const char *callee, const struct call *call,
                    const char *const *names, uint32_t n_names, struct value *out);

/* --- template_filters.c, template_tests.c --------------------------------------------------- */

bool smol_template_filter(struct machine *machine, enum template_filter filter,
                          const struct value *self, const struct call *call, struct value *out);
bool smol_template_test(struct machine *machine, enum template_test test, const struct value *self,
                        const struct call *call, bool *out);

/* --- template_methods.c --------------------------------------------------------------------- */

/* value.name, and value[key] */
bool smol_template_attribute(struct machine *machine, const struct value *value,
                             const struct value *name, struct value *out);
bool smol_template_item(struct machine *machine, const struct value *value, const struct value *key,
                        struct value *out);
bool smol_template_method(struct machine *machine, const struct value_method *method,
                          const struct call *call, struct value *out);

/* --- template_functions.c ------------------------------------------------------------------- */

/* The function of that name, or false. */
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
/* value[start:stop:step], each None or an integer */
bool smol_template_slice(struct machine *machine, const struct value *value,
                         const struct value range[3], struct value *out);

#endif
