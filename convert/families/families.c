/* Joins the tables of families and searches them, see family.h. To add a family, copy the most
 * similar entry of a file beside this one; docs/families.md has the steps. A new file needs a line
 * in tables.h and one here.
 *
 * Defaults are those of transformers 5.23. Earlier versions have the same defaults, some under
 * other keys of config.json. */
#include "convert/families/tables.h"
#include "format/model.h"

#include <stdio.h>
#include <string.h>

/* Where the blocks and the activation, or a tensor's name, fit several families, the first is
 * found: Llama's and BERT's stand for those that look like them. */
static const struct family_table *const tables[] = {
    &smol_llama_families,      /* and those that differ in settings or places of norms */
    &smol_qwen_families,       /* all of Qwen, with experts and DeltaNet too */
    &smol_granite_families,    /* all of Granite, with experts and Mamba2 too */
    &smol_olmo_families,       /* all of OLMo, with experts too */
    &smol_latent_families,     /* attention to latent vectors */
    &smol_lfm_families,        /* all of LFM: short convolutions */
    &smol_mamba_families,      /* Mamba2 */
    &smol_gemma_families,      /* all of Gemma */
    &smol_layer_norm_families, /* decoders with LayerNorms */
    &smol_encoder_families,
};

const struct family *smol_family_at(size_t i)
{
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; i -= tables[t++]->n)
        if (i < tables[t]->n)
            return &tables[t]->families[i];
    return NULL;
}

enum { N_NAMES = 4 };

/* Writes the architectures of a family. Returns their number. */
static size_t names_of(const struct family *family, const char *names[N_NAMES])
{
    const char *const all[N_NAMES] = {family->architecture, family->body, family->pretrained,
                                      family->scorer};
    size_t n = 0;
    for (size_t i = 0; i < N_NAMES; i++)
        if (all[i])
            names[n++] = all[i];
    return n;
}

const struct family *smol_family_by_architecture(const char *name)
{
    const struct family *family;
    for (size_t i = 0; (family = smol_family_at(i)); i++) {
        const char *names[N_NAMES];
        size_t n = names_of(family, names);
        for (size_t j = 0; j < n; j++)
            if (strcmp(names[j], name) == 0)
                return family;
    }
    return NULL;
}

const struct family *smol_family_by_model_type(const char *name)
{
    const struct family *family;
    for (size_t i = 0; (family = smol_family_at(i)); i++)
        if (strcmp(family->model_type, name) == 0)
            return family;
    return NULL;
}

/* Returns whether checkpoints of the family have the tensors of `model`, as far as its blocks say.
 */
static bool has_blocks(const struct family *family, const struct blob_model *model, bool encodes)
{
    bool has_experts = model->experts.n_experts > 0, single = family->has_single_blocks;
    uint32_t switched = family->switched[0].bits | family->switched[1].bits;
    return ((family->blocks ^ model->blocks) & ~switched) == 0 &&
           ((family->experts.n.fallback > 0) == has_experts ||
            (!has_experts &&
             (family->experts.may_be_none || family->experts.enabled_key || single))) &&
           (family->state == model->states.kind || (single && !model->states.kind)) &&
           single == smol_model_is_partial(model) &&
           (family->latent.kv_rank > 0) == model_has_latent(model) &&
           family->varies == model_is_varied(model) &&
           family->attends_beside == (model->hybrid.parallel > 0) &&
           (family->encodes == encodes || family->encodes_key);
}

const struct family *smol_family_of(const struct blob_model *model, bool encodes)
{
    const struct family *family, *first = NULL;
    for (size_t i = 0; (family = smol_family_at(i)); i++) {
        if (!has_blocks(family, model, encodes))
            continue;
        if (family->activation == model->activation)
            return family; /* Gemma's names are Llama's, but not what its norms hold */
        first = first ? first : family;
    }
    return first ? first : smol_family_at(0);
}

/* Returns the length of an architecture's name without the words that most of them end with. */
static size_t short_length(const char *name)
{
    static const char *const ends[] = {"ForCausalLM", "ForMaskedLM", "LMHeadModel", "Model"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const char *end = strstr(name, ends[i]);
        if (end)
            return (size_t)(end - name);
    }
    return strlen(name);
}

/* Returns the family that `name` belongs to, with other layers after the last block than smolconv
 * reads, or NULL. */
static const struct family *relative_of(const char *name)
{
    const struct family *family;
    for (size_t i = 0; (family = smol_family_at(i)); i++) {
        const char *known = family->architecture;
        size_t n = known ? short_length(known) : 0;
        if (known && strncmp(name, known, n) == 0 &&
            (strncmp(name + n, "For", 3) == 0 || strcmp(name + n, "Model") == 0))
            return family;
    }
    return NULL;
}

const char *smol_family_remedy(const char *name, char text[FAMILY_REMEDY])
{
    const struct family *relative = name ? relative_of(name) : NULL;
    const char *names[N_NAMES] = {0};
    size_t n = relative ? names_of(relative, names) : 0;
    size_t length =
        (size_t)snprintf(text, FAMILY_REMEDY,
                         relative ? "smolconv reads" : "docs/families.md lists what is supported");
    for (size_t i = 0; i < n && length < FAMILY_REMEDY; i++)
        length += (size_t)snprintf(text + length, FAMILY_REMEDY - length, "%s %s", i ? "," : "",
                                   names[i]);
    return text;
}
