/* Text that the user gives, see text_in.h. */
#include "smolrun/text_in.h"

#include <stdlib.h>
#include <string.h>

#include "cli/input.h"
#include "cli/print.h"

/* More text than this is a mistake, such as a device that never ends. */
enum { MAX_INPUT = 1 << 30, FIRST_READ = 1 << 16 };

static smol_status no_memory(smol_error *error)
{
    return smol_fail(error, SMOL_ERROR_MEMORY, "out of memory for the text: give less");
}

/* Doubles in->owned when it is full. */
static smol_status make_room(struct text_in *in, size_t *capacity, const char *name,
                             smol_error *error)
{
    if (in->size < *capacity)
        return SMOL_OK;
    if (in->size >= MAX_INPUT)
        return smol_fail(error, SMOL_ERROR_FILE, "%.300s: longer than %d MiB: give less", name,
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

smol_status smol_text_read_file(const char *path, struct text_in *in, smol_error *error)
{
    struct input input;
    *in = (struct text_in){0};
    smol_status status = smol_input_open(path, &input, error);
    if (!status)
        status = read_all(&input, in, error);
    smol_input_close(&input);
    if (status)
        free(in->owned);
    in->text = in->owned;
    return status;
}

smol_status smol_text_read(const char *argument, struct text_in *in, smol_error *error)
{
    if (strcmp(argument, "-") == 0)
        return smol_text_read_file(argument, in, error);
    *in = (struct text_in){.text = argument, .size = strlen(argument)};
    return SMOL_OK;
}

/* Reads the number at *text, which starts with a digit, and moves *text behind it; numbers that
 * are too large end up at UINT32_MAX, which is no id. */
static uint32_t read_id(const char **text, const char *end)
{
    uint64_t id = 0;
    for (; *text < end && **text >= '0' && **text <= '9'; ++*text) {
        id = id * 10 + (uint64_t)(**text - '0');
        id = id > UINT32_MAX ? UINT32_MAX : id;
    }
    return (uint32_t)id;
}

static smol_status parse_ids(const struct text_in *in, uint32_t vocab_size, uint32_t *ids,
                             size_t *n, smol_error *error)
{
    const char *text = in->text, *end = in->text + in->size;
    for (*n = 0;; ++*n) {
        while (text < end && (strchr(" \t\r\n,", *text) && *text))
            text++;
        if (text == end)
            return SMOL_OK;
        if (*text < '0' || *text > '9')
            return smol_fail(error, SMOL_ERROR_USAGE,
                             "token ids: \"%.*s\" is not one: give numbers with spaces",
                             (int)(end - text < 16 ? end - text : 16), text);
        ids[*n] = read_id(&text, end);
        if (ids[*n] >= vocab_size)
            return smol_fail(error, SMOL_ERROR_USAGE,
                             "token id %zu of the list: the vocabulary has only %u", *n + 1,
                             vocab_size);
    }
}

smol_status smol_text_ids(const char *argument, uint32_t vocab_size, uint32_t **ids, size_t *n,
                          smol_error *error)
{
    struct text_in in;
    *ids = NULL;
    smol_status status = smol_text_read(argument, &in, error);
    if (status)
        return status;
    *ids = calloc(in.size / 2 + 1, sizeof **ids); /* an id takes two characters, but the last */
    status = *ids ? parse_ids(&in, vocab_size, *ids, n, error) : no_memory(error);
    free(in.owned);
    if (status) {
        free(*ids);
        *ids = NULL;
    }
    return status;
}

smol_status smol_text_prompt(const char *argument, const smol_model *model, uint32_t **ids,
                             size_t *n, smol_error *error)
{
    struct text_in in;
    *ids = NULL;
    smol_status status = smol_text_read(argument, &in, error);
    if (status)
        return status;
    status = smol_text_prompt_ids(in.text, in.size, model, ids, n, error);
    free(in.owned);
    return status;
}

smol_status smol_text_prompt_ids(const char *text, size_t size, const smol_model *model,
                                 uint32_t **ids, size_t *n, smol_error *error)
{
    smol_status status =
        smol_tokenize(model, text, size,
                      &(smol_tokenize_params){.parse_special = 1, .whole_text = 1}, ids, n, error);
    if (status || *n > 0)
        return status;
    uint32_t bos = smol_model_get_info(model).bos_id;
    if (bos == SMOL_NO_TOKEN)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "the prompt is empty and the model has no bos token to start from:"
                         " give some text");
    free(*ids);
    *ids = malloc(sizeof **ids);
    if (!*ids)
        return no_memory(error);
    (*ids)[0] = bos;
    *n = 1;
    return SMOL_OK;
}
