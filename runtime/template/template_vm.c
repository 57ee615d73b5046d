/* The stack machine of chat templates. The reader has already checked every operand and the height
 * of the stack before every operation; this file checks only properties that depend on values. See
 * template_vm.h and FORMAT.md, 5.11. */
#include "runtime/template/template_vm.h"

#include <string.h>

#include "runtime/template/template_call.h"
#include "runtime/template/template_text.h"

/* A call of a function: its slots are on the stack, followed by its own values. */
struct frame {
    const struct template_function *function;
    uint32_t next;       /* index of the next operation */
    struct value *slots; /* (n_slots) */
    struct value *top;   /* after the last value, saved during a nested call */
};

enum { MAX_CAPTURES = 256 }; /* of all calls together */

struct vm {
    struct machine *machine;
    struct value *stack; /* (TEMPLATE_STACK) */
    struct value *top;   /* after the last value */
    struct frame frames[TEMPLATE_MAX_CALLS];
    uint32_t n_frames;
    struct text_builder captures[MAX_CAPTURES]; /* output goes to the last one */
    uint32_t n_captures;
};

typedef const struct template_operation operation;

/* --- helpers ---------------------------------------------------------------------------------- */

static struct frame *frame_of(struct vm *vm)
{
    return &vm->frames[vm->n_frames - 1];
}

static struct value pop(struct vm *vm)
{
    return *--vm->top;
}

static bool push(struct vm *vm, struct value value)
{
    *vm->top++ = value;
    return true;
}

static struct value constant(const struct vm *vm, uint32_t index)
{
    const struct template_constant *c = &vm->machine->code->constants[index];
    double real;
    switch (c->type) {
    case CONSTANT_NONE:
        return value_none();
    case CONSTANT_FALSE:
    case CONSTANT_TRUE:
        return value_boolean(c->type == CONSTANT_TRUE);
    case CONSTANT_INTEGER:
        return value_integer((int64_t)c->value);
    case CONSTANT_REAL:
        memcpy(&real, &c->value, sizeof real);
        return value_real(real);
    default:
        return value_text(vm->machine->code->text + c->value, c->length);
    }
}

static struct text_builder *output(struct vm *vm)
{
    return &vm->captures[vm->n_captures - 1];
}

static void jump(struct vm *vm, uint32_t to)
{
    frame_of(vm)->next = to;
}

static bool open_capture(struct vm *vm)
{
    if (vm->n_captures == MAX_CAPTURES)
        return smol_template_fail(vm->machine, SMOL_ERROR_UNSUPPORTED, "more than %d nested texts",
                                  MAX_CAPTURES);
    vm->captures[vm->n_captures++] = (struct text_builder){0};
    return true;
}

/* --- output and values ------------------------------------------------------------------------ */

static bool do_text(struct vm *vm, operation *op)
{
    const struct value text = constant(vm, op->b);
    return smol_builder_add_part(vm->machine, output(vm), &text, 0, text.n);
}

static bool do_print(struct vm *vm, operation *op)
{
    (void)op;
    const struct value value = pop(vm);
    return smol_text_print(vm->machine, output(vm), &value);
}

static bool do_capture(struct vm *vm, operation *op)
{
    (void)op;
    return open_capture(vm);
}

static bool do_captured(struct vm *vm, operation *op)
{
    struct value text = smol_builder_text(output(vm));
    vm->n_captures--;
    return op->code == OP_CAPTURE_LEAVE || push(vm, text);
}

static bool do_constant(struct vm *vm, operation *op)
{
    return push(vm, constant(vm, op->b));
}

static bool do_undefined(struct vm *vm, operation *op)
{
    const struct value name = constant(vm, op->b);
    return push(vm, value_undefined(name.bytes, name.n));
}

static bool do_resolve(struct vm *vm, operation *op)
{
    const struct value name = constant(vm, op->b);
    const struct value *found;
    struct value value = value_undefined(name.bytes, name.n);
    if (!smol_dict_find(vm->machine, &vm->machine->variables, &name, &found))
        return false;
    if (found)
        value = *found;
    else
        smol_template_builtin(&name, &value);
    return push(vm, value);
}

