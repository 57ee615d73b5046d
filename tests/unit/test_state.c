/* Snapshots of states: which ones are kept, and that going back finds them. */
#include <stdlib.h>

#include "runtime/engine/state.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/unit.h"

static struct blob_model model_of(uint32_t hidden_size, uint32_t taps)
{
    struct blob_model model = {.n_layers = 3, .hidden_size = hidden_size};
    model.states = (struct blob_states){.kind = STATE_SHORT_CONV, .taps = taps, .layers = {5}};
    return model;
}

/* Does as a pass of n tokens, after which all floats are the position. */
static void pass(struct sequence_state *state, size_t n)
{
    assert_int_equal(smol_state_reserve(state, NULL), SMOL_OK);
    for (size_t i = 0; i < state->n_floats; i++)
        state->next[i] = (float)(state->position + n);
    smol_state_begin(state);
    smol_state_advance(state, n);
}

/* Reads to position n and takes snapshots at every interval. */
static void read_to(struct sequence_state *state, size_t n, const size_t *kept, size_t n_kept)
{
    while (state->position < n) {
        pass(state, smol_state_pass(state, n - state->position));
        if (state->position % STATE_INTERVAL == 0)
            smol_state_keep(state, kept, n_kept);
    }
}

static void is_at(const struct sequence_state *state, size_t position)
{
    assert_int_equal(state->position, position);
    assert_true(state->now[0] == (float)position);
    assert_true(state->now[state->n_floats - 1] == (float)position);
}

TEST(going_back_finds_the_nearest_snapshot)
{
    struct sequence_state state;
    struct blob_model model = model_of(8, 3);
    assert_int_equal(smol_state_init(&state, &model, NULL), SMOL_OK);
    assert_int_equal(state.n_floats, 2 * 2 * 8);
    read_to(&state, 1000, NULL, 0);
    assert_int_equal(smol_state_cut(&state, 1000), 1000);
    assert_int_equal(smol_state_cut(&state, 999), 768);
    is_at(&state, 768);
    assert_int_equal(smol_state_known(&state, 5000), 768);
    read_to(&state, 900, NULL, 0);
    assert_int_equal(smol_state_known(&state, 600), 512);
    assert_non_null(smol_state_at(&state, 512));
    assert_null(smol_state_at(&state, 513));
    assert_int_equal(smol_state_cut(&state, 300), 256);
    is_at(&state, 256);
    assert_null(smol_state_at(&state, 512));
    assert_int_equal(smol_state_cut(&state, 255), 0);
    assert_int_equal(state.position, 0);
    assert_int_equal(smol_state_bytes(&state), 0);
    assert_int_equal(smol_state_reserve(&state, NULL), SMOL_OK);
    is_at(&state, 0);
    smol_state_free(&state);
}

TEST(the_states_before_the_last_pass_are_known)
{
    struct sequence_state state;
    struct blob_model model = model_of(8, 3);
    assert_int_equal(smol_state_init(&state, &model, NULL), SMOL_OK);
    read_to(&state, 300, NULL, 0);
    pass(&state, 5);
    assert_int_equal(smol_state_known(&state, 304), 300);
    assert_true(smol_state_at(&state, 300)[0] == 300);
    assert_int_equal(smol_state_cut(&state, 304), 300);
    is_at(&state, 300);
    assert_int_equal(smol_state_cut(&state, 299), 256); /* by two passes */
    is_at(&state, 256);
    pass(&state, 5);
    pass(&state, 5);
    assert_int_equal(smol_state_cut(&state, 259), 256); /* what was after it is forgotten */
    assert_int_equal(smol_state_cut(&state, 256), 256);
    is_at(&state, 256);
    assert_int_equal(state.n_snapshots, 1);
    smol_state_free(&state);
}

TEST(a_pass_that_does_not_end_leaves_only_snapshots)
{
    struct sequence_state state;
    struct blob_model model = model_of(8, 3);
    assert_int_equal(smol_state_init(&state, &model, NULL), SMOL_OK);
    read_to(&state, 300, NULL, 0);
    pass(&state, 1);
    smol_state_begin(&state);
    assert_null(smol_state_at(&state, 300));
    assert_int_equal(smol_state_cut(&state, 300), 256);
    is_at(&state, 256);
    smol_state_free(&state);
}

TEST(a_long_sequence_never_reads_more_than_an_interval_again)
{
    struct sequence_state state;
    struct blob_model model = model_of(8, 3);
    assert_int_equal(smol_state_init(&state, &model, NULL), SMOL_OK);
    size_t kept[2] = {0};
    srand(1);
    for (size_t n = 1; n < 200000; n += (size_t)rand() % 700) {
        kept[n % 2] = state.position;
        read_to(&state, n, kept, 2);
        smol_state_keep(&state, kept, 2); /* the end of an evaluation */
    }
    for (size_t n = state.position; n > 0; n -= n < 97 ? n : 97)
        assert_true(n - smol_state_known(&state, n) < STATE_INTERVAL);
    smol_state_free(&state);
}

/* States so large that few fit into the bound. */
TEST(memory_is_bounded)
{
    static const struct {
        uint32_t hidden_size, taps;
        size_t most;
    } cases[] = {{1 << 17, 3, 32}, {1 << 18, 16, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sequence_state state;
        struct blob_model model = model_of(cases[i].hidden_size, cases[i].taps);
        const size_t kept[] = {700, 701};
        assert_int_equal(smol_state_init(&state, &model, NULL), SMOL_OK);
        size_t bytes = state.n_floats * sizeof(float);
        read_to(&state, 700, kept, 2);
        smol_state_keep(&state, kept, 2);
        read_to(&state, 701, kept, 2);
        smol_state_keep(&state, kept, 2);
        /* Samples make a snapshot or two in each step, not four: each takes megabytes. */
        const size_t n_reads = samples_only() ? cases[i].most + 4 : 60;
        const size_t step = samples_only() ? STATE_INTERVAL + 44 : 1000;
        for (size_t n = 1; n <= n_reads; n++) {
            read_to(&state, 701 + n * step, kept, 2);
            assert_true(state.n_snapshots <= cases[i].most);
            assert_true(smol_state_bytes(&state) <= (cases[i].most + 2) * bytes + 4096);
        }
        assert_int_equal(state.n_snapshots, cases[i].most);
        assert_non_null(smol_state_at(&state, 700)); /* what is asked for stays */
        assert_non_null(smol_state_at(&state, 701));
        for (size_t s = 1; s < state.n_snapshots; s++)
            assert_true(state.snapshots[s - 1].position < state.snapshots[s].position);
        assert_true(state.position - state.snapshots[state.n_snapshots - 1].position <
                    STATE_INTERVAL);
        smol_state_free(&state);
    }
}

TEST(without_states_nothing_happens)
{
    struct sequence_state state;
    struct blob_model model = {.n_layers = 3, .hidden_size = 8};
    assert_int_equal(smol_state_init(&state, &model, NULL), SMOL_OK);
    assert_int_equal(smol_state_pass(&state, 1000), 1000);
    smol_state_advance(&state, 1000);
    smol_state_keep(&state, NULL, 0);
    assert_int_equal(smol_state_known(&state, 5), 5);
    assert_int_equal(smol_state_cut(&state, 5), 5);
    assert_int_equal(smol_state_bytes(&state), 0);
    smol_state_free(&state);
}

int main(void)
{
    return run_all_tests("state", NULL, NULL);
}
