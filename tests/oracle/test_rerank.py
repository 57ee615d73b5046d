"""Rerankers against transformers: BERT and ModernBERT with a score, and Qwen3 with a score or with yes and no."""

import functools
import json
import random

import numpy as np
import programs
import published
import pytest
import torch
from blobs import accepted_bits, both_refuse, flip_features, read_blob, section
from checkpoints import edit_json, randomize
from engine import SmolError, convert
from internal import DAMAGED, UNSUPPORTED, USAGE
from package import smolrun
from safetensors.torch import load_file, save_file
from smol_reader import EMBEDDER_SECTION, NORMED
from test_embedder import embed, tokenizer_of
from test_encoder import lines
from test_tokenizer_families import bert
from tokenizers import Tokenizer
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3ForSequenceClassification,
)

QUERY = "how are [SEP] letters <|im_end|> joined?"
BEFORE = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
TASK = "Given a web search query, retrieve relevant passages that answer the query"


def rank(blob, query, texts, *words):
    out = programs.smolrun("embed", blob, "-", "--rerank", query, *words, input="\n".join(texts).encode())
    assert out.returncode == 0, out.stderr
    return np.array([float(line) for line in out.stdout.split()])


def pair_template(content, typed=True):
    ids = {t["content"]: t["id"] for t in content["added_tokens"]}

    def special(token, kind):
        return {"SpecialToken": {"id": token, "type_id": kind}}

    def text(name, kind):
        return {"Sequence": {"id": name, "type_id": kind}}

    single = [special("[CLS]", 0), text("A", 0), special("[SEP]", 0)]
    tokens = {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in ("[CLS]", "[SEP]")}
    return {
        "type": "TemplateProcessing", "single": single, "pair": [*single, text("B", int(typed)), special("[SEP]", int(typed))],
        "special_tokens": tokens,
    }  # fmt: skip


def finish(folder, model, activation):
    """Names the activation of the score in config.json. Returns the tokenizer, which cuts the longer text of a pair."""
    if activation:
        edit_json(folder / "config.json", sentence_transformers={"activation_fn": f"torch.nn.modules.{activation}"})
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(model.config.max_position_embeddings, strategy="longest_first")
    return tokenizer


def make_bert(folder, texts, seed, activation=None, **settings):
    folder.mkdir(exist_ok=True)
    content = bert(tuple(texts))
    content["post_processor"] = pair_template(content)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    sizes = {
        "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 100, "num_labels": 1,
        "vocab_size": len(content["model"]["vocab"]), "max_position_embeddings": 200,
    }  # fmt: skip
    model = BertForSequenceClassification(BertConfig(**sizes | settings)).eval()
    randomize(model, torch.Generator().manual_seed(seed))
    model.save_pretrained(folder)
    return model, finish(folder, model, activation)


def bert_score(model, tokenizer, query, text):
    encoding = tokenizer.encode(query, text)
    with torch.inference_mode():
        inputs = {"input_ids": torch.tensor([encoding.ids]), "token_type_ids": torch.tensor([encoding.type_ids])}
        return float(model(**inputs).logits[0, 0])


def check_scores(folder, scores, activation, seed, most):
    """Compares a checkpoint's scores in float32 and int8 with scores(query, text), the logits of transformers. Returns a blob."""
    query, *texts = lines(6, seed)
    expected = np.array([scores(query, text) for text in texts])
    if activation != "linear.Identity":
        expected = 1 / (1 + np.exp(-expected))
    for dtype, bound in (("f32", 2e-5), ("int8", most)):
        blob = convert(folder, folder.with_name(f"{dtype}.smol"), dtype)
        difference = np.abs(rank(blob, query, texts) - expected).max() / max(1, np.abs(expected).max())
        print(f"{dtype}: {difference:.1e}")
        assert difference <= bound
    assert programs.smolconv("verify", blob, "--source", folder).returncode == 0
    return blob


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(40))
def test_bert_scores_as_transformers_does(seed, training, tmp_path):
    r = random.Random(seed)
    heads = r.choice([1, 2, 4])
    activation = r.choice([None, "linear.Identity", "activation.Sigmoid"])
    model, tokenizer = make_bert(
        tmp_path / "c", training, seed, activation, num_attention_heads=heads, hidden_size=heads * r.choice([8, 12, 30]),
        num_hidden_layers=r.randint(1, 3), intermediate_size=r.randint(5, 130), type_vocab_size=r.randint(2, 3),
    )  # fmt: skip
    check_scores(tmp_path / "c", functools.partial(bert_score, model, tokenizer), activation, seed, 0.03)


