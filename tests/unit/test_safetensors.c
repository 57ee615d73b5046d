/* Tests of the safetensors reader: what it accepts, what it refuses, and the cost of refusing. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "convert/checkpoint/safetensors.h"
#include "tests/unit/sanitized.h"
#include "tests/unit/temporary_fixture.h"
#include "tests/unit/unit.h"

static struct safetensors reader;
static smol_error error;

/* Writes a file: the header's length, the header, and data bytes that count up from 0. */
static const char *write_file(const char *header, size_t header_size, size_t data_size)
{
    size_t size = 8 + header_size + data_size;
    uint8_t *bytes = malloc(size);
    uint64_t length = header_size;
    assert_non_null(bytes);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, header_size);
    for (size_t i = 0; i < data_size; i++)
        bytes[8 + header_size + i] = (uint8_t)i;
    temporary_write(&temporary, "model.safetensors", bytes, size);
    free(bytes);
    return temporary.path;
}

static smol_status open_header(const char *header, size_t data_size)
{
    return smol_safetensors_open(write_file(header, strlen(header), data_size), &reader, &error);
}

static void accepts(const char *header, size_t data_size)
{
    if (open_header(header, data_size))
        fail_msg("refused: %s", error.message);
}

static void accepts_and_closes(const char *header, size_t data_size)
{
    accepts(header, data_size);
    smol_safetensors_close(&reader);
}

/* Expects that a failed open leaves nothing allocated, and a message with the path and `part`. */
static void complains(smol_status status, smol_status expected, const char *part)
{
    assert_error(&error, status, expected, part);
    assert_non_null(strstr(error.message, "/model.safetensors: "));
    assert_null(reader.tensors);
    assert_null(reader.names);
    assert_null(reader.by_name);
    assert_null(reader.file.data);
}

static void refuses(const char *header, size_t data_size, const char *part)
{
    complains(open_header(header, data_size), SMOL_ERROR_DAMAGED, part);
}

static void refuses_bytes(const void *bytes, size_t size, smol_status expected, const char *part)
{
    temporary_write(&temporary, "model.safetensors", bytes, size);
    complains(smol_safetensors_open(temporary.path, &reader, &error), expected, part);
}

#define ONE(extra) "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]" extra "}}"
#define TENSOR(name, dtype, shape, offsets)                                                        \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* ---- accepted files ---- */

TEST(reads_tensors_in_the_order_of_their_data)
{
    accepts("{" TENSOR("late", "F32", "[1,2]", "[4,12]") "," TENSOR("early", "BF16", "[2]",
                                                                    "[0,4]") "}",
            12);
    assert_int_equal(reader.n_tensors, 2);
    const struct safetensors_tensor *early = &reader.tensors[0], *late = &reader.tensors[1];
    assert_string_equal(early->name, "early");
    assert_int_equal(early->dtype, ST_BF16);
    assert_int_equal(early->rank, 1);
    assert_int_equal(early->shape[0], 2);
    assert_int_equal(early->size, 4);
    assert_int_equal(early->data[3], 3);
    assert_string_equal(late->name, "late");
    assert_int_equal(late->rank, 2);
    assert_int_equal(late->shape[1], 2);
    assert_int_equal(late->size, 8);
    assert_int_equal(late->data[0], 4);
    assert_int_equal(late->data[7], 11);
    smol_safetensors_close(&reader);
}

TEST(finds_tensors_by_name)
{
    accepts("{" TENSOR("b", "U8", "[1]", "[0,1]") "," TENSOR("c", "U8", "[1]", "[1,2]") "," TENSOR(
                "a", "U8", "[1]", "[2,3]") "}",
            3);
    assert_int_equal(smol_safetensors_find(&reader, "a")->data[0], 2);
    assert_int_equal(smol_safetensors_find(&reader, "b")->data[0], 0);
    assert_int_equal(smol_safetensors_find(&reader, "c")->data[0], 1);
    assert_null(smol_safetensors_find(&reader, "d"));
    assert_null(smol_safetensors_find(&reader, ""));
    smol_safetensors_close(&reader);
}

