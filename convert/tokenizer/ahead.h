/* Compiles the look-aheads of a pattern that need more than the next symbol: an automaton that
 * reads a text backwards and tells at each place which of them hold. */
#ifndef SMOL_CONVERT_AHEAD_H
#define SMOL_CONVERT_AHEAD_H

#include "convert/tokenizer/automaton_steps.h"

/* Sets automaton->ahead and n_ahead_states, if the steps have such look-aheads. n_plain is the
 * number of symbols. The caller frees the automaton, also after an error. Errors:
 * SMOL_ERROR_UNSUPPORTED, SMOL_ERROR_MEMORY. */
smol_status smol_ahead_make(const struct steps *steps, uint32_t n_plain,
                            struct automaton *automaton, smol_error *error);

#endif