def make_modern(folder, seed, activation=None, keys=None, **settings):
    """keys: config.json, which the settings otherwise make."""
    folder.mkdir(exist_ok=True)
    tokenizer_of(lines(40, seed=1), folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    for token in ("[CLS]", "[SEP]"):
        content["model"]["vocab"][token] = number = len(content["model"]["vocab"])
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        content["added_tokens"].append({"id": number, "content": token, "special": True} | flags)
    content["post_processor"] = pair_template(content, typed=seed % 2)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    sizes = {
        "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 100, "num_labels": 1,
        "vocab_size": len(content["model"]["vocab"]), "max_position_embeddings": 200, "local_attention": 20, "bos_token_id": None,
        "eos_token_id": None, "pad_token_id": None, "cls_token_id": None, "sep_token_id": None,
    }  # fmt: skip
    config = ModernBertConfig(**keys | {"vocab_size": sizes["vocab_size"]} if keys else sizes | settings)
    model = ModernBertForSequenceClassification(config).eval()
    randomize(model, torch.Generator().manual_seed(seed))
    model.save_pretrained(folder)
    if keys:
        (folder / "config.json").write_text(json.dumps(keys | {"vocab_size": sizes["vocab_size"]}))
    return model, finish(folder, model, activation)


def score(model, tokenizer, query, text):
    with torch.inference_mode():
        return float(model(input_ids=torch.tensor([tokenizer.encode(query, text).ids])).logits[0, 0])


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(40))
def test_modernbert_scores_as_transformers_does(seed, tmp_path):
    r = random.Random(seed)
    heads = r.choice([1, 2, 4])
    activation = r.choice([None, "linear.Identity", "activation.Sigmoid"])
    model, tokenizer = make_modern(
        tmp_path / "c", seed, activation, num_attention_heads=heads, hidden_size=heads * r.choice([8, 12, 30]),
        num_hidden_layers=r.randint(1, 4), intermediate_size=r.randint(5, 130), local_attention=r.choice([3, 20, 128]),
        max_position_embeddings=r.choice([60, 200, 900]), classifier_pooling=r.choice(["cls", "mean"]),
        classifier_bias=r.random() < 0.5, norm_bias=r.random() < 0.5, norm_eps=r.choice([1e-5, 1e-2]),
    )  # fmt: skip
    check_scores(tmp_path / "c", functools.partial(score, model, tokenizer), activation, seed, 0.05)


def test_published_settings_score_as_transformers_does(tmp_path):
    """config.json as published, spelling and all, but for sizes."""
    keys = published.cut(published.ENCODERS["gte-reranker-modernbert-base"], 0)
    model, tokenizer = make_modern(tmp_path / "c", 1, keys=keys)
    assert model.config.classifier_pooling == "mean" and model.config.num_labels == 1
    query, *texts = lines(6, 1)
    expected = 1 / (1 + np.exp([-score(model, tokenizer, query, text) for text in texts]))
    assert np.abs(rank(convert(tmp_path / "c", tmp_path / "a.smol", "f32"), query, texts) - expected).max() <= 2e-5


def make_qwen(folder, seed, kind, **settings):
    folder.mkdir(exist_ok=True)
    tokenizer_of([*lines(40, seed=1), BEFORE, AFTER, "yes no " * 50], folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    content["post_processor"] = None
    for token in ("yes", "no", "n", "o"):
        content["model"]["vocab"].setdefault(token, len(content["model"]["vocab"]))
    (folder / "tokenizer.json").write_text(json.dumps(content))
    sizes = {
        "vocab_size": 420, "hidden_size": 48, "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 900, "bos_token_id": None, "eos_token_id": 0,
        "pad_token_id": None, "num_labels": 1,
    }  # fmt: skip
    model = kind(Qwen3Config(**sizes | settings)).eval()
    randomize(model, torch.Generator().manual_seed(seed))
    model.save_pretrained(folder)
    return model, Tokenizer.from_file(str(folder / "tokenizer.json"))


def write_cross_encoder(folder, function, *, answers=None, **settings):
    """The files of CrossEncoder, as its versions since 5.4 write them. answers: the tokens of yes and no."""
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}]
    task = {"transformer_task": "sequence-classification", "module_output_name": "scores"}
    if answers:
        module = "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"
        modules.append({"idx": 1, "name": "1", "path": "1_LogitScore", "type": module})
        (folder / "1_LogitScore").mkdir(exist_ok=True)
        ids = {"true_token_id": answers[0], "false_token_id": answers[1]}
        (folder / "1_LogitScore/config.json").write_text(json.dumps(ids))
        task = {"transformer_task": "text-generation", "processing_kwargs": {"chat_template": {"add_generation_prompt": True}}}
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps(task))
    own = {"model_type": "CrossEncoder", "activation_fn": f"torch.nn.modules.{function}"} | {"prompts": {}, "default_prompt_name": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(own | settings))


