/* The checks of the template section, made at every open. See FORMAT.md, 5.11. */
#include "format/template.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "common/checked.h"
#include "common/memory.h"
#include "common/utf8.h"

/* --- tables ------------------------------------------------------------------------------- */

static smol_status check_header(const struct blob_template *header, smol_error *error)
{
    if (!all_zero(header->reserved, sizeof header->reserved))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "a reserved field is not zero");
    if (header->tool_style >= N_TOOL_STYLES || (header->tool_style && !header->n_functions))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "bad style of tool calls");
    if (header->n_constants > TEMPLATE_MAX_CONSTANTS ||
        header->n_operations > TEMPLATE_MAX_OPERATIONS ||
        header->n_functions > TEMPLATE_MAX_FUNCTIONS ||
        header->n_variables > TEMPLATE_MAX_CONSTANTS)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "too many entries");
    if ((header->reason == NO_CONSTANT) != (header->n_functions > 0))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "neither code nor a reason, or both");
    return SMOL_OK;
}

/* Locates the tables. All entries have a multiple of 8 bytes, and counts are 32 bits wide, so no
 * sum overflows. */
static smol_status take_tables(const uint8_t *data, size_t size, struct template_code *code,
                               smol_error *error)
{
    const struct blob_template *h = &code->header;
    uint64_t constants = sizeof *h;
    uint64_t functions = constants + (uint64_t)h->n_constants * sizeof *code->constants;
    uint64_t operations = functions + (uint64_t)h->n_functions * sizeof *code->functions;
    uint64_t variables = operations + (uint64_t)h->n_operations * sizeof *code->operations;
    uint64_t text = variables + (uint64_t)h->n_variables * sizeof *code->variables;
    if (text + h->n_text_bytes != size)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "the section does not end with its text");
    code->constants = (const void *)(data + constants);
    code->functions = (const void *)(data + functions);
    code->operations = (const void *)(data + operations);
    code->variables = (const void *)(data + variables);
    code->text = data + text;
    return SMOL_OK;
}

static bool constant_is_valid(const struct template_code *code, const struct template_constant *c)
{
    if (c->type == CONSTANT_STRING)
        return range_within(c->value, c->length, code->header.n_text_bytes) &&
               smol_utf8_well_formed(code->text + c->value, c->length) == c->length;
    if (c->length || c->type > CONSTANT_STRING)
        return false;
    return c->type == CONSTANT_INTEGER || c->type == CONSTANT_REAL || c->value == 0;
}

static bool is_string(const struct template_code *code, uint64_t constant)
{
    return constant < code->header.n_constants && code->constants[constant].type == CONSTANT_STRING;
}

/* Checks constants and variables. Each string has bytes of its own, so that the checks take linear
 * time. */
static smol_status check_tables(const struct template_code *code, smol_error *error)
{
    const struct blob_template *h = &code->header;
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < h->n_constants; i++) {
        n_bytes += code->constants[i].length;
        if (n_bytes > h->n_text_bytes)
            return smol_fail(error, SMOL_ERROR_DAMAGED, "strings share text (constant %" PRIu32 ")",
                             i);
        if (!constant_is_valid(code, &code->constants[i]))
            return smol_fail(error, SMOL_ERROR_DAMAGED, "bad constant (%" PRIu32 ")", i);
    }
    for (uint32_t i = 0; i < h->n_variables; i++)
        if (!is_string(code, code->variables[i].name) || !is_string(code, code->variables[i].value))
            return smol_fail(error, SMOL_ERROR_DAMAGED, "bad variable (%" PRIu32 ")", i);
    if (!is_string(code, h->name) || (h->reason != NO_CONSTANT && !is_string(code, h->reason)))
        return smol_fail(error, SMOL_ERROR_DAMAGED, "no name or reason");
    return SMOL_OK;
}

static bool function_is_valid(const struct template_code *code, uint32_t index, uint32_t start)
{
    const struct template_function *f = &code->functions[index];
    bool whole = f->start == start && f->n_operations > 0 &&
                 f->n_operations <= code->header.n_operations - start &&
                 f->n_slots <= TEMPLATE_MAX_STACK && f->n_parameters <= f->n_slots &&
                 f->max_stack <= TEMPLATE_MAX_STACK && f->reserved == 0 &&
                 is_string(code, f->name) && (index > 0 || f->n_parameters == 0);
    for (uint64_t i = 0; whole && i < f->n_parameters; i++)
        whole = is_string(code, f->parameters + i);
    return whole;
}

/* --- operations --------------------------------------------------------------------------- */

/* The effect of an operation on the height of the stack, and the kind of its operand. */
enum operand { OPERAND_NONE, OPERAND_STRING, OPERAND_OTHER };
struct effect {
    uint64_t pops, pushes;
    int captures; /* -1, 0, 1 */
    enum operand operand;
    bool jumps;
};

