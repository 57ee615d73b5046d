"""smolconv inspect --stats and --json: statistics against PyTorch in float64, int8's error against
FORMAT.md's formulas, and the object's shape, which docs/inspect.md tells."""
import json
import math
import re
import shutil

import engine
import numpy as np
import pytest
import test_roberta
import torch
from blobs import edited, spoiled
from checkpoints import make, make_of
from features import featured
from internal import ROOT, USAGE
from programs import assert_fails, limited, smolconv
from safetensors.torch import load_file, save_file
from test_embedder import write_modules
from test_format import quantize
from test_rerank import make_bert

pytestmark = pytest.mark.quick

DEMO = ROOT / "demo/model"
SHAPES = [(), (1,), (7,), (1, 1), (3, 1025), (70, 33), (1, 2500), (2000, 3), (2, 3, 50), (0,), (5, 0)]
NUMBERS = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "I32": torch.int32,
    "U32": torch.uint32, "I16": torch.int16, "U16": torch.uint16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip
OTHERS = {"I64": torch.int64, "C64": torch.complex64, "F8_E4M3FNUZ": torch.float8_e4m3fnuz}
QUANTIZED = {"F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"}


def described(*arguments):
    result = smolconv("inspect", "--json", *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(result.stdout)


def statistics(*arguments):
    """name: statistics."""
    return {t["name"]: t["statistics"] for t in described("--stats", *arguments)["tensors"]}


def assert_close(found, due, scale):
    """`found`, null where there is no finite number."""
    if not math.isfinite(due):
        assert found is None
    else:
        assert abs(found - due) <= 1e-11 * scale + 1e-300, (found, due)


def assert_moments(found, tensor):
    x = tensor.double().flatten()
    x = x[x.isfinite()]
    n, nan = len(x), float("nan")
    assert_close(found["sum"], x.sum().item(), x.abs().sum().item())
    assert_close(found["mean"], x.mean().item() if n else nan, x.abs().mean().item() if n else 0)
    variance = x.var().item() if n > 1 else nan
    assert_close(found["variance"], variance, variance if n > 1 else 0)
    assert found["min"] == (x.min().item() if n else None)
    assert found["max"] == (x.max().item() if n else None)
    assert found["zeros"] == int((x == 0).sum())
    far = (x - x.mean()).abs() > 6 * x.std() if n > 1 else torch.zeros(1)
    assert found["outliers"] == int(far.sum())


def assert_error(found, values):
    """Against FORMAT.md's formulas; `values` (rows, cols) in float32."""
    steps, scales = quantize(values)
    exact = values.astype(np.float64)
    errors = exact - steps.astype(np.float64) * scales.astype(np.float64)
    signal, noise = (exact**2).sum(), (errors**2).sum()
    assert found["estimated"] is False
    assert found["rmse"] == pytest.approx(math.sqrt(noise / errors.size), rel=1e-12, abs=1e-300)
    assert found["max_error"] == np.abs(errors).max()
    if noise == 0:
        assert found["snr_db"] is None
    else:
        assert found["snr_db"] == pytest.approx(10 * math.log10(signal / noise), rel=1e-12)


def random_tensor(dtype, shape, generator):
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    values = values * torch.where(torch.rand(shape, generator=generator) < 0.01, 20.0, 1.0)
    if dtype.is_floating_point or dtype.is_complex:
        return values.to(dtype)
    return (values * 20).abs().to(torch.int64).to(dtype)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A file with tensors of every type in every shape, and the tensors."""
    generator = torch.Generator().manual_seed(5)
    tensors = {
        f"{name}{list(shape)}": random_tensor(dtype, shape, generator)
        for name, dtype in (NUMBERS | OTHERS).items()
        for shape in SHAPES
    }
    path = tmp_path_factory.mktemp("drawn") / "drawn.safetensors"
    save_file(tensors, path)
    return path, tensors


def test_statistics_are_those_of_pytorch(drawn):
    path, tensors = drawn
    found = statistics(path)
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        dtype = name.split("[")[0]
        if dtype in OTHERS:
            assert found[name] is None
            continue
        assert_moments(found[name], tensor)
        assert (found[name]["nan"], found[name]["infinite"]) == (0, 0)
        if dtype in QUANTIZED and tensor.dim() == 2 and tensor.numel():
            assert_error(found[name]["int8"], tensor.float().numpy())
        else:
            assert found[name]["int8"] is None


def test_the_demo_model_has_the_statistics_of_pytorch():
    tensors = load_file(DEMO / "model.safetensors")
    found = statistics(DEMO)
    for name, tensor in tensors.items():
        assert_moments(found[name], tensor)
        if tensor.dim() == 2:
            assert_error(found[name]["int8"], tensor.float().numpy())


def test_any_number_of_threads_gives_the_same_text(drawn):
    path, _ = drawn
    for words in (["--json"], []):
        one = smolconv("inspect", "--stats", "--threads", 1, *words, path).stdout
        assert len(one) > 1000
        for n in (2, 3, 8):
            assert smolconv("inspect", "--stats", "--threads", n, *words, path).stdout == one


def test_what_is_not_finite_is_counted_and_spoils_nothing(tmp_path):
    x = torch.arange(3000, dtype=torch.float32).reshape(30, 100)
    spoiled = x.clone()
    spoiled[3, 4], spoiled[20, 0], spoiled[29, 99] = float("nan"), float("inf"), -float("inf")
    path = tmp_path / "x.safetensors"
    save_file({"spoiled": spoiled, "all": torch.full((4,), float("nan"))}, path)
    found = statistics(path)
    assert_moments(found["spoiled"], spoiled)
    assert (found["spoiled"]["nan"], found["spoiled"]["infinite"]) == (1, 2)
    assert found["spoiled"]["first_not_finite"] == 304 and found["spoiled"]["int8"] is None
    assert found["all"]["nan"] == 4 and found["all"]["mean"] is None and found["all"]["sum"] == 0
    text = smolconv("inspect", "--stats", path).stdout
    assert "not finite: 1 NaN, 2 infinite, the first is element 304  spoiled\n" in text


@pytest.mark.parametrize("dtype", ["f32", "bf16", "int8"])
def test_statistics_of_a_blob_are_of_what_it_holds(demo_blob, dtype):
    """f32 and bf16 blobs hold the checkpoint's bf16; int8 near it, by no more than is said."""
    source = load_file(DEMO / "model.safetensors")
    of_source, of_blob = statistics(DEMO), statistics(demo_blob(dtype))
    names = {
        "embed": "model.embed_tokens.weight", "final_norm": "model.norm.weight",
        "layers.0.attn_q": "model.layers.0.self_attn.q_proj.weight",
        "layers.1.mlp_down": "model.layers.1.mlp.down_proj.weight",
    }  # fmt: skip
    for role, name in names.items():
        found, exact = of_blob[role], of_source[name]
        if dtype != "int8" or source[name].dim() == 1:
            assert found == exact
            continue
        steps, scales = quantize(source[name].float().numpy())
        assert_moments(found, torch.from_numpy(steps.astype(np.float64) * scales.astype(np.float64)))
        wide = scales.astype(np.float64)
        assert found["int8"]["estimated"] is True
        assert found["int8"]["rmse"] == pytest.approx(math.sqrt((wide**2 / 12).mean()), rel=1e-12)
        assert found["int8"]["max_error"] == wide.max() / 2 >= exact["int8"]["max_error"]
        assert found["int8"]["rmse"] == pytest.approx(exact["int8"]["rmse"], rel=0.05)
        assert found["int8"]["snr_db"] == pytest.approx(exact["int8"]["snr_db"], abs=0.5)


# --- the object -------------------------------------------------------------------------------


def assert_tensors_add_up(found, size):
    parts = {p["part"]: p for p in found["parts"]}
    assert sum(p["bytes"] for p in parts.values()) == size
    for name in parts.keys() - {"tokenizer", "headers, tables"}:
        own = [t for t in found["tensors"] if t["part"] == name and not t["alias"]]
        assert parts[name]["tensors"] == len(own) > 0
        for key in ("parameters", "bytes"):
            assert parts[name][key] == sum(t[key] for t in own)
    assert found["parameters"] == sum(p["parameters"] for p in parts.values())


def test_a_blob_as_an_object(demo_blob):
    path = demo_blob("int8")
    found = described(path)
    config = json.loads((DEMO / "config.json").read_text())
    assert (found["kind"], found["path"], found["dtype"]) == ("blob", str(path), "int8")
    assert found["version"] == "1.1" and found["provenance"][1] == "dtype: int8"
    for key in ("hidden_size", "intermediate_size", "vocab_size", "rms_norm_eps"):
        assert found["model"][key] == config[key]
    assert found["model"]["layers"] == config["num_hidden_layers"]
    assert found["model"]["attention_scale"] == pytest.approx(found["model"]["head_dim"] ** -0.5)
    assert found["model"]["windowed_layers"] == [] and found["model"]["activation"] == "silu"
    assert found["chat_template"] == {"name": "default", "bytes": 196, "supported": True}
    assert found["tokenizer"]["kind"] == "byte-level" and found["stop"]
    assert_tensors_add_up(found, path.stat().st_size)
    assert {t["name"]: t["alias"] for t in found["tensors"]}["output"] is True
    (need,) = found["memory"]
    assert need["context"] == 512 and need["blob_bytes"] == path.stat().st_size
    assert need["total_bytes"] == need["blob_bytes"] + need["kv_bytes"]
    assert "statistics" not in found["tensors"][0]


@pytest.mark.parametrize("dtype, method", [("bf16", None), ("int8", "plain")])
def test_quantization_of_int8_without_statistics_is_plain(demo_blob, dtype, method):
    path = demo_blob(dtype)
    assert described(path).get("quantization") == (method and {"method": method})
    assert ("quantization       plain\n" in smolconv("inspect", path).stdout) == bool(method)


def test_quantization_by_another_converter_is_unknown(demo_blob, tmp_path):
    at = demo_blob("int8").read_bytes().index(b"converter: smolconv")
    other = edited(demo_blob("int8"), tmp_path / "other.smol", lambda data: data.__setitem__(at, ord("C")))
    assert described(other)["quantization"] == {"method": "unknown"}
    assert "quantization       unknown\n" in smolconv("inspect", other).stdout


def test_a_context_is_for_blobs_too(demo_blob):
    path = demo_blob("int8")
    found = described("--context", 100, path)
    assert found["kind"] == "blob" and [need["context"] for need in found["memory"]] == [100, 512]
    memory = described("--context", 100, DEMO)["memory"]
    assert found["memory"] == [need for need in memory if need["dtype"] == "int8"]
    result = smolconv("inspect", "--context", 513, path)
    assert_fails(result, USAGE, "--context 513: the model's longest text is 512 tokens")


def test_a_checkpoint_as_an_object():
    found = described(DEMO)
    sizes = [(DEMO / name).stat().st_size for name in ("model.safetensors", "tokenizer.json")]
    assert (found["kind"], found["supported"]) == ("checkpoint", True)
    assert found["architecture"] == "LlamaForCausalLM"
    assert found["template_from"] == "tokenizer_config.json"
    assert_tensors_add_up(found, sum(sizes))
    assert {need["dtype"] for need in found["memory"]} == set("int4 int5 int6 int8 bf16 f32".split())
    assert {t["file"] for t in found["tensors"]} == {"model.safetensors"}


def check_alike(folder, tmp_path):
    """Returns what is said of a checkpoint, and of its blob."""
    engine.convert(folder, tmp_path / "a.smol", "int8")
    found, blob = described(folder), described(tmp_path / "a.smol")
    for key in ("embeddings", "tokenizer"):
        assert found.get(key) == blob.get(key)
    return found


@pytest.mark.parametrize(("pooling", "name"), [("mean_tokens", "mean"), ("cls_token", "first"), ("max_tokens", "max"), ("lasttoken", "last")])
def test_embeddings_as_an_object(tmp_path, pooling, name):
    folder = make(tmp_path / "checkpoint")
    assert "embeddings" not in described(folder)
    prompts = {"query": 'find "it": ', "web": "naïve"}
    write_modules(folder, pooling, [(32, "tanh", True)], name == "max", prompts, "web", width=64)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 99}))
    found = check_alike(folder, tmp_path)
    assert found["tokenizer"]["kind"] == "byte-level"
    assert found["embeddings"] == {
        "pooling": name, "dimensions": 32, "normalized": name == "max", "max_length": 99, "prompts": prompts,
        "default_prompt": "web",
    }  # fmt: skip


