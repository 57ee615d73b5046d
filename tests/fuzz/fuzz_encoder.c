/* The files of sentence-transformers. An input is modules.json, the settings of the model, those of
 * the Transformer, those of all other modules, whose folder is "m", and the header of a dense
 * layer's tensors, each ended by a NUL. What is accepted makes a good section of a blob. */
#include <sys/stat.h>

#include "convert/checkpoint/encoder.h"
#include "format/embedder.h"
#include "tests/fuzz/files.h"
#include "tests/fuzz/weights_file.h"

static const struct blob_model model = {
    .dtype = DTYPE_F32, .hidden_size = 2, .vocab_size = 5, .context_length = 64};

/* Takes the part up to the next NUL. */
static struct fuzz_input take_part(struct fuzz_input *in)
{
    const uint8_t *end = in->size > 0 ? memchr(in->data, 0, in->size) : NULL;
    struct fuzz_input part = {in->data, end ? (size_t)(end - in->data) : in->size};
    size_t taken = part.size + (end != NULL);
    in->data += taken;
    in->size -= taken;
    return part;
}

static void write_files(struct fuzz_input in)
{
    static const char *const names[] = {"modules.json", "config_sentence_transformers.json",
                                        "sentence_bert_config.json", "m/config.json"};
    size_t size;
    mkdir(fuzz_path("m"), 0700);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct fuzz_input part = take_part(&in);
        if (part.size > 0)
            fuzz_write(names[i], part.data, part.size);
        else
            fuzz_remove(names[i]);
    }
    uint8_t *file = fuzz_weights_file(in.data, in.size, &size);
    fuzz_write("m/model.safetensors", file, size);
    free(file);
}

static void check(const struct encoder_config *config)
{
    const struct embedder_parts *parts = &config->parts;
    struct embedder embedder;
    uint8_t *data = NULL;
    size_t size;
    smol_error error;
    CLAIM(config->encoder.pooling < ENCODER_POOLINGS && config->encoder.max_length > 0);
    CLAIM(config->encoder.max_length <= model.context_length);
    CLAIM(parts->n_dense <= EMBEDDER_MAX_DENSE);
    CLAIM(smol_embedder_build(parts, &model, &data, &size, &error) == SMOL_OK);
    uint8_t *section = exact_copy(data, size);
    if (smol_embedder_is_needed(parts, &config->encoder, false))
        CLAIM(smol_embedder_open(section, size, &model, &embedder, &error) == SMOL_OK);
    free(section);
    free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct encoder_config config;
    smol_error error;
    write_files((struct fuzz_input){data, size});
    if (!smol_encoder_read(fuzz_folder(), &model, &config, &error))
        check(&config);
    smol_embedder_close(&config.parts);
    return 0;
}
