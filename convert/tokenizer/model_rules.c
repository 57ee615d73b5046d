/* Reads the model of a tokenizer.json: its kind, its options and its vocabulary. */
#include <inttypes.h>

#include "common/text.h"
#include "convert/tokenizer/text_rules.h"

static const json_t *model_of(const json_t *root)
{
    return json_object_get(root, "model");
}

/* Returns whether an option is unset. Some files contain "" for an affix that is not used. */
static bool is_nothing(const json_t *value)
{
    const char *text = json_string_value(value);
    return !part_is_set(value) || json_is_false(value) || (text && !*text) ||
           (json_is_number(value) && json_number_value(value) == 0);
}

static smol_status read_flag(const json_t *root, const char *path, const char *key, bool *flag,
                             smol_error *error)
{
    const json_t *value = json_object_get(model_of(root), key);
    *flag = json_is_true(value);
    if (!part_is_set(value) || json_is_boolean(value))
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: %s must be true or false (in model): download it again", path, key);
}

static smol_status read_unknown(const json_t *root, const char *path, struct text_rules *rules,
                                smol_error *error)
{
    const json_t *unknown = json_object_get(model_of(root), "unk_token");
    rules->unknown = json_text_of(unknown);
    if (!part_is_set(unknown) || json_is_string(unknown))
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: unk_token must be a string (in model): download it again", path);
}

/* Takes the vocabulary of a model that is an object: token -> id. */
static void take_object(const json_t *root, struct text_rules *rules)
{
    rules->vocab = json_incref(json_object_get(model_of(root), "vocab"));
}

/* --- byte-pair encoding ---------------------------------------------------------------------- */

static smol_status read_bpe(const json_t *root, const char *path, struct text_rules *rules,
                            smol_error *error)
{
    static const char *const options[] = {"dropout", "continuing_subword_prefix",
                                          "end_of_word_suffix"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const json_t *value = json_object_get(model_of(root), options[i]);
        if (!is_nothing(value))
            return part_refuse(path, options[i], value, error);
    }
    take_object(root, rules);
    smol_status status = read_unknown(root, path, rules, error);
    if (!status)
        status = read_flag(root, path, "byte_fallback", &rules->byte_fallback, error);
    if (!status)
        status = read_flag(root, path, "fuse_unk", &rules->fuse_unknown, error);
    if (!status)
        status = read_flag(root, path, "ignore_merges", &rules->whole_words, error);
    return status;
}

/* --- WordPiece ------------------------------------------------------------------------------- */

static smol_status read_wordpiece(const json_t *root, const char *path, struct text_rules *rules,
                                  smol_error *error)
{
    const json_t *prefix = json_object_get(model_of(root), "continuing_subword_prefix");
    const json_t *most = json_object_get(model_of(root), "max_input_chars_per_word");
    rules->model = TEXT_WORDPIECE;
    rules->prefix = json_text_of(prefix);
    if (!rules->prefix.data || rules->prefix.size > TEXT_MAX_PREFIX)
        return part_refuse(path, "continuing_subword_prefix", prefix, error);
    if (!json_is_integer(most) || json_integer_value(most) < 1)
        return part_refuse(path, "max_input_chars_per_word", most, error);
    json_int_t characters = json_integer_value(most);
    rules->max_word = characters < UINT32_MAX ? (uint32_t)characters : UINT32_MAX;
    take_object(root, rules);
    smol_status status = read_unknown(root, path, rules, error);
    if (!status && !rules->unknown.data)
        status = part_refuse(path, "WordPiece without unk_token", model_of(root), error);
    return status;
}

/* --- Unigram --------------------------------------------------------------------------------- */

static smol_status fail_piece(const char *path, size_t id, const char *what, smol_error *error)
{
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: a piece %s (entry %zu of model.vocab): download it again", path, what,
                     id);
}

/* Returns a number of the file as the reference reads it: its decimal digits as an integer, divided
 * by or multiplied with a power of ten, which may differ from the nearest double in the last bit.
 * Where two ways to spell a word have equal scores, that bit decides. The digits are the fewest
 * that tell the number from others, as files have them. */
