/* The compiler of chat templates: translates the tree into operations. The semantics follow
 * jinja2's own compiler, scope by scope. See template_compiler.h. */
#include "convert/template/template_compiler.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/text.h"
#include "common/utf8.h"
#include "convert/template/template_parser.h"
#include "convert/template/template_scope.h"

/* A jump target. Jumps that precede it form a chain: the operand of each is the index of the jump
 * before. */
struct label {
    bool known;
    uint32_t place; /* index of the target if known, otherwise of the last jump that refers to it */
    bool awaited;
    int64_t height;
};

/* The loop that encloses a statement. */
struct loop {
    struct label *again, *end;
    unsigned captures;
    struct loop *around;
};

/* The function that receives the operations. */
struct function {
    uint32_t number;
    uint32_t n_slots;
    struct template_operation *operations; /* (n), owned */
    uint32_t n;
    size_t capacity;
    int64_t height, max_height; /* of the stack */
    unsigned captures;          /* number of open captures */
    bool dead;                  /* the next operation is unreachable */
    struct loop *loop;
};

struct compiler {
    const struct template_tree *tree;
    struct template_builder *builder;
    struct function *function;
    struct scope *scope;
    struct buffer finished; /* one struct finished for each macro, in order */
    struct buffer members;  /* the tree's NODE_MEMBERs (pointers), by their namespace's name */
    uint32_t n_functions;   /* so far, including the template itself */
    smol_status status;
    smol_error *error;
};

/* A completely compiled function. */
struct finished {
    struct template_function function;
    struct template_operation *operations;
};

static void compile_expression(struct compiler *c, const struct node *node);
static void compile_statements(struct compiler *c, const struct node *nodes);
static void compile_call_body(struct compiler *c, const struct node *node);

/* --- operations --------------------------------------------------------------------------- */

static void fail(struct compiler *c, const struct node *node, smol_status status, const char *what)
{
    if (!c->status)
        c->status = smol_template_refuse(&c->tree->source, node->at, c->error, status, "%s", what);
}

static void fail_memory(struct compiler *c)
{
    if (!c->status)
        c->status = smol_fail_memory(c->error, "the chat template");
}

static void set_height(struct function *f, int64_t height)
{
    f->height = height;
    f->max_height = height > f->max_height ? height : f->max_height;
}

/* Adds an operation; format/template.h defines `a` and `b`. */
static void emit(struct compiler *c, const struct node *node, enum template_opcode code, unsigned a,
                 uint32_t b)
{
    struct function *f = c->function;
    if (f->dead || c->status)
        return;
    if (!GROW(f->operations, f->n, &f->capacity)) {
        fail_memory(c);
        return;
    }
    unsigned line = smol_template_line(&c->tree->source, node->at);
    struct template_operation op = {(uint8_t)code, (uint8_t)a,
                                    (uint16_t)(line < UINT16_MAX ? line : UINT16_MAX), b};
    f->operations[f->n++] = op;
    set_height(f, f->height + smol_template_growth(&op));
    f->dead = code == OP_JUMP || code == OP_RETURN;
}

/* Emits a jump of any kind. `height` is the stack height at the target, relative to the height
 * after the jump. */
static void emit_jump(struct compiler *c, const struct node *node, enum template_opcode code,
                      unsigned a, struct label *label, int height)
{
    struct function *f = c->function;
    if (f->dead || c->status)
        return;
    uint32_t place = f->n;
    uint32_t b = label->known || label->awaited ? label->place : UINT32_MAX;
    emit(c, node, code, a, b);
    if (label->known)
        return;
    label->place = place;
    label->awaited = true;
    label->height = f->height + height;
}

static void place_label(struct compiler *c, struct label *label)
{
    struct function *f = c->function;
    if (c->status)
        return;
    uint32_t place = label->awaited ? label->place : UINT32_MAX;
    while (place != UINT32_MAX) {
        uint32_t before = f->operations[place].b;
        f->operations[place].b = f->n;
        place = before;
    }
    if (f->dead && label->awaited) {
        f->dead = false;
        set_height(f, label->height);
    }
    label->known = true;
    label->place = f->n;
}

static uint32_t string(struct compiler *c, const char *text, size_t size)
{
    return smol_builder_string(c->builder, text, size);
}

static uint32_t text_of(struct compiler *c, const struct node *node)
{
    return string(c, node->text, node->size);
}

static void emit_string(struct compiler *c, const struct node *node, const char *text, size_t size)
{
    emit(c, node, OP_CONSTANT, 0, string(c, text, size));
}

/* --- variables ---------------------------------------------------------------------------- */

static void emit_slot(struct compiler *c, const struct node *node, enum template_opcode code,
                      const struct symbol *symbol)
{
    emit(c, node, code, c->function->number != symbol->function, symbol->slot);
}

