/* Finds the roles that a template compares with by name. A role is part of the protocol: templates
 * compose special tokens around it ('<|' + message['role'] + '|>'), so its bytes count as the
 * template's own text, and only known names are accepted: a few common ones, and those that the
 * template compares a role with. The latter are found in its code, where an operand is computed
 * without jumps:
 *
 *     m.role == 'x'   'x' != m['role']   m.get('role') in ['x', 'y']   m.role is eq 'x'
 *     messages | selectattr('role', 'equalto', 'x')   {% set r = m.role %} ... r == 'x'
 *
 * A macro's parameter named role also counts as a role. */
#include <string.h>

#include "runtime/template/template_vm.h"

/* A search in one function's code. Operation numbers are relative to the function. */
struct role_search {
    struct machine *machine;
    const struct template_function *function;
    const struct template_operation *operations; /* (function->n_operations) */
    const struct value *role;                    /* name to search for, or NULL: all names */
    bool *names; /* all names: (n_constants), set for each constant that is one */
};

enum { NOWHERE = -1 }; /* not the number of an operation */

/* Returns whether the constant, an operand of OP_CONSTANT or OP_ATTRIBUTE, is that string. */
static bool string_is(const struct role_search *search, uint32_t constant, const uint8_t *bytes,
                      size_t n)
{
    const struct template_code *code = search->machine->code;
    const struct template_constant *c = &code->constants[constant];
    return c->type == CONSTANT_STRING && c->length == n &&
           memcmp(code->text + c->value, bytes, n) == 0;
}

static bool operation_is(const struct role_search *search, int64_t at, enum template_opcode opcode,
                         const char *text)
{
    return at >= 0 && search->operations[at].code == opcode &&
           string_is(search, search->operations[at].b, (const uint8_t *)text, strlen(text));
}

/* Returns the first operation of the code that computes an operand and ends with operation `end`,
 * or NOWHERE if that code contains jumps. */
static int64_t operand_start(const struct role_search *search, int64_t end)
{
    int64_t height = 0;
    for (int64_t at = end; at >= 0; at--) {
        const struct template_operation *op = &search->operations[at];
        if ((op->code < OP_CONSTANT || op->code > OP_CONCAT) && op->code != OP_CALL &&
            op->code != OP_FILTER && op->code != OP_TEST)
            return NOWHERE;
        if (op->code == OP_DUP || op->code == OP_SWAP || op->code == OP_TUCK ||
            op->code == OP_UNPACK || !smol_template_step(search->machine, 0))
            return NOWHERE;
        height += smol_template_growth(op);
        if (height == 1)
            return at;
    }
    return NOWHERE;
}

/* Returns whether the constant is the name; all names: whether it is a string. */
static bool is_name(const struct role_search *search, uint32_t constant)
{
    return search->role ? string_is(search, constant, search->role->bytes, search->role->n)
                        : search->machine->code->constants[constant].type == CONSTANT_STRING;
}

/* Returns whether the operand that ends at `end` is the name, or a list or tuple of strings that
 * contains it. With `taken`, sets it for each name there. */
static bool has_name(const struct role_search *search, int64_t end, bool *taken)
{
    if (end < 0)
        return false;
    const struct template_operation *op = &search->operations[end];
    int64_t n = 1;
    bool found = false;
    if (op->code == OP_LIST || op->code == OP_TUPLE) {
        n = op->b;
        end--;
    }
    for (int64_t at = end; at > end - n && at >= 0 && (taken || !found); at--) {
        op = &search->operations[at];
        if (op->code != OP_CONSTANT || !smol_template_step(search->machine, 0))
            break;
        if (is_name(search, op->b)) {
            found = true;
            if (taken)
                taken[op->b] = true;
        }
    }
    return found;
}

/* Returns whether the operand that ends at `end` is a message's role, but not a variable: .role,
 * ['role'], .get('role'), messages | map(attribute='role'), or one of these followed by filters or
 * methods without arguments. */
