"""--lora: adapters that PEFT made, merged at conversion, give the weights of PEFT's own merge in float32;
what would not is refused."""

import functools
import json
import os
import shutil
import tempfile
from pathlib import Path

import gguf_files
import numpy as np
import pytest
import torch
from blobs import read_blob, section
from checkpoints import load_reference, make, make_of
from families import cases, configs
from features import EXPERTS, FEATURES, config_of, featured
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, PeftModel, get_peft_model
from programs import assert_fails, smolconv
from safetensors.torch import load_file, save_file
from smol_reader import PROVENANCE
from nests import NESTS, make_nested
from transformers import AutoModelForImageTextToText

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def converted(out, *arguments):
    result = smolconv("--quiet", *arguments, out)
    assert (result.returncode, result.stderr) == (0, "")
    return read_blob(out)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make(tmp_path_factory.mktemp("base"), tie_word_embeddings=False)


def adapt(base, folder, seed=1, dtype=torch.float32, load=load_reference, **settings):
    """An adapter whose every number matters. Returns its folder."""
    config = LoraConfig(task_type="CAUSAL_LM", **settings)
    model = get_peft_model(load(base), config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    model.to(dtype).save_pretrained(folder)
    return folder


def merged(base, adapter, factor=1.0):
    """name: weights, as PEFT merges them, in double: the order of its sums does not count then."""
    model = PeftModel.from_pretrained(load_reference(base).double(), adapter)
    for module in model.modules():
        if hasattr(module, "scale_layer"):
            module.scale_layer(factor)
    return model.merge_and_unload().state_dict()


NAMES = {
    "embed": "model.embed_tokens", "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_o": "self_attn.o_proj",
    "mlp_norm": "post_attention_layernorm", "mlp_gate": "mlp.gate_proj", "mlp_up": "mlp.up_proj",
    "mlp_down": "mlp.down_proj", "final_norm": "model.norm", "output": "lm_head",
}  # fmt: skip


def name_of(role):
    """The checkpoint's name of a blob's tensor."""
    *layer, role = role.rsplit(".", 1)
    return "".join(f"model.{part}." for part in layer) + NAMES[role] + ".weight"


def assert_equal(blob, reference):
    """Allows a rounding or two, because the products of a row are added in another order."""
    for role, tensor in blob.tensors.items():
        due = reference[name_of(role)].numpy()
        assert np.abs(tensor.values() - due).max() <= 4e-7 * np.abs(due).max(), role


ROLES = ("attn_q", "attn_k", "attn_v", "attn_o", "mlp_up", "mlp_down")
CASES = {
    "two modules": dict(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"]),
    "all, by root": dict(r=5, lora_alpha=7, use_rslora=True, target_modules=LINEAR),
    "all-linear": dict(r=4, target_modules="all-linear"),
    "a pattern": dict(r=3, target_modules=r".*\.1\.mlp\.(up|down)_proj"),
    "one layer": dict(r=2, target_modules=LINEAR, layers_to_transform=[1]),
    "full names": dict(r=2, target_modules=["model.layers.0.self_attn.q_proj", "1.mlp.up_proj"]),
    "the output": dict(r=6, lora_alpha=3, target_modules=["lm_head", "o_proj"]),
    "fan_in_fan_out": dict(r=4, fan_in_fan_out=True, target_modules=["k_proj", "down_proj"]),
    "one": dict(r=1, lora_alpha=1, lora_dropout=0.3, target_modules=LINEAR),
    "many": dict(r=200, lora_alpha=100, target_modules=["down_proj", "q_proj"]),
    "patterns": dict(
        r=4, lora_alpha=8, target_modules=LINEAR,
        rank_pattern={"model.layers.1.mlp.up_proj": 7, "q_proj": 2, "^model.layers.0.mlp.up_proj": 9},
        alpha_pattern={"layers.0.self_attn.q_proj": 5, "q_proj": 3, "proj": 100},
    ),
}  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize("case", CASES)
def test_a_merge_is_that_of_peft(tmp_path, base, case):
    adapter = adapt(base, tmp_path / "adapter", **CASES[case])
    blob = converted(tmp_path / "out.smol", "--dtype", "f32", "--lora", adapter, base)
    reference = merged(base, adapter)
    assert_equal(blob, reference)
    plain = load_reference(base).state_dict()
    changed = {name for name in plain if not torch.equal(plain[name], reference[name])}
    assert len(changed) == sum("lora_A" in name for name in load_file(adapter / "adapter_model.safetensors"))


@pytest.mark.sample(2)
@pytest.mark.parametrize("factor", [0.1, -1.5, 1e-3, 3])
def test_a_factor_multiplies_the_adapter(tmp_path, base, factor):
    adapter = adapt(base, tmp_path / "adapter:1", r=4, target_modules=LINEAR)
    blob = converted(tmp_path / "out.smol", "--dtype", "f32", "--lora", f"{adapter}:{factor}", base)
    assert_equal(blob, merged(base, adapter, factor))
    whole = converted(tmp_path / "one.smol", "--dtype", "f32", "--lora", adapter, base)
    assert_equal(whole, merged(base, adapter))


def test_an_adapter_in_the_cache_of_the_hub_is_that_of_its_snapshot(tmp_path, base):
    cache = tmp_path / "models--someone--adapter"
    adapter = adapt(base, cache / "snapshots" / ("1" * 40), r=4, target_modules=LINEAR)
    plain = converted(tmp_path / "plain.smol", "--lora", f"{adapter}:0.5", base)
    assert converted(tmp_path / "out.smol", "--lora", f"{cache}:0.5", base).data == plain.data
    (cache / "refs").mkdir()
    (cache / "refs/main").write_text("2" * 40)
    result = smolconv("--lora", cache, base, tmp_path / "x.smol")
    assert result.returncode == 3 and "no snapshot of refs/main" in result.stderr


def test_an_adapter_of_16_bits_is_widened(tmp_path, base):
    adapter = adapt(base, tmp_path / "adapter", dtype=torch.bfloat16, r=4, target_modules=LINEAR)
    assert {t.dtype for t in load_file(adapter / "adapter_model.safetensors").values()} == {torch.bfloat16}
    blob = converted(tmp_path / "out.smol", "--dtype", "f32", "--lora", adapter, base)
    assert_equal(blob, merged(base, adapter))


@pytest.mark.parametrize("dtype", ["int8", "bf16", "f32"])
def test_the_blob_is_that_of_the_merged_weights(tmp_path, base, dtype):
    """Merged first and then made smaller, for any number of threads."""
    adapter = adapt(base, tmp_path / "adapter", r=4, target_modules=LINEAR)
    exact = converted(tmp_path / "exact.smol", "--dtype", "f32", "--lora", adapter, base)
    folder = Path(shutil.copytree(base, tmp_path / "merged"))
    tensors = {name_of(role): torch.from_numpy(tensor.values().copy()) for role, tensor in exact.tensors.items()}
    save_file(tensors, folder / "model.safetensors")
    due = converted(tmp_path / "due.smol", "--dtype", dtype, folder)
    for threads in (1, 3):
        out = tmp_path / f"{threads}.smol"
        blob = converted(out, "--dtype", dtype, "--threads", threads, "--lora", adapter, base)
        assert blob.data[blob.data_offset :] == due.data[due.data_offset :]


def test_a_blob_is_verified_with_its_adapter(tmp_path, base):
    adapter = adapt(base, tmp_path / "adapter", r=4, target_modules=["q_proj"])
    out = tmp_path / "out.smol"
    converted(out, "--lora", f"{adapter}:0.5", base)
    assert smolconv("verify", "--source", base, "--lora", f"{adapter}:0.5", out).returncode == 0
    for wrong in ([], ["--lora", adapter], ["--lora", f"{adapter}:0.25"]):
        assert smolconv("verify", "--source", base, *wrong, out).returncode == 1
    offset, size = section(out.read_bytes(), PROVENANCE)
    text = out.read_bytes()[offset : offset + size].decode()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        assert f"source: {name}, {(adapter / name).stat().st_size} bytes, " in text
    assert text.endswith("lora: scale 0.5\n")


def test_fused_matrices_get_their_share(tmp_path):
    """Phi-3 keeps q, k and v in one matrix, gate and up in another."""
    base = make_of(featured("phi3"), tmp_path / "base", seed=3)
    targets = ["qkv_proj", "gate_up_proj", "o_proj", "down_proj"]
    adapter = adapt(base, tmp_path / "adapter", r=3, lora_alpha=5, target_modules=targets)
    blob = converted(tmp_path / "out.smol", "--dtype", "f32", "--lora", adapter, base)
    reference = merged(base, adapter)
    for i in range(blob.model["n_layers"]):
        for name, roles in (
            ("self_attn.qkv_proj", ["attn_q", "attn_k", "attn_v"]),
            ("self_attn.o_proj", ["attn_o"]),
            ("mlp.gate_up_proj", ["mlp_gate", "mlp_up"]),
            ("mlp.down_proj", ["mlp_down"]),
        ):
            due = reference[f"model.layers.{i}.{name}.weight"].numpy()
            found = np.concatenate([blob.tensors[f"layers.{i}.{role}"].values() for role in roles])
            assert np.abs(found - due).max() <= 4e-7 * np.abs(due).max(), name


# --- experts and states -----------------------------------------------------------------------------


def checkpoint_of(model, base, folder):
    """A merged model as a checkpoint, in float32."""
    model.float().save_pretrained(folder)
    shutil.copy(base / "tokenizer.json", folder)
    return folder


def assert_merged(base, adapter, tmp_path, load=load_reference, deviations=None):
    """The blob with the adapter is that of PEFT's merge, to a rounding or two. Returns the roles that changed."""
    model = PeftModel.from_pretrained(load(base).double(), adapter).merge_and_unload()
    theirs = converted(tmp_path / "theirs.smol", "--dtype", "f32", checkpoint_of(model, base, tmp_path / "theirs"))
    before = converted(tmp_path / "before.smol", "--dtype", "f32", base)
    ours = converted(tmp_path / "ours.smol", "--dtype", "f32", "--lora", adapter, base)
    changed, most = set(), 0
    assert ours.tensors.keys() == theirs.tensors.keys()
    for role, tensor in ours.tensors.items():
        due = theirs.tensors[role].values()
        deviation = np.abs(tensor.values() - due).max() / np.abs(due).max()
        assert deviation <= 4e-7, role
        most = max(most, deviation)
        if tensor.values().tobytes() != before.tensors[role].values().tobytes():
            changed.add(role)
    if deviations is not None:
        deviations.append(most)
    return changed


LAYERS = {  # what "all-linear" reaches beside q, k, v and o
    "granitemoehybrid": {"mixer_gate", "mixer_in", "mixer_step", "mixer_out", "mlp_gate", "mlp_up", "mlp_down"},
    "lfm2moe": {"mixer_in", "mixer_out", "mlp_gate", "mlp_up", "mlp_down"},
    "qwen3_5moe": {"attn_gate", "mixer_gate", "mixer_in", "mixer_step", "mixer_rate", "mixer_out", "shared_gate", "mlp_up"},
    "granitemoe": set(), "granitemoeshared": {"mlp_gate", "mlp_up", "mlp_down"}, "nanochat": {"mlp_up", "mlp_down"},
}  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("family", LAYERS)
def test_all_linear_matrices_are_merged(family, tmp_path):
    base = make_of(featured(family), tmp_path / "base", 2)
    adapter = adapt(base, tmp_path / "adapter", r=3, lora_alpha=5, target_modules="all-linear")
    changed = {role.rsplit(".", 1)[-1] for role in assert_merged(base, adapter, tmp_path)}
    assert changed >= LAYERS[family] | {"attn_q", "attn_k", "attn_v", "attn_o"} and not changed & {"gate", "up", "down"}


@pytest.mark.slow
def test_groups_of_a_fused_matrix_get_their_share(tmp_path):
    """Qwen3-Next has q, k, v and z of a group below those of the group before."""
    base = make_of(featured("qwen3next"), tmp_path / "base", 2)
    modules = ["in_proj_qkvz", "in_proj_ba", "out_proj", "q_proj", "o_proj"]
    adapter = adapt(base, tmp_path / "adapter", r=3, lora_alpha=5, target_modules=modules)
    changed = {role.rsplit(".", 1)[-1] for role in assert_merged(base, adapter, tmp_path)}
    assert changed == {"mixer_gate", "mixer_in", "mixer_step", "mixer_rate", "mixer_out", "attn_q", "attn_gate", "attn_o"}


def test_matrices_of_layers_that_differ_are_merged(tmp_path):
    """Gemma 4's, with those of the inputs of layers."""
    base = make_of(featured("gemma4"), tmp_path / "base", 2)
    adapter = adapt(base, tmp_path / "adapter", r=3, lora_alpha=5, target_modules="all-linear")
    changed = assert_merged(base, adapter, tmp_path)
    attention, mlp = {f"attn_{part}" for part in "qkvo"}, {f"mlp_{part}" for part in ("gate", "up", "down")}
    assert kinds(changed) == attention | mlp | {"input_projection", "input_gate", "input_out"}
    assert "layers.3.attn_q" in changed and "layers.3.mlp_up" in changed  # which shares keys and values


LATENT = ["q_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
LATENT_ROLES = {"q": {"attn_q"}, "q_a": {"attn_q_down"}, "q_b": {"attn_q"}, "kv_a": {"attn_k"}, "kv_b": {"attn_k_up", "attn_v_up"}, "o": {"attn_o"},
                "gate": {"mlp_gate"}, "up": {"mlp_up"}, "down": {"mlp_down"}}  # fmt: skip


def test_matrices_of_latent_attention_are_merged():
    """Drawn MiniCPM 3s are merged: kv_b_proj holds two matrices of each head, one of which the blob has transposed."""
    deviations = []

    @cases(40 if os.environ.get("SMOL_TEST_ALL") else 2)
    @given(configs("minicpm3"), st.sets(st.sampled_from(LATENT[2:]), max_size=6), st.integers(1, 9), st.integers(0, 99))
    def merge(config, left_out, rank, seed):
        with tempfile.TemporaryDirectory() as folder:
            base = make_of(config, Path(folder) / "base", seed, dtype=("BF16", "F32", "F16")[seed % 3])
            there = [name for name in LATENT if (name == "q_proj") == (config.q_lora_rank is None) or name not in LATENT[:3]]
            targets = sorted({*there} - left_out)
            adapter = adapt(base, Path(folder) / "adapter", seed, r=rank, lora_alpha=5, target_modules=targets)
            changed = assert_merged(base, adapter, Path(folder), deviations=deviations)
        assert kinds(changed) == set().union(*(LATENT_ROLES[name.split("_proj")[0]] for name in targets))

    merge()
    print(f"{len(deviations)} checkpoints, at most {max(deviations):.1e}")


OLD_TARGETS = ["q_proj", "v_proj", "gate", "gate_proj", "up_proj", "down_proj"]


def adapt_each_expert(base, folder, targets, rank=3):
    """An adapter as PEFT made it when each expert was a module (transformers 4), which PEFT still reads."""
    generator = torch.Generator().manual_seed(4)
    weights = {}
    for name, tensor in load_file(base / "model.safetensors").items():
        module = name.removesuffix(".weight")
        if tensor.ndim == 2 and module.rsplit(".", 1)[-1] in targets and ".layers." in module:
            rows, cols = tensor.shape
            for half, shape in (("A", (rank, cols)), ("B", (rows, rank))):
                key = f"base_model.model.{module}.lora_{half}.weight"
                weights[key] = 0.2 * torch.randn(shape, generator=generator)
    folder.mkdir()
    save_file(weights, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = dict(peft_type="LORA", task_type="CAUSAL_LM", r=rank, lora_alpha=5, target_modules=targets, bias="none")
    (folder / "adapter_config.json").write_text(json.dumps(config | {"base_model_name_or_path": str(base)}))
    return folder


@pytest.mark.sample(1)
@pytest.mark.parametrize("family", ["qwen3moe", "olmoe"])
def test_modules_of_single_experts_are_merged(family, tmp_path):
    base = make_of(
        config_of(family, **FEATURES[family][0] | ({"mlp_only_layers": []} if family == "qwen3moe" else {})), tmp_path / "base", 2
    )
    adapter = adapt_each_expert(base, tmp_path / "adapter", OLD_TARGETS)
    changed = assert_merged(base, adapter, tmp_path)
    n = load_reference(base).config.num_experts
    assert {f"layers.1.experts.{i}.{part}" for i in range(n) for part in ("gate", "up", "down")} <= changed
    assert {role.rsplit(".", 1)[-1] for role in changed} == {"attn_q", "attn_v", "router", "gate", "up", "down"}


def test_experts_that_a_file_stacks_get_their_modules(tmp_path):
    """An adapter fits a checkpoint whose experts are in one tensor too, as transformers 5 holds them."""
    base = make_of(config_of("olmoe", num_experts=5, num_experts_per_tok=2), tmp_path / "base", 2)
    adapter = adapt_each_expert(base, tmp_path / "adapter", OLD_TARGETS)
    stacked = shutil.copytree(base, tmp_path / "stacked")
    weights = load_file(base / "model.safetensors")
    for layer in range(2):
        prefix = f"model.layers.{layer}.mlp.experts."
        gate, up, down = ([weights.pop(f"{prefix}{i}.{part}_proj.weight") for i in range(5)] for part in ("gate", "up", "down"))
        weights[prefix + "gate_up_proj"] = torch.stack([torch.cat(pair) for pair in zip(gate, up, strict=True)])
        weights[prefix + "down_proj"] = torch.stack(down)
    save_file(weights, stacked / "model.safetensors", metadata={"format": "pt"})
    a, b = (
        converted(tmp_path / f"{i}.smol", "--dtype", "int8", "--lora", adapter, folder) for i, folder in enumerate((base, stacked))
    )
    for role, tensor in a.tensors.items():
        assert tensor.values().tobytes() == b.tensors[role].values().tobytes(), role


def test_an_adapter_of_experts_applies_to_a_gguf_file(tmp_path):
    base = make_of(config_of("olmoe", num_experts=5, num_experts_per_tok=2), tmp_path / "base", 2)
    adapter = adapt_each_expert(base, tmp_path / "adapter", OLD_TARGETS)
    sources = (gguf_files.write(tmp_path / "x.gguf", base), base)
    a, b = (converted(tmp_path / f"{i}.smol", "--dtype", "f32", "--lora", adapter, source) for i, source in enumerate(sources))
    for role, tensor in a.tensors.items():
        assert tensor.values().tobytes() == b.tensors[role].values().tobytes(), role


# --- stacks of experts: PEFT's target_parameters, of transformers 5 ------------------------------------

STACKS = ["experts.gate_up_proj", "experts.down_proj"]
ROUTERS = {"granitemoe": "router.weight", "granitemoeshared": "router.weight", "granitemoehybrid": "router.weight", "granitemoeswa": "router.weight", "gemma4moe": "router.proj.weight"}
EXPERT_ROLES = {"gate", "up", "down"}


def kinds(changed):
    return {role.rsplit(".", 1)[-1] for role in changed}


def of_experts(roles):
    return {role for role in roles if ".experts." in role}


@pytest.mark.sample(2)
@pytest.mark.parametrize("family", [family for family in EXPERTS if family != "nemotronh"])  # whose experts have no gate
def test_stacks_of_experts_are_merged(family, tmp_path):
    """Ranks and scales differ, and the router and other modules are adapted too."""
    base = make_of(featured(family), tmp_path / "base", 2)
    router = ROUTERS.get(family, "gate.weight")
    adapter = adapt(
        base, tmp_path / "adapter", r=3, lora_alpha=5, target_modules=["q_proj", "v_proj"], target_parameters=[*STACKS, router],
        rank_pattern={"experts.gate_up_proj": 2}, alpha_pattern={"down_proj": 7, "1.q_proj": 4},
    )  # fmt: skip
    changed = assert_merged(base, adapter, tmp_path)
    assert of_experts(changed) == of_experts(read_blob(tmp_path / "ours.smol").tensors)
    assert kinds(changed) - {"attn_gate"} == EXPERT_ROLES | {"router", "attn_q", "attn_v"}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("names", "due"),
    [
        (["mlp.experts.gate_up_proj"], {"gate", "up"}),
        (["experts.down_proj"], {"down"}),
        (["model.layers.0.mlp.experts.gate_up_proj", "1.mlp.experts.down_proj"], {"0 gate", "0 up", "1 down"}),
        (["0.mlp.experts.gate_up_proj", "down_proj"], {"0 gate", "0 up", "down"}),
        (["gate_up_proj", "down_proj", "1.mlp.gate.weight"], {"gate", "up", "down", "1 router"}),
    ],
)
def test_some_stacks_are_merged(names, due, tmp_path):
    """The stacks of a layer share a name in the file, which depends on the other targets."""
    base = make_of(config_of("olmoe", num_experts=5, num_experts_per_tok=2), tmp_path / "base", 2)
    adapter = adapt(base, tmp_path / "adapter", r=3, use_rslora=True, target_parameters=names)
    changed = {(role.split(".")[1], role.rsplit(".", 1)[-1]) for role in assert_merged(base, adapter, tmp_path)}
    assert changed == {(i, part.split()[-1]) for part in due for i in (part.split()[0] if " " in part else "01")}


@pytest.mark.sample(1)
@pytest.mark.parametrize("settings", [dict(num_experts=1), dict(num_experts=4, intermediate_size=24)])
def test_one_expert_and_square_stacks_are_merged(settings, tmp_path):
    """Here shapes do not tell inputs from outputs."""
    base = make_of(config_of("olmoe", num_experts_per_tok=1, **settings), tmp_path / "base", 2)
    adapter = adapt(base, tmp_path / "adapter", r=2, target_parameters=STACKS)
    assert kinds(assert_merged(base, adapter, tmp_path)) == EXPERT_ROLES


MODULES = ["q_proj", "gate", "gate_proj", "up_proj", "down_proj"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("family", ["olmoe", "qwen3moe", "qwen3next"])
def test_modules_that_peft_turns_into_stacks_are_merged(family, tmp_path):
    """PEFT itself writes target_parameters and patterns of twice the rank, for the two halves of gate_up_proj."""
    base = make_of(config_of(family, **FEATURES[family][0] | {"mlp_only_layers": []}), tmp_path / "base", 2)
    adapter = adapt(base, tmp_path / "adapter", r=2, lora_alpha=3, target_modules=MODULES)
    settings = json.loads((adapter / "adapter_config.json").read_text())
    assert set(settings["target_parameters"]) == {"gate_up_proj", "down_proj", "gate.weight"}
    assert settings["rank_pattern"] == {r".*\.gate_up_proj": 4}
    assert kinds(assert_merged(base, adapter, tmp_path)) >= EXPERT_ROLES | {"router", "attn_q"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("family", ["qwen3_5moe", "gemma3", "gemma4", "smolvlm"])
def test_adapters_of_models_that_read_pictures_are_merged(family, tmp_path):
    """Their names, and those in their settings, have the language model's place."""
    base = tmp_path / "base"
    make_nested(featured(NESTS[family].family), family, base)
    settings = {
        "gemma4": dict(target_modules=r"model\.language_model\..*(o_proj|per_layer_model_projection|per_layer_input_gate)"),
        "smolvlm": dict(target_modules=r".*text_model.*\.[qo]_proj"),
        "qwen3_5moe": dict(target_modules=r".*language_model.*\.[qo]_proj", target_parameters=STACKS, alpha_pattern={"experts.down_proj": 2}),
        "gemma3": dict(
            target_modules=["model.language_model.layers.0.self_attn.q_proj", "language_model.layers.1.mlp.up_proj"],
            rank_pattern={"^model.language_model.layers.0.self_attn.q_proj": 5}, alpha_pattern={"language_model.layers.1.mlp.up_proj": 9},
        ),
    }[family]  # fmt: skip
    load = functools.partial(AutoModelForImageTextToText.from_pretrained, dtype=torch.float32)
    changed = assert_merged(base, adapt(base, tmp_path / "adapter", load=load, r=3, **settings), tmp_path, load)
    if family == "gemma3":
        assert changed == {"layers.0.attn_q", "layers.1.mlp_up"}
    elif family == "gemma4":
        assert kinds(changed) == {"attn_o", "input_projection", "input_gate"}
    elif family == "smolvlm":
        assert changed == {f"layers.{i}.attn_{role}" for i in (0, 1) for role in "qo"}
    else:
        assert kinds(changed) == EXPERT_ROLES | {"attn_q", "attn_gate", "attn_o"}


def separate_experts(weights):
    """Gives each expert tensors of its own, as published."""
    for name in [name for name in weights if name.endswith(STACKS[0])]:
        gate_up, prefix = weights.pop(name), name.removesuffix("gate_up_proj")
        down = weights.pop(prefix + "down_proj")
        for i in range(len(down)):
            gate, up = gate_up[i].chunk(2)
            parts = {"gate_proj": gate, "up_proj": up, "down_proj": down[i]}
            weights |= {f"{prefix}{i}.{part}.weight": tensor.clone() for part, tensor in parts.items()}


def publish_granite(weights):
    names = {
        "experts.gate_up_proj": "input_linear.weight", "experts.down_proj": "output_linear.weight", "router.weight": "router.layer.weight",
    }  # fmt: skip
    for end, published in names.items():
        for name in [name for name in weights if name.endswith("block_sparse_moe." + end)]:
            weights[name.removesuffix(end) + published] = weights.pop(name)


@pytest.mark.sample(1)
@pytest.mark.parametrize("family", ["olmoe", "granitemoe"])
def test_stacks_are_found_in_every_form_of_a_checkpoint(family, tmp_path):
    """Experts together or apart, under transformers' names or published ones, or in a GGUF file."""
    count = {"olmoe": "num_experts", "granitemoe": "num_local_experts"}[family]
    base = make_of(config_of(family, **{count: 5, "num_experts_per_tok": 2}), tmp_path / "base", 2)
    router = ROUTERS.get(family, "gate.weight")
    adapter = adapt(base, tmp_path / "adapter", r=3, target_parameters=[*STACKS, router])
    forms = [base, gguf_files.write(tmp_path / "x.gguf", base)]
    weights = load_file(base / "model.safetensors")
    for name in list(weights):  # the form in which transformers saves them may change
        if ".experts.0.gate_proj" in name:
            prefix = name.removesuffix("0.gate_proj.weight")
            parts = [[weights.pop(f"{prefix}{i}.{part}_proj.weight") for i in range(5)] for part in ("gate", "up", "down")]
            weights[prefix + "gate_up_proj"] = torch.stack([torch.cat(pair) for pair in zip(*parts[:2], strict=True)])
            weights[prefix + "down_proj"] = torch.stack(parts[2])
        elif name.endswith(("input_linear.weight", "output_linear.weight")) and "block_sparse_moe" in name:
            part = "gate_up_proj" if "input" in name else "down_proj"
            weights[name.rsplit(".", 2)[0] + ".experts." + part] = weights.pop(name)
        elif name.endswith("router.layer.weight"):
            weights[name.replace("router.layer", "router")] = weights.pop(name)
    for i, change in enumerate([lambda w: None, separate_experts if family == "olmoe" else publish_granite]):
        folder = shutil.copytree(base, tmp_path / f"form {i}")
        changed = dict(weights)
        change(changed)
        save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})
        forms.append(folder)
    blobs = [converted(tmp_path / f"{i}.smol", "--dtype", "f32", "--lora", f"{adapter}:0.5", form) for i, form in enumerate(forms)]
    plain = converted(tmp_path / "plain.smol", "--dtype", "f32", base)
    for role, tensor in blobs[0].tensors.items():
        values = tensor.values().tobytes()
        assert (values != plain.tensors[role].values().tobytes()) == (kinds([role]) <= EXPERT_ROLES | {"router"}), role
        for blob in blobs[1:]:
            assert blob.tensors[role].values().tobytes() == values, role


@pytest.fixture(scope="module")
def olmoe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stacks")
    base = make_of(config_of("olmoe", num_experts=5, num_experts_per_tok=2), folder / "base", 2)
    return base, adapt(base, folder / "adapter", r=3, target_modules=["q_proj"], target_parameters=[*STACKS, "gate.weight"])


EXPERTS_0 = "base_model.model.model.layers.0.mlp.experts."
OUTER, INNER = (EXPERTS_0 + end for end in ("lora_A.weight", "base_layer.lora_A.weight"))
LATER = EXPERTS_0.replace(".0.", ".1.")


def moved(tensors, old, new):
    for name in [name for name in tensors if name.startswith(old)]:
        tensors[new + name.removeprefix(old)] = tensors.pop(name)


@pytest.mark.parametrize(
    ("settings", "edit", "status", "parts"),
    [
        ({"target_parameters": "gate_up_proj"}, None, 4, ["target_parameters must be a list"]),
        ({"target_parameters": None}, None, 4, ["target_modules does not list model.layers.0.mlp.gate"]),
        ({"target_parameters": ["gate.weight"]}, None, 5, [EXPERTS_0, "changes no matrix that this model has"]),
        ({"target_parameters": [*STACKS]}, None, 4, ["target_modules does not list model.layers.0.mlp.gate"]),
        ({"target_parameters": [STACKS[0], "gate.weight"]}, None, 4, ["experts.lora_A", "[15, 48]"]),
        ({"target_parameters": [*STACKS, "gate.weight", "q_proj.weight"]}, None, 5, ["q_proj.weight", "neither a router nor experts"]),
        ({"peft_version": "0.18.1"}, None, 4, ["experts.base_layer.lora_A", "[15, 80]"]),
        ({"peft_version": "0.19.0"}, None, 4, ["experts.base_layer.lora_A"]),
        ({"peft_version": None}, None, 4, ["experts.base_layer.lora_A"]),
        ({"peft_version": 19}, None, 4, ["peft_version"]),
        ({"rank_pattern": {"gate_up_proj": 2}}, None, 4, ["the rank of model.layers.0.mlp.experts.gate_up_proj is 2 here, but 3"]),
        ({"rank_pattern": {r".*\.down_proj": 4}}, None, 4, ["the rank of model.layers.0.mlp.experts.down_proj is 4 here, but 3"]),
        ({"rank_pattern": {r".*\.(up|down)_proj": 3}}, None, 5, ["rank_pattern"]),
        ({}, lambda t: t.pop(INNER), 4, ["experts.base_layer has only one of lora_A and lora_B"]),
        ({}, lambda t: t.pop(OUTER.replace("_A", "_B")), 4, ["layers.0.mlp.experts has only one of lora_A and lora_B"]),
        ({}, lambda t: t.update({OUTER: t[OUTER][:-1].clone()}), 4, ["experts.lora_A", "[10, 40]"]),
        ({}, lambda t: t.update({OUTER: t[OUTER][:4].clone()}), 4, ["experts.lora_A", "[0, 40]"]),
        ({}, lambda t: t.update({INNER: t[INNER][:, :-1].clone()}), 4, ["base_layer.lora_A", "[15, 48]"]),
        ({}, lambda t: t.update({INNER: t[INNER].to(torch.int64)}), 5, ["base_layer.lora_A", "I64"]),
        ({}, lambda t: t.update({INNER: t[INNER][None].clone()}), 4, ["base_layer.lora_A"]),
        ({}, lambda t: t[OUTER].__setitem__((2, 5), float("nan")), 4, ["layers.0.mlp.experts.0.down_proj", "(nan)", "adapter"]),
        ({}, lambda t: [t.pop(name) for name in list(t) if name.startswith(LATER)], 4,
         ["model.layers.1.mlp.experts.gate_up_proj, for which there are no tensors"]),
        ({}, lambda t: [t.pop(name) for name in list(t) if "layers.1.mlp.gate." in name], 4,
         ["model.layers.1.mlp.gate.weight, for which there are no tensors"]),
        ({}, lambda t: moved(t, LATER + "base_layer.", LATER + "base_layer.base_layer."), 4, ["layers.1.mlp.experts.gate_up_proj"]),
        ({}, lambda t: moved(t, EXPERTS_0, EXPERTS_0.replace(".0.", ".2.")), 4, ["layers.0.mlp.experts.gate_up_proj"]),
        ({}, lambda t: t.update({EXPERTS_0.replace(".0.", ".2.") + "lora_A.weight": t[OUTER].clone()}), 5, [".2.", "no matrix"]),
        ({}, lambda t: t.update({f"{EXPERTS_0}3.up_proj.lora_{half}.weight": torch.ones(shape)
                                 for half, shape in (("A", (3, 48)), ("B", (40, 3)))}), 4,
         ["target_modules does not list model.layers.0.mlp.experts.3.up_proj"]),
        ({"target_modules": ["q_proj", "up_proj"]},
         lambda t: t.update({f"{EXPERTS_0}3.up_proj.lora_{half}.weight": torch.ones(shape)
                             for half, shape in (("A", (3, 48)), ("B", (40, 3)))}), 4,
         ["changes model.layers.0.mlp.experts.3.up_proj.weight twice"]),
    ],
)  # fmt: skip
def test_stacks_that_do_not_fit_are_refused(tmp_path, olmoe, settings, edit, status, parts):
    base, original = olmoe
    adapter = Path(shutil.copytree(original, tmp_path / "adapter"))
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    if edit:
        tensors = load_file(adapter / "adapter_model.safetensors")
        edit(tensors)
        save_file(tensors, adapter / "adapter_model.safetensors")
    refuses(tmp_path, base, adapter, status, *parts)


def age(adapter, folder, n_experts, version):
    """Rewrites an adapter as PEFT before 0.19.1 wrote it, which took a stack's outputs for its inputs: the halves of a stack
    change places, (outputs, rank, experts) becomes (experts, rank, outputs). Before 0.18 there was no version."""
    shutil.copytree(adapter, folder)
    tensors = load_file(adapter / "adapter_model.safetensors")
    for name in [name for name in tensors if ".experts." in name and name.endswith("lora_A.weight")]:
        a, b = tensors[name], tensors[name.replace("lora_A", "lora_B")]
        turned = a.reshape(n_experts, -1, a.shape[1]).permute(2, 1, 0).reshape(a.shape[1], -1)
        tensors[name] = b.reshape(b.shape[0], -1, n_experts).permute(2, 1, 0).reshape(-1, b.shape[0]).contiguous()
        tensors[name.replace("lora_A", "lora_B")] = turned.contiguous()
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = json.loads((folder / "adapter_config.json").read_text()) | {"peft_version": version}
    if version is None:
        del settings["peft_version"]
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize("version", ["0.18.1", "0.19.0", None])
def test_stacks_of_old_versions_are_merged(version, tmp_path, olmoe):
    """They equal the same change in today's layout, which is compared with PEFT's own merge."""
    base, adapter = olmoe
    old = age(adapter, tmp_path / "old", 5, version)
    blobs = [converted(tmp_path / f"{i}.smol", "--dtype", "f32", "--lora", lora, base) for i, lora in enumerate((adapter, old))]
    plain = converted(tmp_path / "plain.smol", "--dtype", "f32", base)
    for role, tensor in blobs[0].tensors.items():
        values = tensor.values().tobytes()
        assert blobs[1].tensors[role].values().tobytes() == values
        assert ".experts." not in role or plain.tensors[role].values().tobytes() != values


def test_stacks_without_a_version_must_tell_it_by_their_shape(tmp_path):
    """Here the downs have as many inputs as outputs."""
    base = make_of(config_of("olmoe", num_experts=4, num_experts_per_tok=1, intermediate_size=48), tmp_path / "base", 2)
    adapter = adapt(base, tmp_path / "adapter", r=2, target_parameters=STACKS)
    refuses(tmp_path, base, age(adapter, tmp_path / "none", 4, None), 5, "layers.0.mlp.experts.down_proj", "no peft_version")
    due = converted(tmp_path / "due.smol", "--dtype", "f32", "--lora", adapter, base)
    old = converted(tmp_path / "old.smol", "--dtype", "f32", "--lora", age(adapter, tmp_path / "old", 4, "0.18.0"), base)
    assert all(old.tensors[role].values().tobytes() == tensor.values().tobytes() for role, tensor in due.tensors.items())


@pytest.mark.parametrize("family", ["gptneox", "gpt2"])
def test_matrices_in_another_order_get_their_share(family, tmp_path):
    """One family's tensor has the heads of q, k and v in turn, the other's tensors are transposed."""
    base = make_of(featured(family), tmp_path / "base", seed=3)
    settings = {
        "gptneox": dict(target_modules=["query_key_value", "dense", "dense_4h_to_h"]),
        "gpt2": dict(target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True),
    }[family]
    adapter = adapt(base, tmp_path / "adapter", r=3, lora_alpha=5, **settings)
    blob = converted(tmp_path / "out.smol", "--dtype", "f32", "--lora", adapter, base)
    reference = {name: value.numpy() for name, value in merged(base, adapter).items()}
    n, heads = blob.model["hidden_size"], blob.model["n_heads"]
    for i in range(blob.model["n_layers"]):
        found = {role: blob.tensors[f"layers.{i}.{role}"].values() for role in ROLES}
        if family == "gpt2":
            of = f"transformer.h.{i}."
            qkv = reference[of + "attn.c_attn.weight"].T.reshape(3, n, n)
            names = ("attn.c_proj", "mlp.c_fc", "mlp.c_proj")
            others = [reference[f"{of}{name}.weight"].T for name in names]
        else:
            of = f"gpt_neox.layers.{i}."
            qkv = reference[of + "attention.query_key_value.weight"].reshape(heads, 3, -1, n)
            qkv = qkv.swapaxes(0, 1).reshape(3, n, n)
            names = ("attention.dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h")
            others = [reference[f"{of}{name}.weight"] for name in names]
        for role, due in zip(ROLES, [*qkv, *others], strict=True):
            assert np.abs(found[role] - due).max() <= 4e-7 * np.abs(due).max(), role


@pytest.mark.parametrize(("family", "target"), [("gpt2", "c_attn"), ("gptneox", "dense_4h_to_h")])
def test_layers_to_transform_are_found_by_their_number(family, target, tmp_path):
    """Whatever the layers are called: PEFT takes the first number after two parts of a name."""
    base = make_of(featured(family), tmp_path / "base", seed=3)
    adapter = adapt(base, tmp_path / "adapter", r=2, target_modules=[target], fan_in_fan_out=family == "gpt2", layers_to_transform=[0])
    reference, plain = merged(base, adapter), load_reference(base).state_dict()
    changed = [name for name in plain if not torch.equal(plain[name], reference[name])]
    assert len(changed) == 1
    blobs = [converted(tmp_path / f"{i}.smol", "--dtype", "f32", *words, base) for i, words in enumerate([[], ["--lora", adapter]])]
    before, after = ({role: tensor.values() for role, tensor in blob.tensors.items()} for blob in blobs)
    roles = [role for role in before if before[role].tobytes() != after[role].tobytes()]
    assert roles == [f"layers.0.{role}" for role in (["attn_q", "attn_k", "attn_v"] if family == "gpt2" else ["mlp_down"])]
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "layers_to_transform": [1]}))
    refuses(tmp_path, base, adapter, 4, "layers_to_transform leaves out", ".0.")