/* Reports why a variable is missing in the scope or in an enclosing one. */
static void fail_scope(struct compiler *c, const struct node *node, const struct scope *scope)
{
    while (scope && !scope->too_many)
        scope = scope->outer;
    if (scope)
        fail(c, node, SMOL_ERROR_UNSUPPORTED, "more variables than 1024 are not supported");
    else
        fail_memory(c);
}

/* Starts a scope: gives its variables their initial values. */
static void enter_scope(struct compiler *c, const struct node *node, struct scope *scope)
{
    if (scope->failed || scope->too_many)
        fail_scope(c, node, scope);
    c->scope = scope;
    for (struct symbol *symbol = scope->symbols; symbol; symbol = symbol->next) {
        if (symbol->start == START_PARAMETER)
            continue;
        if (symbol->start == START_COPY)
            emit_slot(c, node, OP_GET, symbol->copied);
        else
            emit(c, node, symbol->start == START_RESOLVED ? OP_RESOLVE : OP_UNDEFINED, 0,
                 string(c, symbol->name, symbol->size));
        emit_slot(c, node, OP_SET, symbol);
    }
}

static void leave_scope(struct compiler *c, struct scope *scope)
{
    c->scope = scope->outer;
    smol_scope_free(scope);
}

static struct scope inner_scope(struct compiler *c)
{
    return smol_scope(c->scope, c->function->number, &c->function->n_slots);
}

static const struct symbol *symbol_of(struct compiler *c, const struct node *name)
{
    const struct symbol *symbol = smol_scope_find(c->scope, name->text, name->size);
    if (!symbol)
        fail_scope(c, name, c->scope);
    return symbol;
}

static void load(struct compiler *c, const struct node *name)
{
    const struct symbol *symbol = symbol_of(c, name);
    if (symbol)
        emit_slot(c, name, OP_GET, symbol);
}

/* Stores the value on top of the stack in a variable, an attribute of a namespace or a tuple of
 * targets. */
static void store(struct compiler *c, const struct node *target)
{
    if (target->kind == NODE_NAME || target->kind == NODE_MACRO) {
        const struct symbol *symbol = symbol_of(c, target);
        if (symbol)
            emit_slot(c, target, OP_SET, symbol);
    } else if (target->kind == NODE_MEMBER) {
        load(c, target->a);
        emit(c, target, OP_SWAP, 0, 0);
        emit(c, target, OP_STORE, 0, text_of(c, target));
    } else {
        uint32_t n = 0;
        for (const struct node *each = target->list; each; each = each->next)
            n++;
        emit(c, target, OP_UNPACK, 0, n);
        for (const struct node *each = target->list; each; each = each->next)
            store(c, each);
    }
}

/* Declares the names of a target in a scope that starts after the assignment. */
static void declare_target(struct compiler *c, struct scope *scope, const struct node *target)
{
    if (!target)
        return;
    if (target->kind == NODE_NAME && target->size == 4 && memcmp(target->text, "loop", 4) == 0)
        fail(c, target, SMOL_ERROR_DAMAGED,
             "\"loop\" is the loop itself and cannot be assigned to");
    if (target->kind == NODE_NAME)
        smol_scope_declare(scope, target->text, target->size);
    for (const struct node *each = target->list; each; each = each->next)
        declare_target(c, scope, each);
}

/* --- expressions -------------------------------------------------------------------------- */

static uint32_t compile_list(struct compiler *c, const struct node *list)
{
    uint32_t n = 0;
    for (; list; list = list->next, n++)
        compile_expression(c, list);
    return n;
}

/* Compiles the arguments of a call and counts them: *n by position, *n_named by name. */
static void compile_arguments(struct compiler *c, const struct node *node, uint32_t *n,
                              uint32_t *n_named)
{
    *n = compile_list(c, node->list);
    *n_named = 0;
    if (node->kind == NODE_CALL && node->b) { /* one list: those given singly, then the spread */
        emit(c, node, OP_LIST, 0, *n);
        compile_expression(c, node->b);
        emit(c, node, OP_FILTER, 0, FILTER_LIST);
        emit(c, node, OP_BINARY, BINARY_ADD, 0);
    }
    for (const struct node *each = node->named; each; each = each->next, ++*n_named) {
        emit_string(c, each, each->text, each->size);
        compile_expression(c, each->a);
    }
    if (*n > UINT8_MAX || *n_named > UINT8_MAX)
        fail(c, node, SMOL_ERROR_UNSUPPORTED, "more than 255 arguments are not supported");
}

/* Returns whether a node names the body of a call block, the argument of the current macro. */
static bool is_caller(const struct compiler *c, const struct node *node)
{
    return node->kind == NODE_NAME && c->function->number != 0 && node->size == 6 &&
           memcmp(node->text, "caller", 6) == 0;
}

/* Calls the body of a call block: the first of compile_call_body's two values with the second. */
static void compile_call_of_caller(struct compiler *c, const struct node *node)
{
    if (node->list || node->named || node->b)
        fail(c, node, SMOL_ERROR_UNSUPPORTED, "caller with arguments is not supported");
    for (uint64_t i = 0; i < 2; i++) {
        load(c, node->a);
        emit(c, node, OP_CONSTANT, 0, smol_builder_constant(c->builder, CONSTANT_INTEGER, i));
        emit(c, node, OP_ITEM, 0, 0);
    }
    emit(c, node, OP_CALL_LIST, 0, 0);
}

