/* A model in the Hub's cache. An input is a byte that says which of some snapshots there are, and
 * what refs/main holds; nothing, and it is not there. The snapshot that is taken is one of those,
 * and the one that is named. */
#include <sys/stat.h>
#include <unistd.h>

#include "convert/checkpoint/hub.h"
#include "tests/fuzz/files.h"

static const char *const names[] = {
    "snapshots/0123456789abcdef0123456789abcdef01234567",
    "snapshots/fedcba9876543210fedcba9876543210fedcba98",
    "snapshots/main",
    "snapshots/.hidden",
    "snapshots/a b",
    "snapshots/\xff\n",
};
enum { N_NAMES = sizeof names / sizeof names[0] };

static void make_folder(const char *name, bool is_there)
{
    if (is_there)
        mkdir(fuzz_path(name), 0700);
    else
        rmdir(fuzz_path(name));
}

static void make_cache(struct fuzz_input *in)
{
    uint8_t there = fuzz_take_byte(in);
    mkdir(fuzz_path("snapshots"), 0700);
    mkdir(fuzz_path("refs"), 0700);
    for (unsigned i = 0; i < N_NAMES; i++)
        make_folder(names[i], there >> i & 1);
    if (in->size > 0)
        fuzz_write("refs/main", in->data, in->size);
    else
        fuzz_remove("refs/main");
}

/* Returns the one of the names that a path ends with. */
static const char *name_of(const char *path)
{
    size_t folder = strlen(fuzz_folder());
    CLAIM(strncmp(path, fuzz_folder(), folder) == 0 && path[folder] == '/');
    for (unsigned i = 0; i < N_NAMES; i++)
        if (strcmp(path + folder + 1, names[i]) == 0)
            return strchr(names[i], '/') + 1;
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    smol_error error;
    struct stat info;
    char *snapshot;
    make_cache(&in);
    smol_status status = smol_hub_snapshot(fuzz_folder(), &snapshot, &error);
    CLAIM(status == SMOL_OK || status == SMOL_ERROR_USAGE || status == SMOL_ERROR_FILE ||
          status == SMOL_ERROR_DAMAGED);
    CLAIM(!status == (snapshot != NULL));
    if (snapshot) {
        const char *name = name_of(snapshot);
        CLAIM(name && name[0] != '.' && stat(snapshot, &info) == 0);
        CLAIM(in.size == 0 ||
              (in.size >= strlen(name) && memcmp(in.data, name, strlen(name)) == 0));
    }
    free(snapshot);
    return 0;
}
