/* Spellings of values, see spelling.h. */
#include "runtime/constrain/spelling.h"

#include <string.h>

#include "common/utf8.h"
#include "runtime/constrain/json_terms.h"

#define JSON_STRINGS                                                                               \
    {                                                                                              \
        .kind = TEXT_JSON, .open = "\"", .close = "\""                                             \
    }

static const struct spelling compact = {.string = JSON_STRINGS,
                                        .key = JSON_STRINGS,
                                        .object = {"{", ",", "}"},
                                        .list = {"[", ",", "]"},
                                        .colon = ":",
                                        .after = "",
                                        .is_json = true};
static const struct spelling spaced = {.string = JSON_STRINGS,
                                       .key = JSON_STRINGS,
                                       .object = {"{", ", ", "}"},
                                       .list = {"[", ", ", "]"},
                                       .colon = ": ",
                                       .after = "",
                                       .is_json = true};

const struct spelling *smol_json_spelling(enum json_space white_space)
{
    return white_space == JSON_COMPACT ? &compact : &spaced;
}

/* Characters of names that have no quotes: none that the styles put around names or values. */
static const struct code_range name_characters[] = {
    {' ', '!'}, {'#', '&'}, {'*', '+'}, {'-', '9'},     {'?', 'Z'},        {'\\', '\\'},
    {'^', 'z'}, {'|', '|'}, {'~', '~'}, {0xa0, 0xd7ff}, {0xe000, 0x10ffff}};

enum { N_NAME_CHARACTERS = sizeof name_characters / sizeof *name_characters };

static const char words[][2][6] = {{"null", "None"}, {"false", "False"}, {"true", "True"}};

static size_t skip_digits(struct json_text text, size_t i)
{
    while (i < text.size && text.at[i] >= '0' && text.at[i] <= '9')
        i++;
    return i;
}

/* Returns whether a text is a number of JSON. */
static bool is_number(struct json_text text)
{
    size_t start = text.size > 0 && text.at[0] == '-', i = skip_digits(text, start);
    if (i == start || (text.at[start] == '0' && i > start + 1))
        return false;
    if (i < text.size && text.at[i] == '.') {
        start = ++i;
        i = skip_digits(text, i);
        if (i == start)
            return false;
    }
    if (i < text.size && (text.at[i] == 'e' || text.at[i] == 'E')) {
        i++;
        i += i < text.size && (text.at[i] == '+' || text.at[i] == '-');
        start = i;
        i = skip_digits(text, i);
        if (i == start)
            return false;
    }
    return i == text.size;
}

const char *smol_spelling_find_word(struct json_text text)
{
    for (size_t i = 0; i < 6; i++)
        if (json_text_is(text, words[i / 2][i % 2]))
            return words[i / 2][0];
    return NULL;
}

bool smol_spelling_is_value(struct json_text text)
{
    return smol_spelling_find_word(text) ||
           (text.size > 0 && (text.at[0] == '[' || text.at[0] == '{')) || is_number(text);
}

bool smol_spelling_is_string(const struct json_node *schema, struct json_text name)
{
    const struct json_node *own = smol_json_find(smol_json_get(schema, "properties"), name);
    const struct json_node *type = smol_json_get(own, "type");
    return type && type->kind == JSON_STRING && json_text_is(type->text, "string");
}

/* The texts for which smol_spelling_is_value holds. */
static term values(struct term_table *table, term any)
{
    struct byte_set brackets = {{0}};
    term all = smol_json_number_term(table);
    byte_set_add(&brackets, '[', '[');
    byte_set_add(&brackets, '{', '{');
    for (enum json_kind word = JSON_NULL; word <= JSON_TRUE; word++)
        all = smol_term_either(table, all, smol_spelling_word(table, WORDS_BOTH, word));
    return smol_term_either(table, all,
                            smol_term_then(table, smol_term_bytes(table, &brackets), any));
}

