/* A temporary folder for each test, or each group of tests, of the file that includes this. */
#ifndef SMOL_TESTS_UNIT_TEMPORARY_FIXTURE_H
#define SMOL_TESTS_UNIT_TEMPORARY_FIXTURE_H

#include "tests/unit/temporary.h"

static struct temporary temporary;

static int temporary_set_up(void **state)
{
    (void)state;
    temporary_make(&temporary);
    return 0;
}

static int temporary_tear_down(void **state)
{
    (void)state;
    temporary_remove(&temporary);
    return 0;
}

#endif