# --- refusing -------------------------------------------------------------------------------------


@pytest.fixture()
def adapter(tmp_path, base):
    return adapt(base, tmp_path / "adapter", r=4, target_modules=["q_proj", "up_proj"])


def refuses(tmp_path, base, adapter, status, *parts):
    out = tmp_path / "refused.smol"
    assert_fails(smolconv("--lora", adapter, base, out), status, *parts)
    assert not out.exists()


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("settings", "status", "part"),
    [
        (dict(use_dora=True), 5, "use_dora"),
        (dict(bias="all"), 5, "bias"),
        (dict(lora_bias=True), 5, "lora_bias"),
        (dict(peft_type="LOHA"), 5, "peft_type"),
        (dict(init_lora_weights="pissa"), 5, "init_lora_weights"),
        (dict(modules_to_save=["lm_head"]), 5, "modules_to_save"),
        (dict(layer_replication=[[0, 1]]), 5, "layer_replication"),
        (dict(trainable_token_indices=[1]), 5, "trainable_token_indices"),
        (dict(something_new=1), 5, "something_new"),
        (dict(rank_pattern={"q_proj.*": 4}), 5, "rank_pattern"),
        (dict(alpha_pattern={"layers.[01].q_proj": 4}), 5, "alpha_pattern"),
        (dict(rank_pattern={"q_proj": 5}), 4, "the rank of model.layers.0.self_attn.q_proj is 5"),
        (dict(rank_pattern={"q_proj": "4"}), 4, "rank_pattern"),
        (dict(target_modules=5), 4, "target_modules"),
        (dict(layers_to_transform=[1]), 4, "layers_to_transform leaves out model.layers.0"),
        (dict(layers_to_transform="1"), 4, "layers_to_transform"),
        (dict(layers_pattern="h"), 5, "layers_pattern"),
        (dict(exclude_modules=["q_proj"]), 4, "exclude_modules lists model.layers.0"),
        (dict(exclude_modules=".*q_proj"), 5, "exclude_modules"),
        (dict(alpha_pattern={"q_proj": "4"}), 4, "alpha_pattern"),
        (dict(rank_pattern=[4]), 4, "rank_pattern"),
        (dict(r=3), 4, "is 3 here, but 4 in its tensors"),
        (dict(r=0), 4, "r must be an integer from 1 to 1048576, found 0"),
        (dict(r="4"), 4, 'r must be an integer from 1 to 1048576, found "4"'),
        (dict(lora_alpha="4"), 4, "lora_alpha"),
        (dict(target_modules=["q_proj"]), 4, "target_modules does not list model.layers.0.mlp.up_proj"),
    ],
)
def test_settings_that_change_the_result_are_refused(tmp_path, base, adapter, settings, status, part):
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
    refuses(tmp_path, base, adapter, status, "adapter_config.json: ", part)


