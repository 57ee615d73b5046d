/* The safetensors reader, see safetensors.h. It checks the frame (sizes), then the text of the
 * header, then the places of the tensors.
 *
 * The reference is the `safetensors` package 0.8, not the README of the format: white space before
 * the header is accepted. This reader is deliberately stricter in four cases:
 * - A tensor's name appears twice, or one of its three fields does (unknown fields and the
 *   strings of __metadata__ may repeat). The reference uses the last of two names, other JSON
 *   readers the first, and a malware scanner may have checked the other one.
 * - A description is a list, or a dtype is an object. serde accepts such spellings of a struct
 *   and an enum by accident; other readers do not.
 * - A name contains a NUL, so that a C program could not distinguish it from a shorter name.
 * - A tensor has more than SAFETENSORS_MAX_RANK dimensions. */
#include "convert/checkpoint/safetensors.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "common/json_reader.h"
#include "common/memory.h"
#include "common/utf8.h"
#include "convert/base/foreign.h"

enum { PREFIX_SIZE = 8 }; /* the header's length, a little-endian u64 */

/* The state of reading a header. */
struct header_parser {
    struct json_reader json;
    struct safetensors *reader;
    size_t capacity; /* of reader->tensors */
    char *free;      /* the unused end of reader->names; has room for the rest of the text */
    bool has_metadata;
};

/* A name for messages, truncated between characters. */
struct short_name {
    char text[68];
};

static struct short_name short_name(const char *name)
{
    enum { SHORT_NAME = 64 };
    struct short_name label = {{0}};
    size_t length = strlen(name), shown = length;
    if (length > SHORT_NAME)
        shown = SHORT_NAME - smol_utf8_unfinished((const uint8_t *)name, SHORT_NAME);
    memcpy(label.text, name, shown);
    if (shown < length)
        memcpy(label.text + shown, "...", 3);
    return label;
}

/* ---- the frame ---- */

static bool is_text(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (data[i] >= 0x7f || (data[i] < 0x20 && data[i] != '\n' && data[i] != '\r'))
            return false;
    return true;
}

/* Returns the first line that is not empty in text[0..size). */
static const char *first_line(const uint8_t *text, size_t size, int *length)
{
    size_t begin = 0, end;
    while (begin < size && (text[begin] == '\n' || text[begin] == '\r'))
        begin++;
    for (end = begin; end < size && text[end] != '\n' && text[end] != '\r';)
        end++;
    *length = (int)(end - begin);
    return (const char *)text + begin;
}

/* Reports a file whose first bytes cannot be the length of a header. */
static smol_status refuse_foreign(const struct safetensors *reader, smol_error *error)
{
    const uint8_t *data = reader->file.data;
    size_t size = reader->file.size, shown = size < 40 ? size : 40;
    int length;
    const char *kind = smol_foreign_kind(reader->path, data, size);
    if (kind)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED, "%s: this is %s", reader->path, kind);
    if (size > 0 && (data[0] == '{' || data[0] == '['))
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: this is a JSON file: name the model's .safetensors file, the "
                         ".index.json of its shards or its folder",
                         reader->path);
    if (size > 0 && is_text(data, shown)) {
        const char *line = first_line(data, shown, &length);
        return smol_fail(
            error, SMOL_ERROR_UNSUPPORTED,
            "%s: this is a text file that begins \"%.*s\": name a model's file or folder; "
            "if this should be one, download it again",
            reader->path, length, line);
    }
    if (size < PREFIX_SIZE)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: %s (%zu bytes, expected at least 8): download it again", reader->path,
                         size ? "too short for safetensors" : "empty", size);
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: not safetensors: the header's length is over %d (byte 0): "
                     "name another file or download it again",
                     reader->path, SAFETENSORS_MAX_HEADER);
}

static smol_status fail_truncated(const struct safetensors *reader, uint64_t expected,
                                  smol_error *error)
{
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: truncated: %llu of %llu bytes are missing (file ends at byte %zu): "
                     "download it again",
                     reader->path, (unsigned long long)(expected - reader->file.size),
                     (unsigned long long)expected, reader->file.size);
}

