"""XLM-RoBERTa, RoBERTa, CamemBERT, DistilBERT and MPNet against transformers, as embedding models and as rerankers. SMOL_TEST_ALL has 40 checkpoints
of each."""

import functools
import json
import math
import os
import random

import charsmaps
import numpy as np
import programs
import published
import pytest
import torch
import transformers
from blobs import accepted_bits, both_refuse, flip_features, read_blob, section
from checkpoints import edit_json, randomize
from engine import Model, SmolError, convert
from internal import DAMAGED, UNSUPPORTED
from package import smolrun
from safetensors.torch import load_file, save_file
from smol_reader import DOUBLED, EMBEDDER_SECTION
from test_embedder import check_embeddings, check_states, cosine, draw_modules, embed, write_modules
from test_encoder import lines, states_of
from test_logits import TOLERANCE, largest_difference
from test_rerank import check_scores, rank, score
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import CamembertConfig, DistilBertConfig, MPNetConfig, RobertaConfig, XLMRobertaConfig

ALL = bool(os.environ.get("SMOL_TEST_ALL"))
SEEDS = range(40 if ALL else 1)
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


# --- tokenizers in the manner of the published ones -----------------------------------------------


@functools.cache
def xlm_roberta():
    """Unigram with SentencePiece's map of characters; two separators stand between a pair."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=500, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(lines(20, seed=1), trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    steps = [normalizers.Precompiled(charsmaps.nfkc(False)), normalizers.Strip(left=False)]
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(Regex(" {2,}"), "▁")])
    tokenizer.decoder = decoders.Metaspace()
    tokens = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B </s>", tokens)
    return tokenizer.to_str()


@functools.cache
def roberta():
    """BPE of bytes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(lines(20, seed=1), trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer.to_str()


def word_piece(special):
    """BERT's, with these first tokens."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(lines(20, seed=1), trainer)
    return tokenizer


@functools.cache
def distilbert():
    tokenizer = word_piece(BERT)
    tokens = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", tokens)
    return tokenizer.to_str()


@functools.cache
def camembert():
    """XLM-RoBERTa's kind, with fairseq's first tokens, of which texts have none."""
    pieces = json.loads(xlm_roberta())["model"]["vocab"][len(SPECIAL) :]
    first = [("<s>NOTUSED", 0.0), ("<pad>", 0.0), ("</s>NOTUSED", 0.0), ("<unk>", 0.0), ("<unk>NOTUSED", -100.0)]
    tokenizer = Tokenizer(models.Unigram([*first, *map(tuple, pieces)], unk_id=3))
    tokenizer.normalizer = normalizers.Precompiled(charsmaps.nfkc(False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<s>", "</s>", "<pad>", "<unk>", *(name for name, _ in first if "NOT" in name)])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    tokens = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B </s>", tokens)
    return tokenizer.to_str()


@functools.cache
def mpnet():
    """BERT's, with RoBERTa's special tokens beside its own."""
    content = json.loads(word_piece(SPECIAL).to_str())
    content["model"]["vocab"]["[UNK]"] = len(content["model"]["vocab"])
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.add_special_tokens(["[UNK]", AddedToken("<mask>", lstrip=True, normalized=False)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer.to_str()


KINDS = {
    "xlm-roberta": (xlm_roberta, XLMRobertaConfig, "XLMRoberta", "roberta."),
    "roberta": (roberta, RobertaConfig, "Roberta", "roberta."),
    "camembert": (camembert, CamembertConfig, "Camembert", "roberta."),
    "distilbert": (distilbert, DistilBertConfig, "DistilBert", "distilbert."),
    "mpnet": (mpnet, MPNetConfig, "MPNet", "mpnet."),
}
DOUBLING = [kind for kind in KINDS if kind != "distilbert"]  # have two separators between two texts


# --- checkpoints ----------------------------------------------------------------------------------


def tokenizer_of(kind, most=None):
    tokenizer = Tokenizer.from_str(KINDS[kind][0]())
    tokenizer.no_padding()
    if most:
        tokenizer.enable_truncation(most, strategy="longest_first")
    return tokenizer


def vocab_size(kind):
    return tokenizer_of(kind).get_vocab_size()


def draw(kind, r):
    """Draws a config.json."""
    heads, activation = r.choice([1, 2, 4]), r.choice(["gelu", "gelu", "gelu_new", "silu"])
    width, n_layers, inner, positions = heads * r.choice([8, 12, 30]), r.randint(1, 3), r.randint(5, 130), r.choice([140, 514, 900])
    if kind == "distilbert":
        return {
            "dim": width, "n_heads": heads, "n_layers": n_layers, "hidden_dim": inner, "activation": activation,
            "max_position_embeddings": positions, "sinusoidal_pos_embds": r.random() < 0.3,
        }  # fmt: skip
    last = {"pad_token_id": vocab_size(kind) - 1, "max_position_embeddings": positions + vocab_size(kind)}
    if kind == "mpnet":
        last = {"pad_token_id": 3}  # makes no difference
    return {
        "hidden_size": width, "num_attention_heads": heads, "num_hidden_layers": n_layers, "intermediate_size": inner,
        "hidden_act": activation, "max_position_embeddings": positions, "type_vocab_size": r.choice([1, 1, 2]),
        "layer_norm_eps": r.choice([1e-12, 1e-5, 1e-3]),
    } | r.choice([{}, {}, last])  # fmt: skip


def make(folder, kind, seed, head="Model", keys=None, **settings):
    """Writes a checkpoint, and the tokenizer that has as many tokens. keys: config.json, which the settings otherwise make."""
    folder.mkdir(exist_ok=True)
    _, config_class, name, _ = KINDS[kind]
    settings = settings | {"vocab_size": vocab_size(kind), "num_labels": 1}
    config = config_class(**keys | {"vocab_size": settings["vocab_size"]} if keys else settings)
    model = getattr(transformers, name + head)(config).eval()
    randomize(model, torch.Generator().manual_seed(seed))
    model.save_pretrained(folder)
    if keys:
        (folder / "config.json").write_text(json.dumps(keys | {"vocab_size": settings["vocab_size"]}))
    (folder / "tokenizer.json").write_text(KINDS[kind][0]())
    return model


def small_of(kind, **settings):
    if kind == "distilbert":
        return {"dim": 16, "n_heads": 2, "n_layers": 1, "max_position_embeddings": 60} | settings
    return {"hidden_size": 12, "num_attention_heads": 2, "num_hidden_layers": 1, "max_position_embeddings": 60} | settings


def positions_of(model):
    """The most tokens of a text."""
    config = model.config
    return config.max_position_embeddings - (0 if config.model_type == "distilbert" else padding_of(config) + 1)


def padding_of(config):
    """The id of <pad>, which has no position of its own."""
    return 1 if config.model_type == "mpnet" else config.pad_token_id


def some_ids(model, n, seed=0):
    ids = np.random.default_rng((seed, n)).integers(0, model.config.vocab_size, n)
    return np.where(ids == padding_of(model.config), 5, ids)


# --- embeddings -----------------------------------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_random_checkpoints_are_those_of_transformers(kind, seed, tmp_path):
    """The states of every position of short and long texts, and embeddings through all files of a folder."""
    r = random.Random(seed)
    model = make(tmp_path / "c", kind, seed, **draw(kind, r))
    width, most = model.config.hidden_size, positions_of(model)
    modules = draw_modules(r, tmp_path / "c", width, seed, ["mean_tokens", "mean_tokens", "cls_token", "max_tokens"])
    least = {"f32": 0.999999, "int8": 0.999 if kind == "mpnet" else 0.9995}  # whose drawn distances sharpen attention
    blobs = check_embeddings(tmp_path / "c", model, tokenizer_of(kind, most), modules, seed, least)
    check_states(blobs["f32"], model, [some_ids(model, n, seed) for n in (1, r.randint(2, 100), most)])
    assert read_blob(blobs["f32"]).model["context_length"] == most
    with Model(blobs["f32"]) as smol, smol.context() as context, pytest.raises(SmolError):
        context.embed([5] * (most + 1))
    assert programs.smolconv("verify", blobs["int8"], "--source", tmp_path / "c").returncode == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_model_is_the_same_encoder_as_its_body(kind, tmp_path):
    """The head that guesses words is not converted; names of tensors may begin with the model's name or not."""
    make(tmp_path / "masked", kind, 7, "ForMaskedLM", **small_of(kind))
    _, config_class, name, prefix = KINDS[kind]
    body = getattr(transformers, name + "Model")(config_class.from_pretrained(tmp_path / "masked"))
    tensors = load_file(tmp_path / "masked/model.safetensors")
    inner = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    assert len(inner) < len(tensors)
    body.load_state_dict(inner, strict=kind == "distilbert")  # there is a pooler of random numbers otherwise
    body.save_pretrained(tmp_path / "body")
    (tmp_path / "named").mkdir()
    config = json.loads((tmp_path / "body/config.json").read_text())
    (tmp_path / "named/config.json").write_text(json.dumps(config | {"architectures": [name + "ForMaskedLM"]}))
    tensors = {prefix + name: tensor.contiguous() for name, tensor in body.state_dict().items()}
    save_file(tensors, tmp_path / "named/model.safetensors")
    blobs = []
    for folder in ("masked", "body", "named"):
        (tmp_path / folder / "tokenizer.json").write_text(KINDS[kind][0]())
        write_modules(tmp_path / folder, "cls_token", width=body.config.hidden_size)
        blobs.append(read_blob(convert(tmp_path / folder, tmp_path / f"{folder}.smol", "int8")))
    data = [[t.data for t in blob.tensors.values()] for blob in blobs]
    assert data[0] == data[1] == data[2]


def test_8194_rows_are_positions_for_8192_tokens(tmp_path):
    """bge-m3 has such positions."""
    make(tmp_path / "c", "xlm-roberta", 2, **small_of("xlm-roberta", max_position_embeddings=8194))
    blob = read_blob(convert(tmp_path / "c", tmp_path / "a.smol", "f32"))
    assert blob.model["context_length"] == blob.encoder[2] == 8192
    edit_json(tmp_path / "c/config.json", max_position_embeddings=8195)
    with pytest.raises(SmolError, match="at most 8192 positions"):
        convert(tmp_path / "c", tmp_path / "a.smol", "f32")


@pytest.mark.slow
def test_a_text_of_8192_tokens(tmp_path):
    model = make(tmp_path / "c", "xlm-roberta", 2, **small_of("xlm-roberta", max_position_embeddings=8194, num_attention_heads=1))
    write_modules(tmp_path / "c", "cls_token", width=12)
    (tmp_path / "c/sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 8192, "do_lower_case": False}))
    blob = convert(tmp_path / "c", tmp_path / "a.smol", "f32")
    assert read_blob(blob).encoder == (1, 1, 8192)
    text = " ".join(lines(60, seed=4))
    ids = tokenizer_of("xlm-roberta", 8192).encode(text).ids
    assert len(ids) == 8192
    states = states_of(model, ids)
    with Model(blob) as smol, smol.context(threads=2) as context:
        assert largest_difference(context.embed(ids), states) <= TOLERANCE
    assert cosine(embed(blob, [text])[0], states[0]) >= 0.999999


# --- scores ---------------------------------------------------------------------------------------


def make_ranker(folder, kind, seed, function=None, **settings):
    model = make(folder, kind, seed, "ForSequenceClassification", **settings)
    if function:
        edit_json(folder / "config.json", sentence_transformers={"activation_fn": f"torch.nn.modules.{function}"})
    return model, tokenizer_of(kind, positions_of(model))


def written_pair(kind, folder, r):
    """Puts the other way to write the pair of RoBERTa into tokenizer.json, or types that no model of this kind has."""
    tokenizer = tokenizer_of(kind)
    if kind == "distilbert":
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    else:
        tokens, kinds = [(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")], r.choice(["", ":0"])
        tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", f"<s> $A </s> </s> $B{kinds} </s>", tokens)
    (folder / "tokenizer.json").write_text(tokenizer.to_str())


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_transformers(kind, seed, tmp_path):
    r = random.Random(seed)
    function = r.choice([None, "linear.Identity", "activation.Sigmoid"])
    model, tokenizer = make_ranker(tmp_path / "c", kind, seed, function, **draw(kind, r))
    if seed % 2:
        written_pair(kind, tmp_path / "c", r)
    blob = check_scores(tmp_path / "c", functools.partial(score, model, tokenizer), function, seed, 0.03)
    assert bool(read_blob(blob).features & DOUBLED)


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_are_those_of_tokenizers(kind, tmp_path):
    """Queries and texts of many lengths compete for the room."""
    model, tokenizer = make_ranker(tmp_path / "c", kind, 1, **small_of(kind))
    smol = smolrun.Model(convert(tmp_path / "c", tmp_path / "a.smol", "f32"))
    words = " ".join(lines(4, seed=3)).split()
    for n in (0, 1, 3, 9, 20, 60):
        for m in (0, 1, 5, 21, 80):
            query, text = " ".join(words[:n]), "  ".join(words[-m:] if m else [])
            assert list(smol._tokenize_pair(query, text)) == tokenizer.encode(query, text).ids, (n, m)
    assert len(smol._tokenize_pair(" ".join(words), " ".join(words))) == positions_of(model)
    for special in SPECIAL + BERT if kind not in ("xlm-roberta", "camembert") else ():  # are ordinary text, unless the vocabulary has them
        ids = list(smol._tokenize_pair(f"a {special} b", special))
        end = tokenizer.encode("", "").ids[-1]
        assert ids.count(end) == (3 if kind in DOUBLING else 2) and ids[-1] == end


def test_both_readers_agree_on_every_bit(tmp_path):
    """Every bit of the features and the fields is flipped, and the digests are repaired."""
    for kind in ("roberta", "distilbert") if ALL else ("roberta",):
        make_ranker(tmp_path / kind, kind, 1, **small_of(kind))
        blob = convert(tmp_path / kind, tmp_path / f"{kind}.smol", "int8")
        assert read_blob(blob).features & DOUBLED
        start = section(blob.read_bytes(), EMBEDDER_SECTION)[0]
        first, last = (start, start + 64) if ALL else (start + 16, start + 40)
        assert 1 <= accepted_bits(blob, tmp_path, first, last) <= 20  # separators, and kinds of score


@pytest.mark.parametrize("kind", ["roberta", "distilbert"])
def test_the_feature_comes_with_what_needs_it(kind, tmp_path):
    make_ranker(tmp_path / "c", kind, 1, **small_of(kind))
    blob = convert(tmp_path / "c", tmp_path / "a.smol", "f32")

    def drop_feature(data):
        flip_features(data, DOUBLED)

    def drop_use(data):
        start = section(data, EMBEDDER_SECTION)[0]
        data[start + (36 if kind == "distilbert" else 20)] = 1

    for edit in (drop_feature, drop_use):
        both_refuse(blob, tmp_path, edit, "doubled")


# --- published settings, and what is refused ------------------------------------------------------

PUBLISHED = {
    "bge-m3": "xlm-roberta", "multilingual-e5-base": "xlm-roberta", "bge-reranker-v2-m3": "xlm-roberta",
    "all-distilroberta-v1": "roberta", "multi-qa-distilbert-cos-v1": "distilbert", "all-mpnet-base-v2": "mpnet",
    "sentence-camembert-base": "camembert",
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_settings_answer_as_transformers_does(name, tmp_path):
    """config.json as published, spelling and all, but for sizes."""
    kind, keys = PUBLISHED[name], published.cut(published.ENCODERS[name], 0)
    if kind != "distilbert":
        keys["pad_token_id"] = published.ENCODERS[name]["pad_token_id"]
    head = keys["architectures"][0].removeprefix(KINDS[kind][2])
    model = make(tmp_path, kind, 1, head, keys=keys)
    blob = convert(tmp_path, tmp_path / "a.smol", "f32")
    if head == "ForSequenceClassification":
        query, *texts = lines(4, 1)
        tokenizer = tokenizer_of(kind, positions_of(model))
        expected = 1 / (1 + np.exp([-score(model, tokenizer, query, text) for text in texts]))
        assert np.abs(rank(blob, query, texts) - expected).max() <= 2e-5
        return
    body = getattr(model, model.base_model_prefix, model)
    ids = some_ids(body, 200)
    with Model(blob) as smol, smol.context() as context:
        assert largest_difference(context.embed(ids), states_of(body, ids)) <= TOLERANCE


# a change of config.json and what the refusal says
CHANGES = [
    ("roberta", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
    ("roberta", {"position_embedding_type": None}, "position_embedding_type"), ("roberta", {"is_decoder": True}, "is_decoder"),
    ("roberta", {"add_cross_attention": True}, "add_cross_attention"), ("roberta", {"pad_token_id": None}, "pad_token_id"),
    ("roberta", {"pad_token_id": -1}, "pad_token_id"), ("roberta", {"pad_token_id": 59}, "max_position_embeddings 60"),
    ("roberta", {"pad_token_id": 58, "max_position_embeddings": 59}, "max_position_embeddings 59"),
    ("roberta", {"pad_token_id": 5}, "pad_token_id 5 must be"), ("roberta", {"pad_token_id": 0}, "pad_token_id 0"),
    ("roberta", {"pad_token_id": 2}, "pad_token_id 2"), ("xlm-roberta", {"pad_token_id": 3}, "pad_token_id 3"),
    ("roberta", {"hidden_act": "relu"}, "hidden_act"),
    ("roberta", {"head_dim": 6}, "head_dim"), ("roberta", {"num_key_value_heads": 1}, "num_key_value_heads"),
    ("roberta", {"max_position_embeddings": 70}, r"position_embeddings\.weight has shape"),
    ("roberta", {"model_type": "xlm-roberta"}, "model_type"), ("distilbert", {"is_decoder": True}, "is_decoder"),
    ("distilbert", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
    ("distilbert", {"hidden_size": 16}, "hidden_size"), ("distilbert", {"num_attention_heads": 2}, "num_attention_heads"),
    ("distilbert", {"num_hidden_layers": 1}, "num_hidden_layers"), ("distilbert", {"intermediate_size": 16}, "intermediate_size"),
    ("distilbert", {"activation": "relu"}, "activation"), ("distilbert", {"n_heads": 3}, "multiple"),
    ("mpnet", {"relative_attention_num_buckets": 64}, "relative_attention_num_buckets is 64: must be 32"),
    ("mpnet", {"relative_attention_num_buckets": "32"}, "relative_attention_num_buckets"),
    ("mpnet", {"max_position_embeddings": 2}, "max_position_embeddings 2: positions begin after row 1"),
    ("mpnet", {"is_decoder": True}, "is_decoder"), ("camembert", {"pad_token_id": 5}, "pad_token_id 5 must be"),
]  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A checkpoint of each kind."""
    folders = {}
    for kind in KINDS:
        folders[kind] = tmp_path_factory.mktemp("small") / kind
        make_ranker(folders[kind], kind, 1, **small_of(kind))
    return folders


@pytest.mark.parametrize(("kind", "change", "message"), CHANGES)
def test_settings_that_are_not_supported_are_refused(kind, change, message, small, tmp_path):
    path = small[kind] / "config.json"
    before = path.read_text()
    edit_json(path, **change)
    try:
        with pytest.raises(SmolError, match=message):
            convert(small[kind], tmp_path / "a.smol", "f32")
    finally:
        path.write_text(before)


# tensors, whose names are RoBERTa's, and a post-processor
HEADS = [
    ({"classifier.dense.weight": None}, r"classifier\.dense\.weight is missing"),
    ({"classifier.dense.bias": None}, r"classifier\.dense\.bias is missing"),
    ({"classifier.out_proj.weight": torch.ones(3, 12), "classifier.out_proj.bias": torch.ones(3)}, "3 labels"),
    ({"classifier.dense.weight": torch.ones(5, 12), "classifier.dense.bias": torch.ones(5)}, r"dense\.weight has a shape"),
    ({"roberta.embeddings.token_type_embeddings.weight": None}, "token_type_embeddings"),
    ({"roberta.embeddings.token_type_embeddings.weight": torch.full((2, 12), math.nan)}, "not finite"),
    ({"classifier.weight": torch.ones(1, 12)}, r"classifier\.weight is not part"),
    (processors.BertProcessing(("</s>", 2), ("<s>", 0)), "pairs of texts"),
    (processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B:1 </s>:1", [("<s>", 0), ("</s>", 2)]), "pairs of texts"),
    (processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)]), "pairs of texts"),
    (processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> <s> $B </s>", [("<s>", 0), ("</s>", 2)]), "pairs of texts"),
    (processors.TemplateProcessing("<s> $A </s>", "<s> $B </s> </s> $A </s>", [("<s>", 0), ("</s>", 2)]), "pairs of texts"),
]


@pytest.mark.parametrize(("change", "message"), HEADS)
def test_heads_and_pairs_that_are_not_supported_are_refused(change, message, tmp_path):
    make_ranker(tmp_path / "c", "roberta", 1, **small_of("roberta", type_vocab_size=2))
    if isinstance(change, dict):
        weights = load_file(tmp_path / "c/model.safetensors") | change
        save_file({k: v for k, v in weights.items() if v is not None}, tmp_path / "c/model.safetensors")
    else:
        tokenizer = tokenizer_of("roberta")
        tokenizer.post_processor = change
        (tmp_path / "c/tokenizer.json").write_text(tokenizer.to_str())
    with pytest.raises(SmolError, match=message) as error:
        convert(tmp_path / "c", tmp_path / "a.smol", "f32")
    assert error.value.status in (DAMAGED, UNSUPPORTED)


def test_a_pair_with_one_separator_has_one(tmp_path):
    """RoBERTa's model with another tokenizer's pair, which tokenizer.json states."""
    model, tokenizer = make_ranker(tmp_path / "c", "roberta", 1, **small_of("roberta", type_vocab_size=1))
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B </s>", [("<s>", 0), ("</s>", 2)])
    written = tokenizer_of("roberta")
    written.post_processor = tokenizer.post_processor
    (tmp_path / "c/tokenizer.json").write_text(written.to_str())
    blob = convert(tmp_path / "c", tmp_path / "a.smol", "f32")
    assert not read_blob(blob).features & DOUBLED and read_blob(blob).embedder["pair"] == 1
    query, *texts = lines(4, 1)
    expected = 1 / (1 + np.exp([-score(model, tokenizer, query, text) for text in texts]))
    assert np.abs(rank(blob, query, texts) - expected).max() <= 2e-5
