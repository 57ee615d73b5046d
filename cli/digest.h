/* The digest (XXH3, 64 bits) that a program's own files carry to show damage. */
#ifndef SMOL_CLI_DIGEST_H
#define SMOL_CLI_DIGEST_H

#include "common/hash.h" /* smol_digest */

#endif
