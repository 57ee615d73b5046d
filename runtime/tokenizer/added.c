/* Finds added tokens, see added.h: the leftmost first, and the longest of those that start
 * there. */
#include "runtime/tokenizer/added.h"

#include <string.h>

#include "common/utf8.h"

/* --- tokens that arguments must not spell ---------------------------------------------------- */

static bool is_special(const struct tokenizer_tables *tables, const struct added_token *token)
{
    return token->flags & ADDED_SPECIAL || tokenizer_span(tables, token->id).flags & TOKEN_SPECIAL;
}

bool smol_added_all_special(const struct tokenizer_tables *tables)
{
    for (uint32_t i = 0; i < tables->header.n_added; i++) {
        struct added_token token = tokenizer_added(tables, i);
        if (!is_special(tables, &token))
            return false;
    }
    return true;
}

static bool is_white(const uint8_t *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        uint32_t code_point;
        i += smol_utf8_decode(text + i, size - i, &code_point);
        if (!smol_utf8_is_space(code_point))
            return false;
    }
    return true;
}

static bool is_literal(const struct mixed_text *mixed, const uint8_t *text, size_t size)
{
    return memmem(mixed->literals, mixed->n_literals, text, size) != NULL;
}

/* Returns whether the template can write the text: verbatim, or around a role. */
static bool can_be_written(const struct mixed_text *mixed, const uint8_t *text, size_t size)
{
    if (is_literal(mixed, text, size))
        return true;
    for (const char *const *role = mixed->roles; role && *role; role++) {
        size_t length = strlen(*role);
        const uint8_t *found = memmem(text, size, *role, length);
        if (found && is_literal(mixed, text, (size_t)(found - text)) &&
            is_literal(mixed, found + length, (size_t)(text + size - found) - length))
            return true;
    }
    return false;
}

bool smol_added_is_control(const struct tokenizer_tables *tables, const struct mixed_text *mixed,
                           const struct added_token *token)
{
    const uint8_t *text = tables->text + token->start;
    return is_special(tables, token) ||
           (!is_white(text, token->length) && can_be_written(mixed, text, token->length));
}

/* Returns the longest token that arguments may spell, among `entry` and the tokens that are a
 * prefix of it, or NO_ENTRY. Caches the result: harmless[i] is 2 + the result for entry i, 1 for
 * NO_ENTRY, or 0 if it is unknown. Each token is checked only once. */
static uint32_t find_harmless(const struct added_search *search, uint32_t entry)
{
    const uint32_t *shorter = search->automaton->shorter;
    uint32_t first = search->automaton->first, found = entry;
    for (; found != NO_ENTRY && !search->harmless[found]; found = shorter[found - first]) {
        struct added_token token = tokenizer_added(search->tables, found);
        if (!smol_added_is_control(search->tables, search->mixed, &token)) {
            search->harmless[found] = 2 + found;
            break;
        }
    }
    uint32_t known = found == NO_ENTRY ? 1 : search->harmless[found];
    for (; entry != found; entry = shorter[entry - first])
        search->harmless[entry] = known;
    return known == 1 ? NO_ENTRY : known - 2;
}

/* --- the tokens at each position ------------------------------------------------------------- */

static void look_up_trusted(struct added_search *search, size_t from)
{
    const struct added_automaton *automaton = search->automaton;
    uint32_t state = 0;
    for (size_t at = from; at-- > search->block;) {
        state = added_step(automaton, state, search->text[at]);
        if (at < search->block_end)
            search->longest[at - search->block] = automaton->states[state].longest;
    }
}

/* Accepts a token if all of its bytes are the template's, or if arguments may spell it. The second
 * state (`own`) reads the template's bytes only, and restarts at each byte of an argument. */
static void look_up_mixed(struct added_search *search, size_t from)
{
    const struct added_automaton *automaton = search->automaton;
    uint32_t state = 0, own = 0;
    for (size_t at = from; at-- > search->block;) {
        uint8_t byte = search->text[at];
        bool argument = search->arguments ? search->arguments[at] : search->argument;
        state = added_step(automaton, state, byte);
        own = argument ? 0 : added_step(automaton, own, byte);
        if (at >= search->block_end)
            continue;
        uint32_t any = find_harmless(search, automaton->states[state].longest);
        uint32_t trusted = automaton->states[own].longest;
        /* one is a prefix of the other; the table lists the prefix first */
        search->longest[at - search->block] =
            any == NO_ENTRY || (trusted != NO_ENTRY && trusted > any) ? trusted : any;
    }
}

