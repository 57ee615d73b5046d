/* Finds the tokens of a word by their names, in a trie. */
#ifndef SMOL_RUNTIME_TOKENIZER_NAMES_H
#define SMOL_RUNTIME_TOKENIZER_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "format/tokenizer.h"
#include "runtime/tokenizer/watch.h"

/* WordPiece (Wu et al., 2016): from the start of word[0..size), size > 0, to its end, each time the
 * token with the longest name that fits; or the unknown token for the whole word. Writes the ids to
 * ids (size) and their number to *n. Reports its work to `watch`; if that cancels, the ids are
 * useless. */
void smol_wordpiece(const struct tokenizer_tables *tables, const uint8_t *word, size_t size,
                    uint32_t *ids, size_t *n, struct encode_watch *watch);

/* Unigram (Kudo, 2018): of all sequences of tokens whose names spell word[0..size), size > 0, the
 * one with the largest sum of scores, found by Viterbi's search. A character that is no token
 * counts as one that is worse than all; neighbours that are unknown become one unknown token, or
 * their bytes. Writes the ids to ids (size) and their number to *n. Errors: SMOL_ERROR_MEMORY, also
 * for words of 4 GiB. If `watch` cancels, the ids are useless. */
smol_status smol_unigram(const struct tokenizer_tables *tables, const uint8_t *word, size_t size,
                         uint32_t *ids, size_t *n, struct encode_watch *watch, smol_error *error);

#endif
