"""Families of models against transformers in float32: random small checkpoints over drawn
configurations, logits at every position and the greedy continuation. SMOL_FAMILY_CASES says how many
for each family; `make families` takes 40."""

import functools
import json
import os
import struct

import numpy as np
import pytest
import torch
from checkpoints import edit_config, load_reference, make_of, reference_logits
from engine import Model, SmolError, convert
from families import CONTEXT, FAMILIES, draw
from internal import UNSUPPORTED
from test_logits import TOLERANCE, check, largest_difference, spread

N_CASES = int(os.environ.get("SMOL_FAMILY_CASES", 4))
N_POSITIONS = 150  # past every window and original context, and two borders of KV blocks
N_GREEDY = 16


@pytest.fixture(autouse=True, scope="module")
def two_threads():
    torch.set_num_threads(2)


def tokens(vocab_size, n=N_POSITIONS):
    return np.random.default_rng(1).integers(0, vocab_size, n)


def write(folder, config, seed):
    """A checkpoint, its f32 blob, and the reference."""
    make_of(config, folder, seed, dtype=("BF16", "F32", "F16")[seed % 3])
    return convert(folder, folder / "f32.smol", "f32", force=True), load_reference(folder)


def check_greedy(model, reference, ids):
    """The same tokens follow, as long as the reference is sure of them."""
    expected = reference.generate(
        torch.tensor([ids.tolist()]),
        max_new_tokens=N_GREEDY,
        do_sample=False,
        eos_token_id=None,
        return_dict_in_generate=True,
        output_scores=True,
    )
    with model.context(threads=2, kv="f32") as context:
        logits = context.eval(ids, 1)
        for token, scores in zip(expected.sequences[0, len(ids) :].tolist(), expected.scores):
            second, first = np.sort(scores[0].numpy())[-2:]
            if first - second <= TOLERANCE * spread(scores.numpy())[0]:
                return
            assert logits[0].argmax() == token
            logits = context.eval([token], 1)


@pytest.mark.parametrize("i", range(N_CASES))
@pytest.mark.parametrize("family", FAMILIES)
def test_drawn_checkpoint_answers_as_transformers_does(family, i, tmp_path, record_property):
    config = draw(family, i)
    blob, reference = write(tmp_path, config, i)
    ids = tokens(config.vocab_size)
    with Model(blob) as model:
        ours = model.logits(ids, threads=2, kv="f32")
        difference = check(ours, reference_logits(reference, ids))
        check_greedy(model, reference, ids[:100])
    record_property("largest_difference", float(difference))
    print(f"{family} {i}: {difference:.1e}")
