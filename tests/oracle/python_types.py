"""A program that uses the Python package, for the check of its types (`scripts/check style`): mypy must accept it, and reports an
ignored error that there is none of, too."""

import contextlib

import numpy as np
import numpy.typing as npt
import smolrun

model = smolrun.Model("x", n_ctx=5, progress=True)
chat = [{"role": "user", "content": "x"}]
answers: list[smolrun.Answer] = [model.generate("x", max_tokens=5, stop=["a"]), model.generate([1, 2]), model.generate(np.array([1]))]
answers += model.generate(["x", b"y", [1], np.array([1])], seed=1) + model.chat([chat, chat]) + [model.chat(chat, tools=[{"type": "function"}])]
scores: list[smolrun.Score] = [model.score("x", prompt="y"), *model.score(["x", "y"])]
arrays: list[npt.NDArray[np.float32]] = [model.logits("x", last=1), model.embed(["x"]), model.embed("x"), model.embed(np.array([1]))]
texts: list[str] = [*model.stream("x"), *(piece for piece in model.stream_chat(chat))]

async def ask() -> list[str]:
    awaited = [await model.agenerate("x"), await model.agenerate([1, 2]), *await model.agenerate(["x", "y"])]
    await model.achat(chat, max_token=5)  # type: ignore[call-overload]
    awaited += [await model.achat(chat), *await model.achat([chat, chat], tools=[])]
    async with model.astream_chat(chat) as pieces, contextlib.aclosing(model.astream("x")):
        texts = [piece.upper() async for piece in pieces] + [answer.text for answer in [*awaited, pieces.answer]]
    return texts + [piece async for piece in model.astream("x", max_tokens=3)]

with model.session() as session:
    saved: bytes = session.to_bytes()
smolrun.convert("a", "b", dtype="int4")
model.generate("x", max_token=5)  # type: ignore[call-overload]
