/* Tests of the comparison of models: elements of every type as numbers, text output, and every kind
 * of difference between two blobs. */
#include <float.h>
#include <math.h>

#include "cli/quote.h"
#include "common/number.h"
#include "convert/inspect/diff.h"
#include "convert/inspect/inspect.h"
#include "tests/unit/demo_copy.h"
#include "tests/unit/guarded.h"
#include "tests/unit/unit.h"

/* --- elements -------------------------------------------------------------------------------- */

enum { N_ELEMENTS = 2500 }; /* more than two pieces */

/* Stores number i as `dtype`; returns the stored value. */
static double store(enum safetensors_dtype dtype, uint8_t *data, size_t i, double number)
{
#define STORE(type, value, widened)                                                                \
    do {                                                                                           \
        type x = (type)(value);                                                                    \
        memcpy(data + i * sizeof x, &x, sizeof x);                                                 \
        return (double)(widened);                                                                  \
    } while (0)
    switch (dtype) {
    case ST_BOOL:
    case ST_U8:
        STORE(uint8_t, fabs(number), x);
    case ST_I8:
        STORE(int8_t, number, x);
    case ST_U16:
        STORE(uint16_t, fabs(number) * 200, x);
    case ST_I16:
        STORE(int16_t, number * 200, x);
    case ST_U32:
        STORE(uint32_t, fabs(number) * 20000000, x);
    case ST_I32:
        STORE(int32_t, number * 10000000, x);
    case ST_F8_E4M3:
        STORE(uint8_t, (unsigned)fabs(number) % 0x78, f32_from_f8_e4m3(x));
    case ST_F8_E5M2:
        STORE(uint8_t, (unsigned)fabs(number) % 0x78, f32_from_f8_e5m2(x));
    case ST_F16:
        STORE(uint16_t, f16_from_f32((float)number), f32_from_f16(x));
    case ST_BF16:
        STORE(uint16_t, bf16_from_f32((float)number), f32_from_bf16(x));
    case ST_F32:
        STORE(float, number, x);
    default:
        STORE(double, number, x);
    }
#undef STORE
}

static const struct {
    enum safetensors_dtype dtype;
    size_t size;
} numbers[] = {{ST_BOOL, 1}, {ST_U8, 1},  {ST_I8, 1},      {ST_U16, 2},     {ST_I16, 2},
               {ST_U32, 4},  {ST_I32, 4}, {ST_F8_E4M3, 1}, {ST_F8_E5M2, 1}, {ST_F16, 2},
               {ST_BF16, 2}, {ST_F32, 4}, {ST_F64, 8}};
enum { N_NUMBERS = sizeof numbers / sizeof numbers[0] };

/* A vector of N_ELEMENTS numbers at an odd address before a guard page. */
struct vector {
    struct guarded memory;
    double values[N_ELEMENTS];
    struct safetensors_tensor raw;
    struct model_tensor tensor;
};

static void make(struct vector *v, int type, double scale)
{
    size_t size = N_ELEMENTS * numbers[type].size;
    v->memory = guarded_new(size, 1);
    uint8_t *data = v->memory.data;
    for (size_t i = 0; i < N_ELEMENTS; i++)
        v->values[i] = store(numbers[type].dtype, data, i, scale * sin((double)i * 7));
    v->raw = (struct safetensors_tensor){
        .dtype = numbers[type].dtype,
        .rank = 1,
        .shape = {N_ELEMENTS},
        .data = data,
        .size = size,
    };
    v->tensor = (struct model_tensor){
        .raw = &v->raw, .data = data, .rank = 1, .shape = {N_ELEMENTS}, .n_elements = N_ELEMENTS};
}

static void check_pair(const struct vector *a, const struct vector *b)
{
    struct diff_values due = {.n = N_ELEMENTS};
    double sum = 0;
    for (size_t i = 0; i < N_ELEMENTS; i++) {
        double difference = fabs(a->values[i] - b->values[i]);
        due.n_different += difference != 0;
        sum += difference;
        if (difference > due.largest) {
            due.largest = difference;
            due.largest_at = i;
        }
    }
    struct diff_values found = smol_diff_values(&a->tensor, &b->tensor);
    assert_true(smol_tensor_is_number(&a->tensor));
    assert_int_equal(found.n, N_ELEMENTS);
    assert_int_equal(found.n_different, due.n_different);
    assert_int_equal(found.n_not_finite, 0);
    assert_true(found.largest == due.largest);
    assert_int_equal(found.largest_at, due.largest_at);
    assert_true(fabs(found.mean - sum / N_ELEMENTS) <= 1e-12 * sum);
}

