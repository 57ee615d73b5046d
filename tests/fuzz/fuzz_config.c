/* The settings of a checkpoint. An input is config.json, generation_config.json,
 * tokenizer_config.json and tokenizer.json in this order, each ended by a NUL, which no JSON text
 * contains; those that are not there are missing files. */
#include <errno.h>
#include <math.h>
#include <sys/mman.h>

#include "convert/config.h"
#include "format/layout.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/temporary.h"

static const char *const names[] = {"config.json", "generation_config.json",
                                    "tokenizer_config.json", "tokenizer.json"};
enum { N_FILES = sizeof names / sizeof names[0] };

/* The folder holds links to files in memory, which are much faster to rewrite. */
static struct {
    struct temporary temporary;
    int fd[N_FILES];
} folder;

static void remove_folder(void)
{
    temporary_remove(&folder.temporary);
}

static void make_folder(void)
{
    temporary_make(&folder.temporary);
    atexit(remove_folder);
    for (size_t i = 0; i < N_FILES; i++)
        if ((folder.fd[i] = memfd_create(names[i], MFD_CLOEXEC)) < 0)
            abort();
}

/* Makes data[0..size) the content of file i; without any there is no such file. */
static void write_file(size_t i, const uint8_t *data, size_t size)
{
    char link[128], target[64];
    snprintf(link, sizeof link, "%s/%s", folder.temporary.folder, names[i]);
    snprintf(target, sizeof target, "/proc/self/fd/%d", folder.fd[i]);
    if (size == 0)
        unlink(link);
    else if (ftruncate(folder.fd[i], 0) || pwrite(folder.fd[i], data, size, 0) != (ssize_t)size ||
             (symlink(target, link) && errno != EEXIST))
        abort();
}

static void write_files(const uint8_t *data, size_t size)
{
    if (!folder.temporary.folder[0])
        make_folder();
    for (size_t i = 0; i < N_FILES; i++) {
        const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
        size_t length = end ? (size_t)(end - data) : size;
        write_file(i, data, length);
        length += end != NULL;
        data += length;
        size -= length;
    }
}

static void check_config(const struct config *config)
{
    const struct blob_generation *g = &config->generation;
    const float reals[] = {g->temperature, g->top_p, g->min_p, g->repetition_penalty};
    for (size_t i = 0; i < config->n_stop; i++) {
        CLAIM(config->stop[i] < config->model.vocab_size);
        CLAIM(i == 0 || config->stop[i - 1] < config->stop[i]);
    }
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        CLAIM(isfinite(reals[i]) && reals[i] >= 0);
    CLAIM(g->do_sample <= 1);
    struct blob_model model = config->model;
    struct error error;
    model.dtype = DTYPE_INT8;
    if (!smol_model_check(&model, &error)) {
        CLAIM(model.n_heads % model.n_kv_heads == 0);
        CLAIM(smol_tensor_count(&model) > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config;
    struct settings tokenizer;
    struct error error;
    write_files(data, size);
    if (!smol_config_open(folder.temporary.folder, &config, &tokenizer, &error))
        check_config(&config);
    smol_settings_close(&tokenizer);
    return 0;
}
