/* Reasoning in answers, see smol.h. An answer is the reasoning between two markers, and the reply.
 * The prompt may have the first marker already, or both. */
#include "runtime/reasoning.h"

#include <string.h>

#include "common/file.h"
#include "common/json_reader.h"
#include "common/memory.h"
#include "common/text.h"
#include "runtime/model.h"

static const struct reasoning_markers known[] = {
    {.open = "<think>", .close = "</think>"},
    {.open = "[THINK]", .close = "[/THINK]"},                                 /* Mistral */
    {.open = "<|channel>thought", .close = "<channel|>"},                     /* Gemma 4 */
    {.open = "<|thought_start|>", .close = "<|thought_end|>"},                /* MiniCPM 3 */
    {.open = "<|START_THINKING|>", .close = "<|END_THINKING|>"},              /* Cohere */
    {.open = "Here is my thought process:", .close = "Here is my response:"}, /* Granite 3.2 */
};
enum { N_KNOWN = sizeof known / sizeof known[0] };

/* Markers of a reply: of Hunyuan, of Granite, of Cohere. */
static const char *const wrappers[][2] = {{"<answer>", "</answer>"},
                                          {"<response>", "</response>"},
                                          {"<|START_RESPONSE|>", "<|END_RESPONSE|>"},
                                          {"<|START_TEXT|>", "<|END_TEXT|>"}};
enum { N_WRAPPERS = sizeof wrappers / sizeof wrappers[0] };

static bool begins(const struct token_text *token, const char *text)
{
    return token->length > 0 && token->length <= strlen(text) &&
           memcmp(token->bytes, text, token->length) == 0;
}

bool smol_reasoning_begins_marker(const struct token_text *token)
{
    bool found = false;
    for (size_t i = 0; i < N_KNOWN; i++)
        found = found || begins(token, known[i].open) || begins(token, known[i].close);
    return found;
}

/* --- the model's markers ---------------------------------------------------------------------- */

/* Returns whether a text of the chat template contains `part`. */
static bool template_names(const struct template_code *code, const char *part)
{
    for (uint32_t i = 0; i < code->header.n_constants; i++) {
        const struct template_constant *c = &code->constants[i];
        if (c->type == CONSTANT_STRING && c->length > 0 &&
            memmem(code->text + c->value, c->length, part, strlen(part)))
            return true;
    }
    return false;
}

/* Sets *one to whether a text is a single token. */
static smol_status is_token(const smol_model *model, const char *text, bool *one, smol_error *error)
{
    const smol_tokenize_params params = {.parse_special = 1};
    uint32_t *ids;
    size_t n;
    smol_status status = smol_tokenize(model, text, strlen(text), &params, &ids, &n, error);
    *one = n == 1;
    smol_free(ids);
    return status;
}

smol_status smol_reasoning_markers(const smol_model *model, bool calls,
                                   struct reasoning_markers *markers, smol_error *error)
{
    static const struct template_code none = {0};
    const struct template_code *code = model->blob.template_section ? &model->blob.template : &none;
    const struct tool_style_texts *style =
        calls ? smol_tool_style_texts(code->header.tool_style) : NULL;
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < N_KNOWN && !status && !markers->open; i++) {
        bool has = template_names(code, known[i].open) || template_names(code, known[i].close);
        if (!has)
            status = is_token(model, known[i].close, &has, error);
        if (has)
            *markers = known[i];
    }
    for (size_t i = 0; i < N_WRAPPERS && !markers->reply_open; i++) {
        if (!template_names(code, wrappers[i][0]))
            continue;
        markers->reply_open = wrappers[i][0];
        markers->reply_close = wrappers[i][1];
    }
    markers->call = style && !style->at_start ? style->marker : NULL;
    return status;
}

/* --- the prompt ------------------------------------------------------------------------------- */

enum { TAIL_SIZE = 64 };

/* The last bytes of a prompt. */
struct tail {
    char text[TAIL_SIZE];
    size_t size;
};

static struct tail tail_of(const struct tokenizer_tables *tables, const uint32_t *ids, size_t n)
{
    struct tail tail;
    size_t room = TAIL_SIZE;
    while (n > 0 && room > 0) {
        struct token_text token = smol_tokenizer_text(tables, ids[--n]);
        size_t size = token.length < room ? token.length : room;
        room -= size;
        memcpy(tail.text + room, token.bytes + token.length - size, size);
    }
    tail.size = TAIL_SIZE - room;
    memmove(tail.text, tail.text + room, tail.size);
    while (tail.size > 0 && json_is_space(tail.text[tail.size - 1]))
        tail.size--;
    return tail;
}

