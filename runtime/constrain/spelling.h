/* How the values of a schema are written: as JSON, or as the arguments of a call in the style of a
 * model that writes them otherwise. */
#ifndef SMOL_RUNTIME_SPELLING_H
#define SMOL_RUNTIME_SPELLING_H

#include "runtime/constrain/json_terms.h"

/* Types of values. */
enum {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_FRACTION = 8, /* a number that is no integer */
    TYPE_STRING = 16,
    TYPE_LIST = 32,
    TYPE_OBJECT = 64,
    TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
    TYPE_ANY = 127,
};

enum text_kind {
    TEXT_JSON,   /* JSON's characters and escapes */
    TEXT_STRING, /* any characters as they are, as long as they do not contain `until` */
    TEXT_NAME,   /* at least one of name_characters, as they are */
    TEXT_WORD,   /* as TEXT_STRING, but nothing that smol_spelling_is_value takes for a value */
};

/* A string, or the name of a property. */
struct text_spelling {
    enum text_kind kind;
    const char *open, *close; /* before and after it; special tokens as in trie.h */
    const char *until;
    const char *section, *section_end; /* see smol_spelling_sections; may be NULL */
};

enum word_spelling { WORDS_JSON, WORDS_BOTH }; /* JSON's, or Python's too */

/* Before the first element of a list or an object, between two, and after the last. */
struct brackets {
    const char *open, *comma, *close;
};

struct spelling {
    unsigned only; /* types that can be written; 0: all */
    struct text_spelling string, key;
    struct brackets object, list;
    const char *colon, *after; /* between a key and its value, after the value */
    enum word_spelling words;  /* null, false and true */
    bool sorted;               /* named properties come in the order of their names */
    bool is_json;
    unsigned within;  /* level of values within an object or a list */
    unsigned strings; /* if not 0, level of properties that smol_spelling_is_string names */
};

/* Returns the spelling of JSON, without the lines of JSON_INDENTED. */
const struct spelling *smol_json_spelling(enum json_space white_space);

/* Returns whether a text can be written. */
bool smol_spelling_has(const struct text_spelling *spelling, struct json_text text);

/* Returns whether a text between markers that strings share with other values is a number, null,
 * false or true, in JSON or Python, or begins like a list or an object. */
bool smol_spelling_is_value(struct json_text text);

/* Returns whether the schema of arguments says that a property is a string: it is then written as
 * one, whatever its characters are. */
bool smol_spelling_is_string(const struct json_node *schema, struct json_text name);

/* Returns null, false or true for a word of JSON or Python that means it, otherwise NULL. */
const char *smol_spelling_find_word(struct json_text text);

/* Returns the texts that can be written, for other kinds than TEXT_JSON: regular. */
term smol_spelling_all(struct term_table *table, const struct text_spelling *spelling);

/* Returns texts, which may be in sections if the spelling has these; those with <, & or a line feed
 * must. */
term smol_spelling_sections(struct term_table *table, const struct text_spelling *spelling,
                            term texts);

/* Returns a text with what delimits it. */
term smol_spelling_literal(struct term_table *table, const struct text_spelling *spelling,
                           struct json_text text);

/* Returns JSON_NULL, JSON_FALSE or JSON_TRUE. */
term smol_spelling_word(struct term_table *table, enum word_spelling words, enum json_kind word);

/* Returns < 0, 0 or > 0: the order of names where they are sorted, that of Jinja's dictsort. Names
 * that differ only in case, which dictsort leaves as they are, come in the order of their bytes. */
int smol_spelling_compare(struct json_text a, struct json_text b);

#endif
