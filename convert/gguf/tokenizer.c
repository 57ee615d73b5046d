/* The tokenizer of a GGUF file as the object of tokenizer.json, see settings.h. The file states the
 * vocabulary, and names the rest: the kind of tokenizer and, for BPE of bytes, the pre-tokenizer.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "convert/gguf/maker.h"
#include "convert/gguf/settings.h"
#include "format/format.h"
#include "format/model.h"

/* The kinds of tokens, as the format numbers them. */
enum token_kind {
    KIND_NORMAL = 1,
    KIND_UNKNOWN,
    KIND_CONTROL,
    KIND_USER_DEFINED,
    KIND_UNUSED,
    KIND_BYTE,
};

static const char space[] = "\xe2\x96\x81"; /* U+2581, which stands for a space */

/* --- pre-tokenizers ----------------------------------------------------------------------- */

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS_BEFORE_NUMBERS CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end)                                                                                 \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER     \
    "*" end "|"
#define CASED_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

#define LLAMA3(pre)                                                                                \
    {                                                                                              \
        .name = (pre), .patterns = {WORDS_BEFORE_NUMBERS "\\p{N}{1,3}" REST}, .whole_words = true, \
        .begins = true                                                                             \
    }

/* The pre-tokenizers whose names state one published tokenizer.json's rules. Those of exaone4,
 * falcon3 and falcon-h1 are llama.cpp's. */
enum { N_PRE_PATTERNS = 4 };
static const struct pre {
    const char *name;
    const char *patterns[N_PRE_PATTERNS]; /* none: that of GPT-2, which needs no pattern */
    bool digits;                          /* each digit is a word */
    bool nfc;                             /* text is normalized first */
    bool whole_words;                     /* a word that is a token is not merged */
    bool begins;                          /* bos is added unless the file says otherwise */
} pres[] = {
    {.name = "gpt-2"},
    {.name = "exaone4"},
    {.name = "phi-2"},
    {.name = "olmo", .nfc = true},
    {.name = "modern-bert", .nfc = true},
    {.name = "smollm", .digits = true},
    {.name = "starcoder", .digits = true},
    {.name = "refact", .digits = true},
    {.name = "qwen2", .patterns = {WORDS_BEFORE_NUMBERS "\\p{N}" REST}, .nfc = true},
    {.name = "deepseek-r1-qwen", .patterns = {WORDS_BEFORE_NUMBERS "\\p{N}" REST}, .nfc = true},
    {.name = "dbrx", .patterns = {WORDS_BEFORE_NUMBERS "\\p{N}{1,3}" REST}},
    {.name = "chatglm-bpe", .patterns = {WORDS_BEFORE_NUMBERS "\\p{N}{1,3}" REST}},
    {.name = "glm4", .patterns = {WORDS_BEFORE_NUMBERS "\\p{N}{1,3}" REST}},
    LLAMA3("llama-bpe"),
    LLAMA3("llama3"),
    LLAMA3("llama-v3"),
    LLAMA3("lfm2"),
    LLAMA3("falcon3"),
    LLAMA3("falcon-h1"),
    {.name = "deepseek-coder",
     .patterns = {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
                  "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"},
     .digits = true},
    {.name = "hunyuan-dense",
     .patterns = {"\\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
                  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
                  "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"}},
    {.name = "qwen35",
     .patterns = {CONTRACTIONS
                  "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+"
                  "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     .nfc = true},
    {.name = "gpt-4o", .patterns = {CASED(CONTRACTIONS "?") "\\p{N}{1,3}" CASED_REST}},
    {.name = "tekken",
     .patterns = {CASED("") "\\p{N}" CASED_REST},
     .whole_words = true,
     .begins = true},
};

static smol_status find_pre(const struct maker *m, const struct pre **pre)
{
    const struct gguf_value *value = smol_gguf_find(m->gguf, "tokenizer.ggml.pre");
    const struct gguf_text name = smol_gguf_string(value);
    for (size_t i = 0; i < sizeof pres / sizeof pres[0]; i++)
        if (gguf_text_is(name, pres[i].name)) {
            *pre = &pres[i];
            return SMOL_OK;
        }
    if (value)
        return smol_maker_fail_value(
            m, value,
            "gpt-2, phi-2, exaone4, olmo, modern-bert, smollm, starcoder, refact, "
            "qwen2, deepseek-r1-qwen, qwen35, dbrx, chatglm-bpe, glm4, llama-bpe, llama3, "
            "llama-v3, lfm2, falcon3, falcon-h1, deepseek-coder, "
            "hunyuan-dense, gpt-4o or tekken");
    return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                     "%s: tokenizer.ggml.pre is missing, so it is unknown how text is cut into "
                     "words: use a newer file",
                     m->gguf->path);
}

static void put_pre(struct maker *m, const struct pre *pre)
{
    json_t *list = json_array();
    if (pre->digits)
        smol_maker_append(m, list,
                          json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1));
    for (size_t i = 0; i < N_PRE_PATTERNS && pre->patterns[i]; i++)
        smol_maker_append(m, list,
                          json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                                    pre->patterns[i], "behavior", "Isolated", "invert", 0));
    smol_maker_append(m, list,
                      json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                                "trim_offsets", 1, "use_regex", !pre->patterns[0]));
    smol_maker_put(m, m->object, "pre_tokenizer",
                   json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list));
    if (pre->nfc)
        smol_maker_put(m, m->object, "normalizer", json_pack("{s:s}", "type", "NFC"));
    smol_maker_put(m, m->object, "decoder",
                   json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 1,
                             "trim_offsets", 1, "use_regex", 1));
}

