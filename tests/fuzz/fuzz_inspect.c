/* Describing a file. An input says which kind it is, and holds a blob as build.h has it or the
 * header of a safetensors file. Lines for people cannot steer a terminal, what is for scripts is
 * JSON, and a page is text without a tag that only a stranger would write. */
#include <stdbool.h>

#include "common/utf8.h"
#include "convert/inspect/inspect.h"
#include "runtime/template/template_value.h"
#include "tests/fuzz/files.h"
#include "tests/fuzz/weights_file.h"

static bool is_expected(smol_status status)
{
    return status == SMOL_OK || status == SMOL_ERROR_DAMAGED || status == SMOL_ERROR_UNSUPPORTED;
}

static void check_lines(const char *text, size_t size)
{
    CLAIM(smol_utf8_well_formed((const uint8_t *)text, size) == size);
    for (size_t i = 0; i < size; i++)
        CLAIM(!is_control(text[i]) || text[i] == '\n');
}

static void check_json(const char *text, size_t size)
{
    smol_error error;
    struct value value;
    struct machine machine = {.error = &error, .steps = TEMPLATE_STEPS};
    bool good = smol_template_read_json(&machine, "inspect", text, size, &value);
    CLAIM(good ? value.type == VALUE_DICT : machine.status == SMOL_ERROR_UNSUPPORTED);
    smol_template_free(&machine);
}

static smol_status inspect(const char *path, bool as_json, bool with_statistics)
{
    const struct inspect_request request = {.as_json = as_json,
                                            .with_tensors = true,
                                            .with_statistics = with_statistics,
                                            .n_threads = 1};
    char *text = NULL;
    size_t size = 0;
    smol_error error;
    FILE *out = open_memstream(&text, &size);
    CLAIM(out);
    smol_status status = smol_inspect(path, &request, out, &error);
    CLAIM(!fclose(out) && is_expected(status));
    if (!status && as_json)
        check_json(text, size);
    else
        check_lines(text, size);
    free(text);
    return status;
}

static smol_status report(const char *path)
{
    static const char *const foreign[] = {"<script", "<x", "<!--"};
    const struct report_options options = {
        .output = fuzz_path("page.html"), .n_threads = 1, .force = 1, .quiet = 1};
    smol_error error;
    fuzz_remove("page.html");
    smol_status status = smol_report(path, &options, &error);
    struct built page = fuzz_read("page.html");
    CLAIM(is_expected(status) && !status == (page.data != NULL));
    if (!status) {
        check_lines((const char *)page.data, page.size);
        for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
            CLAIM(!memmem(page.data, page.size, foreign[i], strlen(foreign[i])));
    }
    free(page.data);
    return status;
}

static const char *write_file(struct fuzz_input *in, bool is_blob)
{
    struct built file;
    if (is_blob)
        file = fuzz_build_blob(in);
    else
        file.data = fuzz_weights_file(in->data, in->size, &file.size);
    const char *path = fuzz_write(is_blob ? "x.smol" : "x.safetensors", file.data, file.size);
    free(file.data);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    char path[128];
    uint8_t kind = fuzz_take_byte(&in);
    snprintf(path, sizeof path, "%s", write_file(&in, kind & 1));
    smol_status status = inspect(path, kind & 2, false);
    smol_status with_statistics = inspect(path, kind & 2, true);
    /* damaged data are seen only by those who read them */
    CLAIM(status ? with_statistics != SMOL_OK
                 : with_statistics == SMOL_OK || with_statistics == SMOL_ERROR_DAMAGED);
    CLAIM(report(path) == with_statistics);
    return 0;
}
