/* Reads grammars, see front_ends.h.
 *
 * The text is read once to find the rules and check their syntax, without following references.
 * Then the body of a rule is read again when the rule is first referred to, starting with `root`. A
 * rule that is referred to within itself becomes a rule of the table of terms; the others are
 * inserted where they are referred to. References in items that are repeated zero times are not
 * followed.
 *
 * A part with a repetition but without a rule of the table or a unit becomes a unit as soon as it
 * is combined with a part that has one, and at the end of its rule. */
#include "runtime/constrain/front_ends.h"

#include <stdint.h>
#include <string.h>

#include "common/json_reader.h"
#include "common/memory.h"
#include "common/pattern/code_set.h"
#include "common/text.h"
#include "common/utf8.h"

enum {
    GRAMMAR_MAX_RULES = 1 << 12,
    GRAMMAR_MAX_DEPTH = 200, /* nested groups and references */
    GRAMMAR_MAX_COUNT = 1 << 24,
    GRAMMAR_MAX_QUOTE = 40, /* bytes of a name in a message */
};

/* A piece of a rule. */
struct part {
    term texts;
    bool nullable; /* it has the empty string; false if that is not known yet */
    bool repeats;  /* has a repetition, and is not mixed */
    bool mixed;    /* has a unit, or a rule of the table */
};

struct rule {
    const char *name; /* (length), in the grammar */
    size_t length;
    size_t body;    /* position */
    unsigned level; /* among the rules that are being read, from 1; 0: it is not */
    bool done, recursive;
    term rule; /* if recursive */
    struct part part;
};

struct reader {
    struct term_table *table;
    const char *text; /* (size) */
    size_t size, at;
    smol_error *error;
    uint8_t *literal;   /* room for the bytes of a literal, which are fewer than in the grammar */
    bool *omitted;      /* (size + 1): at the start of items that are repeated zero times */
    struct rule *rules; /* (n_rules), sorted by name */
    size_t n_rules, rules_capacity;
    struct part *parts; /* (n_parts): of the sequences and choices that are being read */
    size_t n_parts, parts_capacity;
    bool follows;     /* references are followed, and classes become terms */
    bool omits;       /* but not within an item that is repeated zero times */
    unsigned depth;   /* of groups and references */
    unsigned groups;  /* of the current rule */
    unsigned level;   /* of the current rule */
    unsigned leading; /* rules of this and higher levels may begin at the current position */
};

/* --- messages ------------------------------------------------------------------------------- */

static smol_status refuse(const struct reader *r, size_t at, const char *what, const char *quote,
                          size_t quote_size)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column += !utf8_continues(r->text[i]);
        if (r->text[i] == '\n') {
            line++;
            column = 1;
        }
    }
    const char *mark = quote ? "\"" : "";
    return smol_fail(r->error, SMOL_ERROR_UNSUPPORTED, "grammar: line %zu, column %zu: %s%s%.*s%s",
                     line, column, what, mark,
                     (int)(quote_size < GRAMMAR_MAX_QUOTE ? quote_size : GRAMMAR_MAX_QUOTE),
                     quote ? quote : "", mark);
}