/* Looks up the tokens of the block that starts at `at`. No token that starts in the block ends
 * after `from`. */
static void look_up(struct added_search *search)
{
    search->block = search->at;
    size_t left = search->size - search->at, ahead = search->automaton->longest_token;
    search->block_end = search->at + (left < ADDED_BLOCK ? left : ADDED_BLOCK);
    left = search->size - search->block_end;
    size_t from = search->block_end + (left < ahead ? left : ahead);
    (search->mixed ? look_up_mixed : look_up_trusted)(search, from);
}

/* Moves the search to the next position where a token starts and returns that token; length 0: no
 * more tokens, or cancelled. */
static struct added_token next_token(struct added_search *search)
{
    for (; search->at < search->size; search->at++) {
        if (search->at >= search->block_end) {
            if (watch_cancels(search->watch, ADDED_BLOCK))
                break;
            look_up(search);
        }
        uint32_t entry = search->longest[search->at - search->block];
        if (entry == NO_ENTRY)
            continue;
        struct added_token token = tokenizer_added(search->tables, entry);
        if (token.length > 0 && token.length <= search->size - search->at)
            return token;
    }
    return (struct added_token){0};
}

/* --- characters beside a token -------------------------------------------------------------- */

/* Returns the classes of the character at text[at], or 0 at the end of the text. Sets *length to
 * its size in bytes. */
static unsigned classes_at(const struct added_search *search, size_t at, size_t *length)
{
    uint32_t point;
    *length = 0;
    if (at == search->size)
        return 0;
    *length = smol_utf8_decode(search->text + at, search->size - at, &point);
    return tokenizer_classes(search->tables, point);
}

/* Returns the classes of the character that ends at `end`, or 0 if `end` is 0. Sets *length to its
 * size in bytes. */
static unsigned classes_before(const struct added_search *search, size_t end, size_t *length)
{
    size_t start = end;
    *length = 0;
    if (end == 0)
        return 0;
    do
        start--;
    while (start > 0 && end - start < UTF8_MAX && utf8_continues(search->text[start]));
    unsigned classes = classes_at(search, start, length);
    *length = end - start;
    return classes;
}

static bool is_single_word(const struct added_search *search, const struct added_match *match)
{
    size_t length;
    return !(classes_before(search, match->start, &length) & CLASS_WORD) &&
           !(classes_at(search, match->end, &length) & CLASS_WORD);
}

/* Returns the start of the white space that ends at `start`. Stops at the end of the last token,
 * which bounds the work. */
static size_t before_space(const struct added_search *search, size_t start)
{
    size_t length;
    while (start > search->covered && classes_before(search, start, &length) & CLASS_SPACE)
        start -= length;
    return start > search->covered ? start : search->covered;
}

/* Returns the end of the white space that starts at `end`. Remembers the run, so that several
 * tokens in one run do not scan it again. */
static size_t after_space(struct added_search *search, size_t end)
{
    if (end >= search->space_start && end < search->space_end)
        return search->space_end;
    size_t length;
    search->space_start = end;
    while (classes_at(search, end, &length) & CLASS_SPACE)
        end += length;
    search->space_end = end;
    return end;
}

/* --- the search ----------------------------------------------------------------------------- */

static bool is_text(const struct added_search *search, const struct added_token *token)
{
    return search->skip_special && is_special(search->tables, token);
}

bool smol_added_next(struct added_search *search, struct added_match *match)
{
    struct added_token token;
    if (!search->automaton->states)
        return false;
    while ((token = next_token(search)).length > 0) {
        *match = (struct added_match){token.id, search->at, search->at + token.length};
        search->at += token.length;
        if (is_text(search, &token) ||
            (token.flags & ADDED_SINGLE_WORD && !is_single_word(search, match)))
            continue;
        if (token.flags & ADDED_LSTRIP)
            match->start = before_space(search, match->start);
        if (token.flags & ADDED_RSTRIP)
            match->end = after_space(search, match->end);
        if (match->start >= match->end) /* the previous token took all of it */
            match->id = NO_TOKEN;
        search->covered = match->end;
        return true;
    }
    return false;
}
