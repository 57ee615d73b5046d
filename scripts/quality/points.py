"""Measures the sizes of one model: a point is what a file of that size loses.

Everything is compared with the checkpoint's own weights, in a blob of bf16, on the same ids of the same
text, which is not the one that calibrates."""

import json
import re
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
from benchmark.paths import BUILD, ROOT

from . import checkpoint_gguf, evaluate, quantize

sys.path.append(str(ROOT / "tests/oracle"))
from texts import prose  # noqa: E402

CALIBRATION = ROOT / "demo/calibration.txt"
DTYPES = ("int4", "int5", "int6", "int8")


class Point:
    """One file to make and measure. Its name is unique for a model."""

    def __init__(self, side, kind, calibrated):
        self.side, self.kind, self.calibrated = side, kind, calibrated
        self.name = f"{side} {kind}" + (", calibrated" if calibrated and side == "smol" else
                                        ", importance matrix" if calibrated else "")  # fmt: skip


def points(converts):
    """Returns all points; each of `converts` is a text of further options of smolconv."""
    ours = [Point("smol", kind, calibrated) for kind in DTYPES for calibrated in (False, True)]
    ours += [Point("smol", convert, True) for convert in converts]
    theirs = [Point("llama.cpp", kind, False) for kind in ("F32", *quantize.TYPES)]
    theirs += [Point("llama.cpp", kind, True) for kind in quantize.TYPES if kind != "Q8_0"]  # which ignores it
    return ours + theirs


def smol_size(blob):
    """Returns the bytes of a blob's tensors and the number of their elements."""
    command = [BUILD / "smolconv", "inspect", "--json", blob]
    parts = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["parts"]
    tensors = [part for part in parts if part["tensors"]]
    return sum(part["bytes"] for part in tensors), sum(part["parameters"] for part in tensors)


def gguf_size(path):
    tensors = gguf.GGUFReader(path).tensors
    return int(sum(tensor.n_bytes for tensor in tensors)), int(sum(tensor.n_elements for tensor in tensors))


class Model:
    """A checkpoint, and what is made of it once, in build/quality."""

    def __init__(self, checkpoint, options):
        self.checkpoint, self.options = checkpoint, options
        self.folder = BUILD / "quality" / checkpoint.name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.blob, self.gguf = self.folder / "bf16.smol", self.folder / "f32.gguf"
        self.text, self.logits = self.folder / "text", self.folder / "logits"
        self.statistics, self.importance = self.folder / "statistics", self.folder / "importance.npz"
        self.text.write_text(prose()[: options.characters])
        self.make("blob", lambda path: self.convert(path, "--dtype", "bf16"))
        self.ids = evaluate.tokenize(self.blob, self.text)
        self.make("logits", self.save_logits)

    def make(self, name, write):
        """Makes a file unless it exists, whole or not at all."""
        path = getattr(self, name)
        if not path.exists():
            print(f"measure-quality: {path.relative_to(BUILD)}", file=sys.stderr, flush=True)
            part = path.with_name(f"new-{path.name}")
            write(part)
            part.rename(path)

    def convert(self, path, *words):
        threads = ["--threads", str(self.options.threads)]
        command = [BUILD / "smolconv", "--quiet", "--force", *threads, *words, self.checkpoint, path]
        subprocess.run(command, check=True)

    def save_logits(self, path):
        figures = self.evaluate("--save-logits", path)
        (self.folder / "reference.json").write_text(json.dumps(figures))

    def calibrate(self, path):
        command = [evaluate.SMOLRUN, "calibrate", self.blob, CALIBRATION, "-o", path]
        subprocess.run([*command, "--threads", str(self.options.threads)], check=True)

    def evaluate(self, *words, blob=None):
        settings = ["--ctx", self.options.ctx, "--threads", self.options.threads]
        return evaluate.perplexity(blob or self.blob, self.text, *settings, *words)

    def write_importance(self, path):
        ids = evaluate.tokenize(self.blob, CALIBRATION)
        with open(path, "wb") as file:
            np.savez(file, **quantize.importance(self.gguf, ids, self.options.threads))

    def means(self, point):
        """Returns llama.cpp's importance matrix for a point that has one, otherwise None."""
        if not point.calibrated:
            return None
        self.make("importance", self.write_importance)
        return dict(np.load(self.importance))

    def measure_smol(self, point):
        blob = self.folder / "point.smol"
        words = point.kind.split() if point.kind.startswith("-") else ["--dtype", point.kind]
        if point.calibrated:
            self.make("statistics", self.calibrate)
            words += ["--calibration", self.statistics]
        self.convert(blob, *words)
        return blob, *smol_size(blob), self.evaluate("--kl-from", self.logits, blob=blob)

    def measure_peer(self, point):
        self.make("gguf", lambda path: checkpoint_gguf.write(self.checkpoint, path))
        path = self.gguf
        if point.kind in quantize.TYPES:
            path = self.folder / "point.gguf"
            quantize.quantize(self.gguf, path, point.kind, self.means(point), self.options.threads)
        vocab_size = json.loads((self.checkpoint / "config.json").read_text())["vocab_size"]
        reference = evaluate.reference_rows(self.logits, self.ids, vocab_size)
        figures = evaluate.measure_peer(path, self.ids, reference, self.options.ctx, self.options.threads)
        return path, *gguf_size(path), figures

    def measure(self, point):
        measure = self.measure_smol if point.side == "smol" else self.measure_peer
        path, weights, parameters, figures = measure(point)
        kept = {key: figures[key] for key in ("perplexity", "perplexity_error", "kl", "kl_error", "same_top")}
        sizes = {"bytes": path.stat().st_size, "bits": 8 * weights / parameters}
        return {"side": point.side, "kind": point.kind, "calibrated": point.calibrated, **sizes, **kept}

    def facts(self):
        """Returns what the model's points have in common."""
        reference = json.loads((self.folder / "reference.json").read_text())
        kept = {key: reference[key] for key in ("tokens", "scored", "ctx", "perplexity", "perplexity_error")}
        return kept | {"calibration_tokens": len(evaluate.tokenize(self.blob, CALIBRATION))}


def measure(checkpoint, options, results, save):
    """Measures all points of a checkpoint that match and are missing; calls save after each."""
    model = Model(Path(checkpoint).resolve(), options)
    entry = results.setdefault(model.checkpoint.name, {"points": {}})
    entry.update(model.facts())
    for point in points(options.convert):
        known = point.name in entry["points"]
        if not re.search(options.only, point.name) or (known and not options.again):
            continue
        print(f"measure-quality: {model.checkpoint.name}: {point.name}", file=sys.stderr, flush=True)
        entry["points"][point.name] = model.measure(point)
        save()
