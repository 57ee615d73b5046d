/* Opens one file of weights or several, see shards.h. Only the names of the files in an index
 * count, as in transformers: tools that drop or add tensors leave its other statements as they
 * were. The files themselves say which tensors they have, and the model which ones it needs. */
#include "convert/checkpoint/shards.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/memory.h"
#include "common/text.h"
#include "convert/base/settings.h"
#include "convert/checkpoint/gguf_tensors.h"

static const char extension[] = ".safetensors", index_extension[] = ".index.json";
static const char gguf_extension[] = ".gguf";

bool smol_shards_is_index(const char *path)
{
    return ends_with(path, index_extension);
}

/* ---- names of shards ---- */

/* The parts of a shard's name: STEM-00002-of-00005.safetensors. The numbers are used only for the
 * checks below: tools differ in the number of digits and in the number of the first shard. */
struct series_member {
    size_t stem; /* the length of STEM */
    unsigned long number, count;
};

static bool parse_member_of(const char *name, const char *ending, struct series_member *member)
{
    const char *of = NULL;
    char *end;
    for (const char *next = strstr(name, "-of-"); next; next = strstr(next + 1, "-of-"))
        of = next;
    if (!of || !is_digit(of[4]))
        return false;
    member->count = strtoul(of + 4, &end, 10);
    const char *digits = of;
    while (digits > name && is_digit(digits[-1]))
        digits--;
    if (strcmp(end, ending) != 0 || digits == of || digits == name || digits[-1] != '-')
        return false;
    member->number = strtoul(digits, NULL, 10);
    member->stem = (size_t)(digits - 1 - name);
    return true;
}

static bool parse_member(const char *name, struct series_member *member)
{
    return parse_member_of(name, extension, member);
}

/* Refuses a single shard of several. */
static smol_status check_lone(const char *path, smol_error *error)
{
    struct series_member member;
    if (!parse_member(smol_base_name(path), &member) || member.count <= 1)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                     "%s: shard %lu of %lu: name the checkpoint's folder, or the .index.json that "
                     "lists its shards",
                     path, member.number, member.count);
}

/* ---- the index by itself ---- */

struct shard_index {
    struct json_settings file;
    json_t *map;                   /* tensor -> shard */
    const char *names[MAX_SHARDS]; /* (n), ascending */
    size_t n;
};

