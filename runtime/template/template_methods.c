/* Attributes and items of values, and the methods of Python's types. See template_call.h. */
#include <string.h>

#include "common/utf8.h"
#include "runtime/template/template_call.h"
#include "runtime/template/template_text.h"

/* --- table of methods ------------------------------------------------------------------------ */

/* Includes methods that the reference supports and this machine does not, so that they fail as not
 * supported instead of being undefined. Excludes methods that modify their receiver, which are
 * undefined in the reference's sandbox. */
static const struct {
    uint8_t type, number; /* enum value_type, enum method */
    char name[14];
} methods[] = {
    {VALUE_DICT, METHOD_DICT_KEYS, "keys"},
    {VALUE_DICT, METHOD_DICT_VALUES, "values"},
    {VALUE_DICT, METHOD_DICT_ITEMS, "items"},
    {VALUE_DICT, METHOD_DICT_GET, "get"},
    {VALUE_DICT, METHOD_DICT_COPY, "copy"},
    {VALUE_DICT, METHOD_UNSUPPORTED, "fromkeys"},
    {VALUE_LIST, METHOD_LIST_COUNT, "count"},
    {VALUE_LIST, METHOD_LIST_INDEX, "index"},
    {VALUE_LIST, METHOD_LIST_COPY, "copy"},
    {VALUE_TUPLE, METHOD_LIST_COUNT, "count"},
    {VALUE_TUPLE, METHOD_LIST_INDEX, "index"},
    {VALUE_RANGE, METHOD_LIST_COUNT, "count"},
    {VALUE_RANGE, METHOD_LIST_INDEX, "index"},
    {VALUE_RANGE, METHOD_UNSUPPORTED, "start"},
    {VALUE_RANGE, METHOD_UNSUPPORTED, "stop"},
    {VALUE_RANGE, METHOD_UNSUPPORTED, "step"},
    {VALUE_VIEW, METHOD_UNSUPPORTED, "isdisjoint"},
    {VALUE_VIEW, METHOD_UNSUPPORTED, "mapping"},
    {VALUE_LOOP, METHOD_LOOP_CYCLE, "cycle"},
    {VALUE_LOOP, METHOD_LOOP_CHANGED, "changed"},
    {VALUE_MACRO, METHOD_UNSUPPORTED, "name"},
    {VALUE_MACRO, METHOD_UNSUPPORTED, "arguments"},
    {VALUE_MACRO, METHOD_UNSUPPORTED, "catch_kwargs"},
    {VALUE_MACRO, METHOD_UNSUPPORTED, "catch_varargs"},
    {VALUE_MACRO, METHOD_UNSUPPORTED, "caller"},
    {VALUE_TEXT, METHOD_STRIP, "strip"},
    {VALUE_TEXT, METHOD_LSTRIP, "lstrip"},
    {VALUE_TEXT, METHOD_RSTRIP, "rstrip"},
    {VALUE_TEXT, METHOD_SPLIT, "split"},
    {VALUE_TEXT, METHOD_RSPLIT, "rsplit"},
    {VALUE_TEXT, METHOD_SPLITLINES, "splitlines"},
    {VALUE_TEXT, METHOD_STARTSWITH, "startswith"},
    {VALUE_TEXT, METHOD_ENDSWITH, "endswith"},
    {VALUE_TEXT, METHOD_UPPER, "upper"},
    {VALUE_TEXT, METHOD_LOWER, "lower"},
    {VALUE_TEXT, METHOD_TITLE, "title"},
    {VALUE_TEXT, METHOD_CAPITALIZE, "capitalize"},
    {VALUE_TEXT, METHOD_REPLACE, "replace"},
    {VALUE_TEXT, METHOD_JOIN, "join"},
    {VALUE_TEXT, METHOD_FIND, "find"},
    {VALUE_TEXT, METHOD_RFIND, "rfind"},
    {VALUE_TEXT, METHOD_COUNT, "count"},
    {VALUE_TEXT, METHOD_INDEX, "index"},
    {VALUE_TEXT, METHOD_PARTITION, "partition"},
    {VALUE_TEXT, METHOD_RPARTITION, "rpartition"},
    {VALUE_TEXT, METHOD_REMOVEPREFIX, "removeprefix"},
    {VALUE_TEXT, METHOD_REMOVESUFFIX, "removesuffix"},
    {VALUE_TEXT, METHOD_ISSPACE, "isspace"},
    {VALUE_TEXT, METHOD_ZFILL, "zfill"},
    {VALUE_TEXT, METHOD_FORMAT, "format"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "casefold"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "center"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "encode"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "expandtabs"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "format_map"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "isalnum"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "isalpha"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "isascii"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "isdecimal"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "isdigit"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "isidentifier"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "islower"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "isnumeric"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "isprintable"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "istitle"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "isupper"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "ljust"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "maketrans"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "rindex"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "rjust"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "swapcase"},
    {VALUE_TEXT, METHOD_UNSUPPORTED, "translate"},
    {VALUE_BOOLEAN, METHOD_UNSUPPORTED, "real"},
    {VALUE_INTEGER, METHOD_UNSUPPORTED, "real"},
    {VALUE_REAL, METHOD_UNSUPPORTED, "real"},
    {VALUE_INTEGER, METHOD_UNSUPPORTED, "imag"},
    {VALUE_INTEGER, METHOD_UNSUPPORTED, "numerator"},
    {VALUE_INTEGER, METHOD_UNSUPPORTED, "denominator"},
    {VALUE_INTEGER, METHOD_UNSUPPORTED, "bit_length"},
    {VALUE_INTEGER, METHOD_UNSUPPORTED, "conjugate"},
    {VALUE_REAL, METHOD_UNSUPPORTED, "is_integer"},
    {VALUE_REAL, METHOD_UNSUPPORTED, "hex"},
};