@pytest.mark.parametrize(("activation", "score"), [("linear.Identity", "plain"), (None, "logistic")])
def test_scores_and_words_as_an_object(tmp_path, activation, score):
    make_bert(tmp_path / "checkpoint", ["some words"] * 9, 1, activation)
    found = check_alike(tmp_path / "checkpoint", tmp_path)
    assert found["embeddings"]["score"] == score and found["embeddings"]["prompts"] == {}
    assert found["tokenizer"]["kind"] == "WordPiece"


def test_pieces_of_unigram_as_an_object(tmp_path):
    test_roberta.make(tmp_path / "checkpoint", "xlm-roberta", 1, **test_roberta.small_of("xlm-roberta"))
    assert check_alike(tmp_path / "checkpoint", tmp_path)["tokenizer"]["kind"] == "Unigram"


def test_a_checkpoint_that_is_not_supported_as_an_object(tmp_path):
    folder = shutil.copytree(DEMO, tmp_path / "checkpoint")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "relu6"}))
    found = described(folder)
    assert found["supported"] is False and "hidden_act" in found["reason"]
    assert "model" not in found and found["memory"] == [] and len(found["tensors"]) == 56
    (folder / "model.safetensors").write_bytes(b"GGUF" + bytes(60))
    found = described(folder)
    assert "GGUF" in found["reason"] and found["tensors"] == [] and found["parts"] == []


