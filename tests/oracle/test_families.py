"""Families of models against transformers in float32: random small checkpoints over drawn
configurations, logits at every position and the greedy continuation. SMOL_FAMILY_CASES says how many
for each family; `make families` takes 40."""

import json
import os
import re
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import published
import pytest
import torch
from checkpoints import edit_config, load_reference, make_of, reference_logits, reference_of
from engine import Model, SmolError, convert
from families import CONFIGS, CONTEXT, TOLERANCES, cases, configs
from features import FEATURES, LAYER1, TWO_LAYERS, config_of, featured, rope
from hypothesis import given
from hypothesis import strategies as st
from internal import BUILD, DAMAGED, ROOT, UNSUPPORTED, USAGE
from safetensors.torch import load_file, save_file
from test_logits import check, largest_difference, spread
from transformers import AutoConfig

N_CASES = int(os.environ.get("SMOL_FAMILY_CASES", 8 if os.environ.get("SMOL_TEST_ALL") else 1))
N_POSITIONS = 150  # past every window and original context, and two borders of KV blocks
N_GREEDY = 16


def tokens(vocab_size, n=N_POSITIONS):
    return np.random.default_rng(1).integers(0, vocab_size, n)


def write(folder, config, seed):
    """A checkpoint, its f32 blob, and the reference."""
    make_of(config, folder, seed, dtype=("BF16", "F32", "F16")[seed % 3])
    return convert(folder, folder / "f32.smol", "f32"), load_reference(folder)


def check_greedy(model, reference, ids, tolerance):
    """Greedy tokens are the same as long as the reference is sure of them. Its cache of a window of one
    position holds all of them, which its attention without a cache does not see."""
    window = getattr(reference.config, "sliding_window", None)
    expected = reference.generate(
        torch.tensor([ids.tolist()]),
        max_new_tokens=N_GREEDY,
        do_sample=False,
        use_cache=window != 1,
        eos_token_id=None,
        return_dict_in_generate=True,
        output_scores=True,
    )
    with model.context(kv="f32") as context:
        logits = context.eval(ids, 1)
        for token, scores in zip(expected.sequences[0, len(ids) :].tolist(), expected.scores):
            second, first = np.sort(scores[0].numpy())[-2:]
            if first - second <= tolerance * spread(scores.numpy())[0]:
                return
            assert logits[0].argmax() == token
            logits = context.eval([token], 1)


def rounding_error(reference, logits, ids):
    """Returns the difference of the reference's float32 logits from its float64 logits, as a share of their spread."""
    exact = reference_logits(reference.double(), ids)
    reference.float()
    return largest_difference(logits, exact)


def compare(family, config, seed, folder):
    """The largest difference of a drawn checkpoint's logits, of their spread."""
    blob, reference = write(folder, config, seed)
    ids = tokens(config.vocab_size)
    expected = reference_logits(reference, ids)
    tolerance = TOLERANCES[family]
    with Model(blob) as model:
        ours = model.logits(ids, kv="f32")
        if largest_difference(ours, expected) > tolerance:  # few and small widths can amplify every rounding
            tolerance = max(tolerance, 4 * rounding_error(reference, expected, ids))
        difference = check(ours, expected, tolerance)
        check_greedy(model, reference, ids[:100], tolerance)
    return float(difference)


@pytest.mark.parametrize("family", CONFIGS)
def test_drawn_checkpoints_answer_as_transformers_does(family, record_property):
    differences = []

    @cases(N_CASES)
    @given(configs(family), st.integers(0, 99))
    def compare_drawn(config, seed):
        with tempfile.TemporaryDirectory() as folder:
            differences.append(compare(family, config, seed, Path(folder)))

    compare_drawn()
    record_property("largest_difference", max(differences))
    print(f"{family}: {len(differences)} checkpoints, at most {max(differences):.1e}")


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", published.CONFIGS)
def test_published_settings_answer_as_transformers_does(name, tmp_path):
    """config.json as published, spelling and all, but for sizes."""
    keys = json.dumps(published.cut(published.CONFIGS[name], TWO_LAYERS["vocab_size"]))
    (tmp_path / "config.json").write_text(keys)
    make_of(AutoConfig.from_pretrained(tmp_path), tmp_path)
    (tmp_path / "config.json").write_text(keys)
    ids = tokens(TWO_LAYERS["vocab_size"])
    family = published.family_of(published.CONFIGS[name])
    with Model(convert(tmp_path, tmp_path / "f32.smol", "f32")) as model:
        expected = reference_logits(load_reference(tmp_path), ids)
        check(model.logits(ids, kv="f32"), expected, TOLERANCES[family])


