/* The names of filters, tests and styles of tool calls in templates. The converter looks up the
 * names in the source, the runtime those passed to `map`, `select` and similar filters. */
#include <string.h>

#include "format/template.h"

struct name {
    char text[15];
    uint8_t number;
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
    {"safe", FILTER_SAFE},
    {"format", FILTER_FORMAT},
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

static const struct {
    const char *name;
    struct tool_style_texts texts;
} tool_styles[N_TOOL_STYLES] = {
    [TOOLS_HERMES] = {"hermes",
                      {.marker = "<tool_call>",
                       .space = "\n",
                       .arguments = "arguments",
                       .end = "\n</tool_call>",
                       .next = "\n"}},
    [TOOLS_LLAMA3] = {"llama3",
                      {.marker = "{\"", .arguments = "parameters", .end = "", .at_start = ""}},
    [TOOLS_MISTRAL] = {"mistral",
                       {.marker = "[TOOL_CALLS]",
                        .space = " ",
                        .brackets = CALLS_LISTED,
                        .arguments = "arguments",
                        .list_next = ", ",
                        .end = ""}},
    [TOOLS_MISTRAL_ARGS] =
        {"mistral-args",
         {.marker = "[TOOL_CALLS]", .call = "", .name_end = "[ARGS]", .end = "", .next = ""}},
    [TOOLS_GRANITE] = {"granite",
                       {.marker = "<|tool_call|>",
                        .space = " ",
                        .brackets = CALLS_LISTED,
                        .arguments = "arguments",
                        .list_next = ", ",
                        .end = ""}},
    [TOOLS_FUNCTION_GEMMA] = {"function-gemma",
                              {.marker = "<start_function_call>",
                               .call = "call:",
                               .name_end = "{",
                               .syntax = ARGUMENTS_GEMMA,
                               .quote = "<escape>",
                               .end = "<end_function_call>",
                               .next = ""}},
    [TOOLS_GEMMA] = {"gemma",
                     {.marker = "<|tool_call>",
                      .call = "call:",
                      .name_end = "{",
                      .syntax = ARGUMENTS_GEMMA,
                      .quote = "<|\"|>",
                      .end = "<tool_call|>",
                      .next = ""}},
    [TOOLS_QWEN_XML] = {"qwen-xml",
                        {.marker = "<tool_call>",
                         .space = "\n",
                         .call = "<function=",
                         .name_end = ">\n",
                         .syntax = ARGUMENTS_XML,
                         .quote = "\n</parameter>",
                         .end = "\n</tool_call>",
                         .next = "\n"}},
    [TOOLS_PYTHON] = {"python",
                      {.marker = "<|tool_call_start|>",
                       .brackets = CALLS_LISTED,
                       .call = "",
                       .name_end = "(",
                       .syntax = ARGUMENTS_PYTHON,
                       .quote = "\"",
                       .list_next = ", ",
                       .end = "<|tool_call_end|>"}},
    [TOOLS_PYTHON_LINES] = {"python-lines",
                            {.marker = "<function_calls>",
                             .call = "",
                             .name_end = "(",
                             .syntax = ARGUMENTS_PYTHON,
                             .quote = "\"",
                             .list_next = "\n",
                             .end = "</function_calls>"}},
    [TOOLS_DEEPSEEK] = {"deepseek",
                        {.marker = "<｜tool▁calls▁begin｜>",
                         .call = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                         .name_end = "\n```json\n",
                         .call_end = "\n```<｜tool▁call▁end｜>",
                         .list_next = "\n",
                         .end = "<｜tool▁calls▁end｜>"}},
    [TOOLS_HUNYUAN] = {"hunyuan",
                       {.marker = "<tool_calls>",
                        .call = "<tool_call>",
                        .name_end = "\n```json\n",
                        .call_end = "\n```</tool_call>",
                        .list_next = "\n",
                        .end = "</tool_calls>"}},
    [TOOLS_PHI4] = {"phi4",
                    {.marker = "<|tool_call|>",
                     .arguments = "arguments",
                     .brackets = CALLS_EITHER,
                     .list_next = ", ",
                     .end = "<|/tool_call|>",
                     .next = ""}},
    [TOOLS_FUNCTION] =
        {"function",
         {.marker = "<function=", .call = "", .name_end = ">", .end = "</function>", .next = ""}},
    [TOOLS_NEMOTRON] = {"nemotron",
                        {.marker = "<TOOLCALL>",
                         .brackets = CALLS_LISTED,
                         .arguments = "arguments",
                         .list_next = ", ",
                         .end = "</TOOLCALL>"}},
    [TOOLS_MISTRAL_ID] = {"mistral-id",
                          {.marker = "[TOOL_CALLS]",
                           .call = "",
                           .id = "[CALL_ID]",
                           .name_end = "[ARGS]",
                           .end = "",
                           .next = ""}},
    [TOOLS_XLAM] = {"xlam",
                    {.marker = "[{\"",
                     .arguments = "arguments",
                     .brackets = CALLS_LISTED,
                     .list_next = ", ",
                     .end = "",
                     .at_start = ""}},
    [TOOLS_PYTHONIC] = {"pythonic",
                        {.marker = "[",
                         .call = "",
                         .name_end = "(",
                         .syntax = ARGUMENTS_PYTHON,
                         .quote = "\"",
                         .brackets = CALLS_LISTED,
                         .list_next = ", ",
                         .end = "",
                         .at_start = ""}},
    [TOOLS_FUNCTOOLS] =
        {"functools",
         {.marker = "functools[", .arguments = "arguments", .list_next = ", ", .end = "]"}},
    [TOOLS_PYTHON_BLOCK] = {"python-block",
                            {.marker = "<|tool_call_start|>\n```python\n",
                             .call = "",
                             .name_end = "(",
                             .syntax = ARGUMENTS_PYTHON,
                             .quote = "\"",
                             .comma = ",",
                             .list_next = "\n",
                             .end = "\n```\n<|tool_call_end|>"}},
    [TOOLS_HAMMER] = {"hammer",
                      {.marker = "```\n[{\"",
                       .arguments = "arguments",
                       .brackets = CALLS_LISTED,
                       .list_next = ", ",
                       .end = "\n```",
                       .at_start = "```\n"}},
    [TOOLS_APRIEL] = {"apriel",
                      {.marker = "<tool_calls>[",
                       .arguments = "arguments",
                       .list_next = ", ",
                       .end = "]</tool_calls>"}},
};

const char *smol_tool_style_name(enum tool_style style)
{
    return tool_styles[style].name;
}

const struct tool_style_texts *smol_tool_style_texts(enum tool_style style)
{
    return style == TOOLS_NONE ? NULL : &tool_styles[style].texts;
}