static void compile_call(struct compiler *c, const struct node *node)
{
    uint32_t n, n_named;
    if (node->kind == NODE_CALL && is_caller(c, node->a)) {
        compile_call_of_caller(c, node);
        return;
    }
    compile_expression(c, node->a);
    compile_arguments(c, node, &n, &n_named);
    if (node->kind == NODE_CALL && node->b)
        emit(c, node, OP_CALL_LIST, 0, n_named);
    else if (node->kind == NODE_CALL)
        emit(c, node, OP_CALL, n, n_named);
    else
        emit(c, node, node->kind == NODE_FILTER ? OP_FILTER : OP_TEST, n,
             (uint32_t)node->op | n_named << 16);
}

/* Compiles a chain of comparisons. Each compares two neighbours; every operand is computed once,
 * and the first false comparison ends the chain. */
static void compile_comparison(struct compiler *c, const struct node *node)
{
    struct label no = {0}, done = {0};
    compile_expression(c, node->a);
    for (const struct node *operand = node->list; operand; operand = operand->next) {
        compile_expression(c, operand->a);
        if (operand->next)
            emit(c, operand, OP_TUCK, 0, 0);
        emit(c, operand, OP_COMPARE, (unsigned)operand->op, 0);
        if (operand->next)
            emit_jump(c, operand, OP_AND, 0, &no, 1);
    }
    if (!no.awaited)
        return;
    emit_jump(c, node, OP_JUMP, 0, &done, 0);
    place_label(c, &no);
    emit(c, node, OP_SWAP, 0, 0);
    emit(c, node, OP_POP, 0, 0);
    place_label(c, &done);
}

static void compile_logic(struct compiler *c, const struct node *node)
{
    struct label done = {0};
    compile_expression(c, node->a);
    emit_jump(c, node, node->kind == NODE_AND ? OP_AND : OP_OR, 0, &done, 1);
    compile_expression(c, node->b);
    place_label(c, &done);
}

static void compile_choice(struct compiler *c, const struct node *node)
{
    struct label other = {0}, done = {0};
    compile_expression(c, node->a);
    emit_jump(c, node, OP_JUMP_FALSE, 0, &other, 0);
    compile_expression(c, node->b);
    emit_jump(c, node, OP_JUMP, 0, &done, 0);
    place_label(c, &other);
    if (node->c)
        compile_expression(c, node->c);
    else
        emit(c, node, OP_UNDEFINED, 0, string(c, "", 0));
    place_label(c, &done);
}

static void compile_concat(struct compiler *c, const struct node *node)
{
    uint32_t n = 0;
    for (const struct node *each = node->list; each; each = each->next, n++)
        compile_expression(c, each);
    emit(c, node, OP_CONCAT, 0, n);
}

static void compile_constant(struct compiler *c, const struct node *node)
{
    uint64_t bits = (uint64_t)node->integer;
    enum constant_type type = node->kind == NODE_NONE      ? CONSTANT_NONE
                              : node->kind == NODE_INTEGER ? CONSTANT_INTEGER
                              : node->kind == NODE_REAL    ? CONSTANT_REAL
                              : node->integer              ? CONSTANT_TRUE
                                                           : CONSTANT_FALSE;
    if (type == CONSTANT_REAL)
        memcpy(&bits, &node->real, sizeof bits);
    if (type != CONSTANT_REAL && type != CONSTANT_INTEGER)
        bits = 0;
    emit(c, node, OP_CONSTANT, 0, smol_builder_constant(c->builder, type, bits));
}

static void compile_attribute(struct compiler *c, const struct node *node)
{
    if (node->size >= 2 && memcmp(node->text, "__", 2) == 0)
        fail(c, node, SMOL_ERROR_UNSUPPORTED, "an attribute that starts with __ is not supported");
    compile_expression(c, node->a);
    emit(c, node, OP_ATTRIBUTE, 0, text_of(c, node));
}

/* Compiles operators and subscripts: the operands, then one operation. */
static void compile_operator(struct compiler *c, const struct node *node)
{
    static const enum template_opcode codes[] = {
        [NODE_ITEM] = OP_ITEM,   [NODE_SLICE] = OP_SLICE,   [NODE_NOT] = OP_NOT,
        [NODE_UNARY] = OP_UNARY, [NODE_BINARY] = OP_BINARY, [NODE_TUPLE] = OP_TUPLE,
        [NODE_LIST] = OP_LIST,   [NODE_DICT] = OP_DICT,
    };
    uint32_t n = 0;
    if (node->a)
        compile_expression(c, node->a);
    if (node->b)
        compile_expression(c, node->b);
    n = compile_list(c, node->list);
    if (node->kind == NODE_SLICE)
        n = 0;
    emit(c, node, codes[node->kind], (unsigned)node->op, node->kind == NODE_DICT ? n / 2 : n);
}