TEST(elements_of_every_pair_of_types_are_compared_as_numbers)
{
    static struct vector a, b;
    for (int i = 0; i < N_NUMBERS * N_NUMBERS; i++) {
        make(&a, i % N_NUMBERS, 100);
        make(&b, i / N_NUMBERS, i % 3 ? 100 : 90);
        check_pair(&a, &b);
        guarded_free(&a.memory);
        guarded_free(&b.memory);
    }
}

TEST(wide_integers_and_small_floats_are_no_numbers_here)
{
    for (int dtype = ST_BOOL; dtype <= ST_U64; dtype++) {
        const struct safetensors_tensor raw = {.dtype = (enum safetensors_dtype)dtype};
        const struct model_tensor tensor = {.raw = &raw};
        bool listed = false;
        for (int i = 0; i < N_NUMBERS; i++)
            listed = listed || numbers[i].dtype == raw.dtype;
        assert_int_equal(smol_tensor_is_number(&tensor), listed);
    }
}

static struct diff_values compare_doubles(const double *a, const double *b, uint64_t n)
{
    const struct safetensors_tensor raw = {.dtype = ST_F64, .size = n * sizeof *a};
    const struct model_tensor left = {.raw = &raw, .data = (const uint8_t *)a, .n_elements = n};
    const struct model_tensor right = {.raw = &raw, .data = (const uint8_t *)b, .n_elements = n};
    return smol_diff_values(&left, &right);
}

TEST(what_is_not_finite_is_counted_apart)
{
    const double a[] = {NAN, 0.0, INFINITY, INFINITY, 1, NAN, 5, -INFINITY};
    const double b[] = {-NAN, -0.0, INFINITY, -INFINITY, NAN, 2, 7, 1};
    struct diff_values found = compare_doubles(a, b, 8);
    assert_int_equal(found.n_different, 5);
    assert_int_equal(found.n_not_finite, 4);
    assert_int_equal(found.first_not_finite, 3);
    assert_true(found.largest == 2 && found.largest_at == 6 && found.mean == 0.5);
    found = compare_doubles(a, b, 0);
    assert_true(found.n_different == 0 && found.mean == 0);
    found = compare_doubles(a + 3, b + 3, 1);
    assert_true(found.n_different == 1 && found.n_not_finite == 1 && found.mean == 0);
    const double huge[] = {DBL_MAX, -DBL_MAX};
    assert_true(isinf(compare_doubles(huge, huge + 1, 1).largest));
}

/* --- text ------------------------------------------------------------------------------------ */

TEST(quoted_text_steers_nothing_and_loses_nothing)
{
    static const struct {
        const char *text;
        size_t size;
        const char *quoted;
    } cases[] = {
        {"", 0, "\"\""},
        {"a b", 3, "\"a b\""},
        {"\n\t\r\"\\", 5, "\"\\n\\t\\u{d}\\\"\\\\\""},
        {"\0x", 2, "\"\\u{0}x\""},
        {"caf\xc3\xa9 \xf0\x9f\x98\x80", 10, "\"caf\xc3\xa9 \xf0\x9f\x98\x80\""},
        {"\xc3", 1, "\"\\xc3\""},
        {"\xf0\x9f\x98z\xff", 5, "\"\\xf0\\x9f\\x98z\\xff\""},
        {"\xed\xa0\x80", 3, "\"\\xed\\xa0\\x80\""},
        {"\x7f\xc2\x9b", 3, "\"\\u{7f}\\u{9b}\""},
        {"\xe2\x80\xae", 3, "\"\\u{202e}\""},
        {"\xef\xbf\xbd", 3, "\"\xef\xbf\xbd\""},
    };
    char out[100];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        smol_quote_text(cases[i].text, cases[i].size, out, sizeof out);
        assert_string_equal(out, cases[i].quoted);
    }
}

TEST(long_text_is_cut_with_its_size)
{
    char text[300];
    for (size_t size = 0; size <= sizeof text; size++) {
        struct guarded out = guarded_new(100, 1);
        memset(text, size % 2 ? 'x' : '\n', sizeof text);
        smol_quote_text(text, size, out.data, 100);
        char remark[64];
        snprintf(remark, sizeof remark, "\"... (%zu bytes)", size);
        bool is_cut = strstr(out.data, remark) != NULL;
        assert_int_equal(is_cut, size > (size % 2 ? 43 : 22));
        guarded_free(&out);
    }
}

TEST(widths_count_characters)
{
    assert_int_equal(smol_text_width(""), 0);
    assert_int_equal(smol_text_width("caf\xc3\xa9 \xf0\x9f\x98\x80"), 6);
}

/* --- whole blobs ----------------------------------------------------------------------------- */

static char text[1 << 16]; /* output of the comparison, with single spaces */

