/* The three loops for one instruction set. Defined before, undefined after:
 *
 *   SET          the name that the functions and their table get
 *   KEY          what the names of the kernel sets that it stands for contain
 *   INSTRUCTIONS what is measured, for people
 *   TARGET       the function attribute that allows the instructions, or nothing
 *   WORDS        vectors to read; LOAD(p), ADD(a, b): 32-bit lanes
 *   INTS, FLOATS vectors to multiply
 *   INT8_LANES   int8 products in one DOT
 *   MULTIPLY_ADD(sum, a, b)     floats
 *   DOT(sum, a, b)              sum (32-bit) plus products of 8-bit integers a and b
 *
 * Each chain's sum is a variable of its own, because compilers keep arrays in memory; the empty
 * assembly makes an unknown of an operand before each step, so that no step can be left out or
 * computed ahead. */
#define JOINED(a, b) a##_##b
#define JOIN(a, b) JOINED(a, b)

#define WORDS_SUM(i) WORDS sum##i = none;
#define INTS_SUM(i) INTS sum##i = none;
#define FLOATS_SUM(i) FLOATS sum##i = none;

#define LOAD_NEXT(i) sum##i = ADD(sum##i, LOAD((const void *)(data + at + (i) * sizeof(WORDS))));

TARGET static uint32_t JOIN(read, SET)(const uint8_t *data, size_t size)
{
    WORDS none = {0}, sums[8];
    EACH_OF_8(WORDS_SUM)
    for (size_t at = 0; at < size; at += sizeof sums) {
        EACH_OF_8(LOAD_NEXT)
    }
    EACH_OF_8(STORE)
    return fold(sums, sizeof sums);
}

#define NEXT_FLOATS(i) UNKNOWN(b) sum##i = MULTIPLY_ADD(sum##i, a, b);

TARGET static uint32_t JOIN(f32, SET)(unsigned rounds)
{
    FLOATS none = {0}, a = none, b = none, sums[CHAINS];
    EACH_OF_12(FLOATS_SUM)
    UNKNOWN(a)
    for (unsigned round = 0; round < rounds; round++) {
        EACH_OF_12(NEXT_FLOATS)
    }
    EACH_OF_12(STORE)
    return fold(sums, sizeof sums);
}

#define NEXT_INTS(i) UNKNOWN(b) sum##i = DOT(sum##i, a, b);

TARGET static uint32_t JOIN(int8, SET)(unsigned rounds)
{
    INTS none = {0}, a = none, b = none, sums[CHAINS];
    EACH_OF_12(INTS_SUM)
    UNKNOWN(a)
    for (unsigned round = 0; round < rounds; round++) {
        EACH_OF_12(NEXT_INTS)
    }
    EACH_OF_12(STORE)
    return fold(sums, sizeof sums);
}

static const struct loops JOIN(loops, SET) = {
    KEY,
    INSTRUCTIONS,
    JOIN(read, SET),
    JOIN(f32, SET),
    JOIN(int8, SET),
    sizeof(FLOATS) / sizeof(float),
    INT8_LANES,
};

#undef WORDS_SUM
#undef INTS_SUM
#undef FLOATS_SUM
#undef LOAD_NEXT
#undef NEXT_FLOATS
#undef NEXT_INTS
#undef JOIN
#undef JOINED
#undef SET
#undef KEY
#undef INSTRUCTIONS
#undef TARGET
#undef WORDS
#undef INTS
#undef FLOATS
#undef INT8_LANES
#undef LOAD
#undef ADD
#undef MULTIPLY_ADD
#undef DOT
