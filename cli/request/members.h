/* Reads a request, a JSON object, member by member from a program's table. A member that is null
 * counts as absent; one that is not in the table, or appears twice, is an error. */
#ifndef SMOL_CLI_REQUEST_MEMBERS_H
#define SMOL_CLI_REQUEST_MEMBERS_H

#include "common/json_reader.h"

struct request;

/* A request that is being read. */
struct request_reader {
    struct json_reader json;
    struct request *request; /* request.h */
    void *own;               /* the program's struct, for members of its own */
    const char *field;       /* the member that is being read, or that was refused; NULL: none */
    char *scratch;           /* room for any string of the text, decoded */
    uint64_t seen;           /* a bit for each row of the table */
};

struct request_member {
    char name[24];
    /* Reads the value, which is not null. */
    smol_status (*set)(struct request_reader *r);
};

/* Starts reading text[0..size), which must outlive the reader. `scratch` has room for size + 1
 * bytes. Errors are USAGE (invalid JSON, unknown or wrong members), UNSUPPORTED (too deep), MEMORY.
 */
struct request_reader smol_request_reader(const char *text, size_t size, struct request *request,
                                          void *own, char *scratch, smol_error *error);

/* Checks that the text is UTF-8 and begins with an object. */
smol_status smol_request_begin(struct request_reader *r);

/* Reads the whole object, whose members must be among `members` (n, at most 64). After an error,
 * r->field is the member at fault, in r->scratch if its name is unknown, or NULL. */
smol_status smol_request_members(struct request_reader *r, const struct request_member *members,
                                 size_t n);

/* --- for the functions of a table ---------------------------------------------------------- */

/* Reports what is wrong with the member. Returns SMOL_ERROR_USAGE. */
smol_status smol_member_fail(struct request_reader *r, const char *what);

/* Returns whether text[0..length) is `word`. */
bool smol_member_is(const char *text, size_t length, const char *word);

/* Returns whether a number follows. */
bool smol_member_next_is_number(struct request_reader *r);

/* Makes a terminated copy of text[0..size), for the request to own. */
smol_status smol_member_copy(struct request_reader *r, const void *text, size_t size, char **out);

/* Takes a value and copies its JSON text. `bracket` is '[' or '{' if it must be a list or an
 * object, otherwise 0. */
smol_status smol_member_copy_json(struct request_reader *r, char bracket, char **out);

/* Take a whole number up to `most`, a real number, true or false, or a string, which is copied. */
smol_status smol_member_whole(struct request_reader *r, uint64_t most, uint64_t *out);
smol_status smol_member_real(struct request_reader *r, float low, float high, float *out);
smol_status smol_member_flag(struct request_reader *r, bool *out);
smol_status smol_member_text(struct request_reader *r, char **out, size_t *size);

/* Takes a string that must be one of `words`, which end with NULL, and sets *index to which. Other
 * values are refused with `what`. */
smol_status smol_member_word(struct request_reader *r, const char *const *words, const char *what,
                             size_t *index);

/* Takes a list or an object. `bracket` is '[' or '{', which comes next; `read` takes an element, or
 * a name and a value. *n is their number. */
smol_status smol_member_each(struct request_reader *r, char bracket,
                             smol_status (*read)(struct request_reader *r), size_t *n);

/* Checks that the members of the object at `json` are among `names`, which end with NULL, or null.
 */
smol_status smol_member_only(struct request_reader *r, struct json_reader json,
                             const char *const *names);

/* Moves `json` into an object to the value of a member. *found is false if it is not there, and
 * `json` after the object. */
smol_status smol_member_seek(struct json_reader *json, char *scratch, const char *name,
                             bool *found);

#endif
