"""The cost of int8: the divergence of a real model's int8 blob from its f32 blob over real text. The
figures go to build/measured/kl.json."""

import json
import os

import numpy as np
import pytest
import torch
from engine import Model, blob_of
from internal import BUILD
from texts import prose
from tokenizers import Tokenizer

N_WINDOWS, WINDOW = (8, 512) if os.environ.get("SMOL_TEST_ALL") else (1, 256)  # spread over the text
MOST_DIVERGENCE = 0.005  # nats
LEAST_AGREEMENT = 0.95  # of the most likely tokens


@pytest.fixture(scope="module")
def windows(real_model_dir):
    ids = Tokenizer.from_file(str(real_model_dir / "tokenizer.json")).encode(prose()).ids
    starts = np.linspace(0, len(ids) - WINDOW, N_WINDOWS, dtype=int)
    assert (np.diff(starts) >= WINDOW).all()
    return [np.array(ids[start : start + WINDOW]) for start in starts]


def compare(exact, ours, ids):
    """Per position: KL(exact || ours), same most likely token, and log probabilities of the text's
    next token."""
    p, q = (torch.log_softmax(torch.from_numpy(x), dim=1) for x in (exact, ours))
    divergence = (p.exp() * (p - q)).sum(dim=1, dtype=torch.float64)
    same = torch.from_numpy(exact.argmax(axis=1) == ours.argmax(axis=1))
    index = torch.from_numpy(ids[1:])[:, None]
    return divergence, same, p[:-1].gather(1, index), q[:-1].gather(1, index)


@pytest.fixture(scope="module")
def measured(real_model_dir, is_original, windows):
    parts = []
    f32_blob, int8_blob = blob_of(real_model_dir, "f32"), blob_of(real_model_dir, "int8")
    with Model(f32_blob) as f32, Model(int8_blob) as int8:
        for ids in windows:
            exact, ours = f32.logits(ids, threads=2), int8.logits(ids, threads=2)
            parts.append(compare(exact, ours, ids))
    divergence, same, p, q = (torch.cat(column).double() for column in zip(*parts))
    return {
        "model": "original" if is_original else "rebuilt from 4-bit weights",
        "positions": len(divergence),
        "window": WINDOW,
        "mean_kl": divergence.mean().item(),
        "median_kl": divergence.median().item(),
        "p99_kl": divergence.quantile(0.99).item(),
        "max_kl": divergence.max().item(),
        "top1_agreement": same.mean().item(),
        "perplexity_f32": (-p).mean().exp().item(),
        "perplexity_int8": (-q).mean().exp().item(),
    }


@pytest.mark.slow
def test_mean_divergence_of_int8_is_small(measured, record_property):
    folder = BUILD / "measured"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kl.json").write_text(json.dumps(measured, indent=2) + "\n")
    for name, value in measured.items():
        record_property(name, value)
    print(json.dumps(measured, indent=2))
    assert measured["positions"] >= 4000
    assert 0 < measured["mean_kl"] <= MOST_DIVERGENCE


@pytest.mark.slow
def test_int8_mostly_agrees_on_the_most_likely_token(measured):
    assert measured["top1_agreement"] >= LEAST_AGREEMENT


@pytest.mark.slow
def test_int8_predicts_the_text_as_well(measured):
    assert measured["perplexity_int8"] <= 1.01 * measured["perplexity_f32"]
