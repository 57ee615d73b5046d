/* What a model thought of a token: how likely it was, and what else could have stood there. */
#ifndef SMOL_SMOLRUN_CHOICE_H
#define SMOL_SMOLRUN_CHOICE_H

#include <stddef.h>
#include <stdint.h>

enum { CHOICE_TOP = 5 };

struct ranked {
    uint32_t id;
    double log_probability; /* in nats */
};

struct choice {
    struct ranked token;
    size_t rank; /* 1: the most likely; of equals the lowest id is first */
    struct ranked top[CHOICE_TOP];
    size_t n_top; /* fewer in a small vocabulary */
};

/* Of the token `id`, by finite logits (n), n > id. */
struct choice smol_choice(const float *logits, size_t n, uint32_t id);

#endif
