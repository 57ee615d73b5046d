/* Ranks and probabilities, see choice.h. */
#include "smolrun/choice.h"

#include "smolrun/log_softmax.h"

struct choice smol_choice(const float *logits, size_t n, uint32_t id)
{
    double sum = smol_log_sum_exp(logits, n);
    struct choice choice = {.token = {id, (double)logits[id] - sum}, .rank = 1};
    uint32_t top[CHOICE_TOP];
    choice.n_top = smol_top_tokens(logits, n, CHOICE_TOP, top);
    for (size_t i = 0; i < choice.n_top; i++)
        choice.top[i] = (struct ranked){top[i], (double)logits[top[i]] - sum};
    for (uint32_t i = 0; i < n; i++)
        choice.rank += logits[i] > logits[id] || (logits[i] == logits[id] && i < id);
    return choice;
}
