/* A conversation, see conversation.h. */
#include "tests/fuzz/conversation.h"

#include <time.h>

#include "common/utf8.h"
#include "runtime/chat.h"
#include "tests/fuzz/fuzz.h"

/* Half of the templates continue the last message. */
void fuzz_converse(const struct template_code *code)
{
    const bool continues = code->header.n_operations % 2;
    static const struct tm now = {.tm_year = 126, .tm_mon = 10, .tm_mday = 9};
    const smol_chat_params params = {
        .messages_json =
            "[{\"role\": \"system\", \"content\": \" Be kind. \"}, {\"role\": \"user\", "
            "\"content\": \"\\u00c4 <s> it's\\n\"}, {\"role\": \"assistant\", \"content\": "
            "\"\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": "
            "{\"a\": [1, -2.5, null, true]}}}]}]",
        .tools_json = "[{\"function\": {\"name\": \"f\"}}]",
        .variables_json = "{\"x\": {\"y\": [1, \"z\"]}, \"n\": 3}",
        .add_generation_prompt = !continues,
        .continue_final_message = continues,
        .now = &now,
    };
    smol_chat_text text;
    smol_error error;
    if (smol_chat_run(code, &params, &text, &error))
        return;
    CLAIM(smol_utf8_well_formed((const uint8_t *)text.text, text.size) == text.size);
    for (size_t i = 0; i < text.size; i++)
        CLAIM(text.from_conversation[i] <= 1);
    smol_chat_text_free(&text);
}
