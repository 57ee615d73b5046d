"""OpenAI's format of batch files: {"custom_id", "method", "url", "body"} becomes a request of `smolrun --jsonl`, and its
answer what OpenAI writes into the file of results. The bodies are those of smolserve's endpoints."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._parts import MAX_LINE, Job, to_json
from .errors import UsageError
from .model import Model, reopen

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MEMBERS = {"custom_id", "method", "url", "body"}
# members of bodies that change no answer (smolserve/body.h), with the values that are allowed; None: any
INERT: dict[str, tuple[Any, ...] | None] = {
    "user": None, "metadata": None, "safety_identifier": None, "prompt_cache_key": None, "stream_options": None,
    "prompt_cache_retention": None, "prompt_cache_options": None, "verbosity": ("medium",), "best_of": (1,), "echo": (False,),
    "store": (False,), "service_tier": ("auto", "default"), "modalities": (["text"],), "n": (1,), "stream": (False,),
}  # fmt: skip
# smolrun's codes of errors, and what smolserve answers (smolserve/refusal.c)
REFUSALS = {
    "usage": (400, None), "unsupported": (400, "unsupported"), "context_full": (400, "context_length_exceeded"),
    "memory": (503, "out_of_memory"), "numeric": (500, "numeric_failure"),
}  # fmt: skip


@dataclass
class Note:
    """Facts about a row that its answer repeats."""

    key: str
    custom_id: str | None = None
    url: str = CHAT
    model: str | None = None
    members: frozenset[str] = frozenset()
    error: str | None = None  # why it is no row of a batch file, or its body no request


class Form:
    """Reads and writes rows of batch files."""

    def __init__(self, job: Job):
        self._job = job
        self._model: Model | None = None  # for the bytes of tokens

    def read(self, row: bytes, key: bytes) -> tuple[bytes, Note]:
        """Returns a request, and what write() needs. smolrun gets an empty request in place of one that is refused here."""
        note = Note(key.hex()[:24])
        try:
            if len(row) > MAX_LINE:
                raise UsageError(f"a line of more than {MAX_LINE >> 20} MiB: shorten it")
            return request_of(parse(row), note), note
        except UsageError as error:
            note.error = str(error)
            return b"{}", note

    def write(self, answer: bytes, note: Note, index: int) -> bytes:
        """Returns the line of an answer."""
        found = json.loads(b"{" + answer[2:])
        error = {"code": "usage", "message": note.error} if note.error is not None else found.get("error")
        response = None
        if note.custom_id is not None and note.error is None:
            status, body = self._refusal(error, note) if error else (200, self._completion(found, note))
            response = {"status_code": status, "request_id": f"req_{note.key}", "body": body}
        members = {
            "id": f"batch_req_{note.key}", "custom_id": note.custom_id, "response": response,
            "error": error if response is None else None,
        }  # fmt: skip
        return json.dumps(members, ensure_ascii=False).encode("utf-8", "replace") + b"\n"

    # --- bodies ---

    def _refusal(self, error: Mapping[str, str], note: Note) -> tuple[int, dict[str, Any]]:
        status, code = REFUSALS.get(error["code"], (500, None))
        kind = "invalid_request_error" if status < 500 else "server_error"
        field = error["message"].partition(":")[0]
        param = field if field in note.members else None
        return status, {"error": {"message": error["message"], "type": kind, "param": param, "code": code}}

    def _completion(self, found: Mapping[str, Any], note: Note) -> dict[str, Any]:
        chat = note.url == CHAT
        reason = found["finish_reason"]
        choice: dict[str, Any] = {"index": 0}
        choice |= {"message": message_of(found)} if chat else {"text": found["text"]}
        choice["logprobs"] = self._chat_logprobs(found) if chat else self._text_logprobs(found)
        choice["finish_reason"] = "length" if reason == "context_full" else reason
        from . import __version__

        return {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{note.key}",
            "object": "chat.completion" if chat else "text_completion",
            "created": 0,  # a time would give other bytes each time
            "model": note.model,
            "system_fingerprint": f"smol-{__version__}",
            "choices": [choice],
            "usage": found["usage"],
        }

    def _token(self, token: int) -> tuple[bytes, bool]:
        if self._model is None:
            self._model = reopen(self._job.model, self._job.digest, {"n_threads": 1, "n_ctx": 1})
        return self._model._token(token)

    def _bytes(self, token: int) -> bytes:
        return self._token(token)[0]

    def _tokens_of_text(self, found: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Returns the tokens of the text: not those of reasoning, of calls, and of a stop string."""
        n_reasoning = found["usage"].get("completion_tokens_details", {}).get("reasoning_tokens", 0)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a token may end within a character
        tokens: list[dict[str, Any]] = []
        waiting: list[dict[str, Any]] = []
        rest = found["text"]
        for token in (*found["logprobs"][n_reasoning:], None):
            waiting += [token] if token else []
            whole = decoder.decode(self._bytes(token["id"]) if token else b"", final=token is None)
            piece = whole if tokens or rest.startswith(whole) else whole.lstrip()
            if piece and rest and (rest.startswith(piece) or piece.startswith(rest)):
                tokens, waiting, rest = tokens + waiting, [], rest[len(piece) :]
            elif whole and not tokens and (n_reasoning or not (whole.isspace() or self._token(waiting[-1]["id"])[1])):
                waiting = []  # a marker, or white space after the reasoning
        return tokens

    def _chat_logprobs(self, found: Mapping[str, Any]) -> dict[str, Any] | None:
        if "logprobs" not in found:
            return None

        def one(token: Mapping[str, Any]) -> dict[str, Any]:
            return {"token": token["text"], "logprob": token["logprob"], "bytes": list(self._bytes(token["id"]))}

        content = [one(token) | {"top_logprobs": [one(other) for other in token["top"]]}
                   for token in self._tokens_of_text(found)]  # fmt: skip
        return {"content": content, "refusal": None}

    def _text_logprobs(self, found: Mapping[str, Any]) -> dict[str, Any] | None:
        if "logprobs" not in found:
            return None
        tokens, offsets, offset = found["logprobs"], [], 0
        for token in tokens:
            offsets.append(offset)
            data, special = self._token(token["id"])
            if offset == 0 and found["text"][:1] not in ("", " "):
                data = data.removeprefix(b" ")  # which the text leaves out
            offset += sum(byte & 0xC0 != 0x80 for byte in data) * (not special)  # characters that begin in it
        return {
            "tokens": [self._name(token["id"]) for token in tokens],
            "token_logprobs": [token["logprob"] for token in tokens],
            "top_logprobs": [
                {self._name(other["id"]): other["logprob"] for other in (*token["top"], token)} for token in tokens
            ],
            "text_offset": offsets,
        }  # fmt: skip

    def _name(self, token: int) -> str:
        """Returns the text of a token; of a part of a character its bytes, as OpenAI shows them."""
        data = self._bytes(token)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def message_of(found: Mapping[str, Any]) -> dict[str, Any]:
    calls = found.get("tool_calls")
    message: dict[str, Any] = {"role": "assistant", "content": found["text"] if found["text"] or not calls else None}
    if found.get("reasoning"):
        message["reasoning_content"] = found["reasoning"]
    return message | ({"tool_calls": calls} if calls else {}) | {"refusal": None}