@pytest.mark.parametrize("function", ["linear.Identity", "activation.Sigmoid"])
def test_the_activation_of_cross_encoders_own_file_wins(function, training, tmp_path):
    other = {"linear.Identity": "activation.Sigmoid", "activation.Sigmoid": "linear.Identity"}[function]
    model, tokenizer = make_bert(tmp_path / "c", training, 3, other)
    write_cross_encoder(tmp_path / "c", function)
    query, *texts = lines(4, 3)
    expected = np.array([bert_score(model, tokenizer, query, text) for text in texts])
    if function != "linear.Identity":
        expected = 1 / (1 + np.exp(-expected))
    blob = convert(tmp_path / "c", tmp_path / "a.smol", "f32")
    assert np.abs(rank(blob, query, texts) - expected).max() <= 2e-5 * max(1, np.abs(expected).max())


@pytest.mark.parametrize("prompts", [{}, {"prompts": {"query": TASK}, "default_prompt_name": "query"}])
def test_answers_of_cross_encoders_files_are_read(prompts, tmp_path):
    """Qwen3-Reranker as sentence-transformers reads it: the plain difference of two logits."""
    model, tokenizer = make_qwen(tmp_path / "c", 2, Qwen3ForCausalLM)
    ids = [tokenizer.token_to_id(word) for word in ("yes", "no")]
    write_cross_encoder(tmp_path / "c", "linear.Identity", answers=ids, **prompts)
    query, *texts = lines(4, 2)
    with torch.inference_mode():
        logits = [model(torch.tensor([qwen_ids(tokenizer, query, text, 900)])).logits[0, -1] for text in texts]
    expected = np.array([float(row[ids[0]] - row[ids[1]]) for row in logits])
    blob = tmp_path / "a.smol"
    assert programs.smolconv("--reranker", "--dtype", "f32", tmp_path / "c", blob).returncode == 0
    assert np.abs(rank(blob, query, texts) - expected).max() <= 2e-5 * max(1, np.abs(expected).max())
    assert "1_LogitScore/config.json" in programs.smolconv("inspect", blob).stdout
    assert programs.smolconv("verify", blob, "--source", tmp_path / "c").returncode == 0


@pytest.mark.parametrize("change, words, message", [
    ({}, [], "LogitScore: only Qwen3-Reranker is supported, with --reranker"),
    ({"answers": [7, None]}, ["--reranker"], "true_token_id and false_token_id must be those of yes and no"),
    ({"prompts": {"query": "find: "}, "default_prompt_name": "query"}, ["--reranker"], "default_prompt_name is \"query\""),
    ({"model_type": "SparseEncoder"}, ["--reranker"], "model_type is \"SparseEncoder\""),
    ({"activation_fn": "my.nn.Identity"}, ["--reranker"], "activation_fn is \"my.nn.Identity\""),
    ({"activation_fn": 1}, ["--reranker"], "activation_fn must be a string"),
])  # fmt: skip
def test_other_files_of_cross_encoders_are_refused(change, words, message, tmp_path):
    _, tokenizer = make_qwen(tmp_path / "c", 2, Qwen3ForCausalLM)
    ids = [tokenizer.token_to_id(word) for word in ("yes", "no")]
    write_cross_encoder(tmp_path / "c", "linear.Identity", **{"answers": ids} | change)
    result = programs.smolconv(*words, tmp_path / "c", tmp_path / "a.smol")
    programs.assert_refuses(result, DAMAGED if change == {"activation_fn": 1} else UNSUPPORTED, message)