bool smol_spelling_has(const struct text_spelling *spelling, struct json_text text)
{
    bool has = spelling->kind != TEXT_NAME || text.size > 0;
    if (spelling->kind == TEXT_STRING || spelling->kind == TEXT_WORD)
        return !memmem(text.at, text.size, spelling->until, strlen(spelling->until)) &&
               !(spelling->kind == TEXT_WORD && smol_spelling_is_value(text));
    for (size_t i = 0; has && spelling->kind == TEXT_NAME && i < text.size;) {
        uint32_t code_point;
        i += smol_utf8_decode((const uint8_t *)text.at + i, text.size - i, &code_point);
        has = code_ranges_have(name_characters, N_NAME_CHARACTERS, code_point);
    }
    return has;
}

term smol_spelling_all(struct term_table *table, const struct text_spelling *spelling)
{
    static const struct code_range every = {0, 0x10ffff};
    if (spelling->kind == TEXT_NAME)
        return smol_term_repeat(table,
                                smol_utf8_term(NULL, table, name_characters, N_NAME_CHARACTERS), 1,
                                TERM_FOREVER);
    term any = smol_term_repeat(table, smol_utf8_term(NULL, table, &every, 1), 0, TERM_FOREVER);
    term until = smol_term_literal(table, spelling->until, strlen(spelling->until));
    term without = smol_term_then(table, any, smol_term_then(table, until, any));
    if (spelling->kind == TEXT_WORD)
        without = smol_term_either(table, without, values(table, any));
    return smol_term_without(table, any, without);
}

term smol_spelling_sections(struct term_table *table, const struct text_spelling *spelling,
                            term texts)
{
    static const struct code_range plain[] = {
        {0, '\n' - 1}, {'\n' + 1, '&' - 1}, {'&' + 1, '<' - 1}, {'<' + 1, 0x10ffff}};
    if (!spelling->section)
        return texts;
    term without = smol_term_repeat(table, smol_utf8_term(NULL, table, plain, 4), 0, TERM_FOREVER);
    term open = smol_term_literal(table, spelling->section, strlen(spelling->section));
    term close = smol_term_literal(table, spelling->section_end, strlen(spelling->section_end));
    term section = smol_term_then(table, open, smol_term_then(table, texts, close));
    return smol_term_either(table, smol_term_both(table, texts, without), section);
}

term smol_spelling_literal(struct term_table *table, const struct text_spelling *spelling,
                           struct json_text text)
{
    if (spelling->kind == TEXT_JSON)
        return smol_json_literal_term(table, text);
    term open = smol_term_literal(table, spelling->open, strlen(spelling->open));
    term close = smol_term_literal(table, spelling->close, strlen(spelling->close));
    term whole =
        smol_spelling_sections(table, spelling, smol_term_literal(table, text.at, text.size));
    return smol_term_then(table, open, smol_term_then(table, whole, close));
}

term smol_spelling_word(struct term_table *table, enum word_spelling spelling, enum json_kind word)
{
    term json = smol_term_literal(table, words[word][0], strlen(words[word][0]));
    if (spelling == WORDS_JSON)
        return json;
    term python = smol_term_literal(table, words[word][1], strlen(words[word][1]));
    return smol_term_either(table, json, python);
}

int smol_spelling_compare(struct json_text a, struct json_text b)
{
    size_t least = a.size < b.size ? a.size : b.size;
    for (size_t i = 0; i < least; i++) {
        uint8_t x = (uint8_t)a.at[i], y = (uint8_t)b.at[i];
        x |= x >= 'A' && x <= 'Z' ? 0x20 : 0;
        y |= y >= 'A' && y <= 'Z' ? 0x20 : 0;
        if (x != y)
            return x < y ? -1 : 1;
    }
    if (a.size != b.size)
        return a.size < b.size ? -1 : 1;
    return least ? memcmp(a.at, b.at, least) : 0;
}
