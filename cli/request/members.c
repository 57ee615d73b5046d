/* Members of requests, see members.h. */
#include "cli/request/members.h"

#include <stdlib.h>
#include <string.h>

smol_status smol_member_fail(struct request_reader *r, const char *what)
{
    return smol_fail(r->json.error, SMOL_ERROR_USAGE, "%s: %s", r->field, what);
}

bool smol_member_is(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

/* --- values ------------------------------------------------------------------------------- */

smol_status smol_member_copy(struct request_reader *r, const void *text, size_t size, char **out)
{
    *out = malloc(size + 1);
    if (!*out)
        return smol_fail_memory(r->json.error, "a request");
    memcpy(*out, text, size);
    (*out)[size] = '\0';
    return SMOL_OK;
}

bool smol_member_next_is_number(struct request_reader *r)
{
    int c = smol_json_peek(&r->json);
    return c == '-' || (c >= '0' && c <= '9');
}

/* Converts a number. Sets *whole to whether it is one without a fraction, as 1, 1.0 and 1e0 are. */
static smol_status to_whole(struct request_reader *r, const struct json_number *number,
                            uint64_t *out, bool *whole)
{
    const double most = 9007199254740992; /* 2^53: doubles express all whole numbers below */
    double real = 0;
    *whole = smol_json_to_u64(number, out);
    if (*whole)
        return SMOL_OK;
    smol_status status = smol_json_to_real(&r->json, number, &real);
    *whole = !status && real >= 0 && real <= most && real == (double)(uint64_t)real;
    *out = *whole ? (uint64_t)real : 0;
    return status;
}

smol_status smol_member_whole(struct request_reader *r, uint64_t most, uint64_t *out)
{
    struct json_number number = {0};
    smol_status status = SMOL_OK;
    bool whole = smol_member_next_is_number(r);
    if (whole)
        status = smol_json_number(&r->json, &number);
    if (!status && whole)
        status = to_whole(r, &number, out, &whole);
    if (status)
        return status;
    if (!whole || *out > most)
        return smol_fail(r->json.error, SMOL_ERROR_USAGE,
                         "%s: expected a whole number from 0 to %llu", r->field,
                         (unsigned long long)most);
    return SMOL_OK;
}

smol_status smol_member_real(struct request_reader *r, float low, float high, float *out)
{
    struct json_number number;
    double real = (double)low - 1;
    smol_status status = SMOL_OK;
    if (smol_member_next_is_number(r)) {
        status = smol_json_number(&r->json, &number);
        if (!status)
            status = smol_json_to_real(&r->json, &number, &real);
    }
    if (status)
        return status;
    if (!(real >= (double)low && real <= (double)high))
        return smol_fail(r->json.error, SMOL_ERROR_USAGE, "%s: expected a number from %g to %g",
                         r->field, (double)low, (double)high);
    *out = (float)real;
    return SMOL_OK;
}

smol_status smol_member_flag(struct request_reader *r, bool *out)
{
    *out = smol_json_word(&r->json, "true");
    return *out || smol_json_word(&r->json, "false")
               ? SMOL_OK
               : smol_member_fail(r, "expected true or false");
}

smol_status smol_member_text(struct request_reader *r, char **out, size_t *size)
{
    if (smol_json_peek(&r->json) != '"')
        return smol_member_fail(r, "expected a string");
    smol_status status = smol_json_string(&r->json, r->scratch, size);
    return status ? status : smol_member_copy(r, r->scratch, *size, out);
}

smol_status smol_member_word(struct request_reader *r, const char *const *words, const char *what,
                             size_t *index)
{
    size_t length;
    if (smol_json_peek(&r->json) != '"')
        return smol_member_fail(r, what);
    smol_status status = smol_json_string(&r->json, r->scratch, &length);
    if (status)
        return status;
    for (*index = 0; words[*index]; ++*index)
        if (smol_member_is(r->scratch, length, words[*index]))
            return SMOL_OK;
    return smol_member_fail(r, what);
}

smol_status smol_member_each(struct request_reader *r, char bracket,
                             smol_status (*read)(struct request_reader *r), size_t *n)
{
    bool more = false;
    *n = 0;
    smol_status status = smol_json_begin(&r->json, bracket, &more);
    while (!status && more) {
        status = read(r);
        ++*n;
        if (!status)
            status = smol_json_more(&r->json, bracket == '[' ? ']' : '}', &more);
    }
    return status;
}

smol_status smol_member_copy_json(struct request_reader *r, char bracket, char **out)
{
    int next = smol_json_peek(&r->json);
    if (bracket && next != bracket)
        return smol_member_fail(r, bracket == '[' ? "expected a list" : "expected an object");
    const uint8_t *start = r->json.at;
    smol_status status = smol_json_skip(&r->json);
    return status ? status : smol_member_copy(r, start, (size_t)(r->json.at - start), out);
}

smol_status smol_member_seek(struct json_reader *json, char *scratch, const char *name, bool *found)
{
    size_t length;
    bool more = false;
    *found = false;
    smol_status status = smol_json_begin(json, '{', &more);
    while (!status && more) {
        status = smol_json_name(json, scratch, &length);
        *found = !status && smol_member_is(scratch, length, name);
        if (status || *found)
            return status;
        status = smol_json_skip(json);
        if (!status)
            status = smol_json_more(json, '}', &more);
    }
    return status;
}

smol_status smol_member_only(struct request_reader *r, struct json_reader json,
                             const char *const *names)
{
    size_t length;
    bool more = false;
    smol_status status = smol_json_begin(&json, '{', &more);
    while (!status && more) {
        const char *const *name = names;
        status = smol_json_name(&json, r->scratch, &length);
        while (!status && *name && !smol_member_is(r->scratch, length, *name))
            name++;
        if (!status && !*name && !smol_json_word(&json, "null"))
            return smol_fail(json.error, SMOL_ERROR_USAGE, "%s: %.*s: no such member of it",
                             r->field, (int)(length < 64 ? length : 64), r->scratch);
        if (!status && *name)
            status = smol_json_skip(&json);
        if (!status)
            status = smol_json_more(&json, '}', &more);
    }
    return status;
}

/* --- the object --------------------------------------------------------------------------- */

struct request_reader smol_request_reader(const char *text, size_t size, struct request *request,
                                          void *own, char *scratch, smol_error *error)
{
    const uint8_t *start = (const uint8_t *)text;
    return (struct request_reader){
        .json = {.start = start,
                 .at = start,
                 .end = start + size,
                 .name = "request",
                 .fault = "not valid JSON",
                 .advice = "",
                 .status = SMOL_ERROR_USAGE,
                 .error = error},
        .request = request,
        .own = own,
        .scratch = scratch,
    };
}

smol_status smol_request_begin(struct request_reader *r)
{
    smol_status status = smol_json_check_utf8(&r->json);
    if (!status && smol_json_peek(&r->json) != '{')
        status =
            smol_fail(r->json.error, SMOL_ERROR_USAGE, "request: expected an object (byte %zu)",
                      (size_t)(r->json.at - r->json.start));
    return status;
}

static smol_status read_member(struct request_reader *r, const struct request_member *members,
                               size_t n)
{
    size_t length, i = 0;
    r->field = NULL;
    smol_status status = smol_json_name(&r->json, r->scratch, &length);
    if (status)
        return status;
    while (i < n && !smol_member_is(r->scratch, length, members[i].name))
        i++;
    r->field = i < n ? members[i].name : r->scratch;
    if (i == n)
        return smol_fail(r->json.error, SMOL_ERROR_USAGE, "%.*s: no such member of a request",
                         (int)(length < 64 ? length : 64), r->scratch);
    if (r->seen & UINT64_C(1) << i)
        return smol_member_fail(r, "appears twice");
    r->seen |= UINT64_C(1) << i;
    return smol_json_word(&r->json, "null") ? SMOL_OK : members[i].set(r);
}

smol_status smol_request_members(struct request_reader *r, const struct request_member *members,
                                 size_t n)
{
    bool more = false;
    smol_status status = smol_request_begin(r);
    if (!status)
        status = smol_json_begin(&r->json, '{', &more);
    while (!status && more) {
        status = read_member(r, members, n);
        if (status)
            return status;
        r->field = NULL;
        status = smol_json_more(&r->json, '}', &more);
    }
    return status ? status : smol_json_end(&r->json);
}
