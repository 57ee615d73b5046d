"""A check for schemathesis: a request that is valid for the description is refused only by a rule that the description
states in words, because a schema cannot."""

import re

import schemathesis

CODES = {"context_length_exceeded", "unsupported"}
RULES = [
    "stream_options: only with stream",
    "top_logprobs: only with ",
    "best_of: expected the value of n",
    "tool_choice: ",
    "messages: the last one must not call a tool",
    "continue_final_message: ",
    "(output_format|output_config): another member has a format too",
    "response_format: only JSON can be combined with tools",
    r"prompt: \d+ texts, but at most",
    "logit_bias of token",
    "tools: .*another one has the same name",
    "(regex|grammar|choices|schema): ",
    "chat template: ",
    "dimensions: expected a whole number",
    "the model has no prompt",
    "the model has no named prompts",
]


@schemathesis.check
def valid_requests_break_only_rules_in_words(context, response, case):
    if response.status_code != 400 or not case.meta or not case.meta.generation.mode.is_positive:
        return
    error = response.json()["error"]
    assert error["code"] in CODES or any(re.match(rule, error["message"]) for rule in RULES), error
