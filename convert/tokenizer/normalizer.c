/* Reads the normalizer of a tokenizer.json as steps. */
#include "convert/tokenizer/text_rules.h"

#include "common/utf8.h"

enum { STEPS_OF_PART = 3 }; /* steps that one part becomes */

/* Steps that a part of the normalizer becomes. */
struct taken {
    struct rule_step steps[STEPS_OF_PART];
    uint32_t n;
};

static bool is_short(struct json_text text)
{
    return text.data && text.size <= TEXT_MAX_LENGTH;
}

static bool take(struct taken *taken, struct rule_step step)
{
    taken->steps[taken->n++] = step;
    return true;
}

static bool take_kind(struct taken *taken, enum text_step_kind kind)
{
    return take(taken, (struct rule_step){.kind = kind});
}

static bool take_map(struct taken *taken, uint32_t rules)
{
    return rules == 0 || take(taken, (struct rule_step){.kind = STEP_MAP, .argument = rules});
}

/* Reads the regular expression "X{2,}", X being a character without a meaning of its own. Others
 * are refused. */
static struct json_text repeated(struct json_text regex)
{
    static const char end[] = "{2,}", operators[] = "\\^$.[]|()?*+{}";
    size_t size = regex.size > 4 ? regex.size - 4 : 0;
    const uint8_t *text = (const uint8_t *)regex.data;
    uint32_t point;
    bool one = size > 0 && memcmp(regex.data + size, end, 4) == 0 && !strchr(operators, text[0]) &&
               smol_utf8_decode(text, size, &point) == size;
    return one ? (struct json_text){regex.data, size} : (struct json_text){0};
}

static bool take_replace(const json_t *part, struct taken *taken)
{
    const json_t *pattern = json_object_get(part, "pattern");
    struct json_text literal = json_text_of(json_object_get(pattern, "String"));
    struct json_text regex = json_text_of(json_object_get(pattern, "Regex"));
    struct rule_step step = {
        .kind = literal.data ? STEP_REPLACE : STEP_COLLAPSE,
        .pattern = literal.data ? literal : repeated(regex),
        .text = json_text_of(json_object_get(part, "content")),
    };
    return is_short(step.pattern) && is_short(step.text) && step.pattern.size > 0 &&
           take(taken, step);
}

static bool take_prepend(const json_t *part, struct taken *taken)
{
    struct json_text text = json_text_of(json_object_get(part, "prepend"));
    return is_short(text) && text.size > 0 &&
           take(taken, (struct rule_step){.kind = STEP_PREPEND, .text = text});
}

static bool take_trim(const json_t *part, struct taken *taken)
{
    const json_t *left = json_object_get(part, "strip_left");
    const json_t *right = json_object_get(part, "strip_right");
    uint32_t sides = (json_is_true(left) ? 1u : 0) | (json_is_true(right) ? 2u : 0);
    if (!json_is_boolean(left) || !json_is_boolean(right))
        return false;
    return sides == 0 || take(taken, (struct rule_step){.kind = STEP_TRIM, .argument = sides});
}

/* Reads BertNormalizer. Accents are stripped by default if letters become lower case. */
static bool take_bert(const json_t *part, struct taken *taken)
{
    const json_t *clean = json_object_get(part, "clean_text");
    const json_t *pad = json_object_get(part, "handle_chinese_chars");
    const json_t *strip = json_object_get(part, "strip_accents");
    const json_t *lower = json_object_get(part, "lowercase");
    if (!json_is_boolean(clean) || !json_is_boolean(pad) || !json_is_boolean(lower) ||
        (part_is_set(strip) && !json_is_boolean(strip)))
        return false;
    uint32_t first = (json_is_true(clean) ? MAP_CLEAN : 0) | (json_is_true(pad) ? MAP_PAD : 0);
    uint32_t last = json_is_true(lower) ? MAP_LOWER : 0;
    if (!json_is_true(part_is_set(strip) ? strip : lower))
        return take_map(taken, first | last);
    return take_map(taken, first) && take_kind(taken, STEP_NFD) &&
           take_map(taken, last | MAP_STRIP_NONSPACING);
}