static void compile_expression(struct compiler *c, const struct node *node)
{
    switch (node->kind) {
    case NODE_STRING:
        emit_string(c, node, node->text, node->size);
        break;
    case NODE_NAME:
        if (is_caller(c, node))
            fail(c, node, SMOL_ERROR_UNSUPPORTED, "caller that is not called is not supported");
        load(c, node);
        break;
    case NODE_CALL_BODY:
        compile_call_body(c, node);
        break;
    case NODE_ATTRIBUTE:
        compile_attribute(c, node);
        break;
    case NODE_CALL:
    case NODE_FILTER:
    case NODE_TEST:
        compile_call(c, node);
        break;
    case NODE_COMPARE:
        compile_comparison(c, node);
        break;
    case NODE_CONCAT:
        compile_concat(c, node);
        break;
    case NODE_AND:
    case NODE_OR:
        compile_logic(c, node);
        break;
    case NODE_CHOICE:
        compile_choice(c, node);
        break;
    case NODE_BLOCK_TEXT: /* already on the stack */
        break;
    case NODE_NONE:
    case NODE_BOOLEAN:
    case NODE_INTEGER:
    case NODE_REAL:
        compile_constant(c, node);
        break;
    default:
        compile_operator(c, node);
    }
}

/* --- statements --------------------------------------------------------------------------- */

/* Compiles statements in a scope of their own. */
static void compile_scoped(struct compiler *c, const struct node *node, const struct node *body)
{
    struct scope scope = inner_scope(c);
    smol_scope_read(&scope, body);
    enter_scope(c, node, &scope);
    compile_statements(c, body);
    leave_scope(c, &scope);
}

static void compile_if(struct compiler *c, const struct node *node)
{
    struct label other = {0}, done = {0};
    compile_expression(c, node->a);
    emit_jump(c, node, OP_JUMP_FALSE, 0, &other, 0);
    compile_statements(c, node->body);
    if (node->rest)
        emit_jump(c, node, OP_JUMP, 0, &done, 0);
    place_label(c, &other);
    compile_statements(c, node->rest);
    if (node->rest)
        place_label(c, &done);
}

/* Captures the text that a body writes as a value and applies the filters to it. */
static void compile_block_text(struct compiler *c, const struct node *node)
{
    emit(c, node, OP_CAPTURE, 0, 0);
    c->function->captures++;
    struct scope scope = inner_scope(c);
    smol_scope_read(&scope, node->body);
    struct node filters = {.kind = NODE_OUTPUT, .a = node->b};
    smol_scope_read(&scope, &filters);
    enter_scope(c, node, &scope);
    compile_statements(c, node->body);
    emit(c, node, OP_CAPTURED, 0, 0);
    c->function->captures--;
    compile_expression(c, node->b);
    leave_scope(c, &scope);
}

static void compile_set(struct compiler *c, const struct node *node)
{
    if (node->kind == NODE_SET)
        compile_expression(c, node->b);
    else
        compile_block_text(c, node);
    store(c, node->a);
}

static void compile_with(struct compiler *c, const struct node *node)
{
    struct scope scope = inner_scope(c);
    uint32_t n = 0;
    for (const struct node *each = node->list; each; each = each->next, n++)
        compile_expression(c, each->b);
    for (const struct node *each = node->list; each; each = each->next)
        declare_target(c, &scope, each->a);
    c->scope = &scope;
    emit(c, node, OP_TUPLE, 0, n);
    emit(c, node, OP_UNPACK, 0, n);
    for (const struct node *each = node->list; each; each = each->next)
        store(c, each->a);
    smol_scope_read(&scope, node->body);
    enter_scope(c, node, &scope);
    compile_statements(c, node->body);
    leave_scope(c, &scope);
}

static void compile_jump_out(struct compiler *c, const struct node *node)
{
    const struct loop *loop = c->function->loop;
    if (!loop) /* cannot happen: the parser checks that a loop exists */
        return;
    for (unsigned i = c->function->captures; i > loop->captures; i--)
        emit(c, node, OP_CAPTURE_LEAVE, 0, 0);
    emit_jump(c, node, OP_JUMP, 0, node->kind == NODE_BREAK ? loop->end : loop->again, 0);
}

/* --- loops -------------------------------------------------------------------------------- */

static int compare_members(const void *a, const void *b)
{
    const struct node *x = (*(const struct node *const *)a)->a;
    const struct node *y = (*(const struct node *const *)b)->a;
    return compare_texts(x->text, x->size, y->text, y->size);
}

/* Lists the assignments to members of namespaces, which check_condition looks up. */
static void list_members(struct compiler *c, const struct template_tree *tree)
{
    buffer_clear(&c->members);
    for (const struct node *node = tree->last_made; node; node = node->made_before)
        if (node->kind == NODE_MEMBER)
            smol_buffer_add(&c->members, (const char *)&node, sizeof(struct node *));
    if (c->members.failed)
        fail_memory(c);
    else if (c->members.size > 0)
        qsort(c->members.text, c->members.size / sizeof(struct node *), sizeof(struct node *),
              compare_members);
}