def qwen_ids(tokenizer, query, text, most):
    """Returns the ids that Qwen3-Reranker's page makes."""
    after = tokenizer.encode(AFTER).ids
    ids = tokenizer.encode(f"{BEFORE}<Instruct>: {TASK}\n<Query>: {query}\n<Document>: {text}").ids
    return ids[: most - len(after)] + after


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(40))
def test_qwen3_scores_as_transformers_does(seed, tmp_path):
    r = random.Random(seed)
    kind = [Qwen3ForCausalLM, Qwen3ForSequenceClassification][seed % 2]
    groups, heads = r.choice([1, 2]), r.choice([1, 3])
    settings = {
        "num_attention_heads": heads * groups, "num_key_value_heads": heads, "hidden_size": heads * groups * r.randint(6, 17),
        "head_dim": r.choice([8, 18]), "num_hidden_layers": r.randint(1, 3), "tie_word_embeddings": r.random() < 0.5,
    }  # fmt: skip
    folder = tmp_path / "c"
    model, tokenizer = make_qwen(folder, seed, kind, **settings)
    query, *texts = lines(5, seed)
    yes, no = (tokenizer.token_to_id(word) for word in ("yes", "no"))
    expected = []
    for text in texts:
        ids = torch.tensor([qwen_ids(tokenizer, query, text, model.config.max_position_embeddings)])
        with torch.inference_mode():
            logits = model(ids).logits[0]
        expected.append(float(logits[-1, yes] - logits[-1, no]) if kind is Qwen3ForCausalLM else float(logits[0]))
    expected = 1 / (1 + np.exp(-np.array(expected)))
    words = ["--reranker"] if kind is Qwen3ForCausalLM else []
    for dtype, most in (("f32", 2e-5), ("int8", 0.03)):
        blob = tmp_path / f"{dtype}.smol"
        result = programs.smolconv(*words, "--dtype", dtype, folder, blob)
        assert result.returncode == 0, result.stderr
        assert np.abs(rank(blob, query, texts) - expected).max() <= most
    assert programs.smolconv("verify", blob, "--source", folder).returncode == 0


