/* Section kinds, see sections.h. */
#include "format/sections.h"

/* All kinds, in the order of the file. Each bit of `feature` requires the section; 0: every blob
 * has it. */
static const struct {
    uint32_t kind;
    const char *name;
    uint64_t feature;
} sections[] = {
    {SECTION_MODEL, "model", 0},
    {SECTION_INV_FREQ, "inv_freq", 0},
    {SECTION_STOP, "stop", 0},
    {SECTION_GENERATION, "generation", 0},
    {SECTION_PROVENANCE, "provenance", 0},
    {SECTION_TENSORS, "tensors", 0},
    {SECTION_DIGESTS, "digests", 0},
    {SECTION_LAYERS, "layers", FEATURE_BLOCKS},
    {SECTION_TEMPLATE, "template", FEATURE_TEMPLATE},
    {SECTION_SCANNER, "scanner", FEATURE_SCANNER},
    {SECTION_TEXT, "text", FEATURE_TEXT},
    {SECTION_LEVELS, "levels", FEATURE_MIXED},
    {SECTION_ENCODER, "encoder", FEATURE_ENCODER | FEATURE_EMBEDDER},
    {SECTION_STATES, "states", FEATURE_STATES},
    {SECTION_EXPERTS, "experts", FEATURE_EXPERTS},
    {SECTION_EMBEDDER, "embedder", FEATURE_EMBEDDER},
    {SECTION_HYBRID, "hybrid", FEATURE_HYBRID},
    {SECTION_LATENT, "latent", FEATURE_LATENT},
    {SECTION_VARIED, "varied", FEATURE_VARIED},
    {SECTION_PARTIAL, "partial", FEATURE_PARTIAL},
    {SECTION_TOKENIZER, "tokenizer", 0},
    {SECTION_WEIGHTS, "weights", 0},
};
enum { N_KINDS = sizeof sections / sizeof sections[0] };
_Static_assert(sizeof sections / sizeof sections[0] <= MAX_SECTIONS, "room for all kinds");

size_t smol_list_sections(uint64_t features, uint32_t kinds[MAX_SECTIONS])
{
    size_t n = 0;
    for (size_t i = 0; i < N_KINDS; i++)
        if (!sections[i].feature || sections[i].feature & features)
            kinds[n++] = sections[i].kind;
    return n;
}

const char *smol_section_name(uint32_t kind)
{
    size_t i = 0;
    while (sections[i].kind != kind)
        i++;
    return sections[i].name;
}
