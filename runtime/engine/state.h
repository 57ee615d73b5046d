/* The states of a sequence's layers that have them: what such a layer remembers of all tokens so
 * far, in a fixed number of floats. Unlike keys and values, a state cannot be cut back, so copies
 * are kept of some positions (snapshots), from which the tokens after them are read again.
 *
 * All layers' states belong to one position. A pass reads them and writes those after its last
 * token apart; they take the place of the old ones when the pass is done. The old ones stay until
 * the next pass, so that going back by one pass, as after a wrong guess, needs no snapshot. */
#ifndef SMOL_RUNTIME_STATE_H
#define SMOL_RUNTIME_STATE_H

#include <stddef.h>

#include "common/error.h"
#include "format/format.h"

/* Passes end at multiples of this number of positions, and a snapshot is taken there. */
enum { STATE_INTERVAL = 256 };

struct state_snapshot {
    size_t position;
    float *data; /* (n_floats) */
};

/* Zeroed for a model without states; then every function below does nothing. */
struct sequence_state {
    size_t *places;                   /* (n_layers): where a layer's state starts */
    size_t n_floats;                  /* of all layers */
    float *memory;                    /* both copies of the states, or NULL: they are zero */
    float *now, *next;                /* (n_floats): at `position`; that of the pass */
    size_t position;                  /* tokens that `now` has seen */
    size_t before;                    /* fewer, which `next` has seen, or SIZE_MAX */
    struct state_snapshot *snapshots; /* (n_snapshots), by position, none after `position` */
    size_t n_snapshots, room, most;
};

/* Returns the number of floats of one layer's state. */
size_t smol_state_floats(const struct blob_model *model);

/* Initializes the states of an empty sequence, which are zero and have no memory yet. Free them
 * even after an error. Errors: SMOL_ERROR_MEMORY. */
smol_status smol_state_init(struct sequence_state *state, const struct blob_model *model,
                            smol_error *error);

/* Makes sure that the states have memory, which smol_state_set and passes need. Errors:
 * SMOL_ERROR_MEMORY. */
smol_status smol_state_reserve(struct sequence_state *state, smol_error *error);

/* Goes back to the beginning and frees the states' memory and all snapshots. */
void smol_state_release(struct sequence_state *state);

void smol_state_free(struct sequence_state *state);

/* Returns the bytes allocated. */
size_t smol_state_bytes(const struct sequence_state *state);

/* Begins a pass, which writes over the states before the last one, even if it is never finished. */
void smol_state_begin(struct sequence_state *state);

/* Takes over what a pass of n tokens has written. */
void smol_state_advance(struct sequence_state *state, size_t n);

/* Returns how many of n more tokens a pass may read: it ends where the next snapshot is taken. */
size_t smol_state_pass(const struct sequence_state *state, size_t n);

/* Takes a snapshot. Another that is near it or near others may make room, but none at one of
 * kept[0..n_kept). Without memory for it, none is taken. */
void smol_state_keep(struct sequence_state *state, const size_t *kept, size_t n_kept);

/* Returns the newest position, at most n, whose states are known. Without states that is n. */
size_t smol_state_known(const struct sequence_state *state, size_t n);

/* Returns the states at a position: of now, before the last pass, or a snapshot's; NULL: they are
 * not known. */
const float *smol_state_at(const struct sequence_state *state, size_t position);

/* Goes back to smol_state_known(n), which is returned. Later snapshots are dropped; at 0, so is the
 * memory. */
size_t smol_state_cut(struct sequence_state *state, size_t n);

/* Sets the states to data (n_floats), those at a position at which no snapshot is later. */
void smol_state_set(struct sequence_state *state, size_t position, const float *data);

#endif