static void squeeze(char *line)
{
    char *end = line;
    for (; *line; line++)
        if (*line != ' ' || line[1] != ' ')
            *end++ = *line;
    *end = '\0';
}

/* Writes a blob; `path` has room for its name. */
static void write_blob(const char *name, const uint8_t *bytes, char path[512])
{
    memcpy(path, temporary_write(&folder, name, bytes, original.size), 512);
}

/* Compares `left` with the copy after a repair of its digests. */
static smol_status compare_with(const uint8_t *left)
{
    char a[512], b[512];
    write_blob("a", left, a);
    repair_digests();
    write_blob("b", copy, b);
    memset(text, 0, sizeof text);
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    error.message[0] = '\0';
    smol_status status = smol_diff(a, b, out, &error);
    assert_int_equal(fclose(out), 0);
    squeeze(text);
    return status;
}

static smol_status compare(void)
{
    return compare_with(original.data);
}

/* Expects one difference: the start of its line, and the count in the last line. */
static void differs(const char *line, const char *counted)
{
    assert_int_equal(compare(), SMOL_ERROR_MISMATCH);
    assert_string_equal(error.message, "");
    if (!strstr(text, line) || !strstr(text, counted))
        fail_msg("%s | %s: %s", line, counted, text);
}

TEST_WITH(a_copy_is_the_same, restore, NULL)
{
    assert_int_equal(compare(), SMOL_OK);
    assert_non_null(strstr(text, "\n\nthe same\n"));
}

TEST_WITH(another_provenance_is_shown_and_does_not_count, restore, NULL)
{
    copy[sections()[4].offset + 20] = 'X';
    assert_int_equal(compare(), SMOL_OK);
    assert_non_null(strstr(text, "\n B converter: smolconv X.1.0\n"));
    assert_non_null(strstr(text, "\nthe same except for the provenance\n"));
}

TEST_WITH(every_setting_is_compared, restore, NULL)
{
    struct blob_model *model = (void *)(copy + sections()[0].offset);
    struct blob_generation *generation = (void *)(copy + sections()[3].offset);
    float *inv_freq = (void *)(copy + sections()[1].offset);
    uint32_t *stop = (void *)(copy + sections()[2].offset);
    model->context_length = 99;
    differs("\n context_length 512 99\n", "settings 1,");
    model->bos_id = NO_TOKEN;
    differs("\n bos_id 0 none\n", "settings 2,");
    model->rope_theta = 12345.678;
    model->rms_norm_eps = 2e-6f;
    differs("\n rope_theta 10000 12345.678\n", "settings 4,");
    differs("\n rms_norm_eps 1e-05 2e-06\n", "settings 4,");
    restore(NULL);
    inv_freq[3] = 0.5f;
    differs("\n inv_freq[3] ", "settings 1,");
    stop[1] = 7;
    differs("\n stop id 2 yes no\n", "settings 3,");
    differs("\n stop id 7 no yes\n", "settings 3,");
    generation->present |= GENERATION_TOP_P;
    generation->top_p = 0.9f;
    differs("\n top_p - 0.9\n", "settings 4,");
    restore(NULL);
    header()->minor = 7;
    header()->optional_features = 3;
    differs("\n format 1.1 1.7\n", "settings 2,");
    differs("\n optional features 0x0 0x3\n", "settings 2,");
}

static struct tokenizer_tables open_tokenizer(void)
{
    struct tokenizer_tables tables;
    const struct blob_section *section = &sections()[8];
    const struct blob_model *model = (const void *)(copy + sections()[0].offset);
    assert_int_equal(smol_tokenizer_tables_open(copy + section->offset, section->size,
                                                model->vocab_size, NULL, &tables, &error),
                     SMOL_OK);
    return tables;
}

static struct blob_tokenizer *tokenizer_header(void)
{
    return (void *)(copy + sections()[8].offset);
}

#define WRITABLE(type, pointer) ((type *)(uintptr_t)(pointer))

TEST_WITH(every_table_of_the_tokenizer_is_compared, restore, NULL)
{
    struct tokenizer_tables t = open_tokenizer();
    struct token_span *spans = WRITABLE(struct token_span, t.spans);
    WRITABLE(uint8_t, t.text)[spans[500].start] = '\n';
    differs("\n token 500 \"", "tokenizer ");
    assert_non_null(strstr(text, "\"\\n"));
    restore(NULL);
    spans[300].flags ^= TOKEN_SPECIAL;
    differs("\" special\n", "tokenizer 1,");
    restore(NULL);
    spans[700] = (struct token_span){0, 0, TOKEN_UNUSED};
    differs("unused\n", "tokenizer 1,");
    restore(NULL);
    WRITABLE(uint32_t, t.byte_tokens)[0x41] = 5;
    differs("\n token of byte 41 ", "tokenizer 1,");
    restore(NULL);
    WRITABLE(struct added_token, t.added)[0].id = 9;
    differs("\n added \"", "tokenizer 1,");
    restore(NULL);
    tokenizer_header()->pretokenizer ^= PRETOKENIZE_DIGITS;
    differs("\n splitting as GPT-2, single digits as GPT-2\n", "tokenizer 1,");
    restore(NULL);
    uint8_t *classes = WRITABLE(uint8_t, t.class_blocks) + t.class_index[0] * 256;
    classes['a'] = CLASS_NUMBER;
    differs("\n classes of U+0061 1 2\n", "tokenizer 1,");
}