def test_a_safetensors_file_as_an_object(drawn):
    path, tensors = drawn
    found = described(path)
    assert found["kind"] == "safetensors" and found["memory"] == [] and "model" not in found
    assert_tensors_add_up(found, path.stat().st_size)
    assert {t["name"]: tuple(t["shape"]) for t in found["tensors"]} == {
        name: tuple(tensor.shape) for name, tensor in tensors.items()
    }
    assert {t["dtype"] for t in found["tensors"]} == NUMBERS.keys() | OTHERS.keys()
    assert {t["part"] for t in found["tensors"]} == {"other tensors"}


def test_names_of_known_families_tell_the_part():
    found = described(DEMO / "model.safetensors")
    parts = {t["name"]: t["part"] for t in found["tensors"]}
    assert parts["model.embed_tokens.weight"] == "embedding"
    assert parts["model.layers.1.self_attn.o_proj.weight"] == "attention"
    assert parts["model.layers.1.mlp.up_proj.weight"] == "mlp"
    assert parts["model.norm.weight"] == "norms"


PARTS = {
    "embedding": "embed positions", "output": "output output_bias",
    "attention": "attn_q attn_k attn_v attn_o attn_q_down attn_k_up attn_v_up attn_gate attn_sinks relative",
    "layers with states": "mixer_in mixer_conv mixer_out mixer_gate mixer_step mixer_rate mixer_decay mixer_skip mixer_step_in",
    "mlp": "mlp_gate mlp_up mlp_down", "experts": "router shared_gate expert",
    "norms": "attn_norm attn_q_norm attn_k_norm attn_out_norm attn_q_down_norm attn_latent_norm mixer_norm mlp_norm mlp_out_norm final_norm",
}  # fmt: skip