/* Returns where the answer to a prompt begins. */
static enum reasoning_place first_place(const struct reasoning_markers *markers,
                                        const struct tail *tail)
{
    if (markers->reply_open && bytes_end_with(tail->text, tail->size, markers->reply_open))
        return IN_WRAPPED_REPLY;
    if (!markers->open)
        return IN_REPLY;
    if (bytes_end_with(tail->text, tail->size, markers->open))
        return IN_REASONING;
    if (!bytes_end_with(tail->text, tail->size, markers->close))
        return BEFORE_REASONING;
    return markers->reply_open ? BEFORE_REPLY : IN_REPLY;
}

/* Returns whether a reply is all that its constraint allows. */
static bool is_exact(smol_reply reply)
{
    return reply == SMOL_REPLY_CONSTRAINED || reply == SMOL_REPLY_TOOLS_SCHEMA;
}

/* Finds the markers, and where the answer to a prompt begins. */
static smol_status find_start(const smol_model *model, const uint32_t *prompt, size_t n,
                              smol_reply reply, struct reasoning_markers *markers,
                              enum reasoning_place *place, smol_error *error)
{
    const struct blob *blob = &model->blob;
    *markers = (struct reasoning_markers){0};
    *place = IN_REPLY;
    const bool calls = reply == SMOL_REPLY_TOOLS || reply == SMOL_REPLY_TOOLS_SCHEMA;
    smol_status status = smol_reasoning_markers(model, calls, markers, error);
    if (is_exact(reply))
        markers->reply_open = markers->reply_close = NULL;
    if (!status) {
        const struct tail tail = tail_of(&blob->tokenizer, prompt, n);
        *place = first_place(markers, &tail);
    }
    return file_settle(&blob->file, blob->path, status, error);
}

smol_status smol_reasoning_after(const smol_model *model, const uint32_t *prompt, size_t n,
                                 smol_reasoning *reasoning, smol_error *error)
{
    struct reasoning_markers markers;
    enum reasoning_place place;
    error_clear(error);
    smol_status status = find_start(model, prompt, n, SMOL_REPLY_FREE, &markers, &place, error);
    *reasoning = status                      ? SMOL_REASONING_NONE
                 : place == BEFORE_REASONING ? SMOL_REASONING_POSSIBLE
                 : place == IN_REASONING     ? SMOL_REASONING_BEGUN
                                             : SMOL_REASONING_NONE;
    return status;
}

/* --- scanning answers ------------------------------------------------------------------------- */

/* Takes text: what is held, and text[0..size). */
static void take(struct reasoning_scan *r, const char *text, size_t size)
{
    struct buffer *to = r->place == IN_REASONING ? &r->reasoning : &r->reply;
    smol_buffer_add(to, r->held.text, r->held.size);
    smol_buffer_add(to, text, size);
    buffer_clear(&r->held);
    r->n_marker = 0;
    r->begun = true;
    if (r->place == BEFORE_REASONING || r->place == BEFORE_REPLY)
        r->place = IN_REPLY;
}

/* Returns whether a byte continues, or begins, a marker. */
static bool continues(const struct reasoning_scan *r, const char *marker, char c)
{
    size_t n = r->n_marker;
    return n < strlen(marker) && marker[n] == c &&
           (n == 0 || memcmp(r->held.text + r->held.size - n, marker, n) == 0);
}

/* Goes on after a marker, whose last byte has just been held: the one that is expected in this
 * place, or the other one. */
static void pass_marker(struct reasoning_scan *r, bool is_other)
{
    const bool is_call = is_other && r->place == IN_REASONING;
    static const enum reasoning_place next[] = {
        [BEFORE_REASONING] = IN_REASONING,
        [IN_REASONING] = BEFORE_REPLY,
        [BEFORE_REPLY] = IN_WRAPPED_REPLY,
        [IN_WRAPPED_REPLY] = IN_REPLY,
    };
    if (is_call) /* it belongs to the reply, the white space before it to nothing */
        smol_buffer_add(&r->reply, r->held.text + r->held.size - r->n_marker, r->n_marker);
    if (r->place == IN_REASONING)
        r->n_reasoning_tokens = r->n_tokens;
    else if (r->place == BEFORE_REASONING)
        r->n_before = r->n_tokens;
    r->place = is_call ? IN_REPLY : is_other ? IN_WRAPPED_REPLY : next[r->place];
    buffer_clear(&r->held);
    r->n_marker = 0;
    r->begun = false;
}

