"""Mixed blobs: their logits against transformers with the weights that a second reader finds in the
blob, and with inputs quantized as the format says; and one answer everywhere, with fine inputs too."""

import struct

import numpy as np
import pytest
import torch
from blobs import edited, read_blob, section
from checkpoints import load_reference, make
from engine import Model, blob_of, convert, eval_many, kernel_sets
from smol_reader import TENSORS
from test_determinism import DEMO, TOKENS, eval_in_parts, random_sizes, same_bits
from test_format import source_name

FINE_ROLES = {"q": 2, "k": 3, "v": 4, "o": 5, "gate": 11, "up": 12, "down": 13}
SHAPES = {
    "small": {},
    "odd widths": {"hidden_size": 52, "intermediate_size": 71, "num_attention_heads": 2},
    "untied": {"tie_word_embeddings": False, "vocab_size": 93, "hidden_size": 72, "head_dim": 10},
    "biases": {"attention_bias": True, "mlp_bias": True, "intermediate_size": 37, "head_dim": 14},
}
CHOICES = {"none": "", "k and v": "kv", "all": "qkvogud", "attention": "qkvo", "MLP": "ud"}


def with_fine_inputs(source, target, choice):
    """A copy of a mixed blob whose matrices with these initials have fine inputs, in odd layers
    only one."""
    roles = {role for name, role in FINE_ROLES.items() if name[0] in choice}

    def edit(data):
        offset, size = section(data, TENSORS)
        for entry in range(offset, offset + size, 64):
            role, layer = struct.unpack_from("<II", data, entry)
            if role in roles and (layer % 2 == 0 or role == min(roles)):
                struct.pack_into("<I", data, entry + 52, 1)

    return edited(source, target, edit)


def quantized(x):
    """Rounded to 127 steps per group of 32 inputs."""
    width = x.shape[-1]
    groups = torch.nn.functional.pad(x, (0, -width % 32)).unflatten(-1, (-1, 32))
    amax = groups.abs().amax(-1, keepdim=True)
    steps = torch.where(amax > 0, torch.round(groups * (127 / amax)), 0)
    return (steps * (amax / 127)).flatten(-2)[..., :width]


def as_stored(model, blob):
    """Gives the reference the weights of the blob, and inputs of the precision that it asks for."""
    parameters, modules = dict(model.named_parameters()), dict(model.named_modules())
    for name, tensor in blob.tensors.items():
        tied = name == "output" and blob.model["tied_embeddings"]
        source = source_name(name)
        with torch.no_grad():
            if not tied:
                values = torch.from_numpy(np.array(tensor.values()))
                parameters[source].copy_(values.reshape(parameters[source].shape))
        if tensor.is_vector or name == "embed":
            continue

        def hook(_, inputs, fine=tensor.fine_input or name == "output"):
            x = quantized(inputs[0])
            return (x + quantized(inputs[0] - x) if fine else x,)

        modules[source.removesuffix(".weight")].register_forward_pre_hook(hook)
    return model


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("dtype", ["int6", "int5", "int4"])
@pytest.mark.parametrize("shape", SHAPES)
def test_logits_are_those_of_the_dequantized_weights(shape, dtype, choice, tmp_path):
    make(tmp_path, seed=len(shape), **SHAPES[shape])
    plain = convert(tmp_path, tmp_path / "plain.smol", dtype)
    path = with_fine_inputs(plain, tmp_path / "fine.smol", CHOICES[choice])
    reference = load_reference(tmp_path)
    exact = logits_of_pairs(reference)
    expected = logits_of_pairs(as_stored(reference, read_blob(path)))
    with Model(path) as model:
        ours = np.concatenate([model.logits(pair, kv="f32") for pair in PAIRS])
    spread = expected.max(axis=1) - expected.min(axis=1)
    difference = np.abs(ours - expected).max(axis=1) / spread
    lost = np.abs(exact - expected).max(axis=1) / spread
    # an input halfway between two steps may go to either, which moves the logits
    assert np.mean(difference < 1e-5) > 0.5 and difference.max() < 0.05
    assert np.median(lost) > 100 * np.median(difference)


def logits_of_pairs(model):
    """The logits of many texts of two tokens, one after the other."""
    with torch.inference_mode():
        return model(torch.tensor(PAIRS), use_cache=False).logits.flatten(0, 1).numpy()


PAIRS = [[TOKENS[i] % 93, TOKENS[i + 1] % 93] for i in range(0, 70, 2)]


@pytest.fixture(scope="module", params=["int6", "int5", "int4"])
def fine(request, tmp_path_factory):
    """The bundled model with fine inputs everywhere, and its logits."""
    folder = tmp_path_factory.mktemp("fine")
    path = with_fine_inputs(blob_of(DEMO, request.param), folder / "fine.smol", "qkvogud")
    with Model(path) as model:
        yield model, model.logits(TOKENS)


def test_fine_inputs_change_the_logits(fine):
    model, expected = fine
    with Model(blob_of(DEMO, model.info.dtype.decode())) as plain:
        assert not same_bits(plain.logits(TOKENS), expected)


@pytest.mark.parametrize("isa", [name for name, _, runs in kernel_sets() if runs])
def test_fine_logits_are_the_same_for_every_instruction_set(isa, fine, monkeypatch):
    model, expected = fine
    monkeypatch.setenv("SMOL_ISA", isa)
    with model.context(2) as context:
        assert same_bits(eval_in_parts(context, TOKENS, [70, 1, 1, 3]), expected)


@pytest.mark.parametrize("seed", range(4))
def test_fine_logits_are_the_same_for_random_threads_and_splits(seed, fine):
    model, expected = fine
    with model.context(1 + seed) as context:
        parts = eval_in_parts(context, TOKENS, random_sizes(seed, len(TOKENS)))
    assert same_bits(parts, expected)


def test_fine_logits_are_the_same_beside_another_sequence(fine):
    model, expected = fine
    with model.context(2) as a, model.context(share=a) as b:
        for at in (0, 75):
            ids = TOKENS[at : at + 75]
            ours, _ = eval_many([(a, ids, 75), (b, ids[:20], 1)])
            assert same_bits(ours, expected[at : at + 75])
