/* API keys, see access.h. */
#include "smolserve/access.h"

#include <stdlib.h>
#include <string.h>

#include "cli/numerals.h"
#include "cli/text.h"

static smol_status fail(const char *file, size_t line, const char *what, smol_error *error)
{
    return smol_fail(error, SMOL_ERROR_USAGE, "%.300s: %s (line %zu)", file, what, line);
}

/* Reads a line, which it changes. */
static smol_status read_line(const char *file, char *text, size_t line, struct keys *keys,
                             smol_error *error)
{
    char *rest, *words[4] = {NULL};
    uint64_t limit = 0;
    size_t n = 0;
    for (char *word = strtok_r(text, " \t\r", &rest); word && n < 4;
         word = strtok_r(NULL, " \t\r", &rest))
        words[n++] = word;
    if (n == 0 || words[0][0] == '#')
        return SMOL_OK;
    if (n < 2 || n > 3)
        return fail(file, line, "expected NAME KEY, or NAME KEY LIMIT", error);
    size_t size = strlen(words[1]);
    if (strlen(words[0]) > KEY_NAME_MAX)
        return fail(file, line, "the name has more than 32 characters", error);
    if (size < KEY_MIN_BYTES || size > KEY_MAX_BYTES)
        return fail(file, line, "the key must have 8 to 128 characters", error);
    if (words[2] && smol_parse_whole("LIMIT", words[2], 1, UINT32_MAX, &limit, NULL))
        return fail(file, line, "LIMIT must be a whole number from 1", error);
    if (keys->n == KEYS_MAX)
        return fail(file, line, "more than 1024 keys", error);
    struct key *key = &keys->items[keys->n];
    memcpy(key->name, words[0], strlen(words[0]) + 1);
    memcpy(key->secret, words[1], size);
    key->limit = (unsigned)limit;
    for (size_t i = 0; i < keys->n; i++)
        if (memcmp(keys->items[i].secret, key->secret, KEY_MAX_BYTES) == 0)
            return fail(file, line, "the key appears twice", error);
    keys->n++;
    return SMOL_OK;
}

smol_status smol_keys_read(struct input *file, struct keys *keys, smol_error *error)
{
    struct text_in in;
    const char *name = file->name;
    *keys = (struct keys){0};
    smol_status status = smol_text_read_input(file, &in, error);
    if (status)
        return status;
    char *copy = calloc(1, in.size + 1), *end = copy;
    keys->items = calloc(KEYS_MAX, sizeof *keys->items);
    if (!copy || !keys->items)
        status = smol_fail_memory(error, "the API keys");
    else if (in.size)
        memcpy(copy, in.text, in.size);
    for (size_t line = 1; !status && end; line++) {
        char *start = end;
        end = strchr(start, '\n');
        if (end)
            *end++ = '\0';
        status = read_line(name, start, line, keys, error);
    }
    if (!status && keys->n == 0)
        status =
            smol_fail(error, SMOL_ERROR_USAGE, "%.300s: has no keys: add lines NAME KEY", name);
    if (copy)
        explicit_bzero(copy, in.size);
    free(copy);
    free(in.owned);
    return status;
}

void smol_keys_free(struct keys *keys)
{
    free(keys->items);
    *keys = (struct keys){0};
}

/* Compares all bytes of all keys. */
size_t smol_keys_find(const struct keys *keys, const char *secret)
{
    unsigned char given[KEY_MAX_BYTES] = {0};
    size_t found = 0;
    size_t size = secret ? strlen(secret) : 0;
    if (size < KEY_MIN_BYTES || size > KEY_MAX_BYTES)
        return 0;
    for (size_t i = 0; i < size; i++)
        given[i] = (unsigned char)secret[i];
    for (size_t i = 0; i < keys->n; i++) {
        unsigned difference = 0;
        for (size_t j = 0; j < KEY_MAX_BYTES; j++)
            difference |= given[j] ^ keys->items[i].secret[j];
        size_t equal = (size_t)((difference - 1u) >> 8 & 1u); /* 1 if there is no difference */
        found |= (0 - equal) & (i + 1);
    }
    return found;
}
