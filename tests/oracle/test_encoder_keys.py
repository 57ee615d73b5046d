"""Keys of an encoder's config.json with values of every kind: no checkpoint has other states than transformers computes. Refusing
more than the reference does is allowed.

The check tries a sample; with SMOL_FAMILY_CASES of 40 or more, as in `make families`, it is all."""

import contextlib
import dataclasses
import io
import json
import random

import numpy as np
import pytest
import torch
import transformers
from checkpoints import randomize
from engine import Model, SmolError, convert
from test_config_keys import EVERY, OLD_KEYS, ROPE_KEYS, ROPE_TYPES, UNREAD, changed
from test_embedder import tokenizer_of
from test_encoder import lines, states_of
from test_logits import TOLERANCE, largest_difference

SAMPLE = 20
VALUES = [None, True, False, 2, 0.5, "relu", "silu", ["full_attention", "sliding_attention"], {"x": 1}]
SMALL = {"hidden_size": 48, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 60}
DISTIL = {"dim": 48, "n_heads": 4, "n_layers": 2, "hidden_dim": 60}
THETAS = {
    kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in (("full_attention", 500.0), ("sliding_attention", 100.0))
}
MIXED = SMALL | {
    "layer_types": list(THETAS),
    "rope_parameters": THETAS,
    "bos_token_id": None,
    "eos_token_id": 0,
    "attention_bias": True,
}
MODERN = {"local_attention": 20, "cls_token_id": 1, "sep_token_id": 2, "norm_bias": True, "mlp_bias": True}
GEMMA = {
    "num_key_value_heads": 2,
    "head_dim": 12,
    "sliding_window": 20,
    "query_pre_attn_scalar": 12,
    "use_bidirectional_attention": True,
}
KINDS = {
    "Bert": SMALL, "XLMRoberta": SMALL, "Roberta": SMALL, "Camembert": SMALL, "MPNet": SMALL, "DistilBert": DISTIL,
    "ModernBert": MIXED | MODERN, "Gemma3Text": MIXED | GEMMA, "NomicBert": SMALL, "Gte": SMALL,
    "EuroBert": SMALL | {"bos_token_id": None, "eos_token_id": 0, "mask_token_id": 2},
}  # fmt: skip

# keys of neighbours, and old ones
MORE = """activation add_cross_attention embedding_size global_attn_every_n_layers global_rope_theta hidden_act is_causal is_decoder
    local_rope_theta n_embd n_positions position_embedding_type relative_attention_num_buckets rotary_emb_base type_vocab_size""".split()
# what is about training, the classifier, or the checkpoint itself
UNUSED = """architectures bos_token_id classifier_activation classifier_bias classifier_pooling cls_token_id decoder_bias
    dtype eos_token_id initializer_cutoff_factor model_type sep_token_id vocab_size""".split()


def cases(config):
    fields = {field.name for field in dataclasses.fields(config)}.union(OLD_KEYS, MORE).difference(UNREAD, UNUSED) | {"is_decoder"}
    paths = [(key,) for key in sorted(fields) if "dropout" not in key]
    paths += [("rope_parameters", kind, key) for kind in getattr(config, "layer_types", None) or [] for key in ROPE_KEYS]
    return [(path, value) for path in paths for value in VALUES + ROPE_TYPES * (path[-1] in ("rope_type", "type"))]


def ours(folder, ids):
    try:
        with Model(convert(folder, folder / "a.smol", "f32", threads=1, force=True)) as model, model.context() as context:
            return context.embed(ids)
    except SmolError:
        return None


def theirs(folder, kind, ids):
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return states_of(kind.from_pretrained(folder, dtype=torch.float32).eval(), ids)
    except Exception:  # of any type
        return None


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", KINDS)
def test_no_key_makes_states_that_are_not_the_references(name, tmp_path):
    settings = {"vocab_size": 400, "max_position_embeddings": 140, "pad_token_id": 1} | KINDS[name]
    config = getattr(transformers, f"{name}Config")(**settings)
    kind = getattr(transformers, f"{name}Model")
    model = kind(config).eval()
    randomize(model, torch.Generator().manual_seed(3))
    model.save_pretrained(tmp_path)
    tokenizer_of(lines(20, seed=1), tmp_path)
    path, ids = tmp_path / "config.json", np.random.default_rng(1).integers(3, 400, 60)
    saved, every = json.loads(path.read_text()), cases(config)
    n_answers, wrong = 0, {}
    for place, value in [(("__none__",), None), *(every if EVERY else random.Random(name).sample(every, SAMPLE))]:
        path.write_text(json.dumps(changed(saved, place, value)))
        mine = ours(tmp_path, ids)
        reference = None if mine is None else theirs(tmp_path, kind, ids)
        if reference is not None:
            n_answers += 1
            if largest_difference(mine, reference) > TOLERANCE:
                wrong[".".join(place)] = value
    print(f"{name}: {len(every)} cases, {n_answers} answers")
    assert wrong == {} and n_answers >= 3
