"""Checkpoints in 8-bit floats: every number of both formats, widened as torch does, gives the blob of
the same checkpoint in float32. So do 8-bit floats and integers with scales, in the forms of the tools
that publish them, multiplied as transformers does or by torch."""
import json
import shutil
from pathlib import Path

import pytest
import torch
from blobs import read_blob
from checkpoints import edit_config, make, make_of
from features import featured
from internal import DAMAGED, UNSUPPORTED
from programs import assert_fails, smolconv
from safetensors.torch import load_file, save_file
from nests import change_tensors, make_nested
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

FORMATS = {"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return make(tmp_path_factory.mktemp("plain"), dtype="F32", vocab_size=256)


def narrowed(plain, folder, kind, edit=None):
    """The checkpoint in 8 bits, with all numbers of the format in the embedding; and widened by
    torch."""
    tensors = load_file(plain / "model.safetensors")
    codes = torch.arange(256, dtype=torch.uint8).view(FORMATS[kind])
    codes = torch.where(codes.float().isfinite(), codes.float(), 0.0).to(FORMATS[kind])
    tensors = {name: tensor.to(FORMATS[kind]) for name, tensor in tensors.items()}
    tensors["model.embed_tokens.weight"][:, 3] = codes
    if edit:
        edit(tensors)
    folders = [Path(shutil.copytree(plain, folder / name)) for name in ("narrow", "wide")]
    save_file(tensors, folders[0] / "model.safetensors")
    edit_config(folders[0], lambda c: c.update(dtype=str(FORMATS[kind]).removeprefix("torch.")))
    wide = {name: tensor.to(torch.float32) for name, tensor in tensors.items()}
    save_file(wide, folders[1] / "model.safetensors")
    return folders


@pytest.mark.parametrize("dtype", ["int8", "bf16", "f32"])
@pytest.mark.parametrize("kind", FORMATS)
def test_every_number_is_widened_exactly(tmp_path, plain, kind, dtype):
    blobs = []
    for folder in narrowed(plain, tmp_path, kind):
        out = folder.with_suffix(".smol")
        result = smolconv("--dtype", dtype, folder, out)
        assert result.returncode == 0, result.stderr
        blobs.append(read_blob(out))
    assert blobs[0].data[blobs[0].data_offset :] == blobs[1].data[blobs[1].data_offset :]
    assert blobs[0].model == blobs[1].model


@pytest.mark.parametrize("kind", FORMATS)
def test_diff_reads_them_as_numbers(tmp_path, plain, kind):
    result = smolconv("diff", *narrowed(plain, tmp_path, kind))
    assert result.returncode == 1 and f"{kind} | F32" in result.stdout
    rows = [line.split() for line in result.stdout.splitlines() if "| F32" in line]
    assert rows and all(row[1] == "0" for row in rows)


@pytest.mark.parametrize("kind", FORMATS)
def test_nan_is_refused(tmp_path, plain, kind):
    def spoil(tensors):
        tensors["model.norm.weight"].view(torch.uint8)[5] = 0x7F

    narrow, _ = narrowed(plain, tmp_path, kind, spoil)
    result = smolconv(narrow, tmp_path / "o")
    assert result.returncode == 4 and "model.norm.weight: element 5 (nan)" in result.stderr


# --- scales ---------------------------------------------------------------------------------

E4M3 = torch.float8_e4m3fn


def compressed(**weights):
    """quantization_config as llm-compressor writes it."""
    weights = {"num_bits": 8, "type": "float", "symmetric": True, "group_size": None, "block_structure": None} | weights
    name = "int" if weights["type"] == "int" else "float"
    return {
        "quant_method": "compressed-tensors", "format": f"{name}-quantized", "quantization_status": "compressed",
        "config_groups": {"group_0": {"weights": weights, "targets": ["Linear"], "input_activations": {"dynamic": True}}},
        "ignore": ["lm_head"], "kv_cache_scheme": None, "sparsity_config": {}, "transform_config": {},
    }  # fmt: skip


# what: quantization_config, the name of scales, their type, rows and columns that share one (0: all), the shape of
# single ones, the numbers, and further tensors of a layer
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
STATIC = {"activation_scale": torch.tensor(2.0)}
FORMS = {
    "blocks": (FP8 | {"weight_block_size": [16, 32]}, "weight_scale_inv", torch.float32, (16, 32), None, E4M3, {}),
    "blocks that do not fit": (FP8 | {"weight_block_size": [40, 24]}, "weight_scale_inv", torch.bfloat16, (40, 24), None, E4M3, {}),
    "blocks, size unstated": (FP8, "weight_scale_inv", torch.bfloat16, (16, 16), None, E4M3, {}),
    "Ministral 3": (FP8 | {"weight_block_size": None}, "weight_scale_inv", torch.bfloat16, (0, 0), (), E4M3, STATIC),
    "AutoFP8": (FP8, "weight_scale", torch.float32, (0, 0), (1,), E4M3, {"input_scale": torch.ones(1)}),
    "channels": (compressed(strategy="channel"), "weight_scale", torch.bfloat16, (1, 0), None, E4M3, {"k_scale": torch.ones(1)}),
    "tensors": (compressed(strategy="tensor"), "weight_scale", torch.float16, (0, 0), (1,), E4M3, {"input_scale": torch.ones(1)}),
    "blocks of llm-compressor": (
        compressed(strategy="block", block_structure=[40, 24]), "weight_scale", torch.bfloat16, (40, 24), None, E4M3, {},
    ),
    "groups": (compressed(strategy="group", group_size=16), "weight_scale", torch.float32, (1, 16), None, E4M3, {}),
    "integers": (
        compressed(type="int", strategy="channel"), "weight_scale", torch.bfloat16, (1, 0), None, torch.int8,
        {"input_zero_point": torch.ones(1, dtype=torch.int8)},
    ),
    "ModelOpt": (
        {"quant_method": "modelopt", "quant_algo": "FP8"}, "weight_scale", torch.float32, (0, 0), (), torch.float8_e5m2, {},
    ),
    "FBGEMM": ({"quant_method": "fbgemm_fp8"}, "weight_scale", torch.float32, (1, 0), None, E4M3, {}),
}  # fmt: skip


def quantized(tensor, block, scale_type, kind):
    """The numbers, their scales, and the products."""
    rows, cols = block[0] or tensor.shape[0], block[1] or tensor.shape[1]
    grid = -(-tensor.shape[0] // rows), -(-tensor.shape[1] // cols)
    scales = (0.02 + 0.01 * torch.rand(grid)).to(scale_type)

    def spread(scales):
        whole = scales.float().repeat_interleave(rows, 0).repeat_interleave(cols, 1)
        return whole[: tensor.shape[0], : tensor.shape[1]]

    numbers = tensor.float() / spread(scales)
    numbers = (numbers.round().clamp(-128, 127) if kind == torch.int8 else numbers).to(kind)
    products = numbers.float() * spread(scales)
    if kind != torch.int8 and tensor.shape == (rows * grid[0], cols * grid[1]):
        assert torch.equal(products, Fp8Dequantize(None)._dequantize_one(numbers, scales, torch.float32))
    return numbers, scales, products


def scaled(folder, out, form):
    """The checkpoint in `folder` with its layers' matrices in that form, and with their products, in two folders."""
    config, name, scale_type, block, shape, kind, further = form
    narrow, wide = {}, {}
    torch.manual_seed(0)
    for key, tensor in load_file(folder / "model.safetensors").items():
        narrow[key] = wide[key] = tensor
        if ".layers." not in key or tensor.dim() != 2 or not key.endswith(".weight") or "vision" in key or "visual" in key:
            continue
        narrow[key], scales, wide[key] = quantized(tensor, block, scale_type, kind)
        layer = key.removesuffix("weight")
        narrow[layer + name] = scales if shape is None else scales.reshape(shape)
        narrow |= {layer + more: value.clone() for more, value in further.items()}
    folders = [Path(shutil.copytree(folder, out / which)) for which in ("narrow", "wide")]
    for path, tensors in zip(folders, (narrow, wide)):
        save_file(tensors, path / "model.safetensors", metadata={"format": "pt"})
    edit_config(folders[0], lambda c: c.update(quantization_config=config))
    return folders


def assert_same_weights(folders, dtype="f32"):
    blobs = []
    for folder in folders:
        result = smolconv("--dtype", dtype, folder, folder.with_suffix(".smol"))
        assert result.returncode == 0, result.stderr
        blobs.append(read_blob(folder.with_suffix(".smol")))
    assert blobs[0].data[blobs[0].data_offset :] == blobs[1].data[blobs[1].data_offset :]


@pytest.mark.parametrize("name", FORMS)
def test_scales_multiply_the_numbers(tmp_path, plain, name):
    folders = scaled(plain, tmp_path, FORMS[name])
    assert_same_weights(folders)
    same = smolconv("diff", *folders)
    rows = [line for line in same.stdout.splitlines() if "| F32" in line]
    assert len(rows) == 14 and all(row.split()[1] == "0" for row in rows)


@pytest.mark.parametrize("name", ["blocks that do not fit", "channels", "integers"])
def test_parts_of_fused_matrices_have_their_scales(tmp_path, name):
    """Those of Phi-3 are stacked, those of GPT-NeoX taken head by head, those of MiniCPM 3 also turned."""
    for family in ("phi3", "gptneox", "minicpm3"):
        (tmp_path / family).mkdir()
        source = make_of(featured(family), tmp_path / family / "source", dtype="F32")
        assert_same_weights(scaled(source, tmp_path / family, FORMS[name]))


def test_a_model_within_one_of_pictures_has_scales(tmp_path):
    make_nested(featured("ministral3"), "ministral3", tmp_path / "source")
    assert_same_weights(scaled(tmp_path / "source", tmp_path, FORMS["Ministral 3"]))


def test_inspect_and_the_blob_say_that_weights_had_scales(tmp_path, plain):
    narrow, wide = scaled(plain, tmp_path, FORMS["integers"])
    said = "14 of 20 tensors: 14 I8"
    assert json.loads(smolconv("inspect", "--json", narrow).stdout)["quantized"] == said
    assert f"yes: {said}" in smolconv("inspect", narrow).stdout
    assert smolconv(narrow, tmp_path / "o").returncode == 0
    assert f"already quantized: {said}" in smolconv("inspect", tmp_path / "o").stdout
    assert "quantized" not in json.loads(smolconv("inspect", "--json", wide).stdout)
    shown = [json.loads(smolconv("inspect", "--json", "--stats", folder).stdout)["tensors"] for folder in (narrow, wide)]
    statistics = [{tensor["name"]: tensor["statistics"] for tensor in tensors} for tensors in shown]
    assert len(statistics[0]) == 20
    assert statistics[0] == statistics[1]


UP = "model.layers.0.mlp.up_proj."
SPOILED = {
    "no scales": (lambda t: t.pop(UP + "weight_scale_inv"), DAMAGED, "up_proj.weight of type F8_E4M3 has no scales"),
    "no weight": (
        lambda t: t.update({"lm_head.weight_scale": torch.ones(1)}), UNSUPPORTED, "lm_head.weight_scale: scales without weights",
    ),
    "two": (lambda t: t.update({UP + "weight_scale": torch.ones(1)}), DAMAGED, "a second one with scales"),
    "too few": (
        lambda t: t.update({UP + "weight_scale_inv": torch.ones(5, 2)}), DAMAGED, "up_proj.weight_scale_inv: its shape",
    ),
    "too many": (lambda t: t.update({UP + "weight_scale_inv": torch.ones(6, 3)}), DAMAGED, "its shape does not fit"),
    "three dimensions": (lambda t: t.update({UP + "weight_scale_inv": torch.ones(1, 1, 1)}), DAMAGED, "its shape does not fit"),
    "none": (lambda t: t.update({UP + "weight_scale_inv": torch.ones(0)}), DAMAGED, "its shape does not fit"),
    "bytes": (
        lambda t: t.update({UP + "weight_scale_inv": torch.ones(6, 2, dtype=torch.uint8)}), UNSUPPORTED, "scales of type U8",
    ),
    "of floats": (
        lambda t: t.update({UP + "weight": t[UP + "weight"].float()}), UNSUPPORTED, "scales of type F32 of weights of type F32",
    ),
    "of packed numbers": (
        lambda t: t.update({UP + "weight": t[UP + "weight"].view(torch.int8)}), UNSUPPORTED, "of weights of type I8",
    ),
    "of a vector": (
        lambda t: t.update({"model.norm.weight": t["model.norm.weight"].to(E4M3), "model.norm.weight_scale": torch.ones(1)}),
        DAMAGED, "model.norm.weight_scale: its shape does not fit",
    ),
    "infinite": (
        lambda t: t[UP + "weight_scale_inv"].fill_(float("inf")), 4, "up_proj.weight: element 0 (",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SPOILED)
def test_scales_that_do_not_fit_are_refused(tmp_path, plain, what):
    edit, status, message = SPOILED[what]
    narrow, _ = scaled(plain, tmp_path, FORMS["blocks"])
    change_tensors(narrow, lambda tensors: (edit(tensors), tensors)[1])
    assert_fails(smolconv(narrow, tmp_path / "o"), status, message)


REFUSED = {
    "bitsandbytes": ({"quant_method": "bitsandbytes"}, UNSUPPORTED, 'quantization_config.quant_method is "bitsandbytes"'),
    "no method": ({}, UNSUPPORTED, "quantization_config is an object"),
    "a text": ("fp8", UNSUPPORTED, 'quantization_config is "fp8"'),
    "a block of one": (FP8 | {"weight_block_size": [128]}, DAMAGED, "weight_block_size must be a list of two positive"),
    "no block": (FP8 | {"weight_block_size": [0, 128]}, DAMAGED, "weight_block_size must be a list of two positive"),
    "4 bits": (compressed(num_bits=4), UNSUPPORTED, "weights.num_bits is 4"),
    "zero points": (compressed(symmetric=False), UNSUPPORTED, "weights.symmetric is false"),
    "no type": (compressed(type="complex"), UNSUPPORTED, 'weights.type is "complex"'),
    "no group": (compressed(group_size=0), DAMAGED, "weights.group_size must be an integer from 1"),
    "packed": (compressed() | {"format": "pack-quantized"}, UNSUPPORTED, 'format is "pack-quantized"'),
    "a packed group": (
        compressed() | {"config_groups": {"a": {"format": "nvfp4-pack-quantized"}}}, UNSUPPORTED, 'is "nvfp4-pack-quantized"',
    ),
    "no groups": (compressed() | {"config_groups": None}, DAMAGED, "config_groups must be an object, found null"),
    "no format": ({"quant_method": "compressed-tensors"}, UNSUPPORTED, "quantization_config.format is missing: weights"),
    "no groups at all": (
        {"quant_method": "compressed-tensors", "format": "int-quantized"}, DAMAGED, "config_groups must be an object, found nothing",
    ),
    "a preset": (compressed() | {"config_groups": {"FP8": ["Linear"]}}, DAMAGED, "config_groups.FP8 must be an object"),
    "two sizes": (
        compressed() | {"config_groups": {"a": {"weights": {"group_size": 32}}, "b": {"weights": {"group_size": 16}}}}, UNSUPPORTED,
        "blocks of several sizes",
    ),
    "sparse": (compressed() | {"sparsity_config": {"format": "sparse-24-bitmask"}}, UNSUPPORTED, "sparsity_config.format"),
    "rotated": (compressed() | {"transform_config": {"config_groups": {"u": {}}}}, UNSUPPORTED, "transform_config is"),
    "ModelOpt's FP4": ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, UNSUPPORTED, 'quant_algo is "NVFP4"'),
}  # fmt: skip


def test_other_forms_are_refused(tmp_path, plain):
    narrow, wide = scaled(plain, tmp_path, FORMS["blocks"])
    for config, status, message in REFUSED.values():
        edit_config(narrow, lambda c, config=config: c.update(quantization_config=config))
        assert_fails(smolconv(narrow, tmp_path / "o"), status, message)
    edit_config(narrow, lambda c: c.pop("quantization_config"))
    assert_fails(smolconv(narrow, tmp_path / "o"), UNSUPPORTED, "weight_scale_inv: scales without weights, or without")
    shutil.copy(narrow / "model.safetensors", wide)
    assert_fails(smolconv(wide, tmp_path / "o"), UNSUPPORTED, "weight_scale_inv")
