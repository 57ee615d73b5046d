/* Reads the pre-tokenizer of a tokenizer.json, see pretokenizer.h: a sequence of stages, each a
 * pattern and an action for its matches. */
#include "convert/tokenizer/pretokenizer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/pattern/code_set.h"
#include "convert/tokenizer/json_part.h"
#include "format/format.h"

#define GPT2_PATTERN                                                                               \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

enum { MAX_NESTED = 8 }; /* depth of nested sequences */

/* --- pre-tokenizers without a scanner ------------------------------------------------------- */

static bool splits_digits(const json_t *part)
{
    return part_has_type(part, "Digits") &&
           json_is_true(json_object_get(part, "individual_digits"));
}

/* Returns whether ByteLevel splits by GPT-2's pattern, which is the default. */
static bool uses_pattern(const json_t *part)
{
    const json_t *use_regex = json_object_get(part, "use_regex");
    return !use_regex || json_is_true(use_regex);
}

static bool splits_as_gpt2(const json_t *part)
{
    return part_has_type(part, "ByteLevel") && uses_pattern(part) &&
           json_is_false(json_object_get(part, "add_prefix_space"));
}

/* Returns the bits for the whole pre-tokenizer, or 0 if it needs a scanner. */
static uint32_t bits_of(const json_t *whole)
{
    const json_t *parts;
    if (splits_as_gpt2(whole))
        return PRETOKENIZE_GPT2;
    if (!part_is_sequence(whole, "pretokenizers", &parts))
        return 0;
    size_t n_digits = splits_digits(json_array_get(parts, 0));
    if (json_array_size(parts) != n_digits + 1 || !splits_as_gpt2(json_array_get(parts, n_digits)))
        return 0;
    return PRETOKENIZE_GPT2 | (n_digits ? PRETOKENIZE_DIGITS : 0);
}

/* --- stages --------------------------------------------------------------------------------- */

struct reader {
    const char *path;
    smol_error *error;
    struct scanner_plan *plan;
    const json_t *parts[SCANNER_MAX_STAGES]; /* the source of each stage */
    bool in_bytes;                           /* after ByteLevel */
};

static smol_status refuse(const struct reader *r, const json_t *part)
{
    return part_refuse(r->path, "pre_tokenizer", part, r->error);
}

/* Refuses a pattern with the reason and a quotation. */
static smol_status refuse_pattern(const struct reader *r, const json_t *part,
                                  const smol_error *reason)
{
    const json_t *pattern = json_object_get(part, "pattern");
    if (reason->status != SMOL_ERROR_UNSUPPORTED) {
        *r->error = *reason;
        return reason->status;
    }
    char *quoted = json_dumps(pattern ? pattern : part, JSON_COMPACT | JSON_ENSURE_ASCII);
    smol_status status =
        smol_fail(r->error, SMOL_ERROR_UNSUPPORTED,
                  "%s: pre_tokenizer is not supported: %s, in %.240s: use a model with another",
                  r->path, reason->message, quoted ? quoted : "a pattern too large to quote");
    free(quoted);
    return status;
}

/* Adds a stage with an empty pattern. Returns NULL if there are too many. */
static struct pattern *add_stage(struct reader *r, const json_t *part,
                                 enum split_behaviour behaviour, uint32_t flags)
{
    struct scanner_plan *plan = r->plan;
    if (plan->n_stages == SCANNER_MAX_STAGES)
        return NULL;
    r->parts[plan->n_stages] = part;
    plan->stages[plan->n_stages].behaviour = behaviour;
    plan->stages[plan->n_stages].flags = flags | (r->in_bytes ? STAGE_BYTES : 0);
    return &plan->stages[plan->n_stages++].pattern;
}

