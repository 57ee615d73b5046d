/* Tools in requests, and the calls in their answers, in the form of OpenAI's interface. */
#ifndef SMOL_CLI_REQUEST_CALLS_H
#define SMOL_CLI_REQUEST_CALLS_H

#include "cli/json_out.h"
#include "cli/request/request.h"
#include "common/buffer.h"

/* Rows of a table of members. */
#define REQUEST_TOOL_MEMBERS                                                                       \
    {"tools", smol_set_tools}, {"tool_choice", smol_set_tool_choice},                              \
    {                                                                                              \
        "parallel_tool_calls", smol_set_parallel_calls                                             \
    }

smol_status smol_set_tools(struct request_reader *r);
smol_status smol_set_tool_choice(struct request_reader *r);
smol_status smol_set_parallel_calls(struct request_reader *r);

/* Makes the request's tools the constraint of its answer, once all members are read. Errors: USAGE
 * (a choice without tools, another constraint than a JSON schema with them), UNSUPPORTED (the model
 * has no known style of calls), MEMORY. */
smol_status smol_request_constrain_calls(struct request *request, const smol_model *model,
                                         smol_error *error);

/* The calls of an answer. All of its text comes before them: what a model may say with tools
 * (SMOL_CONSTRAINT_TOOLS) ends with the calls. */
struct calls {
    struct call {
        struct buffer name, arguments; /* a part of a call may have no name */
    } * items;
    size_t n;
};

/* Adds a part of an answer, see smol_on_tool_part; text goes to `text`. Arguments of a call that
 * has been taken from `calls` become one without a name. Returns false if memory ran out. */
bool smol_calls_add(struct calls *calls, struct buffer *text, smol_tool_part part,
                    const char *piece, size_t size);

/* Returns whether a `tool_choice` is auto, none or required rather than the name of a tool. */
bool smol_is_choice_word(const char *choice);

/* Writes the id of call number `index` of an answer: letters and digits. The same prompt gives the
 * same ids. */
enum { CALL_ID_SIZE = 10 };
void smol_call_id(uint64_t prompt_digest, size_t index, char id[CALL_ID_SIZE]);

/* Writes the members of call number `index`, or of a part of it, to an open object. */
void smol_call_print(const struct call *call, uint64_t prompt_digest, size_t index,
                     struct json_out *json);

/* Writes the member "tool_calls" of an open object, if there are any. */
void smol_calls_print(const struct calls *calls, uint64_t prompt_digest, struct json_out *json);
void smol_calls_free(struct calls *calls);

#endif