/* Finds an attribute of the variable loop. Returns false if there is none of that name. */
static bool loop_attribute(const struct value_loop *loop, const struct value *name,
                           struct value *out)
{
    const struct {
        const char *name;
        struct value value;
    } attributes[] = {
        {"index", value_integer(loop->next)},
        {"index0", value_integer((int64_t)loop->next - 1)},
        {"revindex", value_integer((int64_t)loop->n - loop->next + 1)},
        {"revindex0", value_integer((int64_t)loop->n - loop->next)},
        {"first", value_boolean(loop->next == 1)},
        {"last", value_boolean(loop->next == loop->n)},
        {"length", value_integer(loop->n)},
        {"depth", value_integer(1)},
        {"depth0", value_integer(0)},
        {"previtem", loop->next > 1 ? loop->items[loop->next - 2]
                                    : value_undefined((const uint8_t *)"previtem", 8)},
        {"nextitem", loop->next < loop->n ? loop->items[loop->next]
                                          : value_undefined((const uint8_t *)"nextitem", 8)},
    };
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        if (text_is(name, attributes[i].name)) {
            *out = attributes[i].value;
            return true;
        }
    }
    return false;
}

static bool find_key(struct machine *machine, const struct value *dict, const struct value *key,
                     struct value *out, bool *found)
{
    const struct value *item;
    if (!smol_dict_find(machine, dict, key, &item))
        return false;
    *found = item != NULL;
    if (item)
        *out = *item;
    return true;
}

/* Finds an attribute as Python's getattr does, without the items of dicts. Sets *found to false if
 * there is none. */
static bool find_attribute(struct machine *machine, const struct value *value,
                           const struct value *name, struct value *out, bool *found)
{
    if (is_text(value) && value->safe)
        return smol_template_fail_unsupported(machine, "an attribute of a text marked safe");
    *found = value->type == VALUE_LOOP && loop_attribute(value->loop, name, out);
    if (value->type == VALUE_NAMESPACE) {
        const struct value pairs = value_items(VALUE_DICT, value->names->pairs, value->names->n);
        if (!find_key(machine, &pairs, name, out, found))
            return false;
    }
    for (size_t i = 0; i < sizeof methods / sizeof methods[0] && !*found; i++) {
        if (methods[i].type != value->type || !text_is(name, methods[i].name))
            continue;
        struct value_method *method = smol_template_alloc(machine, 1, sizeof *method);
        if (!method)
            return false;
        *method = (struct value_method){*value, methods[i].number, methods[i].name};
        *out = (struct value){.type = VALUE_METHOD, .method = method};
        *found = true;
    }
    return true;
}

