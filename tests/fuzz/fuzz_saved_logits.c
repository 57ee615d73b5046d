/* Saved logits that are a stranger's (smolrun perplexity --kl-from). An input is a text that they
 * are to be of, and damages to the file, before its digests are made right again or after; or the
 * file itself. A file that is read to its end is the one that was saved, or has finite numbers in
 * its place. */
#include "common/hash.h"
#include "common/number.h"
#include "smolrun/saved_logits.h"
#include "tests/fuzz/files.h"

enum { MAX_VOCABULARY = 64, MAX_IDS = 16 * 255, HEADER_SIZE = 56, DIGEST_SIZE = 8 };

struct way {
    uint8_t vocab_size, n_ids, n_rows, window;
    uint8_t repaired, n_damages; /* repaired: 2 and 3, the rest of the input is the file */
    uint16_t length;             /* to cut it to; 0: none */
};

static struct saved_text make_text(const struct way *way)
{
    static uint32_t ids[MAX_IDS];
    const struct saved_text text = {
        .ids = ids,
        .n_ids = 16 * (size_t)way->n_ids,
        .n_rows = way->n_rows % 32,
        .vocab_size = 1 + way->vocab_size % MAX_VOCABULARY,
        .window = way->window,
    };
    for (uint32_t i = 0; i < text.n_ids; i++)
        ids[i] = i * 7 % text.vocab_size;
    return text;
}

static size_t row_size_of(const struct saved_text *text)
{
    return text->vocab_size * sizeof(float);
}

static struct built save(const struct saved_text *text)
{
    struct saved_writer writer;
    float row[MAX_VOCABULARY];
    CLAIM(!smol_saved_create(fuzz_path("saved"), text, &writer, NULL));
    for (size_t i = 0; i < text->n_rows; i++) {
        for (size_t j = 0; j < text->vocab_size; j++)
            row[j] = (float)(i + 1) / (float)(j + 1) - 2;
        CLAIM(!smol_saved_add(&writer, row, NULL));
    }
    CLAIM(!smol_saved_commit(&writer, NULL));
    return fuzz_read("saved");
}

/* Makes the digests of the header and the rows right. */
static void repair(const struct saved_text *text, const struct built *file)
{
    const size_t row_size = row_size_of(text), header = HEADER_SIZE - DIGEST_SIZE;
    uint64_t digest = smol_digest(file->data, header);
    memcpy(file->data + header, &digest, sizeof digest);
    size_t at = HEADER_SIZE + text->n_ids * sizeof *text->ids;
    for (size_t i = 0; i < text->n_rows; i++, at += row_size + DIGEST_SIZE) {
        uint8_t *row = exact_copy(file->data + at, row_size);
        digest = smol_digest(row, row_size);
        memcpy(file->data + at + row_size, &digest, sizeof digest);
        free(row);
    }
}

static struct built spoil(struct fuzz_input *in, const struct way *way,
                          const struct saved_text *text, const struct built *saved)
{
    if (way->repaired % 4 > 1)
        return (struct built){exact_copy(in->data, in->size), in->size};
    struct built file = {exact_copy(saved->data, saved->size), saved->size};
    fuzz_damage(in, way->n_damages % 4, file.data, file.size);
    if (way->repaired % 2)
        repair(text, &file);
    if (way->length)
        file.size = way->length % (file.size + 1);
    return file;
}

/* Reads all of it. */
static smol_status read_all(const struct saved_text *text, const struct built *file,
                            smol_error *error)
{
    struct saved_reader reader;
    const size_t first = HEADER_SIZE + text->n_ids * sizeof *text->ids, row = row_size_of(text);
    const char *path = fuzz_write("spoilt", file->data, file->size);
    struct input input;
    CLAIM(smol_input_open(path, &input, error) == SMOL_OK);
    smol_status status = smol_saved_open(&input, text, &reader, error);
    for (size_t i = 0; !status && i < text->n_rows; i++) {
        status = smol_saved_next(&reader, error);
        for (size_t j = 0; !status && j < text->vocab_size; j++)
            CLAIM(f32_is_finite(reader.row[j]));
        if (!status)
            CLAIM(memcmp(reader.row, file->data + first + i * (row + DIGEST_SIZE), row) == 0);
    }
    if (!status)
        status = smol_saved_end(&reader, error);
    smol_saved_close(&reader);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct way way;
    smol_error error;
    fuzz_take(&in, &way, sizeof way);
    const struct saved_text text = make_text(&way);
    struct built saved = save(&text), file = spoil(&in, &way, &text, &saved);
    smol_status status = read_all(&text, &file, &error);
    CLAIM(status == SMOL_OK || status == SMOL_ERROR_DAMAGED || status == SMOL_ERROR_UNSUPPORTED ||
          status == SMOL_ERROR_USAGE);
    CLAIM(!status || error.message[0]);
    bool same = file.size == saved.size && memcmp(file.data, saved.data, saved.size) == 0;
    CLAIM(same ? !status : status || (way.repaired % 4 && file.size == saved.size));
    free(file.data);
    free(saved.data);
    return 0;
}
