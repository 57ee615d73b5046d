"""smol_embed's hidden states against transformers' last_hidden_state, for every family and a real
model; and the same bits however they come about."""

import numpy as np
import os
import pytest
import torch
from checkpoints import load_reference, make_of
from engine import Model, SmolError, blob_of, convert, kernel_sets
from families import CONFIGS
from features import featured
from internal import CONTEXT_FULL, ROOT, USAGE
from test_logits import TOLERANCE, largest_difference
from texts import prose
from tokenizers import Tokenizer

DEMO = ROOT / "demo/model"
N = 150  # two passes of the runtime


def reference_states(reference, ids):
    """float32 (n, hidden_size): after the final norm."""
    with torch.inference_mode():
        ids = torch.tensor([[int(i) for i in ids]])
        return reference.base_model(ids, use_cache=False).last_hidden_state[0].numpy()


def compare(model, reference, ids):
    """Asserts the agreement of all states and of their poolings; the largest difference."""
    expected = reference_states(reference, ids)
    with model.context(threads=2) as context:
        states = context.embed(ids)
        context.truncate(0)
        mean = context.embed(ids, "mean")
        context.truncate(0)
        last = context.embed(ids, "last")
    difference = largest_difference(states, expected)
    assert difference <= TOLERANCE
    assert largest_difference(mean[None], expected.mean(axis=0, dtype=np.float64)[None]) <= TOLERANCE
    assert (mean == states.mean(axis=0, dtype=np.float64).astype(np.float32)).all()
    assert last.tobytes() == states[-1].tobytes()
    # which is not so for other tokens
    assert largest_difference(states[1:], expected[:-1]) > 5 * TOLERANCE
    return float(difference)


@pytest.mark.sample(12)
@pytest.mark.parametrize("family", CONFIGS)
def test_states_are_those_of_transformers(family, tmp_path, record_property):
    config = featured(family)
    make_of(config, tmp_path, 3)
    ids = np.random.default_rng(4).integers(0, config.vocab_size, N)
    with Model(convert(tmp_path, tmp_path / "f32.smol", "f32")) as model:
        difference = compare(model, load_reference(tmp_path), ids)
    record_property("largest_difference", difference)
    print(f"{family}: {difference:.1e}")


@pytest.mark.slow
def test_states_of_a_real_model_are_those_of_transformers(real_model_dir, record_property):
    ids = Tokenizer.from_file(str(real_model_dir / "tokenizer.json")).encode(prose()).ids[: 300 if os.environ.get("SMOL_TEST_ALL") else 100]
    with Model(blob_of(real_model_dir, "f32")) as model:
        difference = compare(model, load_reference(real_model_dir), ids)
    record_property("largest_difference", difference)
    print(f"real model: {difference:.1e}")


# --- one answer -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "int8"])
def test_states_are_the_same_bits_for_any_threads_parts_and_kernels(dtype, monkeypatch):
    ids = [int(i) for i in (ROOT / "tests/data/demo-tokens.txt").read_text().split()][:N]
    with Model(blob_of(DEMO, dtype)) as model:
        with model.context() as context:
            states = context.embed(ids)
            context.truncate(0)
            mean = context.embed(ids, "mean")
        for isa in [name for name, _, runs in kernel_sets() if runs]:
            monkeypatch.setenv("SMOL_ISA", isa)
            for threads, head in [(1, 1), (2, 77), (3, N - 1), (5, 0)]:
                with model.context(threads=threads) as context:
                    assert context.info().isa.decode() == isa
                    first = context.embed(ids[:head]) if head else states[:0]
                    assert first.tobytes() + context.embed(ids[head:]).tobytes() == states.tobytes()
                    context.truncate(0)
                    assert context.embed(ids, "mean").tobytes() == mean.tobytes()


def test_the_sequence_goes_on_as_after_eval():
    ids = list(range(20, 20 + N))
    with Model(blob_of(DEMO, "int8")) as model, model.context() as context:
        expected = model.logits(ids, 1)
        context.embed(ids[:-1], "mean")
        assert context.eval(ids[-1:]).tobytes() == expected.tobytes()


def test_what_makes_no_sense_is_refused():
    with Model(blob_of(DEMO, "int8")) as model, model.context(n_ctx=10) as context:
        for ids, status in [([], USAGE), ([model.vocab_size], USAGE), ([1] * 11, CONTEXT_FULL)]:
            with pytest.raises(SmolError) as error:
                context.embed(ids, "mean")
            assert error.value.status == status
            assert len(context) == 0
