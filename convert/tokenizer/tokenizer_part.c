/* The refusal of a part, see tokenizer_part.h. */
#include "convert/tokenizer/tokenizer_part.h"

#include <stdlib.h>

smol_status smol_part_refuse(const char *path, const char *what, const json_t *value,
                             smol_error *error)
{
    char *quoted =
        json_dumps(value ? value : json_null(), JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    smol_status status = smol_fail(error, SMOL_ERROR_UNSUPPORTED,
                                   "%s: %s is not supported (%.200s): see README.md, What it reads",
                                   path, what, quoted ? quoted : "too large to quote");
    free(quoted);
    return status;
}
