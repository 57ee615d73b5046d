/* Matchers, see smol.h: each follows one text through the states of a constraint. */
#include "runtime/matcher.h"

#include <string.h>

#include "common/memory.h"
#include "runtime/constraint.h"
#include "runtime/model.h"
#include "runtime/tokenizer/tokenizer.h"

enum { FORCED_BYTES = 128 }; /* bytes that are looked at together */

struct smol_matcher {
    struct matcher_head head;
    smol_constraint *constraint;
    uint64_t n_forgotten; /* of the constraint, when the states were found */
    bool restarted;       /* the question that is being worked on reached a limit before */
    term *states;  /* (n + 1): what may follow after each token; TERM_NOTHING after a stop token */
    uint32_t *ids; /* (n): the tokens */
    size_t n, capacity;
};

/* --- following a text ----------------------------------------------------------------------- */

static term current(const smol_matcher *matcher)
{
    return matcher->states[matcher->n];
}

/* Returns what may follow `bytes`, or TERM_NOTHING. */
static term follow(struct term_table *table, term state, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n && state != TERM_NOTHING; i++)
        state = smol_term_after(table, state, bytes[i]);
    return state;
}

/* Does the same for a token. */
static term follow_token(struct term_table *table, term state, struct token_text text)
{
    static const uint8_t edge = TRIE_SPECIAL;
    if (!text.special)
        return follow(table, state, text.bytes, text.length);
    state = follow(table, state, &edge, 1);
    state = follow(table, state, text.bytes, text.length);
    return follow(table, state, &edge, 1);
}

/* Makes room for one more token. */
static smol_status reserve(smol_matcher *matcher, smol_error *error)
{
    if (matcher->n + 2 <= matcher->capacity)
        return SMOL_OK;
    size_t wanted = 2 * matcher->capacity + 64;
    if (!RESIZE(matcher->states, wanted) || !RESIZE(matcher->ids, wanted))
        return smol_fail_memory(error, "a matcher");
    matcher->capacity = wanted;
    return SMOL_OK;
}

static void push(smol_matcher *matcher, uint32_t id, term state)
{
    matcher->ids[matcher->n] = id;
    matcher->states[++matcher->n] = state;
}

static smol_status refuse(uint32_t id, smol_error *error)
{
    return smol_fail(error, SMOL_ERROR_USAGE, "the constraint does not allow token %u here", id);
}

static smol_status accept(smol_matcher *matcher, uint32_t id, smol_error *error)
{
    smol_constraint *c = matcher->constraint;
    const struct blob *blob = &c->model->blob;
    smol_status status = reserve(matcher, error);
    if (status)
        return status;
    if (smol_model_is_stop_id(c->model, id)) {
        if (!smol_term_may_end(c->table, current(matcher)))
            return refuse(id, error);
        push(matcher, id, TERM_NOTHING);
        return SMOL_OK;
    }
    struct token_text text = smol_tokenizer_text(&blob->tokenizer, id);
    if (text.length == 0 || memchr(text.bytes, TRIE_SPECIAL, text.length))
        return refuse(id, error);
    term next = follow_token(c->table, current(matcher), text);
    status = smol_terms_status(c->table, error);
    status = file_settle(&blob->file, blob->path, status, error);
    if (!status && next == TERM_NOTHING)
        status = refuse(id, error);
    if (!status)
        push(matcher, id, next);
    return status;
}

static smol_status find_mask(smol_matcher *matcher, uint64_t *mask, smol_error *error)
{
    smol_constraint *c = matcher->constraint;
    size_t n_stop;
    const uint32_t *stop_ids = smol_model_stop_ids(c->model, &n_stop);
    size_t bytes = c->vocabulary->trie.n_words * sizeof *mask;
    const uint64_t *bits = smol_masks_find(c->masks, current(matcher));
    if (!bits)
        return smol_terms_status(c->table, error);
    memcpy(mask, bits, bytes);
    for (size_t i = 0; i < n_stop; i++) {
        uint64_t bit = (uint64_t)1 << stop_ids[i] % 64;
        mask[stop_ids[i] / 64] &= ~bit;
        if (smol_term_may_end(c->table, current(matcher)))
            mask[stop_ids[i] / 64] |= bit;
    }
    return SMOL_OK;
}

/* --- forced text ------------------------------------------------------------------------------ */

/* Returns the number of bytes that must come next, at most FORCED_BYTES: a special token, or text
 * before the next one. Sets *state to what may follow them. */
static size_t forced_text(struct term_table *table, term *state, uint8_t *bytes)
{
    size_t n = 0;
    while (n < FORCED_BYTES && smol_term_forced(table, *state, &bytes[n])) {
        bool edge = bytes[n] == TRIE_SPECIAL;
        if (edge && n > 0 && bytes[0] != TRIE_SPECIAL)
            break;
        *state = smol_term_after(table, *state, bytes[n++]);
        if (edge && n > 1)
            break;
    }
    return n;
}

/* Returns whether a single token covers bytes[0..n) and more, which `state` may allow after them.
 */
