"""NomicBERT, GTE and EuroBERT, encoders whose positions rotate, against transformers. SMOL_TEST_ALL has 40 checkpoints of each."""

import functools
import json
import os
import random

import numpy as np
import programs
import published
import pytest
import torch
import transformers
from blobs import read_blob
from checkpoints import edit_json, randomize
from engine import Model, SmolError, convert, kernel_sets
from internal import UNSUPPORTED
from safetensors.torch import load_file, save_file
from smol_reader import AROUND
from test_embedder import check_embeddings, check_states, cosine, draw_modules, embed, embedding_of, tokenizer_of, write_modules
from test_encoder import lines, states_of
from test_logits import TOLERANCE, largest_difference
from test_rerank import bert_score, check_scores
from test_roberta import BERT, word_piece, xlm_roberta
from tokenizers import Tokenizer, processors

SEEDS = range(40 if os.environ.get("SMOL_TEST_ALL") else 1)
PROMPTS = {"query": "search_query: ", "document": "search_document: "}


@functools.cache
def bert():
    """BERT's tokenizer, with types of tokens."""
    tokenizer = word_piece(BERT)
    tokens = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", tokens)
    return tokenizer.to_str()


# tokenizer.json (EuroBERT's is of the kind that tokenizer_of makes), the class, and the prefix of tensors
KINDS = {
    "nomic": (bert, "NomicBert", "nomic_bert."),
    "gte": (xlm_roberta, "Gte", "gte."),
    "eurobert": (None, "EuroBert", "model."),
}
SCORING = ["nomic", "gte"]


def draw(kind, r):
    """Draws a config.json."""
    heads, groups, positions = r.choice([1, 2, 3]), r.choice([1, 2]), r.choice([140, 514, 900])
    width, theta = 2 * heads * groups * r.randint(4, 15), r.choice([500.0, 10000.0, 250000.0])
    ropes = [{"rope_type": "default"}, {"rope_type": "linear", "factor": 2.0}, {"rope_type": "yarn", "factor": 4.0}]
    return {
        "hidden_size": width, "num_attention_heads": heads * groups, "num_hidden_layers": r.randint(1, 3),
        "intermediate_size": r.randint(5, 130), "max_position_embeddings": positions, "hidden_act": r.choice(["silu", "gelu", "gelu_new"]),
        "rope_parameters": r.choice([None, r.choice(ropes) | {"rope_theta": theta}]),
    } | {
        "nomic": {"head_dim": r.choice([None, 8, 14]), "layer_norm_eps": r.choice([1e-12, 1e-3]), "type_vocab_size": r.choice([1, 2])},
        "gte": {"layer_norm_eps": r.choice([1e-12, 1e-3]), "type_vocab_size": r.choice([0, 1, 2])},
        "eurobert": {
            "head_dim": r.choice([None, 8, 14]), "num_key_value_heads": heads, "attention_bias": r.random() < 0.4,
            "mlp_bias": r.random() < 0.4, "rms_norm_eps": r.choice([1e-5, 1e-3]),
        },
    }[kind]  # fmt: skip


def write_tokenizer(folder, kind):
    make = KINDS[kind][0]
    if not make:
        return tokenizer_of(lines(20, seed=1), folder)
    (folder / "tokenizer.json").write_text(make())
    tokenizer = Tokenizer.from_str(make())
    tokenizer.no_padding()
    return tokenizer


def make(folder, kind, seed, head="Model", keys=None, **settings):
    """Writes a checkpoint and its tokenizer. keys: config.json, which the settings otherwise make."""
    folder.mkdir(exist_ok=True)
    name = KINDS[kind][1]
    tokenizer = write_tokenizer(folder, kind)
    sizes = {"vocab_size": tokenizer.get_vocab_size() + 6 * (kind == "nomic"), "num_labels": 1}  # padded
    ids = {"pad_token_id": 1} if kind != "eurobert" else {"pad_token_id": 1, "bos_token_id": None, "eos_token_id": 0, "mask_token_id": 2}
    config = getattr(transformers, name + "Config")(**(keys or ids | settings) | sizes)
    model = getattr(transformers, name + head)(config).eval()
    randomize(model, torch.Generator().manual_seed(seed))
    model.save_pretrained(folder)
    if keys:
        (folder / "config.json").write_text(json.dumps(keys | sizes))
    tokenizer.enable_truncation(config.max_position_embeddings, strategy="longest_first")
    return model, tokenizer


