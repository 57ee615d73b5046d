/* Descriptions of blobs and safetensors files, see inspect.h. */
#include "convert/inspect.h"

#include <inttypes.h>
#include <string.h>

#include "convert/safetensors.h"
#include "format/reader.h"

/* Text from a file, control bytes shown as '?': names must not steer a terminal. */
static void print_text(FILE *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        fputc(is_control(text[i]) && text[i] != '\n' ? '?' : text[i], out);
}

static void print_bytes(FILE *out, uint64_t bytes)
{
    fprintf(out, "%" PRIu64 " bytes", bytes);
    if (bytes >= 1 << 20)
        fprintf(out, " (%.1f MiB)", (double)bytes / (1 << 20));
}

/* --- blobs -------------------------------------------------------------------------------- */

static void print_model(const struct blob *blob, FILE *out)
{
    const struct blob_model *m = blob->model;
    const struct {
        const char *name;
        uint32_t value;
    } rows[] = {
        {"layers", m->n_layers},
        {"hidden_size", m->hidden_size},
        {"intermediate_size", m->intermediate_size},
        {"n_heads", m->n_heads},
        {"n_kv_heads", m->n_kv_heads},
        {"head_dim", m->head_dim},
        {"vocab_size", m->vocab_size},
        {"context_length", m->context_length},
    };
    fprintf(out, "%-18s llama\n%-18s %s\n", "family", "dtype", smol_dtype_name(m->dtype));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        fprintf(out, "%-18s %" PRIu32 "\n", rows[i].name, rows[i].value);
    fprintf(out, "%-18s %g\n%-18s %g\n", "rope_theta", m->rope_theta, "rms_norm_eps",
            (double)m->rms_norm_eps);
    fprintf(out, "%-18s %s\n", "tied_embeddings", m->tied_embeddings ? "yes" : "no");
    fprintf(out, "%-18s attention %s, mlp %s\n", "biases", m->attention_bias ? "yes" : "no",
            m->mlp_bias ? "yes" : "no");
}

static void print_tokens(const struct blob *blob, FILE *out)
{
    const struct blob_tokenizer *t = blob->tokenizer.header;
    fprintf(out, "%-18s byte-level BPE, %" PRIu32 " tokens, %" PRIu32 " added, digits %s\n",
            "tokenizer", t->n_tokens, t->n_added,
            t->pretokenizer & PRETOKENIZE_DIGITS ? "split" : "not split");
    fprintf(out, "%-18s", "bos");
    if (blob->model->bos_id == NO_TOKEN)
        fprintf(out, " none\n");
    else
        fprintf(out, " %" PRIu32 "\n", blob->model->bos_id);
    fprintf(out, "%-18s", "stop");
    for (size_t i = 0; i < blob->n_stop; i++)
        fprintf(out, " %" PRIu32, blob->stop[i]);
    fprintf(out, "%s\n", blob->n_stop ? "" : " none");
}

static void print_generation(const struct blob *blob, FILE *out)
{
    const struct blob_generation *g = blob->generation;
    if (!g->present)
        return;
    fprintf(out, "%-18s", "generation");
    if (g->present & GENERATION_DO_SAMPLE)
        fprintf(out, " do_sample=%s", g->do_sample ? "true" : "false");
    if (g->present & GENERATION_TEMPERATURE)
        fprintf(out, " temperature=%g", (double)g->temperature);
    if (g->present & GENERATION_TOP_K)
        fprintf(out, " top_k=%" PRIu32, g->top_k);
    if (g->present & GENERATION_TOP_P)
        fprintf(out, " top_p=%g", (double)g->top_p);
    if (g->present & GENERATION_MIN_P)
        fprintf(out, " min_p=%g", (double)g->min_p);
    if (g->present & GENERATION_REPETITION_PENALTY)
        fprintf(out, " repetition_penalty=%g", (double)g->repetition_penalty);
    fprintf(out, "\n");
}