def test_norms_without_weights_may_be_longer_than_all_else(tmp_path):
    """And they are not counted as a part of the file."""
    settings = FEATURES["nanochat"][0] | {"head_dim": 256, "hidden_size": 48, "intermediate_size": 40}
    make_of(config_of("nanochat", **settings), tmp_path, 3)
    ids = tokens(TWO_LAYERS["vocab_size"])
    with Model(convert(tmp_path, tmp_path / "f32.smol", "f32")) as model:
        check(model.logits(ids, kv="f32"), reference_logits(load_reference(tmp_path), ids), TOLERANCES["nanochat"])
    subprocess.run([BUILD / "smolconv", "verify", tmp_path / "f32.smol", "--source", tmp_path], check=True)
    shown = subprocess.run([BUILD / "smolconv", "inspect", "--json", tmp_path], check=True, stdout=subprocess.PIPE).stdout
    parts = json.loads(shown)["parts"]
    assert sum(part["bytes"] for part in parts if part["part"] != "tokenizer") == (tmp_path / "model.safetensors").stat().st_size


def test_the_document_lists_every_family():
    tables = "".join(file.read_text() for file in (ROOT / "convert/families").glob("*.c"))
    page = (ROOT / "docs/families.md").read_text()
    for name in re.findall(r'\.architecture = "(\w+?)(?:ForMaskedLM)?"', tables):
        assert f"`{name}" in page, name


# --- that every feature matters ---------------------------------------------------------------


def without(folder, family, settings, change):
    """The reference with one feature turned off, or weakened."""
    if isinstance(change, str):
        reference = load_reference(folder)
        with torch.no_grad():
            reference.state_dict()[change].mul_(0.5)
        return reference
    config = config_of(family, **(settings | change))
    return reference_of(folder, config=config)


@pytest.mark.sample(3)
@pytest.mark.parametrize("family", CONFIGS)
def test_comparison_notices_each_feature(family, tmp_path):
    """Our answer is that of a reference with all features, and not that of one that lacks one."""
    settings, features = FEATURES[family]
    blob, reference = write(tmp_path, config_of(family, **settings), 0)
    ids = tokens(TWO_LAYERS["vocab_size"])
    with Model(blob) as model:
        ours = model.logits(ids, kv="f32")
    check(ours, reference_logits(reference, ids), TOLERANCES[family])
    for feature, change in features.items():
        other = reference_logits(without(tmp_path, family, settings, change), ids)
        assert largest_difference(ours, other) > 1e-3, feature


# --- other blobs ------------------------------------------------------------------------------


@pytest.mark.sample(4)
@pytest.mark.parametrize("family", CONFIGS)
def test_other_dtypes_answer_like_f32(family, tmp_path):
    """bf16 holds a BF16 checkpoint's weights exactly, but for an embedding that the converter normalizes; int8 is near. And
    `diff` finds nothing."""
    make_of(featured(family), tmp_path, 7)
    ids = tokens(TWO_LAYERS["vocab_size"])
    logits = {}
    for dtype in ("f32", "bf16", "int8"):
        with Model(convert(tmp_path, tmp_path / f"{dtype}.smol", dtype)) as model:
            logits[dtype] = model.logits(ids, kv="f32")
    subprocess.run([BUILD / "smolconv", "diff", tmp_path / "f32.smol", tmp_path], check=True)
    near = {dtype: np.corrcoef(logits[dtype].ravel(), logits["f32"].ravel())[0, 1] for dtype in logits}
    assert near["int8"] > 0.95 and near["bf16"] > 0.99999
    if family != "nanochat":
        check(logits["bf16"], logits["f32"])


def contents(blob):
    """All sections but the provenance, which tells of config.json's bytes, and what lies by offset."""
    data = blob.read_bytes()
    (n_sections,) = struct.unpack_from("<I", data, 20)
    table = [struct.unpack_from("<IIQQ", data, 64 + 24 * i) for i in range(n_sections)]
    return {kind: data[at : at + size] for kind, _, at, size in table if kind not in (5, 6, 7)}


def old_keys(config):
    """Rewrites the keys as transformers 4 wrote them."""
    if config["model_type"] == "nemotron_h":
        letters = {"linear_attention": "M", "full_attention": "*", "mlp": "-", "moe": "E"}
        pattern = "".join(letters[kind] for kind in config.pop("layers_block_type"))
        config.update(hybrid_override_pattern=pattern, num_hidden_layers=len(pattern))
        return
    rope = config.pop("rope_parameters")
    if "full_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"].pop("rope_theta")
        rope = rope["full_attention"]
    else:
        rope["type"] = rope.pop("rope_type")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope
    config["torch_dtype"] = config.pop("dtype")
    if config["model_type"] == "phi3":
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
        rope["type"] = "su"
    if config["model_type"] == "gpt_neox":
        config["rotary_pct"] = rope.pop("partial_rotary_factor")
        config["rotary_emb_base"] = config.pop("rope_theta")
    if config["model_type"] in ("stablelm", "phi"):
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    if config["model_type"] in ("qwen2", "qwen3", "mistral"):
        config["original_max_position_embeddings"] = rope.pop("original_max_position_embeddings")