def small(**settings):
    return {"hidden_size": 24, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 40} | settings


def some_ids(model, n):
    return np.random.default_rng(n).integers(0, model.config.vocab_size, n)


# --- embeddings and scores ------------------------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_random_checkpoints_are_those_of_transformers(kind, seed, tmp_path):
    """The states of every position of short and long texts, and embeddings through all files of a folder."""
    r = random.Random(f"{kind}{seed}")
    model, tokenizer = make(tmp_path / "c", kind, seed, **draw(kind, r))
    modules = draw_modules(r, tmp_path / "c", model.config.hidden_size, seed, ["mean_tokens", "mean_tokens", "cls_token", "max_tokens"])
    blobs = check_embeddings(tmp_path / "c", model, tokenizer, modules, seed, {"f32": 0.999999, "bf16": 0.999, "int8": 0.9995})
    most = model.config.max_position_embeddings
    check_states(blobs["f32"], model, [some_ids(model, n) for n in (1, r.randint(2, 100), most)])
    assert bool(read_blob(blobs["int8"]).features & AROUND) == (most > 512)
    assert programs.smolconv("verify", blobs["int8"], "--source", tmp_path / "c").returncode == 0
    for other in ("c", "c/model.safetensors"):
        assert programs.smolconv("diff", blobs["f32"], tmp_path / other).returncode == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", SCORING)
def test_scores_are_those_of_transformers(kind, seed, tmp_path):
    """NomicBERT's second text has the second type of tokens."""
    r = random.Random(f"{kind}{seed}")
    settings = draw(kind, r)
    settings["type_vocab_size"] = 2 if kind == "nomic" else settings["type_vocab_size"]
    model, tokenizer = make(tmp_path / "c", kind, seed, "ForSequenceClassification", **settings)
    check_scores(tmp_path / "c", functools.partial(bert_score, model, tokenizer), None, seed, 0.03)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_model_is_the_same_encoder_as_its_body(kind, tmp_path):
    """The head that guesses words is not converted; names of tensors may begin with the model's name or not."""
    masked, _ = make(tmp_path / "masked", kind, 7, "ForMaskedLM", **small())
    prefix = KINDS[kind][2]
    config = json.loads((tmp_path / "masked/config.json").read_text())
    tensors = load_file(tmp_path / "masked/model.safetensors")
    inner = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    assert len(inner) < len(tensors)
    (tmp_path / "body").mkdir()
    save_file(inner, tmp_path / "body/model.safetensors")
    (tmp_path / "body/config.json").write_text(json.dumps(config | {"architectures": [KINDS[kind][1] + "Model"]}))
    write_tokenizer(tmp_path / "body", kind)
    blobs = []
    for folder in ("masked", "body"):
        write_modules(tmp_path / folder, "cls_token", width=masked.config.hidden_size)
        blobs.append(read_blob(convert(tmp_path / folder, tmp_path / f"{folder}.smol", "int8")))
    assert [t.data for t in blobs[0].tensors.values()] == [t.data for t in blobs[1].tensors.values()]


@pytest.mark.parametrize("head", ["Model", "ForSequenceClassification"])
def test_tensors_of_gte_may_have_the_prefix_of_its_own_code(head, tmp_path):
    """And a model of embeddings what made sparse vectors, which transformers ignores."""
    model, _ = make(tmp_path / "c", "gte", 3, head, **small())
    before = convert(tmp_path / "c", tmp_path / "a.smol", "f32").read_bytes()
    path = tmp_path / "c/model.safetensors"
    tensors = {"new." + name.removeprefix("gte."): tensor for name, tensor in load_file(path).items() if not name.startswith("classifier")}
    tensors |= {f"classifier.{name}": tensor for name, tensor in getattr(model, "classifier", torch.nn.Linear(24, 1)).state_dict().items()}
    save_file(tensors, path, metadata={"format": "pt"})
    again = type(model).from_pretrained(tmp_path / "c").state_dict()
    assert all(torch.equal(again[name], tensor) for name, tensor in model.state_dict().items())
    after = convert(tmp_path / "c", tmp_path / "b.smol", "f32").read_bytes()
    assert parts_of(before, tmp_path / "x.smol") == parts_of(after, tmp_path / "x.smol")
    assert programs.smolconv("diff", tmp_path / "b.smol", path).returncode == 0