static const struct {
    uint8_t pops, pushes;
    int8_t captures;
    uint8_t operand;
    bool jumps;
} effects[N_TEMPLATE_CODES] = {
    [OP_TEXT] = {0, 0, 0, OPERAND_STRING, false},
    [OP_PRINT] = {1, 0, 0, OPERAND_NONE, false},
    [OP_CAPTURE] = {0, 0, 1, OPERAND_NONE, false},
    [OP_CAPTURED] = {0, 1, -1, OPERAND_NONE, false},
    [OP_CAPTURE_LEAVE] = {0, 0, -1, OPERAND_NONE, false},
    [OP_CONSTANT] = {0, 1, 0, OPERAND_OTHER, false},
    [OP_UNDEFINED] = {0, 1, 0, OPERAND_STRING, false},
    [OP_RESOLVE] = {0, 1, 0, OPERAND_STRING, false},
    [OP_GET] = {0, 1, 0, OPERAND_OTHER, false},
    [OP_SET] = {1, 0, 0, OPERAND_OTHER, false},
    [OP_LIST] = {0, 1, 0, OPERAND_OTHER, false},
    [OP_TUPLE] = {0, 1, 0, OPERAND_OTHER, false},
    [OP_DICT] = {0, 1, 0, OPERAND_OTHER, false},
    [OP_FUNCTION] = {0, 1, 0, OPERAND_OTHER, false},
    [OP_POP] = {1, 0, 0, OPERAND_NONE, false},
    [OP_DUP] = {1, 2, 0, OPERAND_NONE, false},
    [OP_SWAP] = {2, 2, 0, OPERAND_NONE, false},
    [OP_TUCK] = {2, 3, 0, OPERAND_NONE, false},
    [OP_UNPACK] = {1, 0, 0, OPERAND_OTHER, false},
    [OP_ATTRIBUTE] = {1, 1, 0, OPERAND_STRING, false},
    [OP_ITEM] = {2, 1, 0, OPERAND_NONE, false},
    [OP_SLICE] = {4, 1, 0, OPERAND_NONE, false},
    [OP_NOT] = {1, 1, 0, OPERAND_NONE, false},
    [OP_UNARY] = {1, 1, 0, OPERAND_NONE, false},
    [OP_BINARY] = {2, 1, 0, OPERAND_NONE, false},
    [OP_COMPARE] = {2, 1, 0, OPERAND_NONE, false},
    [OP_CONCAT] = {0, 1, 0, OPERAND_OTHER, false},
    [OP_STORE] = {2, 0, 0, OPERAND_STRING, false},
    [OP_CALL] = {1, 1, 0, OPERAND_OTHER, false},
    [OP_FILTER] = {1, 1, 0, OPERAND_OTHER, false},
    [OP_TEST] = {1, 1, 0, OPERAND_OTHER, false},
    [OP_GIVEN] = {0, 0, 0, OPERAND_OTHER, true},
    [OP_RETURN] = {0, 0, 0, OPERAND_NONE, false},
    [OP_JUMP] = {0, 0, 0, OPERAND_OTHER, true},
    [OP_JUMP_FALSE] = {1, 0, 0, OPERAND_OTHER, true},
    [OP_AND] = {1, 0, 0, OPERAND_OTHER, true},
    [OP_OR] = {1, 0, 0, OPERAND_OTHER, true},
    [OP_LOOP] = {1, 1, 0, OPERAND_NONE, false},
    [OP_NEXT] = {1, 2, 0, OPERAND_OTHER, true},
    [OP_KEEP] = {2, 1, 0, OPERAND_NONE, false},
    [OP_REWIND] = {1, 1, 0, OPERAND_NONE, false},
    [OP_LOOP_END] = {1, 0, 0, OPERAND_OTHER, true},
    [OP_CALL_LIST] = {2, 1, 0, OPERAND_OTHER, false},
};

static struct effect effect_of(const struct template_operation *op)
{
    struct effect effect = {effects[op->code].pops, effects[op->code].pushes,
                            effects[op->code].captures, (enum operand)effects[op->code].operand,
                            effects[op->code].jumps};
    if (op->code == OP_LIST || op->code == OP_TUPLE || op->code == OP_CONCAT)
        effect.pops += op->b;
    else if (op->code == OP_DICT)
        effect.pops += (uint64_t)op->b * 2;
    else if (op->code == OP_UNPACK)
        effect.pushes += op->b;
    else if (op->code == OP_CALL || op->code == OP_CALL_LIST)
        effect.pops += op->a + (uint64_t)op->b * 2;
    else if (op->code == OP_FILTER || op->code == OP_TEST)
        effect.pops += op->a + (uint64_t)(op->b >> 16) * 2;
    return effect;
}

int64_t smol_template_growth(const struct template_operation *operation)
{
    struct effect effect = effect_of(operation);
    return (int64_t)effect.pushes - (int64_t)effect.pops;
}

/* Returns the number of different values that field `a` may have; 256 means any value, which the
 * height of the stack bounds. */
static unsigned limit_of_a(const struct template_operation *op, const struct template_function *f)
{
    switch (op->code) {
    case OP_GET:
    case OP_SET:
        return 2;
    case OP_UNARY:
        return N_TEMPLATE_UNARIES;
    case OP_BINARY:
        return N_TEMPLATE_BINARIES;
    case OP_COMPARE:
        return N_TEMPLATE_COMPARES;
    case OP_GIVEN:
        return f->n_parameters < 256 ? f->n_parameters : 256;
    case OP_CALL:
    case OP_FILTER:
    case OP_TEST:
        return 256;
    default:
        return 1;
    }
}