/* --- tokens ------------------------------------------------------------------------------- */

/* The lists of the file, an entry for each token. */
struct vocabulary_lists {
    const struct gguf_value *kinds;  /* NULL: all are normal */
    const struct gguf_value *scores; /* NULL: none */
};

static smol_status find_lists(const struct maker *m, struct vocabulary_lists *lists)
{
    static const char *const names[] = {"tokenizer.ggml.token_type", "tokenizer.ggml.scores"};
    const struct gguf_value **found[] = {&lists->kinds, &lists->scores};
    static const enum gguf_type types[] = {GGUF_I32, GGUF_F32};
    if (!m->tokens || m->tokens->n == 0 || m->tokens->n > MODEL_MAX_VOCAB)
        return smol_fail(m->error,
                         m->tokens && m->tokens->n ? SMOL_ERROR_UNSUPPORTED : SMOL_ERROR_DAMAGED,
                         "%s: tokenizer.ggml.tokens must be a list of 1 to %d texts", m->gguf->path,
                         MODEL_MAX_VOCAB);
    for (size_t i = 0; i < 2; i++) {
        const struct gguf_value *value = smol_gguf_find(m->gguf, names[i]);
        bool good = value && value->type == GGUF_ARRAY && value->n == m->tokens->n &&
                    (value->item == types[i] || (i == 0 && value->item == GGUF_U32));
        if (value && !good)
            return smol_fail(m->error, SMOL_ERROR_DAMAGED,
                             "%s: %s must have a number for each of the %llu tokens", m->gguf->path,
                             names[i], (unsigned long long)m->tokens->n);
        *found[i] = value;
    }
    return SMOL_OK;
}

static enum token_kind kind_of(const struct vocabulary_lists *lists, uint64_t id)
{
    double kind = lists->kinds ? smol_gguf_item(lists->kinds, id) : KIND_NORMAL;
    return kind >= KIND_NORMAL && kind <= KIND_BYTE ? (enum token_kind)kind : KIND_UNUSED;
}

static json_t *added_token(struct maker *m, struct gguf_text text, uint64_t id, bool special)
{
    return json_pack("{s:I, s:o, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content",
                     smol_maker_text(m, text), "single_word", 0, "lstrip", 0, "rstrip", 0,
                     "normalized", 0, "special", special);
}

