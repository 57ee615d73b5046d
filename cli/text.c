/* Text from the user, see text.h. */
#include "cli/text.h"

#include <stdlib.h>
#include <string.h>

/* The largest text in bytes. Longer input is a mistake, such as a device that never ends. */
enum { MAX_INPUT = 1 << 30, FIRST_READ = 1 << 16 };

static smol_status no_memory(smol_error *error)
{
    return smol_fail(error, SMOL_ERROR_MEMORY, "out of memory for the text: shorten it");
}

/* Doubles in->owned when it is full. */
static smol_status make_room(struct text_in *in, size_t *capacity, const char *name,
                             smol_error *error)
{
    if (in->size < *capacity)
        return SMOL_OK;
    if (in->size >= MAX_INPUT)
        return smol_fail(error, SMOL_ERROR_FILE, "%.300s: longer than %d MiB: shorten it", name,
                         MAX_INPUT >> 20);
    size_t wanted = *capacity ? *capacity * 2 : FIRST_READ;
    char *text = realloc(in->owned, wanted);
    if (!text)
        return no_memory(error);
    in->owned = text;
    *capacity = wanted;
    return SMOL_OK;
}

static smol_status read_all(struct input *input, struct text_in *in, smol_error *error)
{
    size_t capacity = 0, n;
    do {
        smol_status status = make_room(in, &capacity, input->name, error);
        if (!status)
            status =
                smol_input_read_some(input, in->owned + in->size, capacity - in->size, &n, error);
        if (status)
            return status;
        in->size += n;
    } while (n > 0);
    return SMOL_OK;
}

smol_status smol_text_read_input(struct input *input, struct text_in *in, smol_error *error)
{
    *in = (struct text_in){0};
    smol_status status = read_all(input, in, error);
    smol_input_close(input);
    if (status) {
        free(in->owned);
        *in = (struct text_in){0};
    }
    in->text = in->owned;
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
