/* Tests of Philox4x32-10 against the known answers that its authors publish (Random123,
 * kat_vectors). */
#include "runtime/philox.h"
#include "tests/unit/unit.h"

static void block_is(struct philox_block counter, uint64_t key, struct philox_block expected)
{
    struct philox_block block = philox(counter, key);
    for (int i = 0; i < 4; i++)
        assert_int_equal(block.word[i], expected.word[i]);
}

TEST(gives_the_published_answers)
{
    block_is((struct philox_block){{0, 0, 0, 0}}, 0,
             (struct philox_block){{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
    block_is((struct philox_block){{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, UINT64_MAX,
             (struct philox_block){{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
    block_is((struct philox_block){{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
             0x299f31d0a4093822,
             (struct philox_block){{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST(uniform_numbers_take_53_bits_of_the_block)
{
    uint64_t words = (uint64_t)0xe169c58d << 32 | 0x6627e8d5;
    assert_true(philox_uniform(0, 0) == (double)(words >> 11) / 9007199254740992.0);
}

TEST(uniform_numbers_lie_below_1_and_spread_evenly)
{
    enum { N = 100000, BINS = 20 };
    unsigned count[BINS] = {0};
    for (uint64_t k = 0; k < N; k++) {
        double u = philox_uniform(1, k << 20); /* also uses the high word of the counter */
        assert_true(u >= 0 && u < 1);
        count[(unsigned)(u * BINS)]++;
    }
    double chi_squared = 0;
    for (unsigned i = 0; i < BINS; i++) {
        double difference = count[i] - (double)N / BINS;
        chi_squared += difference * difference / ((double)N / BINS);
    }
    assert_true(chi_squared < 43.8); /* 19 degrees of freedom, p = 0.001 */
}

int main(void)
{
    return run_all_tests("philox", NULL, NULL);
}
