/* Prints the settings of a model as text, see describe.h: what a blob holds beside its tensors, and
 * what it would hold of a checkpoint. */
#include "convert/inspect/describe.h"

#include <inttypes.h>
#include <string.h>

#include "cli/quote.h"
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
    fprintf(out, "%-18s attention %s, mlp %s\n", "biases", smol_bias_name(m->attention_bias),
            m->mlp_bias ? "yes" : "no");
}

/* Prints the layers that have the bit, if any. */
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

/* Prints the components that the model has, if any. */
static void print_components(const struct blob_model *m, FILE *out)
{
    static const struct {
        enum block_bit bit;
        const char *name;
    } components[] = {
        {BLOCK_LAYER_NORM, "LayerNorm"},
        {BLOCK_NO_GATE, "MLP without gate"},
        {BLOCK_PARALLEL, "attention and MLP in parallel"},
        {BLOCK_ONE_NORM, "one norm for both"},
        {BLOCK_POSITIONS, "learned positions"},
        {BLOCK_OUTPUT_BIAS, "output bias"},
        {BLOCK_ROTATE_NEIGHBOURS, "rope of neighbours"},
        {BLOCK_ATTENTION_GATE, "gated attention"},
        {BLOCK_GATE_HEADS, "one gate of each head"},
        {BLOCK_RELATIVE, "relative positions"},
        {BLOCK_SINKS, "sinks of attention"},
    };
    const char *before = "";
    for (size_t i = 0; i < sizeof components / sizeof components[0]; i++) {
        if (!(m->blocks & components[i].bit))
            continue;
        fprintf(out, "%-*s %s", *before ? 1 : 18, *before ? "," : "components", components[i].name);
        before = ",";
    }
    if (*before)
        fprintf(out, "\n");
    if (m->query_period)
        fprintf(out, "%-18s 1 + %g ln(1 + floor(position / %" PRIu32 "))\n", "query scale",
                (double)m->query_growth, m->query_period);
}

