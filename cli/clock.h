/* Wall time. */
#ifndef SMOL_CLI_CLOCK_H
#define SMOL_CLI_CLOCK_H

#include "common/clock.h" /* clock_seconds */

#endif
