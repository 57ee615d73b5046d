/* Inspects a file or a checkpoint, see inspect.h. */
#include "convert/inspect/inspect.h"

#include <stdlib.h>

#include "convert/inspect/describe.h"

static smol_status measure(const struct subject *subject, uint32_t n_threads,
                           struct statistics **all, smol_error *error)
{
    struct pool *pool = NULL;
    *all = calloc(subject->n_tensors + 1, sizeof **all);
    if (!*all)
        return smol_fail_memory(error, "statistics");
    smol_status status = smol_pool_create(n_threads, &pool, error);
    if (!status)
        status = smol_statistics(subject->tensors, subject->n_tensors, pool, false, *all, error);
    smol_pool_destroy(pool);
    return status;
}

smol_status smol_inspect(const char *path, const struct inspect_request *request, FILE *out,
                         smol_error *error)
{
    struct subject subject;
    struct statistics *all = NULL;
    enum verify verify = request->with_statistics ? VERIFY_AT_OPEN : VERIFY_FIRST_USE;
    smol_status status = smol_subject_open(path, request->checkpoint, verify, &subject, error);
    if (status)
        return status;
    status = smol_subject_list(&subject, request->context, error);
    if (!status && request->with_statistics)
        status = measure(&subject, request->n_threads, &all, error);
    if (!status && request->as_json)
        smol_describe_json(&subject, all, out);
    else if (!status)
        smol_describe_text(&subject, request->with_tensors, all, out);
    status = smol_subject_settle(&subject, status, error);
    free(all);
    smol_subject_close(&subject);
    return status;
}