static smol_status check_size(const struct maker *m, struct gguf_text text, uint64_t id)
{
    return text.size <= GGUF_MAX_PIECE
               ? SMOL_OK
               : smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                           "%s: token %llu is longer than %d bytes: convert the original "
                           "checkpoint",
                           m->gguf->path, (unsigned long long)id, GGUF_MAX_PIECE);
}

/* Turns a piece of WordPiece's into that of tokenizer.json: the file has U+2581 before words, and
 * nothing before the others, which tokenizer.json marks. `marked` has room for one. */
static struct gguf_text word_piece(struct gguf_text text, char marked[GGUF_MAX_PIECE + 2])
{
    if (text.size >= strlen(space) && memcmp(text.data, space, strlen(space)) == 0)
        return (struct gguf_text){text.data + strlen(space), text.size - strlen(space)};
    marked[0] = marked[1] = '#';
    memcpy(marked + 2, text.data, text.size);
    return (struct gguf_text){marked, text.size + 2};
}

/* Puts the tokens into the vocabulary, and some of them also into the list of added tokens.
 * `is_piece` (n tokens) is set for those that merges may make; NULL for WordPiece. */
static smol_status put_tokens(struct maker *m, const struct vocabulary_lists *lists,
                              json_t *vocabulary, bool *is_piece)
{
    json_t *added = json_array();
    const uint8_t *at = m->tokens->data;
    char marked[GGUF_MAX_PIECE + 2];
    smol_status status = SMOL_OK;
    for (uint64_t id = 0; id < m->tokens->n && !status; id++) {
        struct gguf_text text = smol_gguf_next(m->tokens, &at);
        enum token_kind kind = kind_of(lists, id);
        bool is_added = kind == KIND_CONTROL || kind == KIND_UNKNOWN || kind == KIND_USER_DEFINED;
        if (is_piece)
            is_piece[id] = kind == KIND_NORMAL;
        if (kind == KIND_UNUSED)
            continue;
        if (!is_piece && kind != KIND_CONTROL && (status = check_size(m, text, id)))
            continue;
        if (!is_piece && kind != KIND_CONTROL)
            text = word_piece(text, marked);
        if (is_added)
            smol_maker_append(m, added, added_token(m, text, id, kind != KIND_USER_DEFINED));
        if (json_object_getn(vocabulary, text.data, text.size))
            status = smol_fail(m->error, SMOL_ERROR_DAMAGED,
                               "%s: two tokens have the text of token %llu: use another file",
                               m->gguf->path, (unsigned long long)id);
        else if (json_object_setn_new(vocabulary, text.data, text.size,
                                      json_integer((json_int_t)id)))
            smol_maker_refuse_text(m, text);
    }
    smol_maker_put(m, m->object, "added_tokens", added);
    return status;
}

/* --- the beginning and the end of a text ---------------------------------------------------- */

static smol_status read_flag(const struct maker *m, const char *key, bool *flag)
{
    const struct gguf_value *value = smol_gguf_find(m->gguf, key);
    if (value && !smol_gguf_flag(value, flag))
        return smol_maker_fail_value(m, value, "true or false");
    return SMOL_OK;
}