# what GTE's own code calls the keys
OWN = {
    "attention_probs_dropout_prob": 0.0, "auto_map": {"AutoModel": "configuration.NewModel"}, "classifier_dropout": None, "hidden_dropout_prob": 0.1,
    "initializer_range": 0.02, "layer_norm_type": "layer_norm", "logn_attention_clip1": False, "logn_attention_scale": False, "pack_qkv": True,
    "position_embedding_type": "rope", "unpad_inputs": False, "use_memory_efficient_attention": False, "model_type": "new",
}  # fmt: skip


def use_own_code(folder, model, head, prefix, **keys):
    """Gives a checkpoint the keys of GTE's own code and its names of tensors."""
    config = json.loads((folder / "config.json").read_text())
    kept = {key: value for key, value in config.items() if key not in ("rope_parameters", "model_type", "architectures", "dtype")}
    (folder / "config.json").write_text(json.dumps(kept | OWN | keys | {"architectures": ["New" + head]}))
    path = folder / "model.safetensors"
    tensors = {name.removeprefix("gte."): tensor for name, tensor in load_file(path).items()}
    save_file({name if name.startswith("classifier.") else prefix + name: tensor for name, tensor in tensors.items()}, path)


def scale_ntk(model, theta, factor):
    """Makes the rotation that of https://kexue.fm/archives/9706, formula 6."""
    (rotation,) = (module for module in model.modules() if hasattr(module, "inv_freq"))
    dim = 2 * len(rotation.inv_freq)
    rotation.inv_freq.copy_((theta * factor) ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim) / factor ** (2 / dim))


@pytest.mark.parametrize(("seed", "prefix", "head"), [(1, "", "Model"), (2, "new.", "Model"), (3, "new.", "ForSequenceClassification"), (4, "new.", "ForTokenClassification")])
def test_checkpoints_for_gtes_own_code(seed, prefix, head, tmp_path):
    """The code is not in transformers, whose model differs from it by the frequencies of the rotation. `ForTokenClassification` makes
    sparse vectors from the same states."""
    r = random.Random(f"own{seed}")
    theta, factor = r.choice([10000.0, 500000.0]), r.choice([2.0, 8.0, 1.5])
    settings = draw("gte", r) | {"rope_parameters": None, "hidden_act": "gelu"}
    made = "ForSequenceClassification" if head == "ForSequenceClassification" else "Model"
    model, tokenizer = make(tmp_path / "c", "gte", seed, made, **settings)
    use_own_code(tmp_path / "c", model, head, prefix, rope_theta=theta, rope_scaling={"factor": factor, "type": "ntk"})
    scale_ntk(model, theta, factor)
    if made != "Model":
        check_scores(tmp_path / "c", functools.partial(bert_score, model, tokenizer), None, seed, 0.03)
        return
    if head == "ForTokenClassification":
        tensors = load_file(tmp_path / "c/model.safetensors") | {"classifier.weight": torch.ones(1, model.config.hidden_size), "classifier.bias": torch.ones(1)}
        save_file(tensors, tmp_path / "c/model.safetensors")
    modules = draw_modules(r, tmp_path / "c", model.config.hidden_size, seed, ["cls_token"])
    blobs = check_embeddings(tmp_path / "c", model, tokenizer, modules, seed, {"f32": 0.999999, "bf16": 0.999, "int8": 0.9995})
    check_states(blobs["f32"], model, [some_ids(model, n) for n in (1, 70, model.config.max_position_embeddings)])
    assert programs.smolconv("verify", blobs["int8"], "--source", tmp_path / "c").returncode == 0


def test_gtes_own_code_has_defaults_of_its_own(tmp_path):
    """And what only that code computes is refused."""
    model, _ = make(tmp_path / "c", "gte", 1, **small())
    write_modules(tmp_path / "c", "cls_token", width=24)
    use_own_code(tmp_path / "c", model, "Model", "", rope_scaling=None)
    blob = read_blob(convert(tmp_path / "c", tmp_path / "a.smol", "f32"))
    dim = 2 * len(blob.inv_freq)
    assert np.allclose(blob.inv_freq, 10000.0 ** (-np.arange(0, dim, 2) / dim), rtol=1e-6)
    for change, message in (
        ({"pack_qkv": False}, "pack_qkv"), ({"logn_attention_scale": True}, "logn_attention_scale"), ({"layer_norm_type": "rms_norm"}, "layer_norm_type"),
        ({"rope_scaling": {"type": "ntk", "factor": 2.0, "mixed_b": 0.5}}, "mixed_b"), ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "default, ntk"),
        ({"rope_scaling": {"type": "ntk"}}, "factor is missing"),
    ):  # fmt: skip
        config = (tmp_path / "c/config.json").read_text()
        edit_json(tmp_path / "c/config.json", **change)
        with pytest.raises(SmolError, match=message):
            convert(tmp_path / "c", tmp_path / "b.smol", "f32")
        (tmp_path / "c/config.json").write_text(config)


