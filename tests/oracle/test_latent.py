"""Attention to latent vectors (MiniCPM 3). The cache holds one vector for all heads, and the matrices that would expand it are
applied to queries and outputs; whatever is done to a sequence, its logits are the bits of a new context with the same tokens, and
in f32 those of transformers."""

import shutil

import numpy as np
import pytest
from blobs import read_blob
from checkpoints import edit_config, make_of
from engine import Model, Prefixes, SmolError, convert, isa_params, kernel_sets
from folding import Folding
from internal import DAMAGED, UNSUPPORTED
from programs import smolconv
from sequences import Text, check_long_text, check_splits, random_ids, reference_of
from stats_reader import Stats
from test_calibrate import calibrate, compare_grams
from test_calibration import factor
from test_determinism import KVS, same_bits
from test_logits import largest_difference
from transformers import MiniCPM3Config

LAYERS, RANK, ROPE = 3, 48, 6
SETTINGS = dict(
    vocab_size=101, hidden_size=48, intermediate_size=40, num_hidden_layers=LAYERS, num_attention_heads=6,
    num_key_value_heads=6, max_position_embeddings=4096, bos_token_id=None, eos_token_id=None, pad_token_id=None,
    q_lora_rank=33, kv_lora_rank=RANK, qk_nope_head_dim=9, qk_rope_head_dim=ROPE, v_head_dim=16, dim_model_base=16,
)  # fmt: skip


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return make_of(MiniCPM3Config(**SETTINGS), tmp_path_factory.mktemp("latent") / "checkpoint")


@pytest.fixture(scope="module", params=["f32", "bf16", "int8", "int4"])
def model(request, checkpoint):
    with Model(convert(checkpoint, checkpoint / f"{request.param}.smol", request.param, force=True)) as model:
        yield model


def test_long_texts_are_those_of_transformers(checkpoint):
    with Model(convert(checkpoint, checkpoint / "long.smol", "f32")) as model:
        check_long_text(model, checkpoint, 900, [1, 2, 4, 260, 261, 700])


@pytest.mark.parametrize("dtype, kv, most", [("int8", "f32", 0.03), ("f32", "f16", 1e-3), ("f32", "int8", 0.03), ("f32", "int4", 0.3)])
def test_what_is_rounded_answers_almost_the_same(checkpoint, dtype, kv, most):
    ids = random_ids(np.random.default_rng(1), 300)
    with Model(convert(checkpoint, checkpoint / "rounded.smol", dtype, force=True)) as model:
        difference = largest_difference(model.logits(ids, kv=kv), reference_of(checkpoint, ids))
    assert 0 < difference < most


@pytest.mark.sample(2)
@pytest.mark.parametrize("isa", isa_params(kernel_sets()))
def test_any_split_threads_and_instruction_set_give_the_same_bits(model, isa, monkeypatch):
    check_splits(model, 400, isa, monkeypatch, KVS, rounds=1)


@pytest.mark.sample(8)
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


def test_a_cache_of_prefixes_gives_the_same_bits(model):
    ids = list(random_ids(np.random.default_rng(3), 300))
    expected = model.logits(ids, 1)
    with Prefixes(model, 16) as prefixes:
        for _ in range(2):
            with model.context(1, prefixes=prefixes) as context:
                assert same_bits(context.eval(ids, 1), expected)
        assert prefixes.info().n_reused > 0


@pytest.mark.parametrize("kv, size", [("f32", 4), ("f16", 2), ("int8", 1), ("int4", 0.5)])
def test_the_cache_and_sessions_hold_each_vector_once(checkpoint, kv, size):
    """Each layer and position takes kv_lora_rank + qk_rope_head_dim numbers."""
    n = 640
    with Model(convert(checkpoint, checkpoint / "size.smol", "f32", force=True)) as model, Text(model, kv) as text:
        text.add(random_ids(np.random.default_rng(4), n))
        numbers = LAYERS * (RANK + ROPE) * size * n
        scales = LAYERS * 4 * n if size <= 1 else 0
        assert text.context.info().kv_bytes == numbers + scales
        assert numbers + scales < len(text.save()) < numbers + scales + 16 * n