/* Returns whether the reference's sandbox hides the name: it starts with two underscores. */
static bool is_hidden(const struct value *name)
{
    return name->n >= 2 && memcmp(name->bytes, "__", 2) == 0;
}

bool smol_template_attribute(struct machine *machine, const struct value *value,
                             const struct value *name, struct value *out)
{
    bool found = false;
    if (is_undefined(value))
        return smol_template_fail_type(machine, "an attribute of", value);
    if (is_hidden(name))
        return smol_template_fail_unsupported(machine, "an attribute that starts with __");
    *out = value_undefined(name->bytes, name->n);
    if (!find_attribute(machine, value, name, out, &found))
        return false;
    return found || value->type != VALUE_DICT || find_key(machine, value, name, out, &found);
}

/* Finds the item of a list or text at a position. Sets *found to false if there is none. */
static bool find_index(struct machine *machine, const struct value *value, int64_t index,
                       struct value *out, bool *found)
{
    int64_t n = is_text(value) ? (int64_t)smol_text_length(value) : value->n;
    if (!smol_template_step(machine, is_text(value) ? value->n : 0))
        return false;
    index += index < 0 ? n : 0;
    *found = index >= 0 && index < n;
    if (!*found)
        return true;
    if (is_text(value)) {
        size_t start = smol_text_offset(value, (size_t)index);
        struct value rest = value_part(value, start, value->n);
        *out = value_part(&rest, 0, smol_text_offset(&rest, 1));
    } else {
        *out = value->items[index];
    }
    return true;
}

static bool is_hashable(const struct value *key)
{
    return key->type != VALUE_LIST && key->type != VALUE_DICT && key->type != VALUE_VIEW;
}

bool smol_template_item(struct machine *machine, const struct value *value, const struct value *key,
                        struct value *out)
{
    bool found = false, good = true;
    if (is_undefined(value))
        return smol_template_fail_type(machine, "an item of", value);
    *out = is_text(key) ? value_undefined(key->bytes, key->n) : value_undefined(NULL, 0);
    if (value->type == VALUE_DICT && is_hashable(key))
        good = find_key(machine, value, key, out, &found);
    else if (is_integral(key) && (is_text(value) || is_sequence(value)))
        good = find_index(machine, value, integral(key), out, &found);
    if (!good || found || !is_text(key) || is_hidden(key))
        return good;
    return find_attribute(machine, value, key, out, &found);
}

/* --- methods of dicts, lists and loops ------------------------------------------------------- */

static bool no_arguments(struct machine *machine, const char *name, const struct call *call)
{
    return smol_call_bind(machine, name, call, "", NULL);
}

/* Returns the keys, the values, or both as tuples. */
static bool dict_view(struct machine *machine, const struct value *dict, enum method method,
                      struct value *out)
{
    struct value *items = smol_template_alloc(machine, dict->n, sizeof *items);
    if (!items || !smol_template_step(machine, (uint64_t)dict->n * 16))
        return false;
    for (uint32_t i = 0; i < dict->n; i++) {
        const struct value *pair = &dict->items[2 * i];
        items[i] = method == METHOD_DICT_KEYS     ? pair[0]
                   : method == METHOD_DICT_VALUES ? pair[1]
                                                  : value_items(VALUE_TUPLE, pair, 2);
    }
    *out = value_items(VALUE_VIEW, items, dict->n);
    return true;
}

static bool dict_get(struct machine *machine, const struct value *dict, const struct call *call,
                     struct value *out)
{
    struct value argument[2];
    const struct value *found;
    if (call->n_named > 0)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "get: takes no named arguments");
    if (!smol_call_bind(machine, "get", call, "key default", argument))
        return false;
    if (argument[0].type == VALUE_MISSING)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "get: the key is missing");
    if (!smol_dict_find(machine, dict, &argument[0], &found))
        return false;
    *out = found ? *found : argument[1].type == VALUE_MISSING ? value_none() : argument[1];
    return true;
}