static double reference_number(double number)
{
    char text[40];
    int precision = 0;
    do
        snprintf(text, sizeof text, "%.*e", precision, number);
    while (precision++ < 17 && strtod(text, NULL) != number);
    uint64_t digits = 0;
    int exponent = 0;
    for (const char *c = text; *c && *c != 'e'; c++)
        if (is_digit(*c))
            digits = digits * 10 + (uint64_t)(*c - '0');
    exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10) - (precision - 1);
    double power = 1; /* exact up to 10^22, which is more than digits have */
    for (int i = exponent < 0 ? -exponent : exponent; i > 0; i--)
        power *= 10;
    double value = exponent < 0 ? (double)digits / power : (double)digits * power;
    return number < 0 ? -value : value;
}

/* Adds a piece, [text, score], to the vocabulary and to the scores. */
static smol_status take_piece(const json_t *piece, const char *path, size_t id,
                              struct text_rules *rules, smol_error *error)
{
    const json_t *text = json_array_get(piece, 0), *score = json_array_get(piece, 1);
    const char *name = json_string_value(text);
    size_t size = json_string_length(text);
    if (json_array_size(piece) != 2 || !name || !json_is_number(score))
        return fail_piece(path, id, "must be a text and a score", error);
    rules->scores[id] = json_number_value(score);
    if (!(rules->scores[id] > -TEXT_MAX_SCORE && rules->scores[id] < TEXT_MAX_SCORE))
        return fail_piece(path, id, "has a score that is too large", error);
    rules->scores[id] = reference_number(rules->scores[id]);
    if (json_object_getn(rules->vocab, name, size))
        return fail_piece(path, id, "appears twice", error);
    return json_object_setn_new(rules->vocab, name, size, json_integer((json_int_t)id))
               ? smol_fail_memory(error, "the vocabulary")
               : SMOL_OK;
}

static smol_status read_unigram(const json_t *root, const char *path, struct text_rules *rules,
                                smol_error *error)
{
    const json_t *list = json_object_get(model_of(root), "vocab");
    const json_t *unknown = json_object_get(model_of(root), "unk_id");
    size_t n = json_array_size(list);
    rules->model = TEXT_UNIGRAM;
    if (!json_is_array(list) || n == 0 || n >= UINT32_MAX)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: has no vocabulary (model.vocab): download it again", path);
    if (!part_is_set(unknown))
        return part_refuse(path, "Unigram without unk_id", unknown, error);
    if (!json_is_integer(unknown) || json_integer_value(unknown) < 0 ||
        json_integer_value(unknown) >= (json_int_t)n)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: unk_id is not an entry of model.vocab: download it again", path);
    rules->n_scores = (uint32_t)n;
    rules->scores = calloc(n, sizeof *rules->scores);
    rules->vocab = json_object();
    if (!rules->scores || !rules->vocab)
        return smol_fail_memory(error, "the vocabulary");
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < n && !status; i++)
        status = take_piece(json_array_get(list, i), path, i, rules, error);
    rules->unknown =
        json_text_of(json_array_get(json_array_get(list, (size_t)json_integer_value(unknown)), 0));
    return status ? status : read_flag(root, path, "byte_fallback", &rules->byte_fallback, error);
}

/* --- entry points ---------------------------------------------------------------------------- */

smol_status smol_model_rules_read(const json_t *root, const char *path, struct text_rules *rules,
                                  smol_error *error)
{
    const json_t *model = model_of(root);
    if (!json_is_object(model))
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: has no model (key \"model\"): download it again", path);
    const json_t *type = json_object_get(model, "type"); /* GPT-2's own file has no type */
    if (!type || part_has_type(model, "BPE"))
        return read_bpe(root, path, rules, error);
    if (part_has_type(model, "WordPiece"))
        return read_wordpiece(root, path, rules, error);
    if (part_has_type(model, "Unigram"))
        return read_unigram(root, path, rules, error);
    return part_refuse(path, "model type", type, error);
}
