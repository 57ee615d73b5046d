/* The container of GGUF files, see gguf.h. Numbers are little-endian at any alignment. */
#include "convert/checkpoint/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "common/memory.h"
#include "common/text.h"
#include "common/utf8.h"

/* The limits that the format or its tools set. */
enum { GGUF_MAX_RANK = 4, GGUF_MAX_NAME = 127, GGUF_MAX_KEY = 65535, DEFAULT_ALIGNMENT = 32 };

/* The fewest bytes of a pair (length of the key, type, value) and of a tensor (length of the name,
 * rank, a dimension, type, offset). A count that needs more bytes than the file has is refused at
 * once. Tables grow with what is read, so that a file of zeros takes no memory. */
enum { LEAST_PAIR = 8 + 4 + 1, LEAST_TENSOR = 8 + 4 + 8 + 4 + 8 };

/* --- types -------------------------------------------------------------------------------- */

/* Bytes of an item; 0 for strings and arrays. */
static const uint8_t type_sizes[N_GGUF_TYPES] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

/* The types of tensors, by their numbers. Those without an element type are refused by name. */
enum { NOT_READ = N_ELEMENT_DTYPES };
static const struct {
    char name[8];
    uint8_t dtype; /* enum safetensors_dtype, or NOT_READ */
} tensor_types[] = {
    [0] = {"F32", ST_F32},        [1] = {"F16", ST_F16},        [2] = {"Q4_0", ST_Q4_0},
    [3] = {"Q4_1", ST_Q4_1},      [6] = {"Q5_0", ST_Q5_0},      [7] = {"Q5_1", ST_Q5_1},
    [8] = {"Q8_0", ST_Q8_0},      [9] = {"Q8_1", NOT_READ},     [10] = {"Q2_K", ST_Q2_K},
    [11] = {"Q3_K", ST_Q3_K},     [12] = {"Q4_K", ST_Q4_K},     [13] = {"Q5_K", ST_Q5_K},
    [14] = {"Q6_K", ST_Q6_K},     [15] = {"Q8_K", NOT_READ},    [16] = {"IQ2_XXS", NOT_READ},
    [17] = {"IQ2_XS", NOT_READ},  [18] = {"IQ3_XXS", NOT_READ}, [19] = {"IQ1_S", NOT_READ},
    [20] = {"IQ4_NL", ST_IQ4_NL}, [21] = {"IQ3_S", NOT_READ},   [22] = {"IQ2_S", NOT_READ},
    [23] = {"IQ4_XS", ST_IQ4_XS}, [24] = {"I8", ST_I8},         [25] = {"I16", ST_I16},
    [26] = {"I32", ST_I32},       [27] = {"I64", ST_I64},       [28] = {"F64", ST_F64},
    [29] = {"IQ1_M", NOT_READ},   [30] = {"BF16", ST_BF16},     [34] = {"TQ1_0", NOT_READ},
    [35] = {"TQ2_0", NOT_READ},   [39] = {"MXFP4", NOT_READ},   [40] = {"NVFP4", NOT_READ},
};
enum { N_TENSOR_TYPES = sizeof tensor_types / sizeof tensor_types[0] };

/* --- reading ------------------------------------------------------------------------------ */

struct input {
    const struct safetensors *reader;
    const uint8_t *at, *end;
    smol_error *error;
};

static smol_status fail_at(const struct input *in, const char *what)
{
    return smol_fail(in->error, SMOL_ERROR_DAMAGED, "%s: %s (byte %zu): download the file again",
                     in->reader->path, what, (size_t)(in->at - in->reader->file.data));
}

static smol_status fail_truncated(const struct input *in)
{
    return smol_fail(in->error, SMOL_ERROR_DAMAGED,
                     "%s: truncated: its header needs more bytes (file ends at byte %zu): download "
                     "it again",
                     in->reader->path, in->reader->file.size);
}

static uint64_t left(const struct input *in)
{
    return (uint64_t)(in->end - in->at);
}

/* Reads a little-endian number of 4 or 8 bytes, which must be there. */
static uint64_t number_at(const uint8_t *at, unsigned size)
{
    uint64_t number = 0;
    for (unsigned i = 0; i < size; i++)
        number |= (uint64_t)at[i] << (8 * i);
    return number;
}

