/* States and snapshots of a sequence, see state.h. */
#include "runtime/engine/state.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/checked.h"
#include "common/memory.h"
#include "format/layout.h"
#include "format/model.h"
#include "runtime/engine/engine.h"

/* The most bytes of all snapshots, and the number of them that is always allowed. */
enum { MOST_BYTES = 64 << 20, LEAST_SNAPSHOTS = 6 };

size_t smol_state_floats(const struct blob_model *m)
{
    return m->states.kind ? (size_t)smol_states_floats(m) : 0;
}

smol_status smol_state_init(struct sequence_state *state, const struct blob_model *m,
                            smol_error *error)
{
    *state = (struct sequence_state){0};
    if (!m->states.kind)
        return SMOL_OK;
    state->places = smol_calloc(m->n_layers, sizeof *state->places);
    uint64_t one = smol_state_floats(m), all = smol_states_count(m) * one;
    if (!state->places || !fits_memory(2 * all * sizeof(float)))
        return smol_fail_memory(error, "the states");
    state->n_floats = (size_t)all;
    state->most = MOST_BYTES / (state->n_floats * sizeof(float));
    state->most = state->most > LEAST_SNAPSHOTS ? state->most : LEAST_SNAPSHOTS;
    size_t place = 0;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        state->places[i] = place;
        place += layer_has_state(m, i) ? (size_t)one : 0;
    }
    return SMOL_OK;
}

/* Returns the floats from one copy of the states to the other: both begin at a cache line. */
static size_t copy_stride(const struct sequence_state *state)
{
    return round_up(state->n_floats, CACHE_LINE / sizeof(float));
}

static size_t memory_bytes(const struct sequence_state *state)
{
    return 2 * copy_stride(state) * sizeof *state->memory;
}

smol_status smol_state_reserve(struct sequence_state *state, smol_error *error)
{
    if (state->memory || state->n_floats == 0)
        return SMOL_OK;
    state->memory = smol_zeros_new(memory_bytes(state));
    if (!state->memory)
        return smol_fail_memory(error, "the states");
    smol_zeros_fill_huge(state->memory, memory_bytes(state)); /* each token reads it all */
    state->now = state->memory;
    state->next = state->memory + copy_stride(state);
    return SMOL_OK;
}

void smol_state_release(struct sequence_state *state)
{
    for (size_t i = 0; i < state->n_snapshots; i++)
        smol_free(state->snapshots[i].data);
    smol_free(state->snapshots);
    if (state->memory)
        smol_zeros_free(state->memory, memory_bytes(state));
    state->snapshots = NULL;
    state->memory = state->now = state->next = NULL;
    state->n_snapshots = state->room = state->position = 0;
}

void smol_state_free(struct sequence_state *state)
{
    smol_state_release(state);
    smol_free(state->places);
    *state = (struct sequence_state){0};
}

size_t smol_state_bytes(const struct sequence_state *state)
{
    return (state->memory ? memory_bytes(state) : 0) +
           state->n_snapshots * state->n_floats * sizeof(float) +
           state->room * sizeof *state->snapshots;
}

/* --- passes ------------------------------------------------------------------------------- */

static void exchange(struct sequence_state *state)
{
    float *now = state->now;
    state->now = state->next;
    state->next = now;
}

void smol_state_begin(struct sequence_state *state)
{
    state->before = SIZE_MAX;
}

void smol_state_advance(struct sequence_state *state, size_t n)
{
    exchange(state);
    state->before = state->position;
    state->position += state->n_floats ? n : 0;
}

size_t smol_state_pass(const struct sequence_state *state, size_t n)
{
    size_t most = STATE_INTERVAL - state->position % STATE_INTERVAL;
    return state->n_floats && n > most ? most : n;
}

/* --- snapshots ---------------------------------------------------------------------------- */

static void remove_at(struct sequence_state *state, size_t i)
{
    smol_free(state->snapshots[i].data);
    state->n_snapshots--;
    memmove(&state->snapshots[i], &state->snapshots[i + 1],
            (state->n_snapshots - i) * sizeof *state->snapshots);
}

