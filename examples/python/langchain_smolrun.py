"""A chat model and embeddings for LangChain (pip install langchain-core smolrun).

    model = ChatSmol(path="model.smol", max_tokens=200)
    print(model.invoke("Hello!").content)
    for piece in model.stream("Hello!"): ...
    model.with_structured_output(Person).invoke("Anna is 34 years old.")     # Person: a pydantic model, or a JSON schema
    model.bind_tools([multiply], tool_choice="required").invoke("What is 3 times 4?").tool_calls
    SmolEmbeddings("embedder.smol", query_prompt="query").embed_query("Hello!")    # the prompts that the model has

Options of an answer (temperature, stop, regex, ...) are those of smolrun.Model.chat: in `options`, or with model.bind."""

from functools import cached_property
from typing import Any

import smolrun
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field


class ChatSmol(BaseChatModel):
    path: str
    max_tokens: int | None = 256
    temperature: float = 0
    options: dict[str, Any] = Field(default_factory=dict)

    @property
    def _llm_type(self):
        return "smolrun"

    @property
    def _identifying_params(self):
        return {"path": self.path, "max_tokens": self.max_tokens, "temperature": self.temperature} | self.options

    @cached_property
    def model(self):
        return smolrun.Model(self.path)

    def _settings(self, stop, given):
        return {"max_tokens": self.max_tokens, "temperature": self.temperature} | self.options | ({"stop": stop} if stop else {}) | given

    def _generate(self, messages, stop=None, run_manager=None, **given):
        answer = self.model.chat(convert_to_openai_messages(messages), **self._settings(stop, given))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(**parts(answer), **calls(answer)))])

    def _stream(self, messages, stop=None, run_manager=None, **given):
        stream = self.model.stream_chat(convert_to_openai_messages(messages), **self._settings(stop, given))
        with stream:
            for piece in stream:
                chunk = ChatGenerationChunk(message=AIMessageChunk(content=piece))
                if run_manager:
                    run_manager.on_llm_new_token(piece, chunk=chunk)
                yield chunk
        last = parts(stream.answer) | {"content": "", "chunk_position": "last"}
        chunks = [{"index": i, "id": call.id, "name": call.name, "args": call.arguments, "type": "tool_call_chunk"} for i, call in enumerate(stream.answer.tool_calls)]
        yield ChatGenerationChunk(message=AIMessageChunk(**last, tool_call_chunks=chunks))

    def bind_tools(self, tools, *, tool_choice=None, **given):
        choice = {"tool_choice": "required" if tool_choice in ("any", True) else tool_choice} if tool_choice else {}
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **choice, **given)

    def with_structured_output(self, schema, *, include_raw=False, **given):
        """The answer has the form of the schema, because the model can write no other."""
        is_model = hasattr(schema, "model_json_schema")
        dictionary = schema.model_json_schema() if is_model else schema if isinstance(schema, dict) else convert_to_openai_tool(schema)["function"]["parameters"]
        options = {"schema": schema if is_model else dictionary} | given

        def parse(messages):
            answer = self.model.chat(convert_to_openai_messages(self._convert_input(messages).to_messages()), **self._settings(None, options))
            if answer.parsed is None:
                raise ValueError(f"the answer was cut off ({answer.finish_reason}): raise max_tokens")
            return {"raw": AIMessage(**parts(answer)), "parsed": answer.parsed, "parsing_error": None} if include_raw else answer.parsed

        return RunnableLambda(parse)


def parts(answer):
    """Returns the parts of a message other than calls of tools."""
    usage = answer.usage
    tokens = {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"], "total_tokens": usage["total_tokens"]}
    return {"content": answer.text, "usage_metadata": tokens, "response_metadata": {"finish_reason": answer.finish_reason}}


def calls(answer):
    """The calls of tools; the last one may have been cut off."""
    found = {"tool_calls": [], "invalid_tool_calls": []}
    for call in answer.tool_calls:
        try:
            found["tool_calls"].append({"id": call.id, "name": call.name, "args": call.parse(), "type": "tool_call"})
        except ValueError:
            cut = {"id": call.id, "name": call.name, "args": call.arguments, "error": "cut off", "type": "invalid_tool_call"}
            found["invalid_tool_calls"].append(cut)
    return found


class SmolEmbeddings(Embeddings):
    """Embeddings of length 1: of a model for this purpose as its checkpoint says, of others the mean of hidden states. The
    prompts are names of the model's own; None: its default."""

    def __init__(self, path, pooling=None, query_prompt=None, document_prompt=None):
        self.model, self.pooling = smolrun.Model(path), pooling
        self.query_prompt, self.document_prompt = query_prompt, document_prompt

    def _embed(self, texts, prompt):
        rows = self.model.embed(texts, pooling=self.pooling, prompt=prompt)
        return [(row / (row @ row) ** 0.5).tolist() for row in rows]

    def embed_documents(self, texts):
        return self._embed(texts, self.document_prompt)

    def embed_query(self, text):
        return self._embed([text], self.query_prompt)[0]
