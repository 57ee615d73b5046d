/* Tools: a list of them as a term, and an answer read for calls. An input is a byte that chooses
 * the style and the way to choose tools, the list, a 0, and the answer. */
#include "common/buffer.h"
#include "runtime/constrain/front_ends.h"
#include "runtime/model.h"
#include "tests/fuzz/constraint.h"

enum { MAX_INPUT = 2048 };

static void build_term(enum tool_style style, unsigned way, const uint8_t *list, size_t size)
{
    static const char *const choices[] = {NULL, "none", "required", "f"};
    const struct tokenizer_tables no_tokens = {0};
    struct term_table *table;
    smol_error error;
    struct answer_terms answer;
    if (smol_terms_create(&table, &error))
        return;
    uint8_t *text = exact_copy(list, size);
    const smol_constraint_params params = {
        .text = (const char *)text,
        .size = size,
        .tool_choice = choices[way % 4],
        .one_call = way / 4 % 2 != 0,
    };
    if (smol_tools_term(table, &no_tokens, smol_tool_style_texts(style), &params, TERM_NOTHING,
                        &answer, &error))
        smol_terms_free(table);
    else
        follow_text(table, answer.whole, size > 0 ? list[size - 1] : 0);
    free(text);
}

/* Writes the parts of an answer as one text: a mark between parts that differ. */
struct parts {
    struct buffer text;
    int last;
};

static int note(void *user, smol_tool_part part, const char *text, size_t size)
{
    struct parts *parts = user;
    if (part == SMOL_TOOL_CALL || part == SMOL_TOOL_CALL_END || (int)part != parts->last)
        smol_buffer_print(&parts->text, "<%d>", (int)part);
    parts->last = (int)part;
    smol_buffer_add(&parts->text, text, size);
    return 0;
}

static struct parts read_answer(const smol_model *model, const char *tools, const uint8_t *answer,
                                size_t size, size_t piece)
{
    struct parts parts = {.last = -1};
    smol_tool_reader *reader;
    smol_error error;
    if (smol_tool_reader_create(model, tools, note, &parts, &reader, &error))
        return parts;
    if (size % 2)
        smol_tool_reader_calls_first(reader);
    for (size_t i = 0; i < size; i += piece) {
        size_t n = piece < size - i ? piece : size - i;
        uint8_t *part = exact_copy(answer + i, n);
        CLAIM(smol_tool_reader_add(reader, (const char *)part, n, &error) == SMOL_OK);
        free(part);
    }
    CLAIM(smol_tool_reader_end(reader, &error) == SMOL_OK);
    smol_tool_reader_free(reader);
    return parts;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > MAX_INPUT)
        return 0;
    enum tool_style style = 1 + data[0] % (N_TOOL_STYLES - 1);
    const uint8_t *list = data + 1, *end = memchr(list, 0, size - 1);
    size_t n_list = end ? (size_t)(end - list) : size - 1;
    const uint8_t *answer = end ? end + 1 : list + n_list;
    size_t n_answer = size - (size_t)(answer - data);
    build_term(style, data[0] / (N_TOOL_STYLES - 1), list, n_list);
    smol_model model = {.blob = {.template_section = data, .template.header.tool_style = style}};
    char *tools = strndup((const char *)list, n_list);
    CLAIM(tools);
    struct parts whole = read_answer(&model, tools, answer, n_answer, n_answer + 1);
    struct parts bytes = read_answer(&model, tools, answer, n_answer, 1);
    free(tools);
    CLAIM(whole.text.size == bytes.text.size);
    CLAIM(whole.text.size == 0 || memcmp(whole.text.text, bytes.text.text, whole.text.size) == 0);
    smol_free(whole.text.text);
    smol_free(bytes.text.text);
    return 0;
}