# --- requests --------------------------------------------------------------------------------------


def parse(row: bytes) -> dict[str, Any]:
    """Parses a row strictly: no member twice, no NaN."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            raise UsageError(f"{next(name for name in names if names.count(name) > 1)[:64]}: appears twice")
        return found

    def refuse(word: str) -> Any:
        raise UsageError(f"not valid JSON: {word}")

    try:
        found = json.loads(row.decode(), object_pairs_hook=unique, parse_constant=refuse)
    except UsageError:
        raise
    except UnicodeDecodeError as error:
        raise UsageError(f"not valid UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise UsageError("nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError("expected an object")
    return found


def request_of(row: Mapping[str, Any], note: Note) -> bytes:
    """Converts a row to a request of smolrun."""
    if not isinstance(row.get("custom_id"), str):
        raise UsageError("custom_id: expected a string")
    note.custom_id = row["custom_id"]
    if row.get("method") != "POST":
        raise UsageError("method: expected POST")
    if row.get("url") not in (CHAT, COMPLETIONS):
        raise UsageError(f"url: expected {CHAT} or {COMPLETIONS}")
    if not isinstance(row.get("body"), dict):
        raise UsageError("body: expected an object")
    if unknown := [name for name in row if name not in MEMBERS]:
        raise UsageError(f"{unknown[0][:64]}: no such member of a batch file's row")
    note.url, body = row["url"], row["body"]
    note.model = body.get("model") if isinstance(body.get("model"), str) else ""
    note.members = frozenset(body)
    request = {name: value for name, value in body.items() if value is not None and not is_inert(name, value)}
    request.pop("id", None)
    request.pop("model", None)
    return to_json((chat_request if note.url == CHAT else completion_request)(request))


def is_inert(name: str, value: Any) -> bool:
    """Tells whether a member changes no answer. Raises UsageError if its value would."""
    if name not in INERT:
        return False
    allowed = INERT[name]
    if allowed is not None and not any(value is one or value == one for one in allowed):
        raise UsageError(f"{name}: not supported, except {' or '.join(json.dumps(one) for one in allowed)}")
    return True


def chat_request(request: dict[str, Any]) -> dict[str, Any]:
    if "max_completion_tokens" in request:
        request["max_tokens"] = request.pop("max_completion_tokens")
    wanted, top = request.pop("logprobs", False), request.pop("top_logprobs", 0)
    if not isinstance(wanted, bool):
        raise UsageError("logprobs: expected true or false")
    if top and not wanted:
        raise UsageError("top_logprobs: only with logprobs: true")
    if wanted:
        request["logprobs"] = top
    if isinstance(request.get("messages"), list):
        request["messages"] = [joined(message) for message in request["messages"]]
    if "prompt" in request:
        raise UsageError("prompt: no such member of a request")
    return request


def joined(message: Any) -> Any:
    """Joins a content that is a list of texts by line feeds, as smolserve does."""
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return message
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in content]
    if not all(isinstance(text, str) for text in texts):
        raise UsageError("messages: a content must be a text, or a list of parts of type text")
    return message | {"content": "\n".join(str(text) for text in texts)}


def completion_request(request: dict[str, Any]) -> dict[str, Any]:
    prompt = request.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        request["prompt"] = prompt[0]
    elif not isinstance(prompt, str):
        raise UsageError("prompt: expected a text")
    if "messages" in request:
        raise UsageError("messages: no such member of a request")
    return request