static void append_special(struct maker *m, json_t *template, json_t *tokens, uint64_t id)
{
    json_t *text = smol_maker_text(m, smol_maker_token(m, id));
    const char *name = text ? json_string_value(text) : "";
    smol_maker_append(m, template,
                      json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", name, "type_id", 0));
    smol_maker_put(
        m, tokens, name,
        json_pack("{s:s, s:[I], s:[s]}", "id", name, "ids", (json_int_t)id, "tokens", name));
    json_decref(text);
}

/* Adds a post-processor that puts tokens, of which each may be NULL, before and after a text. */
static void put_around(struct maker *m, const uint64_t *before, const uint64_t *after)
{
    if (!before && !after)
        return;
    json_t *template = json_array(), *tokens = json_object();
    if (before)
        append_special(m, template, tokens, *before);
    smol_maker_append(m, template,
                      json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
    if (after)
        append_special(m, template, tokens, *after);
    smol_maker_put(m, m->object, "post_processor",
                   json_pack("{s:s, s:o, s:[], s:o}", "type", "TemplateProcessing", "single",
                             template, "pair", "special_tokens", tokens));
}

/* Adds a post-processor that puts bos before a text, or eos after it. */
static smol_status put_ends(struct maker *m, bool begins)
{
    bool ends = false, has_bos, has_eos;
    uint64_t bos = 0, eos = 0;
    smol_status status;
    if ((status = read_flag(m, "tokenizer.ggml.add_bos_token", &begins)) ||
        (status = read_flag(m, "tokenizer.ggml.add_eos_token", &ends)) ||
        (status = smol_maker_token_id(m, "bos", &bos, &has_bos)) ||
        (status = smol_maker_token_id(m, "eos", &eos, &has_eos)))
        return status;
    put_around(m, begins && has_bos ? &bos : NULL, ends && has_eos ? &eos : NULL);
    return SMOL_OK;
}

/* --- the kinds ---------------------------------------------------------------------------- */

static void put_model(struct maker *m, json_t *vocabulary, json_t *merges, bool of_bytes,
                      bool whole_words)
{
    json_t *model = json_pack("{s:s, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "fuse_unk",
                              !of_bytes, "byte_fallback", !of_bytes, "ignore_merges", whole_words,
                              "vocab", vocabulary, "merges", merges);
    smol_maker_put(m, m->object, "model", model);
}

/* Reads the merges that a file lists. */
static smol_status list_merges(struct maker *m, json_t **list)
{
    const struct gguf_value *merges = smol_gguf_find(m->gguf, "tokenizer.ggml.merges");
    if (!merges || merges->type != GGUF_ARRAY || merges->item != GGUF_STRING)
        return smol_fail(m->error, SMOL_ERROR_DAMAGED,
                         "%s: tokenizer.ggml.merges must be a list of texts: use another file",
                         m->gguf->path);
    const uint8_t *at = merges->data;
    *list = json_array();
    for (uint64_t i = 0; i < merges->n; i++)
        smol_maker_append(m, *list, smol_maker_text(m, smol_gguf_next(merges, &at)));
    return SMOL_OK;
}

/* Makes a tokenizer of the kind gpt2: BPE of bytes. */
static smol_status make_gpt2(struct maker *m, const struct vocabulary_lists *lists,
                             json_t *vocabulary, bool *is_piece)
{
    const struct pre *pre = NULL;
    json_t *list = NULL;
    smol_status status = find_pre(m, &pre);
    if (!status)
        status = put_tokens(m, lists, vocabulary, is_piece);
    if (!status)
        status = put_ends(m, pre->begins);
    if (!status)
        status = list_merges(m, &list);
    if (status)
        return status;
    put_pre(m, pre);
    put_model(m, json_incref(vocabulary), list, true, pre->whole_words);
    return SMOL_OK;
}

/* Adds the steps that write spaces as U+2581, and their inverses. */
static void put_spaces(struct maker *m, bool prefix)
{
    json_t *replace = json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", " ",
                                "content", space);
    json_t *back =
        json_pack("[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]", "type", "Replace", "pattern", "String",
                  space, "content", " ", "type", "ByteFallback", "type", "Fuse");
    if (prefix) {
        replace = json_pack("{s:s, s:[{s:s, s:s}, o]}", "type", "Sequence", "normalizers", "type",
                            "Prepend", "prepend", space, replace);
        smol_maker_append(m, back,
                          json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ",
                                    "start", 1, "stop", 0));
    }
    smol_maker_put(m, m->object, "normalizer", replace);
    smol_maker_put(m, m->object, "decoder",
                   json_pack("{s:s, s:o}", "type", "Sequence", "decoders", back));
}

