/* The tokens that may come next: terms against the trie of the vocabulary. */
#ifndef SMOL_RUNTIME_MASK_H
#define SMOL_RUNTIME_MASK_H

#include "runtime/constrain/string_fit.h"

struct masks;

/* Creates what finds the masks of a settled table. `inside` is smol_string_inside of any
 * characters, from before it was settled, or TERM_NOTHING if the table has no strings of JSON. All
 * arguments must outlive the masks. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_masks_create(struct term_table *table, term inside, const struct trie *vocabulary,
                              struct any_string_fit *strings, struct masks **masks,
                              smol_error *error);
void smol_masks_free(struct masks *masks);

/* Returns the bytes of memory that they take. */
size_t smol_masks_bytes(const struct masks *masks);

/* Returns the bit set (vocabulary->n_words) of the tokens after which the text can still be
 * completed, if `state` is what may follow the text so far. It is valid until the next call.
 * Returns NULL after an error, see smol_terms_status. */
const uint64_t *smol_masks_find(struct masks *masks, term state);

/* Returns the number of steps of work so far, those of the table included. */
uint64_t smol_masks_steps(const struct masks *masks);

/* Forgets what was found so far, before smol_terms_forget. */
void smol_masks_forget(struct masks *masks);

#endif