/* Returns whether a node is the name of a namespace that the template assigns to. */
static bool is_assigned(const struct node *node, const void *members)
{
    const struct buffer *list = members;
    const struct node member = {.a = (struct node *)node}, *key = &member;
    return node->kind == NODE_NAME && list->size > 0 &&
           bsearch(&key, list->text, list->size / sizeof key, sizeof key, compare_members);
}

/* Rejects conditions that depend on the loop's body. Here the condition is evaluated for all items
 * before the body runs; jinja2 alternates between them, which makes a difference if the body, or a
 * macro that it calls, changes a value that the condition reads. */
static void check_condition(struct compiler *c, const struct node *loop)
{
    bool changes = smol_tree_has(loop->body, NODE_MEMBER, NULL, 0) ||
                   smol_tree_has(loop->body, NODE_CALL, NULL, 0);
    if (changes && smol_tree_any(loop->c, is_assigned, &c->members))
        fail(c, loop->c, SMOL_ERROR_UNSUPPORTED,
             "a loop's condition that reads what its body may change is not supported");
}

/* Filters the loop on the stack: it keeps the items for which the condition is true, then
 * restarts. */
static void compile_condition(struct compiler *c, const struct node *node)
{
    struct label next = {0}, end = {0};
    struct scope scope = inner_scope(c);
    const struct node condition = {.kind = NODE_OUTPUT, .a = node->c};
    declare_target(c, &scope, node->a);
    smol_scope_read(&scope, &condition);
    c->scope = &scope;
    place_label(c, &next);
    emit_jump(c, node, OP_NEXT, 0, &end, -1);
    store(c, node->a);
    enter_scope(c, node, &scope);
    compile_expression(c, node->c);
    emit(c, node, OP_KEEP, 0, 0);
    emit_jump(c, node, OP_JUMP, 0, &next, 0);
    place_label(c, &end);
    emit(c, node, OP_REWIND, 0, 0);
    leave_scope(c, &scope);
}

/* Sets a hidden boolean variable that the template's source does not name. */
static void emit_flag(struct compiler *c, const struct node *node, const struct symbol *flag,
                      bool value)
{
    enum constant_type type = value ? CONSTANT_TRUE : CONSTANT_FALSE;
    emit(c, node, OP_CONSTANT, 0, smol_builder_constant(c->builder, type, 0));
    emit_slot(c, node, OP_SET, flag);
}

/* Compiles the body, which sets `flag`, unless NULL, to true at the end of each iteration. */
static void compile_loop_body(struct compiler *c, const struct node *node,
                              const struct symbol *flag, struct label *end)
{
    struct label again = {0};
    struct loop loop = {&again, end, c->function->captures, c->function->loop};
    struct scope scope = inner_scope(c);
    declare_target(c, &scope, node->a);
    bool named = smol_tree_has(node->body, NODE_NAME, "loop", 4);
    struct symbol *self = named ? smol_scope_declare(&scope, "loop", 4) : NULL;
    smol_scope_read(&scope, node->body);
    c->scope = &scope;
    if (self) {
        emit(c, node, OP_DUP, 0, 0);
        emit_slot(c, node, OP_SET, self);
    }
    c->function->loop = &loop;
    place_label(c, &again);
    emit_jump(c, node, OP_NEXT, 0, end, -1);
    store(c, node->a);
    enter_scope(c, node, &scope);
    compile_statements(c, node->body);
    if (flag)
        emit_flag(c, node, flag, true);
    emit_jump(c, node, OP_JUMP, 0, &again, 0);
    c->function->loop = loop.around;
    leave_scope(c, &scope);
}

/* Compiles `else`. As in jinja2, if the body contains break or continue, `else` runs when no
 * iteration was completed. */
static void compile_else(struct compiler *c, const struct node *node, const struct symbol *flag)
{
    struct label done = {0}, next = {0};
    emit_jump(c, node, OP_LOOP_END, 0, flag ? &next : &done, 0);
    place_label(c, &next);
    if (flag) {
        emit_slot(c, node, OP_GET, flag);
        emit(c, node, OP_NOT, 0, 0);
        emit_jump(c, node, OP_JUMP_FALSE, 0, &done, 0);
    }
    if (node->rest)
        compile_scoped(c, node, node->rest);
    place_label(c, &done);
}

static void compile_for(struct compiler *c, const struct node *node)
{
    struct label end = {0};
    bool cut = node->rest && (smol_tree_has(node->body, NODE_BREAK, NULL, 0) ||
                              smol_tree_has(node->body, NODE_CONTINUE, NULL, 0));
    const struct symbol flag = {.slot = c->function->n_slots, .function = c->function->number};
    c->function->n_slots += cut;
    if (cut)
        emit_flag(c, node, &flag, false);
    compile_expression(c, node->b);
    emit(c, node, OP_LOOP, 0, 0);
    if (node->c) {
        check_condition(c, node);
        compile_condition(c, node);
    }
    compile_loop_body(c, node, cut ? &flag : NULL, &end);
    place_label(c, &end);
    compile_else(c, node, cut ? &flag : NULL);
}