static bool dict_method(struct machine *machine, const struct value_method *method,
                        const struct call *call, struct value *out)
{
    const struct value *dict = &method->receiver;
    if (method->number == METHOD_DICT_GET)
        return dict_get(machine, dict, call, out);
    if (!no_arguments(machine, method->name, call))
        return false;
    if (method->number != METHOD_DICT_COPY)
        return dict_view(machine, dict, method->number, out);
    *out = *dict;
    return true;
}

static bool list_method(struct machine *machine, const struct value_method *method,
                        const struct call *call, struct value *out)
{
    const struct value *list = &method->receiver;
    if (method->number == METHOD_LIST_COPY) {
        *out = *list;
        return no_arguments(machine, method->name, call);
    }
    if (call->n != 1 || call->n_named > 0)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "%s: expected one argument",
                                  method->name);
    int64_t count = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        bool equal;
        if (!smol_value_equal(machine, &list->items[i], &call->positional[0], &equal))
            return false;
        count += equal;
        if (equal && method->number == METHOD_LIST_INDEX) {
            *out = value_integer(i);
            return true;
        }
    }
    *out = value_integer(count);
    return method->number == METHOD_LIST_COUNT ||
           smol_template_fail(machine, SMOL_ERROR_USAGE, "index: the list has no such item");
}

static bool loop_method(struct machine *machine, const struct value_method *method,
                        const struct call *call, struct value *out)
{
    struct value_loop *loop = method->receiver.loop;
    if (call->n_named > 0 || (call->n == 0 && method->number == METHOD_LOOP_CYCLE))
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "%s: expected arguments",
                                  method->name);
    if (method->number == METHOD_LOOP_CYCLE) {
        *out = call->positional[(loop->next + call->n - 1) % call->n];
        return true;
    }
    const struct value now = value_items(VALUE_TUPLE, call->positional, call->n);
    bool equal = false;
    if (loop->changed.type != VALUE_MISSING &&
        !smol_value_equal(machine, &now, &loop->changed, &equal))
        return false;
    if (!equal) { /* copy the arguments: they are on the stack */
        struct value *items = smol_template_alloc(machine, call->n, sizeof *items);
        if (!items)
            return false;
        if (call->n > 0)
            memcpy(items, call->positional, call->n * sizeof *items);
        loop->changed = value_items(VALUE_TUPLE, items, call->n);
    }
    *out = value_boolean(!equal);
    return true;
}

/* --- methods of texts ------------------------------------------------------------------------ */

/* Checks that a call has only positional arguments, at least `least` of them. `types` has a letter
 * for each: t a text, i an integer, T a text or None, * any value. */
static bool check_arguments(struct machine *machine, const char *name, const struct call *call,
                            uint32_t least, const char *types)
{
    if (call->n_named > 0 || call->n < least || call->n > strlen(types))
        return smol_template_fail(machine, SMOL_ERROR_USAGE,
                                  "%s: takes %u to %zu arguments without a name", name, least,
                                  strlen(types));
    for (uint32_t i = 0; i < call->n; i++) {
        const struct value *argument = &call->positional[i];
        bool good = types[i] == '*' || (types[i] == 'i' && is_integral(argument)) ||
                    (types[i] != 'i' && is_text(argument)) ||
                    (types[i] == 'T' && argument->type == VALUE_NONE);
        if (!good)
            return smol_template_fail_type(machine, "a method of texts cannot take", argument);
    }
    return true;
}

static bool strip(struct machine *machine, const struct value_method *method,
                  const struct call *call, struct value *out)
{
    int sides = method->number == METHOD_LSTRIP   ? STRIP_LEFT
                : method->number == METHOD_RSTRIP ? STRIP_RIGHT
                                                  : STRIP_LEFT | STRIP_RIGHT;
    if (!check_arguments(machine, method->name, call, 0, "T"))
        return false;
    const struct value *of = call->n > 0 && is_text(call->positional) ? call->positional : NULL;
    if (!smol_template_step(machine, (uint64_t)method->receiver.n * (of ? of->n : 1)))
        return false;
    *out = smol_text_strip(&method->receiver, of, sides);
    return true;
}

