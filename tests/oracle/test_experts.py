"""Mixtures of experts: only the experts that a token uses are read, the layouts of published checkpoints, one
answer everywhere, and section 15 of a blob, good and bad (FORMAT.md, 5.15)."""

import copy
import json
import struct
import subprocess

import numpy as np
import pytest
import torch
from blobs import accepted_bits, both_refuse, edited, flip_features, read_blob, section
from checkpoints import edit_config, load_reference, make_of, reference_logits
from engine import Model, SmolError, convert, kernel_sets
from features import EXPERTS, config_of, featured
from internal import BUILD, DAMAGED
from safetensors.torch import load_file, save_file
from smol_reader import CHUNK, EXPERTS_SECTION, OWN_NORMS, TENSORS, VARIED_SECTION
from test_determinism import eval_in_parts, random_sizes, same_bits
from test_families import contents
from test_logits import check
from transformers import AutoConfig, AutoModelForCausalLM

IDS = np.random.default_rng(5).integers(0, 101, 150).tolist()


@pytest.fixture(scope="module", params=EXPERTS)
def checkpoint(request, tmp_path_factory):
    return make_of(featured(request.param), tmp_path_factory.mktemp("experts") / "checkpoint", 3)


# --- the same bits ----------------------------------------------------------------------------


@pytest.mark.sample(16)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "int8", "int4"])
def test_any_split_threads_and_instruction_set_give_the_same_bits(checkpoint, dtype, monkeypatch):
    with Model(convert(checkpoint, checkpoint / f"{dtype}.smol", dtype, force=True)) as model:
        expected = model.logits(IDS, threads=1)
        for isa in [name for name, _, runs in kernel_sets() if runs]:
            monkeypatch.setenv("SMOL_ISA", isa)
            for seed in range(3):
                with model.context(2 * seed + 1) as context:
                    assert same_bits(eval_in_parts(context, IDS, random_sizes(seed, len(IDS))), expected)