static struct value *slot(struct vm *vm, operation *op)
{
    return &vm->frames[op->a ? 0 : vm->n_frames - 1].slots[op->b];
}

static bool do_get(struct vm *vm, operation *op)
{
    push(vm, *slot(vm, op));
    if (vm->top[-1].type == VALUE_MISSING) /* elsewhere this means an argument that is not given */
        vm->top[-1].type = VALUE_UNDEFINED;
    return true;
}

static bool do_set(struct vm *vm, operation *op)
{
    *slot(vm, op) = pop(vm);
    return true;
}

/* Makes a list or tuple of the last b values. */
static bool do_list(struct vm *vm, operation *op)
{
    struct value *items = smol_template_alloc(vm->machine, op->b, sizeof *items);
    if (!items)
        return false;
    vm->top -= op->b;
    if (op->b > 0)
        memcpy(items, vm->top, op->b * sizeof *items);
    return push(vm, value_items(op->code == OP_LIST ? VALUE_LIST : VALUE_TUPLE, items, op->b));
}

/* Makes a dict of the last b pairs. A repeated key keeps its first position and takes the last
 * value. */
static bool do_dict(struct vm *vm, operation *op)
{
    struct value *pairs = smol_template_alloc(vm->machine, (uint64_t)op->b * 2, sizeof *pairs);
    uint32_t n = 0;
    if (!pairs)
        return false;
    vm->top -= 2 * (size_t)op->b;
    for (uint32_t i = 0; i < op->b; i++)
        if (!smol_dict_put(vm->machine, pairs, &n, &vm->top[2 * i], &vm->top[2 * i + 1]))
            return false;
    return push(vm, value_items(VALUE_DICT, pairs, n));
}

static bool do_function(struct vm *vm, operation *op)
{
    return push(vm, (struct value){.type = VALUE_MACRO, .number = op->b});
}

static bool do_pop(struct vm *vm, operation *op)
{
    (void)op;
    vm->top--;
    return true;
}

static bool do_dup(struct vm *vm, operation *op)
{
    (void)op;
    return push(vm, vm->top[-1]);
}

static bool do_swap(struct vm *vm, operation *op)
{
    struct value y = pop(vm), x = pop(vm);
    push(vm, y);
    push(vm, x);
    return op->code == OP_SWAP || push(vm, y);
}

static bool do_unpack(struct vm *vm, operation *op)
{
    struct value value = pop(vm), list;
    if (!smol_value_iterate(vm->machine, &value, &list))
        return false;
    if (list.n != op->b)
        return smol_template_fail(vm->machine, SMOL_ERROR_USAGE, "expected %u values, found %u",
                                  op->b, list.n);
    for (uint32_t i = list.n; i > 0; i--)
        push(vm, list.items[i - 1]);
    return true;
}

/* --- operators -------------------------------------------------------------------------------- */

static bool do_attribute(struct vm *vm, operation *op)
{
    const struct value name = constant(vm, op->b), value = pop(vm);
    return smol_template_attribute(vm->machine, &value, &name, vm->top++);
}

static bool do_item(struct vm *vm, operation *op)
{
    (void)op;
    const struct value key = pop(vm), value = pop(vm);
    return smol_template_item(vm->machine, &value, &key, vm->top++);
}

static bool do_slice(struct vm *vm, operation *op)
{
    (void)op;
    struct value result;
    vm->top -= 4;
    return smol_template_slice(vm->machine, vm->top, vm->top + 1, &result) && push(vm, result);
}

static bool do_not(struct vm *vm, operation *op)
{
    (void)op;
    const struct value value = pop(vm);
    return push(vm, value_boolean(!smol_value_truth(&value)));
}

static bool do_unary(struct vm *vm, operation *op)
{
    const struct value value = pop(vm);
    return smol_template_unary(vm->machine, (enum template_unary)op->a, &value, vm->top++);
}

