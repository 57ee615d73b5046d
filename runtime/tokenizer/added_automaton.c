/* Builds the automata for added tokens, see added_automaton.h. */
#include "runtime/tokenizer/added_automaton.h"

#include "common/memory.h"

/* A token, copied from a table that may change during the build. The number of states depends only
 * on the lengths copied here. */
struct added_spelling {
    const uint8_t *text;
    uint32_t length;
    uint32_t next; /* entry of the next token in the list, or NO_ENTRY */
};

struct added_builder {
    struct added_automaton *automaton;
    struct added_spelling *spellings; /* (end - first) */
    uint32_t n_states, depth;
};

static struct added_spelling *spelling_of(const struct added_builder *b, uint32_t entry)
{
    return &b->spellings[entry - b->automaton->first];
}

/* Lists all tokens and returns the sum of their lengths in bytes. */
static size_t list_spellings(struct added_builder *b, const struct tokenizer_tables *tables)
{
    struct added_automaton *automaton = b->automaton;
    size_t n_bytes = 0;
    for (uint32_t i = automaton->first; i < automaton->end; i++) {
        struct added_token token = tokenizer_added(tables, i);
        if (token.length > tables->header.n_text_bytes - n_bytes)
            token.length = 0; /* the table has changed since it was checked */
        *spelling_of(b, i) = (struct added_spelling){tables->text + token.start, token.length,
                                                     i + 1 < automaton->end ? i + 1 : NO_ENTRY};
        if (token.length > automaton->longest_token)
            automaton->longest_token = token.length;
        n_bytes += token.length;
    }
    return n_bytes;
}

/* Creates the children of `state`, whose strings are one byte longer. `children` holds the head of
 * the state's token list before the call and its first child after the call. */
static void add_children(struct added_builder *b, uint32_t state)
{
    struct added_automaton *automaton = b->automaton;
    struct added_state *from = &automaton->states[state];
    uint32_t lists[256], next;
    uint64_t used[4] = {0};
    from->longest = state > 0 ? automaton->states[from->failure].longest : NO_ENTRY;
    for (uint32_t entry = from->children; entry != NO_ENTRY; entry = next) {
        struct added_spelling *spelling = spelling_of(b, entry);
        next = spelling->next;
        if (spelling->length == b->depth) {
            automaton->shorter[entry - automaton->first] = from->longest;
            from->longest = entry;
            continue;
        }
        uint8_t byte = spelling->text[spelling->length - b->depth - 1];
        spelling->next = used[byte / 64] >> byte % 64 & 1 ? lists[byte] : NO_ENTRY;
        used[byte / 64] |= UINT64_C(1) << byte % 64;
        lists[byte] = entry;
    }
    from->children = b->n_states;
    for (unsigned word = 0; word < 4; word++)
        for (; used[word]; used[word] &= used[word] - 1) {
            uint8_t byte = (uint8_t)(word * 64 + (unsigned)__builtin_ctzll(used[word]));
            automaton->states[b->n_states++] = (struct added_state){
                .children = lists[byte],
                .failure = state > 0 ? added_step(automaton, from->failure, byte) : 0,
                .byte = byte};
        }
    from->n_children = (uint16_t)(b->n_states - from->children);
}

static void set_root(struct added_automaton *automaton)
{
    const struct added_state *root = &automaton->states[0];
    for (uint32_t i = 0; i < root->n_children; i++)
        automaton->root[automaton->states[root->children + i].byte] = root->children + i;
}

/* Builds the states in order of string length, so that a failure state exists before it is
 * needed. */
static void build_states(struct added_builder *b)
{
    struct added_automaton *automaton = b->automaton;
    automaton->states[0] = (struct added_state){.children = automaton->first};
    b->n_states = 1;
    uint32_t level_end = 1;
    for (uint32_t state = 0; state < b->n_states; state++) {
        if (state == level_end) {
            b->depth++;
            level_end = b->n_states;
        }
        add_children(b, state);
        if (state == 0)
            set_root(automaton);
    }
}

/* Builds the automaton for the entries [first, end) of the table. */
static smol_status build(const struct tokenizer_tables *tables, struct added_automaton *automaton,
                         smol_error *error)
{
    size_t n = automaton->end - automaton->first;
    struct added_builder b = {.automaton = automaton};
    if (n == 0)
        return SMOL_OK;
    b.spellings = smol_reallocarray(NULL, n, sizeof *b.spellings);
    automaton->shorter = smol_reallocarray(NULL, n, sizeof *automaton->shorter);
    if (b.spellings) {
        size_t n_states = list_spellings(&b, tables) + 1;
        automaton->states = smol_reallocarray(NULL, n_states, sizeof *automaton->states);
    }
    bool complete = automaton->shorter && automaton->states;
    if (complete)
        build_states(&b);
    smol_free(b.spellings);
    return complete ? SMOL_OK : smol_fail_memory(error, "added tokens");
}

smol_status smol_added_automata_build(const struct tokenizer_tables *tables,
                                      struct added_automata *automata, smol_error *error)
{
    uint32_t n = tables->header.n_added, n_plain = 0;
    while (n_plain < n && !(tokenizer_added(tables, n_plain).flags & ADDED_NORMALIZED))
        n_plain++;
    *automata = (struct added_automata){{{.end = n_plain}, {.first = n_plain, .end = n}}};
    smol_status status = SMOL_OK;
    for (unsigned kind = 0; kind < ADDED_KINDS && !status; kind++)
        status = build(tables, &automata->kinds[kind], error);
    return status;
}

void smol_added_automata_free(struct added_automata *automata)
{
    for (unsigned kind = 0; kind < ADDED_KINDS; kind++) {
        smol_free(automata->kinds[kind].states);
        smol_free(automata->kinds[kind].shorter);
    }
    *automata = (struct added_automata){0};
}