@pytest.mark.parametrize("kind", ["nomic"])
def test_embeddings_are_the_same_bits_for_any_threads_kernels_and_batch(kind, tmp_path, monkeypatch):
    """And prompts are put before texts."""
    model, tokenizer = make(tmp_path / "c", kind, 3, **small())
    write_modules(tmp_path / "c", "mean_tokens", width=24, prompts=PROMPTS)
    blob, texts = convert(tmp_path / "c", tmp_path / "a.smol", "int8"), lines(12, seed=7)
    together = embed(blob, texts, "--threads", "2", "--prompt", "query")
    for i in (0, 5):
        assert embed(blob, [texts[i]], "--threads", "1", "--prompt", "query").tobytes() == together[i].tobytes()
        expected = embedding_of(model, tokenizer.encode(PROMPTS["query"] + texts[i]).ids, "mean_tokens", [], True)
        assert cosine(together[i], expected) >= 0.9995
    ids = some_ids(model, 290)
    with Model(blob) as smol:
        with smol.context(threads=1) as context:
            alone = context.embed(ids)
        for isa in [name for name, _, runs in kernel_sets() if runs]:
            monkeypatch.setenv("SMOL_ISA", isa)
            for threads in (1, 3):
                with smol.context(threads=threads) as context:
                    assert context.embed(ids).tobytes() == alone.tobytes(), (isa, threads)


# --- config.json ----------------------------------------------------------------------------------

PUBLISHED = {"nomic-embed-text-v1.5": "nomic", "gte-multilingual-base": "gte", "EuroBERT-210m": "eurobert"}

# what NomicBERT's own code calls the keys
OLD = {
    "hidden_size": "n_embd", "intermediate_size": "n_inner", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head",
    "layer_norm_eps": "layer_norm_epsilon", "max_position_embeddings": "n_positions",
}  # fmt: skip


def old_keys(config):
    """config.json as NomicBERT's own code writes it."""
    kept = {key: config[key] for key in ("architectures", "model_type", "vocab_size", "type_vocab_size")}
    renamed = {old: config[key] for key, old in OLD.items()}
    published_keys = {key: value for key, value in published.ENCODERS["nomic-embed-text-v1.5"].items() if key not in kept}
    return published_keys | kept | renamed | {"rotary_emb_base": config["rope_parameters"]["rope_theta"]}


@pytest.fixture(scope="module")
def nomic(tmp_path_factory):
    """A checkpoint without defaults, the text of its config.json, and the bytes of its blob."""
    folder = tmp_path_factory.mktemp("nomic") / "c"
    rope = {"rope_type": "default", "rope_theta": 700.0}
    make(folder, "nomic", 5, **small(max_position_embeddings=300, layer_norm_eps=1e-3, rope_parameters=rope))
    write_modules(folder, "mean_tokens", width=24, prompts=PROMPTS)
    blob = convert(folder, folder.with_name("a.smol"), "f32")
    return folder, json.loads((folder / "config.json").read_text()), blob.read_bytes()


def parts_of(data, path):
    path.write_bytes(data)
    blob = read_blob(path)
    return blob.model, [t.data for t in blob.tensors.values()], blob.inv_freq.tobytes()


def test_keys_of_nomics_own_code_make_the_same_model(nomic, tmp_path):
    """Alone, as published, and beside those of today, as transformers writes what it has read."""
    folder, config, data = nomic
    expected = parts_of(data, tmp_path / "a.smol")
    for i, keys in enumerate((old_keys(config), old_keys(config) | config)):
        (folder / "config.json").write_text(json.dumps(keys))
        assert parts_of(convert(folder, tmp_path / f"{i}.smol", "f32").read_bytes(), tmp_path / "b.smol") == expected
    (folder / "config.json").write_text(json.dumps(old_keys(config) | config | {"n_positions": 8192}))
    assert read_blob(convert(folder, tmp_path / "c.smol", "f32")).model["context_length"] == 8192


