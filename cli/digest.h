/* The digest (XXH3, 64 bits) that reveals damage in a program's own files. */
#ifndef SMOL_CLI_DIGEST_H
#define SMOL_CLI_DIGEST_H

#include "common/hash.h" /* smol_digest */

#endif
