/* Gives the tensors of a GGUF file the names and the order of rows that a checkpoint has. */
#ifndef SMOL_CONVERT_GGUF_TENSORS_H
#define SMOL_CONVERT_GGUF_TENSORS_H

#include "convert/checkpoint/gguf.h"
#include "convert/families/family.h"

/* The order in which llama.cpp's converter writes heads. */
enum gguf_order {
    ORDER_KEPT,
    ORDER_PAIRED, /* the rows of each head of q and k */
    ORDER_TILED,  /* heads of values that share keys, in layers with states */
    ORDER_STACKED /* q, k and v one below the other, which checkpoints have in another way */
};

/* The architectures that differ in their keys, as bits, and groups of them. */
enum gguf_kind {
    OF_OTHERS = 1 << 0,
    OF_GRANITE = 1 << 1,
    OF_GEMMA2 = 1 << 2,
    OF_GEMMA3 = 1 << 3,
    OF_PHI3 = 1 << 4,
    OF_LFM2 = 1 << 5,
    OF_LFM2MOE = 1 << 6,
    OF_HYBRID = 1 << 7,
    OF_GRANITEMOE = 1 << 8,
    OF_QWEN3MOE = 1 << 9,
    OF_OLMOE = 1 << 10,
    OF_QWEN35 = 1 << 11,
    OF_QWEN35MOE = 1 << 12,
    OF_QWEN3NEXT = 1 << 13,
    OF_OLMO2 = 1 << 14,
    OF_MISTRAL3 = 1 << 15,
    OF_EXAONE4 = 1 << 16,
    OF_MINICPM = 1 << 17,
    OF_FALCONH1 = 1 << 18,
    OF_STABLELM = 1 << 19,
    OF_PHI2 = 1 << 20, /* Nemotron and OLMo 1 too */
    OF_GPTNEOX = 1 << 21,
    OF_GPT2 = 1 << 22,
    OF_BERT = 1 << 23,
    OF_MODERNBERT = 1 << 24,
    OF_QWEN3 = 1 << 25,
    OF_NOMICBERT = 1 << 26,
    OF_EUROBERT = 1 << 27,
    OF_QWENVL = 1 << 28,
    OF_GEMMA4 = 1 << 29,
    OF_GLM = 1 << 30,
    OF_ALL = OF_GLM + (OF_GLM - 1),
    OF_LAYER_NORMS =
        OF_STABLELM | OF_PHI2 | OF_GPTNEOX | OF_GPT2 | OF_BERT | OF_MODERNBERT | OF_NOMICBERT,
    OF_ENCODERS = OF_BERT | OF_MODERNBERT | OF_NOMICBERT | OF_EUROBERT,
    OF_POOLED = OF_ENCODERS | OF_GEMMA3 | OF_QWEN3, /* may be models of embeddings */
    OF_GRANITES = OF_GRANITE | OF_HYBRID | OF_GRANITEMOE,
    OF_GATED = OF_QWEN35MOE | OF_QWEN3NEXT, /* an MLP with a gate, beside experts */
    OF_DELTA = OF_QWEN35 | OF_GATED,
    OF_MAMBA2 = OF_HYBRID | OF_FALCONH1,
    OF_SCALED = OF_GRANITES | OF_MINICPM,
    OF_PATTERNS = OF_OLMO2 | OF_EXAONE4 | OF_GEMMA4, /* windows in some of the layers */
    OF_EXPERTS =
        OF_LFM2MOE | OF_HYBRID | OF_GRANITEMOE | OF_QWEN3MOE | OF_OLMOE | OF_GATED | OF_GEMMA4,
};

/* An architecture of GGUF files that has a family here. */
struct gguf_arch {
    const char *name;         /* in general.architecture */
    const char *architecture; /* of the family, see family.h */
    enum gguf_order order;
    bool adds_offset;              /* it adds the family's norm_offset to the weights of norms */
    const struct gguf_name *names; /* of tensors, which it has before those of all */
    enum gguf_kind kind;
};

/* Returns the architecture that general.architecture names, or NULL if it is not supported. */
const struct gguf_arch *smol_gguf_arch(const struct gguf *gguf);

/* Writes the names of the architectures for messages. Returns `text`. */
enum { GGUF_ARCH_LIST = 448 };
const char *smol_gguf_arch_list(char text[GGUF_ARCH_LIST]);

/* Changes a copy of the architecture's family to what its GGUF files contain: which tensors hold
 * several matrices, and norms that already have the family's offset. */
void smol_gguf_adapt(const struct gguf_arch *arch, struct family *family);

/* Renames the tensors of `reader`, which smol_gguf_read has filled, to those of the family, and
 * marks those whose rows are in another order, or whose elements are a function of the weights. A
 * tensor that the family does not have keeps its name. Does nothing if the architecture is not
 * supported. */
void smol_gguf_name_tensors(const struct gguf *gguf, struct safetensors *reader);

#endif
