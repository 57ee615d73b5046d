/* Gives the tensors of a GGUF file the names and the order of rows that a checkpoint has. */
#ifndef SMOL_CONVERT_GGUF_TENSORS_H
#define SMOL_CONVERT_GGUF_TENSORS_H

#include "convert/checkpoint/family.h"
#include "convert/checkpoint/gguf.h"

/* The order in which llama.cpp's converter writes heads. */
enum gguf_order {
    ORDER_KEPT,
    ORDER_PAIRED, /* the rows of each head of q and k */
    ORDER_TILED,  /* heads of values that share keys, in layers with states */
    ORDER_STACKED /* q, k and v one below the other, which checkpoints have in another way */
};

/* An architecture of GGUF files that has a family here. */
struct gguf_arch {
    const char *name;         /* in general.architecture */
    const char *architecture; /* of the family, see family.h */
    enum gguf_order order;
    bool adds_offset;              /* it adds the family's norm_offset to the weights of norms */
    const struct gguf_name *names; /* of tensors, which it has before those of all */
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