static smol_status check_pieces(const struct maker *m, const struct vocabulary_lists *lists,
                                const bool *is_piece)
{
    const uint8_t *at = m->tokens->data;
    for (uint64_t id = 0; id < m->tokens->n; id++) {
        const struct gguf_text text = smol_gguf_next(m->tokens, &at);
        smol_status status = is_piece[id] ? check_size(m, text, id) : SMOL_OK;
        if (status)
            return status;
        if (is_piece[id] && isnan(smol_gguf_item(lists->scores, id)))
            return smol_fail(m->error, SMOL_ERROR_DAMAGED,
                             "%s: the score of token %llu is not a number: download the file again",
                             m->gguf->path, (unsigned long long)id);
    }
    return SMOL_OK;
}

/* Makes a tokenizer of SentencePiece's BPE: of the kind llama, which has scores, or gemma4, which
 * lists the merges. */
static smol_status make_pieces(struct maker *m, const struct vocabulary_lists *lists,
                               json_t *vocabulary, bool *is_piece, bool scored)
{
    bool prefix = scored, trims = false, found;
    uint64_t unknown;
    json_t *merges = NULL;
    smol_status status;
    if ((scored && !lists->scores) || !lists->kinds ||
        smol_gguf_find(m->gguf, "tokenizer.ggml.precompiled_charsmap"))
        return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: its tokenizer has no scores or kinds of tokens, or a map of "
                         "characters: convert the original checkpoint",
                         m->gguf->path);
    if ((status = read_flag(m, "tokenizer.ggml.add_space_prefix", &prefix)) ||
        (status = read_flag(m, "tokenizer.ggml.remove_extra_whitespaces", &trims)) ||
        (status = smol_maker_token_id(m, "unknown", &unknown, &found)) ||
        (status = put_tokens(m, lists, vocabulary, is_piece)) ||
        (scored && (status = check_pieces(m, lists, is_piece))) || (status = put_ends(m, true)))
        return status;
    if (trims)
        return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: tokenizer.ggml.remove_extra_whitespaces is set: convert the original "
                         "checkpoint",
                         m->gguf->path);
    status = scored ? smol_gguf_merges(m, vocabulary, lists->scores, is_piece, &merges)
                    : list_merges(m, &merges);
    if (status)
        return status;
    put_spaces(m, prefix);
    put_model(m, json_incref(vocabulary), merges, false, false);
    if (found && !m->failed)
        smol_maker_put(m, json_object_get(m->object, "model"), "unk_token",
                       smol_maker_text(m, smol_maker_token(m, unknown)));
    return SMOL_OK;
}

/* Finds a special token of WordPiece's: by a key, or else by its usual text. */
static smol_status find_word(const struct maker *m, const json_t *vocabulary,
                             const char *const names[2], const char *text, uint64_t *id)
{
    bool found = false;
    smol_status status = SMOL_OK;
    for (size_t i = 0; i < 2 && names[i] && !found && !status; i++)
        status = smol_maker_token_id(m, names[i], id, &found);
    const json_t *named = json_object_get(vocabulary, text);
    if (status || found)
        return status;
    if (!named)
        return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: its tokenizer has no token %s: convert the original checkpoint",
                         m->gguf->path, text);
    *id = (uint64_t)json_integer_value(named);
    return SMOL_OK;
}

/* Returns whether the vocabulary has all capital letters, which text in lower case would not need.
 */
static bool has_capitals(const json_t *vocabulary)
{
    char letter[2] = "A";
    while (*letter <= 'Z' && json_object_get(vocabulary, letter))
        ++*letter;
    return *letter > 'Z';
}

/* Makes a tokenizer of the kind bert: WordPiece with BERT's rules. The file does not tell whether
 * text becomes lower case; the vocabulary does. */
