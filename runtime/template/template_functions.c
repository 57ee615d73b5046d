/* Functions that chat templates find by name, namespaces, and the binding of arguments. See
 * template_call.h. */
#include <stdio.h>
#include <string.h>

#include "runtime/template/template_call.h"
#include "runtime/template/template_text.h"

/* --- arguments ------------------------------------------------------------------------------- */

/* Returns the index of a name among names that blanks separate, or their number. */
static uint32_t find_name(const char *names, const struct value *name)
{
    uint32_t i = 0;
    for (size_t n; *names; names += n + (names[n] == ' '), i++) {
        n = strcspn(names, " ");
        if (name && name->n == n && memcmp(name->bytes, names, n) == 0)
            break;
    }
    return i;
}

bool smol_call_bind(struct machine *machine, const char *callee, const struct call *call,
                    const char *names, struct value *out)
{
    const uint32_t n_names = find_name(names, NULL);
    if (call->n > n_names)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "%s: takes at most %u arguments",
                                  callee, n_names);
    for (uint32_t i = 0; i < n_names; i++)
        out[i] = i < call->n ? call->positional[i] : (struct value){0};
    for (uint32_t k = 0; k < call->n_named; k++) {
        const struct value *name = &call->named[2 * k];
        const uint32_t i = find_name(names, name);
        if (i == n_names || out[i].type != VALUE_MISSING)
            return smol_template_fail(machine, SMOL_ERROR_USAGE, "%s: argument '%.*s' %s", callee,
                                      (int)(name->n < 64 ? name->n : 64), (const char *)name->bytes,
                                      i == n_names ? "is unknown" : "appears twice");
        out[i] = call->named[2 * k + 1];
    }
    return true;
}

/* --- range ----------------------------------------------------------------------------------- */

static bool make_range(struct machine *machine, int64_t start, int64_t stop, int64_t step,
                       struct value *out)
{
    uint64_t n = 0;
    if (step == 0)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "range: step 0");
    if (step > 0 && start < stop)
        n = ((uint64_t)stop - (uint64_t)start - 1) / (uint64_t)step + 1;
    if (step < 0 && start > stop)
        n = ((uint64_t)start - (uint64_t)stop - 1) / (0 - (uint64_t)step) + 1;
    if (n > TEMPLATE_MAX_RANGE)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "range: more than %d elements",
                                  TEMPLATE_MAX_RANGE);
    struct value *items = smol_template_alloc(machine, n, sizeof *items);
    if (!items || !smol_template_step(machine, n * 16))
        return false;
    for (uint64_t i = 0; i < n; i++)
        items[i] = value_integer((int64_t)((uint64_t)start + i * (uint64_t)step));
    *out = value_items(VALUE_RANGE, items, (uint32_t)n);
    return true;
}

static bool call_range(struct machine *machine, const struct call *call, struct value *out)
{
    if (call->n < 1 || call->n > 3 || call->n_named > 0)
        return smol_template_fail(machine, SMOL_ERROR_USAGE, "range: takes one to three arguments");
    for (uint32_t i = 0; i < call->n; i++)
        if (!is_integral(&call->positional[i]))
            return smol_template_fail_type(machine, "range cannot take", &call->positional[i]);
    int64_t first = integral(&call->positional[0]);
    if (call->n == 1)
        return make_range(machine, 0, first, 1, out);
    return make_range(machine, first, integral(&call->positional[1]),
                      call->n == 3 ? integral(&call->positional[2]) : 1, out);
}

/* --- dict and namespace ---------------------------------------------------------------------- */

/* Puts the pairs of a dict or of a list of pairs into `pairs`, which must have room. */
static bool put_all(struct machine *machine, struct value *pairs, uint32_t *n,
                    const struct value *from)
{
    struct value list;
    if (from->type == VALUE_DICT) {
        for (uint32_t i = 0; i < from->n; i++)
            if (!smol_dict_put(machine, pairs, n, &from->items[2 * i], &from->items[2 * i + 1]))
                return false;
        return true;
    }
    if (is_undefined(from))
        return smol_template_fail_type(machine, "a dict is made of pairs, not of", from);
    if (!smol_value_iterate(machine, from, &list))
        return false;
    for (uint32_t i = 0; i < list.n; i++) {
        const struct value *pair = &list.items[i];
        if (!is_sequence(pair) || pair->n != 2)
            return smol_template_fail_type(machine, "a dict is made of pairs, not of", pair);
        if (!smol_dict_put(machine, pairs, n, &pair->items[0], &pair->items[1]))
            return false;
    }
    return true;
}