A = "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight"
B = A.replace("lora_A", "lora_B")


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("edit", "status", "parts"),
    [
        (lambda t: t.clear(), 4, ["would change nothing"]),
        (lambda t: t.pop(A), 4, ["layers.0.mlp.up_proj", "only one of lora_A and lora_B"]),
        (lambda t: t.update({A: t[A][:, :-1].clone()}), 4, [A, "[4, 64]"]),
        (lambda t: t.update({B: t[B][:-1].clone()}), 4, [B, "[96, 4]"]),
        (lambda t: t.update({A: t[A][0].clone()}), 4, [A]),
        (lambda t: t.update({A: t[A].to(torch.int32)}), 5, [A, "I32"]),
        (lambda t: t.update({A.replace(".0.", ".7."): t[A].clone()}), 5, [".7.", "no matrix"]),
        (lambda t: t.update({A.replace("lora_A.weight", "lora_magnitude_vector"): t[A][0].clone()}),
         5, ["lora_magnitude_vector"]),
        (lambda t: t.update({"base_model.model.lm_head.weight": torch.zeros(101, 64)}), 5, ["lm_head.weight"]),
        (lambda t: t[A].__setitem__((2, 5), float("nan")), 4, ["layers.0.mlp.up_proj", "(nan)", "adapter"]),
    ],
)  # fmt: skip
def test_tensors_that_do_not_fit_are_refused(tmp_path, base, adapter, edit, status, parts):
    path = adapter / "adapter_model.safetensors"
    tensors = load_file(path)
    edit(tensors)
    save_file(tensors, path)
    refuses(tmp_path, base, adapter, status, *parts)


