/* Distinguishes kinds of file, see model_tensor.h. */
#include "convert/inspect/model_tensor.h"

#include <string.h>

#include "common/file.h"

/* Checks only four bytes of the magic: the reader reports errors in the others. */
static bool begins_like_a_blob(const uint8_t *data, size_t size)
{
    return size >= 4 && memcmp(data, BLOB_MAGIC, 4) == 0;
}

bool smol_model_file_is_blob(const char *path)
{
    uint8_t data[4];
    size_t n, size;
    smol_error error;
    return !smol_file_peek(path, data, sizeof data, &n, &size, &error) &&
           begins_like_a_blob(data, n);
}

smol_status smol_model_file_open(const char *path, enum verify verify, struct model_file *file,
                                 smol_error *error)
{
    struct file_view view;
    *file = (struct model_file){0};
    smol_status status = smol_file_map(path, &view, error);
    if (status)
        return status;
    file->is_blob = begins_like_a_blob(view.data, view.size);
    return file->is_blob ? smol_blob_open_view(&view, path, verify, &file->blob, error)
                         : smol_safetensors_open_view(&view, path, &file->safetensors, error);
}

smol_status smol_model_file_check(const struct model_file *file, const char *path,
                                  smol_error *error)
{
    return smol_file_check(file->is_blob ? &file->blob.file : &file->safetensors.file, path, error);
}

void smol_model_file_close(struct model_file *file)
{
    smol_blob_close(&file->blob);
    smol_safetensors_close(&file->safetensors);
}
