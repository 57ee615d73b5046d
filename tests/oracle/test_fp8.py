"""Checkpoints in 8-bit floats: every number of both formats, widened as torch does, gives the blob of
the same checkpoint in float32. What needs scales besides is refused."""
import shutil
from pathlib import Path

import pytest
import torch
from blobs import read_blob
from checkpoints import edit_config, make
from programs import smolconv
from safetensors.torch import load_file, save_file

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


def test_what_needs_scales_is_refused(tmp_path, plain):
    narrow, wide = narrowed(
        plain, tmp_path, "F8_E4M3",
        lambda t: t.update({"model.layers.0.mlp.up_proj.weight_scale_inv": torch.ones(1, 1)}),
    )  # fmt: skip
    result = smolconv(narrow, tmp_path / "o")
    assert result.returncode == 5 and "up_proj.weight_scale_inv" in result.stderr
    edit_config(wide, lambda c: c.update(quantization_config={"quant_method": "fp8"}))
    result = smolconv(wide, tmp_path / "o")
    assert result.returncode == 5 and "quantization_config" in result.stderr
