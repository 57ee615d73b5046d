/* Reads JSON as values. See template_value.h. */
#include "runtime/template/template_value.h"

#include "common/json_reader.h"

/* The state of the reader. */
struct json_source {
    struct machine *machine;
    struct json_reader json;
    unsigned depth;
};

/* Records the reader's status in the machine. Returns whether it is SMOL_OK. */
static bool good(struct json_source *source, smol_status status)
{
    if (status)
        source->machine->status = status;
    return !status;
}

/* Reads a text. It shares the caller's memory unless an escape must be decoded. */
static bool read_text(struct json_source *source, struct value *value)
{
    struct json_reader *json = &source->json, again;
    size_t length;
    smol_json_peek(json);
    again = *json;
    if (!good(source, smol_json_string(json, NULL, &length)))
        return false;
    size_t size = (size_t)(json->at - again.at);
    *value = value_text(again.at + 1, length);
    value->argument = 1;
    if (length < size - 2) {
        char *copy = smol_template_alloc(source->machine, size, 1);
        if (!copy || !good(source, smol_json_string(&again, copy, &length)))
            return false;
        value->bytes = (const uint8_t *)copy;
    }
    return smol_template_step(source->machine, size);
}

/* Reports a number that cannot be represented. `start` is its first byte. */
static bool refuse_number(struct json_source *source, const uint8_t *start, const char *what)
{
    return smol_template_fail(source->machine, SMOL_ERROR_UNSUPPORTED,
                              "%s: %s is not supported (byte %zu)", source->json.name, what,
                              (size_t)(start - source->json.start));
}

static bool read_number(struct json_source *source, struct value *value)
{
    struct json_number number;
    int64_t integer;
    double real;
    if (!good(source, smol_json_number(&source->json, &number)))
        return false;
    if (number.is_integer) {
        if (!smol_json_to_i64(&number, &integer))
            return refuse_number(source, number.text, "an integer beyond 64 bits with its sign");
        *value = value_integer(integer);
        return true;
    }
    if (number.size > DECIMAL_MAX)
        return refuse_number(source, number.text, "a number of more than 63 characters");
    if (!good(source, smol_json_to_real(&source->json, &number, &real)))
        return false;
    if (real - real != 0)
        return refuse_number(source, number.text, "a number beyond a double's range");
    *value = value_real(real);
    return true;
}

static bool read_value(struct json_source *source, struct value *value);

static bool read_list(struct json_source *source, struct value *value)
{
    struct value_list list = {0};
    bool more;
    if (!good(source, smol_json_begin(&source->json, '[', &more)))
        return false;
    while (more) {
        struct value item;
        if (!read_value(source, &item) || !smol_value_list_add(source->machine, &list, &item, 1) ||
            !good(source, smol_json_more(&source->json, ']', &more)))
            return false;
    }
    *value = value_items(VALUE_LIST, list.items, list.n);
    return true;
}

static bool read_member(struct json_source *source, struct value_list *list)
{
    struct value pair[2];
    const struct value *found;
    if (!read_text(source, &pair[0]) || !good(source, smol_json_expect(&source->json, ':')))
        return false;
    const struct value so_far = value_items(VALUE_DICT, list->items, list->n / 2);
    if (!read_value(source, &pair[1]) ||
        !smol_dict_find(source->machine, &so_far, &pair[0], &found))
        return false;
    if (found) {
        list->items[found - list->items] = pair[1];
        return true;
    }
    if (list->n / 2 == TEMPLATE_MAX_MEMBERS)
        return smol_template_fail(source->machine, SMOL_ERROR_UNSUPPORTED,
                                  "%s: an object of more than %d members", source->json.name,
                                  TEMPLATE_MAX_MEMBERS);
    return smol_value_list_add(source->machine, list, pair, 2);
}

static bool read_object(struct json_source *source, struct value *value)
{
    struct value_list list = {0};
    bool more;
    if (!good(source, smol_json_begin(&source->json, '{', &more)))
        return false;
    while (more)
        if (!read_member(source, &list) || !good(source, smol_json_more(&source->json, '}', &more)))
            return false;
    *value = value_items(VALUE_DICT, list.items, list.n / 2);
    return true;
}

static bool read_nested(struct json_source *source, bool is_list, struct value *value)
{
    if (++source->depth > TEMPLATE_MAX_DEPTH - 8) /* leaves room for levels that a template adds */
        return smol_template_fail(source->machine, SMOL_ERROR_UNSUPPORTED,
                                  "%s: more than %d nested lists or objects", source->json.name,
                                  TEMPLATE_MAX_DEPTH - 8);
    bool read = is_list ? read_list(source, value) : read_object(source, value);
    source->depth--;
    return read;
}

static bool read_value(struct json_source *source, struct value *value)
{
    if (!smol_template_step(source->machine, 0))
        return false;
    int c = smol_json_peek(&source->json);
    if (c == '"')
        return read_text(source, value);
    if (c == '[' || c == '{')
        return read_nested(source, c == '[', value);
    if (smol_json_word(&source->json, "null"))
        *value = value_none();
    else if (smol_json_word(&source->json, "true"))
        *value = value_boolean(true);
    else if (smol_json_word(&source->json, "false"))
        *value = value_boolean(false);
    else
        return read_number(source, value);
    return true;
}

bool smol_template_read_json(struct machine *machine, const char *name, const char *text,
                             size_t size, struct value *value)
{
    const uint8_t *start = (const uint8_t *)text;
    struct json_source source = {
        .machine = machine,
        .json = {.start = start,
                 .at = start,
                 .end = start + size,
                 .name = name,
                 .fault = "not valid JSON",
                 .advice = "",
                 .status = SMOL_ERROR_USAGE,
                 .error = machine->error},
    };
    if (size > TEMPLATE_MEMORY)
        return smol_template_fail(machine, SMOL_ERROR_UNSUPPORTED, "%s: longer than %d MiB", name,
                                  TEMPLATE_MEMORY >> 20);
    return good(&source, smol_json_check_utf8(&source.json)) && read_value(&source, value) &&
           good(&source, smol_json_end(&source.json));
}
