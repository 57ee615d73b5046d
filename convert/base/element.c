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
};

bool smol_element_find(const char *name, size_t length, enum safetensors_dtype *dtype)
{
    for (unsigned i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
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

bool smol_element_is_weight(enum safetensors_dtype dtype)
{
    return dtypes[dtype].is_weight;
}