static bool do_binary(struct vm *vm, operation *op)
{
    const struct value y = pop(vm), x = pop(vm);
    return smol_template_binary(vm->machine, (enum template_binary)op->a, &x, &y, vm->top++);
}

static bool do_compare(struct vm *vm, operation *op)
{
    bool result;
    const struct value y = pop(vm), x = pop(vm);
    return smol_template_compare(vm->machine, (enum template_compare)op->a, &x, &y, &result) &&
           push(vm, value_boolean(result));
}

static bool do_concat(struct vm *vm, operation *op)
{
    struct text_builder builder = {0};
    vm->top -= op->b;
    for (uint32_t i = 0; i < op->b; i++)
        if (!smol_text_print(vm->machine, &builder, &vm->top[i]))
            return false;
    return push(vm, smol_builder_text(&builder));
}

static bool do_store(struct vm *vm, operation *op)
{
    const struct value name = constant(vm, op->b), value = pop(vm), names = pop(vm);
    return smol_template_store(vm->machine, &names, &name, &value);
}

/* --- calls ------------------------------------------------------------------------------------ */

/* Pops the arguments of a call. They remain in the stack's memory. */
static struct call take_call(struct vm *vm, uint32_t n, uint32_t n_named)
{
    struct call call = {.n = n, .n_named = n_named};
    vm->top -= 2 * (size_t)n_named;
    call.named = vm->top;
    vm->top -= n;
    call.positional = vm->top;
    return call;
}

/* Puts the arguments into the slots of the parameters. */
static bool bind_parameters(struct vm *vm, const struct template_function *function,
                            const struct call *call, struct value *slots)
{
    const struct value name = constant(vm, function->name);
    if (call->n > function->n_parameters)
        return smol_template_fail(
            vm->machine, SMOL_ERROR_USAGE, "macro %.*s: takes at most %u arguments",
            (int)(name.n < 64 ? name.n : 64), (const char *)name.bytes, function->n_parameters);
    for (uint32_t i = 0; i < call->n; i++)
        slots[i] = call->positional[i];
    for (uint32_t k = 0; k < call->n_named; k++) {
        uint32_t i = 0;
        bool equal = false;
        for (; i < function->n_parameters && !equal; i++) {
            const struct value parameter = constant(vm, function->parameters + i);
            if (!smol_value_equal(vm->machine, &parameter, &call->named[2 * k], &equal))
                return false;
        }
        if (!equal || slots[i - 1].type != VALUE_MISSING)
            return smol_template_fail(vm->machine, SMOL_ERROR_USAGE,
                                      "macro %.*s: an argument is unknown or appears twice",
                                      (int)(name.n < 64 ? name.n : 64), (const char *)name.bytes);
        slots[i - 1] = call->named[2 * k + 1];
    }
    return true;
}

/* Starts a function. `call` may be NULL; its arguments may be among the `kept` values above the top
 * of the stack. */
static bool enter_function(struct vm *vm, uint32_t number, const struct call *call, size_t kept)
{
    const struct template_function *function = &vm->machine->code->functions[number];
    struct value *slots = vm->top + kept;
    size_t room = (size_t)(vm->stack + TEMPLATE_STACK - slots);
    if (vm->n_frames == TEMPLATE_MAX_CALLS || room < function->n_slots ||
        room - function->n_slots < function->max_stack)
        return smol_template_fail(vm->machine, SMOL_ERROR_UNSUPPORTED,
                                  "macros that call each other too deeply");
    memset(slots, 0, function->n_slots * sizeof *slots);
    if (call && !bind_parameters(vm, function, call, slots))
        return false;
    if (vm->n_frames > 0)
        frame_of(vm)->top = vm->top;
    vm->frames[vm->n_frames++] = (struct frame){.function = function, .slots = slots};
    vm->top = slots + function->n_slots;
    return open_capture(vm);
}

