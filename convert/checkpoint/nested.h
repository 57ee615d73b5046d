/* The language model in a checkpoint of more. A model that also reads pictures has the language
 * model's keys in config.json's object text_config, and its tensors under a longer name. Some
 * models also have tensors that predict further tokens. What a text does not need is skipped. */
#ifndef SMOL_CONVERT_NESTED_H
#define SMOL_CONVERT_NESTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "convert/base/settings.h"
#include "convert/checkpoint/safetensors.h"
#include "convert/families/family.h"

/* The tensors that were skipped. */
struct skipped_tensors {
    size_t n_vision, n_audio, n_further;
    uint64_t bytes;
};

/* A kind of model that contains a language model. */
enum { NEST_MAX_TEXTS = 4 };
struct nest {
    const char *architecture, *model_type;
    const char *texts[NEST_MAX_TEXTS]; /* model_type of families that it may contain, up to NULL;
                                        * the first is the default */
    const char *old_text;              /* another model_type of the first; NULL: none */
    bool is_flat;                      /* without a text_config, its keys are config.json's own */
    bool ties;                         /* the default of config.json's tie_word_embeddings */
    bool inner_ties;                   /* that of text_config ties embeddings too */
};

/* Sets *text to the keys of the language model: those of config.json itself, or of its text_config.
 * *nest is the model that contains it, or NULL. Errors: SMOL_ERROR_DAMAGED. */
smol_status smol_nested_find(const struct json_settings *config, struct json_settings *text,
                             const struct nest **nest);

/* Sets *family to that of the language model, by the keys that smol_nested_find has found. Its
 * architectures are of no use: they may name anything. Errors: SMOL_ERROR_DAMAGED,
 * SMOL_ERROR_UNSUPPORTED. */
smol_status smol_nested_family(const struct json_settings *text, const struct nest *nest,
                               const struct family **family);

/* Removes from a joined table the tensors that a family's language model does not have, and, if it
 * is `nested` in another model, what stands before the names of the others. Errors:
 * SMOL_ERROR_DAMAGED (two spellings of one tensor), SMOL_ERROR_MEMORY. */
smol_status smol_nested_strip(const struct family *family, bool nested, struct safetensors *all,
                              struct skipped_tensors *skipped, smol_error *error);

/* Describes what was skipped in a line such as "9 tensors of vision, 1.5 MB". Returns false if that
 * is nothing. */
enum { SKIPPED_TEXT = 160 };
bool smol_nested_tell(const struct skipped_tensors *skipped, char text[SKIPPED_TEXT]);

#endif
