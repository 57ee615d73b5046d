/* Constraints, see smol.h: compiled by runtime/constrain for a model's tokenizer. */
#include "runtime/constraint.h"

#include <string.h>

#include "common/hash.h"
#include "common/memory.h"
#include "runtime/chat.h"
#include "runtime/constrain/front_ends.h"
#include "runtime/constrain/json_terms.h"
#include "runtime/model.h"
#include "runtime/reasoning.h"
#include "runtime/tokenizer/tokenizer.h"

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

static smol_status compile_schema(struct term_table *table, const smol_constraint_params *params,
                                  const char *text, size_t size, term *root, smol_error *error)
{
    const struct schema_options options = {
        .white_space = params->json_space == SMOL_JSON_COMPACT    ? JSON_COMPACT
                       : params->json_space == SMOL_JSON_INDENTED ? JSON_INDENTED
                                                                  : JSON_SPACED,
        .any_order = params->any_order != 0,
    };
    return smol_schema_term(table, text, size, &options, root, error);
}

static smol_status compile_tools(const smol_model *model, struct term_table *table,
                                 const smol_constraint_params *params, struct answer_terms *answer,
                                 smol_error *error)
{
    const struct tool_style_texts *texts;
    const struct blob *blob = &model->blob;
    const char *schema = params->answer_schema;
    term text = TERM_NOTHING;
    smol_status status = smol_tool_texts(model, &texts, error);
    if (!status && schema && texts->at_start && !*texts->at_start)
        status = smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                           "tools and a schema: the model's calls have no mark that tells them "
                           "from JSON: leave out one of the two");
    if (!status && schema)
        status = compile_schema(table, params, schema, strlen(schema), &text, error);
    if (!status)
        status = smol_tools_term(table, &blob->tokenizer, texts, params, text, answer, error);
    return file_settle(&blob->file, blob->path, status, error);
}

static smol_status compile(const smol_model *model, struct term_table *table,
                           const smol_constraint_params *params, struct answer_terms *answer,
                           smol_error *error)
{
    term *root = &answer->whole;
    switch (params->kind) {
    case SMOL_CONSTRAINT_JSON_SCHEMA:
        return compile_schema(table, params, params->text, params->size, root, error);
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

/* The last two count only if there are any, so that the digests in older sessions remain true. */
static uint64_t find_digest(const smol_constraint_params *params)
{
    const char *choice = params->tool_choice ? params->tool_choice : "";
    const char *schema = params->answer_schema;
    const uint64_t parts[] = {params->kind,
                              params->json_space,
                              params->any_order != 0,
                              params->one_call != 0,
                              smol_digest(choice, strlen(choice)),
                              smol_digest(params->text, params->size),
                              params->reasoning,
                              schema ? smol_digest(schema, strlen(schema)) : 0};
    const size_t n_left_out = schema ? 0 : params->reasoning ? 1 : 2;
    return smol_digest(parts, sizeof parts - n_left_out * sizeof *parts);
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