static smol_status check_frame(const struct safetensors *reader, uint64_t *header_size,
                               smol_error *error)
{
    if (reader->file.size < PREFIX_SIZE)
        return refuse_foreign(reader, error);
    memcpy(header_size, reader->file.data, PREFIX_SIZE);
    bool fits = *header_size <= reader->file.size - PREFIX_SIZE;
    if (*header_size > SAFETENSORS_MAX_HEADER ||
        (!fits && smol_foreign_kind(reader->path, reader->file.data, reader->file.size)))
        return refuse_foreign(reader, error);
    if (!fits)
        return fail_truncated(reader, PREFIX_SIZE + *header_size, error);
    return SMOL_OK;
}

/* ---- the header's text ---- */

static smol_status fail_tensor(struct header_parser *parser,
                               const struct safetensors_tensor *tensor, smol_status status,
                               const char *what)
{
    return smol_fail(parser->json.error, status,
                     "%s: tensor \"%s\" %s (byte %zu): download the file again or use another",
                     parser->json.name, short_name(tensor->name).text, what,
                     (size_t)(parser->json.at - parser->json.start));
}

/* Reads a string into the free end of the names without keeping it there. */
static smol_status parse_string(struct header_parser *parser, size_t *length)
{
    return smol_json_string(&parser->json, parser->free, length);
}

static smol_status parse_name(struct header_parser *parser, size_t *length)
{
    return smol_json_name(&parser->json, parser->free, length);
}

static smol_status parse_dtype(struct header_parser *parser, struct safetensors_tensor *tensor)
{
    size_t length;
    smol_status status = parse_string(parser, &length);
    if (status || smol_element_find(parser->free, length, &tensor->dtype))
        return status;
    return fail_tensor(parser, tensor, SMOL_ERROR_DAMAGED,
                       "has a dtype that the format does not know");
}

/* Reads a length or an offset. */
static smol_status parse_size(struct json_reader *json, uint64_t *size)
{
    struct json_number number;
    smol_status status = smol_json_number(json, &number);
    if (!status && !smol_json_to_u64(&number, size))
        return smol_json_fail(json, "expected an integer from 0 to 2^64 - 1");
    return status;
}

static smol_status parse_shape(struct header_parser *parser, struct safetensors_tensor *tensor)
{
    struct json_reader *json = &parser->json;
    bool more;
    smol_status status = smol_json_begin(json, '[', &more);
    while (!status && more) {
        if (tensor->rank == SAFETENSORS_MAX_RANK)
            return fail_tensor(parser, tensor, SMOL_ERROR_UNSUPPORTED,
                               "has more than 8 dimensions");
        status = parse_size(json, &tensor->shape[tensor->rank++]);
        if (!status)
            status = smol_json_more(json, ']', &more);
    }
    return status;
}

static smol_status parse_offsets(struct header_parser *parser, struct safetensors_tensor *tensor)
{
    struct json_reader *json = &parser->json;
    uint64_t end = 0;
    smol_status status = smol_json_expect(json, '[');
    if (!status)
        status = parse_size(json, &tensor->begin);
    if (!status)
        status = smol_json_expect(json, ',');
    if (!status)
        status = parse_size(json, &end);
    if (!status)
        status = smol_json_expect(json, ']');
    tensor->size = end - tensor->begin; /* check_place sees where this wraps */
    return status;
}

/* A tensor's description has three fields. Other fields are skipped, as the reference does. */
enum { FIELD_DTYPE, FIELD_SHAPE, FIELD_OFFSETS, N_FIELDS };
static const struct field {
    const char *name;
    smol_status (*parse)(struct header_parser *, struct safetensors_tensor *);
} fields[N_FIELDS] = {
    [FIELD_DTYPE] = {"dtype", parse_dtype},
    [FIELD_SHAPE] = {"shape", parse_shape},
    [FIELD_OFFSETS] = {"data_offsets", parse_offsets},
};

