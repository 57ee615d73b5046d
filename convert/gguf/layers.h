/* Reads the keys of a GGUF file that tell how layers differ from Llama's: which of them have states
 * in place of attention, and experts. */
#ifndef SMOL_CONVERT_GGUF_LAYERS_H
#define SMOL_CONVERT_GGUF_LAYERS_H

#include "convert/gguf/maker.h"

/* Adds to the object, which has the settings that one key states, those that need several or that
 * llama.cpp knows without a key. Errors: SMOL_ERROR_DAMAGED (keys that contradict each other),
 * SMOL_ERROR_UNSUPPORTED (a value that smolconv cannot state). */
smol_status smol_gguf_take_layers(struct maker *m);

#endif
