/* Constraints and matchers, see smol.h: the engine of runtime/constrain with a model's tokenizer.
 */
#include <string.h>

#include "common/hash.h"
#include "common/memory.h"
#include "common/threads.h"
#include "runtime/chat.h"
#include "runtime/constrain/front_ends.h"
#include "runtime/constrain/json_terms.h"
#include "runtime/constrain/mask.h"
#include "runtime/matcher.h"
#include "runtime/model.h"
#include "runtime/reasoning.h"
#include "runtime/tokenizer/tokenizer.h"

enum { FORCED_BYTES = 128 }; /* bytes that are looked at together */

/* Masks and derivatives are computed when they are first needed, whichever matcher asks, so the
 * table is for one thread at a time. What it returns does not depend on who asked before. */
struct smol_constraint {
    const smol_model *model;
    struct known_vocabulary *vocabulary; /* the model's */
    struct term_table *table;
    struct masks *masks;
    uint64_t digest;      /* of its parameters */
    uint64_t n_forgotten; /* how often a limit made it forget all states */
    thread_mutex mutex;
};

/* Facts about a vocabulary, shared by all constraints of its model. */
struct known_vocabulary {
    struct trie trie;
    struct any_string_fit strings;
};

struct smol_matcher {
    struct matcher_head head;
    smol_constraint *constraint;
    uint64_t n_forgotten; /* of the constraint, when the states were found */
    bool restarted;       /* the question that is being worked on reached a limit before */
    term *states;  /* (n + 1): what may follow after each token; TERM_NOTHING after a stop token */
    uint32_t *ids; /* (n): the tokens */
    size_t n, capacity;
};

/* --- constraints --------------------------------------------------------------------------- */

static void free_vocabulary(struct known_vocabulary *known)
{
    smol_any_string_free(&known->strings);
    smol_trie_free(&known->trie);
    smol_free(known);
}

static smol_status make_vocabulary(const smol_model *model, struct known_vocabulary **out,
                                   smol_error *error)
{
    const struct blob *blob = &model->blob;
    struct known_vocabulary *known = *out = smol_calloc(1, sizeof *known);
    if (!known)
        return smol_fail_memory(error, "the vocabulary's trie");
    smol_any_string_init(&known->strings);
    smol_status status =
        smol_trie_make(&blob->tokenizer, blob->model->vocab_size, &known->trie, error);
    status = file_settle(&blob->file, blob->path, status, error);
    if (status)
        free_vocabulary(known);
    return status;
}

/* Returns what is known of the model's vocabulary, which the first constraint finds out. */
static smol_status find_vocabulary(const smol_model *model, struct known_vocabulary **out,
                                   smol_error *error)
{
    struct shared_vocabulary *shared = model->vocabulary;
    struct known_vocabulary *made, *other = NULL;
    *out = atomic_load(&shared->known);
    if (*out)
        return SMOL_OK;
    smol_status status = make_vocabulary(model, &made, error);
    if (status)
        return status;
    atomic_store(&shared->release, free_vocabulary);
    if (!atomic_compare_exchange_strong(&shared->known, &other, made)) {
        free_vocabulary(made); /* another thread was faster */
        made = other;
    }
    *out = made;
    return SMOL_OK;
}

static smol_status compile_regex(struct term_table *table, const smol_constraint_params *params,
                                 term *root, smol_error *error)
{
    smol_error reason;
    smol_status status = smol_regex_term(table, params->text, params->size, REGEX_WHOLE,
                                         smol_utf8_term, NULL, root, &reason);
    return status ? smol_fail(error, status, "the regular expression: %s", reason.message)
                  : SMOL_OK;
}

static smol_status compile_tools(const smol_model *model, struct term_table *table,
                                 const smol_constraint_params *params, struct answer_terms *answer,
                                 smol_error *error)
{
    const struct tool_style_texts *texts;
    const struct blob *blob = &model->blob;
    smol_status status = smol_tool_texts(model, &texts, error);
    if (!status)
        status = smol_tools_term(table, &blob->tokenizer, texts, params, answer, error);
    return file_settle(&blob->file, blob->path, status, error);
}

static smol_status compile(const smol_model *model, struct term_table *table,
                           const smol_constraint_params *params, struct answer_terms *answer,
                           smol_error *error)
{
    term *root = &answer->whole;
    const struct schema_options options = {
        .white_space = params->json_space == SMOL_JSON_COMPACT    ? JSON_COMPACT
                       : params->json_space == SMOL_JSON_INDENTED ? JSON_INDENTED
                                                                  : JSON_SPACED,
        .any_order = params->any_order != 0,
    };
    switch (params->kind) {
    case SMOL_CONSTRAINT_JSON_SCHEMA:
        return smol_schema_term(table, params->text, params->size, &options, root, error);
    case SMOL_CONSTRAINT_REGEX:
        return compile_regex(table, params, root, error);
    case SMOL_CONSTRAINT_CHOICES:
        return smol_choices_term(table, params->text, params->size, root, error);
    case SMOL_CONSTRAINT_GRAMMAR:
        return smol_grammar_term(table, params->text, params->size, root, error);
    case SMOL_CONSTRAINT_TOOLS:
        return compile_tools(model, table, params, answer, error);
    }
    return smol_fail(error, SMOL_ERROR_USAGE, "there is no constraint of kind %d",
                     (int)params->kind);
}

