/* Values of chat templates. See template_value.h. */
#include "runtime/template/template_value.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/checked.h"
#include "common/memory.h"
#include "common/utf8.h"

/* --- failures ----------------------------------------------------------------------------- */

bool smol_template_fail(struct machine *machine, smol_status status, const char *format, ...)
{
    char text[SMOL_ERROR_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    machine->status = status;
    if (machine->line)
        smol_fail(machine->error, status, "chat template: line %u: %s", machine->line, text);
    else
        smol_fail(machine->error, status, "%s", text);
    return false;
}

bool smol_template_fail_type(struct machine *machine, const char *what, const struct value *value)
{
    if (is_undefined(value) && value->n > 0)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "%s '%.*s', which is undefined", what,
                                  (int)(value->n < 64 ? value->n : 64), (const char *)value->bytes);
    return smol_template_fail(machine, SMOL_ERROR_USAGE, "%s a value of type %s", what,
                              smol_value_type_name(value));
}

bool smol_template_fail_unsupported(struct machine *machine, const char *what)
{
    return smol_template_fail(machine, SMOL_ERROR_UNSUPPORTED, "%.80s is not supported", what);
}

bool smol_template_step(struct machine *machine, uint64_t bytes)
{
    uint64_t steps = 1 + bytes / 16;
    if (steps <= machine->steps) {
        machine->steps -= steps;
        return true;
    }
    machine->exhausted = true;
    return smol_template_fail(machine, SMOL_ERROR_UNSUPPORTED, "takes more than %d steps",
                              TEMPLATE_STEPS);
}

/* --- memory ------------------------------------------------------------------------------- */

static void *add_block(struct machine *machine, size_t size)
{
    struct template_block *block = smol_malloc(sizeof *block + size);
    if (!block) {
        machine->status = smol_fail_memory(machine->error, "a conversation");
        return NULL;
    }
    block->next = machine->blocks;
    machine->blocks = block;
    return block->values;
}

/* Allocates a large size as a block of its own, so that at most a quarter of any other block is
 * unused. */
void *smol_template_alloc(struct machine *machine, uint64_t n, size_t each)
{
    uint64_t size;
    if (!checked_mul(n, each, &size) || size > TEMPLATE_MEMORY - machine->used) {
        machine->exhausted = true;
        smol_template_fail(machine, SMOL_ERROR_UNSUPPORTED, "takes more than %d MiB of memory",
                           TEMPLATE_MEMORY >> 20);
        return NULL;
    }
    size = round_up(size, 8); /* TEMPLATE_MEMORY is a multiple of 8 */
    machine->used += (size_t)size;
    if (size > TEMPLATE_BLOCK / 4)
        return add_block(machine, (size_t)size);
    if (!machine->rest || size > machine->n_rest) {
        machine->rest = add_block(machine, TEMPLATE_BLOCK);
        machine->n_rest = machine->rest ? TEMPLATE_BLOCK : 0;
    }
    if (!machine->rest)
        return NULL;
    void *memory = machine->rest;
    machine->rest += size;
    machine->n_rest -= (size_t)size;
    return memory;
}

void smol_template_free(struct machine *machine)
{
    while (machine->blocks) {
        struct template_block *block = machine->blocks;
        machine->blocks = block->next;
        smol_free(block);
    }
}