static smol_status take_number(struct input *in, unsigned size, uint64_t *number)
{
    *number = 0;
    if (left(in) < size)
        return fail_truncated(in);
    *number = number_at(in->at, size);
    in->at += size;
    return SMOL_OK;
}

static smol_status take_text(struct input *in, struct gguf_text *text)
{
    uint64_t size = 0;
    *text = (struct gguf_text){0};
    smol_status status = take_number(in, 8, &size);
    if (status)
        return status;
    if (size > left(in))
        return fail_at(in, "a text is longer than the rest of the file");
    *text = (struct gguf_text){.data = (const char *)in->at, .size = size};
    in->at += size;
    return SMOL_OK;
}

static bool is_name(const struct gguf_text *text, uint64_t longest)
{
    return text->size > 0 && text->size <= longest && !memchr(text->data, '\0', text->size) &&
           smol_utf8_well_formed((const uint8_t *)text->data, text->size) == text->size;
}

/* --- pairs -------------------------------------------------------------------------------- */

static smol_status skip_strings(struct input *in, uint64_t n)
{
    struct gguf_text text;
    for (uint64_t i = 0; i < n; i++) {
        smol_status status = take_text(in, &text);
        if (status)
            return status;
    }
    return SMOL_OK;
}

/* Takes the items of a value, whose type and number are set. */
static smol_status take_items(struct input *in, struct gguf_value *value)
{
    uint64_t each = type_sizes[value->item];
    smol_status status = SMOL_OK;
    value->data = in->at;
    if (value->n > left(in) / (each ? each : 8)) /* a string has at least its length */
        return fail_at(in, "a list has more items than the file");
    if (value->item == GGUF_STRING)
        status = skip_strings(in, value->n);
    else
        in->at += value->n * each;
    value->end = in->at;
    for (uint64_t i = 0; value->item == GGUF_BOOL && i < value->n; i++)
        if (value->data[i] > 1)
            return fail_at(in, "a flag is neither 0 nor 1");
    return status;
}

static smol_status take_type(struct input *in, enum gguf_type *type)
{
    uint64_t number;
    smol_status status = take_number(in, 4, &number);
    if (!status && number >= N_GGUF_TYPES)
        return fail_at(in, "a value has an unknown type");
    *type = (enum gguf_type)number;
    return status;
}

static smol_status take_pair(struct input *in, struct gguf_value *value)
{
    smol_status status = take_text(in, &value->key);
    if (!status && !is_name(&value->key, GGUF_MAX_KEY))
        return fail_at(in, "a key is empty, too long or not UTF-8");
    if (!status)
        status = take_type(in, &value->type);
    if (status)
        return status;
    value->item = value->type;
    value->n = 1;
    if (value->type == GGUF_ARRAY) {
        status = take_type(in, &value->item);
        if (!status && value->item == GGUF_ARRAY)
            return smol_fail(in->error, SMOL_ERROR_UNSUPPORTED,
                             "%s: %.*s is a list of lists, which no key of a model needs: download "
                             "another file",
                             in->reader->path, gguf_shown(value->key), value->key.data);
        if (!status)
            status = take_number(in, 8, &value->n);
    }
    return status ? status : take_items(in, value);
}

static int compare_keys(const void *a, const void *b)
{
    const struct gguf_text *left = &((const struct gguf_value *)a)->key;
    const struct gguf_text *right = &((const struct gguf_value *)b)->key;
    return compare_texts(left->data, left->size, right->data, right->size);
}

static smol_status take_pairs(struct input *in, uint64_t n, struct gguf *gguf)
{
    size_t room = 0;
    if (n > left(in) / LEAST_PAIR)
        return fail_at(in, "the file has fewer bytes than its number of keys needs");
    for (; gguf->n_values < n; gguf->n_values++) {
        if (!GROW(gguf->values, gguf->n_values, &room))
            return smol_fail_memory(in->error, "the keys of a GGUF file");
        smol_status status = take_pair(in, &gguf->values[gguf->n_values]);
        if (status)
            return status;
    }
    if (n > 0) /* qsort requires a valid pointer, even for no elements */
        qsort(gguf->values, gguf->n_values, sizeof *gguf->values, compare_keys);
    for (size_t i = 1; i < gguf->n_values; i++)
        if (compare_keys(&gguf->values[i - 1], &gguf->values[i]) == 0)
            return smol_fail(in->error, SMOL_ERROR_DAMAGED,
                             "%s: key %.*s appears twice: use another file", in->reader->path,
                             gguf_shown(gguf->values[i].key), gguf->values[i].key.data);
    return SMOL_OK;
}