/* Takes a byte of no marker. White space may be left out: that before the answer is not, if no
 * reasoning follows, nor is that which a constraint allows there. */
static void text_byte(struct reasoning_scan *r, char c)
{
    if (!json_is_space(c) || r->place == IN_REPLY || (r->exact && r->place == BEFORE_REASONING))
        take(r, &c, 1);
    else if (r->begun || r->place == BEFORE_REASONING)
        smol_buffer_add(&r->held, &c, 1);
}

static void read_byte(struct reasoning_scan *r, char c)
{
    const struct reasoning_markers *m = &r->markers;
    const char *const expected[] = {[BEFORE_REASONING] = m->open,
                                    [IN_REASONING] = m->close,
                                    [BEFORE_REPLY] = m->reply_open,
                                    [IN_WRAPPED_REPLY] = m->reply_close,
                                    [IN_REPLY] = NULL};
    const char *marker = expected[r->place];
    const char *other = r->place == IN_REASONING       ? m->call
                        : r->place == BEFORE_REASONING ? m->reply_open
                                                       : NULL;
    bool in_marker = marker && continues(r, marker, c), in_other = other && continues(r, other, c);
    if (in_marker || in_other) {
        smol_buffer_add(&r->held, &c, 1);
        r->n_marker++;
        bool is_other = in_other && r->n_marker == strlen(other);
        if (is_other || (in_marker && r->n_marker == strlen(marker)))
            pass_marker(r, is_other);
        return;
    }
    if (r->n_marker == 0) {
        text_byte(r, c);
        return;
    }
    take(r, NULL, 0); /* it was no marker */
    read_byte(r, c);  /* which may begin one */
}

/* Scans text[0..size), and clears what the last call found. */
static void scan_text(struct reasoning_scan *r, const char *text, size_t size)
{
    buffer_clear(&r->reasoning);
    buffer_clear(&r->reply);
    for (size_t i = 0; i < size && !r->held.failed; i++)
        read_byte(r, text[i]);
}

/* Returns the size of a token's text. Special tokens have text where calls are read. */
static size_t text_size(const struct reasoning_scan *r, const struct token_text *token)
{
    bool shown = !token->special || r->markers.call || smol_reasoning_begins_marker(token);
    return shown ? token->length : 0;
}

static void scan_token(struct reasoning_scan *r, const struct token_text *token)
{
    r->n_tokens++;
    scan_text(r, (const char *)token->bytes, text_size(r, token));
    if (r->place == IN_REASONING)
        r->n_reasoning_tokens = r->n_tokens;
}

static bool scan_failed(const struct reasoning_scan *r)
{
    return r->held.failed || r->reasoning.failed || r->reply.failed;
}

static void scan_free(struct reasoning_scan *r)
{
    smol_free(r->held.text);
    smol_free(r->reasoning.text);
    smol_free(r->reply.text);
}

/* Begins the scan of an answer to a prompt. markers.open stays NULL if the model has none. */
static smol_status begin_scan(const smol_model *model, const uint32_t *prompt, size_t n,
                              smol_reply reply, struct reasoning_scan *scan, smol_error *error)
{
    *scan = (struct reasoning_scan){.exact = is_exact(reply)};
    return find_start(model, prompt, n, reply, &scan->markers, &scan->place, error);
}

/* --- readers ---------------------------------------------------------------------------------- */

smol_status smol_reasoning_reader_create(const smol_model *model, const uint32_t *prompt, size_t n,
                                         smol_reply reply, smol_reasoning_reader **reader,
                                         smol_error *error)
{
    struct reasoning_scan scan;
    error_clear(error);
    *reader = NULL;
    smol_status status = begin_scan(model, prompt, n, reply, &scan, error);
    if (status || (!scan.markers.open && scan.place == IN_REPLY))
        return status;
    *reader = smol_calloc(1, sizeof **reader);
    if (!*reader)
        return smol_fail_memory(error, "a reader of reasoning");
    **reader = (struct smol_reasoning_reader){.model = model, .text = scan, .tokens = scan};
    return SMOL_OK;
}

/* Describes what a call has found. */
static smol_status describe(const struct reasoning_scan *found, const struct reasoning_scan *tokens,
                            smol_reasoning_parts *parts, smol_error *error)
{
    *parts = (smol_reasoning_parts){.reasoning = found->reasoning.text,
                                    .n_reasoning = found->reasoning.size,
                                    .reply = found->reply.text,
                                    .n_reply = found->reply.size,
                                    .n_tokens = found->n_reasoning_tokens,
                                    .n_held = found->held.size};
    return scan_failed(found) || scan_failed(tokens)
               ? smol_fail_memory(error, "a reader of reasoning")
               : SMOL_OK;
}