/* dict(...): makes a dict of a dict or a list of pairs, and of named values, with room for `room`
 * more pairs. */
static bool call_dict(struct machine *machine, const struct call *call, uint32_t room,
                      struct value *out)
{
    uint32_t n = 0;
    if (call->n > 1)
        return smol_template_fail(machine, SMOL_ERROR_USAGE,
                                  "dict: takes one argument without a name");
    if (call->n == 1 && call->positional->type == VALUE_ITERATOR)
        return smol_template_fail_unsupported(machine, "a dict made of an iterator");
    uint64_t most = (call->n == 1 ? (uint64_t)call->positional->n : 0) + call->n_named + room;
    struct value *pairs = smol_template_alloc(machine, most * 2, sizeof *pairs);
    if (!pairs || (call->n == 1 && !put_all(machine, pairs, &n, call->positional)))
        return false;
    for (uint32_t i = 0; i < call->n_named; i++)
        if (!smol_dict_put(machine, pairs, &n, &call->named[2 * i], &call->named[2 * i + 1]))
            return false;
    *out = value_items(VALUE_DICT, pairs, n);
    return true;
}

static bool check_name(struct machine *machine, const struct value *name)
{
    if (is_text(name) && name->n > 0 && name->bytes[0] == '_')
        return smol_template_fail(machine, SMOL_ERROR_USAGE,
                                  "a namespace's attributes cannot start with an underscore");
    return true;
}

static bool call_namespace(struct machine *machine, const struct call *call, struct value *out)
{
    enum { ROOM = 8 };
    struct value dict = {0};
    struct value_names *names = smol_template_alloc(machine, 1, sizeof *names);
    if (!names || !call_dict(machine, call, ROOM, &dict))
        return false;
    for (uint32_t i = 0; i < dict.n; i++)
        if (!check_name(machine, &dict.items[2 * i]))
            return false;
    *names = (struct value_names){(struct value *)(uintptr_t)dict.items, dict.n, dict.n + ROOM};
    *out = (struct value){.type = VALUE_NAMESPACE, .names = names};
    return true;
}

bool smol_template_store(struct machine *machine, const struct value *namespace,
                         const struct value *name, const struct value *value)
{
    if (namespace->type != VALUE_NAMESPACE)
        return smol_template_fail_type(machine, "cannot assign an attribute of", namespace);
    struct value_names *names = namespace->names;
    if (!check_name(machine, name))
        return false;
    if (names->n == names->capacity) {
        struct value *pairs = smol_template_alloc(machine, (uint64_t)names->n * 4, sizeof *pairs);
        if (!pairs)
            return false;
        memcpy(pairs, names->pairs, names->n * 2 * sizeof *pairs);
        names->pairs = pairs;
        names->capacity = names->n * 2;
    }
    return smol_dict_put(machine, names->pairs, &names->n, name, value);
}

/* --- strftime_now ---------------------------------------------------------------------------- */

static const char days[][10] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                "Thursday", "Friday", "Saturday"};
static const char months[][10] = {"January",   "February", "March",    "April",
                                  "May",       "June",     "July",     "August",
                                  "September", "October",  "November", "December"};

/* Returns the day of the week, 0 for Sunday (Zeller's congruence for the Gregorian calendar). */
static int weekday(const struct template_time *t)
{
    int month = t->month < 3 ? t->month + 12 : t->month,
        year = t->month < 3 ? t->year - 1 : t->year;
    return (t->day + 13 * (month + 1) / 5 + year + year / 4 - year / 100 + year / 400 + 6) % 7;
}

static int day_of_year(const struct template_time *t)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    bool leap = (t->year % 4 == 0 && t->year % 100 != 0) || t->year % 400 == 0;
    return before[t->month - 1] + t->day + (leap && t->month > 2);
}

/* Formats one conversion in the "C" locale. `bare` omits leading zeros. Returns false if the
 * conversion is not supported. */
