/* Reading JSON, value by value. */
#ifndef SMOL_CLI_JSON_IN_H
#define SMOL_CLI_JSON_IN_H

#include "common/json_reader.h"

#endif