static bool is_kept(const struct sequence_state *state, size_t i, const size_t *kept, size_t n)
{
    bool found = false;
    for (size_t k = 0; k < n; k++)
        found |= state->snapshots[i].position == kept[k];
    return found;
}

/* Removes the snapshot whose absence costs least: the one with the nearest neighbours, where a
 * distance counts less the longer ago it is. */
static void thin(struct sequence_state *state, const size_t *kept, size_t n_kept)
{
    size_t worst = 0;
    double least = 0;
    bool found = false;
    for (size_t i = 0; i < state->n_snapshots; i++) {
        if (is_kept(state, i, kept, n_kept))
            continue;
        size_t before = i > 0 ? state->snapshots[i - 1].position : 0;
        size_t after =
            i + 1 < state->n_snapshots ? state->snapshots[i + 1].position : state->position;
        double cost = (double)(after - before) / (double)(state->position - before + 1);
        if (!found || cost < least) {
            worst = i;
            least = cost;
        }
        found = true;
    }
    remove_at(state, worst);
}

/* Makes room for one more snapshot. Returns false if there is no memory. */
static bool make_room(struct sequence_state *state, const size_t *kept, size_t n_kept)
{
    size_t n = state->n_snapshots;
    if (n > 0 && state->snapshots[n - 1].position % STATE_INTERVAL &&
        !is_kept(state, n - 1, kept, n_kept))
        remove_at(state, n - 1); /* those of the interval are near enough */
    if (state->n_snapshots == state->most)
        thin(state, kept, n_kept);
    if (state->n_snapshots < state->room)
        return true;
    size_t room = 2 * state->room + LEAST_SNAPSHOTS;
    if (!RESIZE(state->snapshots, room))
        return false;
    state->room = room;
    return true;
}

void smol_state_keep(struct sequence_state *state, const size_t *kept, size_t n_kept)
{
    size_t n = state->n_snapshots;
    bool has = n > 0 && state->snapshots[n - 1].position == state->position;
    if (state->n_floats == 0 || state->position == 0 || has || !make_room(state, kept, n_kept))
        return;
    float *data = smol_malloc(state->n_floats * sizeof *data);
    if (!data)
        return;
    memcpy(data, state->now, state->n_floats * sizeof *data);
    state->snapshots[state->n_snapshots++] = (struct state_snapshot){state->position, data};
}

/* Returns the number of snapshots at positions up to n. */
static size_t count_until(const struct sequence_state *state, size_t n)
{
    size_t count = state->n_snapshots;
    while (count > 0 && state->snapshots[count - 1].position > n)
        count--;
    return count;
}

size_t smol_state_known(const struct sequence_state *state, size_t n)
{
    if (state->n_floats == 0)
        return n;
    if (state->position <= n)
        return state->position;
    size_t count = count_until(state, n);
    size_t known = count > 0 ? state->snapshots[count - 1].position : 0;
    return state->before <= n && state->before > known ? state->before : known;
}

const float *smol_state_at(const struct sequence_state *state, size_t position)
{
    size_t count = count_until(state, position);
    if (state->n_floats == 0)
        return NULL;
    if (state->position == position)
        return state->now;
    if (count > 0 && state->snapshots[count - 1].position == position)
        return state->snapshots[count - 1].data;
    return state->position > position && state->before == position ? state->next : NULL;
}

size_t smol_state_cut(struct sequence_state *state, size_t n)
{
    size_t known = smol_state_known(state, n);
    if (state->n_floats == 0)
        return known;
    if (known == 0) {
        smol_state_release(state);
        return known;
    }
    while (state->n_snapshots > count_until(state, known))
        remove_at(state, state->n_snapshots - 1);
    if (state->position > known && state->before == known) {
        exchange(state);
        state->position = known;
        state->before = SIZE_MAX;
    } else if (state->position > known) {
        smol_state_set(state, known, state->snapshots[state->n_snapshots - 1].data);
    }
    return known;
}

void smol_state_set(struct sequence_state *state, size_t position, const float *data)
{
    memcpy(state->now, data, state->n_floats * sizeof *state->now);
    state->position = position;
    state->before = SIZE_MAX;
}
