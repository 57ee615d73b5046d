/* Batches, see batch.h. Each sequence has a slot. The next request is read from standard input only
 * when a slot is free. Answers that wait for an earlier one are limited in number and size, so that
 * reading never gets far ahead of printing. */
#include "smolrun/batch.h"

#include <stdlib.h>

#include "cli/print.h"
#include "cli/request/reasoning.h"
#include "cli/standard.h"
#include "common/hash.h"
#include "smolrun/constrain.h"
#include "smolrun/lines.h"

enum {
    DEFAULT_SEQUENCES = 8,
    WAITING_EACH = 4,         /* answers per slot, in progress or waiting to be printed */
    WAITING_BYTES = 64 << 20, /* no request begins while more than this waits */
};

/* A sequence. The slot is free if it has no generation. */
struct slot {
    smol_context *context;
    smol_sampler *sampler;
    smol_generation *generation;
    struct compiled_constraint *constraint; /* of the request, or NULL */
    smol_matcher *matcher;                  /* of this one or the command line's, or NULL */
    struct answer *answer;
};

struct batch {
    const struct settings *settings;
    const smol_model *model;
    struct slot slots[MAX_SEQUENCES];
    size_t n_slots, n_busy;
    struct answer *answers; /* (n_answers): request k's is answers[k % n_answers] */
    uint64_t n_answers;
    uint64_t first, next; /* requests [first, next) are not answered yet */
    struct lines lines;
    struct compiled_constraint *constraint; /* of the command line, or NULL */
    struct constraints constraints;
    bool ended;
    smol_status step_status; /* of the last step while a request was tokenized */
    smol_error step_error;
};

static smol_status step(struct batch *b, smol_error *error);

/* --- requests ----------------------------------------------------------------------------- */

static struct answer *answer_of(const struct batch *b, uint64_t request)
{
    return &b->answers[request % b->n_answers];
}

static struct slot *free_slot(struct batch *b)
{
    for (size_t i = 0; i < b->n_slots; i++)
        if (!b->slots[i].generation)
            return &b->slots[i];
    return NULL;
}

/* Creates the matcher of a request with prompt (n) that wants a constraint, or has that of the
 * command line. */
static smol_status constrain(struct batch *b, struct slot *slot, const uint32_t *ids, size_t n,
                             smol_error *error)
{
    const struct request *request = &slot->answer->request.common;
    struct wanted_constraint wanted =
        b->constraint && !request->format.given ? b->constraint->of : request->format;
    if (!wanted.text)
        return SMOL_OK;
    smol_status status = smol_request_reasoning(request, b->model, ids, n, &wanted, error);
    if (!status)
        status = smol_constraints_get(&b->constraints, &wanted, &slot->constraint, error);
    return status ? status
                  : smol_matcher_create(slot->constraint->constraint, &slot->matcher, error);
}

static smol_status start_generation(const struct batch *b, struct slot *slot, const uint32_t *ids,
                                    size_t n, smol_error *error)
{
    struct answer *answer = slot->answer;
    const struct request *request = &answer->request.common;
    smol_generate_params params = {
        .max_tokens = request->max_tokens,
        .prompt_only = request->max_tokens == 0,
        .stop = request->stop.items,
        .n_stop = request->stop.n,
        .on_text = smol_answer_text,
        .on_token = smol_answer_token,
        .user = answer,
        .matcher = slot->matcher,
        .lookup = (uint64_t)b->settings->lookup,
        .new_text = request->is_chat,
    };
    smol_parts_set(&answer->parts, &params);
    smol_context_truncate(slot->context, 0);
    smol_status status = smol_sampler_create(&request->sampler, &slot->sampler, error);
    if (!status)
        status = smol_generation_create(slot->context, slot->sampler, ids, n, &params,
                                        &slot->generation, error);
    return status;
}

/* Steps the other sequences now and then while a long request is tokenized, so that it does not
 * stall them. */
static int step_others(void *user, uint64_t done, uint64_t total)
{
    struct batch *b = user;
    (void)done;
    (void)total;
    b->step_status = b->n_busy > 0 ? step(b, &b->step_error) : SMOL_OK;
    return b->step_status != SMOL_OK;
}