# a change of the old keys and what the refusal says; None: the key is removed
REFUSED = [
    ({"qkv_proj_bias": True}, "qkv_proj_bias"), ({"mlp_fc1_bias": True}, "mlp_fc1_bias"), ({"mlp_fc2_bias": True}, "mlp_fc2_bias"),
    ({"prenorm": True}, "prenorm"), ({"parallel_block": True}, "parallel_block"), ({"causal": True}, "causal"),
    ({"use_rms_norm": True}, "use_rms_norm"), ({"rotary_emb_interleaved": True}, "rotary_emb_interleaved"),
    ({"rotary_emb_scale_base": 512}, "rotary_emb_scale_base"), ({"rotary_scaling_factor": 2}, "rotary_scaling_factor"),
    ({"moe_every_n_layers": 2}, "moe_every_n_layers"), ({"num_heads_kv": 1}, "num_heads_kv"),
    ({"activation_function": "gelu"}, "activation_function must be swiglu"), ({"rotary_emb_fraction": 0.5}, "rotary_emb_fraction"),
    ({"n_inner": None}, "n_inner must be a number, found nothing"), ({"n_layer": "2"}, 'n_layer must be a number, found "2"'),
    ({"hidden_size": 48, "n_embd": 24}, "n_embd is 24, but hidden_size is not"),
    ({"rope_parameters": {"rope_type": "default", "rope_theta": 5.0}}, "rope_theta"),
    ({"model_type": "bert"}, "model_type"), ({"architectures": ["NomicBertForPreTraining"]}, "NomicBertForMaskedLM, NomicBertModel"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_old_keys_that_are_not_supported_are_refused(change, message, nomic, tmp_path):
    folder, config, _ = nomic
    keys = old_keys(config) | change
    (folder / "config.json").write_text(json.dumps({key: value for key, value in keys.items() if value is not None}))
    with pytest.raises(SmolError, match=message):
        convert(folder, tmp_path / "a.smol", "f32")


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("nomic", {"num_key_value_heads": 1}, "num_key_value_heads"), ("gte", {"logn_attention_scale": True}, "logn_attention_scale"),
        ("gte", {"rope_parameters": {"rope_theta": 700.0, "rope_type": "ntk", "factor": 2.0}}, "rope_type"), ("gte", {"type_vocab_size": -1}, "type_vocab_size"),
        ("gte", {"layer_norm_type": "rms_norm"}, "layer_norm_type"), ("gte", {"position_embedding_type": "absolute"}, "position_embedding_type"),
        ("eurobert", {"architectures": ["EuroBertForSequenceClassification"]}, "EuroBertForMaskedLM, EuroBertModel"),
        ("eurobert", {"max_position_embeddings": 8193}, "at most 8192 positions"),
    ],
)  # fmt: skip
def test_settings_that_are_not_supported_are_refused(kind, change, message, tmp_path):
    make(tmp_path / "c", kind, 1, **small())
    write_modules(tmp_path / "c", "mean_tokens", width=24)
    edit_json(tmp_path / "c/config.json", **change)
    with pytest.raises(SmolError, match=message) as error:
        convert(tmp_path / "c", tmp_path / "a.smol", "f32")
    assert error.value.status == UNSUPPORTED or change == {"type_vocab_size": -1}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_settings_answer_as_transformers_does(name, tmp_path):
    """config.json as published, spelling and all, but for sizes."""
    keys = published.cut(published.ENCODERS[name], 0)
    today = {key: keys.get(old, keys.get(key)) for key, old in OLD.items()} if PUBLISHED[name] == "nomic" else {}
    model, _ = make(tmp_path, PUBLISHED[name], 1, keys=keys | today)
    (tmp_path / "config.json").write_text(json.dumps(keys | {"vocab_size": model.config.vocab_size}))
    write_modules(tmp_path, "mean_tokens", width=model.config.hidden_size)
    ids = some_ids(model, 200)
    with Model(convert(tmp_path, tmp_path / "a.smol", "f32")) as smol, smol.context() as context:
        assert largest_difference(context.embed(ids), states_of(model, ids)) <= TOLERANCE
