/* Why a request is refused or failed: an HTTP status and the error object that OpenAI's clients
 * expect. */
#ifndef SMOL_SMOLSERVE_REFUSAL_H
#define SMOL_SMOLSERVE_REFUSAL_H

#include "cli/json_out.h"
#include "smol.h"

struct refusal {
    unsigned http;    /* status, 0: not refused */
    const char *code; /* a word for programs, or NULL; static */
    char param[64];   /* the member of the request that is at fault, or "" */
    char message[SMOL_ERROR_MESSAGE_SIZE];
};

void smol_refuse(struct refusal *refusal, unsigned http, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Refuses because of an error of the library. */
void smol_refuse_error(struct refusal *refusal, const smol_error *error);

/* Sets the member at fault, cut to what fits; NULL: none. */
void smol_refusal_param(struct refusal *refusal, const char *name);

/* Returns OpenAI's word for the type of an error with this HTTP status. */
const char *smol_refusal_type(unsigned http);

/* Writes {"error": {"type", "message", "param", "code"}}. */
void smol_refusal_write(const struct refusal *refusal, struct json_out *json);

/* Writes "message", "param" and "code" to an open object. */
void smol_refusal_write_members(const struct refusal *refusal, struct json_out *json);

#endif
