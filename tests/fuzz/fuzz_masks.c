/* Masks of tokens. An input is the kind of constraint, a byte of options, among them reasoning
 * before it, and the constraint's text; a random text is followed. The vocabulary has all bytes,
 * and tokens that cross the boundaries of characters, strings and members. */
#include "common/hash.h"
#include "runtime/constrain/front_ends.h"
#include "runtime/constrain/mask.h"
#include "runtime/tokenizer/tokenizer.h"
#include "tests/fuzz/constraint.h"

enum { MAX_TEXT = 1024, MAX_STEPS = 24, N_BYTES = 255 /* 0xff is in no text */ };

static const char *const words[] = {
    "\"",
    "\"",
    "{\"",
    "\"}",
    "\":",
    "\": ",
    "\":\"",
    "\",\"",
    "\", \"",
    "[\"",
    "\"]",
    "[[",
    "]]",
    "]}",
    "}}",
    "},",
    "}, {",
    "[]",
    "{}",
    ", ",
    ",\n  ",
    "\n",
    "\n  \"",
    "true",
    "false",
    "null",
    "tr",
    "ue",
    "True",
    "None",
    "00",
    "000",
    "12",
    "1.",
    ".5",
    "-1",
    "e+",
    "1e",
    "0.0",
    "2024",
    "-02-",
    ":00",
    "T1",
    "aa",
    "ab",
    "abc",
    "aaaa",
    "bbb",
    "\"a",
    "a\"",
    "a\":",
    "b\",",
    "\\",
    "\\\"",
    "\\\\",
    "\\u",
    "\\u0",
    "\\u00",
    "\\u0061",
    "\\ud8",
    "\\ud83d",
    "\\ude00",
    "\\n\"",
    "\303",
    "\303\251",
    "\251",
    "\360\237",
    "\230\200",
    "\237\230",
    "\360\237\230\200",
    "\251\"",
    "a\303",
    " a",
    "  ",
    "    ",
    " the",
    "name",
    "\"name\"",
    "\"name\": \"",
    "arguments",
    "\", \"arguments\": {",
    "f",
    "call:f{",
    "f(",
    "x=",
    "x:",
    ")]",
    "=\"",
    "[f",
    "<function",
    "=f>\n",
    "</",
    "</function>",
    "<parameter=x>\n",
    "\n</parameter>\n",
    "<|",
    "|>",
    "<|\"|>",
    "<escape>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "abababababababababab",
    "\"aaaaaaaaaaaaaaaaaaaa\"",
}; /* and special ones: */
static const char *const special[] = {
    "<tool_call>",         "</tool_call>",      "[TOOL_CALLS]", "[ARGS]",
    "<|tool_call|>",       "<|tool_call>",      "<tool_call|>", "<|\"|>",
    "<|tool_call_start|>", "<|tool_call_end|>", "<|end|>"};

enum {
    N_WORDS = sizeof words / sizeof *words,
    N_SPECIAL = sizeof special / sizeof *special,
    N_TOKENS = N_BYTES + N_WORDS + N_SPECIAL,
};

struct vocabulary {
    struct tokenizer_tables tables;
    struct token_span spans[N_TOKENS];
    uint8_t text[4096];
    struct trie trie;
    struct any_string_fit strings;
};

static void add_token(struct vocabulary *v, const char *text, size_t size, uint16_t flags)
{
    struct token_span *span = &v->spans[v->tables.header.n_tokens++];
    size_t start = v->tables.header.n_text_bytes;
    CLAIM(start + size <= sizeof v->text);
    memcpy(v->text + start, text, size);
    *span = (struct token_span){.start = (uint32_t)start, .length = (uint16_t)size, .flags = flags};
    v->tables.header.n_text_bytes += (uint32_t)size;
}

/* Returns the vocabulary, kept from one input to the next. */
static struct vocabulary *find_vocabulary(void)
{
    static struct vocabulary v;
    if (v.tables.header.n_tokens)
        return &v;
    for (unsigned i = 0; i < N_BYTES; i++)
        add_token(&v, &(const char){(char)i}, 1, 0);
    for (size_t i = 0; i < N_WORDS; i++)
        add_token(&v, words[i], strlen(words[i]), 0);
    for (size_t i = 0; i < N_SPECIAL; i++)
        add_token(&v, special[i], strlen(special[i]), TOKEN_SPECIAL);
    v.tables.spans = v.spans;
    v.tables.text = v.text;
    CLAIM(!smol_trie_make(&v.tables, N_TOKENS, &v.trie, NULL));
    smol_any_string_init(&v.strings);
    return &v;
}

