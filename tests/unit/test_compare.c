/* Tests of the comparison of a blob with its checkpoint: a change anywhere is found and named, even
 * if the digests are correct; and the sink receives exactly the bytes of a file. */
#include "convert/blob/writer.h"
#include "convert/provenance.h"
#include "tests/unit/demo_copy.h"
#include "tests/unit/unit.h"

/* Compares the copy, which verifies as a blob, with the checkpoint. */
static smol_status compare(bool *same_release)
{
    const struct source_options options = {0};
    struct blob blob;
    repair_digests();
    if (smol_blob_open_bytes(copy, original.size, "copy.smol", VERIFY_AT_OPEN, &blob, &error))
        fail_msg("%s", error.message);
    smol_status status =
        smol_convert_compare("demo/model", &options, &blob, 2, same_release, &error);
    smol_blob_close(&blob);
    return status;
}

static void differs_at(uint64_t offset, const char *place)
{
    bool same_release;
    char expected[160];
    snprintf(expected, sizeof expected, "(%s, offset %llu)", place, (unsigned long long)offset);
    assert_int_equal(compare(&same_release), SMOL_ERROR_MISMATCH);
    if (!strstr(error.message, expected) || strncmp(error.message, "copy.smol: ", 11) != 0)
        fail_msg("%s: %s", expected, error.message);
}

/* --- differences ----------------------------------------------------------------------------- */

TEST_WITH(a_blob_comes_from_its_checkpoint, restore, NULL)
{
    bool same_release = false;
    assert_int_equal(compare(&same_release), SMOL_OK);
    assert_true(same_release);
}

TEST_WITH(each_section_is_compared_and_named, restore, NULL)
{
    static const struct {
        int section;
        uint64_t byte; /* a byte whose lowest bit may change without breaking a rule */
        const char *place;
    } changes[] = {
        {0, offsetof(struct blob_model, context_length), "section model"},
        {1, 5, "section inv_freq"},
        {2, 0, "section stop"},
        {7, offsetof(struct blob_template, source_size), "section template"},
        {8, 64 + 6, "section tokenizer"}, /* whether token 0 is special */
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        restore(NULL);
        uint64_t offset = sections()[changes[i].section].offset + changes[i].byte;
        copy[offset] ^= 1;
        differs_at(offset, changes[i].place);
    }
    restore(NULL);
    uint64_t offset = sections()[3].offset;
    struct blob_generation *generation = (void *)(copy + offset);
    generation->present |= GENERATION_TOP_K;
    generation->top_k = 7;
    differs_at(offset, "section generation");
}

TEST_WITH(the_first_and_the_last_weight_are_compared, restore, NULL)
{
    uint64_t start = sections()[9].offset;
    copy[start + 64] ^= 1; /* a step of the first group */
    differs_at(start + 64, "weights, tensor embed");
    restore(NULL);
    uint64_t last = start + sections()[9].size - 704 + 167 * 4; /* an element of the last vector */
    copy[last] ^= 1;
    differs_at(last, "weights, tensor final_norm");
    copy[start + 64] ^= 1; /* the first of two */
    differs_at(start + 64, "weights, tensor embed");
}

TEST_WITH(the_header_is_compared, restore, NULL)
{
    header()->minor = 2;
    differs_at(18, "header");
    restore(NULL);
    header()->optional_features = 1 << 8;
    differs_at(49, "header");
}

TEST_WITH(another_release_is_told_apart_from_another_source, restore, NULL)
{
    bool same_release = true;
    char *provenance = (char *)copy + sections()[4].offset;
    provenance[20] ^= 1; /* the first character of the release */
    assert_int_equal(compare(&same_release), SMOL_OK);
    assert_false(same_release);
    provenance[strlen("converter: smolconv x.y.z\ndtype: ")] ^= 1;
    assert_int_equal(compare(&same_release), SMOL_ERROR_MISMATCH);
    assert_non_null(strstr(error.message, "expected \"dtype: int8\""));
}

TEST_WITH(another_converter_is_a_difference, restore, NULL)
{
    bool same_release = true;
    copy[sections()[4].offset + 11] = 'S'; /* converter: Smolconv */
    assert_int_equal(compare(&same_release), SMOL_ERROR_MISMATCH);
    assert_non_null(strstr(error.message, "expected \"converter: smolconv"));
    assert_false(same_release);
}

TEST_WITH(missing_and_additional_lines_are_differences, restore, NULL)
{
    bool same_release;
    struct blob_section *section = &sections()[4];
    const char *last = strrchr((char *)copy + section->offset, '\n');
    size_t cut = 0; /* the last line */
    while (last[-1 - (long)cut] != '\n')
        cut++;
    cut++;
    /* the next section starts at a multiple of 64: cut no further */
    uint64_t end = section->offset + section->size;
    uint64_t rest = (end - 1) % 64;
    uint64_t n = rest < cut ? rest : cut;
    memset(copy + end - n, 0, n);
    section->size -= n;
    assert_int_equal(compare(&same_release), SMOL_ERROR_MISMATCH);
    assert_non_null(strstr(error.message, "expected \"source: tokenizer_config.json"));
    restore(NULL);
    n = round_up(end, 64) - end;
    memset(copy + end, 'x', n);
    section->size += n;
    assert_int_equal(compare(&same_release), n ? SMOL_ERROR_MISMATCH : SMOL_OK);
    assert_true(!n || strstr(error.message, "expected \"\""));
}