static bool do_call(struct vm *vm, operation *op)
{
    bool by_list = op->code == OP_CALL_LIST;
    struct call call = take_call(vm, by_list ? 1 : op->a, op->b);
    const size_t kept = call.n + 2 * (size_t)call.n_named;
    const struct value callee = pop(vm);
    struct value result;
    if (by_list) {
        const struct value *list = call.positional;
        if (list->type != VALUE_LIST)
            return smol_template_fail_type(vm->machine, "expected a list of arguments, found",
                                           list);
        call.positional = list->items;
        call.n = list->n;
    }
    if (callee.type == VALUE_MACRO) {
        vm->top++; /* keep the callee's place for the result, and the arguments above it */
        return enter_function(vm, callee.number, &call, kept);
    }
    if (callee.type == VALUE_METHOD)
        return smol_template_method(vm->machine, callee.method, &call, &result) && push(vm, result);
    if (callee.type == VALUE_BUILTIN)
        return smol_template_call_builtin(vm->machine, (enum builtin)callee.number, &call,
                                          &result) &&
               push(vm, result);
    return smol_template_fail_type(vm->machine, "cannot call", &callee);
}

static bool do_filter(struct vm *vm, operation *op)
{
    const struct call call = take_call(vm, op->a, op->b >> 16);
    const struct value self = pop(vm);
    struct value result;
    return smol_template_filter(vm->machine, (enum template_filter)(op->b & 0xffff), &self, &call,
                                &result) &&
           push(vm, result);
}

static bool do_test(struct vm *vm, operation *op)
{
    const struct call call = take_call(vm, op->a, op->b >> 16);
    const struct value self = pop(vm);
    bool result;
    return smol_template_test(vm->machine, (enum template_test)(op->b & 0xffff), &self, &call,
                              &result) &&
           push(vm, value_boolean(result));
}

static bool do_given(struct vm *vm, operation *op)
{
    if (frame_of(vm)->slots[op->a].type != VALUE_MISSING)
        jump(vm, op->b);
    return true;
}

/* Returns from a function: the text that it wrote replaces the callee on the stack. */
static bool do_return(struct vm *vm, operation *op)
{
    (void)op;
    if (vm->n_frames > 1) {
        vm->n_frames--;
        vm->top = frame_of(vm)->top;
        vm->top[-1] = smol_builder_text(output(vm));
        vm->n_captures--;
    } else {
        vm->n_frames = 0;
    }
    return true;
}

/* --- jumps and loops -------------------------------------------------------------------------- */

static bool do_jump(struct vm *vm, operation *op)
{
    jump(vm, op->b);
    return true;
}

static bool do_jump_false(struct vm *vm, operation *op)
{
    const struct value value = pop(vm);
    if (!smol_value_truth(&value))
        jump(vm, op->b);
    return true;
}

static bool do_and_or(struct vm *vm, operation *op)
{
    if (smol_value_truth(&vm->top[-1]) == (op->code == OP_OR))
        jump(vm, op->b);
    else
        vm->top--;
    return true;
}

static bool do_loop(struct vm *vm, operation *op)
{
    const struct value value = pop(vm);
    struct value list;
    (void)op;
    if (!smol_value_iterate(vm->machine, &value, &list))
        return false;
    struct value_loop *loop = smol_template_alloc(vm->machine, 1, sizeof *loop);
    if (!loop)
        return false;
    *loop = (struct value_loop){.items = list.items, .n = list.n};
    return push(vm, (struct value){.type = VALUE_LOOP, .loop = loop});
}

/* Returns the loop on the stack. Code from the converter always has one there. */
static struct value_loop *loop_at(struct vm *vm, const struct value *value)
{
    if (value->type == VALUE_LOOP)
        return value->loop;
    smol_template_fail(vm->machine, SMOL_ERROR_DAMAGED, "expected a loop");
    return NULL;
}

static bool do_next(struct vm *vm, operation *op)
{
    struct value_loop *loop = loop_at(vm, &vm->top[-1]);
    if (!loop)
        return false;
    if (loop->next < loop->n)
        return push(vm, loop->items[loop->next++]);
    jump(vm, op->b);
    return true;
}

