/* Blobs and tokenizer sections built from an input, so that a few hundred bytes reach what comes
 * after digests, offsets and counts that a fuzzer would never get right: the input says what is in
 * the tables, and where the result is damaged afterwards, before or after its digests are computed.
 */
#ifndef SMOL_TESTS_FUZZ_BUILD_H
#define SMOL_TESTS_FUZZ_BUILD_H

#include <stdbool.h>

#include "format/format.h"
#include "tests/fuzz/fuzz.h"

/* The start of an input for fuzz_build_tokenizer, in this order; everything modulo something. */
struct tokenizer_recipe {
    uint8_t n_tokens, n_merges, n_added, n_class_blocks;
    uint8_t digits; /* its lowest bit: digits stand alone */
    uint8_t n_text;
    uint8_t n_damages;
    uint8_t with_text; /* for fuzz_tokenizer: its lowest bit says whether there is a text section */
};

/* The start of an input for fuzz_build_text, likewise; the pool's bytes follow. */
struct text_recipe {
    uint8_t flags, unknown, split, strip, n_strip, n_before, n_after, n_steps, n_late_steps,
        n_names;
    uint8_t letters; /* its lowest bit: there are tables for normalization */
    uint8_t reserved;
};

/* The start of an input for fuzz_build_blob; then follow the tokenizer and damages. */
struct blob_recipe {
    uint8_t dtype, n_layers, hidden_size, intermediate_size, n_kv_heads, heads_per_kv_head,
        head_dim, vocab_size, context_length;
    uint8_t switches; /* bits of enum blob_switch */
    uint8_t weights;  /* which numbers */
    uint8_t n_stop, n_provenance, generation;
    uint8_t n_early; /* damages before the digests are computed: 8-byte patches of any place */
    uint8_t n_late;  /* damages after that */
};

/* Follows it for BLOB_BLOCKS. */
struct blocks_recipe {
    uint8_t attention_bias, activation, blocks;
    uint8_t scales; /* bits: which scales and caps are not trivial */
    uint8_t sliding_window, rotary_dim;
    uint8_t layers[2]; /* of even and of odd layers */
};
enum blob_switch {
    BLOB_TIED = 1 << 0,
    BLOB_ATTENTION_BIAS = 1 << 1,
    BLOB_MLP_BIAS = 1 << 2,
    BLOB_BOS = 1 << 3,
    BLOB_RESIZED = 1 << 4, /* cut, or continued with zeros: header and digests do not know */
    BLOB_STALE = 1 << 5,   /* early damages come after the digests too */
    BLOB_TEXT = 1 << 7,    /* a text section; its input follows the tokenizer's */
    BLOB_BLOCKS = 1 << 6,  /* not the plain block, or what could be said shorter */
};

/* A built file: aligned, and not a byte longer than `size`. The caller frees `data`. */
struct built {
    uint8_t *data;
    size_t size;
};

/* A tokenizer section; vocab_size, 1 to 255, bounds its tokens. Without damages it is good, with a
 * text section where `with_text`. */
struct built fuzz_build_tokenizer(struct fuzz_input *in, uint32_t vocab_size, bool with_text);

/* A text section that is good for a tokenizer of n_tokens, 1 at least. */
struct built fuzz_build_text(struct fuzz_input *in, uint32_t n_tokens);

/* A blob. Without damages it is good, but for weights that are too large to stay finite. */
struct built fuzz_build_blob(struct fuzz_input *in);

/* A blob much like the one that was built from `recipe`: n bytes or more of that are changed. */
struct built fuzz_build_changed(struct fuzz_input *in, const struct fuzz_input *recipe, unsigned n);

/* Whether a blob is good in all its bytes. */
bool fuzz_is_whole(const struct built *file);

/* Applies n damages of the input to data[0..size), many of them near its start, where most of what
 * is checked lies. */
void fuzz_damage(struct fuzz_input *in, unsigned n, uint8_t *data, size_t size);

#endif