def altered(checkpoint, folder, **settings):
    shutil.copytree(checkpoint, folder)
    edit_config(folder, lambda config: config.update(settings))
    return folder


@pytest.mark.parametrize(
    "settings, status, message",
    [
        ({"attention_bias": True}, UNSUPPORTED, "attention_bias"),
        ({"kv_lora_rank": 40}, UNSUPPORTED, "only multiples of 16"),
        ({"v_head_dim": 17}, UNSUPPORTED, "only multiples of 16"),
        ({"v_head_dim": None}, UNSUPPORTED, "v_head_dim 8"),
        ({"kv_lora_rank": 1024}, UNSUPPORTED, "at most 1024"),
        ({"num_key_value_heads": 3}, DAMAGED, "num_key_value_heads"),
        ({"hidden_size": 50}, DAMAGED, "not a multiple"),
        ({"qk_rope_head_dim": 7}, UNSUPPORTED, "odd"),
        ({"qk_nope_head_dim": 10}, DAMAGED, "kv_b_proj"),
        ({"q_lora_rank": None}, DAMAGED, "q_b_proj"),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1e4, "mscale_all_dim": 1.0}},
            UNSUPPORTED,
            "rope_parameters.mscale_all_dim",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_name(checkpoint, tmp_path, settings, status, message):
    folder = altered(checkpoint, tmp_path / "altered", **settings)
    with pytest.raises(SmolError, match=message) as failure:
        convert(folder, tmp_path / "out.smol", "f32")
    assert failure.value.status == status


@pytest.mark.parametrize("settings", [{"q_lora_rank": 33}, {"q_lora_rank": None}, {"q_lora_rank": 400, "kv_lora_rank": 256}])
def test_the_inputs_of_all_heads_are_those_of_transformers(settings, tmp_path):
    """Also where queries have one matrix alone; in any memory, of which the last model needs several passes, and number of threads."""
    make_of(MiniCPM3Config(**SETTINGS | settings | {"num_hidden_layers": 4 if settings["q_lora_rank"] == 400 else 2}), tmp_path, 8)
    text = tmp_path / "text"
    compare_grams(tmp_path, text)
    other = calibrate(tmp_path / "f32.smol", text, tmp_path / "other", "--window", 150, "--memory", 1, "--threads", 3)
    assert other == (tmp_path / "stats").read_bytes()


def test_codes_of_heads_are_those_of_error_feedback(checkpoint, tmp_path):
    """The Gram matrix is that of the head to which a row belongs."""
    blob = convert(checkpoint, tmp_path / "f32.smol", "f32")
    (tmp_path / "text").write_text("Anna the baker met Otto in Willowby. " * 40)
    stats = Stats(calibrate(blob, tmp_path / "text", tmp_path / "stats"))
    assert smolconv("--quiet", "--dtype", "int4", "--calibration", tmp_path / "stats", checkpoint, tmp_path / "int4.smol").returncode == 0
    exact, rounded = read_blob(blob), read_blob(tmp_path / "int4.smol")
    folding = Folding(stats, exact.model)
    for layer in range(LAYERS):
        for name, place in (("attn_k_up", 0), ("attn_v_up", 1), ("attn_q", None)):
            name = f"layers.{layer}.{name}"
            tensor, weights = rounded.tensors[name], folding.tensor(name, exact.tensors[name].values())
            levels, (codes, scales) = np.array(tensor.levels, np.float64), tensor.steps_and_scales(tensor.rows, tensor.cols)
            errors = weights - levels[codes] * scales.astype(np.float64)
            n_parts = 1 if place is None else SETTINGS["num_attention_heads"]
            for head, rows in enumerate(np.split(np.arange(tensor.rows), n_parts)):
                record = stats.query(layer) if place is None else stats.head(layer, head) + place
                targets = weights[rows] + errors[rows] @ np.triu(factor(folding.gram(stats, record)), 1)
                distance = np.abs(targets[..., None] / scales[rows].astype(np.float64)[..., None] - levels)
                chosen = np.take_along_axis(distance, codes[rows][..., None].astype(int), -1)[..., 0]
                assert (chosen <= distance.min(axis=-1) + 0.05).all(), (name, head)