def test_every_tensor_of_every_kind_is_in_its_part(tmp_path):
    """Biases are where that is which they are added to."""
    due = {name: part for part, names in PARTS.items() for name in names.split()}
    seen = set()
    for family in ("gpt2", "qwen3_5moe", "falconh1", "minicpm3", "lfm2moe", "olmo3", "graniteswa"):
        make_of(featured(family), tmp_path / family)
        engine.convert(tmp_path / family, tmp_path / f"{family}.smol", "bf16")
        for tensor in described(tmp_path / f"{family}.smol")["tensors"]:
            name = re.sub(r"experts\.\d+\.\w+", "expert", re.sub(r"layers\.\d+\.", "", tensor["name"]))
            name = name if name in due else name.removesuffix("_bias")
            assert tensor["part"] == due[name], tensor["name"]
            seen.add(name)
    assert set(due) - seen <= {"relative", "output_bias"}, set(due) - seen


def test_hostile_names_make_no_other_object(tmp_path):
    name = 'x", "kind": "blob\\\n\x1b[1m\u202e</script>'
    path = tmp_path / "x.safetensors"
    save_file({name: torch.zeros(1)}, path)
    assert described("--stats", path)["tensors"][0]["name"] == name
    assert "\x1b" not in smolconv("inspect", "--stats", path).stdout


def test_statistics_are_of_files(tmp_path, demo_blob):
    assert_fails(smolconv("inspect", "--stats", "--lora", tmp_path, DEMO), 2, "--stats", "--lora")
    bad = spoiled(demo_blob(), tmp_path / "bad.smol")
    assert_fails(smolconv("inspect", "--stats", bad), 4, "bad.smol", "tensor")


def test_memory_does_not_grow_with_the_tensors(tmp_path):
    """A matrix of two rows, sparse on the disk."""
    path, cols = tmp_path / "x.safetensors", 40_000_000
    size = 2 * cols * 2
    header = json.dumps({"x": {"dtype": "BF16", "shape": [2, cols], "data_offsets": [0, size]}})
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header.encode())
        file.truncate(8 + len(header) + size)
    result = smolconv("inspect", "--stats", "--threads", 2, path, preexec_fn=limited("DATA", 32 << 20))
    assert result.returncode == 0, result.stderr
    assert re.search(r" 80000000 +0 +0 +0 +exact +x\n", result.stdout)
