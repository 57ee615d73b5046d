/* The cache of the Hub, see hub.h. Links in it are followed: the owner of the cache decides where
 * they lead. But refs/main must be a plain name within snapshots/. */
#include "convert/checkpoint/hub.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/file.h"

/* A revision is 40 hexadecimal digits, but nothing depends on that. */
enum { MAX_REVISION = 128, MAX_SHOWN = 4 };

/* A model in the cache. */
struct hub_cache {
    const char *path;
    char *snapshots;         /* the folder */
    char main[MAX_REVISION]; /* the content of refs/main; empty if missing */
    struct dirent **names;   /* (n), ascending */
    int n;
};

static bool is_revision(const char *name)
{
    return name[0] && name[0] != '.' && !strpbrk(name, "/\\");
}

static smol_status read_main(struct hub_cache *cache, smol_error *error)
{
    struct stat info;
    size_t n, size;
    char *path = smol_path_join(cache->path, "refs/main");
    if (!path)
        return smol_fail_memory(error, "a file name");
    smol_status status = SMOL_OK;
    if (stat(path, &info) == 0 || errno != ENOENT) {
        status = smol_file_peek(path, cache->main, sizeof cache->main - 1, &n, &size, error);
        cache->main[strcspn(cache->main, "\r\n")] = '\0';
        if (!status && (n != size || !is_revision(cache->main)))
            status = smol_fail(error, SMOL_ERROR_DAMAGED,
                               "%s: names no revision: name the folder of one in %s", path,
                               cache->snapshots);
    }
    free(path);
    return status;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static smol_status list_snapshots(struct hub_cache *cache, smol_error *error)
{
    cache->n = scandir(cache->snapshots, &cache->names, is_visible, alphasort);
    if (cache->n >= 0)
        return SMOL_OK;
    cache->n = 0;
    return smol_fail_errno(error, cache->snapshots, "list");
}

/* Writes the first few snapshots into `list`, for messages. Returns `list`. */
static const char *shown(const struct hub_cache *cache, char list[MAX_SHOWN * MAX_REVISION])
{
    size_t length = 0, size = (size_t)MAX_SHOWN * MAX_REVISION;
    list[0] = '\0';
    for (int i = 0; i < cache->n && i < MAX_SHOWN; i++)
        length += (size_t)snprintf(list + length, size - length, "%s%.100s", i ? ", " : "",
                                   cache->names[i]->d_name);
    if (cache->n > MAX_SHOWN)
        snprintf(list + length, size - length, ", ...");
    return list;
}

static smol_status choose(const struct hub_cache *cache, const char **name, smol_error *error)
{
    char list[MAX_SHOWN * MAX_REVISION];
    *name = cache->main;
    for (int i = 0; i < cache->n && cache->main[0]; i++)
        if (strcmp(cache->names[i]->d_name, cache->main) == 0)
            return SMOL_OK;
    if (cache->n == 0)
        return smol_fail(error, SMOL_ERROR_FILE, "%s: no snapshot in it: download the model again",
                         cache->path);
    if (cache->main[0])
        return smol_fail(error, SMOL_ERROR_FILE,
                         "%s: no snapshot of refs/main, %s: download it, or name the folder of "
                         "another in snapshots (%s)",
                         cache->path, cache->main, shown(cache, list));
    *name = cache->names[0]->d_name;
    if (cache->n == 1)
        return SMOL_OK;
    return smol_fail(error, SMOL_ERROR_USAGE,
                     "%s: %d snapshots and no refs/main: name the folder of one in snapshots "
                     "(%s)",
                     cache->path, cache->n, shown(cache, list));
}

static smol_status find_snapshot(struct hub_cache *cache, char **snapshot, smol_error *error)
{
    const char *name;
    smol_status status = read_main(cache, error);
    if (!status)
        status = list_snapshots(cache, error);
    if (!status)
        status = choose(cache, &name, error);
    if (status)
        return status;
    *snapshot = smol_path_join(cache->snapshots, name);
    return *snapshot ? SMOL_OK : smol_fail_memory(error, "a file name");
}

static void close_cache(struct hub_cache *cache)
{
    for (int i = 0; i < cache->n; i++)
        free(cache->names[i]);
    free(cache->names);
    free(cache->snapshots);
}

smol_status smol_hub_snapshot(const char *path, char **snapshot, smol_error *error)
{
    struct hub_cache cache = {.path = path, .snapshots = smol_path_join(path, "snapshots")};
    smol_status status = SMOL_OK;
    *snapshot = NULL;
    if (!cache.snapshots)
        status = smol_fail_memory(error, "a file name");
    else if (smol_is_folder(cache.snapshots))
        status = find_snapshot(&cache, snapshot, error);
    close_cache(&cache);
    return status;
}