@pytest.mark.sample(4)
@pytest.mark.parametrize("family", sorted(set(CONFIGS) - {"gpt2", "gemma4", "lfm3"}))  # without rotation, or without old keys
def test_old_keys_give_the_same_blob(family, tmp_path):
    make_of(featured(family), tmp_path)
    new = contents(convert(tmp_path, tmp_path / "new.smol", "f32"))
    edit_config(tmp_path, old_keys)
    assert contents(convert(tmp_path, tmp_path / "old.smol", "f32")) == new


def assert_bad_shapes_are_refused(folder, name, spoil):
    """Removes the tensor, or replaces it by one of those that spoil(good) returns."""
    path = folder / "model.safetensors"
    good = load_file(path)
    for bad in (None, *spoil(good[name])):
        weights = {key: value for key, value in good.items() if key != name}
        if bad is not None:
            weights[name] = bad.contiguous()
        save_file(weights, path)
        with pytest.raises(SmolError, match=name + " (is missing|has shape)") as caught:
            convert(folder, folder / "a.smol")
        assert caught.value.status == DAMAGED


def test_fused_tensors_are_checked(tmp_path):
    """A tensor that holds several matrices must have the expected shape."""
    make_of(featured("phi3"), tmp_path)
    name = LAYER1 + "mlp.gate_up_proj.weight"
    assert_bad_shapes_are_refused(tmp_path, name, lambda good: (good[:-1], good[:, :-1], good.reshape(-1)))


def test_names_may_lack_their_prefix(tmp_path):
    """The checkpoint that OpenAI published has such names, and also the masks."""
    make_of(featured("gpt2"), tmp_path)
    new = contents(convert(tmp_path, tmp_path / "new.smol", "f32"))
    weights = load_file(tmp_path / "model.safetensors")
    bare = {name.removeprefix("transformer."): tensor for name, tensor in weights.items()}
    assert bare.keys() != weights.keys()
    bare |= {f"h.{i}.attn.bias": torch.ones(1, 1, 8, 8).tril() for i in range(2)}
    save_file(bare, tmp_path / "model.safetensors")
    assert contents(convert(tmp_path, tmp_path / "old.smol", "f32")) == new


def test_fused_biases_are_checked(tmp_path):
    make_of(featured("gptneox"), tmp_path)
    name = "gpt_neox.layers.1.attention.query_key_value.bias"
    assert_bad_shapes_are_refused(tmp_path, name, lambda good: (good[:-1], good[None]))


def test_longrope_answers_as_the_context_asks(tmp_path):
    """The reference takes the long factors for a prompt of more than original_max_position_embeddings
    tokens, the short ones otherwise; a blob has those that --context asks for."""
    longrope = rope(
        "longrope",
        short_factor=[1.0, 1.1, 1.3, 1.5, 1.8, 2.0],
        long_factor=[1.0, 2.0, 4.0, 8.0, 16.0, 30.0],
        original_max_position_embeddings=100,
    )
    make_of(config_of("llama", rope_parameters=longrope), tmp_path)
    reference = load_reference(tmp_path)
    ids = tokens(TWO_LAYERS["vocab_size"])
    for context, n, length in ((0, 100, 100), (100, 100, 100), (101, N_POSITIONS, CONTEXT)):
        blob = convert(tmp_path, tmp_path / "a.smol", "f32", force=True, context=context)
        with Model(blob) as model:
            assert model.info.context_length == length
            check(model.logits(ids[:n], kv="f32"), reference_logits(reference, ids[:n]))
        command = [BUILD / "smolconv", "verify", blob, "--source", tmp_path]
        subprocess.run(command, check=True)  # goes by the blob's context
    with pytest.raises(SmolError, match="max_position_embeddings is 512"):
        convert(tmp_path, tmp_path / "b.smol", context=CONTEXT + 1)


def test_context_is_for_longrope_only(tmp_path):
    make_of(config_of("llama"), tmp_path)
    with pytest.raises(SmolError, match="--context 64.*not of type longrope") as caught:
        convert(tmp_path, tmp_path / "a.smol", context=64)
    assert caught.value.status == USAGE


def test_other_architectures_are_refused_by_name(tmp_path):
    make_of(config_of("llama"), tmp_path)

    def rename(config):
        config["architectures"] = ["BloomForCausalLM"]

    edit_config(tmp_path, rename)
    with pytest.raises(SmolError, match="BloomForCausalLM.*docs/families.md") as caught:
        convert(tmp_path, tmp_path / "a.smol")
    assert caught.value.status == UNSUPPORTED
