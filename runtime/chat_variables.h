/* The variables of a chat template: a conversation as the template sees it. */
#ifndef SMOL_RUNTIME_CHAT_VARIABLES_H
#define SMOL_RUNTIME_CHAT_VARIABLES_H

#include <stdbool.h>

#include "runtime/template/template_value.h"
#include "runtime/template/template_vm.h"
#include "smol.h"

/* How messages' contents change before the template sees them. */
struct contents {
    bool as_parts;    /* texts become lists of one part, otherwise lists of parts texts */
    unsigned list_at; /* the number of the first message with a list that became a text */
};

/* Marks the end of a message that will be continued: the text of the conversation is cut there. It
 * is the reference's mark, because a template may look at how a content ends. */
#define CONTINUED_MARK "CONTINUE_FINAL_MESSAGE_TAG "

/* Sets the variables of the template, then the caller's, then those of the conversation. `contents`
 * may be NULL. */
bool smol_chat_set_variables(struct machine *machine, const smol_chat_params *params,
                             struct contents *contents);

/* The roles that a message can have with any template; NULL after the last. */
extern const char *const smol_chat_roles[];

/* Lists the names that a role can have, as terminated strings in one block, which the caller frees.
 * Errors: SMOL_ERROR_MEMORY, and what the template is refused for. */
smol_status smol_chat_list_roles(const struct template_code *code, char ***list, smol_error *error);

static inline struct value template_text(const struct template_code *code, uint32_t constant)
{
    const struct template_constant *c = &code->constants[constant];
    return value_text(code->text + c->value, c->length);
}

#endif
