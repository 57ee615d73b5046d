/* Probabilities, see likelihood.h. */
#include "cli/request/likelihood.h"

#include <math.h>
#include <string.h>

#include "smol.h"

/* Returns e^x for x in [-708, 709]. x = n ln 2 + r with |r| <= ln 2 / 2: 2^n times the Taylor
 * polynomial of e^r of degree 13 (remainder 4e-18). ln 2 is split so that n * ln2_high is exact. */
static inline double exp_within(double x)
{
    const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
    double shifted = x * 0x1.71547652b82fep+0 + 0x1.8p52; /* n, in the low bits */
    double n = shifted - 0x1.8p52;
    double r = (x - n * ln2_high) - n * ln2_low;
    double p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52; /* 2^n; the upper bits of the sum are shifted out */
    double power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

double smol_exp(double x)
{
    if (x > 709)
        return (double)INFINITY;
    return exp_within(x < -708 ? -708 : x);
}

/* Returns the logarithm of a finite normal x > 0. x = 2^e m with m around 1, and log m = 2 artanh s
 * with s = (m - 1) / (m + 1), |s| <= 0.172, by its series to s^21 (remainder 2e-19). */
static double log_of(double x)
{
    const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffff) | UINT64_C(1023) << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        e++;
    }
    double s = (m - 1) / (m + 1), z = s * s, series = 0;
    for (int k = 21; k >= 3; k -= 2)
        series = (series + 1.0 / k) * z;
    return e * ln2_high + (e * ln2_low + 2 * (s * series + s));
}

size_t smol_top_tokens(const float *logits, size_t n, size_t most, uint32_t *top)
{
    size_t n_top = 0;
    for (uint32_t id = 0; most > 0 && id < n; id++) {
        if (n_top == most && !(logits[id] > logits[top[most - 1]]))
            continue;
        size_t at = n_top < most ? n_top++ : most - 1;
        for (; at > 0 && logits[id] > logits[top[at - 1]]; at--)
            top[at] = top[at - 1];
        top[at] = id;
    }
    return n_top;
}

uint32_t smol_top_token(const float *logits, size_t n)
{
    uint32_t top = 0;
    smol_top_tokens(logits, n, 1, &top);
    return top;
}

/* Subtracts the largest logit, so that nothing overflows. Sums by index modulo LANES, so that the
 * compiler can use vectors. */
double smol_log_sum_exp(const float *logits, size_t n)
{
    enum { LANES = 8 };
    double largest = (double)logits[smol_top_token(logits, n)], sums[LANES] = {0}, sum = 0;
    for (size_t i = 0; i < n; i += LANES) {
        size_t width = n - i < LANES ? n - i : LANES;
        for (size_t lane = 0; lane < width; lane++) {
            double x = (double)logits[i + lane] - largest;
            sums[lane] += exp_within(x < -708 ? -708 : x);
        }
    }
    for (size_t lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return largest + log_of(sum);
}

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

void smol_logprobs_add(struct buffer *out, size_t n_alternatives, uint32_t id, const float *logits,
                       size_t n)
{
    uint32_t shown[1 + MAX_LOGPROBS] = {id};
    size_t n_shown = 1 + n_alternatives;
    double sum = 0;
    for (size_t i = 1; i < n_shown; i++)
        shown[i] = SMOL_NO_TOKEN;
    if (logits) {
        smol_top_tokens(logits, n, n_alternatives, shown + 1);
        sum = smol_log_sum_exp(logits, n);
    }
    for (size_t i = 0; i < n_shown; i++) {
        double logit = logits && shown[i] != SMOL_NO_TOKEN ? (double)logits[shown[i]] - sum : 0;
        const struct ranked one = {shown[i], logit};
        smol_buffer_add(out, (const char *)&one, sizeof one);
    }
}
