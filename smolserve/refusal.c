/* Refused requests, see refusal.h. */
#include "smolserve/refusal.h"

#include <stdarg.h>
#include <string.h>

void smol_refuse(struct refusal *refusal, unsigned http, const char *code, const char *format, ...)
{
    va_list arguments;
    refusal->http = http;
    refusal->code = code;
    va_start(arguments, format);
    vsnprintf(refusal->message, sizeof refusal->message, format, arguments);
    va_end(arguments);
}

void smol_refuse_error(struct refusal *refusal, const smol_error *error)
{
    static const struct {
        unsigned http;
        const char *code;
    } answers[] = {
        [SMOL_ERROR_USAGE] = {400, NULL},
        [SMOL_ERROR_UNSUPPORTED] = {400, "unsupported"},
        [SMOL_ERROR_CONTEXT_FULL] = {400, "context_length_exceeded"},
        [SMOL_ERROR_MEMORY] = {503, "out_of_memory"},
        [SMOL_ERROR_NUMERIC] = {500, "numeric_failure"},
        [SMOL_ERROR_FILE] = {500, "model_unreadable"},
        [SMOL_ERROR_DAMAGED] = {500, "model_damaged"},
    };
    size_t i = error->status < sizeof answers / sizeof answers[0] ? (size_t)error->status : 0;
    bool known = answers[i].http != 0;
    smol_refuse(refusal, known ? answers[i].http : 500, answers[i].code, "%s", error->message);
}

void smol_refusal_param(struct refusal *refusal, const char *name)
{
    snprintf(refusal->param, sizeof refusal->param, "%s", name ? name : "");
}

const char *smol_refusal_type(unsigned http)
{
    switch (http) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 429:
        return "rate_limit_error";
    default:
        return http < 500 ? "invalid_request_error" : "server_error";
    }
}

static void write_text_or_null(struct json_out *json, const char *key, const char *text)
{
    smol_json_key(json, key);
    if (text && text[0])
        smol_json_text(json, text, strlen(text));
    else
        smol_json_literal(json, "null");
}

void smol_refusal_write_members(const struct refusal *refusal, struct json_out *json)
{
    smol_json_member_text(json, "message", refusal->message);
    write_text_or_null(json, "param", refusal->param);
    write_text_or_null(json, "code", refusal->code);
}

void smol_refusal_write(const struct refusal *refusal, struct json_out *json)
{
    smol_json_open(json, '{');
    smol_json_member_open(json, "error", '{');
    smol_json_member_text(json, "type", smol_refusal_type(refusal->http));
    smol_refusal_write_members(refusal, json);
    smol_json_close(json, '}');
    smol_json_close(json, '}');
}