TEST(only_a_whole_first_line_names_a_release)
{
    size_t n = 0;
    static const char good[] = "converter: smolconv 0.1.0\nx";
    assert_ptr_equal(smol_provenance_release(good, sizeof good - 1, &n), good + 20);
    assert_int_equal(n, 5);
    for (size_t size = 0; size < sizeof good - 2; size++)
        assert_null(smol_provenance_release(good, size, &n));
    static const char *const bad[] = {"converter: smolconv \n", "converter: other 1\n",
                                      "\nconverter: smolconv 1\n", ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_null(smol_provenance_release(bad[i], strlen(bad[i]), &n));
}

/* --- the sink -------------------------------------------------------------------------------- */

/* Collects a blob, or fails at call number fail_at. */
struct collector {
    uint8_t *bytes;
    uint64_t end;
    int n_calls, fail_at;
};

static smol_status collect(void *target, uint64_t offset, const void *data, size_t size,
                           smol_error *e)
{
    struct collector *c = target;
    if (++c->n_calls == c->fail_at)
        return smol_fail(e, SMOL_ERROR_NUMERIC, "enough");
    assert_true(offset == c->end || offset == 0); /* in order, the front last */
    assert_true(offset + size <= original.size);
    memcpy(c->bytes + offset, data, size);
    if (offset)
        c->end = offset + size;
    return SMOL_OK;
}

/* Writes the blob again from its own contents. */
static smol_status rebuild(struct collector *collector)
{
    struct blob blob;
    struct blob_writer *writer;
    assert_int_equal(smol_blob_open_bytes(original.data, original.size, "original", VERIFY_AT_OPEN,
                                          &blob, &error),
                     SMOL_OK);
    const struct blob_section *table =
        (const void *)(original.data + sizeof(struct blob_header)); /* 8: tokenizer, 9: weights */
    const struct blob_contents contents = {
        .model = blob.model,
        .inv_freq = blob.inv_freq,
        .stop = blob.stop,
        .n_stop = blob.n_stop,
        .generation = blob.generation,
        .provenance = blob.provenance,
        .n_provenance = blob.n_provenance,
        .tokenizer = original.data + table[8].offset,
        .n_tokenizer = table[8].size,
        .template_section = blob.template_section,
        .n_template = blob.n_template,
    };
    collector->end = blob.header->data_offset;
    const struct blob_sink sink = {collect, collector};
    smol_status status = smol_writer_open_sink(&sink, &contents, &writer, &error);
    assert_true(status ? writer == NULL : writer != NULL);
    if (!status) {
        status = smol_writer_append(writer, original.data + table[9].offset, table[9].size, &error);
        if (status)
            smol_writer_abort(writer);
        else
            status = smol_writer_finish(writer, &error);
    }
    smol_blob_close(&blob);
    return status;
}

TEST(a_sink_gets_the_bytes_of_a_file)
{
    struct collector collector = {.bytes = copy};
    memset(copy, 0xee, original.size);
    assert_int_equal(rebuild(&collector), SMOL_OK);
    assert_int_equal(collector.end, original.size);
    assert_memory_equal(copy, original.data, original.size);
}

TEST(an_error_of_the_sink_ends_the_blob)
{
    struct collector whole = {.bytes = copy};
    assert_int_equal(rebuild(&whole), SMOL_OK);
    for (int n = 1; n <= whole.n_calls; n++) {
        struct collector collector = {.bytes = copy, .fail_at = n};
        assert_int_equal(rebuild(&collector), SMOL_ERROR_NUMERIC);
        assert_string_equal(error.message, "enough");
        assert_int_equal(collector.n_calls, n);
    }
}

/* --- locations ------------------------------------------------------------------------------- */

TEST_WITH(every_byte_has_a_place, restore, NULL)
{
    static const char *const names[] = {"model",      "inv_freq", "stop",    "generation",
                                        "provenance", "tensors",  "digests", "template",
                                        "tokenizer",  "weights"};
    struct blob blob;
    char name[MAX_PLACE], expected[MAX_PLACE];
    assert_int_equal(
        smol_blob_open_bytes(copy, original.size, "copy", VERIFY_AT_OPEN, &blob, &error), SMOL_OK);
    assert_string_equal(smol_blob_place(&blob, 0, name), "header");
    assert_string_equal(smol_blob_place(&blob, 63, name), "header");
    assert_string_equal(smol_blob_place(&blob, 64, name), "section table");
    for (int i = 0; i < 9; i++) { /* each up to the start of the next, with its padding */
        snprintf(expected, sizeof expected, "section %s", names[i]);
        assert_string_equal(smol_blob_place(&blob, sections()[i].offset, name), expected);
        assert_string_equal(smol_blob_place(&blob, sections()[i + 1].offset - 1, name), expected);
    }
    for (size_t i = 0; i + 1 < blob.n_tensors; i++) { /* the last one is an alias */
        const struct blob_tensor *tensor = &blob.tensors[i];
        char label[MAX_NAME];
        smol_tensor_name(tensor_key(tensor), label);
        snprintf(expected, sizeof expected, "weights, tensor %s", label);
        assert_string_equal(smol_blob_place(&blob, tensor->offset, name), expected);
        assert_string_equal(smol_blob_place(&blob, tensor->offset + tensor->size - 1, name),
                            expected);
    }
    smol_blob_close(&blob);
}

int main(void)
{
    return run_all_tests("compare", make_demo_copy, remove_demo_copy);
}