/* Starts the request of a line in the slot. */
static smol_status begin(struct batch *b, struct slot *slot, const struct line *line,
                         smol_error *error)
{
    struct line_request *request = &slot->answer->request;
    uint32_t *ids = NULL;
    size_t n = 0;
    if (line->kind == LINE_TOO_LONG)
        return smol_fail(error, SMOL_ERROR_USAGE, "request: a line of more than %d MiB: shorten it",
                         MAX_LINE >> 20);
    smol_status status = smol_line_read(line->text, line->size, b->settings, request, error);
    if (!status)
        status = smol_request_apply_effort(&request->common, b->model, error);
    if (!status)
        status =
            smol_line_ids(&request->common, b->settings, b->model, step_others, b, &ids, &n, error);
    if (!status)
        status = smol_request_settle_begun(&request->common, b->model, ids, n, error);
    if (!status)
        status = smol_request_constrain_calls(&request->common, b->model, error);
    if (!status)
        status = constrain(b, slot, ids, n, error);
    if (!status)
        status = smol_parts_begin(&slot->answer->parts, &request->common,
                                  slot->constraint ? &slot->constraint->of : NULL, b->model, ids, n,
                                  error);
    if (!status)
        status = start_generation(b, slot, ids, n, error);
    if (!status)
        slot->answer->prompt_digest = smol_digest(ids, n * sizeof *ids);
    smol_free(ids);
    smol_request_drop_text(&request->common);
    return status;
}

static void end(struct batch *b, struct slot *slot)
{
    b->n_busy -= slot->generation != NULL;
    smol_generation_free(slot->generation);
    smol_sampler_free(slot->sampler);
    smol_matcher_free(slot->matcher);
    smol_constraints_release(&b->constraints, slot->constraint);
    slot->generation = NULL;
    slot->sampler = NULL;
    slot->matcher = NULL;
    slot->constraint = NULL;
    slot->answer->done = true;
}

static bool is_blank(const struct line *line)
{
    size_t i = 0;
    while (i < line->size && (line->text[i] == ' ' || line->text[i] == '\t'))
        i++;
    return line->kind == LINE_TEXT && i == line->size;
}

/* Returns whether every later request would fail with the same error. */
static bool is_fatal(smol_status status)
{
    return status == SMOL_ERROR_FILE || status == SMOL_ERROR_DAMAGED;
}

/* --- answers ------------------------------------------------------------------------------ */

/* Prints the finished answers that are next in order. */
static smol_status print_answers(struct batch *b, smol_error *error)
{
    bool any = false;
    smol_status status = SMOL_OK;
    for (; !status && b->first < b->next && answer_of(b, b->first)->done; b->first++) {
        struct answer *answer = answer_of(b, b->first);
        status = smol_answer_print(answer, b->model, b->first, error);
        smol_answer_free(answer);
        any = true;
    }
    return any && !status ? smol_standard_flush(error) : status;
}

static bool may_begin(const struct batch *b)
{
    size_t bytes = 0;
    for (uint64_t i = b->first; i < b->next; i++)
        bytes += answer_of(b, i)->done ? smol_answer_bytes(answer_of(b, i)) : 0;
    return b->next - b->first < b->n_answers && bytes <= WAITING_BYTES;
}

/* Handles a line: starts it as the slot's request, or answers it at once with an error. */
static smol_status take_line(struct batch *b, struct slot *slot, const struct line *line,
                             smol_error *error)
{
    if (is_blank(line))
        return SMOL_OK;
    slot->answer = answer_of(b, b->next++);
    smol_status status = begin(b, slot, line, &slot->answer->error);
    b->n_busy += slot->generation != NULL;
    if (!status)
        return SMOL_OK;
    end(b, slot);
    if (!b->step_status && !is_fatal(status))
        return print_answers(b, error);
    *error = b->step_status ? b->step_error : slot->answer->error;
    return error->status;
}