static bool split(struct machine *machine, const struct value_method *method,
                  const struct call *call, struct value *out)
{
    struct value argument[2];
    if (!smol_call_bind(machine, method->name, call, "sep maxsplit", argument))
        return false;
    const struct value *separator = is_text(&argument[0]) ? &argument[0] : NULL;
    if (!separator && argument[0].type != VALUE_MISSING && argument[0].type != VALUE_NONE)
        return smol_template_fail_type(machine, "cannot split at", &argument[0]);
    if (argument[1].type != VALUE_MISSING && !is_integral(&argument[1]))
        return smol_template_fail_type(machine, "maxsplit cannot be", &argument[1]);
    int64_t limit = argument[1].type == VALUE_MISSING ? -1 : integral(&argument[1]);
    return smol_text_split(machine, &method->receiver, separator, limit,
                           method->number == METHOD_RSPLIT, out);
}

static bool split_lines(struct machine *machine, const struct value_method *method,
                        const struct call *call, struct value *out)
{
    struct value keep;
    return smol_call_bind(machine, method->name, call, "keepends", &keep) &&
           smol_text_split_lines(machine, &method->receiver, smol_value_truth(&keep), out);
}

static bool has_affix(struct machine *machine, const struct value *text, const struct value *affix,
                      bool at_end, bool *has)
{
    *has = affix->n <= text->n &&
           memcmp(text->bytes + (at_end ? text->n - affix->n : 0), affix->bytes, affix->n) == 0;
    return smol_template_step(machine, affix->n <= text->n ? affix->n : 0);
}

/* Implements startswith and endswith for one text or a tuple of texts. */
static bool starts_or_ends(struct machine *machine, const struct value_method *method,
                           const struct call *call, struct value *out)
{
    bool at_end = method->number == METHOD_ENDSWITH, found = false;
    if (call->n > 1)
        return smol_template_fail_unsupported(machine, "startswith or endswith with a start");
    if (!check_arguments(machine, method->name, call, 1, "*"))
        return false;
    const struct value *affix = call->positional;
    bool tuple = affix->type == VALUE_TUPLE;
    for (uint32_t i = 0; i < (tuple ? affix->n : 1); i++) {
        const struct value *each = tuple ? &affix->items[i] : affix;
        if (!is_text(each))
            return smol_template_fail_type(machine, "a text cannot start or end with", each);
        bool has;
        if (!has_affix(machine, &method->receiver, each, at_end, &has))
            return false;
        found |= has;
    }
    *out = value_boolean(found);
    return true;
}

static bool remove_affix(struct machine *machine, const struct value_method *method,
                         const struct call *call, struct value *out)
{
    const struct value *text = &method->receiver;
    bool at_end = method->number == METHOD_REMOVESUFFIX;
    if (!check_arguments(machine, method->name, call, 1, "t"))
        return false;
    bool has;
    if (!has_affix(machine, text, call->positional, at_end, &has))
        return false;
    uint32_t n = has ? call->positional->n : 0;
    *out = value_part(text, at_end ? 0 : n, at_end ? text->n - n : text->n);
    return true;
}

static bool change_case(struct machine *machine, const struct value_method *method,
                        const struct call *call, struct value *out)
{
    enum text_case to = method->number == METHOD_UPPER   ? CASE_UPPER
                        : method->number == METHOD_LOWER ? CASE_LOWER
                        : method->number == METHOD_TITLE ? CASE_TITLE
                                                         : CASE_CAPITALIZE;
    struct text_builder builder = {0};
    const struct value *text = &method->receiver;
    if (!no_arguments(machine, method->name, call) ||
        !smol_text_change_case(machine, &builder, text, 0, text->n, to))
        return false;
    *out = smol_builder_text(&builder);
    return true;
}

static bool replace(struct machine *machine, const struct value_method *method,
                    const struct call *call, struct value *out)
{
    if (!check_arguments(machine, method->name, call, 2, "tti"))
        return false;
    int64_t limit = call->n == 3 ? integral(&call->positional[2]) : -1;
    return smol_text_replace(machine, &method->receiver, &call->positional[0], &call->positional[1],
                             limit, out);
}