static bool format_time(const struct template_time *t, char conversion, bool bare, char out[64])
{
    int hour12 = t->hour % 12 ? t->hour % 12 : 12;
    const struct {
        char conversion;
        int value, width;
    } numbers[] = {
        {'d', t->day, 2},        {'m', t->month, 2},  {'Y', t->year, 0},
        {'y', t->year % 100, 2}, {'H', t->hour, 2},   {'I', hour12, 2},
        {'M', t->minute, 2},     {'S', t->second, 2}, {'j', day_of_year(t), 3},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].conversion == conversion) {
            snprintf(out, 64, "%0*d", bare ? 0 : numbers[i].width, numbers[i].value);
            return true;
        }
    }
    switch (conversion) {
    case 'b':
    case 'h':
        return snprintf(out, 64, "%.3s", months[t->month - 1]) > 0;
    case 'B':
        return snprintf(out, 64, "%s", months[t->month - 1]) > 0;
    case 'a':
        return snprintf(out, 64, "%.3s", days[weekday(t)]) > 0;
    case 'A':
        return snprintf(out, 64, "%s", days[weekday(t)]) > 0;
    case 'p':
        return snprintf(out, 64, "%s", t->hour < 12 ? "AM" : "PM") > 0;
    case 'F':
        return snprintf(out, 64, "%d-%02d-%02d", t->year, t->month, t->day) > 0;
    case 'T':
        return snprintf(out, 64, "%02d:%02d:%02d", t->hour, t->minute, t->second) > 0;
    case '%':
        return snprintf(out, 64, "%%") > 0;
    default:
        return false;
    }
}

static bool call_strftime_now(struct machine *machine, const struct call *call, struct value *out)
{
    struct text_builder builder = {0};
    struct value format = {0};
    char text[64];
    if (!smol_call_bind(machine, "strftime_now", call, "format", &format))
        return false;
    if (!is_text(&format))
        return smol_template_fail_type(machine, "strftime_now cannot take", &format);
    for (uint32_t i = 0; i < format.n; i++) {
        if (format.bytes[i] != '%') {
            if (!smol_builder_add_part(machine, &builder, &format, i, i + 1))
                return false;
            continue;
        }
        bool bare = i + 1 < format.n && format.bytes[i + 1] == '-';
        i += 1 + (uint32_t)bare;
        if (i >= format.n || !format_time(&machine->time, (char)format.bytes[i], bare, text))
            return smol_template_fail_unsupported(machine, "this format of strftime_now");
        if (!smol_builder_add_literal(machine, &builder, text, text_argument(&format, i)))
            return false;
    }
    *out = smol_builder_text(&builder);
    return true;
}

/* --- by name --------------------------------------------------------------------------------- */

static bool call_raise_exception(struct machine *machine, const struct call *call)
{
    struct value message = {0}, text = {0};
    if (!smol_call_bind(machine, "raise_exception", call, "message", &message) ||
        !smol_text_of(machine, &message, &text))
        return false;
    return smol_template_fail(machine, SMOL_ERROR_USAGE, "%.*s", (int)(text.n < 400 ? text.n : 400),
                              (const char *)text.bytes);
}

bool smol_template_builtin(const struct value *name, struct value *out)
{
    static const struct {
        char name[16];
        enum builtin builtin;
    } builtins[] = {
        {"range", BUILTIN_RANGE},
        {"dict", BUILTIN_DICT},
        {"namespace", BUILTIN_NAMESPACE},
        {"raise_exception", BUILTIN_RAISE_EXCEPTION},
        {"strftime_now", BUILTIN_STRFTIME_NOW},
        {"lipsum", BUILTIN_UNSUPPORTED},
        {"cycler", BUILTIN_UNSUPPORTED},
        {"joiner", BUILTIN_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof builtins / sizeof builtins[0]; i++) {
        if (text_is(name, builtins[i].name)) {
            *out = (struct value){.type = VALUE_BUILTIN, .number = builtins[i].builtin};
            return true;
        }
    }
    return false;
}

bool smol_template_call_builtin(struct machine *machine, enum builtin builtin,
                                const struct call *call, struct value *out)
{
    switch (builtin) {
    case BUILTIN_RANGE:
        return call_range(machine, call, out);
    case BUILTIN_DICT:
        return call_dict(machine, call, 0, out);
    case BUILTIN_NAMESPACE:
        return call_namespace(machine, call, out);
    case BUILTIN_RAISE_EXCEPTION:
        return call_raise_exception(machine, call);
    case BUILTIN_STRFTIME_NOW:
        return call_strftime_now(machine, call, out);
    default:
        return smol_template_fail_unsupported(machine, "lipsum, cycler or joiner");
    }
}
