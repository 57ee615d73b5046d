/* Safetensors files for targets whose inputs are headers. */
#ifndef SMOL_TESTS_FUZZ_WEIGHTS_FILE_H
#define SMOL_TESTS_FUZZ_WEIGHTS_FILE_H

#include <stddef.h>
#include <stdint.h>

/* The file around a header: its length in front, and after it as many bytes of data as it speaks
 * of, as far as they are few. The caller frees it. */
uint8_t *fuzz_weights_file(const uint8_t *header, size_t header_size, size_t *size);

#endif