static bool may_cross(const smol_constraint *c, const uint8_t *bytes, size_t n, term state)
{
    const struct trie_node *nodes = c->vocabulary->trie.nodes;
    uint32_t node = smol_trie_node(&c->vocabulary->trie, bytes, n);
    bool crosses = false;
    for (uint32_t i = node + 1; node != NO_NODE && i < nodes[node].end; i = nodes[i].end)
        crosses = crosses || smol_term_after(c->table, state, nodes[i].byte) != TERM_NOTHING;
    return crosses;
}

/* Returns whether the tokens cover bytes[0..n) exactly. A tokenizer may write a text with other
 * bytes. */
static bool covers(const smol_model *model, const struct token_list *list, const uint8_t *bytes,
                   size_t n)
{
    const struct tokenizer_tables *tables = &model->blob.tokenizer;
    size_t at = 0;
    for (size_t i = 0; i < list->n; i++) {
        struct token_text text = smol_tokenizer_text(tables, list->ids[i]);
        if (smol_model_is_stop_id(model, list->ids[i]) || text.special || text.length == 0 ||
            text.length > n - at || memcmp(text.bytes, bytes + at, text.length) != 0)
            return false;
        at += text.length;
    }
    return at == n;
}

/* Sets *id to the token that must come next, or to SMOL_NO_TOKEN: the first token of the text that
 * must come next, unless it is also the last, or another could cover all of that text: <t may begin
 * <think>, or <tool_call>. */
static smol_status next_forced(smol_constraint *c, term state, uint32_t *id, smol_error *error)
{
    const struct blob *blob = &c->model->blob;
    const struct encode_params encode = {.added = &c->model->added};
    struct token_list list = {0};
    uint8_t bytes[FORCED_BYTES];
    *id = SMOL_NO_TOKEN;
    size_t n = forced_text(c->table, &state, bytes);
    smol_status status = smol_terms_status(c->table, error);
    if (status || n == 0)
        return status;
    if (bytes[0] == TRIE_SPECIAL) {
        *id = smol_trie_find(&c->vocabulary->trie, bytes, n);
        return SMOL_OK;
    }
    if (may_cross(c, bytes, n, state))
        return smol_terms_status(c->table, error);
    status = smol_tokenizer_encode(&blob->tokenizer, (const char *)bytes, n, &encode, &list, error);
    status = file_settle(&blob->file, blob->path, status, error);
    if (!status && list.n > 1 && covers(c->model, &list, bytes, n))
        *id = list.ids[0];
    smol_free(list.ids);
    return status;
}

/* Each token depends only on the text before it, so that a generation that is interrupted among
 * them continues with the same ones. */
static smol_status find_forced(smol_matcher *matcher, uint32_t *ids, size_t capacity, size_t *n,
                               smol_error *error)
{
    smol_constraint *c = matcher->constraint;
    term state = current(matcher);
    for (*n = 0; *n < capacity; ++*n) {
        uint32_t id;
        smol_status status = next_forced(c, state, &id, error);
        if (status || id == SMOL_NO_TOKEN)
            return status;
        state = follow_token(c->table, state, smol_tokenizer_text(&c->model->blob.tokenizer, id));
        ids[*n] = id;
    }
    return smol_terms_status(c->table, error);
}

/* --- the public functions --------------------------------------------------------------------- */

/* Finds the states again that the constraint has forgotten since. */
static smol_status catch_up(smol_matcher *matcher, smol_error *error)
{
    smol_status status = SMOL_OK;
    size_t n = matcher->n;
    if (matcher->n_forgotten == matcher->constraint->n_forgotten)
        return SMOL_OK;
    matcher->states[0] = smol_terms_root(matcher->constraint->table);
    for (matcher->n = 0; !status && matcher->n < n;)
        status = accept(matcher, matcher->ids[matcher->n], error);
    matcher->n = n;
    if (!status)
        matcher->n_forgotten = matcher->constraint->n_forgotten;
    return status;
}

/* A question to a matcher: one of the functions below, with its arguments. */
struct question {
    smol_status (*answer)(smol_matcher *matcher, const struct question *question,
                          smol_error *error);
    uint64_t *mask;
    uint32_t id, *ids;
    size_t capacity, *n;
    struct matcher_next *next;
};

static smol_status ask_once(smol_matcher *matcher, const struct question *question,
                            smol_error *error)
{
    smol_status status = catch_up(matcher, error);
    return status ? status : question->answer(matcher, question, error);
}

/* Forgets all states after an error. Returns whether there was one. */
static bool forget(smol_constraint *c)
{
    if (smol_terms_status(c->table, NULL) == SMOL_OK)
        return false;
    smol_masks_forget(c->masks);
    smol_terms_forget(c->table);
    c->n_forgotten++;
    return true;
}

/* Works on a question, with the constraint for itself, as matcher_calls.next does. When a limit of
 * the constraint's memory is reached, all states are forgotten, and the question is asked once
 * more. */
