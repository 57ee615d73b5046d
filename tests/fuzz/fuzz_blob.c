/* Opening, verifying and taking in a blob, and using its tokenizer. An input is a blob as build.h
 * has it, but when it starts with the blob's magic: then it is the file itself. */
#include <stdbool.h>

#include "convert/blob/intake.h"
#include "format/reader.h"
#include "tests/fuzz/build.h"
#include "tests/fuzz/tokenize.h"

static void check_tensors(const struct blob *blob)
{
    const struct blob_header *header = blob->header;
    for (size_t i = 0; i < blob->n_tensors; i++) {
        const struct blob_tensor *tensor = &blob->tensors[i];
        CLAIM(tensor->offset >= header->data_offset && tensor->offset % BLOB_ALIGN == 0);
        CLAIM(tensor->offset <= blob->file.size &&
              tensor->size <= blob->file.size - tensor->offset);
    }
    for (size_t i = 0; i < blob->n_stop; i++)
        CLAIM(blob->stop[i] < blob->model->vocab_size);
}

/* Every digest of the data, and then what verification adds. Says whether the digests match. */
static bool check_blob(const struct blob *blob, const struct built *file)
{
    smol_error error;
    const uint64_t start = blob->header->data_offset;
    check_tensors(blob);
    bool digests = !smol_blob_check(blob, start, blob->file.size - start, &error);
    bool verified = !smol_blob_verify(blob, NULL, &error);
    CLAIM(digests || !verified);
    CLAIM(fuzz_is_whole(file) == verified);
    return digests;
}

/* Takes the file in as a download would bring it, in pieces of the sizes that the input says. */
static bool take_in(struct fuzz_input *in, const struct built *file)
{
    struct intake *intake;
    smol_error error;
    size_t at = 0;
    CLAIM(!smol_intake_open("fuzz", &intake, &error));
    smol_status status = SMOL_OK;
    while (!status && at < file->size) {
        size_t n = 1 + ((size_t)fuzz_take_byte(in) << fuzz_take_byte(in) % 10);
        n = n < file->size - at && in->size > 0 ? n : file->size - at;
        uint8_t *piece = exact_copy(file->data + at, n);
        status = smol_intake_take(intake, piece, n, &error);
        free(piece);
        at += n;
        CLAIM(smol_intake_checked(intake) <= at);
    }
    if (!status)
        status = smol_intake_finish(intake, &error);
    CLAIM(status || smol_intake_checked(intake) == file->size);
    smol_intake_close(intake);
    return !status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct blob blob;
    smol_error error;
    bool raw = size >= BLOB_MAGIC_SIZE && memcmp(data, BLOB_MAGIC, BLOB_MAGIC_SIZE) == 0;
    struct built file = raw ? (struct built){exact_copy(data, size), size} : fuzz_build_blob(&in);
    smol_status status =
        smol_blob_open_bytes(file.data, file.size, "fuzz", VERIFY_FIRST_USE, &blob, &error);
    bool digests = false;
    if (!status) {
        digests = check_blob(&blob, &file);
        fuzz_tokenize(&blob.tokenizer, (const char *)in.data, in.size);
    }
    bool taken = take_in(&in, &file);
    CLAIM(status || taken == digests); /* the intake does not look into the tokenizer */
    smol_blob_close(&blob);
    free(file.data);
    return 0;
}
