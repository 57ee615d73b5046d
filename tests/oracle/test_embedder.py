"""Embedding models beyond BERT against transformers: decoders that pool the last token, prompts, dense layers.

The files of sentence-transformers are written as its release 6.2 does; what they ask for is computed here with torch."""

import json
import os
import random
import struct

import numpy as np
import programs
import pytest
import torch
from blobs import both_refuse, read_blob, section
from checkpoints import randomize
from engine import Model, SmolError, convert, kernel_sets
from internal import DAMAGED, UNSUPPORTED, USAGE
from package import smolrun
from safetensors.torch import save_file
from serving import serving
from smol_reader import EMBEDDER_SECTION
from test_encoder import lines, states_of
from test_logits import TOLERANCE, largest_difference
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModel, LlamaConfig, Qwen3Config

PROMPTS = {"query": "Instruct: find it\nQuery: ", "document": "", "web": "naïve: "}


def tokenizer_of(texts, folder, end="<|endoftext|>"):
    """A byte-level tokenizer that ends each text, as Qwen3-Embedding's does."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=[end, "<|im_start|>", "<|im_end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(texts, trainer)
    content = json.loads(tokenizer.to_str())
    pieces = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end, "type_id": 0}}]
    content["post_processor"] = {
        "type": "Sequence",
        "processors": [
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
            {
                "type": "TemplateProcessing", "single": pieces, "pair": [*pieces, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {end: {"id": end, "ids": [0], "tokens": [end]}},
            },
        ],
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def write_modules(folder, pooling="lasttoken", dense=(), normalizes=True, prompts=PROMPTS, default=None, width=48, seed=0):
    """The files of sentence-transformers. dense: (outputs, activation, has a bias). Returns the layers."""
    names = ["Transformer", "Pooling", *["Dense"] * len(dense), *(["Normalize"] if normalizes else [])]
    types = [f"sentence_transformers.models.{name}" for name in names]
    paths = ["", *[f"{i}_{name}" for i, name in enumerate(names) if i]]
    modules = [{"idx": i, "name": str(i), "path": p, "type": t} for i, (p, t) in enumerate(zip(paths, types, strict=True))]
    (folder / "modules.json").write_text(json.dumps(modules))
    settings = {"__version__": {}, "prompts": prompts, "default_prompt_name": default, "similarity_fn_name": "cosine"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    modes = ["cls_token", "mean_tokens", "max_tokens", "lasttoken"]
    flags = {f"pooling_mode_{mode}": mode == pooling for mode in modes}
    (folder / "1_Pooling/config.json").write_text(json.dumps(flags | {"word_embedding_dimension": width, "include_prompt": True}))
    layers, generator = [], torch.Generator().manual_seed(seed)
    for i, (outputs, activation, biased) in enumerate(dense):
        weights = {"linear.weight": torch.randn(outputs, width, generator=generator) / width**0.5}
        if biased:
            weights["linear.bias"] = torch.randn(outputs, generator=generator) * 0.3
        place = folder / f"{i + 2}_Dense"
        place.mkdir(exist_ok=True)
        save_file(weights, place / "model.safetensors")
        kind = {"identity": "linear.Identity", "tanh": "activation.Tanh"}[activation]
        config = {"in_features": width, "out_features": outputs, "bias": biased, "activation_function": f"torch.nn.modules.{kind}"}
        (place / "config.json").write_text(json.dumps(config))
        layers.append((weights, activation))
        width = outputs
    return layers


def embedding_of(model, ids, pooling, layers, normalizes):
    with torch.inference_mode():
        states = model(torch.tensor([[int(i) for i in ids]])).last_hidden_state[0]
        pooled = {
            "lasttoken": lambda: states[-1], "cls_token": lambda: states[0], "mean_tokens": lambda: states.mean(dim=0),
            "max_tokens": lambda: states.max(dim=0).values,
        }[pooling]()  # fmt: skip
        for weights, activation in layers:
            pooled = torch.nn.functional.linear(pooled, weights["linear.weight"], weights.get("linear.bias"))
            pooled = torch.tanh(pooled) if activation == "tanh" else pooled
        return (torch.nn.functional.normalize(pooled, dim=0) if normalizes else pooled).numpy()


def cosine(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def make(folder, texts, seed=0, config=Qwen3Config, **settings):
    folder.mkdir(exist_ok=True)
    tokenizer = tokenizer_of(texts, folder)
    sizes = {
        "vocab_size": tokenizer.get_vocab_size(), "hidden_size": 48, "intermediate_size": 100, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 600,
        "tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": 0, "pad_token_id": None,
    }  # fmt: skip
    model = AutoModel.from_config(config(**sizes | settings)).eval()
    randomize(model, torch.Generator().manual_seed(seed))
    model.save_pretrained(folder)
    tokenizer.enable_truncation(model.config.max_position_embeddings)
    return model, tokenizer


def embed(blob, texts, *words):
    out = programs.smolrun("embed", blob, "-", "--npy", *words, input="\n".join(texts).encode())
    assert out.returncode == 0, out.stderr
    return np.frombuffer(out.stdout[128:], np.float32).reshape(len(texts), -1)


def draw_modules(r, folder, width, seed, poolings, narrowest=5):
    """Draws the files of sentence-transformers. Returns pooling, Dense layers and whether embeddings are normalized."""
    pooling, normalizes = r.choice(poolings), r.random() < 0.7
    dense = [(r.randint(narrowest, 90), r.choice(["tanh", "identity"]), r.random() < 0.5) for _ in range(r.randint(0, 2))]
    if dense and dense[-1][0] < 4:
        dense[-1] = (17, *dense[-1][1:])
    return pooling, write_modules(folder, pooling, dense, normalizes, width=width, seed=seed), normalizes


def check_embeddings(folder, model, tokenizer, modules, seed, least):
    """Compares embeddings with those of transformers. least: the smallest cosine of each dtype. Returns the blobs."""
    texts, blobs = lines(4, seed), {}
    expected = [embedding_of(model, tokenizer.encode(t).ids, *modules) for t in texts]
    for dtype, cosines in least.items():
        blobs[dtype] = convert(folder, folder.parent / f"{dtype}.smol", dtype)
        rows = embed(blobs[dtype], texts)
        found = min(map(cosine, rows, expected))
        print(f"{dtype}: {1 - found:.1e}")
        assert found >= cosines, dtype
        if dtype == "f32":
            assert np.abs(rows - expected).max() <= 1e-4 * np.abs(expected).max()
    return blobs


def check_states(blob, model, texts):
    """Compares the hidden states of every position with those of transformers."""
    with Model(blob) as smol, smol.context(threads=2) as context:
        for ids in texts:
            context.truncate(0)
            difference = largest_difference(context.embed(ids), states_of(model, ids))
            print(f"states: {difference:.1e}")
            assert difference <= TOLERANCE, len(ids)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedder") / "checkpoint"
    model, tokenizer = make(folder, lines(60, seed=1), seed=3)
    layers = write_modules(folder, dense=[(70, "tanh", True), (33, "identity", False)])
    return folder, model, tokenizer, layers


@pytest.mark.parametrize("architecture", ["Qwen3ForCausalLM", "Qwen3Model"])
@pytest.mark.parametrize("head", [False, True])
def test_a_decoder_embeds_with_either_name_and_with_or_without_a_head(architecture, head, made, tmp_path):
    """The output layer, if the checkpoint has one, is not converted."""
    folder = tmp_path / "c"
    model, tokenizer = make(folder, lines(60, seed=1), seed=4, tie_word_embeddings=False)
    write_modules(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": [architecture]}))
    if head:
        tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
        tensors["lm_head.weight"] = torch.randn(model.config.vocab_size, 48)
        save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "model.safetensors")
    blob = convert(folder, tmp_path / "a.smol", "f32")
    assert "output" not in {t.name for t in read_blob(blob).tensors.values() if t.offset != read_blob(blob).tensors["embed"].offset}
    for row, text in zip(embed(blob, lines(5, seed=2)), lines(5, seed=2), strict=True):
        assert cosine(row, embedding_of(model, tokenizer.encode(text).ids, "lasttoken", [], True)) >= 0.999999


@pytest.mark.sample(5)
@pytest.mark.parametrize("seed", range(40))
def test_random_checkpoints_are_those_of_transformers(seed, tmp_path):
    r = random.Random(seed)
    heads, groups = r.choice([1, 2, 3]), r.choice([1, 2, 3])
    width = heads * groups * r.randint(5, 20)
    settings = {
        "num_attention_heads": heads * groups, "num_key_value_heads": heads, "head_dim": r.choice([8, 12, 18]),
        "hidden_size": width, "num_hidden_layers": r.randint(1, 3), "intermediate_size": r.randint(5, 130),
    }  # fmt: skip
    config = r.choice([Qwen3Config, LlamaConfig])
    folder = tmp_path / "c"
    model, tokenizer = make(folder, lines(20, seed=1), seed, config, **settings)
    modules = draw_modules(r, folder, width, seed, ["lasttoken", "lasttoken", "mean_tokens", "cls_token", "max_tokens"], 1)
    check_embeddings(folder, model, tokenizer, modules, seed, {"f32": 0.999999, "int8": 0.9995})


def test_prompts_are_put_before_texts(made, tmp_path):
    folder, model, tokenizer, layers = made
    texts = lines(6, seed=3)
    blob = convert(folder, tmp_path / "a.smol", "f32")
    assert read_blob(blob).embedder["prompts"] == PROMPTS and read_blob(blob).embedder["default"] is None

    def expected(prompt):
        return [embedding_of(model, tokenizer.encode(prompt + t).ids, "lasttoken", layers, True) for t in texts]

    for name, prompt in PROMPTS.items():
        assert min(map(cosine, embed(blob, texts, "--prompt", name), expected(prompt))) >= 0.999999
    assert min(map(cosine, embed(blob, texts), expected(""))) >= 0.999999
    result = programs.smolrun("embed", blob, "-", "--prompt", "nothing", input=b"a")
    assert result.returncode == USAGE and b"it has document, query, web" in result.stderr
    python = smolrun.Model(blob)
    assert python.embed(texts, prompt="web").tobytes() == embed(blob, texts, "--prompt", "web").tobytes()
    assert python.info.embedding_size == 33 and python.embed([], prompt="web").shape == (0, 33)
    with pytest.raises(smolrun.UsageError, match="no prompt"):
        python.embed("a", prompt="nothing")
    assert python.embed([5, 6]).tobytes() == python.embed([[5, 6]])[0].tobytes()
    with pytest.raises(smolrun.UsageError, match="token ids are taken as they are"):
        python.embed([5, 6], prompt="web")
    with serving(blob) as server:
        for extra, words in (({"prompt_name": "web"}, ("--prompt", "web")), ({}, ())):
            found = server.client.embeddings.create(model=server.model, input=texts, extra_body=extra)
            assert np.array([row.embedding for row in found.data], np.float32).tobytes() == embed(blob, texts, *words).tobytes()
        assert server.post("/v1/embeddings", {"model": server.model, "input": "a", "prompt_name": "nothing"})[0] == 400
    write_modules(folder, dense=[(70, "tanh", True), (33, "identity", False)], default="query")
    try:
        blob = convert(folder, tmp_path / "b.smol", "f32")
    finally:
        write_modules(folder, dense=[(70, "tanh", True), (33, "identity", False)])
    assert min(map(cosine, embed(blob, texts), expected(PROMPTS["query"]))) >= 0.999999
    shown = programs.smolconv("inspect", blob).stdout
    assert "default prompt" in shown and "Instruct: find it" in shown and "last token, of 33 values" in shown


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "int8"])
def test_embeddings_are_the_same_bits_for_any_threads_kernels_and_batch(made, dtype, tmp_path, monkeypatch):
    n = 40 if os.environ.get("SMOL_TEST_ALL") else 15
    texts = lines(n, seed=5)
    blob = convert(made[0], tmp_path / "a.smol", dtype)
    expected = embed(blob, texts)
    for isa in [name for name, _, runs in kernel_sets() if runs]:
        monkeypatch.setenv("SMOL_ISA", isa)
        for threads in ("1", "3"):
            assert embed(blob, texts, "--threads", threads).tobytes() == expected.tobytes(), (isa, threads)
    for i in (0, 7, n - 1):
        assert embed(blob, [texts[i]]).tobytes() == expected[i].tobytes()


def test_a_model_of_embeddings_generates_nothing(made, tmp_path):
    blob = convert(made[0], tmp_path / "a.smol", "int8")
    result = programs.smolrun(blob, "hello")
    assert result.returncode == UNSUPPORTED and b"an embedding model" in result.stderr and not result.stdout


def test_a_text_is_cut_before_its_last_token(made, tmp_path):
    folder, model, tokenizer, layers = made
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 20, "do_lower_case": False}))
    try:
        blob = convert(folder, tmp_path / "a.smol", "f32")
    finally:
        (folder / "sentence_bert_config.json").unlink()
    text = lines(80, seed=6)[4] + " and more" * 20
    ids = [*tokenizer.encode(text).ids[:19]]
    [row] = embed(blob, [text])
    assert cosine(row, embedding_of(model, [*ids, 0], "lasttoken", layers, True)) >= 0.999999


CHANGES = [
    ("1_Pooling/config.json", {"include_prompt": False}, UNSUPPORTED),
    ("2_Dense/config.json", {"use_residual": True}, UNSUPPORTED),
    ("2_Dense/config.json", {"activation_function": "torch.nn.modules.activation.ReLU"}, UNSUPPORTED),
    ("2_Dense/config.json", {"module_input_name": "token_embeddings"}, UNSUPPORTED),
    ("2_Dense/config.json", {"bias": False}, DAMAGED),
    ("3_Dense/config.json", {"bias": True}, DAMAGED),
    ("config_sentence_transformers.json", {"default_prompt_name": "nothing"}, DAMAGED),
    ("config_sentence_transformers.json", {"prompts": {"a": 1}}, DAMAGED),
    ("config_sentence_transformers.json", {"prompts": {str(i): "x" for i in range(65)}}, UNSUPPORTED),
    ("config_sentence_transformers.json", {"prompts": {"": "b"}}, UNSUPPORTED),
]


@pytest.mark.parametrize(("name", "change", "status"), CHANGES)
def test_files_that_are_not_supported_are_refused(made, name, change, status, tmp_path):
    path = made[0] / name
    before = path.read_text()
    path.write_text(json.dumps(json.loads(before) | change))
    try:
        with pytest.raises(SmolError) as error:
            convert(made[0], tmp_path / "a.smol", "f32")
    finally:
        path.write_text(before)
    assert error.value.status == status and (name in str(error.value) or "linear" in str(error.value)), str(error.value)


def test_a_body_without_modules_is_refused(tmp_path):
    make(tmp_path / "c", lines(20, seed=1))
    with pytest.raises(SmolError, match=r"without the modules\.json"):
        convert(tmp_path / "c", tmp_path / "a.smol", "f32")


@pytest.mark.parametrize("dtype", ["bf16", "int6", "int5", "int4"])
def test_other_dtypes_are_near(made, dtype, tmp_path):
    """The bounds are loose: random weights are harder to quantize than trained ones."""
    texts = lines(12, seed=8)
    expected = embed(convert(made[0], tmp_path / "a.smol", "f32"), texts)
    least = {"bf16": 0.999, "int6": 0.99, "int5": 0.98, "int4": 0.9}[dtype]
    assert min(map(cosine, embed(convert(made[0], tmp_path / "b.smol", dtype), texts), expected)) >= least


def test_verify_knows_the_source(made, tmp_path):
    blob = convert(made[0], tmp_path / "a.smol", "int8")
    assert programs.smolconv("verify", blob, "--source", made[0]).returncode == 0
    write_modules(made[0], dense=[(70, "tanh", True), (33, "identity", False)], prompts=PROMPTS | {"web": "naive: "})
    try:
        result = programs.smolconv("verify", blob, "--source", made[0])
    finally:
        write_modules(made[0], dense=[(70, "tanh", True), (33, "identity", False)])
    assert result.returncode == 1, result.stderr


# (offset in the section, a value)
DAMAGES = [
    (0, 65), (0, 2), (4, 3), (8, 1), (8, 1 << 19), (12, 3), (12, 1), (16, 1), (16, 3), (20, 1), (20, 3), (24, 1), (28, 1), (28, 2),
    (32, 0), (32, 71), (36, 2), (40, 0), (40, 2), (44, 1), (48, 49), (48, 1 << 17), (64, 0x80808080), (64, 0), (192, 0x7F800000),
]  # fmt: skip


@pytest.mark.parametrize(("at", "value"), DAMAGES)
def test_broken_embedder_sections_are_refused(made, at, value, tmp_path):
    blob = convert(made[0], tmp_path / "a.smol", "f32")

    def edit(data):
        struct.pack_into("<I", data, section(data, EMBEDDER_SECTION)[0] + at, value)

    both_refuse(blob, tmp_path, edit, "section embedder")


def test_every_byte_of_padding_is_checked(made, tmp_path):
    """Padding is each zero byte of the section that is no part of a string or a number."""
    blob = convert(made[0], tmp_path / "a.smol", "int8")
    start, size = section(bytearray(blob.read_bytes()), EMBEDDER_SECTION)
    data = blob.read_bytes()[start : start + size]
    strings = sum(len(name.encode()) + len(text.encode()) + 2 for name, text in PROMPTS.items())
    end = -(-(64 + strings) // 64) * 64
    rows = np.frombuffer(data[end : end + 80 * 48 * 2], "<u2").reshape(5, 24, 16, 2)
    assert not rows[4, :, 6:].any()
    places = [*range(64 + strings, end), end + 4 * 24 * 64 + 6 * 4, end + 5 * 24 * 64 - 1]
    for place in places:

        def edit(content, place=place):
            content[start + place] = 1

        both_refuse(blob, tmp_path, edit)