static void print_blob_tensors(const struct blob *blob, FILE *out)
{
    fprintf(out, "\n%-26s %-5s %-16s %14s %12s\n", "tensor", "dtype", "shape", "offset", "bytes");
    uint64_t n_parameters = 0;
    for (size_t i = 0; i < blob->n_tensors; i++) {
        const struct blob_tensor *t = &blob->tensors[i];
        bool alias = t->role == ROLE_OUTPUT && blob->model->tied_embeddings;
        char name[MAX_NAME], shape[48];
        smol_tensor_name((struct tensor_key){t->role, t->layer}, name);
        if (t->layout == LAYOUT_VECTOR)
            snprintf(shape, sizeof shape, "%" PRIu64, t->cols);
        else
            snprintf(shape, sizeof shape, "%" PRIu64 " x %" PRIu64, t->rows, t->cols);
        fprintf(out, "%-26s %-5s %-16s %14" PRIu64 " %12" PRIu64 "%s\n", name,
                smol_dtype_name(t->dtype), shape, t->offset, t->size, alias ? "  = embed" : "");
        n_parameters += alias ? 0 : t->rows * t->cols;
    }
    fprintf(out, "\n%" PRIu64 " parameters, ", n_parameters);
    print_bytes(out, blob->file.size);
    fprintf(out, "\n");
}

static enum status inspect_blob(const char *path, FILE *out, struct error *error)
{
    struct blob blob;
    enum status status = smol_blob_open(path, true, VERIFY_FIRST_USE, &blob, error);
    if (status)
        return status;
    fprintf(out, "%-18s .smol %u.%u\n", "format", blob.header->major, blob.header->minor);
    print_model(&blob, out);
    print_tokens(&blob, out);
    print_generation(&blob, out);
    print_text(out, blob.provenance, blob.n_provenance);
    print_blob_tensors(&blob, out);
    smol_blob_close(&blob);
    return STATUS_OK;
}

/* --- safetensors -------------------------------------------------------------------------- */

/* "[49152, 576]"; returns the number of elements. */
static uint64_t format_shape(const struct safetensors_tensor *t, char *out, size_t size)
{
    uint64_t elements = 1;
    size_t used = 0;
    for (unsigned d = 0; d < t->rank; d++) {
        used +=
            (size_t)snprintf(out + used, size - used, "%s%" PRIu64, d ? ", " : "[", t->shape[d]);
        elements *= t->shape[d];
    }
    snprintf(out + used, size - used, "%s", t->rank ? "]" : "[]");
    return elements;
}

static enum status inspect_safetensors(const char *path, FILE *out, struct error *error)
{
    struct safetensors reader;
    enum status status = smol_safetensors_open(path, &reader, error);
    if (status)
        return status;
    uint64_t n_elements = 0;
    fprintf(out, "%-8s %-20s %12s  %s\n", "dtype", "shape", "bytes", "tensor");
    for (size_t i = 0; i < reader.n_tensors; i++) {
        const struct safetensors_tensor *t = &reader.tensors[i];
        char shape[SAFETENSORS_MAX_RANK * 24 + 3];
        uint64_t elements = format_shape(t, shape, sizeof shape);
        fprintf(out, "%-8s %-20s %12" PRIu64 "  ", smol_safetensors_dtype_name(t->dtype), shape,
                t->size);
        print_text(out, t->name, strcspn(t->name, "\n"));
        fprintf(out, "\n");
        n_elements += elements;
    }
    fprintf(out, "\n%zu tensors, %" PRIu64 " elements, ", reader.n_tensors, n_elements);
    print_bytes(out, reader.file.size);
    fprintf(out, "\n");
    smol_safetensors_close(&reader);
    return STATUS_OK;
}

/* A file that begins as a blob is read as one, everything else as safetensors, whose reader
 * names other kinds of file. */
enum status smol_inspect(const char *path, FILE *out, struct error *error)
{
    struct file_view file;
    enum status status = smol_file_map(path, &file, error);
    if (status)
        return status;
    bool is_blob = file.size >= 4 && memcmp(file.data, BLOB_MAGIC, 4) == 0;
    smol_file_close(&file);
    return is_blob ? inspect_blob(path, out, error) : inspect_safetensors(path, out, error);
}
