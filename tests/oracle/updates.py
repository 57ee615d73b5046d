"""Checkpoints as they come out of others: other settings, another token, other weights."""

import json
import shutil

import torch
from safetensors.torch import load_file, save_file


def changed(checkpoint, folder, weights=None, **files):
    """A copy of a checkpoint; weights(tensors) edits its weights, files give new keys to JSONs."""
    shutil.copytree(checkpoint, folder, dirs_exist_ok=True)
    for name, keys in files.items():
        path = folder / f"{name}.json"
        content = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(content | keys))
    if weights:
        tensors = load_file(folder / "model.safetensors")
        weights(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def trained_further(layers, step, seed=1):
    """Each weight of these layers moves by some of `step` times the spread of its tensor."""

    def edit(tensors):
        generator = torch.Generator().manual_seed(seed)
        for name, t in tensors.items():
            if any(f".layers.{layer}." in name for layer in layers):
                moves = torch.randn(t.shape, generator=generator) * step * t.float().std()
                tensors[name] = (t.float() + moves).to(t.dtype)

    return edit


def trained_anew(layers, seed=1):
    def edit(tensors):
        generator = torch.Generator().manual_seed(seed)
        for name, t in tensors.items():
            if t.dim() == 2 and any(f".layers.{layer}." in name for layer in layers):
                values = torch.randn(t.shape, generator=generator) * t.float().std()
                tensors[name] = values.to(t.dtype)

    return edit


def with_another_token(checkpoint, folder):
    """A token is added, and a row for it: all tensors after the embedding move."""
    config = json.loads((checkpoint / "config.json").read_text())
    added = json.loads((checkpoint / "tokenizer.json").read_text())["added_tokens"]
    n = config["vocab_size"]
    token = added[-1] | {"id": n, "content": "<|another|>"}

    def add_row(tensors):
        embed = tensors["model.embed_tokens.weight"]
        row = embed.float().mean(0, keepdim=True).to(embed.dtype)
        tensors["model.embed_tokens.weight"] = torch.cat([embed, row])

    return changed(
        checkpoint, folder, add_row, config={"vocab_size": n + 1},
        tokenizer={"added_tokens": [*added, token]},
    )  # fmt: skip
