"""Encoders other than BERT against transformers: EmbeddingGemma and ModernBERT. SMOL_TEST_ALL has 40 checkpoints of each."""

import json
import os
import random

import numpy as np
import published
import pytest
import torch
import transformers
from blobs import accepted_bits, both_refuse, flip_features, read_blob, section
from checkpoints import randomize
from engine import Model, SmolError, convert, kernel_sets
from internal import UNSUPPORTED
from smol_reader import AROUND, ENCODER_SECTION, MODEL
from test_embedder import check_embeddings, check_states, draw_modules, embed, tokenizer_of, write_modules
from test_encoder import lines, states_of
from test_logits import TOLERANCE, largest_difference
from transformers import AutoConfig, Gemma3TextConfig, Gemma3TextModel, ModernBertConfig, ModernBertForMaskedLM, ModernBertModel

N_CHECKPOINTS = 40 if os.environ.get("SMOL_TEST_ALL") else 2
DTYPES = ["f32", "bf16", "int8"] if os.environ.get("SMOL_TEST_ALL") else ["int8"]


def gemma(r):
    """A configuration of EmbeddingGemma's kind. Its window counts both sides."""
    heads, groups, n_layers = r.choice([1, 2, 3]), r.choice([1, 2]), r.randint(1, 4)
    types = [r.choice(["sliding_attention", "sliding_attention", "full_attention"]) for _ in range(n_layers)]
    return Gemma3TextConfig(
        vocab_size=400, hidden_size=heads * groups * r.randint(7, 20), intermediate_size=r.randint(5, 130), num_hidden_layers=n_layers,
        num_attention_heads=heads * groups, num_key_value_heads=heads, head_dim=r.choice([8, 12, 18]),
        max_position_embeddings=r.choice([300, 700, 2048]), sliding_window=r.choice([2, 3, 7, 32, 64, 130, 257, 600]),
        layer_types=types, query_pre_attn_scalar=r.choice([8, 12, 256]), attention_bias=r.random() < 0.3,
        hidden_activation=r.choice(["gelu_pytorch_tanh", "silu"]), use_bidirectional_attention=True, bos_token_id=None,
        eos_token_id=0, pad_token_id=None,
    )  # fmt: skip


def modern(r):
    heads, n_layers = r.choice([1, 2, 3]), r.randint(1, 4)
    types = [r.choice(["sliding_attention", "sliding_attention", "full_attention"]) for _ in range(n_layers)]
    thetas = {kind: {"rope_type": "default", "rope_theta": r.choice([100.0, 10000.0, 160000.0])} for kind in set(types)}
    return ModernBertConfig(
        vocab_size=400, hidden_size=heads * 2 * r.randint(4, 15), intermediate_size=r.randint(5, 130),
        num_hidden_layers=n_layers, num_attention_heads=heads, max_position_embeddings=r.choice([300, 700, 2048]),
        local_attention=r.choice([2, 3, 7, 32, 64, 130, 257, 600]), layer_types=r.choice([None, types]),
        rope_parameters=r.choice([None, thetas]), attention_bias=r.random() < 0.3, mlp_bias=r.random() < 0.3,
        norm_bias=r.random() < 0.3, hidden_activation=r.choice(["gelu", "gelu_pytorch_tanh", "silu"]),
        norm_eps=r.choice([1e-5, 1e-3]), bos_token_id=None, eos_token_id=0, pad_token_id=None, cls_token_id=1, sep_token_id=2,
    )  # fmt: skip


KINDS = {"embeddinggemma": (gemma, Gemma3TextModel), "modernbert": (modern, ModernBertModel)}


THETAS = {kind: {"rope_type": "default", "rope_theta": 700.0} for kind in ("full_attention", "sliding_attention")}


def make(folder, kind, seed, change=None):
    """Writes a checkpoint, whose texts fill all of the positions if need be."""
    folder.mkdir(exist_ok=True)
    draw, architecture = KINDS[kind]
    config = draw(random.Random(seed))
    if kind == "modernbert" and "layer_types" in (change or {}):
        config.rope_parameters = THETAS
    for name, value in (change or {}).items():
        setattr(config, name, value)
    model = architecture(config).eval()
    randomize(model, torch.Generator().manual_seed(seed))
    model.save_pretrained(folder)
    tokenizer = tokenizer_of(lines(20, seed=1), folder)
    tokenizer.enable_truncation(config.max_position_embeddings)
    return model, tokenizer