static smol_status make_bert(struct maker *m, const struct vocabulary_lists *lists,
                             json_t *vocabulary)
{
    static const char *const first[2] = {"cls", "bos"}, *const last[2] = {"seperator", NULL};
    static const char *const other[2] = {"unknown", NULL};
    uint64_t cls = 0, sep = 0, unknown = 0;
    smol_status status = put_tokens(m, lists, vocabulary, NULL);
    if (status || (status = find_word(m, vocabulary, first, "[CLS]", &cls)) ||
        (status = find_word(m, vocabulary, last, "[SEP]", &sep)) ||
        (status = find_word(m, vocabulary, other, "[UNK]", &unknown)))
        return status;
    put_around(m, &cls, &sep);
    smol_maker_put(m, m->object, "normalizer",
                   json_pack("{s:s, s:b, s:b, s:n, s:b}", "type", "BertNormalizer", "clean_text", 1,
                             "handle_chinese_chars", 1, "strip_accents", "lowercase",
                             !has_capitals(vocabulary)));
    smol_maker_put(m, m->object, "pre_tokenizer", json_pack("{s:s}", "type", "BertPreTokenizer"));
    smol_maker_put(m, m->object, "decoder",
                   json_pack("{s:s, s:s, s:b}", "type", "WordPiece", "prefix", "##", "cleanup", 1));
    smol_maker_put(m, m->object, "model",
                   json_pack("{s:s, s:o, s:s, s:i, s:O}", "type", "WordPiece", "unk_token",
                             smol_maker_text(m, smol_maker_token(m, unknown)),
                             "continuing_subword_prefix", "##", "max_input_chars_per_word", 100,
                             "vocab", vocabulary));
    return SMOL_OK;
}

/* Writes bytes in base64, which JSON has in place of them. */
static json_t *base64(const uint8_t *bytes, uint64_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc(n / 3 * 4 + 5), *at = text;
    for (uint64_t i = 0; text && i < n; i += 3) {
        uint32_t bits = (uint32_t)bytes[i] << 16;
        bits |= i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0;
        bits |= i + 2 < n ? bytes[i + 2] : 0;
        for (unsigned k = 0; k < 4; k++)
            *at++ = i + k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=';
    }
    json_t *string = text ? json_stringn(text, (size_t)(at - text)) : NULL;
    free(text);
    return string;
}

/* Puts what XLM-RoBERTa's tokenizer does with a text before it is cut into pieces. */
static smol_status put_unigram_steps(struct maker *m)
{
    const struct gguf_value *map = smol_gguf_find(m->gguf, "tokenizer.ggml.precompiled_charsmap");
    json_t *steps = json_array();
    if (map && (map->type != GGUF_ARRAY || (map->item != GGUF_U8 && map->item != GGUF_I8))) {
        json_decref(steps);
        return smol_maker_fail_value(m, map, "a list of bytes");
    }
    if (map)
        smol_maker_append(m, steps,
                          json_pack("{s:s, s:o}", "type", "Precompiled", "precompiled_charsmap",
                                    base64(map->data, map->n)));
    smol_maker_append(
        m, steps, json_pack("{s:s, s:b, s:b}", "type", "Strip", "strip_left", 0, "strip_right", 1));
    smol_maker_append(m, steps,
                      json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "Regex",
                                " {2,}", "content", space));
    smol_maker_put(m, m->object, "normalizer",
                   json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", steps));
    for (size_t i = 0; i < 2; i++)
        smol_maker_put(m, m->object, i ? "decoder" : "pre_tokenizer",
                       json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", space,
                                 "prepend_scheme", "always", "split", 1));
    return SMOL_OK;
}

/* Puts the pieces with their scores. Tokens that only fill up the vocabulary come last. */
static smol_status put_scores(struct maker *m, const struct vocabulary_lists *lists, json_t *list)
{
    const uint8_t *at = m->tokens->data;
    uint64_t n = m->tokens->n;
    while (n > 0 && kind_of(lists, n - 1) == KIND_UNUSED)
        n--;
    for (uint64_t id = 0; id < n; id++) {
        json_t *text = smol_maker_text(m, smol_gguf_next(m->tokens, &at));
        double score = smol_gguf_item(lists->scores, id);
        if (!isfinite(score) || kind_of(lists, id) == KIND_UNUSED) {
            json_decref(text);
            return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                             "%s: token %llu has no score, or is not in use: convert the original "
                             "checkpoint",
                             m->gguf->path, (unsigned long long)id);
        }
        smol_maker_append(m, list, json_pack("[o, f]", text, score));
    }
    return SMOL_OK;
}