TEST_WITH(merges_are_compared_as_pairs, restore, NULL)
{
    struct tokenizer_tables t = open_tokenizer();
    struct token_merge *merges = WRITABLE(struct token_merge, t.merges);
    uint32_t slot = 0, other;
    while (merges[slot].left == NO_TOKEN)
        slot++;
    for (other = slot + 1; merges[other].left == NO_TOKEN;)
        other++;
    uint32_t rank = merges[slot].rank;
    merges[slot].rank = merges[other].rank;
    merges[other].rank = rank;
    differs("\n merge ranks 2 of those in both\n", "tokenizer 1,");
    restore(NULL);
    merges[slot].merged ^= 1;
    differs("\n merge \"", "tokenizer 1,");
    assert_non_null(strstr(text, ", gives "));
}

TEST_WITH(what_is_laid_out_in_another_way_is_told, restore, NULL)
{
    tokenizer_header()->max_probe++; /* a longer search finds the same tokens */
    differs("\n tables same contents, other layout\n", "tokenizer 1,");
}

TEST_WITH(a_long_list_is_cut_and_counted, restore, NULL)
{
    struct tokenizer_tables t = open_tokenizer();
    for (uint32_t id = 1000; id < 1100; id++)
        WRITABLE(struct token_span, t.spans)[id].flags ^= TOKEN_SPECIAL;
    differs("\n ... and 90 more\n", "tokenizer 100,");
    assert_non_null(strstr(text, "\n token 1009 "));
    assert_null(strstr(text, "\n token 1010 "));
}

TEST_WITH(one_changed_weight_is_found_with_its_place_and_chunk, restore, NULL)
{
    uint64_t start = sections()[9].offset;
    copy[start + 64 + 4 * 3 + 2] ^= 3; /* group 0: row 3, input 2 */
    differs("\n embed 1 334320 ", "tensors 1 of 57, chunks 1 of 43");
    assert_non_null(strstr(text, " [3, 2] 1 of 7\n"));
    restore(NULL);
    float *last = (void *)(copy + original.size - 704);
    last[167] += 1;
    differs("\n final_norm 1 168 1 0.00595238 [167] ", "tensors 1 of 57, chunks 1 of 43");
    last[0] = -last[0];
    last[1] = -0.0f;
    differs("\n final_norm 3 168 ", "tensors 1 of 57");
}

TEST_WITH(the_same_numbers_in_other_bytes_are_a_difference, restore, NULL)
{
    uint64_t start = sections()[9].offset;
    for (int quad = 0; quad < 8; quad++) /* a scale without steps: all of group 1 is zero */
        memset(copy + start + 64 + 512 + quad * 64, 0, 4);
    repair_digests();
    uint8_t *left = malloc(original.size);
    memcpy(left, copy, original.size);
    copy[start + 32] ^= 1;
    assert_int_equal(compare_with(left), SMOL_ERROR_MISMATCH);
    free(left);
    assert_non_null(strstr(text, "\n embed 0 334320 - - "));
    assert_non_null(strstr(text, "tensors 1 of 57, chunks 1 of 43"));
}

TEST_WITH(damage_is_refused_before_anything_is_shown, restore, NULL)
{
    char path[512];
    FILE *out = fmemopen(text, sizeof text, "w");
    memset(text, 0, sizeof text);
    copy[original.size - 5] ^= 1;
    write_blob("b", copy, path);
    assert_int_equal(smol_diff("demo/model", path, out, &error), SMOL_ERROR_DAMAGED);
    assert_non_null(strstr(error.message, "b: data damaged (weights, tensor "));
    assert_int_equal(smol_diff(path, "demo/model", out, &error), SMOL_ERROR_DAMAGED);
    assert_int_equal(smol_diff("demo/none", path, out, &error), SMOL_ERROR_FILE);
    fclose(out);
    assert_string_equal(text, "");
}

int main(void)
{
    return run_all_tests("diff", make_demo_copy, remove_demo_copy);
}