static bool operands_are_valid(const struct template_code *code, const struct template_function *f,
                               const struct template_operation *op)
{
    if (op->code >= N_TEMPLATE_CODES || op->a >= limit_of_a(op, f))
        return false;
    struct effect effect = effect_of(op);
    if (effect.operand == OPERAND_NONE)
        return op->b == 0;
    if (effect.operand == OPERAND_STRING)
        return is_string(code, op->b);
    if (effect.jumps)
        return op->b < f->n_operations;
    switch (op->code) {
    case OP_CONSTANT:
        return op->b < code->header.n_constants;
    case OP_GET:
    case OP_SET:
        return op->b < (op->a ? code->functions[0].n_slots : f->n_slots);
    case OP_FUNCTION:
        return op->b > 0 && op->b < code->header.n_functions;
    case OP_FILTER:
        return (op->b & 0xffff) < N_TEMPLATE_FILTERS;
    case OP_TEST:
        return (op->b & 0xffff) < N_TEMPLATE_TESTS;
    default: /* a number of values, which the height of the stack bounds */
        return true;
    }
}

/* The heights of stack and captures before an operation. `known` is set only for reachable
 * operations. */
struct height {
    uint32_t stack;
    uint16_t captures;
    bool known;
};

static bool agree(struct height *at, struct height now)
{
    if (!at->known)
        *at = now;
    return at->stack == now.stack && at->captures == now.captures;
}

/* Propagates the heights before one operation to its successors. */
static bool follow(const struct template_function *f, const struct template_operation *op,
                   struct height *heights, uint32_t i)
{
    struct effect effect = effect_of(op);
    struct height now = heights[i], next = now;
    if (effect.pops > now.stack || (effect.captures < 0 && now.captures == 0))
        return false;
    uint64_t stack = now.stack - effect.pops + effect.pushes;
    next.captures = (uint16_t)(now.captures + effect.captures);
    if (stack > f->max_stack || next.captures > TEMPLATE_MAX_CAPTURES)
        return false;
    next.stack = (uint32_t)stack;
    bool keeps = op->code == OP_AND || op->code == OP_OR;
    bool drops_item = op->code == OP_NEXT; /* at the target of the jump */
    struct height target = {next.stack + keeps - drops_item, next.captures, true};
    if (op->code == OP_RETURN)
        return now.stack == 0 && now.captures == 0;
    if (effect.jumps && !agree(&heights[op->b], target))
        return false;
    if (op->code == OP_JUMP)
        return true;
    return i + 1 < f->n_operations && agree(&heights[i + 1], next);
}

/* Checks a function in one pass from the first operation to the last. A jump backwards must lead to
 * an operation with known heights, which `agree` compares. Unreachable operations are invalid. */
static smol_status check_function(const struct template_code *code, uint32_t index,
                                  struct height *heights, smol_error *error)
{
    const struct template_function *f = &code->functions[index];
    memset(heights, 0, f->n_operations * sizeof *heights);
    heights[0].known = true;
    for (uint32_t i = 0; i < f->n_operations; i++) {
        const struct template_operation *op = &code->operations[f->start + i];
        if (!heights[i].known || !operands_are_valid(code, f, op) || !follow(f, op, heights, i))
            return smol_fail(error, SMOL_ERROR_DAMAGED, "bad operation (%" PRIu32 ")",
                             f->start + i);
    }
    return SMOL_OK;
}

static smol_status check_functions(const struct template_code *code, smol_error *error)
{
    const struct blob_template *h = &code->header;
    uint64_t start = 0;
    struct height *heights = smol_calloc((size_t)h->n_operations + 1, sizeof *heights);
    if (!heights)
        return smol_fail_memory(error, "the check of the template");
    smol_status status = SMOL_OK;
    for (uint32_t i = 0; i < h->n_functions && !status; i++) {
        if (!function_is_valid(code, i, (uint32_t)start))
            status = smol_fail(error, SMOL_ERROR_DAMAGED, "bad function (%" PRIu32 ")", i);
        else
            status = check_function(code, i, heights, error);
        start += code->functions[i].n_operations;
    }
    smol_free(heights);
    if (!status && start != h->n_operations)
        status = smol_fail(error, SMOL_ERROR_DAMAGED, "operations after the last function");
    return status;
}

smol_status smol_template_open(const uint8_t *data, size_t size, struct template_code *code,
                               smol_error *error)
{
    if (size < sizeof code->header)
        return smol_fail(error, SMOL_ERROR_DAMAGED, "no room for its header");
    memset(code, 0, sizeof *code);
    memcpy(&code->header, data, sizeof code->header);
    smol_status status;
    if ((status = check_header(&code->header, error)) ||
        (status = take_tables(data, size, code, error)) || (status = check_tables(code, error)) ||
        (status = check_functions(code, error)))
        return status;
    return SMOL_OK;
}