static bool is_member_role(const struct role_search *search, int64_t end)
{
    for (; end >= 0; end--) {
        const struct template_operation *op = &search->operations[end];
        bool of_role = operation_is(search, end - 1, OP_CONSTANT, "role");
        if (op->code == OP_ATTRIBUTE)
            return operation_is(search, end, OP_ATTRIBUTE, "role");
        if (op->code == OP_ITEM)
            return of_role;
        if (op->code == OP_CALL && op->b == 0 && op->a > 0)
            return op->a == 1 ? of_role && operation_is(search, end - 2, OP_ATTRIBUTE, "get")
                              : op->a == 2 && operation_is(search, end - 2, OP_CONSTANT, "role") &&
                                    operation_is(search, end - 3, OP_ATTRIBUTE, "get");
        if (op->code == OP_CALL && op->b == 0)
            end--; /* the method's name */
        else if (op->code == OP_FILTER && op->a == 0 && op->b >> 16 == 1)
            return of_role && operation_is(search, end - 2, OP_CONSTANT, "attribute");
        else if (op->code != OP_FILTER || op->a > 0 || op->b >> 16 > 0)
            return false;
    }
    return false;
}

/* Returns whether a variable is a macro's parameter named role, or is set to a message's role,
 * possibly in one branch of `a if b else c`. */
static bool is_role_variable(const struct role_search *search, const struct template_operation *get)
{
    struct role_search in = *search;
    if (get->a) {
        in.function = search->machine->code->functions;
        in.operations = search->machine->code->operations + in.function->start;
    }
    if (get->b < in.function->n_parameters &&
        string_is(&in, in.function->parameters + get->b, (const uint8_t *)"role", 4))
        return true;
    for (uint32_t at = 1; at < in.function->n_operations; at++) {
        const struct template_operation *op = &in.operations[at];
        if (!smol_template_step(in.machine, 0))
            return false;
        if (op->code != OP_SET || op->b != get->b)
            continue;
        int64_t other = operand_start(&in, (int64_t)at - 1) - 1;
        if (is_member_role(&in, (int64_t)at - 1) ||
            (other > 0 && in.operations[other].code == OP_JUMP && is_member_role(&in, other - 1)))
            return true;
    }
    return false;
}

static bool is_role(const struct role_search *search, int64_t end)
{
    return end >= 0 &&
           (is_member_role(search, end) || (search->operations[end].code == OP_GET &&
                                            is_role_variable(search, &search->operations[end])));
}

/* Returns whether operation `at` compares a role with the name. */
static bool compares(const struct role_search *search, int64_t at)
{
    const struct template_operation *op = &search->operations[at];
    bool is_test = op->code == OP_TEST && op->a == 1 && op->b >> 16 == 0;
    uint32_t filter = op->code == OP_FILTER && op->a == 3 ? op->b : UINT32_MAX;
    if (op->code != OP_COMPARE && !is_test && filter != FILTER_SELECTATTR &&
        filter != FILTER_REJECTATTR)
        return false;
    int64_t left = operand_start(search, at - 1) - 1;
    int64_t name = NOWHERE;
    if (filter != UINT32_MAX) { /* arguments: attribute, name of the test, name of the role */
        if (has_name(search, at - 1, NULL) && operation_is(search, left - 1, OP_CONSTANT, "role"))
            name = at - 1;
    } else if (has_name(search, at - 1, NULL) && is_role(search, left)) {
        name = at - 1;
    } else if (!is_test && has_name(search, left, NULL) && is_role(search, at - 1)) {
        name = left;
    }
    if (name >= 0 && search->names)
        has_name(search, name, search->names);
    return name >= 0;
}

/* Searches all functions; role and names as in struct role_search. */
static bool search_code(struct machine *machine, const struct value *role, bool *names)
{
    const struct template_code *code = machine->code;
    bool found = false;
    for (uint32_t i = 0; i < code->header.n_functions && !found && !machine->status; i++) {
        const struct template_function *function = &code->functions[i];
        const struct role_search search = {machine, function, code->operations + function->start,
                                           role, names};
        for (uint32_t at = 1; at < function->n_operations && !found && !machine->status; at++)
            found = smol_template_step(machine, 0) && compares(&search, at) && !names;
    }
    return found;
}

bool smol_template_names_role(struct machine *machine, const struct value *role, bool *named)
{
    *named = search_code(machine, role, NULL);
    return !machine->status;
}

bool smol_template_role_names(struct machine *machine, bool *names)
{
    search_code(machine, NULL, names);
    return !machine->status;
}