/* Returns the index of `name` in the names, or the index at which to insert it. */
static size_t place_of(const struct shard_index *index, const char *name, bool *found)
{
    size_t low = 0, high = index->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(index->names[middle], name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < index->n && strcmp(index->names[low], name) == 0;
    return low;
}

/* Returns whether `name` is a .safetensors file in the folder itself. A backslash is refused too,
 * because it separates folders on some systems. A link in the folder may lead elsewhere: the owner
 * of the folder created it. */
static bool is_shard_name(const char *name)
{
    return ends_with(name, extension) && !strpbrk(name, "/\\");
}

static smol_status add_name(struct shard_index *index, const char *tensor, const json_t *value)
{
    const char *name = json_string_value(value);
    bool found;
    if (!name || !is_shard_name(name))
        return smol_fail(index->file.error, SMOL_ERROR_DAMAGED,
                         "%s: weight_map has tensor \"%.64s\" in \"%.64s\": expected the name of a "
                         ".safetensors file in the same folder",
                         index->file.path, tensor, name ? name : "(not a string)");
    size_t at = place_of(index, name, &found);
    if (found)
        return SMOL_OK;
    if (index->n == MAX_SHARDS)
        return smol_fail(index->file.error, SMOL_ERROR_UNSUPPORTED,
                         "%s: more than %d shards: save the checkpoint in larger ones",
                         index->file.path, MAX_SHARDS);
    memmove(&index->names[at + 1], &index->names[at], (index->n - at) * sizeof index->names[0]);
    index->names[at] = name;
    index->n++;
    return SMOL_OK;
}

/* Checks that the index lists all shards of a series. If not, it is truncated. */
static smol_status check_series(const struct shard_index *index)
{
    for (size_t i = 0; i < index->n; i++) {
        struct series_member member;
        if (parse_member(index->names[i], &member) && member.count != index->n)
            return smol_fail(
                index->file.error, SMOL_ERROR_DAMAGED,
                "%s: lists %zu shards, but %.128s is one of %lu: download the index again",
                index->file.path, index->n, index->names[i], member.count);
    }
    return SMOL_OK;
}

static smol_status read_index(struct shard_index *index)
{
    const char *tensor;
    json_t *value;
    index->map = smol_setting(&index->file, "weight_map");
    if (!json_is_object(index->map) || json_object_size(index->map) == 0)
        return smol_fail(index->file.error, SMOL_ERROR_DAMAGED,
                         "%s: weight_map must be an object that names a file for each tensor",
                         index->file.path);
    json_object_foreach(index->map, tensor, value)
    {
        smol_status status = add_name(index, tensor, value);
        if (status)
            return status;
    }
    return check_series(index);
}

/* Returns whether `name` belongs to the series of a shard, but is not in the index. */
static bool is_left_over(const struct shard_index *index, const char *name)
{
    struct series_member entry, member;
    bool found;
    if (!parse_member(name, &entry))
        return false;
    place_of(index, name, &found);
    for (size_t i = 0; i < index->n && !found; i++)
        if (parse_member(index->names[i], &member) && member.stem == entry.stem &&
            memcmp(index->names[i], name, entry.stem) == 0)
            return true;
    return false;
}

static smol_status fail_left_over(const struct shard_index *index, const char *folder,
                                  const char *name)
{
    char *path = smol_path_join(folder, name);
    smol_status status =
        smol_fail(index->file.error, SMOL_ERROR_DAMAGED,
                  "%s: this shard is not listed in the index (%s): remove it, or download the "
                  "checkpoint again",
                  path ? path : name, smol_base_name(index->file.path));
    free(path);
    return status;
}

/* Refuses a shard in the folder that the index does not list: the index may be that of another
 * version. Names the first if there are several. */
static smol_status check_folder(const struct shard_index *index, const char *folder)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort);
    if (n < 0)
        return smol_fail_errno(index->file.error, folder, "list");
    smol_status status = SMOL_OK;
    for (int i = 0; i < n; i++) {
        if (!status && is_left_over(index, entries[i]->d_name))
            status = fail_left_over(index, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return status;
}

/* ---- opening ---- */

/* Opens n files. `names` are file names in `folder`, or paths if `folder` is NULL. */
static smol_status open_files(struct shards *shards, const char *folder, const char *const *names,
                              size_t n, smol_error *error)
{
    smol_status status = SMOL_OK;
    shards->files = calloc(n, sizeof *shards->files);
    shards->paths = calloc(n, sizeof *shards->paths);
    if (!shards->files || !shards->paths)
        return smol_fail_memory(error, "the list of shards");
    for (; !status && shards->n_files < n; shards->n_files++) {
        size_t i = shards->n_files;
        shards->paths[i] = folder ? smol_path_join(folder, names[i]) : strdup(names[i]);
        status = shards->paths[i]
                     ? smol_safetensors_open(shards->paths[i], &shards->files[i], error)
                     : smol_fail_memory(error, "a file name");
    }
    return status ? status
                  : smol_safetensors_join(shards->files, n, shards->path, &shards->all, error);
}

static smol_status open_index(struct shards *shards, smol_error *error)
{
    struct shard_index index = {.n = 0};
    char *folder = smol_path_folder(shards->path);
    smol_status status =
        folder ? smol_settings_open(folder, smol_base_name(shards->path), true, &index.file, error)
               : smol_fail_memory(error, "a file name");
    shards->index_mark = index.file.mark;
    if (!status)
        status = read_index(&index);
    if (!status)
        status = check_folder(&index, folder);
    if (!status)
        status = open_files(shards, folder, index.names, index.n, error);
    smol_settings_close(&index.file);
    free(folder);
    return status;
}

static smol_status open_one(struct shards *shards, smol_error *error)
{
    const char *path = shards->path;
    smol_status status = check_lone(path, error);
    return status ? status : open_files(shards, NULL, &path, 1, error);
}

smol_status smol_shards_open(const char *path, struct shards *shards, smol_error *error)
{
    *shards = (struct shards){.path = strdup(path)};
    smol_status status = SMOL_OK;
    if (!shards->path)
        status = smol_fail_memory(error, "a file name");
    else if (smol_shards_is_index(path))
        status = open_index(shards, error);
    else
        status = open_one(shards, error);
    status = smol_shards_settle(shards, status, error);
    if (status)
        smol_shards_close(shards);
    return status;
}

/* ---- GGUF files ---- */

/* Reads file `i` of a GGUF model, whose path is set. The first file's keys name the tensors. */
static smol_status read_gguf(struct shards *shards, size_t i, struct gguf *gguf, smol_error *error)
{
    struct safetensors *file = &shards->files[i];
    smol_status status = smol_file_map(shards->paths[i], &file->file, error);
    file->path = shards->paths[i];
    if (status)
        return status;
    shards->n_files = i + 1;
    status = smol_gguf_read(file, gguf, error);
    if (!status)
        smol_gguf_name_tensors(&shards->gguf, file);
    return status;
}

/* Returns the integer of a key about the files of a model in several; 0: there is none. */
static uint64_t split_number(const struct gguf *gguf, const char *key)
{
    uint64_t number = 0;
    const struct gguf_value *value = smol_gguf_find(gguf, key);
    return value && smol_gguf_integer(value, &number) ? number : 0;
}

/* Returns the path of file `i` of `count`: that of the first with another number. NULL: no memory.
 */
static char *gguf_path(const char *first, size_t stem, size_t i, size_t count)
{
    enum { ROOM = 64 }; /* for the numbers and what is around them */
    char *path = malloc(stem + ROOM);
    if (path)
        snprintf(path, stem + ROOM, "%.*s-%05zu-of-%05zu%s", (int)stem, first, i + 1, count,
                 gguf_extension);
    return path;
}

/* Reads file `i` of a model in `count` files, which states its number. */
static smol_status read_part(struct shards *shards, size_t stem, size_t i, size_t count,
                             smol_error *error)
{
    struct gguf part = {0};
    shards->paths[i] = gguf_path(shards->path, stem, i, count);
    if (!shards->paths[i])
        return smol_fail_memory(error, "a file name");
    smol_status status = read_gguf(shards, i, &part, error);
    if (!status &&
        (split_number(&part, "split.no") != i || split_number(&part, "split.count") != count))
        status = smol_fail(error, SMOL_ERROR_DAMAGED,
                           "%s: it does not state that it is file %zu of %zu: download it again",
                           shards->paths[i], i + 1, count);
    if (shards->n_files == i)
        free(shards->paths[i]);
    smol_gguf_close(&part);
    return status;
}

/* Makes room for `count` files. */
static bool make_room(struct shards *shards, size_t count)
{
    if (!RESIZE(shards->files, count) || !RESIZE(shards->paths, count))
        return false;
    memset(shards->files + 1, 0, (count - 1) * sizeof *shards->files);
    return true;
}

/* Reads the other files of a model in several, of which the first has been read. */
static smol_status read_parts(struct shards *shards, uint64_t count, smol_error *error)
{
    struct series_member member;
    const char *name = smol_base_name(shards->path);
    uint64_t total = split_number(&shards->gguf, "split.tensors.count"), n_tensors = 0;
    if (split_number(&shards->gguf, "split.no") != 0 ||
        !parse_member_of(name, gguf_extension, &member) || member.number != 1 ||
        member.count != count)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: one of %llu files of a model: name the first of them, "
                         "NAME-00001-of-%05llu.gguf",
                         shards->path, (unsigned long long)count, (unsigned long long)count);
    if (count > MAX_SHARDS)
        return smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                         "%s: more than %d files: join them with llama.cpp's "
                         "llama-gguf-split --merge",
                         shards->path, MAX_SHARDS);
    if (!make_room(shards, (size_t)count))
        return smol_fail_memory(error, "the list of files");
    size_t stem = (size_t)(name - shards->path) + member.stem;
    smol_status status = SMOL_OK;
    for (size_t i = 1; i < count && !status; i++)
        status = read_part(shards, stem, i, (size_t)count, error);
    for (size_t i = 0; i < shards->n_files; i++)
        n_tensors += shards->files[i].n_tensors;
    if (!status && n_tensors != total)
        return smol_fail(error, SMOL_ERROR_DAMAGED,
                         "%s: split.tensors.count is %llu, but the files have %llu tensors: "
                         "download them again",
                         shards->path, (unsigned long long)total, (unsigned long long)n_tensors);
    return status;
}