smol_status smol_reasoning_reader_add(smol_reasoning_reader *reader, const char *text, size_t size,
                                      uint32_t id, smol_reasoning_parts *parts, smol_error *error)
{
    struct reasoning_scan *found = &reader->text, *tokens = &reader->tokens;
    error_clear(error);
    if (id != SMOL_NO_TOKEN) {
        const struct blob *blob = &reader->model->blob;
        const struct token_text token = smol_tokenizer_text(&blob->tokenizer, id);
        scan_token(tokens, &token);
        if (file_settle(&blob->file, blob->path, SMOL_OK, error))
            return error->status;
    }
    found->n_tokens =
        tokens->n_reasoning_tokens > 0 ? tokens->n_reasoning_tokens : tokens->n_tokens;
    scan_text(found, text, size);
    if (found->place == IN_REASONING)
        found->n_reasoning_tokens = tokens->n_tokens;
    return describe(found, tokens, parts, error);
}

smol_status smol_reasoning_reader_end(smol_reasoning_reader *reader, smol_reasoning_parts *parts,
                                      smol_error *error)
{
    struct reasoning_scan *found = &reader->text;
    error_clear(error);
    scan_text(found, NULL, 0);
    if (found->n_marker > 0 || found->place == BEFORE_REASONING)
        take(found, NULL, 0);
    return describe(found, &reader->tokens, parts, error);
}

void smol_reasoning_reader_free(smol_reasoning_reader *reader)
{
    if (!reader)
        return;
    scan_free(&reader->text);
    scan_free(&reader->tokens);
    smol_free(reader);
}

/* --- a limit ---------------------------------------------------------------------------------- */

enum { GRACE = 8 }; /* tokens, to complete a character or a marker */

static smol_status take_token(smol_reasoning_limit *limit, const struct token_text *token,
                              smol_error *error)
{
    limit->n_closing += limit->closes;
    scan_token(&limit->tokens, token);
    for (size_t i = 0; i < text_size(&limit->tokens, token); i++) {
        uint8_t byte = token->bytes[i];
        if ((byte & 0xc0) != 0x80)
            limit->n_missing = byte < 0xc0 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
        else
            limit->n_missing -= limit->n_missing > 0;
    }
    return scan_failed(&limit->tokens) ? smol_fail_memory(error, "a limit of reasoning") : SMOL_OK;
}

static smol_status end_reasoning(smol_reasoning_limit *limit, uint32_t *ids, size_t capacity,
                                 size_t *n, smol_error *error)
{
    const struct reasoning_scan *r = &limit->tokens;
    const smol_tokenize_params params = {.parse_special = 1};
    const char *close = r->markers.close;
    uint32_t *found;
    size_t n_found, used = r->n_tokens - r->n_before;
    bool begun = r->n_marker > 0 || limit->n_missing > 0;
    *n = 0;
    if (r->place != IN_REASONING)
        return SMOL_OK;
    if (used >= limit->most && (!begun || used - limit->most >= GRACE))
        limit->closes = true;
    if (!limit->closes)
        return SMOL_OK;
    smol_status status =
        smol_tokenize(limit->model, close, strlen(close), &params, &found, &n_found, error);
    if (status)
        return status;
    while (*n < capacity && limit->n_closing + *n < n_found) {
        ids[*n] = found[limit->n_closing + *n];
        ++*n;
    }
    smol_free(found);
    return SMOL_OK;
}

smol_status smol_reasoning_limit_create(const smol_model *model, const uint32_t *prompt, size_t n,
                                        smol_reply reply, size_t most, smol_reasoning_limit **limit,
                                        smol_error *error)
{
    struct reasoning_scan scan;
    error_clear(error);
    *limit = NULL;
    smol_status status = begin_scan(model, prompt, n, reply, &scan, error);
    if (status || !scan.markers.open)
        return status;
    *limit = smol_calloc(1, sizeof **limit);
    if (!*limit)
        return smol_fail_memory(error, "a limit of reasoning");
    **limit = (struct smol_reasoning_limit){
        .take = take_token, .end = end_reasoning, .model = model, .tokens = scan, .most = most};
    return SMOL_OK;
}

void smol_reasoning_limit_free(smol_reasoning_limit *limit)
{
    if (!limit)
        return;
    scan_free(&limit->tokens);
    smol_free(limit);
}
