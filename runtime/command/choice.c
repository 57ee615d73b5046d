/* Ranks and probabilities, see choice.h. */
#include "runtime/command/choice.h"

#include "runtime/command/log_softmax.h"

/* Puts `id` where it belongs among the most likely ones so far, all of lower ids. */
static void insert(struct choice *choice, const float *logits, uint32_t id)
{
    size_t i = choice->n_top;
    if (i < CHOICE_TOP)
        choice->n_top++;
    else if (logits[choice->top[--i].id] >= logits[id])
        return;
    for (; i > 0 && logits[choice->top[i - 1].id] < logits[id]; i--)
        choice->top[i] = choice->top[i - 1];
    choice->top[i].id = id;
}

struct choice smol_choice(const float *logits, size_t n, uint32_t id)
{
    struct choice choice = {.token.id = id, .rank = 1};
    double sum = smol_log_sum_exp(logits, n);
    for (uint32_t i = 0; i < n; i++) {
        insert(&choice, logits, i);
        choice.rank += logits[i] > logits[id] || (logits[i] == logits[id] && i < id);
    }
    choice.token.log_probability = (double)logits[id] - sum;
    for (size_t i = 0; i < choice.n_top; i++)
        choice.top[i].log_probability = (double)logits[choice.top[i].id] - sum;
    return choice;
}
