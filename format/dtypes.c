/* Names the dtypes of a blob's matrices for people, see reader.h. */
#include "format/reader.h"

#include <stdio.h>
#include <string.h>

enum blob_dtype smol_blob_dtype(const struct blob *blob)
{
    uint64_t weights[DTYPE_INT4 + 1] = {0};
    for (size_t i = 0; i < blob->n_tensors; i++) {
        const struct blob_tensor *t = &blob->tensors[i];
        if (has_storage(t) && t->role != ROLE_EMBED && t->role != ROLE_OUTPUT)
            weights[t->dtype] += t->rows * t->cols;
    }
    enum blob_dtype most = DTYPE_F32;
    for (enum blob_dtype dtype = DTYPE_BF16; dtype <= DTYPE_INT4; dtype++)
        most = weights[dtype] > weights[most] ? dtype : most;
    return most;
}

/* Appends ", NAME DTYPE" if it fits, with a bracket for the first. */
static void add_exception(char text[MAX_MIX], const char *name, enum blob_dtype dtype)
{
    size_t n = strlen(text);
    snprintf(text + n, MAX_MIX - n, "%s%s %s", strchr(text, '(') ? ", " : " (", name,
             smol_dtype_name(dtype));
}

const char *smol_blob_dtypes(const struct blob *blob, char text[MAX_MIX])
{
    enum blob_dtype most = smol_blob_dtype(blob);
    bool others[DTYPE_INT4 + 1] = {false};
    const struct blob_tensor *embed = blob->tensors, *output = embed + blob->n_tensors - 1;
    snprintf(text, MAX_MIX, "%s", smol_dtype_name(most));
    if (embed->dtype != most)
        add_exception(text, "embedding", embed->dtype);
    if (output->dtype != most && !blob->model->tied_embeddings)
        add_exception(text, "output", output->dtype);
    for (const struct blob_tensor *t = embed + 1; t < output; t++)
        others[t->dtype] |= has_storage(t) && t->dtype != most;
    for (enum blob_dtype dtype = DTYPE_F32; dtype <= DTYPE_INT4; dtype++)
        if (others[dtype])
            add_exception(text, "others", dtype);
    if (strchr(text, '('))
        snprintf(text + strlen(text), MAX_MIX - strlen(text), ")");
    return text;
}
