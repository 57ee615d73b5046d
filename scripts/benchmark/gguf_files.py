"""Writes the GGUF files that llama.cpp reads, once, from the weights that smolconv reads.

The metadata, including the tokenizer, is copied from the GGUF file from which scripts/build-test-model
rebuilds the checkpoint; the weights are the checkpoint's. Types of 4 bits are llama.cpp's work."""

import json
import os
import subprocess

import gguf
import numpy as np

from .paths import DTYPES, GGUF, GGUF_TYPES, MODEL, ROOT, gguf_file, model_config

STAMP = GGUF / "made-from.json"

# GGUF's names for a layer's tensors.
LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
HUGE_PAGE = 2 << 20

FILE_TYPES = {
    "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
    "BF16": gguf.LlamaFileType.MOSTLY_BF16,
    "F32": gguf.LlamaFileType.ALL_F32,
}


OUTER = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
}


def gguf_name(name):
    if name in OUTER:
        return OUTER[name]
    _, _, layer, inner = name.split(".", 3)
    return f"blk.{layer}.{LAYER[inner.removesuffix('.weight')]}.weight"


def read_checkpoint(folder=MODEL):
    """Yields (name, float32 array) for each bf16 tensor of a checkpoint."""
    path = folder / "model.safetensors"
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    data = np.memmap(path, np.uint8, "r", offset=8 + size)
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "BF16", f"{name} is {entry['dtype']}"
        begin, end = entry["data_offsets"]
        bits = data[begin:end].view(np.uint16).astype(np.uint32) << 16
        yield name, bits.view(np.float32).reshape(entry["shape"])


def permuted(name, values, config):
    """Permutes rows of q and k: llama.cpp stores the two halves of the rotary pairs side by side."""
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
    key = next((heads[part] for part in heads if part in name), None)
    if not key:
        return values
    rows, cols = values.shape
    halves = values.reshape(config[key], 2, rows // config[key] // 2, cols)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows, cols)


def copy_metadata(writer, reader):
    skipped = {"general.architecture", "general.file_type", "general.quantization_version"}
    for name, field in reader.fields.items():
        if name in skipped or name.startswith("GGUF."):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=inner)


def settle(temporary, path):
    """Copies a finished file in pieces of a huge page. Linux keeps it in memory that way, so that llama.cpp maps it in
    huge pages, as smol does its blobs."""
    with open(temporary, "rb") as source, open(path, "wb", buffering=0) as target:
        while piece := source.read(HUGE_PAGE):
            target.write(piece)
    os.remove(temporary)


def write(path, kind, metadata):
    config = model_config()
    temporary = path.with_suffix(".part")
    writer = gguf.GGUFWriter(temporary, "llama")
    copy_metadata(writer, metadata)
    writer.add_file_type(FILE_TYPES[kind])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    matrices = gguf.GGMLQuantizationType[kind]
    for name, values in read_checkpoint():
        values = permuted(name, values, config)
        vector = values.ndim == 1  # norms stay float32, as in llama.cpp's own converter
        target = gguf.GGMLQuantizationType.F32 if vector else matrices
        writer.add_tensor(gguf_name(name), gguf.quants.quantize(values, target), raw_dtype=target)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    settle(temporary, path)


EVERY = tuple(kind for dtype in DTYPES for kind in GGUF_TYPES[dtype])


def quantize(kind):
    from . import peer  # llama.cpp, which the other types do not need

    temporary = gguf_file(kind).with_suffix(".part")
    peer.quantize(gguf_file("BF16"), temporary, kind)
    settle(temporary, gguf_file(kind))


def make(kinds=EVERY):
    """Writes those of the files that are missing, or all of them if they were made from another checkpoint."""
    source = (MODEL / "model.safetensors").stat()
    made_from = {"size": source.st_size, "time": source.st_mtime_ns}
    if not STAMP.exists() or json.loads(STAMP.read_text()) != made_from:
        for old in GGUF.glob("*.gguf"):
            old.unlink()
    missing = [kind for kind in kinds if not gguf_file(kind).exists()]
    if not missing:
        return
    GGUF.mkdir(exist_ok=True)
    command = [ROOT / "scripts/build-test-model", "--gguf"]
    donor = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    metadata = gguf.GGUFReader(donor)
    for kind in FILE_TYPES:
        if kind in missing:
            write(gguf_file(kind), kind, metadata)
    for kind in missing:
        if kind not in FILE_TYPES:
            quantize(kind)
    STAMP.write_text(json.dumps(made_from) + "\n")