/* --- tensors ------------------------------------------------------------------------------ */

static smol_status fail_tensor(const struct input *in, const struct safetensors_tensor *tensor,
                               const char *what)
{
    return smol_fail(in->error, SMOL_ERROR_DAMAGED, "%s: tensor %.128s %s: download the file again",
                     in->reader->path, tensor->name, what);
}

static smol_status find_dtype(const struct input *in, uint64_t type,
                              struct safetensors_tensor *tensor)
{
    bool known = type < N_TENSOR_TYPES && tensor_types[type].name[0];
    if (known && tensor_types[type].dtype != NOT_READ) {
        tensor->dtype = (enum safetensors_dtype)tensor_types[type].dtype;
        return SMOL_OK;
    }
    return smol_fail(in->error, SMOL_ERROR_UNSUPPORTED,
                     "%s: tensor %.128s has type %" PRIu64 " (%s), which smolconv does not read: "
                     "use a file with other types, such as Q8_0 or Q4_K",
                     in->reader->path, tensor->name, type,
                     known ? tensor_types[type].name : "unknown");
}

/* Reads the shape, which the file stores with the columns first. Sets tensor->size. */
static smol_status take_shape(struct input *in, uint64_t rank, struct safetensors_tensor *tensor)
{
    uint64_t type, elements = 1;
    if (rank < 1 || rank > GGUF_MAX_RANK)
        return fail_tensor(in, tensor, "has no dimensions, or more than 4");
    tensor->rank = (unsigned)rank;
    for (unsigned i = tensor->rank; i-- > 0;) {
        smol_status status = take_number(in, 8, &tensor->shape[i]);
        if (status)
            return status;
        if (tensor->shape[i] == 0 || !checked_mul(elements, tensor->shape[i], &elements))
            return fail_tensor(in, tensor, "has a dimension of 0, or over 2^64 elements");
    }
    smol_status status = take_number(in, 4, &type);
    if (!status)
        status = find_dtype(in, type, tensor);
    if (status)
        return status;
    const struct element_block block = smol_element_block(tensor->dtype);
    if (tensor->shape[rank - 1] % block.elements != 0)
        return fail_tensor(in, tensor, "has rows that do not fill whole blocks");
    if (!checked_mul(elements / block.elements, block.bytes, &tensor->size))
        return fail_tensor(in, tensor, "has over 2^64 bytes");
    return SMOL_OK;
}

/* Reads an entry of the table. `name` is where its name goes. */
static smol_status take_tensor(struct input *in, struct safetensors_tensor *tensor, char *name)
{
    struct gguf_text text;
    uint64_t rank;
    smol_status status = take_text(in, &text);
    if (!status && !is_name(&text, GGUF_MAX_NAME))
        return fail_at(in, "a tensor's name is empty, over 127 bytes long or not UTF-8");
    if (status)
        return status;
    memcpy(name, text.data, text.size);
    name[text.size] = '\0';
    tensor->name = name;
    tensor->path = in->reader->path;
    status = take_number(in, 4, &rank);
    if (!status)
        status = take_shape(in, rank, tensor);
    return status ? status : take_number(in, 8, &tensor->begin);
}

static smol_status take_tensors(struct input *in, uint64_t n, struct safetensors *reader)
{
    enum { NAME = GGUF_MAX_NAME + 1 };
    size_t room = 0, room_of_names = 0;
    if (n > left(in) / LEAST_TENSOR)
        return fail_at(in, "the file has fewer bytes than its number of tensors needs");
    for (; reader->n_tensors < n; reader->n_tensors++) {
        size_t i = reader->n_tensors;
        if (!GROW(reader->tensors, i, &room) || !smol_grow(&reader->names, i, &room_of_names, NAME))
            return smol_fail_memory(in->error, "the tensors of a GGUF file");
        reader->tensors[i] = (struct safetensors_tensor){0};
        smol_status status = take_tensor(in, &reader->tensors[i], reader->names + i * NAME);
        if (status)
            return status;
    }
    for (size_t i = 0; i < n; i++) /* the names may have moved */
        reader->tensors[i].name = reader->names + i * NAME;
    return SMOL_OK;
}

