/* What a model is besides its weights, as lines of text, see inspect_parts.h. */
#include "convert/inspect/inspect_parts.h"

#include <inttypes.h>

#include "convert/inspect/print_text.h"
#include "format/model.h"

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
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        fprintf(out, "%-18s %" PRIu32 "\n", rows[i].name, rows[i].value);
    fprintf(out, "%-18s %g\n%-18s %g\n", "rope_theta", m->rope_theta, "rms_norm_eps",
            (double)m->rms_norm_eps);
    fprintf(out, "%-18s %s\n", "tied_embeddings", m->tied_embeddings ? "yes" : "no");
    static const char *const biases[] = {
        [BIAS_NONE] = "no", [BIAS_QKVO] = "yes", [BIAS_QKV] = "q, k, v"};
    fprintf(out, "%-18s attention %s, mlp %s\n", "biases", biases[m->attention_bias],
            m->mlp_bias ? "yes" : "no");
}

/* Which layers have a bit, if any has. */
static void print_layers(const struct blob *blob, const char *name, enum layer_bit bit, FILE *out)
{
    bool any = false;
    for (uint32_t i = 0; i < blob->model->n_layers; i++) {
        if (!(blob->layers[i] & bit))
            continue;
        if (!any)
            fprintf(out, "%-18s", name);
        any = true;
        fprintf(out, " %" PRIu32, i);
    }
    if (any)
        fprintf(out, "\n");
}

/* What sets the model apart from a plain one. */
static void print_blocks(const struct blob *blob, FILE *out)
{
    const struct blob_model *m = blob->model;
    if (smol_model_is_plain(m))
        return;
    fprintf(out, "%-18s %s\n", "activation",
            m->activation == ACTIVATION_SILU ? "silu" : "gelu_tanh");
    fprintf(out, "%-18s%s%s%s%s\n", "norms", m->blocks & BLOCK_NO_INPUT_NORMS ? "" : " inputs",
            m->blocks & BLOCK_NORM_OUTPUTS ? " outputs" : "",
            m->blocks & BLOCK_QK_NORM_HEADS ? " q-heads k-heads" : "",
            m->blocks & BLOCK_QK_NORM_ALL ? " q k" : "");
    fprintf(out, "%-18s embedding %g, residual %g, attention %g, logits 1/%g\n", "scales",
            (double)m->embedding_scale, (double)m->residual_scale, (double)m->attention_scale,
            (double)m->logit_divisor);
    fprintf(out, "%-18s attention %g, logits %g\n", "softcaps", (double)m->attention_softcap,
            (double)m->logit_softcap);
    fprintf(out, "%-18s %" PRIu32 " of %" PRIu32 " elements, scale %g", "rope", m->rotary_dim,
            m->head_dim, (double)m->rope_scale[0]);
    if (m->n_rope_tables > 1)
        fprintf(out, ", and %g by a second table", (double)m->rope_scale[1]);
    fprintf(out, "\n");
    if (m->sliding_window)
        fprintf(out, "%-18s %" PRIu32 "\n", "sliding_window", m->sliding_window);
    print_layers(blob, "windowed layers", LAYER_WINDOWED, out);
    print_layers(blob, "not rotated", LAYER_NO_ROTATION, out);
    print_layers(blob, "second table", LAYER_SECOND_TABLE, out);
}

/* What a text section asks for, in the order in which it happens. */
static void print_text_rules(const struct blob_text *rules, FILE *out)
{
    static const char *const flags[] = {NULL, "byte fallback", NULL, "whole words", NULL, NULL};
    fprintf(out, "%-18s %" PRIu32 " steps before added tokens, %" PRIu32 " behind", "text",
            rules->n_steps, rules->n_late_steps);
    if (rules->n_letters)
        fprintf(out, ", NFC");
    for (unsigned i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (flags[i] && rules->flags >> i & 1)
            fprintf(out, ", %s", flags[i]);
    if (rules->unknown_id != NO_TOKEN)
        fprintf(out, ", unknown is %" PRIu32, rules->unknown_id);
    fprintf(out, "; %" PRIu32 " tokens before a text, %" PRIu32 " behind\n", rules->n_before,
            rules->n_behind);
}

static void print_tokens(const struct blob *blob, FILE *out)
{
    const struct blob_tokenizer *t = &blob->tokenizer.header;
    const struct blob_text *rules = &blob->tokenizer.rules.header;
    bool characters = rules->flags & TEXT_CHARACTERS;
    fprintf(out, "%-18s %s BPE, %" PRIu32 " tokens, %" PRIu32 " added, ", "tokenizer",
            characters ? "character-level" : "byte-level", t->n_tokens, t->n_added);
    if (characters)
        fprintf(out, "%s\n", rules->split ? "split" : "not split");
    else if (blob->n_scanner)
        fprintf(out, "split by %" PRIu32 " patterns, %" PRIu32 " states\n",
                blob->scanner.header.n_stages, blob->scanner.header.n_states);
    else
        fprintf(out, "digits %s\n", t->pretokenizer & PRETOKENIZE_DIGITS ? "split" : "not split");
    if (blob->n_text)
        print_text_rules(rules, out);
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

/* A text of the template section, which may be anything. */
static void print_constant(const struct template_code *code, uint32_t index, FILE *out)
{
    const struct template_constant *constant = &code->constants[index];
    smol_print_text(out, (const char *)code->text + constant->value, constant->length);
}

static void print_template(const struct blob *blob, FILE *out)
{
    const struct template_code *code = &blob->template;
    if (!blob->template_section)
        return;
    fprintf(out, "%-18s ", "chat template");
    print_constant(code, code->header.name, out);
    fprintf(out, ", %" PRIu32 " bytes, ", code->header.source_size);
    if (code->header.n_functions == 0) {
        fprintf(out, "not supported: ");
        print_constant(code, code->header.reason, out);
        fprintf(out, "\n");
        return;
    }
    fprintf(out, "%" PRIu32 " operations\n", code->header.n_operations);
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

void smol_inspect_settings(const struct blob *blob, FILE *out)
{
    print_model(blob, out);
    print_blocks(blob, out);
    print_tokens(blob, out);
    print_template(blob, out);
    print_generation(blob, out);
}
