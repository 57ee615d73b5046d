/* Text from the user, see text.h. */
#include "cli/text.h"

#include <string.h>

#include "common/memory.h"

/* The largest text in bytes. Longer input is a mistake, such as a device that never ends. */
enum { MAX_INPUT = 1 << 30, PIECE = 1 << 14 };

static smol_status read_all(struct input *input, struct buffer *text, smol_error *error)
{
    char piece[PIECE];
    size_t n;
    do {
        smol_status status = smol_input_read_some(input, piece, sizeof piece, &n, error);
        if (status)
            return status;
        if (n > MAX_INPUT - text->size)
            return smol_fail(error, SMOL_ERROR_FILE, "%.300s: longer than %d MiB: shorten it",
                             input->name, MAX_INPUT >> 20);
        smol_buffer_add(text, piece, n);
        if (text->failed)
            return smol_fail(error, SMOL_ERROR_MEMORY, "out of memory for the text: shorten it");
    } while (n > 0);
    return SMOL_OK;
}

smol_status smol_text_read_input(struct input *input, struct text_in *in, smol_error *error)
{
    struct buffer text = {0};
    smol_status status = read_all(input, &text, error);
    smol_input_close(input);
    if (status) {
        smol_free(text.text);
        text = (struct buffer){0};
    }
    const char *start = text.size > 0 ? text.text : "";
    *in = (struct text_in){.text = start, .size = text.size, .owned = text.text};
    return status;
}

smol_status smol_text_read(const char *argument, struct text_in *in, smol_error *error)
{
    if (strcmp(argument, "-") == 0) {
        struct input input;
        smol_status status = smol_input_open(argument, &input, error);
        return status ? status : smol_text_read_input(&input, in, error);
    }
    *in = (struct text_in){.text = argument, .size = strlen(argument)};
    return SMOL_OK;
}