static bool do_keep(struct vm *vm, operation *op)
{
    const struct value keep = pop(vm);
    struct value_loop *loop = loop_at(vm, &vm->top[-1]);
    (void)op;
    if (!loop)
        return false;
    if (!smol_value_truth(&keep) || loop->next == 0)
        return true;
    if (!loop->kept &&
        !(loop->kept = smol_template_alloc(vm->machine, loop->n, sizeof *loop->kept)))
        return false;
    if (loop->n_kept < loop->n)
        loop->kept[loop->n_kept++] = loop->items[loop->next - 1];
    return true;
}

static bool do_rewind(struct vm *vm, operation *op)
{
    struct value_loop *loop = loop_at(vm, &vm->top[-1]);
    (void)op;
    if (!loop)
        return false;
    *loop = (struct value_loop){.items = loop->kept, .n = loop->n_kept};
    return true;
}

static bool do_loop_end(struct vm *vm, operation *op)
{
    const struct value value = pop(vm);
    const struct value_loop *loop = loop_at(vm, &value);
    if (loop && loop->next > 0)
        jump(vm, op->b);
    return loop != NULL;
}

/* --- the machine ------------------------------------------------------------------------------ */

static bool (*const operations[N_TEMPLATE_CODES])(struct vm *vm, operation *op) = {
    [OP_TEXT] = do_text,
    [OP_PRINT] = do_print,
    [OP_CAPTURE] = do_capture,
    [OP_CAPTURED] = do_captured,
    [OP_CAPTURE_LEAVE] = do_captured,
    [OP_CONSTANT] = do_constant,
    [OP_UNDEFINED] = do_undefined,
    [OP_RESOLVE] = do_resolve,
    [OP_GET] = do_get,
    [OP_SET] = do_set,
    [OP_LIST] = do_list,
    [OP_TUPLE] = do_list,
    [OP_DICT] = do_dict,
    [OP_FUNCTION] = do_function,
    [OP_POP] = do_pop,
    [OP_DUP] = do_dup,
    [OP_SWAP] = do_swap,
    [OP_TUCK] = do_swap,
    [OP_UNPACK] = do_unpack,
    [OP_ATTRIBUTE] = do_attribute,
    [OP_ITEM] = do_item,
    [OP_SLICE] = do_slice,
    [OP_NOT] = do_not,
    [OP_UNARY] = do_unary,
    [OP_BINARY] = do_binary,
    [OP_COMPARE] = do_compare,
    [OP_CONCAT] = do_concat,
    [OP_STORE] = do_store,
    [OP_CALL] = do_call,
    [OP_FILTER] = do_filter,
    [OP_TEST] = do_test,
    [OP_GIVEN] = do_given,
    [OP_RETURN] = do_return,
    [OP_JUMP] = do_jump,
    [OP_JUMP_FALSE] = do_jump_false,
    [OP_AND] = do_and_or,
    [OP_OR] = do_and_or,
    [OP_LOOP] = do_loop,
    [OP_NEXT] = do_next,
    [OP_KEEP] = do_keep,
    [OP_REWIND] = do_rewind,
    [OP_LOOP_END] = do_loop_end,
    [OP_CALL_LIST] = do_call,
};

static bool step(struct vm *vm)
{
    struct frame *frame = frame_of(vm);
    operation *op = &vm->machine->code->operations[frame->function->start + frame->next++];
    vm->machine->line = op->line;
    return smol_template_step(vm->machine, 0) && operations[op->code](vm, op);
}

bool smol_template_run(struct machine *machine, struct value *out)
{
    struct vm *vm = smol_template_alloc(machine, 1, sizeof *vm);
    if (!vm)
        return false;
    memset(vm, 0, sizeof *vm);
    vm->machine = machine;
    vm->stack = vm->top = smol_template_alloc(machine, TEMPLATE_STACK, sizeof *vm->stack);
    if (!vm->stack || !enter_function(vm, 0, NULL, 0))
        return false;
    while (vm->n_frames > 0)
        if (!step(vm))
            return false;
    *out = smol_builder_text(output(vm));
    return true;
}
