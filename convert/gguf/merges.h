/* Merges of a SentencePiece tokenizer of the BPE kind, whose file has only scores. */
#ifndef SMOL_CONVERT_GGUF_MERGES_H
#define SMOL_CONVERT_GGUF_MERGES_H

#include "convert/gguf/maker.h"

/* The longest piece in bytes: trying all cuts of a piece takes time in proportion to the square of
 * its length. Published pieces have at most 93 bytes. */
enum { GGUF_MAX_PIECE = 256 };

/* Returns the list of merges that transformers makes of the pieces `vocabulary` (text to id) with
 * their `scores`, an array of f32 with an item for each id: every way to cut a piece into two
 * pieces, the best piece first. `is_piece` (n ids) leaves out control tokens; pieces have at most
 * GGUF_MAX_PIECE bytes. Returns NULL if memory runs out. */
json_t *smol_gguf_merges(const struct maker *m, const json_t *vocabulary,
                         const struct gguf_value *scores, const bool *is_piece);

#endif