/* --- functions ---------------------------------------------------------------------------- */

/* Adds the function to c->finished, which takes ownership of its operations. Returns its number in
 * the blob, unless it is the template itself. */
static uint32_t finish_function(struct compiler *c, struct function *f, const struct node *at,
                                struct template_function entry)
{
    emit(c, at, OP_RETURN, 0, 0);
    entry.n_operations = f->n;
    entry.n_slots = f->n_slots;
    entry.max_stack = (uint32_t)f->max_height;
    const struct finished finished = {entry, f->operations};
    if (!c->finished.failed)
        smol_buffer_add(&c->finished, (const char *)&finished, sizeof finished);
    if (c->finished.failed) {
        free(f->operations);
        fail_memory(c);
    }
    return (uint32_t)(c->finished.size / sizeof finished);
}

/* Assigns the default value to an argument that the caller omitted. */
static void compile_default(struct compiler *c, const struct node *parameter, unsigned index)
{
    struct label given = {0};
    emit_jump(c, parameter, OP_GIVEN, index, &given, 0);
    if (parameter->a)
        compile_expression(c, parameter->a);
    else
        emit(c, parameter, OP_UNDEFINED, 0, text_of(c, parameter));
    store(c, parameter);
    place_label(c, &given);
}

/* Adds the names of a function's parameters, the first symbols of its scope, as consecutive
 * constants. */
static void name_parameters(struct compiler *c, const struct scope *scope,
                            struct template_function *entry)
{
    const struct symbol *symbol = scope->symbols;
    for (uint32_t i = 0; i < entry->n_parameters && symbol; i++, symbol = symbol->next) {
        const struct template_constant name = {CONSTANT_STRING, (uint32_t)symbol->size,
                                               c->builder->text.size};
        smol_buffer_add(&c->builder->text, symbol->name, symbol->size);
        if (i == 0)
            entry->parameters = (uint32_t)(c->builder->constants.size / sizeof name);
        smol_buffer_add(&c->builder->constants, (const char *)&name, sizeof name);
    }
}

