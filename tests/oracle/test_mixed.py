"""Mixed blobs: their logits against transformers with the weights that a second reader finds in the
blob, and with inputs quantized as the engine does."""

import numpy as np
import pytest
import torch
from blobs import read_blob
from checkpoints import load_reference, make
from engine import Model, convert
from test_determinism import TOKENS
from test_format import source_name

SHAPES = {
    "small": {},
    "odd widths": {"hidden_size": 52, "intermediate_size": 71, "num_attention_heads": 2},
    "untied": {"tie_word_embeddings": False, "vocab_size": 93, "hidden_size": 72, "head_dim": 10},
    "biases": {"attention_bias": True, "mlp_bias": True, "intermediate_size": 37, "head_dim": 14},
}


def quantized(x):
    """Rounded to 127 steps per group of 32 inputs."""
    width = x.shape[-1]
    groups = torch.nn.functional.pad(x, (0, -width % 32)).unflatten(-1, (-1, 32))
    amax = groups.abs().amax(-1, keepdim=True)
    steps = torch.where(amax > 0, torch.round(groups * (127 / amax)), 0)
    return (steps * (amax / 127)).flatten(-2)[..., :width]


def as_stored(model, blob):
    """Gives the reference the weights of the blob, and inputs quantized as in its products: the
    output layer's in two steps."""
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

        def hook(_, inputs, two_steps=name == "output"):
            x = quantized(inputs[0])
            return (x + quantized(inputs[0] - x) if two_steps else x,)

        modules[source.removesuffix(".weight")].register_forward_pre_hook(hook)
    return model


@pytest.mark.sample(6)
@pytest.mark.parametrize("dtype", ["int6", "int5", "int4"])
@pytest.mark.parametrize("shape", SHAPES)
def test_logits_are_those_of_the_dequantized_weights(shape, dtype, tmp_path):
    make(tmp_path, seed=len(shape), **SHAPES[shape])
    path = convert(tmp_path, tmp_path / "a.smol", dtype)
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