/* --- places ------------------------------------------------------------------------------- */

static smol_status find_alignment(const struct input *in, const struct gguf *gguf,
                                  uint64_t *alignment)
{
    const struct gguf_value *value = smol_gguf_find(gguf, "general.alignment");
    *alignment = DEFAULT_ALIGNMENT;
    if (!value)
        return SMOL_OK;
    if (value->type != GGUF_U32 || !smol_gguf_integer(value, alignment) || *alignment == 0 ||
        (*alignment & (*alignment - 1)) != 0)
        return smol_fail(in->error, SMOL_ERROR_DAMAGED,
                         "%s: general.alignment must be a power of two: download the file again",
                         in->reader->path);
    return SMOL_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct safetensors_tensor *left = a, *right = b;
    return (left->begin > right->begin) - (left->begin < right->begin);
}

/* Returns the next multiple of `alignment`, a power of two, or false if it exceeds 64 bits. */
static bool align(uint64_t value, uint64_t alignment, uint64_t *aligned)
{
    bool fits = checked_add(value, alignment - 1, aligned);
    *aligned &= ~(alignment - 1);
    return fits;
}

/* Checks that each tensor starts at the first multiple of the alignment after the one before it,
 * and that the data end with the file. Sets their data. */
static smol_status place_tensors(const struct input *in, uint64_t alignment,
                                 struct safetensors *reader)
{
    const uint8_t *data = reader->file.data;
    uint64_t start, filled = 0, size = reader->file.size;
    if (!align((uint64_t)(in->at - data), alignment, &start) || (reader->n_tensors && start > size))
        return fail_truncated(in);
    if (reader->n_tensors > 0)
        qsort(reader->tensors, reader->n_tensors, sizeof *reader->tensors, compare_places);
    for (size_t i = 0; i < reader->n_tensors; i++) {
        struct safetensors_tensor *tensor = &reader->tensors[i];
        uint64_t expected;
        if (!align(filled, alignment, &expected) || tensor->begin < expected)
            return fail_tensor(in, tensor, "overlaps the one before it, or is not aligned");
        if (tensor->begin > expected)
            return fail_tensor(in, tensor, "leaves a gap before it");
        if (!range_within(tensor->begin, tensor->size, size - start))
            return smol_fail(in->error, SMOL_ERROR_DAMAGED,
                             "%s: truncated: tensor %.128s ends after the file (%zu bytes): "
                             "download it again",
                             reader->path, tensor->name, reader->file.size);
        filled = tensor->begin + tensor->size;
        tensor->data = data + start + tensor->begin;
    }
    if (reader->n_tensors && size - start - filled >= alignment)
        return smol_fail(in->error, SMOL_ERROR_DAMAGED,
                         "%s: %" PRIu64 " bytes after the last tensor: download the file again",
                         reader->path, size - start - filled);
    return SMOL_OK;
}

/* --- the file ----------------------------------------------------------------------------- */

bool smol_gguf_is(const uint8_t *data, size_t size)
{
    return size >= 4 && memcmp(data, "GGUF", 4) == 0;
}