static smol_status read_ggufs(struct shards *shards, smol_error *error)
{
    smol_status status = read_gguf(shards, 0, &shards->gguf, error);
    uint64_t count = status ? 0 : split_number(&shards->gguf, "split.count");
    if (count > 1)
        status = read_parts(shards, count, error);
    return status ? status
                  : smol_safetensors_join(shards->files, shards->n_files, shards->path,
                                          &shards->all, error);
}

smol_status smol_shards_open_gguf(const char *path, struct shards *shards, smol_error *error)
{
    *shards = (struct shards){.path = strdup(path)};
    shards->files = calloc(1, sizeof *shards->files);
    shards->paths = calloc(1, sizeof *shards->paths);
    smol_status status = SMOL_OK;
    if (!shards->path || !shards->files || !shards->paths || !(shards->paths[0] = strdup(path)))
        status = smol_fail_memory(error, "a file name");
    else
        status = smol_shards_settle(shards, read_ggufs(shards, error), error);
    if (status)
        smol_shards_close(shards);
    return status;
}

uint64_t smol_shards_size(const struct shards *shards)
{
    uint64_t size = 0;
    for (size_t i = 0; i < shards->n_files; i++)
        size += shards->files[i].file.size;
    return size;
}

bool smol_shards_has(const struct shards *shards, const char *path)
{
    bool has = smol_same_file(path, shards->path);
    for (size_t i = 0; i < shards->n_files && !has; i++)
        has = smol_same_file(path, shards->paths[i]);
    return has;
}

smol_status smol_shards_settle(const struct shards *shards, smol_status status, smol_error *error)
{
    for (size_t i = 0; i < shards->n_files; i++) {
        smol_status lost = smol_file_check(&shards->files[i].file, shards->paths[i], error);
        if (lost)
            return lost;
    }
    return status;
}

void smol_shards_close(struct shards *shards)
{
    smol_safetensors_close(&shards->all);
    smol_gguf_close(&shards->gguf);
    if (shards->n_files == 0 && shards->paths)
        free(shards->paths[0]);
    for (size_t i = 0; i < shards->n_files; i++) {
        smol_safetensors_close(&shards->files[i]);
        free(shards->paths[i]);
    }
    free(shards->files);
    free(shards->paths);
    free(shards->path);
    *shards = (struct shards){0};
}
