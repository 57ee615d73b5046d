"""Greedy text of a real model in f32: the ids that transformers.generate gives."""

import ctypes
import os

import pytest
import torch
from checkpoints import load_reference
from engine import Model, as_ids, blob_of, check
from internal import Error, lib
from smol_h import SamplerParams
from structs import c_struct
from tokenizers import Tokenizer

ALL = os.environ.get("SMOL_TEST_ALL")
N_NEW = 64 if ALL else 16
CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
PROMPTS = [
    "Hello",
    "What is 2+2?",
    "The capital of France is",
    "Once upon a time, in a small village by the sea,",
    "def fibonacci(n):\n",
    "1, 2, 3, 4, 5, 6,",
    "Zürich, 世界 and \U0001f600 are",
    CHAT.format("Hello"),
    CHAT.format("What is 2+2?"),  # ends by itself
    CHAT.format("Write a short poem about the rain."),
]
ASKED = PROMPTS if ALL else [PROMPTS[0], PROMPTS[6], PROMPTS[8]]


@pytest.fixture(scope="module")
def tokenizer(real_model_dir):
    return Tokenizer.from_file(str(real_model_dir / "tokenizer.json"))


@pytest.fixture(scope="module")
def model(real_model_dir):
    with Model(blob_of(real_model_dir, "f32")) as model:
        yield model


@pytest.fixture(scope="module")
def expected(real_model_dir, tokenizer):
    """{prompt: (its ids, the ids that transformers generates, a stop token left out)}. All at once, as
    each step reads the whole model: the shorter ones are padded in front, where nobody looks."""
    reference = load_reference(real_model_dir)
    stop = reference.generation_config.eos_token_id
    ids = [tokenizer.encode(prompt).ids for prompt in ASKED]
    width = max(map(len, ids))
    with torch.inference_mode():
        new = reference.generate(
            torch.tensor([[stop] * (width - len(row)) + row for row in ids]),
            attention_mask=torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids]),
            pad_token_id=stop,
            max_new_tokens=N_NEW,
            do_sample=False,
        )[:, width:].tolist()
    cut = [row[: row.index(stop)] if stop in row else row for row in new]
    return {prompt: both for prompt, *both in zip(ASKED, ids, cut, strict=True)}


# --- the loop of smol_generate ----------------------------------------------------------------

ON_TEXT = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t, ctypes.c_uint32
)
STOP, LENGTH = 0, 1  # smol_finish
GenerateParams = c_struct("smol.h", "smol_generate_params", on_text=ON_TEXT)
GenerateResult = c_struct("smol.h", "smol_generate_result")

lib.smol_generate.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_size_t] + [ctypes.c_void_p] * 3


def generate(model, prompt_ids):
    """Greedy: (generated ids, text, finish)."""
    ids, pieces = [], []

    @ON_TEXT
    def on_text(_user, text, size, token):
        pieces.append(text[:size])
        if token != 2**32 - 1:
            ids.append(token)
        return 0

    error, sampler, result = Error(), ctypes.c_void_p(), GenerateResult()
    parameters = SamplerParams()
    status = lib.smol_sampler_create(
        ctypes.byref(parameters), ctypes.byref(sampler), ctypes.byref(error)
    )
    check(status, error)
    options = GenerateParams(max_tokens=N_NEW, on_text=on_text)
    prompt_ids = as_ids(prompt_ids)
    with model.context(threads=2) as context:
        status = lib.smol_generate(
            context.handle, sampler, prompt_ids.ctypes.data, len(prompt_ids),
            ctypes.byref(options), ctypes.byref(result), ctypes.byref(error),
        )  # fmt: skip
    lib.smol_sampler_free(sampler)
    check(status, error)
    assert result.n_generated == len(ids) and result.n_prompt == len(prompt_ids)
    return ids, b"".join(pieces).decode(), result.finish


# --- claims -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_prompts_cover_both_ends_of_a_text(expected):
    lengths = [len(new) for _, new in expected.values()]
    assert min(lengths) < N_NEW and lengths.count(N_NEW) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("prompt", ASKED)
def test_most_likely_tokens_are_those_of_transformers(prompt, model, expected):
    """smol_eval and argmax, token by token."""
    ids, new = expected[prompt]
    assert model.tokenize(prompt, parse_special=True) == ids
    ours = []
    with model.context(threads=2) as context:
        logits = context.eval(ids, 1)
        while len(ours) < N_NEW and (token := int(logits[0].argmax())) not in model.stop_ids():
            ours.append(token)
            logits = context.eval([token])
    assert ours == new


@pytest.mark.parametrize("prompt", [PROMPTS[0], PROMPTS[6], PROMPTS[8], *([PROMPTS[1]] if ALL else [])])
def test_generate_gives_the_ids_and_text_of_transformers(prompt, model, expected, tokenizer):
    ids, new = expected[prompt]
    ours, text, finish = generate(model, ids)
    assert ours == new
    assert text == tokenizer.decode(new)
    assert finish == (LENGTH if len(new) == N_NEW else STOP)
