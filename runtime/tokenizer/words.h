/* Cuts a text into words, and words into tokens. */
#ifndef SMOL_RUNTIME_TOKENIZER_WORDS_H
#define SMOL_RUNTIME_TOKENIZER_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/listener.h"
#include "format/tokenizer.h"

enum { WATCH_PACE = 1 << 18 }; /* work between two calls of the listener */

/* Reports the progress of a long encode to a listener, which can cancel it. The functions below
 * that take a watch then end early and succeed, and their ids are useless: the caller looks at
 * `cancelled`. */
struct encode_watch {
    const struct listener *listener;
    uint64_t done, total; /* bytes of text; normalization may change their number */
    uint64_t work;        /* since the last call of the listener; reading a byte counts 1 */
    bool cancelled;
};

/* Adds `work` and calls the listener if WATCH_PACE is reached. Returns whether the encode must
 * stop. */
static inline bool watch_cancels(struct encode_watch *watch, size_t work)
{
    watch->work += work;
    if (watch->cancelled || watch->work < WATCH_PACE || watch->total < 2)
        return watch->cancelled;
    uint64_t done = watch->done > 0 ? watch->done : 1;
    watch->work = 0;
    watch->cancelled = listener_cancels(
        watch->listener, done < watch->total ? done : watch->total - 1, watch->total);
    return watch->cancelled;
}

/* --- gpt2_words.c: GPT-2's pre-tokenization, texts to pieces and pieces to words ------------ */

/* Returns the length of the first piece of text[0..size), size > 0: one digit, or the text before
 * the next digit. Returns `size` if digits are not separate pieces. */
size_t smol_piece_length(const struct tokenizer_tables *tables, const uint8_t *text, size_t size);

/* Returns the length of the first word of piece[0..size), size > 0, by GPT-2's pattern
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * The look-ahead treats the end of the piece as the end of the text. */
size_t smol_word_length(const struct tokenizer_tables *tables, const uint8_t *piece, size_t size);

/* --- one word to tokens -------------------------------------------------------------------- */

/* Byte-pair encoding: turns ids[0..n) into tokens: repeatedly merges the two neighbours whose merge
 * has the lowest rank, and the leftmost pair of equal rank. Sets *n to the number of ids left. O(n
 * log n). Errors: SMOL_ERROR_MEMORY, also for words of 4 GiB. */
smol_status smol_merge_word(const struct tokenizer_tables *tables, uint32_t *ids, size_t *n,
                            struct encode_watch *watch, smol_error *error);

/* WordPiece (Wu et al., 2016): from the start of word[0..size), size > 0, to its end, each time the
 * token with the longest name that fits; or the unknown token for the whole word. Writes the ids to
 * ids (size) and their number to *n. */
void smol_wordpiece(const struct tokenizer_tables *tables, const uint8_t *word, size_t size,
                    uint32_t *ids, size_t *n, struct encode_watch *watch);

/* Unigram (Kudo, 2018): of all sequences of tokens whose names spell word[0..size), size > 0, the
 * one with the largest sum of scores, found by Viterbi's search. A character that is no token
 * counts as one that is worse than all; neighbours that are unknown become one unknown token, or
 * their bytes. Writes the ids to ids (size) and their number to *n. Errors: SMOL_ERROR_MEMORY, also
 * for words of 4 GiB. */
smol_status smol_unigram(const struct tokenizer_tables *tables, const uint8_t *word, size_t size,
                         uint32_t *ids, size_t *n, struct encode_watch *watch, smol_error *error);

#endif
