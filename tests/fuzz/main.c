/* Runs a fuzz target on files, and on all files of folders, without a fuzzer: `fuzz_NAME PATH...`.
 * So past findings stay tests under every compiler, and a finding is looked at with a debugger. */
#include <dirent.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

static unsigned n_inputs;

static int run_path(const char *path);

static int run_file(const char *path, size_t size)
{
    uint8_t *data = malloc(size ? size : 1);
    FILE *file = fopen(path, "rb");
    if (!data || !file || fread(data, 1, size, file) != size) {
        perror(path);
        return 1;
    }
    fclose(file);
    fprintf(stderr, "%s\n", path); /* the last one printed is the one that failed */
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    n_inputs++;
    return 0;
}

static int run_folder(const char *folder)
{
    struct dirent **entries;
    int failed = 0, n = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            failed |= run_path(path);
        free(entries[i]);
    }
    free(entries);
    return failed;
}

static int run_path(const char *path)
{
    struct stat info;
    if (stat(path, &info)) {
        perror(path);
        return 1;
    }
    return S_ISDIR(info.st_mode) ? run_folder(path) : run_file(path, (size_t)info.st_size);
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= run_path(argv[i]);
    printf("%u passed\n", n_inputs);
    return failed;
}
