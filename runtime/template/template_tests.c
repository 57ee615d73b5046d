/* Tests of chat templates (`x is defined`). See template_call.h. */
#include "runtime/template/template_call.h"

/* Tests that compare their value with an argument, and the operators that implement them. */
static const struct {
    enum template_test test;
    enum template_compare compare;
} comparisons[] = {
    {TEST_EQUAL, COMPARE_EQUAL},     {TEST_UNEQUAL, COMPARE_UNEQUAL},
    {TEST_LESS, COMPARE_LESS},       {TEST_LESS_EQUAL, COMPARE_LESS_EQUAL},
    {TEST_GREATER, COMPARE_GREATER}, {TEST_GREATER_EQUAL, COMPARE_GREATER_EQUAL},
    {TEST_IN, COMPARE_IN},
};

static bool is_iterable(const struct value *self)
{
    return self->type != VALUE_NAMESPACE && (is_undefined(self) || self->type >= VALUE_TEXT) &&
           self->type <= VALUE_LOOP;
}

/* Computes the tests that depend only on the type of the value, or on a boolean. */
static bool test_type(enum template_test test, const struct value *self)
{
    bool boolean = self->type == VALUE_BOOLEAN;
    switch (test) {
    case TEST_DEFINED:
        return !is_undefined(self);
    case TEST_UNDEFINED:
        return is_undefined(self);
    case TEST_NONE:
        return self->type == VALUE_NONE;
    case TEST_STRING:
        return is_text(self);
    case TEST_MAPPING:
        return self->type == VALUE_DICT;
    case TEST_SEQUENCE: /* as in jinja2, an undefined value has a length and items */
        return is_text(self) || is_sequence(self) || self->type == VALUE_DICT || is_undefined(self);
    case TEST_ITERABLE:
        return is_iterable(self);
    case TEST_NUMBER:
        return is_number(self);
    case TEST_INTEGER:
        return self->type == VALUE_INTEGER;
    case TEST_FLOAT:
        return self->type == VALUE_REAL;
    case TEST_BOOLEAN:
        return boolean;
    case TEST_TRUE:
        return boolean && self->boolean;
    case TEST_FALSE:
        return boolean && !self->boolean;
    default: /* TEST_CALLABLE */
        return self->type >= VALUE_LOOP || is_undefined(self);
    }
}

static bool test_divisible(struct machine *machine, enum template_test test,
                           const struct value *self, const struct call *call, bool *out)
{
    const struct value two = value_integer(2), rest = value_integer(test == TEST_ODD);
    struct value remainder;
    return smol_template_binary(machine, BINARY_MODULO, self,
                                test == TEST_DIVISIBLEBY ? call->positional : &two, &remainder) &&
           smol_template_compare(machine, COMPARE_EQUAL, &remainder, &rest, out);
}

bool smol_template_test(struct machine *machine, enum template_test test, const struct value *self,
                        const struct call *call, bool *out)
{
    uint32_t due = test >= TEST_DIVISIBLEBY;
    if (call->n != due || call->n_named > 0)
        return smol_template_fail(machine, SMOL_ERROR_USAGE,
                                  "a test takes %u argument(s), without a name", due);
    if (test == TEST_ODD || test == TEST_EVEN || test == TEST_DIVISIBLEBY)
        return test_divisible(machine, test, self, call, out);
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++)
        if (comparisons[i].test == test)
            return smol_template_compare(machine, comparisons[i].compare, self, call->positional,
                                         out);
    *out = test_type(test, self);
    return true;
}