static smol_status build(struct term_table *table, const struct vocabulary *v, unsigned kind,
                         unsigned options, const char *text, size_t size,
                         struct answer_terms *answer)
{
    static const char *const choices[] = {NULL, "none", "required", "f"};
    const struct schema_options schema = {(enum json_space)(options % 3), options / 3 % 2, NULL};
    const smol_constraint_params tools = {.text = text,
                                          .size = size,
                                          .tool_choice = choices[options % 4],
                                          .one_call = options / 4 % 2 != 0,
                                          .answer_schema = options / 8 % 2 ? "{}" : NULL};
    smol_error error;
    term *root = &answer->whole;
    switch (kind) {
    case 0:
        return smol_schema_term(table, text, size, &schema, root, &error);
    case 1:
        return smol_regex_term(table, text, size, REGEX_WHOLE, smol_utf8_term, NULL, root, &error);
    case 2:
        return smol_grammar_term(table, text, size, root, &error);
    case 3:
        return smol_choices_term(table, text, size, root, &error);
    default:
        return smol_tools_term(table, &v->tables,
                               smol_tool_style_texts((enum tool_style)(kind - 3)), &tools,
                               smol_term_literal(table, "[]", 2), answer, &error);
    }
}

/* Puts reasoning before the answer, or not. */
static void add_reasoning(struct term_table *table, const struct vocabulary *v, unsigned options,
                          struct answer_terms *answer)
{
    const struct reasoning_texts texts[] = {
        {special[0], special[1], NULL}, {NULL, "aab", special[2]}, {"<think>", "</think>", "\n["}};
    const size_t n = sizeof texts / sizeof *texts, which = options / 8 % (n + 1);
    if (which > 0)
        answer->whole = smol_reasoning_term(table, &v->trie, &texts[which - 1], answer);
}

/* Returns what may follow a token. */
static term follow(struct term_table *table, term state, struct token_text text)
{
    state = text.special ? smol_term_after(table, state, TRIE_SPECIAL) : state;
    for (size_t i = 0; i < text.length && state != TERM_NOTHING; i++)
        state = smol_term_after(table, state, text.bytes[i]);
    return text.special ? smol_term_after(table, state, TRIE_SPECIAL) : state;
}

/* Checks the mask of a state, and returns what may follow one of its tokens, or TERM_NOTHING. */
static term check_mask(struct term_table *table, const uint64_t *mask, term state, uint64_t *random)
{
    const struct vocabulary *v = find_vocabulary();
    size_t n = 0;
    term next = TERM_NOTHING;
    for (uint32_t id = 0; id < N_TOKENS; id++) {
        term after = follow(table, state, smol_tokenizer_text(&v->tables, id));
        if (smol_terms_status(table, NULL))
            return TERM_NOTHING;
        CLAIM((after != TERM_NOTHING) == (mask[id / 64] >> id % 64 & 1));
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        if (after != TERM_NOTHING && (*random >> 33) % ++n == 0)
            next = after;
    }
    CLAIM(n > 0 || smol_term_may_end(table, state));
    return next;
}

/* Follows a random text. Masks are the same after all is forgotten. */
static void follow_tokens(struct term_table *table, struct masks *masks, uint64_t random)
{
    uint64_t first[(N_TOKENS + 63) / 64];
    term state = smol_terms_root(table);
    for (int step = 0; step < MAX_STEPS && state != TERM_NOTHING; step++) {
        const uint64_t *mask = smol_masks_find(masks, state);
        CLAIM(mask || smol_terms_status(table, NULL));
        if (!mask)
            return;
        if (step == 0)
            memcpy(first, mask, sizeof first);
        state = check_mask(table, mask, state, &random);
    }
    smol_masks_forget(masks);
    smol_terms_forget(table);
    const uint64_t *again = smol_masks_find(masks, smol_terms_root(table));
    CLAIM(again && memcmp(again, first, sizeof first) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct vocabulary *v = find_vocabulary();
    const unsigned kind = fuzz_take_byte(&in) % (3 + N_TOOL_STYLES), options = fuzz_take_byte(&in);
    struct term_table *table;
    struct masks *masks;
    struct answer_terms answer = {TERM_NOTHING, TERM_NOTHING, false};
    if (in.size > MAX_TEXT || smol_terms_create(&table, NULL))
        return 0;
    uint8_t *text = exact_copy(in.data, in.size);
    bool fine = build(table, v, kind, options, (const char *)text, in.size, &answer) == SMOL_OK;
    free(text);
    if (fine)
        add_reasoning(table, v, options, &answer);
    term inside = smol_string_inside(table, smol_json_any_character(table), 0, TERM_FOREVER);
    if (fine && !smol_terms_finish(table, answer.whole, NULL) &&
        !smol_masks_create(table, inside, &v->trie, &v->strings, &masks, NULL)) {
        follow_tokens(table, masks, smol_digest(data, size));
        smol_masks_free(masks);
    }
    smol_terms_free(table);
    return 0;
}