static bool join(struct machine *machine, const struct value_method *method,
                 const struct call *call, struct value *out)
{
    struct value list;
    if (!check_arguments(machine, method->name, call, 1, "*") ||
        !smol_value_iterate(machine, call->positional, &list))
        return false;
    for (uint32_t i = 0; i < list.n; i++)
        if (!is_text(&list.items[i]))
            return smol_template_fail_type(machine, "join cannot take", &list.items[i]);
    return smol_text_join(machine, &method->receiver, &list, out);
}

/* Returns the position of the last occurrence of `needle`, or SIZE_MAX. */
static size_t find_last(const struct value *text, const struct value *needle)
{
    size_t last = SIZE_MAX, start = 0, found;
    if (needle->n == 0)
        return text->n;
    while ((found = smol_text_find(text, needle, start)) != SIZE_MAX) {
        last = found;
        start = found + 1;
    }
    return last;
}

/* Returns the text to search for, the only argument: searches within a range are not supported.
 * Returns NULL after an error. */
static const struct value *take_needle(struct machine *machine, const struct value_method *method,
                                       const struct call *call)
{
    if (call->n > 1) {
        smol_template_fail_unsupported(machine, "a search that starts within the text");
        return NULL;
    }
    return check_arguments(machine, method->name, call, 1, "t") ? call->positional : NULL;
}

/* Implements find, rfind and index. */
static bool find(struct machine *machine, const struct value_method *method,
                 const struct call *call, struct value *out)
{
    const struct value *text = &method->receiver;
    const struct value *needle = take_needle(machine, method, call);
    if (!needle)
        return false;
    bool last = method->number == METHOD_RFIND;
    if (!smol_template_step(machine, last ? (uint64_t)text->n * (needle->n + 1) : text->n))
        return false;
    size_t at = last ? find_last(text, needle) : smol_text_find(text, needle, 0);
    if (at == SIZE_MAX && method->number == METHOD_INDEX)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "index: the text has no such part");
    const struct value before = value_part(text, 0, at == SIZE_MAX ? 0 : at);
    *out = value_integer(at == SIZE_MAX ? -1 : (int64_t)smol_text_length(&before));
    return true;
}

static bool count(struct machine *machine, const struct value_method *method,
                  const struct call *call, struct value *out)
{
    const struct value *text = &method->receiver;
    const struct value *needle = take_needle(machine, method, call);
    if (!needle)
        return false;
    int64_t n = 0;
    size_t start = 0, found;
    while (needle->n > 0 && (found = smol_text_find(text, needle, start)) != SIZE_MAX) {
        n++;
        start = found + needle->n;
    }
    *out = value_integer(needle->n > 0 ? n : (int64_t)smol_text_length(text) + 1);
    return smol_template_step(machine, text->n);
}

static bool partition(struct machine *machine, const struct value_method *method,
                      const struct call *call, struct value *out)
{
    const struct value *text = &method->receiver;
    bool last = method->number == METHOD_RPARTITION;
    if (!check_arguments(machine, method->name, call, 1, "t"))
        return false;
    const struct value *separator = call->positional;
    if (separator->n == 0)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "partition: an empty separator");
    struct value *items = smol_template_alloc(machine, 3, sizeof *items);
    if (!items || !smol_template_step(machine, last ? (uint64_t)text->n * separator->n : text->n))
        return false;
    size_t at = last ? find_last(text, separator) : smol_text_find(text, separator, 0);
    size_t end = at == SIZE_MAX ? 0 : at + separator->n;
    if (at == SIZE_MAX)
        at = last ? 0 : text->n;
    end = end == 0 ? at : end;
    items[0] = value_part(text, 0, at);
    items[1] = value_part(text, at, end);
    items[2] = value_part(text, end, text->n);
    *out = value_items(VALUE_TUPLE, items, 3);
    return true;
}

static bool is_space(struct machine *machine, const struct value_method *method,
                     const struct call *call, struct value *out)
{
    const struct value *text = &method->receiver;
    const struct value rest = smol_text_strip(text, NULL, STRIP_LEFT);
    *out = value_boolean(text->n > 0 && rest.n == 0);
    return no_arguments(machine, method->name, call) && smol_template_step(machine, text->n);
}