TEST(reads_every_dtype)
{
    static const struct {
        const char *name;
        unsigned bits;
    } all[] = {{"BOOL", 8},        {"F4", 4},          {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
               {"I8", 8},          {"F8_E5M2", 8},     {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
               {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"U16", 16},    {"F16", 16},    {"BF16", 16},
               {"I32", 32},        {"U32", 32},        {"F32", 32},    {"C64", 64},    {"F64", 64},
               {"I64", 64},        {"U64", 64}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char header[128];
        snprintf(header, sizeof header, "{" TENSOR("a", "%s", "[8]", "[0,%u]") "}", all[i].name,
                 all[i].bits);
        accepts(header, all[i].bits);
        assert_string_equal(smol_element_name(reader.tensors[0].dtype), all[i].name);
        assert_int_equal(reader.tensors[0].size, all[i].bits);
        smol_safetensors_close(&reader);
    }
    assert_int_equal(sizeof all / sizeof all[0], ST_U64 + 1);
}

TEST(reads_scalars_and_empty_tensors)
{
    accepts("{" TENSOR("none", "F32", "[0,3]", "[0,0]") "," TENSOR(
                "scalar", "F32", "[]", "[0,4]") "," TENSOR("z", "F4", "[0]",
                                                           "[4,4]") "," TENSOR("y", "F64", "[7,0]",
                                                                               "[4,4]") "}",
            4);
    assert_string_equal(reader.tensors[0].name, "none");
    assert_int_equal(reader.tensors[0].size, 0);
    assert_string_equal(reader.tensors[1].name, "scalar");
    assert_int_equal(reader.tensors[1].rank, 0);
    assert_int_equal(reader.tensors[1].size, 4);
    assert_string_equal(reader.tensors[2].name, "y");
    assert_string_equal(reader.tensors[3].name, "z");
    smol_safetensors_close(&reader);
}

TEST(reads_a_file_without_tensors)
{
    accepts("{}", 0);
    assert_int_equal(reader.n_tensors, 0);
    assert_null(smol_safetensors_find(&reader, "a"));
    smol_safetensors_close(&reader);
    refuses("{}", 1, "1 bytes after the last tensor");
}

TEST(accepts_white_space_where_the_reference_does)
{
    accepts_and_closes(" \n\t\r" ONE("") " \n\t\r", 1);
    accepts_and_closes("{ \"a\" : { \"dtype\" : \"U8\" , \"shape\" : [ 1 ] , "
                       "\"data_offsets\" : [ 0 , 1 ] } }",
                       1);
    refuses("\xef\xbb\xbf" ONE(""), 1, "expected '{' (byte 8)");
    refuses("\v" ONE(""), 1, "expected '{' (byte 8)");
}

TEST(decodes_names)
{
    accepts("{" TENSOR("\\u0041\\ud83d\\ude00\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\xc3\xa9", "U8",
                       "[1]", "[0,1]") "}",
            1);
    assert_string_equal(reader.tensors[0].name, "A\xf0\x9f\x98\x80\"\\/\b\f\n\r\t\xc3\xa9\xc3\xa9");
    smol_safetensors_close(&reader);
    accepts_and_closes("{" TENSOR("", "U8", "[1]", "[0,1]") "}", 1);
    accepts_and_closes("{" TENSOR("\xef\xbf\xbd", "U8", "[1]", "[0,1]") "}", 1);
}

TEST(decodes_field_names_and_dtypes)
{
    accepts_and_closes(
        "{\"a\":{\"\\u0064type\":\"\\u00558\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
}

TEST(skips_unknown_fields)
{
    accepts_and_closes(ONE(",\"x\":{\"y\":[-1.5e3,null,true,false,{},[],[[]],\"\\u0000\"],\"z\":0},"
                           "\"x\":1"),
                       1);
    refuses(ONE(",\"x\":[1,]"), 1, "expected a value");
    refuses(ONE(",\"x\":{1:2}"), 1, "expected a string");
    refuses(ONE(",\"x\":{\"y\"}"), 1, "expected ':'");
    refuses(ONE(",\"x\":[1}"), 1, "expected ',' or ']'");
    refuses(ONE(",\"x\":nul"), 1, "expected a value");
    refuses(ONE(",\"x\":\"\\ud83d\""), 1, "half a surrogate pair");
}

TEST(follows_nesting_as_deep_as_the_reference)
{
    for (int depth = 124; depth <= 127; depth++) {
        char header[512], lists[256] = "";
        memset(lists, '[', (size_t)depth);
        memset(lists + depth, ']', (size_t)depth);
        snprintf(header, sizeof header, ONE(",\"x\":%s"), lists);
        if (depth <= 125)
            accepts_and_closes(header, 1);
        else
            refuses(header, 1, "nested too deeply");
    }
}

TEST(checks_numbers_that_it_skips)
{
    static const char *const good[] = {"0", "-0", "10", "1.5", "1e5", "1E+5", "1e-999", "0e999"};
    static const char *const bad[] = {"01", "-",   "1.",    ".5",     "1e",  "1e+",
                                      "+1", "0x1", "1e400", "-1e400", "NaN", "1-"};
    char header[128];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        snprintf(header, sizeof header, ONE(",\"x\":%s"), good[i]);
        accepts_and_closes(header, 1);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(header, sizeof header, ONE(",\"x\":%s"), bad[i]);
        refuses(header, 1, "(byte ");
    }
}

TEST(accepts_metadata_of_strings_only)
{
    accepts_and_closes("{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\\u0000\"}}", 0);
    accepts_and_closes("{\"__metadata__\":{}}", 0);
    accepts_and_closes("{\"__metadata__\":null}", 0);
    refuses("{\"__metadata__\":[]}", 0, "expected '{'");
    refuses("{\"__metadata__\":{\"a\":1}}", 0, "expected a string");
    refuses("{\"__metadata__\":{\"a\":null}}", 0, "expected a string");
    refuses("{\"__metadata__\":null,\"\\u005f_metadata__\":null}", 0, "__metadata__ appears twice");
}

/* ---- refused files ---- */

TEST(refuses_damaged_json)
{
    refuses("", 0, "expected '{' (byte 8)");
    refuses("[]", 0, "expected '{' (byte 8)");
    refuses("{", 0, "expected a string (byte 9)");
    refuses("{}{}", 0, "text after the end of the value (byte 10)");
    refuses("{,}", 0, "expected a string (byte 9)");
    refuses("{\"a\":null}", 0, "expected '{' (byte 13)");
    refuses("{\"a\":[\"U8\",[1],[0,1]]}", 1, "expected '{' (byte 13)");
    refuses("{\"a", 0, "a string without an end (byte 11)");
    refuses("{\"a\n\":1}", 0, "a control character in a string (byte 11)");
    refuses("{\"\\q\":1}", 0, "unknown escape");
    refuses("{\"\\u12g4\":1}", 0, "expected four hexadecimal digits");
    refuses("{\"\\udc00\":1}", 0, "half a surrogate pair");
    refuses("{\"\\udc00\\udc00\":1}", 0, "half a surrogate pair");
    refuses("{\"\\ud800\\u0041\":1}", 0, "half a surrogate pair");
    complains(smol_safetensors_open(write_file("{}\0", 3, 0), &reader, &error), SMOL_ERROR_DAMAGED,
              "text after the end of the value");
}

TEST(refuses_text_that_is_not_utf8)
{
    refuses("{\"\xff\":1}", 0, "not UTF-8 (byte 10)");
    refuses("{\"\xed\xa0\x80\":1}", 0, "not UTF-8 (byte 10)");
    refuses("{\"\xf0\x90\x80\":1}", 0, "not UTF-8 (byte 10)");
    refuses("{\"\xc0\x80\":1}", 0, "not UTF-8 (byte 10)");
}

TEST(refuses_integers_that_are_none)
{
    static const char *const bad[] = {"1.0", "1e0", "-1", "-0", "01", "\"1\"", "null", "[1]", ""};
    char header[128];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(header, sizeof header, "{" TENSOR("a", "U8", "[1,%s]", "[0,1]") "}", bad[i]);
        refuses(header, 1, "(byte ");
        snprintf(header, sizeof header, "{" TENSOR("a", "U8", "[1]", "[0,%s]") "}", bad[i]);
        refuses(header, 1, "(byte ");
    }
    refuses("{" TENSOR("a", "U8", "[18446744073709551616]", "[0,1]") "}", 1,
            "expected an integer from 0 to 2^64 - 1");
    refuses("{" TENSOR("a", "U8", "[1]", "[0]") "}", 1, "expected ','");
    refuses("{" TENSOR("a", "U8", "[1]", "[0,1,1]") "}", 1, "expected ']'");
}

TEST(refuses_missing_and_repeated_fields)
{
    refuses("{\"a\":{}}", 0, "tensor \"a\" lacks dtype, shape or data_offsets");
    refuses("{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "lacks");
    refuses("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "lacks");
    refuses("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "lacks");
    refuses(ONE(",\"shape\":[1]"), 1, "tensor \"a\" has the same field twice");
}

TEST(refuses_unknown_dtypes)
{
    refuses("{" TENSOR("a", "U9", "[1]", "[0,1]") "}", 1, "tensor \"a\" has a dtype that");
    refuses("{" TENSOR("a", "u8", "[1]", "[0,1]") "}", 1, "tensor \"a\" has a dtype that");
    refuses("{" TENSOR("a", "U8\\u0000", "[1]", "[0,1]") "}", 1, "tensor \"a\" has a dtype that");
    refuses("{\"a\":{\"dtype\":{\"U8\":null},\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
            "expected a string");
}

TEST(refuses_tensors_that_are_there_twice)
{
    refuses("{" TENSOR("a", "U8", "[1]", "[0,1]") "," TENSOR("b", "U8", "[1]", "[1,2]") "," TENSOR(
                "\\u0061", "U8", "[1]", "[2,3]") "}",
            3, "tensor \"a\" appears twice");
}

TEST(refuses_names_with_nul)
{
    refuses("{" TENSOR("a\\u0000b", "U8", "[1]", "[0,1]") "}", 1, "contains a NUL");
}

TEST(refuses_more_dimensions_than_it_has_room_for)
{
    accepts_and_closes("{" TENSOR("a", "U8", "[1,1,1,1,1,1,1,1]", "[0,1]") "}", 1);
    complains(open_header("{" TENSOR("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1),
              SMOL_ERROR_UNSUPPORTED, "tensor \"a\" has more than 8 dimensions");
}

TEST(refuses_overlapping_tensors)
{
    refuses("{" TENSOR("a", "U8", "[2]", "[0,2]") "," TENSOR("b", "U8", "[2]", "[1,3]") "}", 3,
            "tensor \"b\" overlaps the one before it (data offsets 1 to 3)");
    refuses("{" TENSOR("a", "U8", "[2]", "[0,2]") "," TENSOR("b", "U8", "[2]", "[0,2]") "}", 2,
            "overlaps");
}

TEST(refuses_holes)
{
    refuses("{" TENSOR("a", "U8", "[1]", "[1,2]") "}", 2, "leaves a gap before it");
    refuses("{" TENSOR("a", "U8", "[1]", "[0,1]") "," TENSOR("b", "U8", "[0]", "[2,2]") "}", 2,
            "tensor \"b\" leaves a gap");
}

TEST(refuses_offsets_that_run_backwards)
{
    refuses("{" TENSOR("a", "U8", "[1]", "[1,0]") "}", 1, "ends before it begins");
}

TEST(refuses_sizes_that_contradict_the_shape)
{
    refuses("{" TENSOR("a", "F32", "[2,3]", "[0,23]") "}", 23,
            "a size that does not match its shape");
    refuses("{" TENSOR("a", "U8", "[0]", "[0,1]") "}", 1, "a size that does not match its shape");
}

TEST(refuses_sub_byte_tensors_that_end_within_a_byte)
{
    refuses("{" TENSOR("a", "F4", "[3]", "[0,2]") "}", 2, "does not fill whole bytes");
    refuses("{" TENSOR("a", "F6_E2M3", "[2]", "[0,2]") "}", 2, "does not fill whole bytes");
    accepts_and_closes("{" TENSOR("a", "F6_E2M3", "[4]", "[0,3]") "}", 3);
}

TEST(refuses_shapes_that_overflow)
{
    refuses("{" TENSOR("a", "U8", "[18446744073709551615,2]", "[0,18446744073709551614]") "}", 0,
            "does not fill whole bytes, or exceeds 2^61 bytes");
    refuses("{" TENSOR("a", "F32", "[4611686018427387904]", "[0,0]") "}", 0, "exceeds 2^61 bytes");
    refuses("{" TENSOR("a", "U8", "[18446744073709551615,2,0]", "[0,0]") "}", 0,
            "exceeds 2^61 bytes");
    accepts_and_closes("{" TENSOR("a", "U8", "[0,18446744073709551615]", "[0,0]") "}", 0);
}

TEST(counts_the_missing_bytes_of_truncated_files)
{
    const char *header = "{" TENSOR("a", "U8", "[100]", "[0,100]") "}";
    refuses(header, 40, "truncated: 60 of ");
    uint64_t length = 1000;
    refuses_bytes(&length, 8, SMOL_ERROR_DAMAGED, "truncated: 1000 of 1008 bytes are missing");
    refuses("{" TENSOR("a", "U8", "[2305843009213693951]", "[0,2305843009213693951]") "}", 1,
            "truncated: ");
}

TEST(refuses_bytes_after_the_last_tensor)
{
    refuses(ONE(""), 3, "2 bytes after the last tensor");
}

TEST(refuses_headers_over_the_limit)
{
    uint64_t length[2] = {SAFETENSORS_MAX_HEADER + 1, 0xffffffffffffffffu};
    refuses_bytes(length, 16, SMOL_ERROR_DAMAGED, "length is over 100000000 (byte 0)");
    length[0] = UINT64_MAX;
    refuses_bytes(length, 16, SMOL_ERROR_DAMAGED, "length is over 100000000 (byte 0)");
}

TEST(refuses_every_truncation)
{
    const char *header =
        "{" TENSOR("a", "U8", "[2]", "[0,2]") "," TENSOR("b\\n", "F16", "[1,1]", "[2,4]") "}";
    size_t size = 8 + strlen(header) + 4;
    uint8_t bytes[512];
    FILE *file = fopen(write_file(header, strlen(header), 4), "rb");
    assert_int_equal(fread(bytes, 1, sizeof bytes, file), size);
    fclose(file);
    for (size_t cut = 2; cut < size; cut++) /* one byte could be a text */
        refuses_bytes(bytes, cut, SMOL_ERROR_DAMAGED, "download it again");
    /* a truncated header, for any length that it states */
    for (size_t cut = 0; cut < strlen(header); cut++)
        complains(smol_safetensors_open(write_file(header, cut, 4), &reader, &error),
                  SMOL_ERROR_DAMAGED, "the header is damaged");
}

TEST(cuts_long_names_in_messages_between_characters)
{
    char header[1024] = "{\"x";
    for (int i = 0; i < 100; i++)
        strcat(header, "\xc3\xa9");
    strcat(header, "\":{}}");
    refuses(header, 0, "\xc3\xa9...\" lacks");
}

/* ---- files of other formats ---- */

TEST(names_files_of_other_kinds)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *part;
    } kinds[] = {
        {"version https://git-lfs.example/spec/v1\noid sha256:00\n", 53, "Git LFS pointer"},
        {"<!DOCTYPE html><html></html>", 28, "a web page"},
        {"\n  <?xml version=\"1.0\"?>", 24, "a web page"},
        {"PK\x03\x04\0\0\x08\x08\0\0", 10, "a zip archive, such as a PyTorch"},
        {"\x80\x02\x8a\nl\xfc\x9c"
         "F\xf9 j",
         11, "a Python pickle"},
        {"GGUF\3\0\0\0\1\0\0\0", 12, "a GGUF file"},
        {"\x89SML\r\n\x1a\n\1\0", 10, "a .smol blob"},
        {"\x89SMS\r\n\x1a\n\1\0", 10, "a session"},
        {"\x89SMC\r\n\x1a\n\1\0", 10, "calibration statistics"},
        {"\x8bLOGIT\r\n\1\0\0", 11, "saved logits"},
        {"\x28\xb5\x2f\xfd\x04\x58\x01\x02\x03", 9, "zstd"},
        {"{\"weight_map\": {}}", 18, "a JSON file"},
        {"{}", 2, "a JSON file"},
        {"Entry not found", 15, "a text file that begins \"Entry not found\""},
        {"\n# smol\n\nA small", 16,
         "a text file that begins \"# smol\": name a model's file or folder"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        refuses_bytes(kinds[i].bytes, kinds[i].size, SMOL_ERROR_UNSUPPORTED, kinds[i].part);
    refuses_bytes("", 0, SMOL_ERROR_DAMAGED, "empty");
    refuses_bytes("\1\0\0", 3, SMOL_ERROR_DAMAGED, "too short");
}

TEST(does_not_take_a_header_length_for_a_pickle)
{
    char header[0x280];
    memset(header, ' ', sizeof header);
    memcpy(header, "{}", 2); /* 0x280 bytes: the file begins 80 02, like a pickle */
    assert_int_equal(smol_safetensors_open(write_file(header, sizeof header, 0), &reader, &error),
                     SMOL_OK);
    smol_safetensors_close(&reader);
}

TEST(says_when_there_is_no_file)
{
    assert_int_equal(smol_safetensors_open("/nonexistent/x", &reader, &error), SMOL_ERROR_FILE);
    assert_int_equal(smol_safetensors_open(temporary.folder, &reader, &error), SMOL_ERROR_FILE);
}

/* ---- cost of hostile headers ---- */

enum { HOSTILE_SIZE = SAFETENSORS_MAX_HEADER / (SANITIZED ? 8 : 1) };

/* Opens the file in a child process; returns its peak memory in addition to the file, in bytes. */
static size_t cost_of_opening(const char *path, smol_status expected)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct rusage before, after;
        getrusage(RUSAGE_SELF, &before);
        smol_status status = smol_safetensors_open(path, &reader, &error);
        getrusage(RUSAGE_SELF, &after);
        long grown = (after.ru_maxrss - before.ru_maxrss) / 1024; /* MiB, the mapping included */
        if (SANITIZED)
            grown = 0; /* a sanitizer's own memory cannot be distinguished */
        _exit(status == expected && grown < 8 * 100 ? 100 + (int)(grown / 8) : 255);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_in_range(WEXITSTATUS(result), 100, 199);
    return (size_t)(WEXITSTATUS(result) - 100) * 8 << 20;
}

static void costs_little(const char *header, size_t size, smol_status expected)
{
    struct timespec start, end;
    write_file(header, size, 0);
    clock_gettime(CLOCK_MONOTONIC, &start);
    size_t cost = cost_of_opening(temporary.path, expected);
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_in_range(cost, 0, (size_t)5 * HOSTILE_SIZE); /* a fifth of it is the mapped file */
    assert_in_range(end.tv_sec - start.tv_sec, 0, 300); /* a generous bound for any machine */
    remove(temporary.path);
}

TEST(survives_deep_nesting)
{
    static const char start[] = "{\"a\":{\"x\":";
    char *header = malloc(HOSTILE_SIZE);
    assert_non_null(header);
    memset(header, '[', HOSTILE_SIZE);
    memcpy(header, start, sizeof start - 1);
    costs_little(header, HOSTILE_SIZE, SMOL_ERROR_DAMAGED);
    free(header);
}

TEST(survives_one_huge_string)
{
    static const char end[] = "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}";
    char *header = malloc(HOSTILE_SIZE);
    assert_non_null(header);
    memset(header, 'x', HOSTILE_SIZE);
    memcpy(header, "{\"", 2);
    memcpy(header + HOSTILE_SIZE - (sizeof end - 1), end, sizeof end - 1);
    costs_little(header, HOSTILE_SIZE, SMOL_OK);
    memset(header + 2, '9', HOSTILE_SIZE - 2); /* the same as a number */
    memcpy(header, "{\"a\":{\"x\":", 10);
    costs_little(header, HOSTILE_SIZE, SMOL_ERROR_DAMAGED);
    free(header);
}

TEST(survives_millions_of_tiny_tensors)
{
    char *header = malloc(HOSTILE_SIZE);
    size_t size = 1;
    assert_non_null(header);
    header[0] = '{';
    for (unsigned i = 0; size < HOSTILE_SIZE - 100; i++)
        size += (size_t)sprintf(header + size, TENSOR("%x", "U8", "[0]", "[0,0]") ",", i);
    header[size - 1] = '}';
    costs_little(header, size, SMOL_OK);
    free(header);
}

TEST(survives_millions_of_tensors_of_one_name)
{
    char *header = malloc(HOSTILE_SIZE);
    size_t size = 1;
    assert_non_null(header);
    header[0] = '{';
    while (size < HOSTILE_SIZE - 100)
        size += (size_t)sprintf(header + size, TENSOR("", "U8", "[0]", "[0,0]") ",");
    header[size - 1] = '}';
    costs_little(header, size, SMOL_ERROR_DAMAGED);
    free(header);
}

int main(void)
{
    return run_all_tests("safetensors", temporary_set_up, temporary_tear_down);
}
