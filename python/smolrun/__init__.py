"""Small language models, with the same answers everywhere.

    import smolrun

    smolrun.convert("SmolLM2-135M-Instruct", "model.smol")
    model = smolrun.Model("model.smol")
    print(model.chat([{"role": "user", "content": "Hello!"}]).text)

docs/python.md is the guide."""

from ._library import quick as _quick
from ._sequence import AsyncStream, Cancel, Request, Stream
from .answers import Answer, ModelInfo, Perplexity, Score, TokenLogprob, ToolCall
from .errors import (
    CancelledError,
    ContextFullError,
    DamagedError,
    FileError,
    MismatchError,
    NumericError,
    OutOfMemoryError,
    SmolError,
    UnsupportedError,
    UsageError,
)
from .model import Model
from .programs import convert, inspect
from .session import Session

__version__: str = _quick.smol_version().decode()

__all__ = [
    "Answer", "AsyncStream", "Cancel", "CancelledError", "ContextFullError", "DamagedError", "FileError", "MismatchError", "Model",
    "ModelInfo", "NumericError", "OutOfMemoryError", "Perplexity", "Request", "Score", "Session", "SmolError", "Stream",
    "TokenLogprob", "ToolCall", "UnsupportedError", "UsageError", "__version__", "convert", "inspect",
]  # fmt: skip