static smol_status work_on(smol_matcher *matcher, const struct question *question, uint64_t *work,
                           bool *found, smol_error *error)
{
    smol_constraint *c = matcher->constraint;
    error_clear(error);
    threads_mutex_lock(&c->mutex);
    uint64_t before = smol_masks_steps(c->masks);
    smol_terms_limit(c->table, *work);
    smol_status status = ask_once(matcher, question, error);
    bool interrupted = smol_terms_resume(c->table);
    bool restarts = !interrupted && forget(c) && !matcher->restarted;
    *found = !interrupted && !restarts;
    matcher->restarted = restarts || (interrupted && matcher->restarted);
    *work = smol_masks_steps(c->masks) - before;
    threads_mutex_unlock(&c->mutex);
    if (!*found)
        error_clear(error);
    return *found ? status : SMOL_OK;
}

static smol_status ask(smol_matcher *matcher, struct question question, smol_error *error)
{
    smol_status status;
    bool found;
    do {
        uint64_t work = UINT64_MAX;
        status = work_on(matcher, &question, &work, &found, error);
    } while (!found);
    return status;
}

static smol_status answer_mask(smol_matcher *matcher, const struct question *question,
                               smol_error *error)
{
    return find_mask(matcher, question->mask, error);
}

smol_status smol_matcher_mask(smol_matcher *matcher, uint64_t *mask, smol_error *error)
{
    return ask(matcher, (struct question){.answer = answer_mask, .mask = mask}, error);
}

static smol_status answer_accept(smol_matcher *matcher, const struct question *question,
                                 smol_error *error)
{
    return accept(matcher, question->id, error);
}

smol_status smol_matcher_accept(smol_matcher *matcher, uint32_t id, smol_error *error)
{
    return ask(matcher, (struct question){.answer = answer_accept, .id = id}, error);
}

static smol_status answer_forced(smol_matcher *matcher, const struct question *question,
                                 smol_error *error)
{
    return find_forced(matcher, question->ids, question->capacity, question->n, error);
}

smol_status smol_matcher_forced(smol_matcher *matcher, uint32_t *ids, size_t capacity, size_t *n,
                                smol_error *error)
{
    return ask(matcher,
               (struct question){.answer = answer_forced, .ids = ids, .capacity = capacity, .n = n},
               error);
}

static smol_status answer_complete(smol_matcher *matcher, const struct question *question,
                                   smol_error *error)
{
    (void)error;
    *question->n = smol_term_may_end(matcher->constraint->table, current(matcher));
    return SMOL_OK;
}

int smol_matcher_complete(smol_matcher *matcher)
{
    size_t complete = 0;
    smol_status status =
        ask(matcher, (struct question){.answer = answer_complete, .n = &complete}, NULL);
    return !status && complete;
}

static smol_status answer_next(smol_matcher *matcher, const struct question *question,
                               smol_error *error)
{
    struct matcher_next *next = question->next;
    smol_status status = find_forced(matcher, next->forced, next->capacity, &next->n_forced, error);
    if (status || next->n_forced > 0)
        return status;
    next->complete = smol_term_may_end(matcher->constraint->table, current(matcher));
    return find_mask(matcher, next->mask, error);
}

static smol_status find_next(smol_matcher *matcher, uint64_t *work, bool *found,
                             struct matcher_next *next, smol_error *error)
{
    return work_on(matcher, &(struct question){.answer = answer_next, .next = next}, work, found,
                   error);
}

const uint32_t *smol_matcher_ids(const smol_matcher *matcher, size_t *n)
{
    *n = matcher->n;
    return matcher->ids;
}

void smol_matcher_rollback(smol_matcher *matcher, size_t n)
{
    matcher->n -= n < matcher->n ? n : matcher->n;
}

smol_status smol_matcher_create(smol_constraint *constraint, smol_matcher **out, smol_error *error)
{
    static const struct matcher_calls calls = {find_next, smol_matcher_accept};
    error_clear(error);
    *out = NULL;
    smol_matcher *matcher = smol_calloc(1, sizeof *matcher);
    if (!matcher)
        return smol_fail_memory(error, "a matcher");
    matcher->head = (struct matcher_head){&calls, constraint->model};
    matcher->constraint = constraint;
    matcher->n_forgotten = UINT64_MAX; /* the first state is found when it is needed */
    smol_status status = reserve(matcher, error);
    if (status)
        smol_matcher_free(matcher);
    else
        *out = matcher;
    return status;
}

smol_status smol_matcher_copy(const smol_matcher *matcher, smol_matcher **copy, smol_error *error)
{
    smol_status status = smol_matcher_create(matcher->constraint, copy, error);
    while (!status && (*copy)->n < matcher->n) {
        status = reserve(*copy, error);
        if (!status)
            push(*copy, matcher->ids[(*copy)->n], matcher->states[(*copy)->n + 1]);
    }
    if (status) {
        smol_matcher_free(*copy);
        *copy = NULL;
        return status;
    }
    (*copy)->states[0] = matcher->states[0];
    (*copy)->n_forgotten = matcher->n_forgotten;
    return SMOL_OK;
}

void smol_matcher_free(smol_matcher *matcher)
{
    if (!matcher)
        return;
    smol_free(matcher->states);
    smol_free(matcher->ids);
    smol_free(matcher);
}
