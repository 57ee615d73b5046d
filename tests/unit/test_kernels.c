/* Tests of the selection of kernels. tests/kernels tests their results. */
#include <stdlib.h>
#include <string.h>

#include "runtime/kernels/kernels.h"
#include "tests/unit/unit.h"

static smol_status select_as(const char *name, const struct kernels **kernels, smol_error *error)
{
    *kernels = NULL;
    setenv("SMOL_ISA", name, 1);
    smol_status status = smol_kernels_select(kernels, error);
    unsetenv("SMOL_ISA");
    return status;
}

TEST(every_set_is_found_by_name_where_it_runs_and_refused_elsewhere)
{
    smol_error error;
    bool runs;
    const struct kernels *set, *found;
    for (size_t i = 0; (set = smol_kernels_at(i, &runs)); i++) {
        assert_int_equal(select_as(set->name, &found, &error), runs ? SMOL_OK : SMOL_ERROR_USAGE);
        assert_ptr_equal(found, runs ? set : NULL);
        if (!runs)
            assert_non_null(strstr(error.message, set->name));
    }
}

TEST(the_strongest_set_that_runs_is_the_default)
{
    smol_error error;
    bool runs;
    const struct kernels *set, *strongest = NULL, *found;
    for (size_t i = 0; (set = smol_kernels_at(i, &runs)); i++)
        strongest = runs ? set : strongest;
    unsetenv("SMOL_ISA");
    assert_int_equal(smol_kernels_select(&found, &error), SMOL_OK);
    assert_ptr_equal(found, strongest);
    assert_int_equal(select_as("", &found, &error), SMOL_OK);
    assert_ptr_equal(found, strongest);
}

TEST(unknown_instruction_sets_are_refused_by_name)
{
    smol_error error;
    const struct kernels *found;
    assert_int_equal(select_as("mmx", &found, &error), SMOL_ERROR_USAGE);
    assert_non_null(strstr(error.message, "mmx"));
}

int main(void)
{
    return run_all_tests("kernels", NULL, NULL);
}
