"""--lora: adapters that PEFT made, merged at conversion, give the weights of PEFT's own merge in float32;
what would not is refused."""

import json
import shutil
from pathlib import Path

import gguf_files
import numpy as np
import pytest
import torch
from blobs import read_blob, section
from checkpoints import load_reference, make, make_of
from features import FEATURES, config_of, featured
from internal import UNSUPPORTED
from peft import LoraConfig, PeftModel, get_peft_model
from programs import assert_fails, smolconv
from safetensors.torch import load_file, save_file
from smol_reader import PROVENANCE

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def converted(out, *arguments):
    result = smolconv("--quiet", *arguments, out)
    assert (result.returncode, result.stderr) == (0, "")
    return read_blob(out)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make(tmp_path_factory.mktemp("base"), tie_word_embeddings=False)


def adapt(base, folder, seed=1, dtype=torch.float32, **settings):
    """An adapter whose every number matters. Returns its folder."""
    config = LoraConfig(task_type="CAUSAL_LM", **settings)
    model = get_peft_model(load_reference(base), config)
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
    """To a rounding or two: the products of a row are added in another order."""
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


@pytest.mark.parametrize("case", CASES)
def test_a_merge_is_that_of_peft(tmp_path, base, case):
    adapter = adapt(base, tmp_path / "adapter", **CASES[case])
    blob = converted(tmp_path / "out.smol", "--dtype", "f32", "--lora", adapter, base)
    reference = merged(base, adapter)
    assert_equal(blob, reference)
    plain = load_reference(base).state_dict()
    changed = {name for name in plain if not torch.equal(plain[name], reference[name])}
    assert len(changed) == sum("lora_A" in name for name in load_file(adapter / "adapter_model.safetensors"))


@pytest.mark.parametrize("factor", [0.1, -1.5, 1e-3, 3])
def test_a_factor_multiplies_the_adapter(tmp_path, base, factor):
    adapter = adapt(base, tmp_path / "adapter:1", r=4, target_modules=LINEAR)
    blob = converted(tmp_path / "out.smol", "--dtype", "f32", "--lora", f"{adapter}:{factor}", base)
    assert_equal(blob, merged(base, adapter, factor))
    whole = converted(tmp_path / "one.smol", "--dtype", "f32", "--lora", adapter, base)
    assert_equal(whole, merged(base, adapter))


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


def assert_merged(base, adapter, tmp_path):
    """The blob with the adapter is that of PEFT's merge, to a rounding or two. Returns the roles that changed."""
    model = PeftModel.from_pretrained(load_reference(base).double(), adapter).merge_and_unload()
    theirs = converted(tmp_path / "theirs.smol", "--dtype", "f32", checkpoint_of(model, base, tmp_path / "theirs"))
    before = converted(tmp_path / "before.smol", "--dtype", "f32", base)
    ours = converted(tmp_path / "ours.smol", "--dtype", "f32", "--lora", adapter, base)
    changed = set()
    assert ours.tensors.keys() == theirs.tensors.keys()
    for role, tensor in ours.tensors.items():
        due = theirs.tensors[role].values()
        assert np.abs(tensor.values() - due).max() <= 4e-7 * np.abs(due).max(), role
        if tensor.values().tobytes() != before.tensors[role].values().tobytes():
            changed.add(role)
    return changed


LAYERS = {  # what "all-linear" reaches beside q, k, v and o
    "granitemoehybrid": {"mixer_gate", "mixer_in", "mixer_step", "mixer_out", "mlp_gate", "mlp_up", "mlp_down"},
    "lfm2moe": {"mixer_in", "mixer_out", "mlp_gate", "mlp_up", "mlp_down"},
    "qwen3_5moe": {"attn_gate", "mixer_gate", "mixer_in", "mixer_step", "mixer_rate", "mixer_out", "shared_gate", "mlp_up"},
    "granitemoe": set(), "granitemoeshared": {"mlp_gate", "mlp_up", "mlp_down"},
}  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("family", LAYERS)
def test_what_stands_beside_experts_is_merged(family, tmp_path):
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
    """The same adapter and checkpoint, whose experts are in one tensor, as transformers 5 holds them."""
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


def test_adapters_of_stacked_experts_are_refused_by_name(tmp_path):
    """PEFT's target_parameters, of transformers 5."""
    base = make_of(config_of("olmoe", num_experts=5, num_experts_per_tok=2), tmp_path / "base", 2)
    names = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
    adapter = adapt(base, tmp_path / "adapter", r=3, target_modules=["q_proj"], target_parameters=names)
    assert_fails(smolconv("--lora", adapter, base, tmp_path / "x.smol"), UNSUPPORTED, "target_parameters", "merge the adapter with PEFT")
    config = json.loads((adapter / "adapter_config.json").read_text()) | {"target_parameters": None}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    tensor = "model.layers.0.mlp.experts.base_layer.lora_A.weight"
    assert_fails(smolconv("--lora", adapter, base, tmp_path / "x.smol"), UNSUPPORTED, tensor)


@pytest.mark.parametrize("family", ["gptneox", "gpt2"])
def test_matrices_in_another_order_get_their_share(family, tmp_path):
    """Of a tensor with the heads of q, k and v in turn, and of transposed ones."""
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


# --- refusing -------------------------------------------------------------------------------------


@pytest.fixture()
def adapter(tmp_path, base):
    return adapt(base, tmp_path / "adapter", r=4, target_modules=["q_proj", "up_proj"])


def refuses(tmp_path, base, adapter, status, *parts):
    out = tmp_path / "refused.smol"
    assert_fails(smolconv("--lora", adapter, base, out), status, *parts)
    assert not out.exists()


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
    assert_fails(smolconv("--force", "--lora", adapter, base, path), 2, "the checkpoint itself")
    assert path.read_bytes() == content
    path.write_bytes(content[:-1])
    refuses(tmp_path, base, adapter, 4, "adapter_model.safetensors: truncated")
    path.unlink()
    refuses(tmp_path, base, adapter, 3, "adapter_model.safetensors")
