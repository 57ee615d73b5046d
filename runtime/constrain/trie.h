/* The vocabulary as a trie: the tokens that begin with the same bytes are neighbours. */
#ifndef SMOL_RUNTIME_TRIE_H
#define SMOL_RUNTIME_TRIE_H

#include "format/tokenizer.h"

/* A byte of some token. The nodes are in preorder: a node's descendants follow it. */
struct trie_node {
    uint32_t end;   /* the place after the last descendant */
    uint32_t token; /* that ends here, or NO_TOKEN */
    uint16_t depth; /* bytes up to here, at least 1 */
    uint8_t byte;
    bool has_twin; /* another token has the same text */
};

/* A byte that is in no text: a special token is its text between two of these. Tokens of the
 * vocabulary that contain it are left out. */
enum { TRIE_SPECIAL = 0xff };

struct trie {
    struct trie_node *nodes; /* (n_nodes) */
    uint32_t n_nodes;
    uint32_t *twins; /* (n_tokens): the next token with the same text, or NO_TOKEN */
    uint32_t n_tokens;
    uint32_t longest; /* bytes of the longest token */
    uint32_t n_words; /* of a bit set over the model's vocabulary, 64 bits each */
};

/* Builds the trie of all tokens with bytes. `vocab_size` is the model's. Free with smol_trie_free.
 * Errors: SMOL_ERROR_MEMORY. */
smol_status smol_trie_make(const struct tokenizer_tables *tables, uint32_t vocab_size,
                           struct trie *vocabulary, smol_error *error);
void smol_trie_free(struct trie *vocabulary);

#define NO_NODE UINT32_MAX

/* Returns the node of bytes[0..n), n > 0, with which tokens begin, or NO_NODE if none does. */
uint32_t smol_trie_node(const struct trie *vocabulary, const uint8_t *bytes, size_t n);

/* Returns the token whose text is bytes[0..n), or NO_TOKEN if there is none, or several. */
uint32_t smol_trie_find(const struct trie *vocabulary, const uint8_t *bytes, size_t n);

#endif
