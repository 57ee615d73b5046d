"""Layers that differ (Gemma 4): two shapes of heads, keys and values of earlier layers, and an input for each layer. Whatever is done
to a sequence, its logits are the bits of a new context with the same tokens, and in f32 those of transformers."""

import json
import re
import struct

import numpy as np
import pytest
from blobs import accepted_bits, both_refuse, edited, flip_features, read_blob, section
from checkpoints import make_of
from engine import Model, Prefixes, SmolError, convert, eval_many, isa_params, kernel_sets
from programs import smolconv
from sequences import Text, check_long_text, check_splits, random_ids, reference_of
from smol_reader import LAYERS as LAYERS_SECTION
from smol_reader import SECOND_TABLE, VARIED, VARIED_SECTION, WINDOWED
from test_determinism import KVS, same_bits
from test_logits import largest_difference
from transformers import Gemma4TextConfig

WINDOW, LAYERS, KEPT, BLOCK = 70, 6, 4, 64
SETTINGS = dict(
    vocab_size=101, hidden_size=48, intermediate_size=40, num_hidden_layers=LAYERS, num_attention_heads=4, num_key_value_heads=2,
    head_dim=12, global_head_dim=20, attention_k_eq_v=True, num_global_key_value_heads=1, num_kv_shared_layers=LAYERS - KEPT,
    use_double_wide_mlp=True, hidden_size_per_layer_input=16, vocab_size_per_layer_input=101, max_position_embeddings=4096,
    sliding_window=WINDOW, layer_types=["sliding_attention", "full_attention"] * 3, final_logit_softcapping=30.0,
    bos_token_id=None, eos_token_id=None, pad_token_id=None,
)  # fmt: skip
HEADS = [(2, 12), (1, 20)] * (KEPT // 2)  # of keys and values of each layer that keeps them, and their size


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return make_of(Gemma4TextConfig(**SETTINGS), tmp_path_factory.mktemp("varied") / "checkpoint")


@pytest.fixture(scope="module", params=["f32", "bf16", "int8", "int4"])
def model(request, checkpoint):
    with Model(convert(checkpoint, checkpoint / f"{request.param}.smol", request.param, force=True)) as model:
        yield model


def test_long_texts_are_those_of_transformers(checkpoint):
    with Model(convert(checkpoint, checkpoint / "long.smol", "f32", force=True)) as model:
        check_long_text(model, checkpoint, 900, [1, 2, 4, 260, 261, 700])


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype, kv, most", [("int8", "f32", 0.1), ("f32", "f16", 1e-3), ("f32", "int8", 0.05), ("f32", "int4", 0.6)])
def test_what_is_rounded_answers_almost_the_same(checkpoint, dtype, kv, most):
    ids = random_ids(np.random.default_rng(1), 300)
    with Model(convert(checkpoint, checkpoint / "rounded.smol", dtype, force=True)) as model:
        difference = largest_difference(model.logits(ids, kv=kv), reference_of(checkpoint, ids))
    assert 0 < difference < most


@pytest.mark.sample(1)
@pytest.mark.parametrize("isa", isa_params(kernel_sets()))
def test_any_split_threads_and_instruction_set_give_the_same_bits(model, isa, monkeypatch):
    check_splits(model, 400, isa, monkeypatch, KVS, rounds=1)


@pytest.mark.sample(3)
@pytest.mark.parametrize("kv", KVS)
def test_any_way_back_leads_to_the_same_bits(model, kv):
    rng = np.random.default_rng(KVS.index(kv))
    with Text(model, kv) as text:
        for _ in range(5):
            size = rng.choice([1, 2, 17, 128, 300])
            assert same_bits(text.add(random_ids(rng, size)), text.expected())
            text.cut(int(rng.integers(len(text.ids) // 2, len(text.ids) + 1)))
            text.restore(text.save(), text.ids)
        text.add(random_ids(rng, 100))
        text.slide(4, 50)
        assert same_bits(text.add(random_ids(rng, 3)), text.expected())


def test_sequences_share_a_pass_and_a_cache_of_prefixes(model):
    """All but the first begin with tokens that the cache has by then."""
    rng = np.random.default_rng(3)
    start = list(random_ids(rng, 300))
    texts = [start + list(random_ids(rng, n)) for n in (20, 1, 100)]
    expected = [model.logits(ids, 1) for ids in texts]
    with Prefixes(model, 32) as prefixes, model.context(2, prefixes=prefixes) as base:
        for _ in range(2):
            contexts = [model.context(share=base, prefixes=prefixes) for _ in texts]
            found = eval_many([(context, ids, 1) for context, ids in zip(contexts, texts, strict=True)])
            for logits, due in zip(found, expected, strict=True):
                assert same_bits(logits, due)
            for context in contexts:
                context.close()
        assert prefixes.info().n_reused >= 3 * (300 - BLOCK)


@pytest.mark.parametrize("kv, size", [("f32", 4), ("f16", 2), ("int8", 1), ("int4", 0.5)])
def test_the_cache_and_sessions_have_no_room_for_layers_that_share(checkpoint, kv, size):
    """The cache aligns values: to 16 numbers, int4's to 32."""
    aligned = 32 if kv == "int4" else 16
    scales = 8 * sum(n for n, _ in HEADS) if size <= 1 else 0
    with Model(convert(checkpoint, checkpoint / "size.smol", "f32", force=True)) as model, Text(model, kv) as text:
        text.add(random_ids(np.random.default_rng(4), BLOCK))
        numbers = sum(n * (dim + -(-dim // aligned) * aligned) for n, dim in HEADS)
        assert text.context.info().kv_bytes == BLOCK * (numbers * size + scales)
        numbers = sum(n * 2 * dim for n, dim in HEADS)
        assert 0 < len(text.save()) - BLOCK * (numbers * size + scales) < 16 * BLOCK


# --- blobs ------------------------------------------------------------------------------------

SECOND = 64  # where the layers of the second kind are
WRONG = [
    (0, "I", 0), (0, "I", 21), (0, "I", 22), (0, "I", 1026), (4, "I", 0), (4, "I", 2), (4, "I", 3), (8, "I", 0), (8, "I", 2),
    (12, "I", 0), (12, "I", 1), (12, "I", 5), (12, "I", 6), (12, "I", 7), (16, "I", 0), (16, "I", 40), (16, "I", 2**22 + 1),
    (20, "I", 0), (20, "I", 15), (20, "I", 4097), *((at, "f", value) for at in (24, 28, 32) for value in (0, -1, np.inf, np.nan)),
    (36, "I", 1), (60, "I", 1), (SECOND, "B", 0), (SECOND, "B", 0b101011), (SECOND, "B", 0b1101010), (SECOND + 127, "B", 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def blob(checkpoint):
    return convert(checkpoint, checkpoint / "hostile.smol", "f32")


def test_fields_that_contradict_each_other_are_refused(blob, tmp_path):
    assert read_blob(blob).features & VARIED
    data = blob.read_bytes()
    start, size = section(data, VARIED_SECTION)
    assert size == 192 and data[start + SECOND] == 0b101010
    layers = section(data, LAYERS_SECTION)[0]
    assert data[layers + 4] & WINDOWED and not data[layers + 5] & WINDOWED
    for at, kind, value in WRONG:
        both_refuse(blob, tmp_path, lambda data: struct.pack_into("<" + kind, data, start + at, value))  # noqa: B023
    for layer in range(LAYERS):  # its keys are those of a layer with another window, or its kind is another one
        for bits in {SECOND_TABLE} | ({WINDOWED} if layer >= KEPT else set()):
            both_refuse(blob, tmp_path, lambda data: data.__setitem__(layers + layer, data[layers + layer] ^ bits))  # noqa: B023
    both_refuse(blob, tmp_path, lambda data: flip_features(data, VARIED))


@pytest.mark.slow
def test_both_readers_agree_on_every_bit(blob, tmp_path):
    """Accepted are other scales of inputs."""
    start, size = section(blob.read_bytes(), VARIED_SECTION)
    assert accepted_bits(blob, tmp_path, start, start + 24) == accepted_bits(blob, tmp_path, start + 36, start + size) == 0
    assert 3 * 28 <= accepted_bits(blob, tmp_path, start + 24, start + 36) <= 3 * 31


INPUTS = ["input_embed", "input_projection", "input_norm", "layers.3.input_gate", "layers.4.input_out_norm", "layers.5.layer_scale"]


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", INPUTS)
def test_a_weight_that_is_no_number_is_an_error(blob, name, value, tmp_path):
    tensor = read_blob(blob).tensors[name]

    def spoil(data):
        data[tensor.offset : tensor.offset + 4] = np.float32(value).tobytes()

    with Model(edited(blob, tmp_path / "b.smol", spoil)) as model, model.context() as context:
        for ids in ([0], [0] * 30):
            with pytest.raises(SmolError, match="NaN or infinity"):
                context.eval(ids)
            context.truncate(0)


def test_inspect_tells_how_layers_differ(blob):
    shown = smolconv("inspect", blob).stdout
    assert re.search(r"^second heads +head_dim 20, n_kv_heads 1, keys are values, in layers 1 3 5$", shown, re.M)
    assert re.search(r"^shared +keys and values from layer 4 on, intermediate_size 80$", shown, re.M)
    assert re.search(r"^layer inputs +16 channels, scales 4, 0.144338, 0.707107$", shown, re.M)
    told = json.loads(smolconv("inspect", "--json", blob).stdout)["model"]
    assert (told["second_head_dim"], told["first_shared"], told["second_layers"]) == (20, KEPT, [1, 3, 5])