@pytest.mark.parametrize("seed", range(N_CHECKPOINTS))
@pytest.mark.parametrize("kind", KINDS)
def test_random_checkpoints_are_those_of_transformers(kind, seed, tmp_path):
    """The states of every position of short and long texts, and embeddings through all files of a folder."""
    r = random.Random(seed)
    model, tokenizer = make(tmp_path / "c", kind, seed)
    width, most = model.config.hidden_size, model.config.max_position_embeddings
    modules = draw_modules(r, tmp_path / "c", width, seed, ["mean_tokens", "mean_tokens", "cls_token", "max_tokens"])
    blobs = check_embeddings(tmp_path / "c", model, tokenizer, modules, seed, {"f32": 0.999999, "bf16": 0.999, "int8": 0.9995})
    lengths = (1, r.randint(2, 100), r.randint(129, 299), most if seed % 4 == 0 else r.randint(129, most))
    check_states(blobs["f32"], model, [np.random.default_rng(n).integers(0, model.config.vocab_size, n) for n in lengths])


@pytest.fixture(scope="module", params=KINDS)
def made(request, tmp_path_factory):
    """A checkpoint with windows in its first layer, and what it needs in config.json."""
    folder = tmp_path_factory.mktemp("around") / "checkpoint"
    types = ["sliding_attention", "full_attention", "sliding_attention"]
    change = {"num_hidden_layers": 3, "layer_types": types, "sliding_window": 41, "max_position_embeddings": 700}
    model, tokenizer = make(folder, request.param, 5, change)
    write_modules(folder, "mean_tokens", width=model.config.hidden_size)
    return folder, model, tokenizer


@pytest.mark.parametrize("dtype", DTYPES)
def test_embeddings_are_the_same_bits_for_any_threads_kernels_and_batch(made, dtype, tmp_path, monkeypatch):
    texts = lines(12, seed=7)
    blob = convert(made[0], tmp_path / "a.smol", dtype)
    together = embed(blob, texts, "--threads", "2")
    for i in (0, 5):
        assert embed(blob, [texts[i]], "--threads", "1").tobytes() == together[i].tobytes()
    ids = np.random.default_rng(5).integers(0, 400, 290)
    with Model(blob) as smol:
        with smol.context(threads=1) as context:
            expected = context.embed(ids)
        for isa in [name for name, _, runs in kernel_sets() if runs]:
            monkeypatch.setenv("SMOL_ISA", isa)
            for threads in (1, 3):
                with smol.context(threads=threads) as context:
                    assert context.embed(ids).tobytes() == expected.tobytes(), (isa, threads)


def test_one_position_more_or_less_of_the_window_is_seen(made, tmp_path):
    """Each token of a text is another one in turn: which states change, in one windowed layer."""
    folder, model, _ = made
    ids, change = np.arange(100) % 300, {"num_hidden_layers": 1, "layer_types": ["sliding_attention"]}
    config = json.loads((folder / "config.json").read_text())
    kind = {"gemma3_text": "embeddinggemma", "modernbert": "modernbert"}[config["model_type"]]
    reference, _ = make(tmp_path / "c", kind, 5, change | {"sliding_window": 9, "max_position_embeddings": 700})
    del model
    with Model(convert(tmp_path / "c", tmp_path / "a.smol", "f32")) as smol, smol.context() as context:
        before = context.embed(ids)
        for place in (0, 50, 63, 64, 99):
            other = np.where(np.arange(100) == place, 350, ids)
            context.truncate(0)
            touched = np.flatnonzero((context.embed(other) != before).any(axis=1))
            expected = np.flatnonzero((states_of(reference, other) != states_of(reference, ids)).any(axis=1))
            side = read_blob(tmp_path / "a.smol").model["sliding_window"] - 1
            assert list(touched) == list(range(max(place - side, 0), min(place + side, 99) + 1)) == list(expected)


@pytest.mark.slow
def test_both_readers_agree_on_every_bit(made, tmp_path):
    """Every bit of the section encoder and the features is flipped, and the digests are repaired."""
    blob = convert(made[0], tmp_path / "a.smol", "int8")
    start, size = section(blob.read_bytes(), ENCODER_SECTION)
    assert 5 <= accepted_bits(blob, tmp_path, start, start + size) <= 20  # kinds of pooling, and lengths of texts


def test_broken_features_are_refused(made, tmp_path):
    """A window or a context without the feature, the feature without either, and without an encoder."""
    blob = convert(made[0], tmp_path / "a.smol", "f32")
    assert read_blob(blob).features & AROUND

    def change(feature, fields, layers=None):
        def edit(data):
            flip_features(data, AROUND if feature else 0)
            start = section(data, MODEL)[0]
            for at, value in fields.items():
                data[start + at : start + at + 4] = value.to_bytes(4, "little")
            if layers is not None:
                place, size = section(data, 8)
                data[place : place + size] = bytes(b & ~1 for b in data[place : place + size]) if layers else b""

        return edit

    for edit in (change(True, {}), change(False, {36: 8193}), change(True, {36: 300}), change(False, {36: 300, 100: 0}, True)):
        both_refuse(blob, tmp_path, edit)


