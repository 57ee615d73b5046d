/* The names of filters and tests in templates. The converter looks up the names in the source, the
 * runtime those passed to `map`, `select` and similar filters. */
#include <string.h>

#include "format/template.h"

struct name {
    const char *text;
    int number;
};

static const struct name filters[] = {
    {"trim", FILTER_TRIM},
    {"tojson", FILTER_TOJSON},
    {"default", FILTER_DEFAULT},
    {"d", FILTER_DEFAULT},
    {"items", FILTER_ITEMS},
    {"length", FILTER_LENGTH},
    {"count", FILTER_LENGTH},
    {"upper", FILTER_UPPER},
    {"lower", FILTER_LOWER},
    {"capitalize", FILTER_CAPITALIZE},
    {"title", FILTER_TITLE},
    {"join", FILTER_JOIN},
    {"map", FILTER_MAP},
    {"select", FILTER_SELECT},
    {"reject", FILTER_REJECT},
    {"selectattr", FILTER_SELECTATTR},
    {"rejectattr", FILTER_REJECTATTR},
    {"first", FILTER_FIRST},
    {"last", FILTER_LAST},
    {"replace", FILTER_REPLACE},
    {"string", FILTER_STRING},
    {"int", FILTER_INT},
    {"float", FILTER_FLOAT},
    {"list", FILTER_LIST},
    {"reverse", FILTER_REVERSE},
    {"indent", FILTER_INDENT},
    {"unique", FILTER_UNIQUE},
    {"sort", FILTER_SORT},
    {"dictsort", FILTER_DICTSORT},
    {"abs", FILTER_ABS},
    {"min", FILTER_MIN},
    {"max", FILTER_MAX},
    {"sum", FILTER_SUM},
};

static const struct name tests[] = {
    {"defined", TEST_DEFINED},
    {"undefined", TEST_UNDEFINED},
    {"none", TEST_NONE},
    {"string", TEST_STRING},
    {"mapping", TEST_MAPPING},
    {"sequence", TEST_SEQUENCE},
    {"iterable", TEST_ITERABLE},
    {"number", TEST_NUMBER},
    {"integer", TEST_INTEGER},
    {"float", TEST_FLOAT},
    {"boolean", TEST_BOOLEAN},
    {"true", TEST_TRUE},
    {"false", TEST_FALSE},
    {"callable", TEST_CALLABLE},
    {"odd", TEST_ODD},
    {"even", TEST_EVEN},
    {"divisibleby", TEST_DIVISIBLEBY},
    {"eq", TEST_EQUAL},
    {"equalto", TEST_EQUAL},
    {"==", TEST_EQUAL},
    {"ne", TEST_UNEQUAL},
    {"!=", TEST_UNEQUAL},
    {"lt", TEST_LESS},
    {"lessthan", TEST_LESS},
    {"<", TEST_LESS},
    {"le", TEST_LESS_EQUAL},
    {"<=", TEST_LESS_EQUAL},
    {"gt", TEST_GREATER},
    {"greaterthan", TEST_GREATER},
    {">", TEST_GREATER},
    {"ge", TEST_GREATER_EQUAL},
    {">=", TEST_GREATER_EQUAL},
    {"in", TEST_IN},
};

static int find(const struct name *names, size_t n, const char *text, size_t length)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(names[i].text) == length && memcmp(names[i].text, text, length) == 0)
            return names[i].number;
    return -1;
}

int smol_template_find_filter(const char *name, size_t length)
{
    return find(filters, sizeof filters / sizeof filters[0], name, length);
}

int smol_template_find_test(const char *name, size_t length)
{
    return find(tests, sizeof tests / sizeof tests[0], name, length);
}
