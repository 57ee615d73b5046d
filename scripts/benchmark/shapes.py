"""Checkpoints in the published shapes of the models in docs/models.md, without the published weights."""

import json
import os
import sys

import numpy as np

from .paths import ROOT

BLOCK = 1 << 22  # random weights, which a file repeats


def oracle():
    """The modules of tests/oracle, which need transformers."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    sys.path.append(str(ROOT / "tests/oracle"))
    import checkpoints
    import minicpm  # noqa: F401  registers what transformers has no class for
    import published
    import test_embedder
    import test_rerank
    import test_roberta
    import test_tokenizer_families

    return checkpoints, published, test_embedder, test_rerank, test_tokenizer_families, test_roberta.KINDS


def models():
    """name -> config.json"""
    published = oracle()[1]
    return published.CONFIGS | published.NESTED | published.ENCODERS


def make_hollow(keys, dense, folder):
    """Makes a checkpoint of these settings whose weights are a hole in the file, but for Dense layers, of these outputs.
    Returns the bytes of the weights."""
    import torch
    import transformers
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
    from transformers.core_model_loading import revert_weight_conversion

    checkpoints, published, embedder, reranker, tokenizers, kinds = oracle()
    encodes = keys in published.ENCODERS.values()
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(keys))
    whole = AutoConfig.from_pretrained(folder)
    config = whole.get_text_config()
    with torch.device("meta"):
        kind = AutoModelForImageTextToText if keys in published.NESTED.values() else AutoModelForCausalLM
        model = getattr(transformers, keys["architectures"][0])(config) if encodes else kind.from_config(whole)
    ties = keys.get("tie_word_embeddings", getattr(config, "tie_word_embeddings", False))
    tied = tuple(model.all_tied_weights_keys) if ties else ()
    header, end = {}, 0
    for name, tensor in revert_weight_conversion(model, model.state_dict()).items():
        if name.endswith(tied) or not tensor.is_floating_point() or any(part in name for part in ("vis", "projector", "connector")):
            continue
        start, end = end, end + 2 * tensor.numel()
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
        for name in header:
            if name.endswith(("lm_head.weight", "embed_out.weight")):  # otherwise it is the embedding, which a blob holds once
                file.seek(8 + len(text) + header[name]["data_offsets"][0])
                file.write(b"\1")
    if keys["model_type"] in kinds:
        (folder / "tokenizer.json").write_text(kinds[keys["model_type"]][0]())
    elif encodes:
        content = tokenizers.bert(("a b c",))
        content["post_processor"] = reranker.pair_template(content)
        (folder / "tokenizer.json").write_text(json.dumps(content))
    else:
        checkpoints.byte_tokenizer(config.vocab_size).save(str(folder / "tokenizer.json"))
    if dense:
        layers = embedder.write_modules(folder, "mean_tokens", [(n, "identity", False) for n in dense], width=config.hidden_size)
        end += sum(2 * tensor.numel() for weights, _ in layers for tensor in weights.values())
    return end


def fill(folder):
    """Replaces the hole by random weights."""
    values = (0.02 * np.random.default_rng(1).standard_normal(BLOCK, np.float32)).view(np.uint32) >> 16
    block = values.astype(np.uint16).tobytes()
    with open(folder / "model.safetensors", "r+b") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        end = os.fstat(file.fileno()).st_size
        file.seek(start)
        for place in range(start, end, len(block)):
            file.write(block[: end - place])