static bool zero_fill(struct machine *machine, const struct value_method *method,
                      const struct call *call, struct value *out)
{
    const struct value *text = &method->receiver;
    struct text_builder builder = {0};
    if (!check_arguments(machine, method->name, call, 1, "i"))
        return false;
    bool sign = text->n > 0 && (text->bytes[0] == '+' || text->bytes[0] == '-');
    bool good = smol_builder_add_part(machine, &builder, text, 0, sign);
    for (int64_t n = integral(call->positional) - (int64_t)smol_text_length(text); good && n > 0;
         n--)
        good = smol_builder_add_literal(machine, &builder, "0", true);
    good = good && smol_builder_add_part(machine, &builder, text, sign, text->n);
    *out = smol_builder_text(&builder);
    return good;
}

/* Replaces each {} by the next argument, as {{ argument }} writes it; {{ and }} are braces. */
static bool format(struct machine *machine, const struct value_method *method,
                   const struct call *call, struct value *out)
{
    const struct value *text = &method->receiver;
    struct text_builder builder = {0};
    uint32_t next = 0;
    for (size_t i = 0, start = 0; i <= text->n; start = i) {
        while (i < text->n && text->bytes[i] != '{' && text->bytes[i] != '}')
            i++;
        bool doubled = i + 1 < text->n && text->bytes[i + 1] == text->bytes[i];
        if (!smol_builder_add_part(machine, &builder, text, start, i + doubled))
            return false;
        if (i == text->n)
            break;
        i += 2;
        if (doubled)
            continue;
        if (text->bytes[i - 2] == '}' || i > text->n)
            return smol_template_fail(machine, SMOL_ERROR_USAGE, "format: a single brace");
        if (text->bytes[i - 1] != '}')
            return smol_template_fail_unsupported(machine, "a field of format other than {}");
        if (next == call->n)
            return smol_template_fail(machine, SMOL_ERROR_USAGE, "format: too few arguments");
        if (!smol_text_print(machine, &builder, &call->positional[next++]))
            return false;
    }
    *out = smol_builder_text(&builder);
    return smol_template_step(machine, text->n);
}

typedef bool text_method(struct machine *machine, const struct value_method *method,
                         const struct call *call, struct value *out);
static text_method *const text_methods[] = {
    [METHOD_STRIP] = strip,
    [METHOD_LSTRIP] = strip,
    [METHOD_RSTRIP] = strip,
    [METHOD_SPLIT] = split,
    [METHOD_RSPLIT] = split,
    [METHOD_SPLITLINES] = split_lines,
    [METHOD_STARTSWITH] = starts_or_ends,
    [METHOD_ENDSWITH] = starts_or_ends,
    [METHOD_UPPER] = change_case,
    [METHOD_LOWER] = change_case,
    [METHOD_TITLE] = change_case,
    [METHOD_CAPITALIZE] = change_case,
    [METHOD_REPLACE] = replace,
    [METHOD_JOIN] = join,
    [METHOD_FIND] = find,
    [METHOD_RFIND] = find,
    [METHOD_COUNT] = count,
    [METHOD_INDEX] = find,
    [METHOD_PARTITION] = partition,
    [METHOD_RPARTITION] = partition,
    [METHOD_REMOVEPREFIX] = remove_affix,
    [METHOD_REMOVESUFFIX] = remove_affix,
    [METHOD_ISSPACE] = is_space,
    [METHOD_ZFILL] = zero_fill,
    [METHOD_FORMAT] = format,
};

bool smol_template_method(struct machine *machine, const struct value_method *method,
                          const struct call *call, struct value *out)
{
    if (method->number == METHOD_UNSUPPORTED)
        return smol_template_fail(machine, SMOL_ERROR_UNSUPPORTED, "%s of a %s is not supported",
                                  method->name, smol_value_type_name(&method->receiver));
    if (method->number <= METHOD_DICT_COPY)
        return dict_method(machine, method, call, out);
    if (method->number <= METHOD_LIST_COPY)
        return list_method(machine, method, call, out);
    if (method->number <= METHOD_LOOP_CHANGED)
        return loop_method(machine, method, call, out);
    return text_methods[method->number](machine, method, call, out);
}