@pytest.mark.parametrize("settings", [{}, {"classifier_bias": True, "norm_bias": True, "tie_word_embeddings": False}])
def test_a_masked_model_is_the_same_encoder_as_its_body(settings, tmp_path):
    """The head that guesses words is not converted."""
    make(tmp_path / "a", "modernbert", 3, settings)
    config = ModernBertConfig.from_pretrained(tmp_path / "a")
    masked = ModernBertForMaskedLM(config).eval()
    masked.model.load_state_dict(ModernBertModel.from_pretrained(tmp_path / "a").state_dict())
    masked.save_pretrained(tmp_path / "b")
    (tmp_path / "b/tokenizer.json").write_text((tmp_path / "a/tokenizer.json").read_text())
    for name in "ab":
        write_modules(tmp_path / name, "cls_token", width=config.hidden_size)
    blobs = [read_blob(convert(tmp_path / name, tmp_path / f"{name}.smol", "int8")) for name in "ab"]
    assert [t.data for t in blobs[0].tensors.values()] == [t.data for t in blobs[1].tensors.values()]


MODERN_CHANGES = [
    ({"sliding_window": 20}, "sliding_window"), ({"head_dim": 16}, "head_dim"), ({"rope_theta": 5.0}, "rope_theta"),
    ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling"), ({"local_attention": 0}, "local_attention"),
    ({"layer_types": None, "global_attn_every_n_layers": 0}, "global_attn_every_n_layers"), ({"norm_bias": True}, "norm.bias"),
    ({"num_key_value_heads": 1}, "num_key_value_heads"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "named"), MODERN_CHANGES)
def test_keys_that_modernbert_does_not_read_are_refused(change, named, tmp_path):
    make(tmp_path / "c", "modernbert", 3, {"norm_bias": False})
    path = tmp_path / "c/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(SmolError, match=named):
        convert(tmp_path / "c", tmp_path / "a.smol", "f32")


def test_the_old_keys_of_modernbert_are_read(tmp_path):
    """config.json as ModernBERT-base was published with: global_attn_every_n_layers and two thetas."""
    types = ["full_attention", "sliding_attention"] * 2
    make(tmp_path / "c", "modernbert", 3, {"num_hidden_layers": 4, "layer_types": types, "rope_parameters": THETAS, "norm_bias": False})
    path = tmp_path / "c/config.json"
    config = json.loads(path.read_text())
    del config["layer_types"], config["rope_parameters"]
    old = {"global_attn_every_n_layers": 2, "global_rope_theta": 500.0, "local_rope_theta": 100.0, "local_attention": 31}
    path.write_text(json.dumps(config | old | {"position_embedding_type": "absolute", "layer_norm_eps": 1e-5}))
    model = ModernBertModel.from_pretrained(tmp_path / "c").eval()
    assert model.config.layer_types == types
    ids = np.random.default_rng(1).integers(0, 400, 200)
    with Model(convert(tmp_path / "c", tmp_path / "a.smol", "f32")) as smol, smol.context() as context:
        assert largest_difference(context.embed(ids), states_of(model, ids)) <= TOLERANCE


@pytest.mark.parametrize("name", ["EmbeddingGemma 300M", "ModernBERT base"])
def test_published_settings_answer_as_transformers_does(name, tmp_path):
    """config.json as published, spelling and all, but for sizes."""
    keys = json.dumps(published.cut(published.ENCODERS[name], 400))
    (tmp_path / "config.json").write_text(keys)
    config = AutoConfig.from_pretrained(tmp_path)
    model = getattr(transformers, config.architectures[0])(config).eval()
    randomize(model, torch.Generator().manual_seed(1))
    model.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(keys)
    tokenizer_of(lines(20, seed=1), tmp_path)
    body = getattr(model, "model", model)
    assert set(body.config.layer_types) == {"full_attention", "sliding_attention"}
    ids = np.random.default_rng(1).integers(0, 400, 200)
    with Model(convert(tmp_path, tmp_path / "a.smol", "f32")) as smol, smol.context() as context:
        assert largest_difference(context.embed(ids), states_of(body, ids)) <= TOLERANCE


def test_a_model_of_logits_sees_only_what_is_before(tmp_path):
    """Gemma3ForCausalLM with EmbeddingGemma's key is refused."""
    make(tmp_path / "c", "embeddinggemma", 1)
    path = tmp_path / "c/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"architectures": ["Gemma3ForCausalLM"]}))
    with pytest.raises(SmolError, match="use_bidirectional_attention") as error:
        convert(tmp_path / "c", tmp_path / "a.smol", "f32")
    assert error.value.status == UNSUPPORTED


def test_an_encoder_of_too_many_positions_is_refused(tmp_path):
    make(tmp_path / "c", "embeddinggemma", 1, {"max_position_embeddings": 8193})
    with pytest.raises(SmolError, match="8192 positions") as error:
        convert(tmp_path / "c", tmp_path / "a.smol", "f32")
    assert error.value.status == UNSUPPORTED