/* Makes a tokenizer of the kind t5: SentencePiece's Unigram, with XLM-RoBERTa's rules. */
static smol_status make_t5(struct maker *m, const struct vocabulary_lists *lists,
                           json_t *vocabulary, bool *is_piece)
{
    static const char *const first[2] = {"cls", "bos"}, *const last[2] = {"seperator", "eos"};
    static const char *const other[2] = {"unknown", NULL};
    uint64_t cls = 0, sep = 0, unknown = 0;
    bool prefix = true;
    smol_status status = SMOL_OK;
    if (!lists->scores || !lists->kinds || strcmp(m->arch ? m->arch->name : "", "bert") != 0)
        return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: its tokenizer (t5) has no scores or kinds of tokens, or is not that "
                         "of an encoder: convert the original checkpoint",
                         m->gguf->path);
    if ((status = read_flag(m, "tokenizer.ggml.add_space_prefix", &prefix)) ||
        (status = put_tokens(m, lists, vocabulary, is_piece)) ||
        (status = find_word(m, vocabulary, first, "<s>", &cls)) ||
        (status = find_word(m, vocabulary, last, "</s>", &sep)) ||
        (status = find_word(m, vocabulary, other, "<unk>", &unknown)))
        return status;
    if (!prefix)
        return smol_fail(m->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: tokenizer.ggml.add_space_prefix is false: convert the original "
                         "checkpoint",
                         m->gguf->path);
    json_t *scores = json_array();
    status = put_scores(m, lists, scores);
    smol_maker_put(m, m->object, "model",
                   json_pack("{s:s, s:I, s:b, s:o}", "type", "Unigram", "unk_id",
                             (json_int_t)unknown, "byte_fallback", 0, "vocab", scores));
    put_around(m, &cls, &sep);
    return status ? status : put_unigram_steps(m);
}

smol_status smol_gguf_tokenizer(const struct gguf *gguf, struct json_settings *tokenizer,
                                smol_error *error)
{
    struct maker m = smol_maker(gguf, tokenizer, error);
    const struct gguf_value *kind = smol_gguf_find(gguf, "tokenizer.ggml.model");
    const struct gguf_text name = smol_gguf_string(kind);
    bool of_bytes = gguf_text_is(name, "gpt2"), of_pieces = gguf_text_is(name, "llama");
    bool of_merges = gguf_text_is(name, "gemma4");
    bool of_words = gguf_text_is(name, "bert"), of_scores = gguf_text_is(name, "t5");
    struct vocabulary_lists lists = {0};
    if (!kind)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: tokenizer.ggml.model is missing: use a file with a tokenizer",
                         gguf->path);
    if (!of_bytes && !of_pieces && !of_merges && !of_words && !of_scores)
        return smol_maker_fail_value(&m, kind, "gpt2, llama, gemma4, bert or t5");
    smol_status status = find_lists(&m, &lists);
    if (status)
        return status;
    json_t *vocabulary = json_object();
    bool *is_piece = calloc(m.tokens->n, sizeof *is_piece);
    if (!vocabulary || !is_piece)
        status = smol_fail_memory(error, "the vocabulary");
    else if (of_words)
        status = make_bert(&m, &lists, vocabulary);
    else if (of_scores)
        status = make_t5(&m, &lists, vocabulary, is_piece);
    else if (of_bytes)
        status = make_gpt2(&m, &lists, vocabulary, is_piece);
    else
        status = make_pieces(&m, &lists, vocabulary, is_piece, of_pieces);
    free(is_piece);
    json_decref(vocabulary);
    return smol_maker_finish(&m, status);
}
