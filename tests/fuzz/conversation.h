/* A conversation for chat templates that fuzz targets have made or found. */
#ifndef SMOL_TESTS_FUZZ_CONVERSATION_H
#define SMOL_TESTS_FUZZ_CONVERSATION_H

#include "format/template.h"

/* Runs the code; what it writes must be UTF-8, and each byte marked as somebody's. */
void fuzz_converse(const struct template_code *code);

#endif
