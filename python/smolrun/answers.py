"""Results of calls."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True)
class TokenLogprob:
    """A token and its log-probability in nats, before temperature and filters."""

    id: int
    text: str
    logprob: float
    top: tuple[TokenLogprob, ...] = ()  # the most likely tokens at its place

    def to_dict(self) -> dict[str, Any]:
        top = [{"id": one.id, "text": one.text, "logprob": one.logprob} for one in self.top]
        return {"id": self.id, "text": self.text, "logprob": self.logprob, "top": top}


@dataclass(frozen=True)
class ToolCall:
    """A call of a function that the model asks for."""

    id: str
    name: str
    arguments: str  # a JSON object, unless the answer was cut off

    def parse(self) -> Any:
        """Returns the arguments as Python objects. Raises UsageError if the answer was cut off within them."""
        try:
            return json.loads(self.arguments)
        except ValueError:
            raise UsageError(f"the call of {self.name} was cut off: allow more tokens") from None

    def to_dict(self) -> dict[str, Any]:
        """Returns the call as OpenAI's messages have it."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True)
class Answer:
    """A generated text."""

    text: str
    ids: list[int]
    finish_reason: str  # "stop", "length", "tool_calls", "context_full" or "cancelled"
    prompt_tokens: int
    tool_calls: list[ToolCall] = field(default_factory=list)
    logprobs: list[TokenLogprob] | None = None
    reasoning: str = ""  # what came before the text, of a model that reasons
    reasoning_tokens: int = 0
    # times and what was not evaluated; they are not part of the result
    reused_tokens: int = field(default=0, compare=False)
    prompt_seconds: float = field(default=0.0, compare=False)
    first_token_seconds: float = field(default=0.0, compare=False)
    decode_seconds: float = field(default=0.0, compare=False)
    parse: Callable[[str], Any] | None = field(default=None, compare=False, repr=False)

    @property
    def parsed(self) -> Any:
        """With schema: the answer as Python objects, or an instance of the pydantic model. None if it was cut off."""
        if self.parse is None or self.finish_reason != "stop":
            return None
        try:
            json.loads(self.text)
        except ValueError:
            return None  # a stop string cut it off
        return self.parse(self.text)

    def __str__(self) -> str:
        return self.text

    @property
    def completion_tokens(self) -> int:
        return len(self.ids)

    @property
    def usage(self) -> dict[str, Any]:
        total = self.prompt_tokens + len(self.ids)
        found: dict[str, Any] = {"prompt_tokens": self.prompt_tokens, "completion_tokens": len(self.ids), "total_tokens": total}
        if self.reasoning_tokens:
            found["completion_tokens_details"] = {"reasoning_tokens": self.reasoning_tokens}
        return found

    @property
    def message(self) -> dict[str, Any]:
        """The answer as a message, to be appended to the conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        return message

    def to_dict(self) -> dict[str, Any]:
        """Returns the members of an answer of `smolrun --jsonl`."""
        members: dict[str, Any] = {"reasoning": self.reasoning} if self.reasoning else {}
        members["text"] = self.text
        if self.tool_calls:
            members["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        members |= {"ids": self.ids, "finish_reason": self.finish_reason}
        if self.logprobs is not None:
            members["logprobs"] = [one.to_dict() for one in self.logprobs]
        return members | {"usage": self.usage}


@dataclass(frozen=True)
class Score:
    """How likely a text is: the log-probability of each of its tokens, after the prompt or the text's first token."""

    ids: list[int]  # of the tokens that are scored
    texts: list[str]
    logprobs: npt.NDArray[np.float64]  # in nats
    ranks: npt.NDArray[np.int64]  # 1: the most likely
    top: list[list[TokenLogprob]]  # the five most likely tokens at each place

    @property
    def sum(self) -> float:
        """The log-probability of all tokens together."""
        return math.fsum(self.logprobs)

    @property
    def is_greedy(self) -> bool:
        """Whether each token is the most likely one."""
        return bool((self.ranks == 1).all())

    def _repr_html_(self) -> str:
        """Jupyter: the text, each token on a background from red (unlikely) to green, with alternatives as its title."""
        import html

        parts = []
        for text, logprob, rank, top in zip(self.texts, self.logprobs, self.ranks, self.top):
            others = ", ".join(f"{one.text!r} {math.exp(one.logprob):.1%}" for one in top)
            title = f"{text!r} {math.exp(logprob):.1%}, rank {rank}: {others}"
            hue = round(120 * math.exp(logprob))
            style = f"background:hsl({hue} 80% 85%);color:#000;white-space:pre-wrap"
            parts.append(f'<span style="{style}" title="{html.escape(title)}">{html.escape(text)}</span>')
        return f"<div>{''.join(parts)}</div>"


@dataclass(frozen=True)
class Perplexity:
    """How well a model predicts a text, with the members of `smolrun perplexity --json`."""

    tokens: int
    scored: int
    windows: int
    ctx: int
    nll: float  # mean negative log-likelihood in nats
    nll_error: float  # standard error of the mean
    perplexity: float
    perplexity_error: float

    def __float__(self) -> float:
        return self.perplexity


@dataclass(frozen=True)
class ModelInfo:
    """Facts about a model."""

    dtype: str
    n_layers: int
    hidden_size: int
    intermediate_size: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
    bos_id: int | None
    has_chat_template: bool
    blob_bytes: int
    is_encoder: bool
    max_text: int
    embedding_size: int
    is_reranker: bool