static smol_status take_version(struct input *in, struct gguf *gguf)
{
    uint64_t version;
    in->at += 4;
    smol_status status = take_number(in, 4, &version);
    if (status)
        return status;
    if (version > 0 && (version & 0xffff) == 0)
        return smol_fail(in->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: a big-endian GGUF file: use a little-endian one", in->reader->path);
    if (version != 2 && version != 3)
        return smol_fail(in->error, SMOL_ERROR_UNSUPPORTED,
                         "%s: GGUF version %" PRIu64
                         ": smolconv reads versions 2 and 3; download a "
                         "newer file",
                         in->reader->path, version);
    gguf->version = (uint32_t)version;
    return SMOL_OK;
}

smol_status smol_gguf_read(struct safetensors *reader, struct gguf *gguf, smol_error *error)
{
    const struct file_view *file = &reader->file;
    struct input in = {reader, file->data, file->data + file->size, error};
    uint64_t n_tensors, n_pairs, alignment;
    smol_status status;
    *gguf = (struct gguf){.path = reader->path};
    if ((status = take_version(&in, gguf)) || (status = take_number(&in, 8, &n_tensors)) ||
        (status = take_number(&in, 8, &n_pairs)) || (status = take_pairs(&in, n_pairs, gguf)) ||
        (status = take_tensors(&in, n_tensors, reader)) ||
        (status = find_alignment(&in, gguf, &alignment)))
        return status;
    return place_tensors(&in, alignment, reader);
}

void smol_gguf_close(struct gguf *gguf)
{
    free(gguf->values);
    *gguf = (struct gguf){0};
}

/* --- values ------------------------------------------------------------------------------- */

const struct gguf_value *smol_gguf_find(const struct gguf *gguf, const char *key)
{
    const struct gguf_value wanted = {.key = {key, strlen(key)}};
    return gguf->n_values
               ? bsearch(&wanted, gguf->values, gguf->n_values, sizeof wanted, compare_keys)
               : NULL;
}

/* Reads item `i` of an integer type. Returns false for another type or a negative number. */
static bool integer_at(const struct gguf_value *value, uint64_t i, uint64_t *integer)
{
    unsigned size = type_sizes[value->item];
    bool is_signed = value->item == GGUF_I8 || value->item == GGUF_I16 || value->item == GGUF_I32 ||
                     value->item == GGUF_I64;
    if (size == 0 || value->item == GGUF_BOOL || value->item == GGUF_F32 || value->item == GGUF_F64)
        return false;
    *integer = number_at(value->data + i * size, size);
    return !is_signed || *integer >> (8 * size - 1) == 0;
}

static double real_at(const struct gguf_value *value, uint64_t i)
{
    uint64_t bits = number_at(value->data + i * type_sizes[value->item], type_sizes[value->item]);
    uint32_t half = (uint32_t)bits;
    double real;
    float single;
    memcpy(&real, &bits, sizeof real);
    memcpy(&single, &half, sizeof single);
    return value->item == GGUF_F32 ? (double)single : real;
}

bool smol_gguf_integer(const struct gguf_value *value, uint64_t *integer)
{
    return value->type != GGUF_ARRAY && integer_at(value, 0, integer);
}

bool smol_gguf_integer_at(const struct gguf_value *value, uint64_t i, uint64_t *integer)
{
    return value->type == GGUF_ARRAY && i < value->n && integer_at(value, i, integer);
}

bool smol_gguf_real(const struct gguf_value *value, double *real)
{
    uint64_t integer;
    if (value->type == GGUF_F32 || value->type == GGUF_F64)
        *real = real_at(value, 0);
    else if (smol_gguf_integer(value, &integer))
        *real = (double)integer;
    else
        return false;
    return true;
}

bool smol_gguf_flag(const struct gguf_value *value, bool *flag)
{
    *flag = value->type == GGUF_BOOL && value->data[0] == 1;
    return value->type == GGUF_BOOL;
}

struct gguf_text smol_gguf_string(const struct gguf_value *value)
{
    const uint8_t *at = value ? value->data : NULL;
    return value && value->type == GGUF_STRING ? smol_gguf_next(value, &at)
                                               : (struct gguf_text){"", 0};
}

struct gguf_text smol_gguf_next(const struct gguf_value *value, const uint8_t **at)
{
    /* Checked again, because the mapped file may have changed since. */
    uint64_t left = (uint64_t)(value->end - *at), size = left < 8 ? 0 : number_at(*at, 8);
    if (left < 8 || size > left - 8)
        return (struct gguf_text){"", 0};
    const struct gguf_text text = {(const char *)*at + 8, size};
    *at += 8 + size;
    return text;
}

double smol_gguf_item(const struct gguf_value *value, uint64_t i)
{
    uint64_t integer = 0;
    if (value->item == GGUF_F32)
        return real_at(value, i);
    return integer_at(value, i, &integer) ? (double)integer : -1;
}