static void check_names(struct compiler *c, const struct node *node)
{
    static const char *const names[] = {"varargs", "kwargs"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (smol_tree_has(node->body, NODE_NAME, names[i], strlen(names[i])))
            fail(c, node, SMOL_ERROR_UNSUPPORTED,
                 "a macro that reads varargs or kwargs is not supported");
}

static void compile_macro_body(struct compiler *c, const struct node *node, struct scope *scope,
                               struct template_function *entry)
{
    for (const struct node *each = node->list; each; each = each->next, ++entry->n_parameters)
        smol_scope_declare(scope, each->text, each->size);
    if (entry->n_parameters > UINT8_MAX || entry->n_parameters != c->function->n_slots)
        fail(c, node, SMOL_ERROR_UNSUPPORTED,
             "more than 255 arguments, or two of one name, are not supported");
    name_parameters(c, scope, entry);
    for (const struct node *each = node->list; each; each = each->next) {
        const struct node value = {.kind = NODE_OUTPUT, .a = each->a};
        smol_scope_read(scope, &value);
    }
    smol_scope_read(scope, node->body);
    enter_scope(c, node, scope);
    unsigned index = 0;
    for (const struct node *each = node->list; each; each = each->next)
        compile_default(c, each, index++);
    compile_statements(c, node->body);
}

static void compile_macro(struct compiler *c, const struct node *node)
{
    struct function *outer = c->function, function = {.number = c->n_functions++};
    if (outer->number != 0)
        fail(c, node, SMOL_ERROR_UNSUPPORTED, "a macro within a macro is not supported");
    check_names(c, node);
    if (c->status)
        return;
    c->function = &function;
    struct scope scope = inner_scope(c);
    struct template_function entry = {.name = text_of(c, node)};
    compile_macro_body(c, node, &scope, &entry);
    uint32_t number = finish_function(c, &function, node, entry);
    leave_scope(c, &scope);
    c->function = outer;
    emit(c, node, OP_FUNCTION, 0, number);
    store(c, node);
}

/* Declares the name as a parameter in a call block's scope if it is a variable of the macro around
 * the block. */
static bool declare_captured(const struct node *node, const void *what)
{
    struct scope *const *scope = what;
    if (node->kind != NODE_NAME)
        return false;
    const struct symbol *symbol = smol_scope_find((*scope)->outer, node->text, node->size);
    if (symbol && symbol->function != 0)
        smol_scope_declare(*scope, node->text, node->size);
    return false;
}

/* Compiles the body of a call block: the value is a tuple of a function and the list of its
 * arguments, the variables of the macro around it that it names. The template's own variables are
 * visible everywhere. Nothing changes them before the block ends. */
static void compile_call_body(struct compiler *c, const struct node *node)
{
    struct function *outer = c->function, function = {.number = c->n_functions++};
    check_names(c, node);
    c->function = &function;
    struct scope scope = inner_scope(c), *captured = &scope;
    smol_tree_any(node->body, declare_captured, &captured);
    struct template_function entry = {.name = string(c, "caller", 6),
                                      .n_parameters = function.n_slots};
    name_parameters(c, &scope, &entry);
    smol_scope_read(&scope, node->body);
    enter_scope(c, node, &scope);
    compile_statements(c, node->body);
    uint32_t number = finish_function(c, &function, node, entry);
    c->function = outer;
    c->scope = scope.outer;
    emit(c, node, OP_FUNCTION, 0, number);
    const struct symbol *symbol = scope.symbols;
    for (uint32_t i = 0; i < entry.n_parameters && symbol; i++, symbol = symbol->next)
        load(c, &(struct node){.text = symbol->name, .size = symbol->size, .at = node->at});
    emit(c, node, OP_LIST, 0, entry.n_parameters);
    emit(c, node, OP_TUPLE, 0, 2);
    leave_scope(c, &scope);
}

static void compile_statement(struct compiler *c, const struct node *node)
{
    switch (node->kind) {
    case NODE_DATA:
        emit(c, node, OP_TEXT, 0, text_of(c, node));
        break;
    case NODE_IF:
        compile_if(c, node);
        break;
    case NODE_FOR:
        compile_for(c, node);
        break;
    case NODE_SET:
    case NODE_SET_BLOCK:
        compile_set(c, node);
        break;
    case NODE_MACRO:
        compile_macro(c, node);
        break;
    case NODE_FILTER_BLOCK:
        compile_block_text(c, node);
        emit(c, node, OP_PRINT, 0, 0);
        break;
    case NODE_WITH:
        compile_with(c, node);
        break;
    case NODE_GENERATION:
        compile_scoped(c, node, node->body);
        break;
    case NODE_BREAK:
    case NODE_CONTINUE:
        compile_jump_out(c, node);
        break;
    default: /* NODE_OUTPUT */
        compile_expression(c, node->a);
        emit(c, node, OP_PRINT, 0, 0);
    }
}

static void compile_statements(struct compiler *c, const struct node *nodes)
{
    for (; nodes && !c->status; nodes = nodes->next)
        compile_statement(c, nodes);
}

/* --- whole template ----------------------------------------------------------------------- */

/* Writes the functions in order of their numbers. The template itself is number 0 but was finished
 * last. */
static void write_functions(struct compiler *c)
{
    size_t n = c->finished.size / sizeof(struct finished);
    uint32_t start = 0;
    for (size_t i = 0; i < n; i++) {
        struct finished finished;
        size_t from = i == 0 ? n - 1 : i - 1;
        memcpy(&finished, c->finished.text + from * sizeof finished, sizeof finished);
        finished.function.start = start;
        start += finished.function.n_operations;
        smol_buffer_add(&c->builder->functions, (const char *)&finished.function,
                        sizeof finished.function);
        smol_buffer_add(&c->builder->operations, (const char *)finished.operations,
                        finished.function.n_operations * sizeof *finished.operations);
    }
}

static void free_functions(struct compiler *c)
{
    for (size_t i = 0; i < c->finished.size / sizeof(struct finished); i++) {
        struct finished finished;
        memcpy(&finished, c->finished.text + i * sizeof finished, sizeof finished);
        free(finished.operations);
    }
    free(c->finished.text);
    free(c->members.text);
}

static const struct node nothing = {.kind = NODE_DATA, .text = ""};

/* Compiles the statements of a whole template. After an error, c->tree is the template that
 * failed. */
static void compile_tree(struct compiler *c, const struct template_tree *tree)
{
    if (c->status)
        return;
    struct scope scope = smol_scope(NULL, 0, &c->function->n_slots);
    c->tree = tree;
    list_members(c, tree);
    smol_scope_read(&scope, tree->body);
    enter_scope(c, &nothing, &scope);
    compile_statements(c, tree->body);
    leave_scope(c, &scope);
}

/* Compiles two templates, each with its own variables: `tools` runs if the variable tools is not
 * None (it may be an empty list), otherwise `plain` runs. */
static void compile_both(struct compiler *c, const struct template_tree *plain,
                         const struct template_tree *tools)
{
    struct label given = {0}, done = {0};
    c->tree = plain;
    emit(c, &nothing, OP_RESOLVE, 0, string(c, "tools", strlen("tools")));
    emit(c, &nothing, OP_TEST, 0, TEST_NONE);
    emit_jump(c, &nothing, OP_JUMP_FALSE, 0, &given, 0);
    compile_tree(c, plain);
    emit_jump(c, &nothing, OP_JUMP, 0, &done, 0);
    place_label(c, &given);
    compile_tree(c, tools);
    place_label(c, &done);
}

/* Prefixes the error message with the name of one of two templates. */
static void name_template(const char *name, smol_error *error)
{
    const smol_error said = *error;
    if (said.status != SMOL_ERROR_MEMORY)
        smol_fail(error, said.status, "%.64s, %s", name, said.message);
}

/* Compiles one or two trees into the builder. Errors: see smol_template_parse. */
static smol_status compile_trees(const struct template_input *input,
                                 const struct template_tree *plain,
                                 const struct template_tree *tools, uint32_t name,
                                 struct template_builder *builder, smol_error *error)
{
    struct function function = {0};
    struct compiler c = {
        .tree = plain, .builder = builder, .function = &function, .n_functions = 1, .error = error};
    if (input->tools.text)
        compile_both(&c, plain, tools);
    else
        compile_tree(&c, plain);
    finish_function(&c, &function, &nothing, (struct template_function){.name = name});
    if (!c.status)
        write_functions(&c);
    else if (input->tools.text)
        name_template(c.tree == tools ? input->tools.name : input->plain.name, error);
    free_functions(&c);
    return c.status;
}

/* Parses a template. `named`: the input has two templates, so errors name this one. */
static smol_status parse(const struct template_text *text, bool named, struct template_tree *tree,
                         smol_error *error)
{
    smol_status status = smol_template_parse(text->text, text->size, tree, error);
    if (status && named)
        name_template(text->name, error);
    return status;
}

static smol_status parse_and_compile(const struct template_input *input, uint32_t name,
                                     struct template_builder *builder, smol_error *error)
{
    struct template_tree plain, tools = {0};
    bool both = input->tools.text != NULL;
    smol_status status = parse(&input->plain, both, &plain, error);
    if (!status && both)
        status = parse(&input->tools, both, &tools, error);
    if (!status)
        status = compile_trees(input, &plain, &tools, name, builder, error);
    smol_template_tree_free(&tools);
    smol_template_tree_free(&plain);
    return status;
}

/* Makes a section with code, or without code if `reason` is not NULL. */
static smol_status make_section(const struct template_input *input, const char *reason,
                                struct template_section *section, smol_error *error)
{
    struct template_builder builder = {.tool_style =
                                           reason ? TOOLS_NONE : smol_tool_style_find(input)};
    uint32_t name = smol_builder_string(&builder, input->name, strlen(input->name));
    uint32_t why = reason ? smol_builder_string(&builder, reason, strlen(reason)) : NO_CONSTANT;
    for (size_t i = 0; i < input->n_tokens && !reason; i++) {
        const struct template_token *token = &input->tokens[i];
        const struct template_variable variable = {
            smol_builder_string(&builder, token->name, strlen(token->name)),
            smol_builder_string(&builder, token->text, strlen(token->text))};
        smol_buffer_add(&builder.variables, (const char *)&variable, sizeof variable);
    }
    smol_status status = reason ? SMOL_OK : parse_and_compile(input, name, &builder, error);
    if (!status)
        status = smol_builder_finish(&builder, name, why, input->plain.size + input->tools.size,
                                     section, error);
    smol_builder_free(&builder);
    return status;
}

/* Rejects a section that the reader would refuse because it is too large or too deep. */
static smol_status check_section(struct template_section *section, smol_error *error)
{
    struct template_code code;
    smol_status status = smol_template_open(section->data, section->size, &code, error);
    if (!status)
        return SMOL_OK;
    free(section->data);
    *section = (struct template_section){0};
    return status == SMOL_ERROR_MEMORY ? status
                                       : smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                                                   "line 1, column 1: a template this large is not "
                                                   "supported");
}

