/* Tests of saved logits, exhaustively: reading returns what was saved, and refuses a file with a
 * flipped bit, truncation or appended byte. */
#include "smolrun/saved_logits.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/unit.h"

enum { N_IDS = 6, N_ROWS = 4, N_VOCABULARY = 5 };

static const uint32_t ids[N_IDS] = {4, 0, 1, 1, 3, 2};
static const struct saved_text text = {ids, N_IDS, N_ROWS, N_VOCABULARY, 3};
static float logits[N_ROWS][N_VOCABULARY];

static void save(const char *path)
{
    struct saved_writer writer;
    assert_int_equal(smol_saved_create(path, &text, &writer, NULL), SMOL_OK);
    for (size_t i = 0; i < N_ROWS; i++) {
        for (size_t j = 0; j < N_VOCABULARY; j++)
            logits[i][j] = (float)i - 0.3f * (float)j;
        assert_int_equal(smol_saved_add(&writer, logits[i], NULL), SMOL_OK);
    }
    assert_int_equal(smol_saved_commit(&writer, NULL), SMOL_OK);
}

/* Reads the file of the last path completely. */
static smol_status read_all(smol_error *error)
{
    struct saved_reader reader;
    struct input input;
    assert_int_equal(smol_input_open(temporary.path, &input, error), SMOL_OK);
    smol_status status = smol_saved_open(&input, &text, &reader, error);
    for (size_t i = 0; !status && i < N_ROWS; i++) {
        status = smol_saved_next(&reader, error);
        if (!status)
            assert_memory_equal(reader.row, logits[i], sizeof logits[i]);
    }
    if (!status)
        status = smol_saved_end(&reader, error);
    smol_saved_close(&reader);
    return status;
}

static void assert_refused(const void *data, size_t size, const char *part)
{
    smol_error error;
    temporary_write(&temporary, "spoilt", data, size);
    assert_error(&error, read_all(&error), SMOL_ERROR_DAMAGED, part);
}

TEST(no_other_bytes_are_taken_for_saved_logits)
{
    uint8_t data[512];
    snprintf(temporary.path, sizeof temporary.path, "%s/saved", temporary.folder);
    save(temporary.path);
    assert_int_equal(read_all(NULL), SMOL_OK);
    FILE *file = fopen(temporary.path, "rb");
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    assert_int_equal(size, 56 + sizeof ids + sizeof logits + N_ROWS * sizeof(uint64_t));
    for (size_t cut = 0; cut < size; cut++)
        assert_refused(data, cut, "truncated");
    for (size_t bit = 0; bit < 8 * size; bit++) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_refused(data, size, bit < 64 ? "not a file" : "damaged");
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    data[size] = 0;
    assert_refused(data, size + 1, "longer than its 4 rows");
}

int main(void)
{
    return run_all_tests("saved_logits", temporary_set_up, temporary_tear_down);
}
