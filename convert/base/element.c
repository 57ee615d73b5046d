/* The table of element types, see element.h. */
#include "convert/base/element.h"

static const struct {
    const char *name;
    unsigned bits;
    bool is_weight;
} dtypes[] = {
    [ST_BOOL] = {"BOOL", 8, false},
    [ST_F4] = {"F4", 4, false},
    [ST_F6_E2M3] = {"F6_E2M3", 6, false},
    [ST_F6_E3M2] = {"F6_E3M2", 6, false},
    [ST_U8] = {"U8", 8, false},
    [ST_I8] = {"I8", 8, false},
    [ST_F8_E5M2] = {"F8_E5M2", 8, true},
    [ST_F8_E4M3] = {"F8_E4M3", 8, true},
    [ST_F8_E8M0] = {"F8_E8M0", 8, false},
    [ST_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8, false},
    [ST_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8, false},
    [ST_I16] = {"I16", 16, false},
    [ST_U16] = {"U16", 16, false},
    [ST_F16] = {"F16", 16, true},
    [ST_BF16] = {"BF16", 16, true},
    [ST_I32] = {"I32", 32, false},
    [ST_U32] = {"U32", 32, false},
    [ST_F32] = {"F32", 32, true},
    [ST_C64] = {"C64", 64, false},
    [ST_F64] = {"F64", 64, false},
    [ST_I64] = {"I64", 64, false},
    [ST_U64] = {"U64", 64, false},
    [ST_Q4_0] = {"Q4_0", 0, true},
    [ST_Q4_1] = {"Q4_1", 0, true},
    [ST_Q5_0] = {"Q5_0", 0, true},
    [ST_Q5_1] = {"Q5_1", 0, true},
    [ST_Q8_0] = {"Q8_0", 0, true},
    [ST_Q2_K] = {"Q2_K", 0, true},
    [ST_Q3_K] = {"Q3_K", 0, true},
    [ST_Q4_K] = {"Q4_K", 0, true},
    [ST_Q5_K] = {"Q5_K", 0, true},
    [ST_Q6_K] = {"Q6_K", 0, true},
    [ST_IQ4_NL] = {"IQ4_NL", 0, true},
    [ST_IQ4_XS] = {"IQ4_XS", 0, true},
};

static const struct element_block blocks[] = {
    [ST_Q4_0 - N_SAFETENSORS_DTYPES] = {32, 18},   [ST_Q4_1 - N_SAFETENSORS_DTYPES] = {32, 20},
    [ST_Q5_0 - N_SAFETENSORS_DTYPES] = {32, 22},   [ST_Q5_1 - N_SAFETENSORS_DTYPES] = {32, 24},
    [ST_Q8_0 - N_SAFETENSORS_DTYPES] = {32, 34},   [ST_Q2_K - N_SAFETENSORS_DTYPES] = {256, 84},
    [ST_Q3_K - N_SAFETENSORS_DTYPES] = {256, 110}, [ST_Q4_K - N_SAFETENSORS_DTYPES] = {256, 144},
    [ST_Q5_K - N_SAFETENSORS_DTYPES] = {256, 176}, [ST_Q6_K - N_SAFETENSORS_DTYPES] = {256, 210},
    [ST_IQ4_NL - N_SAFETENSORS_DTYPES] = {32, 18}, [ST_IQ4_XS - N_SAFETENSORS_DTYPES] = {256, 136},
};

bool smol_element_find(const char *name, size_t length, enum safetensors_dtype *dtype)
{
    for (unsigned i = 0; i < N_SAFETENSORS_DTYPES; i++)
        if (length == strlen(dtypes[i].name) && memcmp(name, dtypes[i].name, length) == 0) {
            *dtype = (enum safetensors_dtype)i;
            return true;
        }
    return false;
}

const char *smol_element_name(enum safetensors_dtype dtype)
{
    return dtypes[dtype].name;
}

unsigned smol_element_bits(enum safetensors_dtype dtype)
{
    return dtypes[dtype].bits;
}

struct element_block smol_element_block(enum safetensors_dtype dtype)
{
    if (dtype >= N_SAFETENSORS_DTYPES)
        return blocks[dtype - N_SAFETENSORS_DTYPES];
    return (struct element_block){1, dtypes[dtype].bits / 8};
}

bool smol_element_is_weight(enum safetensors_dtype dtype)
{
    return dtypes[dtype].is_weight;
}