static smol_status parse_field(struct header_parser *parser, struct safetensors_tensor *tensor,
                               unsigned *seen)
{
    size_t length;
    unsigned which = 0;
    smol_status status = parse_name(parser, &length);
    if (status)
        return status;
    while (which < N_FIELDS && (length != strlen(fields[which].name) ||
                                memcmp(parser->free, fields[which].name, length) != 0))
        which++;
    if (which == N_FIELDS)
        return smol_json_skip(&parser->json);
    if (*seen & 1u << which)
        return fail_tensor(parser, tensor, SMOL_ERROR_DAMAGED, "has the same field twice");
    *seen |= 1u << which;
    return fields[which].parse(parser, tensor);
}

static smol_status parse_description(struct header_parser *parser,
                                     struct safetensors_tensor *tensor)
{
    unsigned seen = 0;
    bool more;
    smol_status status = smol_json_begin(&parser->json, '{', &more);
    while (!status && more) {
        status = parse_field(parser, tensor, &seen);
        if (!status)
            status = smol_json_more(&parser->json, '}', &more);
    }
    if (!status && seen != (1u << N_FIELDS) - 1)
        return fail_tensor(parser, tensor, SMOL_ERROR_DAMAGED,
                           "lacks dtype, shape or data_offsets");
    return status;
}

/* Checks __metadata__, which must be null or an object of strings. Its contents are not used. */
static smol_status parse_metadata(struct header_parser *parser)
{
    struct json_reader *json = &parser->json;
    size_t length;
    bool more;
    if (parser->has_metadata)
        return smol_json_fail(json, "__metadata__ appears twice");
    parser->has_metadata = true;
    if (smol_json_word(json, "null"))
        return SMOL_OK;
    smol_status status = smol_json_begin(json, '{', &more);
    while (!status && more) {
        status = parse_name(parser, &length);
        if (!status)
            status = parse_string(parser, &length);
        if (!status)
            status = smol_json_more(json, '}', &more);
    }
    return status;
}

/* Appends a zeroed tensor. Returns NULL when memory runs out. Memory use is linear in the size of
 * the text, because a slot takes at most a few times the tensor's text. */
static struct safetensors_tensor *add_tensor(struct header_parser *parser, const char *name)
{
    struct safetensors *reader = parser->reader;
    if (!GROW(reader->tensors, reader->n_tensors, &parser->capacity))
        return NULL;
    struct safetensors_tensor *tensor = &reader->tensors[reader->n_tensors++];
    *tensor = (struct safetensors_tensor){.name = name, .path = reader->path};
    return tensor;
}

static smol_status parse_entry(struct header_parser *parser)
{
    char *name = parser->free;
    size_t length;
    smol_status status = parse_name(parser, &length);
    if (status)
        return status;
    if (strlen(name) != length)
        return smol_json_fail(&parser->json, "a tensor's name contains a NUL");
    if (strcmp(name, "__metadata__") == 0)
        return parse_metadata(parser);
    parser->free += length + 1;
    struct safetensors_tensor *tensor = add_tensor(parser, name);
    return tensor ? parse_description(parser, tensor)
                  : smol_fail_memory(parser->json.error, "the table of tensors");
}

static smol_status parse_header(struct header_parser *parser)
{
    struct json_reader *json = &parser->json;
    bool more = false;
    smol_status status = smol_json_check_utf8(json);
    if (!status)
        status = smol_json_begin(json, '{', &more);
    while (!status && more) {
        status = parse_entry(parser);
        if (!status)
            status = smol_json_more(json, '}', &more);
    }
    return status ? status : smol_json_end(json);
}

