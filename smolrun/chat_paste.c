/* What is pasted, see chat_paste.h. */
#include "smolrun/chat_paste.h"

#include "cli/text.h"
#include "common/memory.h"
#include "smolrun/chat_input.h"

enum { END_SIZE = sizeof PASTE_END - 1 };

bool smol_paste_add(struct paste *paste, char byte)
{
    bool goes_on = byte == PASTE_END[paste->matched];
    paste->matched = goes_on ? paste->matched + 1 : byte == PASTE_END[0];
    if (paste->size++ < MAX_MESSAGE + END_SIZE)
        smol_buffer_add(&paste->bytes, &byte, 1);
    if (paste->matched < END_SIZE)
        return false;
    paste->size -= END_SIZE;
    paste->too_long = paste->size > MAX_MESSAGE;
    if (!paste->too_long && !paste->bytes.failed)
        paste->bytes.size = paste->size;
    return true;
}

static bool is_break(uint8_t byte)
{
    return byte == '\r' || byte == '\n';
}

static bool is_control_character(uint32_t character)
{
    return (character < 0x20 && character != '\t') || (character >= 0x7f && character < 0xa0);
}

wchar_t *smol_paste_text(const struct paste *paste)
{
    const uint8_t *bytes = (const uint8_t *)paste->bytes.text;
    size_t size = paste->bytes.size, n = 0;
    wchar_t *text = smol_reallocarray(NULL, size + 1, sizeof *text);
    if (!text)
        return NULL;
    for (size_t i = 0; i < size;) {
        uint32_t character;
        size_t length = smol_utf8_decode(bytes + i, size - i, &character);
        if (is_break(bytes[i])) {
            /* two that differ are one: CR LF, or LF CR where the terminal exchanges them */
            length += i + 1 < size && is_break(bytes[i + 1]) && bytes[i + 1] != bytes[i];
            text[n++] = L'\n';
        } else if (!is_control_character(character)) {
            text[n++] = (wchar_t)character;
        }
        i += length;
    }
    text[n] = L'\0';
    return text;
}