bool smol_value_list_add(struct machine *machine, struct value_list *list,
                         const struct value *values, uint32_t n)
{
    if (list->capacity - list->n < n) {
        uint32_t capacity = list->capacity ? list->capacity * 2 : 8;
        struct value *items = smol_template_alloc(machine, capacity, sizeof *items);
        if (!items)
            return false;
        if (list->n > 0)
            memcpy(items, list->items, list->n * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    memcpy(list->items + list->n, values, n * sizeof *values);
    list->n += n;
    return true;
}

static bool builder_reserve(struct machine *machine, struct text_builder *builder, size_t n)
{
    if (n <= builder->capacity - builder->n)
        return true;
    size_t capacity = builder->capacity ? builder->capacity * 2 : 64;
    while (capacity - builder->n < n) /* n is at most TEMPLATE_MEMORY */
        capacity *= 2;
    uint8_t *bytes = smol_template_alloc(machine, 2, capacity);
    if (!bytes)
        return false;
    if (builder->n > 0) {
        memcpy(bytes, builder->bytes, builder->n);
        memcpy(bytes + capacity, builder->bytes + builder->capacity, builder->n);
    }
    builder->bytes = bytes;
    builder->capacity = capacity;
    return true;
}

bool smol_builder_add(struct machine *machine, struct text_builder *builder, const uint8_t *bytes,
                      size_t n, bool argument)
{
    if (n == 0)
        return true;
    if (!smol_template_step(machine, n) || !builder_reserve(machine, builder, n))
        return false;
    memcpy(builder->bytes + builder->n, bytes, n);
    memset(builder->bytes + builder->capacity + builder->n, argument, n);
    builder->n += n;
    return true;
}

bool smol_builder_add_literal(struct machine *machine, struct text_builder *builder,
                              const char *text, bool argument)
{
    return smol_builder_add(machine, builder, (const uint8_t *)text, strlen(text), argument);
}

bool smol_builder_add_part(struct machine *machine, struct text_builder *builder,
                           const struct value *text, size_t start, size_t end)
{
    size_t at = builder->n;
    if (!smol_builder_add(machine, builder, text->bytes + start, end - start, text->argument))
        return false;
    if (text->marks && end > start)
        memcpy(builder->bytes + builder->capacity + at, text->marks + start, end - start);
    return true;
}

bool smol_builder_add_code_point(struct machine *machine, struct text_builder *builder,
                                 uint32_t code_point, bool argument)
{
    uint8_t bytes[UTF8_MAX];
    return smol_builder_add(machine, builder, bytes, smol_utf8_encode(code_point, bytes), argument);
}

struct value smol_builder_text(const struct text_builder *builder)
{
    if (builder->n == 0)
        return value_text("", 0);
    return (struct value){.type = VALUE_TEXT,
                          .n = (uint32_t)builder->n,
                          .bytes = builder->bytes,
                          .marks = builder->bytes + builder->capacity};
}

bool smol_value_iterator(struct machine *machine, struct value list, struct value *out)
{
    struct value_iterator *iterator = smol_template_alloc(machine, 1, sizeof *iterator);
    if (!iterator)
        return false;
    *iterator = (struct value_iterator){.list = list};
    *out = (struct value){.type = VALUE_ITERATOR, .iterator = iterator};
    return true;
}

/* --- looking at values -------------------------------------------------------------------- */

const char *smol_value_type_name(const struct value *value)
{
    static const char names[][10] = {
        [VALUE_MISSING] = "undefined", [VALUE_UNDEFINED] = "undefined",
        [VALUE_NONE] = "None",         [VALUE_BOOLEAN] = "bool",
        [VALUE_INTEGER] = "int",       [VALUE_REAL] = "float",
        [VALUE_TEXT] = "str",          [VALUE_LIST] = "list",
        [VALUE_TUPLE] = "tuple",       [VALUE_RANGE] = "range",
        [VALUE_VIEW] = "dict view",    [VALUE_ITERATOR] = "generator",
        [VALUE_DICT] = "dict",         [VALUE_NAMESPACE] = "namespace",
        [VALUE_LOOP] = "loop",         [VALUE_MACRO] = "macro",
        [VALUE_METHOD] = "method",     [VALUE_BUILTIN] = "function",
    };
    return names[value->type];
}

bool smol_value_truth(const struct value *value)
{
    switch (value->type) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
    case VALUE_NONE:
        return false;
    case VALUE_BOOLEAN:
        return value->boolean;
    case VALUE_INTEGER:
        return value->integer != 0;
    case VALUE_REAL:
        return value->real != 0;
    case VALUE_TEXT:
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_RANGE:
    case VALUE_VIEW:
    case VALUE_DICT:
        return value->n > 0;
    case VALUE_LOOP:
        return value->loop->n > 0;
    default:
        return true;
    }
}

bool smol_value_enter(struct machine *machine)
{
    if (!smol_template_step(machine, 0))
        return false;
    if (++machine->depth <= TEMPLATE_MAX_DEPTH)
        return true;
    return smol_template_fail(machine, SMOL_ERROR_UNSUPPORTED, "more than %d nested lists",
                              TEMPLATE_MAX_DEPTH);
}

bool smol_value_leave(struct machine *machine)
{
    machine->depth--;
    return true;
}

/* Compares an integer with a real exactly, as Python does. Returns a number below, equal to or
 * above 0, or 2 for NaN. */
static int order_mixed(int64_t integer, double real)
{
    if (real != real)
        return 2;
    if (real >= 0x1p63)
        return -1;
    if (real < -0x1p63)
        return 1;
    int64_t whole = (int64_t)real;
    if (integer != whole)
        return integer < whole ? -1 : 1;
    double fraction = real - (double)whole;
    return fraction > 0 ? -1 : fraction < 0;
}

static int order_numbers(const struct value *a, const struct value *b)
{
    if (a->type != VALUE_REAL && b->type != VALUE_REAL) {
        int64_t x = integral(a), y = integral(b);
        return x < y ? -1 : x > y;
    }
    if (a->type != VALUE_REAL)
        return order_mixed(integral(a), b->real);
    if (b->type != VALUE_REAL) {
        int order = order_mixed(integral(b), a->real);
        return order == 2 ? 2 : -order;
    }
    return a->real < b->real ? -1 : a->real > b->real ? 1 : a->real == b->real ? 0 : 2;
}

static bool equal_items(struct machine *machine, const struct value *a, const struct value *b,
                        bool *equal)
{
    *equal = a->n == b->n;
    for (uint32_t i = 0; i < a->n && *equal; i++)
        if (!smol_value_equal(machine, &a->items[i], &b->items[i], equal))
            return false;
    return true;
}

static bool equal_dicts(struct machine *machine, const struct value *a, const struct value *b,
                        bool *equal)
{
    *equal = a->n == b->n;
    for (uint32_t i = 0; i < a->n && *equal; i++) {
        const struct value *found;
        if (!smol_dict_find(machine, b, &a->items[2 * i], &found))
            return false;
        *equal = found != NULL;
        if (found && !smol_value_equal(machine, &a->items[2 * i + 1], found, equal))
            return false;
    }
    return true;
}

static bool equal_texts(struct machine *machine, const struct value *a, const struct value *b,
                        bool *equal)
{
    *equal = a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
    return smol_template_step(machine, a->n == b->n ? a->n : 0);
}

bool smol_value_equal(struct machine *machine, const struct value *a, const struct value *b,
                      bool *equal)
{
    if (!smol_value_enter(machine))
        return false;
    *equal = false;
    if (is_undefined(a) || is_undefined(b)) {
        *equal = is_undefined(a) && is_undefined(b);
    } else if (is_number(a) && is_number(b)) {
        *equal = order_numbers(a, b) == 0;
    } else if (a->type == b->type) {
        switch (a->type) {
        case VALUE_NONE:
            *equal = true;
            break;
        case VALUE_TEXT:
            if (!equal_texts(machine, a, b, equal))
                return false;
            break;
        case VALUE_LIST:
        case VALUE_TUPLE:
        case VALUE_RANGE:
            if (!equal_items(machine, a, b, equal))
                return false;
            break;
        case VALUE_DICT:
            if (!equal_dicts(machine, a, b, equal))
                return false;
            break;
        case VALUE_MACRO:
        case VALUE_BUILTIN:
            *equal = a->number == b->number;
            break;
        case VALUE_VIEW:
        case VALUE_METHOD:
            return smol_template_fail_unsupported(machine, "comparing dict views or methods");
        default: /* by identity */
            *equal = a->names == b->names;
        }
    }
    return smol_value_leave(machine);
}

static bool order_texts(struct machine *machine, const struct value *a, const struct value *b,
                        int *order)
{
    uint32_t common = a->n < b->n ? a->n : b->n;
    *order = memcmp(a->bytes, b->bytes, common); /* UTF-8 sorts like code points */
    if (*order == 0)
        *order = a->n < b->n ? -1 : a->n > b->n;
    else
        *order = *order < 0 ? -1 : 1;
    return smol_template_step(machine, common);
}

static bool order_items(struct machine *machine, const struct value *a, const struct value *b,
                        int *order)
{
    uint32_t common = a->n < b->n ? a->n : b->n;
    for (uint32_t i = 0; i < common; i++) {
        bool equal;
        if (!smol_value_equal(machine, &a->items[i], &b->items[i], &equal))
            return false;
        if (!equal)
            return smol_value_order(machine, &a->items[i], &b->items[i], order);
    }
    *order = a->n < b->n ? -1 : a->n > b->n;
    return true;
}

bool smol_value_order(struct machine *machine, const struct value *a, const struct value *b,
                      int *order)
{
    if (!smol_value_enter(machine))
        return false;
    if (is_number(a) && is_number(b)) {
        *order = order_numbers(a, b);
    } else if (is_text(a) && is_text(b)) {
        if (!order_texts(machine, a, b, order))
            return false;
    } else if (a->type == b->type && (a->type == VALUE_LIST || a->type == VALUE_TUPLE)) {
        if (!order_items(machine, a, b, order))
            return false;
    } else {
        return smol_template_fail_type(machine, "no order between values of two types, one of them",
                                       is_undefined(b) ? b : a);
    }
    return smol_value_leave(machine);
}

/* Fails, as Python does, if a value cannot be the key of a dict. */
static bool check_hashable(struct machine *machine, const struct value *key)
{
    switch (key->type) {
    case VALUE_LIST:
    case VALUE_DICT:
    case VALUE_VIEW:
        return smol_template_fail_type(machine, "not a key of a dict:", key);
    case VALUE_TUPLE:
        if (!smol_value_enter(machine))
            return false;
        for (uint32_t i = 0; i < key->n; i++)
            if (!check_hashable(machine, &key->items[i]))
                return false;
        return smol_value_leave(machine);
    default:
        return true;
    }
}

bool smol_dict_find(struct machine *machine, const struct value *dict, const struct value *key,
                    const struct value **found)
{
    *found = NULL;
    if (!smol_template_step(machine, (uint64_t)dict->n * 4) || !check_hashable(machine, key))
        return false;
    for (uint32_t i = 0; i < dict->n && !*found; i++) {
        const struct value *have = &dict->items[2 * i];
        bool equal = false;
        bool text = is_text(key);
        if (text == is_text(have) && !(text ? equal_texts(machine, key, have, &equal)
                                            : smol_value_equal(machine, key, have, &equal)))
            return false;
        if (equal)
            *found = have + 1;
    }
    return true;
}

bool smol_dict_put(struct machine *machine, struct value *pairs, uint32_t *n,
                   const struct value *key, const struct value *value)
{
    const struct value so_far = value_items(VALUE_DICT, pairs, *n);
    const struct value *found;
    if (!smol_dict_find(machine, &so_far, key, &found))
        return false;
    if (found) {
        pairs[found - pairs] = *value;
        return true;
    }
    pairs[2 * *n] = *key;
    pairs[2 * *n + 1] = *value;
    ++*n;
    return true;
}

static bool contains_item(struct machine *machine, const struct value *list,
                          const struct value *item, bool *contains)
{
    *contains = false;
    for (uint32_t i = 0; i < list->n && !*contains; i++)
        if (!smol_value_equal(machine, &list->items[i], item, contains))
            return false;
    return true;
}

bool smol_value_contains(struct machine *machine, const struct value *container,
                         const struct value *item, bool *contains)
{
    const struct value *found;
    struct value list = {0};
    switch (container->type) {
    case VALUE_TEXT:
        if (!is_text(item))
            return smol_template_fail_type(machine, "a text cannot contain", item);
        *contains = smol_text_find(container, item, 0) != SIZE_MAX;
        return smol_template_step(machine, container->n);
    case VALUE_DICT:
        if (!smol_dict_find(machine, container, item, &found))
            return false;
        *contains = found != NULL;
        return true;
    default:
        return smol_value_iterate(machine, container, &list) &&
               contains_item(machine, &list, item, contains);
    }
}

/* --- iterating ---------------------------------------------------------------------------- */

static bool list_characters(struct machine *machine, const struct value *text, struct value *list)
{
    size_t n = smol_text_length(text), at = 0;
    struct value *items = smol_template_alloc(machine, n, sizeof *items);
    if (!items || !smol_template_step(machine, n * 16))
        return false;
    for (size_t i = 0; i < n; i++) {
        uint32_t code_point;
        size_t length = smol_utf8_decode(text->bytes + at, text->n - at, &code_point);
        items[i] = value_part(text, at, at + length);
        items[i].safe = 0;
        at += length;
    }
    *list = value_items(VALUE_LIST, items, (uint32_t)n);
    return true;
}

static bool list_keys(struct machine *machine, const struct value *dict, struct value *list)
{
    struct value *items = smol_template_alloc(machine, dict->n, sizeof *items);
    if (!items || !smol_template_step(machine, (uint64_t)dict->n * 16))
        return false;
    for (uint32_t i = 0; i < dict->n; i++)
        items[i] = dict->items[2 * i];
    *list = value_items(VALUE_LIST, items, dict->n);
    return true;
}

bool smol_value_iterate(struct machine *machine, const struct value *value, struct value *list)
{
    switch (value->type) {
    case VALUE_MISSING:
    case VALUE_UNDEFINED:
        *list = value_items(VALUE_LIST, NULL, 0);
        return true;
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_RANGE:
    case VALUE_VIEW:
        *list = value_items(VALUE_LIST, value->items, value->n);
        return true;
    case VALUE_ITERATOR:
        *list = value->iterator->used ? value_items(VALUE_LIST, NULL, 0) : value->iterator->list;
        value->iterator->used = true;
        return true;
    case VALUE_TEXT:
        return list_characters(machine, value, list);
    case VALUE_DICT:
        return list_keys(machine, value, list);
    case VALUE_LOOP:
        return smol_template_fail_unsupported(machine, "a loop over `loop`");
    default:
        return smol_template_fail_type(machine, "cannot iterate over", value);
    }
}

/* --- characters --------------------------------------------------------------------------- */

size_t smol_text_length(const struct value *text)
{
    return utf8_count(text->bytes, text->n);
}

size_t smol_text_offset(const struct value *text, size_t k)
{
    size_t i = 0;
    for (; i < text->n; i++)
        if (!utf8_continues(text->bytes[i]) && k-- == 0)
            break;
    return i;
}

size_t smol_text_find(const struct value *text, const struct value *needle, size_t start)
{
    if (needle->n > text->n || start > text->n - needle->n)
        return SIZE_MAX;
    if (needle->n == 0)
        return start;
    const uint8_t *found = memmem(text->bytes + start, text->n - start, needle->bytes, needle->n);
    return found ? (size_t)(found - text->bytes) : SIZE_MAX;
}
