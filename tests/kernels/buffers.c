/* Random operands, see buffers.h. */
#include "tests/kernels/buffers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/checked.h"
#include "common/number.h"

/* --- random numbers -------------------------------------------------------------------------- */

static uint64_t random_state;

void random_start(uint64_t seed)
{
    random_state = seed * 0x9e3779b97f4a7c15u + 0x123456789abcdefu;
    random_bits();
}

uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

size_t random_within(size_t low, size_t high)
{
    return low + random_bits() % (high - low + 1);
}

float random_float(void)
{
    return ((float)(random_bits() >> 8) * 0x1p-24f - 0.5f) * 8;
}

float random_wide(void)
{
    uint32_t exponent = (uint32_t)random_within(0, 127 + 59);
    return f32_from_bits((random_bits() & 0x807fffffu) | exponent << 23);
}

int8_t random_step(void)
{
    return (int8_t)(random_bits() % 255 - 127);
}

/* --- buffers --------------------------------------------------------------------------------- */

enum { MAX_BUFFERS = 32, FENCE = 0xa5 };

/* A guard page, `inner` bytes that hold the data and fences around it, a guard page. */
struct buffer {
    uint8_t *mapping;
    size_t page, inner;
    uint8_t *data;
    size_t size;
};
static struct buffer buffers[MAX_BUFFERS];
static size_t n_buffers;

_Noreturn static void give_up(const char *why)
{
    fprintf(stderr, "check_kernels: %s\n", why);
    exit(1);
}

static struct buffer *map_buffer(size_t size)
{
    if (n_buffers == MAX_BUFFERS)
        give_up("more buffers than MAX_BUFFERS");
    struct buffer *b = &buffers[n_buffers++];
    b->page = (size_t)sysconf(_SC_PAGESIZE);
    b->inner = round_up(size ? size : 1, b->page);
    b->size = size;
    b->mapping = mmap(NULL, b->inner + 2 * b->page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->mapping == MAP_FAILED || mprotect(b->mapping, b->page, PROT_NONE) ||
        mprotect(b->mapping + b->page + b->inner, b->page, PROT_NONE))
        give_up("out of memory");
    memset(b->mapping + b->page, FENCE, b->inner);
    return b;
}

void *buffer_new(size_t size, size_t align)
{
    struct buffer *b = map_buffer(size);
    size_t before = random_bits() % 4 ? (b->inner - size) / align * align : 0;
    b->data = b->mapping + b->page + before;
    for (size_t i = 0; i < size; i++)
        b->data[i] = (uint8_t)(random_bits() >> 24);
    return b->data;
}

void *buffer_copy(const void *buffer)
{
    size_t i = 0;
    while (buffers[i].data != buffer)
        i++;
    struct buffer *b = map_buffer(buffers[i].size);
    b->data = b->mapping + (buffers[i].data - buffers[i].mapping);
    memcpy(b->data, buffer, b->size);
    return b->data;
}

float *floats_new(size_t n)
{
    float *data = buffer_new(n * sizeof *data, sizeof *data);
    for (size_t i = 0; i < n; i++)
        data[i] = random_float();
    return data;
}

struct quantized quantized_new(size_t n, size_t stride, size_t n_groups, bool wide)
{
    return (struct quantized){
        .steps = buffer_new(n_groups * GROUP_INPUTS * stride * (wide ? 2 : 1), 1),
        .scales = buffer_new(n_groups * stride * sizeof(float), sizeof(float)),
        .offsets = buffer_new(n_groups * stride * sizeof(int32_t), sizeof(int32_t)),
        .n = n,
        .stride = stride,
        .wide = wide,
    };
}

struct quantized quantized_copy(const struct quantized *q)
{
    return (struct quantized){buffer_copy(q->steps),
                              buffer_copy(q->scales),
                              buffer_copy(q->offsets),
                              q->n,
                              q->stride,
                              q->wide};
}

/* Returns the place of input i of token t in the first plane. */
static int8_t *step_of(const struct quantized *q, size_t i, size_t t)
{
    return q->steps + (i / GROUP_INPUTS * q->stride + t) * quantized_bytes(q->wide) +
           i % GROUP_INPUTS;
}

int32_t quantized_step(const struct quantized *q, size_t i, size_t t)
{
    const int8_t *step = step_of(q, i, t);
    return q->wide ? 256 * step[0] + step[GROUP_INPUTS] : step[0];
}

void quantized_put(const struct quantized *q, size_t i, size_t t, int32_t step)
{
    int8_t *to = step_of(q, i, t);
    int32_t high = (step + 128 * 256 + 128) / 256 - 128; /* rounded down */
    to[0] = (int8_t)(q->wide ? high : step);
    if (q->wide)
        to[GROUP_INPUTS] = (int8_t)(step - 256 * high);
}

void quantized_pair(const struct quantized *q, size_t group, size_t t)
{
    for (size_t i = group * GROUP_INPUTS; i < (group + 1) * GROUP_INPUTS; i += 4) {
        int16_t steps[4];
        for (size_t j = 0; j < 4; j++)
            steps[j] = (int16_t)quantized_step(q, i + j, t);
        for (size_t j = 0; j < 4; j++)
            memcpy(step_of(q, i, t) + j % 2 * GROUP_INPUTS + j / 2 * 2, &steps[j], 2);
    }
}

static bool fences_stand(const struct buffer *b)
{
    const uint8_t *inner = b->mapping + b->page;
    for (size_t i = 0; i < b->inner; i++)
        if ((inner + i < b->data || inner + i >= b->data + b->size) && inner[i] != FENCE)
            return report("byte %td of a buffer of %zu was written", inner + i - b->data, b->size);
    return true;
}

bool buffers_release(void)
{
    bool stand = true;
    for (; n_buffers > 0; n_buffers--) {
        const struct buffer *b = &buffers[n_buffers - 1];
        stand = stand && fences_stand(b);
        munmap(b->mapping, b->inner + 2 * b->page);
    }
    return stand;
}

/* --- comparing ------------------------------------------------------------------------------- */

static char description[200];

void describe(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(description, sizeof description, format, arguments);
    va_end(arguments);
}

bool report(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("# %s: ", description);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
    return false;
}

bool same_floats(const char *what, const float *want, const float *got, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (f32_bits(want[i]) != f32_bits(got[i]))
            return report("%s %zu of %zu is %a (%08x), should be %a (%08x)", what, i, n,
                          (double)got[i], f32_bits(got[i]), (double)want[i], f32_bits(want[i]));
    return true;
}

bool same_halves(const char *what, const uint16_t *want, const uint16_t *got, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (want[i] != got[i])
            return report("%s %zu of %zu is %04x, should be %04x", what, i, n, got[i], want[i]);
    return true;
}

bool same_steps(const char *what, const int8_t *want, const int8_t *got, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (want[i] != got[i])
            return report("%s %zu of %zu is %d, should be %d", what, i, n, got[i], want[i]);
    return true;
}