static smol_status unsupported(const struct reader *r, const char *what)
{
    return refuse(r, r->at, what, NULL, 0);
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static size_t name_length(const struct reader *r)
{
    size_t at = r->at;
    while (at < r->size && is_name(r->text[at]))
        at++;
    return at - r->at;
}

/* `what` begins with "expected", and ends with ", found ". */
static smol_status unexpected(const struct reader *r, const char *what)
{
    if (r->at == r->size)
        return refuse(r, r->at, what, "the end", 7);
    uint32_t character;
    size_t n = name_length(r);
    if (n == 0)
        n = smol_utf8_decode((const uint8_t *)r->text + r->at, r->size - r->at, &character);
    return refuse(r, r->at, what, r->text + r->at, n);
}

/* --- the text ------------------------------------------------------------------------------- */

static bool next_is(const struct reader *r, char c)
{
    return r->at < r->size && r->text[r->at] == c;
}

static bool skip(struct reader *r, const char *word)
{
    size_t length = strlen(word);
    if (r->size - r->at < length || memcmp(r->text + r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

static void skip_blanks(struct reader *r)
{
    while (next_is(r, ' ') || next_is(r, '\t'))
        r->at++;
}

/* Skips blanks, ends of lines and comments. */
static void skip_space(struct reader *r)
{
    for (skip_blanks(r); next_is(r, '#') || next_is(r, '\n') || next_is(r, '\r'); skip_blanks(r)) {
        const bool comment = r->text[r->at++] == '#';
        while (comment && r->at < r->size && !next_is(r, '\n') && !next_is(r, '\r'))
            r->at++;
    }
}

/* Returns whether a name is next, and then what stands between the name and the body of a rule. */
static bool starts_rule(const struct reader *r)
{
    struct reader ahead = *r;
    ahead.at += name_length(r);
    skip_blanks(&ahead);
    return name_length(r) > 0 && (next_is(&ahead, ':') || next_is(&ahead, '='));
}

/* Returns whether only blanks are before the current position in its line. */
static bool starts_line(const struct reader *r)
{
    size_t at = r->at;
    while (at > 0 && (r->text[at - 1] == ' ' || r->text[at - 1] == '\t'))
        at--;
    return at == 0 || r->text[at - 1] == '\n' || r->text[at - 1] == '\r';
}

/* --- parts ---------------------------------------------------------------------------------- */

static smol_status push(struct reader *r, struct part part)
{
    if (!GROW(r->parts, r->n_parts, &r->parts_capacity))
        return smol_fail_memory(r->error, "a grammar");
    r->parts[r->n_parts++] = part;
    return SMOL_OK;
}

static void make_unit(const struct reader *r, struct part *part)
{
    if (!part->repeats)
        return;
    part->texts = smol_term_unit(r->table, part->texts);
    part->repeats = false;
    part->mixed = true;
}

/* Combines `part` with the piece before it. */
static void put_before(const struct reader *r, struct part first, struct part *part)
{
    part->texts = smol_term_then(r->table, first.texts, part->texts);
    part->nullable &= first.nullable;
    part->repeats |= first.repeats;
    part->mixed |= first.mixed;
}

/* Replaces the parts from `base` on by their sequence. */
static struct part pop_sequence(struct reader *r, size_t base)
{
    const struct part none = {.texts = TERM_EMPTY, .nullable = true};
    struct part run = none, rest = none; /* the next parts that are not mixed, and what follows */
    while (r->n_parts > base) {
        struct part one = r->parts[--r->n_parts];
        if (one.mixed) {
            make_unit(r, &run);
            put_before(r, run, &rest);
            put_before(r, one, &rest);
            run = none;
        } else {
            put_before(r, one, &run);
        }
    }
    if (rest.mixed)
        make_unit(r, &run);
    put_before(r, run, &rest);
    return rest;
}

/* Replaces the parts from `base` on, of which there are some, by a choice of them. */
static smol_status pop_choice(struct reader *r, size_t base, struct part *choice)
{
    const size_t n = r->n_parts - base;
    struct part *parts = r->parts + base;
    *choice = parts[0];
    r->n_parts = base;
    if (n == 1)
        return SMOL_OK;
    term *texts = smol_reallocarray(NULL, n, sizeof *texts);
    if (!texts)
        return smol_fail_memory(r->error, "a grammar");
    for (size_t i = 1; i < n; i++) {
        choice->nullable |= parts[i].nullable;
        choice->repeats |= parts[i].repeats;
        choice->mixed |= parts[i].mixed;
    }
    for (size_t i = 0; i < n; i++) {
        if (choice->mixed)
            make_unit(r, &parts[i]);
        texts[i] = parts[i].texts;
    }
    choice->repeats &= !choice->mixed;
    choice->texts = smol_term_any_of(r->table, texts, n);
    smol_free(texts);
    return SMOL_OK;
}

/* --- terminals ------------------------------------------------------------------------------ */

/* Reads `n` hexadecimal digits. */
static smol_status read_hex(struct reader *r, unsigned n, uint32_t *value)
{
    *value = 0;
    for (; n > 0; n--, r->at++) {
        char c = r->at < r->size ? r->text[r->at] : 0;
        if (c >= '0' && c <= '9')
            *value = *value << 4 | (uint32_t)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            *value = *value << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
        else
            return unexpected(r, "expected a hexadecimal digit, found ");
    }
    return *value <= LAST_CODE_POINT && (*value < 0xd800 || *value > 0xdfff)
               ? SMOL_OK
               : unsupported(r, "a number that is not a character");
}

/* Reads a character of a literal or a class. */
static smol_status read_character(struct reader *r, uint32_t *character)
{
    static const char escapes[] = "trn\\\"'[]", characters[] = "\t\r\n\\\"'[]";
    if (r->at == r->size)
        return unsupported(r, "a literal or a class without its end");
    if (!skip(r, "\\")) {
        r->at += smol_utf8_decode((const uint8_t *)r->text + r->at, r->size - r->at, character);
        return SMOL_OK;
    }
    if (skip(r, "x"))
        return read_hex(r, 2, character);
    if (skip(r, "u"))
        return read_hex(r, 4, character);
    if (skip(r, "U"))
        return read_hex(r, 8, character);
    const char *escape = r->at < r->size ? strchr(escapes, r->text[r->at]) : NULL;
    if (!escape || !*escape)
        return unexpected(r, "expected an escape, found ");
    *character = (unsigned char)characters[escape - escapes];
    r->at++;
    return SMOL_OK;
}

static smol_status read_literal(struct reader *r, struct part *part)
{
    const char quote = r->text[r->at++];
    size_t n = 0;
    while (!next_is(r, quote)) {
        uint32_t character = 0;
        smol_status status = read_character(r, &character);
        if (status)
            return status;
        n += smol_utf8_encode(character, r->literal + n);
    }
    r->at++;
    part->texts = smol_term_literal(r->table, r->literal, n);
    part->nullable = n == 0;
    return SMOL_OK;
}

/* Reads the members of a class after its "[" or "[^", and its "]". */
static smol_status read_members(struct reader *r, struct code_set *set)
{
    while (!skip(r, "]")) {
        uint32_t first = 0;
        smol_status status = read_character(r, &first);
        uint32_t last = first;
        if (!status && next_is(r, '-') && r->size - r->at > 1 && r->text[r->at + 1] != ']') {
            r->at++;
            status = read_character(r, &last);
        }
        if (status)
            return status;
        if (last < first)
            return unsupported(r, "a range that ends before it starts");
        smol_set_add(set, first, last);
    }
    return set->n == 0 && !set->failed ? unsupported(r, "an empty class") : SMOL_OK;
}

static smol_status read_class(struct reader *r, struct part *part)
{
    struct code_set set = {0};
    r->at++;
    const bool negated = skip(r, "^");
    smol_status status = read_members(r, &set);
    smol_set_settle(&set);
    if (negated)
        smol_set_invert(&set);
    if (!status && set.failed)
        status = smol_fail_memory(r->error, "a grammar");
    if (!status && r->follows)
        part->texts = smol_utf8_term(NULL, r->table, set.ranges, set.n);
    part->nullable = false;
    smol_set_free(&set);
    return status;
}

static smol_status read_regex(struct reader *r, struct part *part)
{
    const size_t start = ++r->at;
    smol_error error;
    for (; !next_is(r, '/'); r->at++) {
        if (r->at < r->size && next_is(r, '\\'))
            r->at++;
        if (r->at >= r->size || next_is(r, '\n'))
            return refuse(r, start, "a regular expression without its /", NULL, 0);
    }
    smol_status status = smol_regex_term(r->table, r->text + start, r->at - start, REGEX_WHOLE,
                                         smol_utf8_term, NULL, &part->texts, &error);
    r->at++;
    part->nullable = false;
    part->repeats = true;
    if (status == SMOL_ERROR_MEMORY)
        return smol_fail_memory(r->error, "a grammar");
    return status ? refuse(r, start, error.message, NULL, 0) : SMOL_OK;
}

/* --- rules ---------------------------------------------------------------------------------- */

/* Finds a rule by its name, or the place for it. */
static bool find(const struct reader *r, const char *name, size_t length, size_t *place)
{
    size_t low = 0, high = r->n_rules;
    int order = 1;
    while (low < high && order != 0) {
        size_t middle = low + (high - low) / 2;
        const struct rule *rule = &r->rules[middle];
        order = compare_texts(rule->name, rule->length, name, length);
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *place = high;
    return order == 0;
}

static smol_status read_choice(struct reader *r, struct part *part);

/* Reads the body of a rule that has not been read. */
static smol_status read_body(struct reader *r, struct rule *rule)
{
    const size_t at = r->at;
    const unsigned groups = r->groups;
    if (r->depth++ == GRAMMAR_MAX_DEPTH)
        return unsupported(r, "nested too deeply");
    r->at = rule->body;
    r->groups = 0;
    rule->level = ++r->level;
    smol_status status = read_choice(r, &rule->part);
    if (status)
        return status;
    make_unit(r, &rule->part);
    if (rule->recursive) {
        smol_term_define(r->table, rule->rule, rule->part.texts);
        rule->part.texts = rule->rule;
        rule->part.mixed = true;
    }
    rule->done = true;
    rule->level = 0;
    r->level--;
    r->depth--;
    r->groups = groups;
    r->at = at;
    return SMOL_OK;
}

static smol_status read_reference(struct reader *r, struct part *part)
{
    const char *name = r->text + r->at;
    const size_t length = name_length(r);
    size_t place;
    smol_status status = SMOL_OK;
    if (r->follows && !find(r, name, length, &place))
        return refuse(r, r->at, "there is no rule ", name, length);
    if (r->follows && !r->omits) {
        struct rule *rule = &r->rules[place];
        if (rule->level >= r->leading && rule->level > 0)
            return refuse(r, r->at, "a rule can begin with itself: ", name, length);
        if (rule->level > 0) {
            if (!rule->recursive)
                rule->rule = smol_term_rule(r->table);
            rule->recursive = true;
            *part = (struct part){.texts = rule->rule, .mixed = true};
        } else {
            status = rule->done ? SMOL_OK : read_body(r, rule);
            *part = rule->part;
        }
    }
    r->at += length;
    return status;
}

/* --- items ---------------------------------------------------------------------------------- */

static smol_status read_group(struct reader *r, struct part *part)
{
    const size_t start = r->at++;
    if (r->depth++ == GRAMMAR_MAX_DEPTH)
        return unsupported(r, "nested too deeply");
    r->groups++;
    smol_status status = read_choice(r, part);
    if (!status && !skip(r, ")"))
        status = r->at == r->size ? refuse(r, start, "a group without its )", NULL, 0)
                                  : unexpected(r, "expected \")\", found ");
    r->groups--;
    r->depth--;
    return status;
}

static smol_status read_atom(struct reader *r, struct part *part)
{
    static const struct code_range all = {0, LAST_CODE_POINT};
    *part = (struct part){.texts = TERM_EMPTY, .nullable = true};
    switch (r->text[r->at]) {
    case '"':
    case '\'':
        return read_literal(r, part);
    case '[':
        return read_class(r, part);
    case '/':
        return read_regex(r, part);
    case '(':
        return read_group(r, part);
    case '.':
        r->at++;
        part->texts = smol_utf8_term(NULL, r->table, &all, 1);
        part->nullable = false;
        return SMOL_OK;
    case '<':
    case '!':
        return unsupported(r, "tokens such as <think> are not supported: write their text");
    case '*':
    case '+':
    case '?':
    case '{':
        return unsupported(r, "nothing to repeat");
    default:
        return name_length(r) ? read_reference(r, part)
                              : unexpected(r, "expected an item of a rule, found ");
    }
}

static smol_status read_number(struct reader *r, uint32_t *number)
{
    const size_t start = r->at;
    *number = 0;
    for (; r->at < r->size && r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++) {
        *number = *number * 10 + (uint32_t)(r->text[r->at] - '0');
        if (*number > GRAMMAR_MAX_COUNT)
            return unsupported(r, "a count that is too large");
    }
    skip_space(r);
    return r->at > start ? SMOL_OK : unexpected(r, "expected a number, found ");
}

/* Reads {m}, {m,} or {m,n} after its "{". */
static smol_status read_counts(struct reader *r, uint32_t *min, uint32_t *max)
{
    skip_space(r);
    smol_status status = read_number(r, min);
    if (status)
        return status;
    *max = *min;
    if (skip(r, ",")) {
        skip_space(r);
        *max = TERM_FOREVER;
        if (!next_is(r, '}') && (status = read_number(r, max)))
            return status;
    }
    if (!skip(r, "}"))
        return unexpected(r, "expected \"}\", found ");
    return *max < *min ? unsupported(r, "a count that ends below its start") : SMOL_OK;
}

/* Reads an item with the repetitions after it. */
static smol_status read_item(struct reader *r, struct part *part)
{
    const bool omits = r->omits;
    bool *omitted = &r->omitted[r->at];
    r->omits |= *omitted;
    smol_status status = read_atom(r, part);
    r->omits = omits;
    for (skip_space(r); !status; skip_space(r)) {
        uint32_t min = 0, max = TERM_FOREVER;
        if (skip(r, "+"))
            min = 1;
        else if (skip(r, "?"))
            max = 1;
        else if (skip(r, "{"))
            status = read_counts(r, &min, &max);
        else if (!skip(r, "*"))
            break;
        *omitted |= max == 0;
        part->texts = smol_term_repeat(r->table, part->texts, min, max);
        part->nullable |= min == 0;
        part->repeats |= max > 1 && !part->mixed;
    }
    return status;
}

static bool ends_sequence(const struct reader *r)
{
    return r->at == r->size || strchr("|);", r->text[r->at]) || (r->groups == 0 && starts_rule(r));
}

static smol_status read_sequence(struct reader *r, struct part *part)
{
    const size_t base = r->n_parts;
    const unsigned leading = r->leading;
    smol_status status = SMOL_OK;
    while (!status && !ends_sequence(r)) {
        status = read_item(r, part);
        if (!status)
            status = push(r, *part);
        if (!status && !part->nullable)
            r->leading = r->level + 1;
    }
    r->leading = leading;
    if (!status)
        *part = pop_sequence(r, base);
    return status;
}

static smol_status read_choice(struct reader *r, struct part *part)
{
    const size_t base = r->n_parts;
    smol_status status;
    do {
        skip_space(r);
        status = read_sequence(r, part);
        if (!status)
            status = push(r, *part);
    } while (!status && skip(r, "|"));
    return status ? status : pop_choice(r, base, part);
}

/* --- the grammar ---------------------------------------------------------------------------- */

static smol_status add_rule(struct reader *r, struct rule rule, size_t at)
{
    size_t place;
    if (find(r, rule.name, rule.length, &place))
        return refuse(r, at, "a second rule ", rule.name, rule.length);
    if (r->n_rules == GRAMMAR_MAX_RULES)
        return refuse(r, at, "too many rules", NULL, 0);
    if (!GROW(r->rules, r->n_rules, &r->rules_capacity))
        return smol_fail_memory(r->error, "a grammar");
    memmove(r->rules + place + 1, r->rules + place, (r->n_rules - place) * sizeof *r->rules);
    r->rules[place] = rule;
    r->n_rules++;
    return SMOL_OK;
}

/* Finds the rules and checks their syntax. */
static smol_status read_rules(struct reader *r)
{
    struct part part;
    bool ended = true; /* by a semicolon */
    for (skip_space(r); r->at < r->size; skip_space(r)) {
        const size_t at = r->at;
        struct rule rule = {.name = r->text + at, .length = name_length(r)};
        if (rule.length == 0)
            return unexpected(r, "expected the name of a rule, found ");
        if (!ended && !starts_line(r))
            return unexpected(r, "expected a new line or \";\", found ");
        r->at += rule.length;
        skip_blanks(r);
        if (!skip(r, "::=") && !skip(r, ":=") && !skip(r, ":") && !skip(r, "="))
            return unexpected(r, "expected \"::=\", found ");
        rule.body = r->at;
        smol_status status = read_choice(r, &part);
        if (status || (status = add_rule(r, rule, at)))
            return status;
        ended = skip(r, ";");
    }
    return SMOL_OK;
}

static smol_status read_grammar(struct reader *r, term *root)
{
    size_t place;
    smol_status status = read_rules(r);
    if (status)
        return status;
    r->follows = true;
    if (!r->rules || !find(r, "root", 4, &place))
        return unsupported(r, "there is no rule \"root\"");
    for (size_t i = 0; !status && i < r->n_rules; i++) {
        struct rule *rule = &r->rules[i == 0 ? place : i - (i <= place)];
        r->leading = 1;
        if (!rule->done)
            status = read_body(r, rule);
    }
    *root = r->rules[place].part.texts;
    return status;
}

smol_status smol_grammar_term(struct term_table *table, const char *text, size_t size, term *root,
                              smol_error *error)
{
    struct reader r = {.table = table, .text = text, .size = size, .error = error};
    const size_t good = smol_utf8_well_formed((const uint8_t *)text, size);
    smol_status status;
    if (size > GRAMMAR_MAX_BYTES)
        status = refuse(&r, 0, "longer than 1 MiB", NULL, 0);
    else if (good < size)
        status = refuse(&r, good, "not UTF-8", NULL, 0);
    else if (!(r.literal = smol_malloc(size + UTF8_MAX)) ||
             !(r.omitted = smol_calloc(size + 1, sizeof *r.omitted)))
        status = smol_fail_memory(error, "a grammar");
    else
        status = read_grammar(&r, root);
    smol_free(r.literal);
    smol_free(r.omitted);
    smol_free(r.rules);
    smol_free(r.parts);
    return status;
}

/* --- choices --------------------------------------------------------------------------------- */

smol_status smol_choices_term(struct term_table *table, const char *list, size_t size, term *root,
                              smol_error *error)
{
    const uint8_t *text = (const uint8_t *)list;
    struct json_reader reader = {
        text, text, text + size, "choices", "not a JSON list of texts", "", SMOL_ERROR_USAGE,
        error};
    bool more = false;
    size_t n = 0;
    char *choice = smol_malloc(size + 1);
    term *terms = smol_reallocarray(NULL, size / 2 + 1, sizeof *terms); /* two quotes each */
    smol_status status =
        choice && terms ? smol_json_check_utf8(&reader) : smol_fail_memory(error, "the choices");
    if (!status)
        status = smol_json_begin(&reader, '[', &more);
    while (!status && more) {
        size_t length;
        status = smol_json_string(&reader, choice, &length);
        if (!status)
            terms[n++] = smol_term_literal(table, choice, length);
        if (!status)
            status = smol_json_more(&reader, ']', &more);
    }
    if (!status)
        *root = smol_term_any_of(table, terms, n);
    smol_free(choice);
    smol_free(terms);
    return status ? status : smol_json_end(&reader);
}