def test_equal_scores_choose_the_first_experts(tmp_path):
    """Experts that the router cannot tell apart: the first ones count, the others do not."""
    make_of(config_of("olmoe", num_experts=6, num_experts_per_tok=2), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    for name in weights:
        if name.endswith("mlp.gate.weight"):
            weights[name][:] = weights[name][:1].clone()
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with Model(convert(tmp_path, tmp_path / "a.smol", "f32")) as model:
        before = model.logits(IDS)
    for name, tensor in weights.items():
        if "experts." in name and not any(f"experts.{i}." in name for i in (0, 1)):
            tensor.zero_()
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with Model(convert(tmp_path, tmp_path / "b.smol", "f32")) as model:
        assert same_bits(model.logits(IDS), before)


# --- what is read -----------------------------------------------------------------------------


@pytest.mark.slow
def test_unused_experts_are_never_read(tmp_path):
    """Chunks that hold only experts which no token uses may be damaged: the answer stays, and `verify` tells."""
    config = config_of("olmoe", num_experts=64, num_experts_per_tok=2, hidden_size=64, intermediate_size=256)
    make_of(config, tmp_path)
    path = convert(tmp_path, tmp_path / "a.smol", "f32")
    ids = IDS[:3]
    with Model(path) as model:
        expected = model.logits(ids)
    data = bytearray(path.read_bytes())
    blob = read_blob(path)
    (data_offset,) = struct.unpack_from("<Q", data, 32)
    n_chunks = -(-(len(data) - data_offset) // CHUNK)
    harmless = 0
    for chunk in range(n_chunks):
        start = data_offset + chunk * CHUNK
        inside = [t.name for t in blob.tensors.values() if t.offset < start + CHUNK and start < t.offset + t.size]
        spoilt = bytearray(data)
        spoilt[start + 100] ^= 1
        bad = tmp_path / "bad.smol"
        bad.write_bytes(spoilt)
        try:
            with Model(bad) as model:
                same = same_bits(model.logits(ids), expected)
        except SmolError as error:
            assert error.status == DAMAGED
            continue
        assert same and inside and all(".experts." in name for name in inside)
        harmless += 1
        if harmless == 1:
            verified = subprocess.run([BUILD / "smolconv", "verify", bad], capture_output=True, text=True)
            assert verified.returncode != 0 and ".experts." in verified.stderr
    assert harmless > n_chunks / 3  # three tokens use at most 6 of 64 experts


# --- layouts of checkpoints -------------------------------------------------------------------


def stacked(folder):
    """Turns the experts into one tensor for each layer, as transformers holds them."""
    weights = load_file(folder / "model.safetensors")
    out = {k: v for k, v in weights.items() if ".experts." not in k}
    for layer in {k.split(".mlp.experts.")[0] for k in weights if ".experts." in k}:
        at = layer + ".mlp.experts."
        n = len([k for k in weights if k.startswith(at) and k.endswith("up_proj.weight")])
        both = [torch.cat([weights[f"{at}{i}.{part}_proj.weight"] for part in ("gate", "up")]) for i in range(n)]
        out[at + "gate_up_proj"] = torch.stack(both)
        out[at + "down_proj"] = torch.stack([weights[f"{at}{i}.down_proj.weight"] for i in range(n)])
    return out


@pytest.mark.parametrize("family", ["olmoe", "qwen3moe"])
def test_stacked_experts_give_the_same_blob(family, tmp_path):
    make_of(featured(family), tmp_path)
    new = contents(convert(tmp_path, tmp_path / "new.smol", "int8"))
    save_file(stacked(tmp_path), tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert contents(convert(tmp_path, tmp_path / "old.smol", "int8")) == new


def test_granites_other_names_give_the_same_blob(tmp_path):
    """The other names are those of transformers' own parameters."""
    make_of(featured("granitemoeshared"), tmp_path)
    new = contents(convert(tmp_path, tmp_path / "new.smol", "int8"))
    names = {"input_linear.weight": "experts.gate_up_proj", "output_linear.weight": "experts.down_proj",
             "router.layer.weight": "router.weight"}  # fmt: skip
    weights = {}
    for name, tensor in load_file(tmp_path / "model.safetensors").items():
        before, at, after = name.partition(".block_sparse_moe.")
        weights[before + at + names[after] if at else name] = tensor
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert contents(convert(tmp_path, tmp_path / "old.smol", "int8")) == new


def test_bad_tensors_of_experts_are_named(tmp_path):
    make_of(featured("olmoe"), tmp_path)
    path = tmp_path / "model.safetensors"
    good, whole = load_file(path), stacked(tmp_path)
    one, stack = "model.layers.1.mlp.experts.6.up_proj.weight", "model.layers.1.mlp.experts.gate_up_proj"
    missing = {k: v for k, v in good.items() if k != one}
    short = whole | {stack: whole[stack][:-1].contiguous()}
    for weights, words in (
        (missing, f"{one} is missing"),
        (good | {one: good[one][:-1].contiguous()}, f"{one} has shape"),
        (short, f"{stack} has shape .* calls for \\[7, 80, 48\\]"),
        (good | {stack: whole[stack]}, "up_proj|gate_proj"),
        (good | {"model.layers.0.mlp.experts.7.up_proj.weight": good[one].clone()}, "experts.7.up_proj"),
    ):
        save_file(weights, path, metadata={"format": "pt"})
        with pytest.raises(SmolError, match=words) as caught:
            convert(tmp_path, tmp_path / "a.smol")
        assert caught.value.status == DAMAGED


def test_layers_without_experts_leave_no_trace(tmp_path):
    """A model whose layers are all dense is Qwen 3's."""
    make_of(config_of("qwen3moe", num_experts=4, num_experts_per_tok=2, mlp_only_layers=[0, 1]), tmp_path)
    data = convert(tmp_path, tmp_path / "a.smol", "f32").read_bytes()
    with pytest.raises(KeyError):
        section(data, EXPERTS_SECTION)
    with Model(tmp_path / "a.smol") as model:
        check(model.logits(IDS, kv="f32"), reference_logits(load_reference(tmp_path), IDS))


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize("family, change, words", [
    ("olmoe", {"num_experts_per_tok": 8}, "num_experts_per_tok 8 is above the number of experts, 7"),
    ("olmoe", {"num_local_experts": 6}, "num_experts and num_local_experts differ"),
    ("olmoe", {"num_experts": 0}, "num_experts must be an integer"),
    ("olmoe", {"num_experts": 5000}, "num_experts"),
    ("olmoe", {"clip_qkv": -1.0}, "clip_qkv"),
    ("gemma4moe", {"top_k_experts": 7}, "top_k_experts 7 is above the number of experts, 6"),
    ("gemma4moe", {"top_k_experts": None}, "top_k_experts is null: models with experts must have it"),
    ("gemma4moe", {"num_experts": None}, "num_experts"),
    ("gemma4moe", {"moe_intermediate_size": 0}, "moe_intermediate_size"),
    ("gemma4moe", {"hidden_size_per_layer_input": 16}, "hidden_size_per_layer_input is 16: with experts it must be 0"),
    ("gemma4moe", {"num_kv_shared_layers": 1}, "num_kv_shared_layers is 1: with experts it must be 0"),
])  # fmt: skip
def test_contradictions_are_refused_by_name(family, change, words, tmp_path):
    make_of(featured(family), tmp_path)
    edit_config(tmp_path, lambda config: config.update(change))
    with pytest.raises(SmolError, match=words):
        convert(tmp_path, tmp_path / "a.smol")


FIELDS = "n_experts n_used width shared_width scoring normalizes choice_bias".split()
HOSTILE = [
    ("n_experts", 0), ("n_experts", 6), ("n_experts", 1025), ("n_experts", 2**32 - 1), ("n_used", 0), ("n_used", 8),
    ("n_used", 2**32 - 1), ("width", 0), ("width", 41), ("width", 2**22 + 1), ("width", 2**32 - 1),
    ("shared_width", 1), ("shared_width", 2**22 + 1), ("scoring", 3), ("normalizes", 2), ("choice_bias", 1),
    ("choice_bias", 2),
]  # fmt: skip
GATES = [1, 2]  # without an MLP beside the experts, and too large
NUMBERS = [(28, value) for value in (0.5, -1.0, float("nan"))]
NUMBERS += [(32, value) for value in (0.0, -1.0, float("inf"), float("nan"))]
NUMBERS += [(36, value) for value in (-0.0, -1.0, float("inf"), float("nan"))]


def spoiled_sections():
    for name, value in HOSTILE:
        yield f"{name} {value}", FIELDS.index(name) * 4, struct.pack("<I", value)
    for at, value in NUMBERS:
        yield f"{value} at {at}", at, struct.pack("<f", value)
    for value in GATES:
        yield f"shared_gate {value}", 40, struct.pack("<I", value)
    for at in (48, 63):
        yield f"reserved {at}", at, b"\1"
    yield "own_norms without their feature", 44, b"\1"
    yield "a dense layer that there is not", 64, b"\4"
    yield "the last dense layer", 191, b"\x80"
    yield "all layers dense", 64, b"\3"
    yield "a dense layer", 64, b"\1"  # whose tensors are others


@pytest.fixture(scope="module")
def olmoe(tmp_path_factory):
    folder = make_of(featured("olmoe"), tmp_path_factory.mktemp("olmoe"))
    return convert(folder, folder / "a.smol", "int8")


@pytest.mark.parametrize("at, value", [pytest.param(a, v, id=name) for name, a, v in spoiled_sections()])
def test_bad_sections_are_refused(olmoe, at, value, tmp_path):
    start, size = section(olmoe.read_bytes(), EXPERTS_SECTION)
    assert size == 192 and read_blob(olmoe).experts["n_experts"] == 7

    def edit(data):
        data[start + at : start + at + len(value)] = value

    both_refuse(olmoe, tmp_path, edit)


def test_the_number_of_an_expert_is_checked(olmoe, tmp_path):
    start, size = section(olmoe.read_bytes(), TENSORS)
    for i in range(size // 64):

        def edit(data, i=i):
            data[start + 64 * i + 52] ^= 1

        both_refuse(olmoe, tmp_path, edit)


def test_a_feature_without_its_section_is_refused(olmoe, tmp_path):
    both_refuse(olmoe, tmp_path, lambda data: flip_features(data, 1 << 10))
    both_refuse(olmoe, tmp_path, lambda data: flip_features(data, OWN_NORMS))


# --- norms of their own -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def gemma(tmp_path_factory):
    folder = make_of(featured("gemma4moe"), tmp_path_factory.mktemp("gemma"), 4)
    return convert(folder, folder / "a.smol", "f32")


@pytest.mark.parametrize("at, value", [(12, 0), (40, 1), (44, 0), (44, 2), (44, 2**31), (48, 1), (60, 1)])
def test_bad_fields_of_experts_with_norms_are_refused(gemma, at, value, tmp_path):
    start, size = section(gemma.read_bytes(), EXPERTS_SECTION)
    assert size == 192 and read_blob(gemma).experts["own_norms"] == 1
    both_refuse(gemma, tmp_path, lambda data: struct.pack_into("<I", data, start + at, value))


def test_experts_with_norms_need_theirs_and_no_inputs_of_layers(gemma, tmp_path):
    blob = read_blob(gemma)
    blocks, inputs = section(gemma.read_bytes(), 1)[0] + 72, section(gemma.read_bytes(), VARIED_SECTION)[0] + 20
    both_refuse(gemma, tmp_path, lambda data: flip_features(data, OWN_NORMS))
    both_refuse(gemma, tmp_path, lambda data: struct.pack_into("<I", data, inputs, 16))
    for bit in (1, 2, 64, 4096):
        both_refuse(gemma, tmp_path, lambda data: struct.pack_into("<I", data, blocks, blob.model["blocks"] ^ bit))  # noqa: B023


@pytest.mark.slow
def test_both_readers_agree_on_every_bit_of_experts_with_norms(gemma, tmp_path):
    """Accepted are other numbers of experts that a token uses, epsilons, scales and clips."""
    start, size = section(gemma.read_bytes(), EXPERTS_SECTION)
    assert accepted_bits(gemma, tmp_path, start + 40, start + size) == 0
    assert accepted_bits(gemma, tmp_path, start, start + 40) > 0


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["router_norm", "router_scale", "expert_norm", "expert_out_norm", "shared_out_norm"])
def test_a_norm_that_is_no_number_is_an_error(gemma, name, value, tmp_path):
    tensor = read_blob(gemma).tensors["layers.0." + name]

    def spoil(data):
        data[tensor.offset : tensor.offset + 4 * tensor.cols] = np.full(tensor.cols, value, np.float32).tobytes()

    with Model(edited(gemma, tmp_path / "b.smol", spoil)) as model, model.context() as context:
        for ids in ([0], [0] * 30):
            with pytest.raises(SmolError, match="NaN or infinity"):
                context.eval(ids)
            context.truncate(0)


@pytest.mark.parametrize("key", ["num_experts", "top_k_experts", "moe_intermediate_size"])
def test_gemma_with_experts_needs_their_numbers(key, tmp_path):
    make_of(featured("gemma4moe"), tmp_path)
    edit_config(tmp_path, lambda config: config.pop(key))
    with pytest.raises(SmolError, match=f"{key} is missing: models with experts must have it"):
        convert(tmp_path, tmp_path / "a.smol")


# --- descriptions -----------------------------------------------------------------------------


def smolconv(*words):
    return subprocess.run([BUILD / "smolconv", *words], capture_output=True, text=True)


def test_inspect_counts_what_a_token_uses(checkpoint, tmp_path):
    """A token uses all parameters but those of the experts that it does not use: as many as transformers' model has
    with as many experts as that."""
    path = convert(checkpoint, tmp_path / "a.smol", "int8")
    told = json.loads(smolconv("inspect", "--json", path).stdout)["model"]
    config = AutoConfig.from_pretrained(checkpoint)
    few = copy.deepcopy(config)
    n = getattr(config, "num_experts", 0) or config.num_local_experts
    used = config.top_k_experts if config.model_type == "gemma4_text" else config.num_experts_per_tok
    setattr(few, "num_experts" if hasattr(config, "num_experts") else "num_local_experts", used)
    n_dense = getattr(config, "num_dense_layers", 0)
    sparse = [i for i in range(n_dense, 2) if i not in getattr(config, "mlp_only_layers", [])]
    single = config.model_type == "nemotron_h"  # whose layers have one block each
    if single:
        sparse = [i for i, kind in enumerate(config.layer_types) if kind == "moe"]
    routers = len(sparse) * (n - used) * config.hidden_size  # a token uses the whole router
    routers += len(sparse) * n * getattr(config, "use_expert_bias", single)  # and biases, which are no parameters there
    if config.model_type == "gemma4_text":
        routers += len(sparse) * (n - used + 1)  # and all scales of experts; that of a layer is no parameter
    expected = sum(p.numel() for p in AutoModelForCausalLM.from_config(few).parameters()) + routers
    assert (told["experts"], told["experts_used"], told["expert_layers"]) == (n, used, sparse)
    assert told["active_parameters"] == expected
    text = smolconv("inspect", path).stdout
    assert f"a token uses {used}" in text and "experts " in text


def test_diff_tells_settings_of_experts_apart(tmp_path):
    make_of(featured("olmoe"), tmp_path)
    left = convert(tmp_path, tmp_path / "a.smol", "f32")
    edit_config(tmp_path, lambda config: config.update(norm_topk_prob=True, num_experts_per_tok=2, clip_qkv=0.5))
    right = convert(tmp_path, tmp_path / "b.smol", "f32")
    told = smolconv("diff", left, right)
    assert told.returncode != 0
    for name in ("experts.n_used", "experts.normalizes", "experts.qkv_clip"):
        assert name in told.stdout