static smol_status read_header(struct safetensors *reader, uint64_t header_size, smol_error *error)
{
    struct header_parser parser = {.reader = reader};
    reader->names = malloc(header_size + 1); /* no name is longer than its quoted form */
    if (!reader->names)
        return smol_fail_memory(error, "the header of a safetensors file");
    parser.free = reader->names;
    parser.json = (struct json_reader){
        .start = reader->file.data,
        .at = reader->file.data + PREFIX_SIZE,
        .end = reader->file.data + PREFIX_SIZE + header_size,
        .name = reader->path,
        .fault = "the header is damaged",
        .advice = ": download the file again",
        .status = SMOL_ERROR_DAMAGED,
        .error = error,
    };
    return parse_header(&parser);
}

/* ---- the tensors' places ---- */

/* Compares places. Empty tensors may share a place; the name then makes the order unique. */
static int compare_places(const void *left, const void *right)
{
    const struct safetensors_tensor *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int compare_names(const void *left, const void *right)
{
    const struct safetensors_tensor *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static smol_status fail_twice(const struct safetensors *reader, const struct safetensors_tensor *a,
                              const struct safetensors_tensor *b, smol_error *error)
{
    if (a->path != b->path)
        return smol_fail(
            error, SMOL_ERROR_DAMAGED,
            "%s: tensor \"%s\" appears twice (in %s and in %s): readers would disagree "
            "about it; use another checkpoint",
            reader->path, short_name(a->name).text, smol_base_name(a->path),
            smol_base_name(b->path));
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: tensor \"%s\" appears twice (data offsets %llu and %llu): "
                     "readers would disagree about it; use another file",
                     reader->path, short_name(a->name).text, (unsigned long long)a->begin,
                     (unsigned long long)b->begin);
}

smol_status smol_safetensors_index(struct safetensors *reader, smol_error *error)
{
    free(reader->by_name);
    reader->by_name = malloc((reader->n_tensors + 1) * sizeof *reader->by_name);
    if (!reader->by_name)
        return smol_fail_memory(error, "the index of tensors");
    for (size_t i = 0; i < reader->n_tensors; i++)
        reader->by_name[i] = &reader->tensors[i];
    qsort(reader->by_name, reader->n_tensors, sizeof *reader->by_name, compare_names);
    for (size_t i = 1; i < reader->n_tensors; i++)
        if (compare_names(&reader->by_name[i - 1], &reader->by_name[i]) == 0)
            return fail_twice(reader, reader->by_name[i - 1], reader->by_name[i], error);
    return SMOL_OK;
}

/* Computes the number of bytes that the shape and dtype require. Returns false if it overflows or
 * is not whole. */
static bool expected_bytes(const struct safetensors_tensor *tensor, uint64_t *bytes)
{
    uint64_t bits = 1;
    for (unsigned i = 0; i < tensor->rank; i++)
        if (!checked_mul(bits, tensor->shape[i], &bits))
            return false;
    if (!checked_mul(bits, smol_element_bits(tensor->dtype), &bits) || bits % 8 != 0)
        return false;
    *bytes = bits / 8;
    return true;
}

static smol_status fail_place(const struct safetensors *reader,
                              const struct safetensors_tensor *tensor, const char *what,
                              smol_error *error)
{
    return smol_fail(error, SMOL_ERROR_DAMAGED,
                     "%s: tensor \"%s\" %s (data offsets %llu to %llu): download the file again",
                     reader->path, short_name(tensor->name).text, what,
                     (unsigned long long)tensor->begin,
                     (unsigned long long)tensor->begin + tensor->size);
}

/* Checks the place of a tensor. *filled is the end of the tensor before it. */
static smol_status check_place(const struct safetensors *reader, struct safetensors_tensor *tensor,
                               uint64_t *filled, smol_error *error)
{
    uint64_t bytes, end = tensor->begin + tensor->size;
    if (end < tensor->begin)
        return fail_place(reader, tensor, "ends before it begins", error);
    if (tensor->begin < *filled)
        return fail_place(reader, tensor, "overlaps the one before it", error);
    if (tensor->begin > *filled)
        return fail_place(reader, tensor, "leaves a gap before it", error);
    if (!expected_bytes(tensor, &bytes))
        return fail_place(reader, tensor,
                          "has a shape that does not fill whole bytes, or exceeds 2^61 bytes",
                          error);
    if (tensor->size != bytes)
        return fail_place(reader, tensor, "has a size that does not match its shape and dtype",
                          error);
    *filled = end;
    return SMOL_OK;
}

/* Checks that the tensors fill the data from its first byte to the last byte of the file. Checks
 * the length of the file last, to distinguish a truncated download from a damaged header. */
static smol_status check_places(struct safetensors *reader, uint64_t header_size, smol_error *error)
{
    uint64_t filled = 0, expected;
    if (reader->n_tensors > 1) /* qsort requires a valid pointer, even for no elements */
        qsort(reader->tensors, reader->n_tensors, sizeof *reader->tensors, compare_places);
    for (size_t i = 0; i < reader->n_tensors; i++) {
        smol_status status = check_place(reader, &reader->tensors[i], &filled, error);
        if (status)
            return status;
    }
    if (!checked_add(PREFIX_SIZE + header_size, filled, &expected))
        expected = UINT64_MAX;
    if (expected > reader->file.size)
        return fail_truncated(reader, expected, error);
    if (expected < reader->file.size)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: %llu bytes after the last tensor (byte %llu): "
                         "download the file again",
                         reader->path, (unsigned long long)(reader->file.size - expected),
                         (unsigned long long)expected);
    return SMOL_OK;
}

