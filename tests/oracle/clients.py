"""Clients of smolserve from PyPI, run by test_serve_clients.py with the Python of clients-requirements.txt:

    python clients.py CLIENT URL MODEL

prints as JSON what the client got: the text of an answer, whole and streamed, an object of a pydantic model, a call of a
tool, an embedding, scores, and how it names errors. MESSAGES and the settings are those of every client."""

import json
import os
import sys

os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false", "DO_NOT_TRACK": "1"}
MESSAGES = [{"role": "user", "content": "Write one sentence about the sea."}]
ASK = [{"role": "user", "content": "Extract the person: Anna Schmidt is 34 years old."}]
SETTINGS = {"temperature": 0.7, "seed": 5, "max_tokens": 24}
KEY = "key-of-the-tests-0123456789"
TOOL = {"type": "function", "function": {"name": "paint", "description": "Paints", "parameters": {
    "type": "object", "properties": {"color": {"enum": ["red", "blue"]}}, "required": ["color"], "additionalProperties": False}}}  # fmt: skip


def person():
    from pydantic import BaseModel, ConfigDict, Field

    class Person(BaseModel):
        """A person."""

        model_config = ConfigDict(extra="forbid")  # otherwise a small model adds properties without end
        name: str = Field(max_length=40)
        age: int = Field(ge=0, le=150)

    return Person


def use_litellm(url, model):
    import litellm

    litellm.suppress_debug_info = True
    Person = person()
    common = {"model": f"openai/{model}", "api_base": f"{url}/v1", "api_key": KEY, "max_retries": 0}
    whole = litellm.completion(messages=MESSAGES, **SETTINGS, **common)
    chunks = list(litellm.completion(messages=MESSAGES, stream=True, stream_options={"include_usage": True}, **SETTINGS, **common))
    form = litellm.completion(messages=ASK, temperature=0, max_tokens=80, response_format=Person, **common)
    call = litellm.completion(messages=MESSAGES, temperature=0, max_tokens=300, tools=[TOOL], tool_choice="required", **common)
    (function,) = {call.function.name for call in call.choices[0].message.tool_calls}
    errors = []
    for wrong in ({"temperature": -1}, {"api_key": "wrong"}, {"model": "openai/none"}):
        try:
            litellm.completion(messages=MESSAGES, **SETTINGS | common | wrong)
        except litellm.exceptions.APIError as error:
            errors.append(error.status_code)
        except Exception as error:
            errors.append(getattr(error, "status_code", repr(error)))
    vectors = litellm.embedding(input=["The sea"], **common)
    return {
        "text": whole.choices[0].message.content,
        "streamed": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        "tokens": [whole.usage.prompt_tokens, whole.usage.completion_tokens],
        "streamed_tokens": [chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens],
        "person": Person.model_validate_json(form.choices[0].message.content).model_dump(),
        "call": [function, json.loads(call.choices[0].message.tool_calls[0].function.arguments)],
        "errors": errors,
        "embedding": vectors.data[0]["embedding"],
    }


def use_rerankers(url, model):
    """The forms of three services, one of which has two, as litellm speaks them: (index, score, text) of each result, and its errors."""
    import litellm

    litellm.suppress_debug_info = True
    bases = {
        "cohere": f"{url}/v1/rerank", "cohere v2": f"{url}/v2/rerank", "jina_ai": url, "hosted_vllm": f"{url}/v1",
    }  # fmt: skip
    found, errors = {}, []
    for service, base in bases.items():
        common = {"model": f"{service.split()[0]}/{model}", "api_base": base, "api_key": KEY, "query": "the sea", "max_retries": 0}
        answer = litellm.rerank(documents=["a hill", {"text": "the sea"}, "one"], top_n=2, return_documents=True, **common)
        found[service] = [[row["index"], row["relevance_score"], row["document"]["text"]] for row in answer.results]
        try:
            litellm.rerank(documents=[], **common)
        except Exception as error:
            errors.append(str(error))
    return {"results": found, "errors": errors}


def use_langchain(url, model):
    import openai
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    Person = person()
    common = {"model": model, "base_url": f"{url}/v1", "api_key": KEY, "max_retries": 0}
    chat = ChatOpenAI(**SETTINGS, **common)
    whole, pieces = chat.invoke(MESSAGES), list(chat.stream(MESSAGES, stream_usage=True))
    exact = ChatOpenAI(temperature=0, max_tokens=300, **common)
    call = exact.bind_tools([TOOL], tool_choice="required").invoke(MESSAGES).tool_calls[0]
    errors = []
    for wrong in ({"temperature": -1}, {"api_key": "wrong"}, {"model": "none"}):
        try:
            ChatOpenAI(**SETTINGS | common | wrong).invoke(MESSAGES)
        except openai.APIStatusError as error:
            errors.append(error.status_code)
    texts = OpenAIEmbeddings(check_embedding_ctx_length=False, **common)
    sums = [piece.usage_metadata for piece in pieces if piece.usage_metadata]
    return {
        "text": whole.content,
        "streamed": "".join(piece.content for piece in pieces),
        "tokens": [whole.usage_metadata["input_tokens"], whole.usage_metadata["output_tokens"]],
        "streamed_tokens": [sums[-1]["input_tokens"], sums[-1]["output_tokens"]],
        "person": exact.with_structured_output(Person, method="json_schema").invoke(ASK).model_dump(),
        "call": [call["name"], call["args"]],
        "errors": errors,
        "embedding": texts.embed_query("The sea"),
    }


def use_instructor(url, model):
    import instructor
    import openai
    from pydantic import field_validator

    Person, seen = person(), []

    class Shouted(Person):
        @field_validator("name")
        @classmethod
        def check(cls, name):
            seen.append(name)
            if len(seen) == 1:
                raise ValueError("try again")
            return name

    class Paint(person()):
        """Paints."""

    client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    ask = {"model": model, "messages": ASK, "temperature": 0, "max_tokens": 200}
    by_schema = instructor.from_openai(client, mode=instructor.Mode.JSON_SCHEMA)
    by_tools = instructor.from_openai(client, mode=instructor.Mode.TOOLS)
    form = by_schema.chat.completions.create(response_model=Person, max_retries=0, **ask)
    parts = list(by_schema.chat.completions.create_partial(response_model=Person, **ask))
    again = by_schema.chat.completions.create(response_model=Shouted, max_retries=2, **ask | {"temperature": 0.5, "seed": 1})
    call = by_tools.chat.completions.create(response_model=Paint, max_retries=0, parallel_tool_calls=False, **ask)
    return {
        "person": form.model_dump(),
        "streamed": parts[-1].model_dump(),
        "n_parts": len(parts),
        "retried": [len(seen), again.name == seen[-1]],
        "call": isinstance(call, Paint),
    }


if __name__ == "__main__":
    print(json.dumps({"litellm": use_litellm, "langchain": use_langchain, "instructor": use_instructor, "rerankers": use_rerankers}[sys.argv[1]](*sys.argv[2:])))