/* Prints the fields in which the model differs from a plain one. */
static void print_blocks(const struct blob *blob, FILE *out)
{
    const struct blob_model *m = blob->model;
    if (smol_model_is_plain(m))
        return;
    fprintf(out, "%-18s %s\n", "activation", smol_activation_name(m->activation));
    fprintf(out, "%-18s%s%s%s%s%s\n", "norms", m->blocks & BLOCK_NO_INPUT_NORMS ? "" : " inputs",
            m->blocks & BLOCK_NORM_OUTPUTS ? " outputs" : "",
            m->blocks & BLOCK_QK_NORM_HEADS ? " q-heads k-heads" : "",
            m->blocks & BLOCK_QK_NORM_ALL ? " q k" : "",
            m->blocks & BLOCK_QK_NORM_LATE ? " (after rope)" : "");
    print_components(m, out);
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

/* Prints the numbers of the model's layers in a set. */
static void print_set(const struct blob_model *m, const uint8_t *set, FILE *out)
{
    for (uint32_t i = 0; i < m->n_layers; i++)
        if (layers_have(set, i))
            fprintf(out, " %" PRIu32, i);
}

/* Prints the layers with states, if any. */
static void print_states(const struct blob_model *m, FILE *out)
{
    if (!m->states.kind)
        return;
    fprintf(out, "%-18s %s, %" PRIu32 " taps%s", "states", smol_state_name(m->states.kind),
            m->states.taps, m->states.biases ? ", biases" : "");
    if (m->states.n_heads)
        fprintf(out, ", %" PRIu32 " heads of %" PRIu32 " by %" PRIu32 " in %" PRIu32 " groups",
                m->states.n_heads, m->states.head_dim, m->states.size, m->states.n_groups);
    fprintf(out, ", in layers");
    print_set(m, m->states.layers, out);
    fprintf(out, "\n");
}

/* Prints the scales of attention and states side by side, if the model has both. */
static void print_hybrid(const struct blob_model *m, FILE *out)
{
    const struct blob_hybrid *h = &m->hybrid;
    if (!h->parallel)
        return;
    fprintf(out, "%-18s attention too, norm %s%s%s\n", "beside states",
            smol_mixer_norm_name(h->norm), h->input_biases ? ", biases of inputs" : "",
            h->output_bias ? ", bias of the output" : "");
    fprintf(out, "%-18s attention %g, %g; state %g, %g; mlp %g, %g\n", "scales in, out",
            (double)h->attention_in, (double)h->attention_out, (double)h->mixer_in,
            (double)h->mixer_out, (double)h->mlp_gate, (double)h->mlp_out);
    fprintf(out, "%-18s gate %g, x %g, b %g, c %g, step %g\n", "scales of a state", (double)h->gate,
            (double)h->x, (double)h->b, (double)h->c, (double)h->step);
}

/* Prints what the layers with experts have, if any. */
static void print_experts(const struct blob_model *m, FILE *out)
{
    const struct blob_experts *x = &m->experts;
    if (x->n_experts == 0)
        return;
    char active[AMOUNT];
    fprintf(out,
            "%-18s %" PRIu32 " in each of %" PRIu32 " layers, of which a token uses %" PRIu32
            ", %s%s%s\n",
            "experts", x->n_experts, smol_experts_layers(m), x->n_used,
            smol_scoring_name(x->scoring), x->normalizes ? ", normalized" : "",
            x->choice_bias ? ", with a bias for the choice" : "");
    fprintf(out, "%-18s %" PRIu32 " of each expert", "widths", x->width);
    if (x->shared_width)
        fprintf(out, ", %" PRIu32 " of the shared MLP%s", x->shared_width,
                x->shared_gate ? ", which has a gate"
                : x->own_norms ? ", each with norms of its own"
                               : "");
    fprintf(out, "\n%-18s %s parameters for each token\n", "active",
            smol_count_text(smol_experts_active(m), active));
    if (x->scale != 1)
        fprintf(out, "%-18s %g\n", "expert scale", (double)x->scale);
    if (x->qkv_clip > 0)
        fprintf(out, "%-18s %g\n", "q, k, v within", (double)x->qkv_clip);
}

/* Prints the rules of a text section, in the order in which they apply. */
static void print_text_rules(const struct blob_text *rules, FILE *out)
{
    static const char *const flags[] = {NULL, "byte fallback", NULL, "whole words", NULL, NULL};
    fprintf(out, "%-18s %" PRIu32 " steps before added tokens, %" PRIu32 " after", "text",
            rules->n_steps, rules->n_late_steps);
    if (rules->n_letters)
        fprintf(out, ", NFC");
    for (unsigned i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (flags[i] && rules->flags >> i & 1)
            fprintf(out, ", %s", flags[i]);
    if (rules->unknown_id != NO_TOKEN)
        fprintf(out, ", unknown is %" PRIu32, rules->unknown_id);
    fprintf(out, "; %" PRIu32 " tokens before a text, %" PRIu32 " after\n", rules->n_before,
            rules->n_after);
}

static void print_tokens(const struct blob *blob, FILE *out)
{
    const struct blob_tokenizer *t = &blob->tokenizer.header;
    const struct blob_text *rules = &blob->tokenizer.rules.header;
    bool characters = rules->flags & TEXT_CHARACTERS;
    static const char *const models[] = {NULL, "WordPiece", "Unigram"};
    const char *kind = rules->model != TEXT_MERGES ? models[rules->model]
                       : characters                ? "character-level BPE"
                                                   : "byte-level BPE";
    fprintf(out, "%-18s %s, %" PRIu32 " tokens, %" PRIu32 " added, ", "tokenizer", kind,
            t->n_tokens, t->n_added);
    if (characters && !blob->n_scanner)
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

/* Prints a text of the template section, which is untrusted. */
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
    if (code->header.tool_style != TOOLS_NONE)
        fprintf(out, "%-18s %s\n", "tool calls", smol_tool_style_name(code->header.tool_style));
}

const char *smol_pooling_name(enum encoder_pooling pooling)
{
    static const char *const names[] = {"mean", "first token", "largest", "last token"};
    return names[pooling];
}

const char *smol_bias_name(enum bias_kind bias)
{
    static const char *const names[] = {
        [BIAS_NONE] = "no", [BIAS_QKVO] = "yes", [BIAS_QKV] = "q, k, v"};
    return names[bias];
}

/* Prints how a model makes embeddings, or scores. */
static void print_embedder(const struct blob *blob, FILE *out)
{
    static const char *const scores[] = {"", ", a score", ", a score from 0 to 1"};
    const struct embedder *embedder = &blob->embedder;
    const struct blob_embedder *header = embedder->header;
    if (!blob->encoder)
        return;
    fprintf(out, "%-18s %s, of %" PRIu32 " values%s%s, texts of %" PRIu32 " tokens\n", "embeddings",
            smol_pooling_name(blob->encoder->pooling),
            smol_embedder_width(embedder, blob->model->hidden_size),
            blob->encoder->normalizes ? ", of length 1" : "", scores[header ? header->score : 0],
            blob->encoder->max_length);
    for (size_t i = 0; header && i < header->n_prompts; i++) {
        const char *name = embedder_prompt_name(embedder, i);
        const char *text = embedder_prompt_text(embedder, i);
        fprintf(out, "%-18s ", i == header->default_prompt ? "default prompt" : "prompt");
        smol_print_text(out, name, strlen(name));
        fprintf(out, ": ");
        smol_print_text(out, text, strlen(text));
        fprintf(out, "\n");
    }
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

/* Prints what attention to latent vectors has. */
static void print_latent(const struct blob_latent *latent, FILE *out)
{
    if (latent->kv_rank == 0)
        return;
    fprintf(out,
            "%-18s %" PRIu32 " channels, queries of %" PRIu32 ", values of %" PRIu32 ", norms %g",
            "latent vectors", latent->kv_rank, latent->query_dim, latent->value_dim,
            (double)latent->norm_eps);
    if (latent->q_rank)
        fprintf(out, ", queries by way of %" PRIu32, latent->q_rank);
    fprintf(out, "\n");
}

/* Prints how layers differ in shape. */
static void print_varied(const struct blob_model *m, FILE *out)
{
    const struct blob_varied *v = &m->varied;
    if (!model_is_varied(m))
        return;
    fprintf(out, "%-18s head_dim %" PRIu32 ", n_kv_heads %" PRIu32 "%s, in layers", "second heads",
            v->head_dim, v->n_kv_heads, v->keys_are_values ? ", keys are values" : "");
    print_set(m, v->second, out);
    fprintf(out, "\n");
    if (v->first_shared < m->n_layers)
        fprintf(out,
                "%-18s keys and values from layer %" PRIu32 " on, intermediate_size %" PRIu32 "\n",
                "shared", v->first_shared, v->shared_width);
    if (v->input_width)
        fprintf(out, "%-18s %" PRIu32 " channels, scales %g, %g, %g\n", "layer inputs",
                v->input_width, (double)v->input_scale, (double)v->projection_scale,
                (double)v->sum_scale);
}

/* Prints which layers lack a block. */
static void print_partial(const struct blob_model *m, FILE *out)
{
    if (!smol_model_is_partial(m))
        return;
    fprintf(out, "%-18s", "only an MLP");
    print_set(m, m->partial.no_mixer, out);
    fprintf(out, "\n%-18s", "no MLP");
    print_set(m, m->partial.no_mlp, out);
    fprintf(out, "\n");
}

void smol_describe_settings(const struct blob *blob, FILE *out)
{
    print_model(blob, out);
    print_blocks(blob, out);
    print_states(blob->model, out);
    print_hybrid(blob->model, out);
    print_experts(blob->model, out);
    print_latent(&blob->model->latent, out);
    print_varied(blob->model, out);
    print_partial(blob->model, out);
    print_tokens(blob, out);
    print_template(blob, out);
    print_embedder(blob, out);
    print_generation(blob, out);
}
