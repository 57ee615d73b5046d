/* Helpers that make JSON objects from the keys of a GGUF file. */
#ifndef SMOL_CONVERT_GGUF_MAKER_H
#define SMOL_CONVERT_GGUF_MAKER_H

#include <stdbool.h>

#include "convert/base/settings.h"
#include "convert/checkpoint/gguf.h"
#include "convert/checkpoint/gguf_tensors.h"

/* An object under construction. */
struct maker {
    const struct gguf *gguf;
    const struct gguf_arch *arch;    /* NULL: not supported */
    json_t *object;                  /* owned by the settings */
    const struct gguf_value *tokens; /* the texts of tokens, a list of strings; NULL: none */
    bool failed, bad_text;           /* memory ran out, or a text is not UTF-8 */
    smol_error *error;
};

/* Starts an object, which becomes that of *settings. */
struct maker smol_maker(const struct gguf *gguf, struct json_settings *settings, smol_error *error);

/* Returns `status`, or the error that the maker has noticed. */
smol_status smol_maker_finish(const struct maker *m, smol_status status);

/* Sets a member of an object, and takes ownership of `value`. NULL for either is noticed. */
void smol_maker_put(struct maker *m, json_t *object, const char *key, json_t *value);

/* Sets a member of m->object. */
void smol_maker_put_integer(struct maker *m, const char *key, uint64_t value);

/* Adds to a list, and takes ownership of `value`. NULL for either is noticed. */
void smol_maker_append(struct maker *m, json_t *list, json_t *value);

/* Notices that JSON could not take a text. */
void smol_maker_refuse_text(struct maker *m, struct gguf_text text);

/* Returns a new string, or NULL for a text that JSON cannot hold, which is noticed. */
json_t *smol_maker_text(struct maker *m, struct gguf_text text);

/* Returns the value of a key of the architecture, after its name and a dot, or NULL. */
const struct gguf_value *smol_maker_find(const struct maker *m, const char *key);

/* Reads an integer below 2^32. *integer stays unchanged if the key is absent. */
smol_status smol_maker_integer(const struct maker *m, const char *key, uint64_t *integer);

/* Returns an integer of the object, or 0 if it has none of this name. */
uint64_t smol_maker_setting(const struct maker *m, const char *key);

/* Reads the id of a special token, tokenizer.ggml.NAME_token_id; -1 (2^32 - 1) stands for none.
 * Errors: SMOL_ERROR_DAMAGED (an id that no token has). */
smol_status smol_maker_token_id(const struct maker *m, const char *name, uint64_t *id, bool *found);

/* Returns the text of token `id`, which must exist. Takes time in proportion to the id. */
struct gguf_text smol_maker_token(const struct maker *m, uint64_t id);

/* Reports a value that is not `expected`. */
smol_status smol_maker_fail_value(const struct maker *m, const struct gguf_value *value,
                                  const char *expected);

/* layers.c: reads the keys that tell how layers differ from Llama's, such as states in place of
 * attention and experts. Adds to the object, which has the settings that one key states, those that
 * need several or that llama.cpp knows without a key. Errors: SMOL_ERROR_DAMAGED (keys that
 * contradict each other), SMOL_ERROR_UNSUPPORTED (a value that smolconv cannot state). */
smol_status smol_gguf_take_layers(struct maker *m);

/* varied.c: reads the sizes of layers that differ in shape, in place of those of heads and of the
 * MLP that all layers share. `tensors` tell which layers have values of their own. Errors: as
 * above.
 */
smol_status smol_gguf_take_varied(struct maker *m, const struct safetensors *tensors);

/* rope.c: adds the rotary embedding, which keys and, in files of some models, tensors of factors
 * describe. Errors: as above. */
smol_status smol_gguf_take_rope(struct maker *m, const struct safetensors *tensors);

/* The longest piece in bytes: trying all cuts of a piece takes time in proportion to the square of
 * its length. Published pieces have at most 93 bytes. */
enum { GGUF_MAX_PIECE = 256 };

/* The most merges. The largest published vocabularies make about half a million. jansson takes up
 * to 400 bytes for each, which may be made of a few bytes of the file. */
enum { GGUF_MAX_MERGES = 1 << 20 };

/* merges.c: the merges of a SentencePiece tokenizer of the BPE kind, whose file has only scores.
 * Sets *list to the merges that transformers makes of the pieces `vocabulary` (text to id) with
 * their `scores`, an array of f32 with an item for each id: every way to cut a piece into two
 * pieces, the best piece first. `is_piece` (n ids) leaves out control tokens; pieces have at most
 * GGUF_MAX_PIECE bytes. Errors: SMOL_ERROR_UNSUPPORTED (more than GGUF_MAX_MERGES),
 * SMOL_ERROR_MEMORY. */
smol_status smol_gguf_merges(const struct maker *m, const json_t *vocabulary,
                             const struct gguf_value *scores, const bool *is_piece, json_t **list);

#endif
