/* Wall time, for programs: these include the folder cli/, not common/. */
#ifndef SMOL_CLI_CLOCK_H
#define SMOL_CLI_CLOCK_H

#include "common/clock.h" /* clock_seconds */

#endif