static bool read_behaviour(const json_t *part, enum split_behaviour *behaviour)
{
    static const char *const names[SPLIT_COUNT] = {
        [SPLIT_REMOVED] = "Removed",
        [SPLIT_ISOLATED] = "Isolated",
        [SPLIT_PREVIOUS] = "MergedWithPrevious",
        [SPLIT_NEXT] = "MergedWithNext",
        [SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *name = json_string_value(json_object_get(part, "behavior"));
    for (int i = 0; name && i < SPLIT_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *behaviour = (enum split_behaviour)i;
            return true;
        }
    }
    return false;
}

static smol_status read_split(struct reader *r, const json_t *part)
{
    enum split_behaviour behaviour;
    const json_t *invert = json_object_get(part, "invert");
    const json_t *source = json_object_get(part, "pattern");
    const json_t *regex = json_object_get(source, "Regex");
    const json_t *text = json_object_get(source, "String");
    const json_t *string = regex ? regex : text;
    if (!read_behaviour(part, &behaviour) || !json_is_boolean(invert) || !json_is_string(string))
        return refuse(r, part);
    struct pattern *pattern =
        add_stage(r, part, behaviour, json_is_true(invert) ? STAGE_INVERT : 0);
    if (!pattern)
        return refuse(r, part);
    smol_error reason;
    smol_status status = (regex ? smol_pattern_parse : smol_pattern_literal)(
        json_string_value(string), json_string_length(string), pattern, &reason);
    return status ? refuse_pattern(r, part, &reason) : SMOL_OK;
}

/* Adds a node that matches one character of the set `name`, or a run of them if `repeat`. */
static bool add_named(struct pattern *pattern, const char *name, bool repeat, uint32_t *node)
{
    struct code_set set = {0};
    struct pattern_node one = {.kind = PATTERN_SET};
    struct pattern_node many = {.kind = PATTERN_REPEAT, .min = 1, .max = REPEAT_FOREVER};
    smol_unicode_set(name, strlen(name), &set);
    if (!smol_pattern_add_set(pattern, &set, &one.set) ||
        !smol_pattern_add(pattern, one, &many.left))
        return false;
    *node = many.left;
    return !repeat || smol_pattern_add(pattern, many, node);
}

/* Adds a stage whose matches are single characters of a set. */
static smol_status read_named(struct reader *r, const json_t *part, const char *name,
                              enum split_behaviour behaviour)
{
    struct pattern *pattern = add_stage(r, part, behaviour, 0);
    if (!pattern)
        return refuse(r, part);
    return add_named(pattern, name, false, &pattern->root)
               ? SMOL_OK
               : smol_fail_memory(r->error, "a pattern");
}

static smol_status read_digits(struct reader *r, const json_t *part)
{
    const json_t *individual = json_object_get(part, "individual_digits");
    if (!json_is_boolean(individual))
        return refuse(r, part);
    return read_named(r, part, ":numeric",
                      json_is_true(individual) ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS);
}

static smol_status read_punctuation(struct reader *r, const json_t *part)
{
    enum split_behaviour behaviour = SPLIT_ISOLATED;
    if (json_object_get(part, "behavior") && !read_behaviour(part, &behaviour))
        return refuse(r, part);
    return read_named(r, part, ":punctuation", behaviour);
}

static smol_status read_whitespace_split(struct reader *r, const json_t *part)
{
    return read_named(r, part, ":space", SPLIT_REMOVED);
}

/* Adds BERT's stages: white space is dropped, and each character of punctuation stands alone. */
static smol_status read_bert(struct reader *r, const json_t *part)
{
    smol_status status = read_whitespace_split(r, part);
    return status ? status : read_named(r, part, ":punctuation", SPLIT_ISOLATED);
}

/* Adds a stage that keeps words and runs of characters that are neither word nor space. */
static smol_status read_whitespace(struct reader *r, const json_t *part)
{
    struct pattern *pattern = add_stage(r, part, SPLIT_REMOVED, STAGE_INVERT);
    struct pattern_node choice = {.kind = PATTERN_CHOICE};
    if (!pattern)
        return refuse(r, part);
    return add_named(pattern, ":word", true, &choice.left) &&
                   add_named(pattern, ":gap", true, &choice.right) &&
                   smol_pattern_add(pattern, choice, &pattern->root)
               ? SMOL_OK
               : smol_fail_memory(r->error, "a pattern");
}

/* Reads ByteLevel. After it, pieces consist of characters that represent bytes. */
static smol_status read_byte_level(struct reader *r, const json_t *part)
{
    const json_t *add_prefix_space = json_object_get(part, "add_prefix_space");
    if (!json_is_boolean(add_prefix_space) || r->in_bytes)
        return refuse(r, part);
    bool adds_space = json_is_true(add_prefix_space);
    if (!uses_pattern(part) && !adds_space) {
        r->in_bytes = true;
        return SMOL_OK;
    }
    struct pattern *pattern = add_stage(r, part, SPLIT_ISOLATED, adds_space ? STAGE_SPACE : 0);
    const char *text = uses_pattern(part) ? GPT2_PATTERN : "[^\\s\\S]"; /* never matches */
    if (!pattern)
        return refuse(r, part);
    r->in_bytes = true;
    return smol_pattern_parse(text, strlen(text), pattern, r->error);
}

static smol_status read_part(struct reader *r, const json_t *part, int depth)
{
    static const struct {
        const char *type;
        smol_status (*read)(struct reader *r, const json_t *part);
    } types[] = {
        {"Split", read_split},           {"ByteLevel", read_byte_level},
        {"Digits", read_digits},         {"Punctuation", read_punctuation},
        {"Whitespace", read_whitespace}, {"WhitespaceSplit", read_whitespace_split},
        {"BertPreTokenizer", read_bert},
    };
    const json_t *parts;
    smol_status status = SMOL_OK;
    if (part_is_sequence(part, "pretokenizers", &parts) && depth < MAX_NESTED) {
        for (size_t i = 0; !status && i < json_array_size(parts); i++)
            status = read_part(r, json_array_get(parts, i), depth + 1);
        return status;
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (part_has_type(part, types[i].type))
            return types[i].read(r, part);
    return refuse(r, part);
}

/* --- entry points --------------------------------------------------------------------------- */

/* Reads all parts as stages that end in bytes, as ByteLevel leaves them. */
static smol_status read_bytes(struct reader *r, const json_t *whole)
{
    smol_status status = read_part(r, whole, 0);
    return !status && !r->in_bytes ? refuse(r, whole) : status;
}

/* Reads the parts before a Metaspace at the end, which another reader takes, as stages of
 * characters. */
static smol_status read_characters(struct reader *r, const json_t *whole)
{
    const json_t *parts, *part = whole;
    bool many = part_is_sequence(whole, "pretokenizers", &parts);
    size_t n = many ? json_array_size(parts) : part_is_set(whole);
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < n && !status; i++) {
        part = many ? json_array_get(parts, i) : whole;
        if (i + 1 < n || !part_has_type(part, "Metaspace"))
            status = read_part(r, part, 0);
    }
    return !status && r->in_bytes ? refuse(r, whole) : status;
}

/* Reads the parts and compiles their stages. */
static smol_status compile(struct reader *r, const json_t *whole, bool bytes,
                           struct pretokenizer *pretokenizer)
{
    uint32_t stage;
    smol_error reason;
    smol_status status = (bytes ? read_bytes : read_characters)(r, whole);
    if (status || (!bytes && r->plan->n_stages == 0))
        return status;
    pretokenizer->bits = PRETOKENIZE_SCANNER;
    if (smol_scanner_compile(r->plan, &pretokenizer->scanner, &stage, &reason))
        return refuse_pattern(r, r->plan->n_stages ? r->parts[stage] : whole, &reason);
    return SMOL_OK;
}

static smol_status read(const json_t *root, const char *path, bool bytes,
                        struct pretokenizer *pretokenizer, smol_error *error)
{
    struct scanner_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return smol_fail_memory(error, "the pre-tokenizer");
    struct reader reader = {.path = path, .error = error, .plan = plan};
    smol_status status =
        compile(&reader, json_object_get(root, "pre_tokenizer"), bytes, pretokenizer);
    smol_scanner_plan_free(plan);
    free(plan);
    return status;
}

smol_status smol_pretokenizer_read(const json_t *root, const char *path,
                                   struct pretokenizer *pretokenizer, smol_error *error)
{
    const json_t *whole = json_object_get(root, "pre_tokenizer");
    *pretokenizer = (struct pretokenizer){.bits = bits_of(whole)};
    return pretokenizer->bits ? SMOL_OK : read(root, path, true, pretokenizer, error);
}

smol_status smol_pretokenizer_read_words(const json_t *root, const char *path,
                                         struct pretokenizer *pretokenizer, smol_error *error)
{
    *pretokenizer = (struct pretokenizer){.bits = PRETOKENIZE_GPT2}; /* ignored */
    return read(root, path, false, pretokenizer, error);
}

void smol_pretokenizer_free(struct pretokenizer *pretokenizer)
{
    free(pretokenizer->scanner.data);
    *pretokenizer = (struct pretokenizer){0};
}
