/* A temporary folder for tests that need files. */
#ifndef SMOL_TESTS_UNIT_TEMPORARY_H
#define SMOL_TESTS_UNIT_TEMPORARY_H

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct temporary {
    char folder[64];
    char path[512]; /* of the most recently written file */
};

static inline void temporary_make(struct temporary *t)
{
    strcpy(t->folder, "/tmp/smol-test-XXXXXX");
    if (!mkdtemp(t->folder))
        abort();
}

/* Writes data[0..size) to `name` in the folder and returns its path. */
static inline const char *temporary_write(struct temporary *t, const char *name, const void *data,
                                          size_t size)
{
    snprintf(t->path, sizeof t->path, "%s/%s", t->folder, name);
    FILE *file = fopen(t->path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file))
        abort();
    return t->path;
}

static inline const char *temporary_write_text(struct temporary *t, const char *name,
                                               const char *text)
{
    return temporary_write(t, name, text, strlen(text));
}

/* Returns the number of files in the folder, without hidden ones. */
static inline int temporary_count(const struct temporary *t)
{
    DIR *folder = opendir(t->folder);
    int n = 0;
    if (!folder)
        abort();
    for (struct dirent *entry; (entry = readdir(folder));)
        n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

static inline int temporary_remove_entry(const char *path, const struct stat *info, int kind,
                                         struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

/* Removes the folder and its contents. */
static inline void temporary_remove(struct temporary *t)
{
    nftw(t->folder, temporary_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
