/* Checking what was made, see result.h. */
#include "convert/base/result.h"

#include "common/file.h"

smol_status smol_result_check(const struct output *output, uint64_t size, const char *name,
                              enum verify verify, smol_error *error)
{
    struct file_view view;
    struct blob blob;
    smol_status status = smol_file_map(smol_output_temporary(output), &view, error);
    if (status)
        return status;
    size_t n = size < view.size ? (size_t)size : view.size;
    status = smol_blob_open_bytes(view.data, n, name, verify, &blob, error);
    smol_blob_close(&blob);
    status = file_settle(&view, name, status, error);
    smol_file_close(&view);
    return status;
}
