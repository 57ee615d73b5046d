/* Tests of SHA-256: the standard's examples, every variant that this machine supports, and no read
 * beyond the message. (tests/oracle/test_digest.py compares all lengths with another
 * implementation.) */
#include <stdlib.h>
#include <string.h>

#include "common/cpu.h"
#include "common/sha256.h"
#include "tests/unit/guarded.h"
#include "tests/unit/unit.h"

static void digest(const void *message, size_t size, char text[SHA256_TEXT_SIZE])
{
    struct sha256 hash;
    smol_sha256_start(&hash);
    smol_sha256_end(&hash, message, size, text);
}

/* ---- the standard's examples (NIST, "Examples with Intermediate Values", and FIPS 180-2) ---- */

TEST(examples_of_the_standard_have_their_digests)
{
    static const struct {
        const char *message, *digest;
    } examples[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
         "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        char text[SHA256_TEXT_SIZE];
        digest(examples[i].message, strlen(examples[i].message), text);
        assert_string_equal(text, examples[i].digest);
    }
}

TEST(a_million_times_a_has_its_digest)
{
    enum { N = 1000000 };
    char *message = malloc(N), text[SHA256_TEXT_SIZE];
    memset(message, 'a', N);
    digest(message, N, text);
    free(message);
    assert_string_equal(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* ---- variants ---- */

static sha256_take *special_variant(void)
{
#if defined(__x86_64__)
    return smol_cpu_has(CPU_SHA) ? smol_sha256_take_x86 : NULL;
#elif defined(__aarch64__)
    return smol_cpu_has(CPU_SHA) ? smol_sha256_take_arm : NULL;
#else
    return NULL;
#endif
}

/* Uses arbitrary states, because earlier blocks may produce any state. */
TEST(variants_agree_on_any_state_and_blocks_together_and_one_by_one)
{
    enum { MAX_BLOCKS = 5 };
    sha256_take *special = special_variant();
    if (!special) {
        print_message("SKIPPED: this processor has no instructions for SHA-256\n");
        skip();
    }
    srand(1);
    for (int round = 0; round < 2000; round++) {
        size_t n = (size_t)round % (MAX_BLOCKS + 1);
        uint32_t start[8], a[8], b[8], c[8];
        struct guarded blocks = guarded_new(n * SHA256_BLOCK, 1);
        for (size_t i = 0; i < n * SHA256_BLOCK; i++)
            ((uint8_t *)blocks.data)[i] = (uint8_t)(rand() >> 4);
        for (int i = 0; i < 8; i++)
            start[i] = (uint32_t)rand() << 16 ^ (uint32_t)rand();
        memcpy(a, start, sizeof a);
        memcpy(b, start, sizeof b);
        memcpy(c, start, sizeof c);
        smol_sha256_take_scalar(a, blocks.data, n);
        special(b, blocks.data, n);
        for (size_t i = 0; i < n; i++)
            (i % 2 ? special : smol_sha256_take_scalar)(
                c, (const uint8_t *)blocks.data + i * SHA256_BLOCK, 1);
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(a, c, sizeof a);
        guarded_free(&blocks);
    }
}

/* ---- lengths ---- */

/* Each message ends at inaccessible memory; each length must have a different digest. */
TEST(no_length_reads_after_the_message)
{
    enum { LONGEST = 4 * SHA256_BLOCK + 1 };
    static char texts[LONGEST + 1][SHA256_TEXT_SIZE];
    for (size_t size = 0; size <= LONGEST; size++) {
        struct guarded message = guarded_new(size, 1);
        memset(message.data, 0, size);
        digest(message.data, size, texts[size]);
        for (size_t i = 0; i < size; i++)
            assert_string_not_equal(texts[i], texts[size]);
        guarded_free(&message);
    }
}

int main(void)
{
    return run_all_tests("sha256", NULL, NULL);
}