/* Returns a flag's value: true, false or, if it is neither, `otherwise`. */
static bool flag_of(const json_t *value, bool otherwise)
{
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* Compares BERT's normalizer with the settings in tokenizer_config.json, from which transformers'
 * classes for BERT make their own; other classes take it from the file. A class that is not named
 * follows from the model, so only what is stated is compared. */
smol_status smol_normalizer_check_settings(const json_t *root, const char *path,
                                           const struct json_settings *settings)
{
    static const char *const generic[] = {"PreTrainedTokenizerFast", "PreTrainedTokenizer",
                                          "TokenizersBackend"};
    const json_t *part = json_object_get(root, "normalizer");
    const char *class = json_string_value(smol_setting(settings, "tokenizer_class"));
    if (!part_has_type(part, "BertNormalizer"))
        return SMOL_OK;
    for (size_t i = 0; class && i < sizeof generic / sizeof generic[0]; i++)
        if (strcmp(class, generic[i]) == 0)
            return SMOL_OK;
    const json_t *stated_lower = smol_setting(settings, "do_lower_case");
    const json_t *stated_strip = smol_setting(settings, "strip_accents");
    const json_t *stated_pad = smol_setting(settings, "tokenize_chinese_chars");
    bool lower = json_is_true(json_object_get(part, "lowercase"));
    bool strip = flag_of(json_object_get(part, "strip_accents"), lower);
    bool pad = json_is_true(json_object_get(part, "handle_chinese_chars"));
    bool wanted = flag_of(stated_lower, class || lower);
    const struct {
        const char *key, *in_file;
        bool value, wanted;
    } flags[] = {
        {"do_lower_case", "lowercase", lower, wanted},
        {"strip_accents", "strip_accents", strip,
         flag_of(stated_strip, class || stated_lower ? wanted : strip)},
        {"tokenize_chinese_chars", "handle_chinese_chars", pad, flag_of(stated_pad, class || pad)},
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (flags[i].value != flags[i].wanted)
            return smol_fail(settings->error, SMOL_ERROR_UNSUPPORTED,
                             "%s: the normalizer's %s is %s, but %s, with which transformers "
                             "replaces it, is %s in tokenizer_config.json%s: let transformers make "
                             "both again "
                             "(AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER))",
                             path, flags[i].in_file, flags[i].value ? "true" : "false",
                             flags[i].key, flags[i].wanted ? "true" : "false",
                             smol_setting(settings, flags[i].key) ? "" : " by default");
    return SMOL_OK;
}

static bool take_charsmap(const json_t *part, struct taken *taken)
{
    struct json_text map = json_text_of(json_object_get(part, "precompiled_charsmap"));
    return map.data && take(taken, (struct rule_step){.kind = STEP_CLUSTERS, .text = map});
}

static bool take_part(const json_t *part, struct taken *taken)
{
    if (part_has_type(part, "Replace"))
        return take_replace(part, taken);
    if (part_has_type(part, "Prepend"))
        return take_prepend(part, taken);
    if (part_has_type(part, "Strip"))
        return take_trim(part, taken);
    if (part_has_type(part, "BertNormalizer"))
        return take_bert(part, taken);
    if (part_has_type(part, "Precompiled"))
        return take_charsmap(part, taken);
    if (part_has_type(part, "NFC"))
        return take_kind(taken, STEP_NFC);
    if (part_has_type(part, "NFD"))
        return take_kind(taken, STEP_NFD);
    if (part_has_type(part, "NFKC"))
        return take_map(taken, MAP_COMPATIBILITY) && take_kind(taken, STEP_NFC);
    if (part_has_type(part, "NFKD"))
        return take_map(taken, MAP_COMPATIBILITY) && take_kind(taken, STEP_NFD);
    if (part_has_type(part, "Lowercase"))
        return take_map(taken, MAP_LOWER);
    return part_has_type(part, "StripAccents") && take_map(taken, MAP_STRIP_MARKS);
}

static smol_status read_part(const json_t *part, const char *path, struct rule_steps *steps,
                             smol_error *error)
{
    struct taken taken = {.n = 0};
    if (!take_part(part, &taken))
        return part_refuse(path, "normalizer", part, error);
    for (uint32_t i = 0; i < taken.n; i++) {
        if (steps->n == TEXT_MAX_STEPS)
            return part_refuse(path, "a normalizer with this many steps", part, error);
        steps->steps[steps->n++] = taken.steps[i];
    }
    return SMOL_OK;
}

smol_status smol_normalizer_read(const json_t *root, const char *path, struct rule_steps *steps,
                                 smol_error *error)
{
    const json_t *normalizer = json_object_get(root, "normalizer"), *parts;
    if (!part_is_set(normalizer))
        return SMOL_OK;
    if (!part_is_sequence(normalizer, "normalizers", &parts))
        return read_part(normalizer, path, steps, error);
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < json_array_size(parts) && !status; i++)
        status = read_part(json_array_get(parts, i), path, steps, error);
    return status;
}