smol_status smol_template_without_code(const struct template_input *input, const smol_error *said,
                                       struct template_section *section, const char **reason,
                                       smol_error *error)
{
    char why[SMOL_ERROR_MESSAGE_SIZE];
    memcpy(why, said->message, sizeof why);
    why[smol_utf8_well_formed((const uint8_t *)why, strlen(why))] =
        '\0'; /* drops a partial character */
    smol_status status = make_section(input, why, section, error);
    if (status)
        return status;
    /* the reason is the last text of the section */
    char *terminated = realloc(section->data, section->size + 1);
    if (!terminated) {
        free(section->data);
        *section = (struct template_section){0};
        return smol_fail_memory(error, "the chat template");
    }
    section->data = (uint8_t *)terminated;
    terminated[section->size] = '\0';
    *reason = terminated + section->size - strlen(why);
    return SMOL_OK;
}

smol_status smol_template_compile(const struct template_input *input,
                                  struct template_section *section, const char **reason,
                                  smol_error *error)
{
    *section = (struct template_section){0};
    *reason = NULL;
    smol_status status = make_section(input, NULL, section, error);
    if (!status)
        status = check_section(section, error);
    if (!status || status == SMOL_ERROR_MEMORY)
        return status;
    return smol_template_without_code(input, error, section, reason, error);
}