/* Puts the reasoning that params->reasoning allows before the answer. */
static smol_status add_reasoning(const smol_constraint *c, const smol_constraint_params *params,
                                 struct answer_terms *answer, smol_error *error)
{
    struct reasoning_markers markers = {0};
    if (params->reasoning == SMOL_REASONING_NONE)
        return SMOL_OK;
    if (params->reasoning > SMOL_REASONING_BEGUN)
        return smol_fail(error, SMOL_ERROR_USAGE, "reasoning: there is no value %d",
                         (int)params->reasoning);
    smol_status status =
        smol_reasoning_markers(c->model, params->kind == SMOL_CONSTRAINT_TOOLS, &markers, error);
    status = file_settle(&c->model->blob.file, c->model->blob.path, status, error);
    if (status || !markers.open)
        return status;
    const struct reasoning_texts texts = {
        .open = params->reasoning == SMOL_REASONING_BEGUN ? NULL : markers.open,
        .close = markers.close,
        .call = markers.call,
    };
    answer->whole = smol_reasoning_term(c->table, &c->vocabulary->trie, &texts, answer);
    return SMOL_OK;
}

/* The reasoning counts only if there is any, so that the digests in older sessions remain true. */
static uint64_t find_digest(const smol_constraint_params *params)
{
    const char *choice = params->tool_choice ? params->tool_choice : "";
    const uint64_t parts[] = {params->kind,
                              params->json_space,
                              params->any_order != 0,
                              params->one_call != 0,
                              smol_digest(choice, strlen(choice)),
                              smol_digest(params->text, params->size),
                              params->reasoning};
    return smol_digest(parts, sizeof parts - (params->reasoning ? 0 : sizeof *parts));
}

static smol_status build(smol_constraint *c, const smol_constraint_params *params,
                         smol_error *error)
{
    struct answer_terms answer = {TERM_NOTHING, TERM_NOTHING, false};
    smol_status status = find_vocabulary(c->model, &c->vocabulary, error);
    if (!status)
        status = smol_terms_create(&c->table, error);
    if (!status)
        status = compile(c->model, c->table, params, &answer, error);
    if (!status)
        status = add_reasoning(c, params, &answer, error);
    if (status)
        return status;
    const bool json =
        params->kind == SMOL_CONSTRAINT_JSON_SCHEMA || params->kind == SMOL_CONSTRAINT_TOOLS;
    term any = json ? smol_json_any_character(c->table) : TERM_NOTHING;
    term inside = json ? smol_string_inside(c->table, any, 0, TERM_FOREVER) : TERM_NOTHING;
    status = smol_terms_finish(c->table, answer.whole, error);
    if (!status)
        status = smol_masks_create(c->table, inside, &c->vocabulary->trie, &c->vocabulary->strings,
                                   &c->masks, error);
    return status;
}

smol_status smol_constraint_create(const smol_model *model, const smol_constraint_params *params,
                                   smol_constraint **constraint, smol_error *error)
{
    error_clear(error);
    *constraint = NULL;
    smol_status status = CHECK_RESERVED(constraint_params, params, error);
    if (status)
        return status;
    smol_constraint *c = smol_calloc(1, sizeof *c);
    if (!c)
        return smol_fail_memory(error, "a constraint");
    c->model = model;
    c->digest = find_digest(params);
    threads_mutex_init(&c->mutex);
    status = build(c, params, error);
    if (status)
        smol_constraint_free(c);
    else
        *constraint = c;
    return status;
}

uint64_t smol_constraint_digest(const smol_constraint *constraint)
{
    return constraint->digest;
}

size_t smol_constraint_bytes(smol_constraint *c)
{
    threads_mutex_lock(&c->mutex);
    size_t bytes = sizeof *c + smol_terms_bytes(c->table) + smol_masks_bytes(c->masks);
    threads_mutex_unlock(&c->mutex);
    return bytes;
}

void smol_constraint_free(smol_constraint *constraint)
{
    if (!constraint)
        return;
    smol_masks_free(constraint->masks);
    smol_terms_free(constraint->table);
    threads_mutex_destroy(&constraint->mutex);
    smol_free(constraint);
}

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