def test_an_adapter_of_the_embedding_or_of_a_tied_output_is_refused(tmp_path, base):
    embedding = adapt(base, tmp_path / "embedding", r=2, target_modules=["embed_tokens"])
    refuses(tmp_path, base, embedding, 5, "embed_tokens")
    tied = make(tmp_path / "tied")
    output = adapt(tied, tmp_path / "output", r=2, target_modules=["lm_head"])
    refuses(tmp_path, tied, output, 5, "lm_head", "tied")


def test_the_copy_of_the_output_must_be_the_checkpoints(tmp_path, base):
    """PEFT saves it where the output is a target; what it restores on loading must be the base."""
    adapter = adapt(base, tmp_path / "output", r=2, target_modules=["lm_head"])
    path = adapter / "adapter_model.safetensors"
    tensors = load_file(path)
    tensors["base_model.model.lm_head.base_layer.weight"][7, 3] += 1
    save_file(tensors, path)
    refuses(tmp_path, base, adapter, 5, "lm_head.base_layer.weight differs from the checkpoint's")


def test_an_adapter_that_is_none_is_refused(tmp_path, base, adapter):
    refuses(tmp_path, base, tmp_path / "none", 3, "none/adapter_config.json")
    refuses(tmp_path, base, f"{adapter}:two", 3, "adapter:two")
    assert_fails(
        smolconv("--lora", adapter, "--lora", adapter, base, tmp_path / "o"), 2, "--lora: 2 adapters, but only one can be merged"
    )
    path = adapter / "adapter_model.safetensors"
    content = path.read_bytes()
    for output in (path, adapter / "adapter_config.json"):
        assert_fails(smolconv("--force", "--lora", adapter, base, output), 2, "a file of the input")
    assert path.read_bytes() == content
    path.write_bytes(content[:-1])
    refuses(tmp_path, base, adapter, 4, "adapter_model.safetensors: truncated")
    path.unlink()
    refuses(tmp_path, base, adapter, 3, "adapter_model.safetensors")
