"""Every key of config.json, of any family, with values of every kind: no checkpoint is answered
otherwise than by transformers. Where the reference refuses a value of a key that we read, so do we;
where both take it, the logits are the same, whether the key changed them or not. Refusing more than the
reference does is allowed, since what is refused is no wrong answer.

The check tries a sample; with SMOL_FAMILY_CASES of 40 or more, as in `make families`, it is all."""

import contextlib
import copy
import dataclasses
import io
import json
import os
import random

import numpy as np
import pytest
from checkpoints import load_reference, make_of, reference_logits
from engine import Model, SmolError, convert
from families import CONFIGS
from features import TWO_LAYERS, featured
from test_logits import TOLERANCE, largest_difference

EVERY = int(os.environ.get("SMOL_FAMILY_CASES", 4)) >= 40
SAMPLE = 30  # of each family's 1,300 to 3,000 cases
N_POSITIONS = 60  # past every window and original context
VALUES = [None, True, False, 0, 1, 2, 3, -1, 0.0, 0.5, 1.0, 2.5, "x", "", "silu", "relu", "gelu",
          [], [1], [0, 1], ["full_attention", "sliding_attention"], {}, {"x": 1}]  # fmt: skip
FEW = [True, 2, 0.5, "x", ["full_attention", "sliding_attention"]]
ROPE_TYPES = ["default", "linear", "llama3", "yarn", "longrope", "dynamic", "proportional", "su"]
TYPES = ["full_attention", "sliding_attention"]

# what is no field of the reference's classes, but counts
OLD_KEYS = """block_ff_dim is_causal original_max_position_embeddings partial_rotary_factor per_layer_config
    quantization_config rope_local_base_freq rope_scaling rope_theta rotary_emb_base rotary_pct
    sliding_window_pattern tie_embedding torch_dtype""".split()
ROPE_KEYS = """alpha attention_factor beta_fast beta_slow factor full_attention high_freq_factor
    llama_4_scaling_beta long_factor low_freq_factor mrope_section mscale mscale_all_dim original_max_position_embeddings
    partial_rotary_factor rope_theta rope_type short_factor truncate type""".split()
# of neighbours of these families
FOREIGN_KEYS = """attention_chunk_size attn_implementation bias clip_qkv logit_scale moe_layers norm_eps
    num_experts num_local_experts qk_layernorm qkv_bias rope_interleaved text_config
    sparse_config tie_encoder_decoder use_mup use_qk_norm""".split()

# Fields that we do not read. The reference looks at the types of some; no answer depends on one of them.
UNREAD = """attention_dropout attn_pdrop chunk_size_feed_forward classifier_dropout embd_pdrop
    eod_token_id hidden_dropout id2label initializer_range is_decoder is_encoder_decoder label2id num_logits_to_keep
    output_hidden_states output_router_logits pad_token_id pretraining_tp problem_type reorder_and_upcast_attn resid_pdrop
    residual_dropout return_dict router_aux_loss_coef summary_activation summary_first_dropout summary_proj_to_labels summary_type
    summary_use_proj transformers_version use_cache""".split()
# what has no effect in Nemotron-H: of training, of other layers and of kernels; null is the default of use_bias
NEMOTRON_UNREAD = """expand mamba_proj_bias mamba_ssm_cache_dtype moe_shared_expert_overlap mtp_layers_block_type n_shared_experts
    num_nextn_predict_layers rescale_prenorm_residual residual_in_fp32 time_step_floor time_step_max use_bias use_mamba_kernels""".split()
# what our class for MiniCPM has from Granite's, and sets itself
INHERITED = "attention_multiplier embedding_multiplier logits_scaling residual_multiplier mlp_bias".split()


def fields_of(family):
    return {field.name for field in dataclasses.fields(CONFIGS[family])}


def is_read(family, path):
    if family == "gemma3" and path == ("attn_logit_softcapping",):
        return False
    if family == "gemma4" and path[0] in ("num_experts", "top_k_experts", "moe_intermediate_size"):
        return False  # without experts only their types are looked at
    if family in ("graniteswa", "granitemoeswa") and path[-1] == "rope_theta":
        return False  # layer_rope_theta counts instead; the reference makes a rotation of it that no layer uses
    if family == "gpt2" and path[0].startswith("rope_"):
        return False  # nothing rotates
    if family == "nemotronh" and path[0] in NEMOTRON_UNREAD:
        return False
    if family == "minicpm" and path[0] in INHERITED:
        return False
    if len(path) > 1 or path[0] in OLD_KEYS:
        return True
    return path[0] in fields_of(family) and path[0] not in UNREAD


def paths_of(config):
    """Keys of any family's config.json, and of its rotary embeddings."""
    fields = set().union(*(fields_of(family) for family in CONFIGS))
    paths = [(key,) for key in fields.union(OLD_KEYS, FOREIGN_KEYS)]
    rope = config.get("rope_parameters")
    for place in [()] * bool(rope) + [(key,) for key in TYPES if key in (rope or ())]:
        paths += [("rope_parameters", *place, key) for key in ROPE_KEYS]
    return sorted(paths)


def cases(family, config):
    """(path, value) for each key and value but the one that is there."""
    for path in paths_of(config):
        if (family, *path) == ("youtu", "pad_token_id"):
            continue  # the reference clears the embedding of this token while it loads
        inner = config
        for key in path[:-1]:
            inner = inner[key]
        kinds = ROPE_TYPES if path[-1] in ("rope_type", "type") else []
        for value in (VALUES if is_read(family, path) else FEW) + kinds:
            if json.dumps(inner.get(path[-1], "absent")) != json.dumps(value):
                yield path, value


def changed(config, path, value):
    config = copy.deepcopy(config)
    inner = config
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return config


def ours(folder, ids):
    """Logits, or None where the checkpoint is refused."""
    try:
        with Model(convert(folder, folder / "a.smol", "f32", threads=1, force=True)) as model:
            return model.logits(ids, kv="f32")
    except SmolError:
        return None


def theirs(folder, ids):
    """Returns the reference's logits, or None: it complains with exceptions of any type."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return reference_logits(load_reference(folder), ids)
    except Exception:
        return None


def complaint(folder, ids, read):
    """Returns a complaint about our answer, or None."""
    mine = ours(folder, ids)
    if mine is None:
        return None
    reference = theirs(folder, ids)
    if reference is None:
        return "the reference refuses it" if read else ""
    if not np.isfinite(reference).all() or largest_difference(mine, reference) > TOLERANCE:
        return "the reference answers otherwise"
    return ""


@pytest.mark.sample(3)
@pytest.mark.parametrize("family", CONFIGS)
def test_no_key_makes_an_answer_that_is_not_the_references(family, tmp_path):
    make_of(featured(family), tmp_path, seed=3)
    ids = np.random.default_rng(1).integers(0, TWO_LAYERS["vocab_size"], N_POSITIONS)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    every = list(cases(family, config))
    n_answers, complaints = 0, {}
    for place, value in every if EVERY else random.Random(family).sample(every, SAMPLE):
        path.write_text(json.dumps(changed(config, place, value)))
        found = complaint(tmp_path, ids, is_read(family, place))
        n_answers += found is not None
        if found:
            complaints[".".join(place), json.dumps(value)] = found
    print(f"{family}: {len(every)} cases, {n_answers} answers")
    assert complaints == {} and n_answers > SAMPLE / 6
