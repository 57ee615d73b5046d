/* The styles of tool calls, see template_compiler.h. A template contains the texts around a call,
 * either because it renders the calls of earlier turns, or in its instructions to the model. */
#include "convert/template/template_compiler.h"

#include <string.h>

/* A style and the texts that its templates have, and have not. The first match counts. */
static const struct {
    enum tool_style style;
    const char *has[3], *lacks[3];
} styles[] = {
    {TOOLS_MISTRAL_ID, {"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"}, {NULL}},
    {TOOLS_MISTRAL_ARGS, {"[TOOL_CALLS]", "[ARGS]"}, {"[CALL_ID]"}},
    {TOOLS_MISTRAL, {"[TOOL_CALLS]"}, {"[ARGS]", "[CALL_ID]"}},
    {TOOLS_PHI4, {"<|tool_call|>", "<|/tool_call|>"}, {NULL}},
    {TOOLS_GRANITE, {"<|tool_call|>"}, {"<tool_call|>"}},
    {TOOLS_FUNCTION_GEMMA, {"<start_function_call>", "call:", "<escape>"}, {NULL}},
    {TOOLS_COHERE, {"<|START_ACTION|>", "\"tool_name\": \"", "\"parameters\": "}, {NULL}},
    {TOOLS_GEMMA, {"<|tool_call>", "call:", "<|\"|>"}, {NULL}},
    {TOOLS_QWEN_XML, {"<tool_call>", "<function=", "<parameter="}, {NULL}},
    {TOOLS_MINICPM_XML, {"<function name=\"", "<param name=\"", "<![CDATA["}, {NULL}},
    {TOOLS_FUNCTION, {"<function=", "</function>"}, {"<tool_call>", "<parameter="}},
    {TOOLS_DEEPSEEK, {"<｜tool▁calls▁begin｜>", "```json", "tools"}, {NULL}},
    {TOOLS_HUNYUAN, {"<tool_calls>", "<tool_call>", "```json"}, {NULL}},
    {TOOLS_APRIEL, {"<tool_calls>[", "]</tool_calls>", "arguments"}, {NULL}},
    {TOOLS_NEMOTRON, {"<TOOLCALL>[", "]</TOOLCALL>", "arguments"}, {NULL}},
    {TOOLS_PYTHON_LINES, {"<functions>", "<function_calls>", "tool_calls"}, {"<invoke"}},
    {TOOLS_PYTHON_BLOCK, {"<|tool_call_start|>", "```python"}, {NULL}},
    {TOOLS_PYTHON, {"<|tool_call_start|>"}, {"```python"}},
    {TOOLS_PYTHON, {"<|tool_list_start|>"}, {NULL}}, /* only the tools are shown */
    {TOOLS_PYTHON, {"List of tools: [", "keep_past_thinking"}, {NULL}},
    {TOOLS_HERMES, {"<tool_call>", "arguments"}, {"<function=", "<arg_key>", "<tool_calls>"}},
    {TOOLS_XLAM, {"[{\"name\": \"tool_call_name\", \"arguments\": "}, {NULL}},
    {TOOLS_HAMMER, {"```\n[\n    {\"name\": \"func_name1\", \"arguments\": "}, {NULL}},
    {TOOLS_PYTHONIC, {"[func_name1(", "func_name2(", "tool_calls"}, {NULL}},
    {TOOLS_FUNCTOOLS, {"functools[{\"name\"", " in tools "}, {NULL}},
    {TOOLS_LLAMA3, {"\"parameters\": ", "tool_calls", "ipython"}, {"<function=", "<tool_call>"}},
};

static const struct template_text *text_of(const struct template_input *input)
{
    return input->tools.text ? &input->tools : &input->plain;
}

static bool contains(const struct template_text *text, const char *part)
{
    return memmem(text->text, text->size, part, strlen(part)) != NULL;
}

static bool matches(const struct template_text *text, size_t style)
{
    bool match = true;
    for (size_t i = 0; i < 3; i++) {
        const char *has = styles[style].has[i], *lacks = styles[style].lacks[i];
        match = match && (!has || contains(text, has)) && (!lacks || !contains(text, lacks));
    }
    return match;
}

enum tool_style smol_tool_style_find(const struct template_input *input)
{
    for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++)
        if (matches(text_of(input), i))
            return styles[i].style;
    return TOOLS_NONE;
}
