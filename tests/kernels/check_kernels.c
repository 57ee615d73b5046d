/* Every kernel of every instruction set against the scalar one, in the manner of dav1d's checkasm:
 * random operands, extremes, all alignments, guard pages around every buffer, the same bits
 * required. A set that this machine cannot run is skipped in words. --bench measures instead.
 *
 * Needs nothing but libc, so that it can be built for and run on any machine. */
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/options.h"
#include "tests/kernels/buffers.h"
#include "tests/kernels/check_kernels.h"
#include "tests/unit/sanitized.h"

static const struct kernel_check *const checks[] = {
    &check_quantize,    &check_quantize_slice, &check_matmul_int8, &check_matmul_int6,
    &check_matmul_int5, &check_matmul_int4,    &check_matmul_f32,  &check_matmul_bf16,
    &check_rms_norm,    &check_swiglu,         &check_attend_f32,  &check_attend_f16,
    &check_attend_int8, &check_attend_int4,    &check_to_f16,      &check_geglu,
    &check_softcap,     &check_layer_norm,     &check_geglu_tanh,  &check_unit_norm,
    &check_convolve,    &check_scan,           &check_delta_rule,  &check_reglu_squared,
};
enum { N_CHECKS = sizeof checks / sizeof checks[0], NAME_SIZE = 64 };

struct settings {
    uint64_t seed;
    uint32_t rounds;
    int bench;
    const char *only;
};

static const struct option_rule rules[] = {
    {"seed", 0, "N", "of the random operands (default 1)", OPTION_SEED,
     offsetof(struct settings, seed), 0, 0, NULL},
    {"rounds", 0, "N", "random operands per kernel (default 200)", OPTION_COUNT,
     offsetof(struct settings, rounds), 1, 1e9, NULL},
    {"only", 0, "NAME", "what has NAME in its name: matmul, avx2, quantize_avx512", OPTION_TEXT,
     offsetof(struct settings, only), 0, 0, NULL},
    {"bench", 0, "", "measure the kernels instead of testing them", OPTION_FLAG,
     offsetof(struct settings, bench), 0, 0, NULL},
};

static const struct command_line command = {
    .program = "check_kernels",
    .words = "",
    .about = "Tests every kernel of every instruction set against the scalar one.\n",
    .notes = "",
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

/* --- crashes --------------------------------------------------------------------------------- */

static sigjmp_buf before_crash;

static void crash(int number)
{
    siglongjmp(before_crash, number);
}

static void catch_crashes(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        signal(numbers[i], crash);
}

/* --- one kernel of one set ------------------------------------------------------------------- */

static bool run_rounds(const struct kernel_check *check, const struct kernels *set,
                       const struct settings *settings)
{
    random_start(settings->seed); /* the same operands for all sets, whatever else runs */
    int number = sigsetjmp(before_crash, 1);
    if (number) {
        buffers_release();
        return report("%s", strsignal(number));
    }
    for (uint32_t round = 0; round < settings->rounds; round++) {
        bool same = check->run(set);
        if (!buffers_release() || !same)
            return false;
    }
    return true;
}

struct counts {
    size_t matching, passed, failed;
};

static void run_check(const struct kernel_check *check, const struct kernels *set,
                      const struct settings *settings, struct counts *counts)
{
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%s_%s", check->name, set->name);
    if (settings->only && !strstr(name, settings->only))
        return;
    counts->matching++;
    if (settings->bench) {
        bench_start(name);
        check->bench(set);
    } else if (set == &smol_kernels_scalar) {
        return; /* it is what the others are compared with */
    } else if (run_rounds(check, set, settings)) {
        printf("ok %s\n", name);
        counts->passed++;
    } else {
        printf("not ok %s: again with --only %s --seed %llu --rounds %u\n", name, name,
               (unsigned long long)settings->seed, settings->rounds);
        counts->failed++;
    }
}

static void skip_loudly(void)
{
    bool runs;
    const struct kernels *set;
    for (size_t i = 0; (set = smol_kernels_at(i, &runs)); i++)
        if (!runs)
            printf("SKIPPED: this machine cannot run the %s kernels\n", set->name);
}

static struct counts run_all(const struct settings *settings)
{
    struct counts counts = {0};
    bool runs;
    const struct kernels *set;
    for (size_t c = 0; c < N_CHECKS; c++)
        for (size_t i = 0; (set = smol_kernels_at(i, &runs)); i++)
            if (runs)
                run_check(checks[c], set, settings, &counts);
    return counts;
}

int main(int argc, char **argv)
{
    struct settings settings = {.seed = 1, .rounds = few_samples() ? 50 : 200};
    smol_error error;
    bool shown;
    if (smol_options_parse(&command, argc, argv, &settings, NULL, &shown, &error)) {
        fprintf(stderr, "check_kernels: %s\n", error.message);
        return SMOL_ERROR_USAGE;
    }
    if (shown)
        return 0;
    skip_loudly();
    if (!settings.bench)
        catch_crashes();
    struct counts counts = run_all(&settings);
    if (settings.only && counts.matching == 0) {
        fprintf(stderr, "check_kernels: no kernel here that runs has \"%s\" in its name\n",
                settings.only);
        return SMOL_ERROR_USAGE;
    }
    if (!settings.bench)
        printf("%zu passed, %zu failed\n", counts.passed, counts.failed);
    return counts.failed > 0;
}