@pytest.fixture(scope="module", params=["bert", "modernbert"])
def made(request, training, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rerank") / "checkpoint"
    made = make_bert(folder, training, seed=3) if request.param == "bert" else make_modern(folder, 3, classifier_bias=True)
    return folder, *made


def test_special_tokens_in_a_text_are_text(made, tmp_path):
    blob = convert(made[0], tmp_path / "a.smol", "f32")
    separator = read_blob(blob).embedder["separator"]
    model = smolrun.Model(blob)
    for text in ("a [SEP] b", "[CLS]"):
        ids = list(model._tokenize_pair(QUERY, text))
        assert ids.count(separator) == 2 and ids[-1] == separator
    folder = tmp_path / "q"
    make_qwen(folder, 1, Qwen3ForSequenceClassification)
    model = smolrun.Model(convert(folder, tmp_path / "q.smol", "int8"))
    end = model.tokenize("<|im_end|>", special=True)
    assert list(model._tokenize_pair(QUERY, "x")).count(end[0]) == 2


def test_scores_agree_for_any_form_threads_and_batch(made, tmp_path):
    texts = lines(37, seed=5)
    for dtype in ("f32", "int8"):
        blob = convert(made[0], tmp_path / f"{dtype}.smol", dtype)
        scores = rank(blob, "a query", texts)
        assert (rank(blob, "a query", texts, "--threads", "1") == scores).all()
        assert [rank(blob, "a query", [text])[0] for text in texts[:3]] == list(scores[:3])
        assert (smolrun.Model(blob).rerank("a query", texts) == scores.astype(np.float32)).all()
        assert smolrun.Model(blob).rerank("a query", []).shape == (0,)
        with pytest.raises(smolrun.UsageError, match="texts: must be a list"):  # not a list of letters
            smolrun.Model(blob).rerank("a query", "a text")
        out = programs.smolrun("embed", blob, "-", "--json", "--rerank", "a query", input="\n".join(texts).encode())
        assert np.allclose([json.loads(line)["score"] for line in out.stdout.splitlines()], scores, atol=0)


def test_what_makes_no_sense_is_refused(made, tmp_path):
    blob = convert(made[0], tmp_path / "a.smol", "int8")
    assert programs.smolrun("embed", blob, "-", input=b"a").returncode == USAGE
    assert programs.smolrun("embed", blob, "-", "--rerank", "a", "--similarity", input=b"a").returncode == USAGE
    result = programs.smolrun(blob, "hello")
    assert result.returncode == UNSUPPORTED and b"--rerank" in result.stderr
    with pytest.raises(smolrun.UnsupportedError, match="not a reranker"):
        smolrun.Model(programs_blob(tmp_path)).rerank("a", ["b"])
    assert programs.smolconv("--reranker", made[0], tmp_path / "b.smol").returncode == USAGE


def programs_blob(tmp_path):
    from test_embedder import make, write_modules

    make(tmp_path / "e", lines(20, seed=1))
    write_modules(tmp_path / "e")
    blob = convert(tmp_path / "e", tmp_path / "e.smol", "int8")
    assert embed(blob, ["a"]).shape == (1, 48)
    return blob


def test_checkpoints_that_are_not_supported_are_refused(training, tmp_path):
    folder = tmp_path / "c"
    make_bert(folder, training, 1, num_labels=3)
    with pytest.raises(SmolError, match="3 labels"):
        convert(folder, tmp_path / "a.smol", "f32")
    make_bert(folder, training, 1, activation="activation.Tanh")
    with pytest.raises(SmolError, match="Sigmoid and Identity"):
        convert(folder, tmp_path / "a.smol", "f32")
    make_bert(folder, training, 1, type_vocab_size=1)
    with pytest.raises(SmolError, match="two types"):
        convert(folder, tmp_path / "a.smol", "f32")
    make_bert(folder, training, 1)
    weights = load_file(folder / "model.safetensors")
    save_file({k: v for k, v in weights.items() if k != "classifier.bias"}, folder / "model.safetensors")
    with pytest.raises(SmolError, match=r"classifier\.bias is missing"):
        convert(folder, tmp_path / "a.smol", "f32")
    make_bert(folder, training, 1)
    content = json.loads((folder / "tokenizer.json").read_text())
    content["post_processor"]["pair"].pop()
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(SmolError, match="pairs of texts"):
        convert(folder, tmp_path / "a.smol", "f32")


# a change of config.json, or of the tensors, and what the refusal says
HEADS = [
    ({"classifier_activation": "relu"}, "classifier_activation"), ({"classifier_pooling": "max"}, "classifier_pooling"),
    ({"classifier_bias": True}, r"head\.dense\.bias is missing"), ({"classifier_bias": 1}, "classifier_bias"),
    ({"head.norm.weight": None}, r"head\.norm\.weight is missing"), ({"head.norm.weight": torch.ones(47)}, r"head\.norm\.weight has a shape"),
    ({"head.norm.weight": torch.full((48,), np.inf)}, "not finite"), ({"head.dense.weight": torch.ones(30, 48)}, r"head\.dense\.weight has a shape"),
    ({"head.dense.weight": torch.ones(48, 47)}, r"head\.dense\.weight: not a layer of 48 inputs"), ({"classifier.bias": None}, r"classifier\.bias is missing"),
    ({"classifier.weight": torch.ones(2, 48), "classifier.bias": torch.ones(2)}, "2 labels"),
]  # fmt: skip


@pytest.mark.sample(5)
@pytest.mark.parametrize(("change", "message"), HEADS)
def test_heads_of_modernbert_that_are_not_supported_are_refused(change, message, tmp_path):
    folder = tmp_path / "c"
    make_modern(folder, 1)
    edit_json(folder / "config.json", **{k: v for k, v in change.items() if "." not in k})
    weights = load_file(folder / "model.safetensors") | {k: v for k, v in change.items() if "." in k}
    save_file({k: v for k, v in weights.items() if v is not None}, folder / "model.safetensors")
    with pytest.raises(SmolError, match=message):
        convert(folder, tmp_path / "a.smol", "f32")


@pytest.mark.slow
def test_both_readers_agree_on_every_bit_of_a_normed_layer(tmp_path):
    """Every bit of the features and the fields is flipped, and the digests are repaired."""
    make_modern(tmp_path / "c", 1)
    blob = convert(tmp_path / "c", tmp_path / "a.smol", "int8")
    assert read_blob(blob).features & NORMED and [layer[2] for layer in read_blob(blob).embedder["dense"]] == [2, 0]
    start = section(blob.read_bytes(), EMBEDDER_SECTION)[0]
    assert 1 <= accepted_bits(blob, tmp_path, start, start + 64) <= 20  # separators, and kinds of score


@pytest.mark.parametrize("feature", [True, False])
def test_the_feature_and_the_activation_come_together(feature, tmp_path):
    make_modern(tmp_path / "c", 1)
    blob = convert(tmp_path / "c", tmp_path / "a.smol", "f32")

    def edit(data):
        if feature:
            flip_features(data, NORMED)
        else:
            data[section(data, EMBEDDER_SECTION)[0] + 36] = 0

    both_refuse(blob, tmp_path, edit, "normed")
