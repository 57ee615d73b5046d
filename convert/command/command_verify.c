/* smolconv verify FILE.smol: whether a blob is whole. */
#include <stdio.h>

#include "common/options.h"
#include "convert/command/command.h"
#include "format/reader.h"

static const struct command_line line = {
    .program = "smolconv",
    .words = "verify FILE.smol",
    .about = "Checks every digest and every rule of the format.\n",
    .notes = "",
    .min_words = 1,
    .max_words = 1,
};

enum status smolconv_verify(int argc, char **argv, struct error *error)
{
    const char *path;
    bool shown;
    struct blob blob;
    enum status status = smol_options_parse(&line, argc, argv, NULL, &path, &shown, error);
    if (status || shown)
        return status;
    status = smol_blob_open(path, true, VERIFY_AT_OPEN, &blob, error);
    if (status)
        return status;
    printf("%s: good: %zu bytes, %zu chunks, %zu tensors\n", path, blob.file.size, blob.n_chunks,
           blob.n_tensors);
    smol_blob_close(&blob);
    return STATUS_OK;
}
