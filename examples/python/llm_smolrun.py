"""A plugin for the command line program llm (pip install llm smolrun).

    SMOL_MODELS=~/models llm -m smollm2 "Hello!"            models/smollm2.smol
    llm -m smollm2 --schema 'name, age int' "Anna is 34 years old."
    llm -m smollm2 -o temperature 0.7 -o regex '[0-9]+' "How many?"
    llm chat -m smollm2

llm finds it if it is installed with an entry point, as pyproject.toml beside this file says: llm install ./examples/python"""

import os
from pathlib import Path

import llm
import smolrun
from pydantic import Field


@llm.hookimpl
def register_models(register):
    for path in sorted(Path(os.environ.get("SMOL_MODELS", "~/models")).expanduser().glob("*.smol")):
        register(SmolModel(path))


class SmolModel(llm.Model):
    can_stream = True
    supports_schema = True
    supports_tools = True

    class Options(llm.Options):
        max_tokens: int | None = Field(default=None, description="most tokens of an answer")
        temperature: float | None = Field(default=None, description="0: the likeliest token")
        top_p: float | None = None
        seed: int | None = None
        stop: str | None = None
        regex: str | None = Field(default=None, description="the form of the answer")

    def __init__(self, path):
        self.model_id, self.path, self.model = path.stem, path, None

    def execute(self, prompt, stream, response, conversation):
        if self.model is None:
            self.model = smolrun.Model(self.path)
        options = {"max_tokens": None} | {name: value for name, value in prompt.options.model_dump().items() if value is not None}
        if prompt.schema:
            options["schema"] = prompt.schema
        if prompt.tools:
            options["tools"] = [{"type": "function", "function": {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}}
                                for tool in prompt.tools]  # fmt: skip
        pieces = self.model.stream_chat(messages_of(prompt), **options)
        with pieces:
            yield from pieces if stream else ["".join(pieces)]
        for call in pieces.answer.tool_calls:
            response.add_tool_call(llm.ToolCall(call.name, call.parse(), call.id))
        response.set_usage(input=pieces.answer.prompt_tokens, output=pieces.answer.completion_tokens)


def messages_of(prompt):
    """The conversation as smolrun.Model.chat reads it."""
    found = []
    for message in prompt.messages:
        texts, calls = [], []
        for part in (part.to_dict() for part in message.parts):
            if part["type"] == "text":
                texts.append(part["text"])
            elif part["type"] == "tool_call":
                calls.append({"type": "function", "function": {"name": part["name"], "arguments": part["arguments"]}})
            elif part["type"] == "tool_result":
                found.append({"role": "tool", "name": part["name"], "content": part["output"]})
        if texts or calls:
            found.append({"role": message.role, "content": "\n".join(texts)} | ({"tool_calls": calls} if calls else {}))
    return found