/* Starts requests in the free slots. Waits for a request only if no sequence is busy. */
static smol_status fill_slots(struct batch *b, smol_error *error)
{
    struct slot *slot;
    smol_status status = SMOL_OK;
    while (!status && !b->ended && may_begin(b) && (slot = free_slot(b))) {
        struct line line;
        status = smol_lines_next(&b->lines, b->n_busy == 0, &line, error);
        if (!status && line.kind == LINE_LATER)
            break;
        b->ended = line.kind == LINE_END;
        if (!status && !b->ended)
            status = take_line(b, slot, &line, error);
    }
    return status;
}

/* --- steps -------------------------------------------------------------------------------- */

static smol_status settle(struct batch *b, struct slot *slot, smol_error *error)
{
    struct answer *answer = slot->answer;
    if (!smol_generation_finished(slot->generation, &answer->result, &answer->error))
        return SMOL_OK;
    if (answer->result.finish == SMOL_FINISH_CANCELLED)
        smol_fail_memory(&answer->error, "the answer");
    if (!answer->error.status)
        smol_answer_end(answer, &answer->error);
    end(b, slot);
    if (is_fatal(answer->error.status))
        *error = answer->error;
    return is_fatal(answer->error.status) ? answer->error.status : SMOL_OK;
}

static smol_status step(struct batch *b, smol_error *error)
{
    smol_generation *generations[MAX_SEQUENCES];
    size_t n = 0;
    for (size_t i = 0; i < b->n_slots; i++)
        if (b->slots[i].generation)
            generations[n++] = b->slots[i].generation;
    smol_generation_step(generations, n);
    smol_status status = SMOL_OK;
    for (size_t i = 0; !status && i < b->n_slots; i++)
        if (b->slots[i].generation)
            status = settle(b, &b->slots[i], error);
    return status ? status : print_answers(b, error);
}

/* --- the batch ---------------------------------------------------------------------------- */

static smol_status open_slots(struct batch *b, struct loaded *loaded, smol_error *error)
{
    smol_context_params params = b->settings->context;
    params.share = loaded->context;
    b->n_answers = WAITING_EACH * (uint64_t)b->n_slots;
    b->answers = calloc((size_t)b->n_answers, sizeof *b->answers);
    if (!b->answers)
        return smol_fail_memory(error, "answers");
    b->slots[0].context = loaded->context;
    smol_status status = SMOL_OK;
    for (size_t i = 1; !status && i < b->n_slots; i++)
        status = smol_context_create(loaded->model, &params, &b->slots[i].context, error);
    return status;
}

static void close_slots(struct batch *b)
{
    for (size_t i = 0; i < b->n_slots; i++) {
        smol_generation_free(b->slots[i].generation);
        smol_sampler_free(b->slots[i].sampler);
        smol_matcher_free(b->slots[i].matcher);
        if (i > 0) /* the caller owns the first context */
            smol_context_free(b->slots[i].context);
    }
    for (uint64_t i = 0; b->answers && i < b->n_answers; i++)
        smol_answer_free(&b->answers[i]);
    free(b->answers);
    free(b->lines.buffer);
    smol_constraints_release(&b->constraints, b->constraint);
    smol_constraints_free(&b->constraints);
}

smol_status smol_batch_run(const struct settings *settings, struct loaded *loaded,
                           smol_error *error)
{
    struct batch b = {.settings = settings,
                      .model = loaded->model,
                      .n_slots = settings->n_sequences ? settings->n_sequences : DEFAULT_SEQUENCES};
    smol_constraints_init(&b.constraints, b.model, smol_settings_json_space(settings),
                          settings->any_order);
    struct wanted_constraint wanted;
    smol_status status = smol_constrain_read(settings, &wanted, error);
    if (!status && wanted.given)
        status = smol_constraints_get(&b.constraints, &wanted, &b.constraint, error);
    smol_free(wanted.text);
    if (!status)
        status = open_slots(&b, loaded, error);
    while (!status && (!b.ended || b.n_busy > 0)) {
        status = fill_slots(&b, error);
        if (!status && b.n_busy > 0)
            status = step(&b, error);
    }
    close_slots(&b);
    return status;
}