smol_status smol_safetensors_open(const char *path, struct safetensors *reader, smol_error *error)
{
    struct file_view file;
    *reader = (struct safetensors){0};
    smol_status status = smol_file_map(path, &file, error);
    return status ? status : smol_safetensors_open_view(&file, path, reader, error);
}

smol_status smol_safetensors_open_view(struct file_view *file, const char *path,
                                       struct safetensors *reader, smol_error *error)
{
    uint64_t header_size = 0;
    *reader = (struct safetensors){.file = *file, .path = path};
    *file = (struct file_view){0};
    smol_status status = check_frame(reader, &header_size, error);
    if (!status)
        status = read_header(reader, header_size, error);
    if (!status)
        status = check_places(reader, header_size, error);
    if (!status)
        status = smol_safetensors_index(reader, error);
    status = file_settle(&reader->file, path, status, error);
    if (status) {
        smol_safetensors_close(reader);
        return status;
    }
    for (size_t i = 0; i < reader->n_tensors; i++)
        reader->tensors[i].data =
            reader->file.data + PREFIX_SIZE + header_size + reader->tensors[i].begin;
    return SMOL_OK;
}

smol_status smol_safetensors_join(const struct safetensors *files, size_t n, const char *path,
                                  struct safetensors *joined, smol_error *error)
{
    size_t n_tensors = 0;
    for (size_t i = 0; i < n; i++)
        n_tensors += files[i].n_tensors;
    *joined = (struct safetensors){.path = path};
    joined->tensors = malloc((n_tensors + 1) * sizeof *joined->tensors);
    if (!joined->tensors)
        return smol_fail_memory(error, "the table of tensors");
    for (size_t i = 0; i < n; i++) {
        const struct safetensors *file = &files[i];
        for (size_t k = 0; k < file->n_tensors; k++)
            joined->tensors[joined->n_tensors++] = file->tensors[k];
    }
    smol_status status = smol_safetensors_index(joined, error);
    if (status)
        smol_safetensors_close(joined);
    return status;
}

void smol_safetensors_close(struct safetensors *reader)
{
    free(reader->by_name);
    free(reader->tensors);
    free(reader->names);
    free(reader->scales);
    smol_file_close(&reader->file);
    *reader = (struct safetensors){0};
}

const struct safetensors_tensor *smol_safetensors_find(const struct safetensors *reader,
                                                       const char *name)
{
    struct safetensors_tensor wanted = {.name = name};
    const struct safetensors_tensor *key = &wanted;
    const struct safetensors_tensor *const *found =
        bsearch(&key, reader->by_name, reader->n_tensors, sizeof key, compare_names);
    return found ? *found : NULL;
}
