"""Reads the output of smolconv diff and checks it against numpy: the numbers of a blob come from smol_reader.py,
those of safetensors from the safetensors package, and everything is compared in float64."""
import math
import re

import numpy as np
import torch
from blobs import read_blob, section, xxh3
from internal import ROOT
from programs import smolconv
from safetensors.torch import load_file
from test_format import source_name

DEMO = ROOT / "demo/model"
DTYPES = ("int8", "bf16", "f32")


def convert(source, target, dtype="int8"):
    result = smolconv("--quiet", "--force", "--dtype", dtype, source, target)
    assert result.returncode == 0, result.stderr
    return target


# --- reading what diff writes -----------------------------------------------------------------

VALUES = re.compile(
    r"(?P<n>\d+) +(?P<of>\d+) +(?P<largest>\S+) +(?P<mean>\S+) +(?P<at>\[[\d, ]*\])?"
    r"(?: *(?P<changed>\d+) of (?P<chunks>\d+))?(?: +(?P<dtypes>\S+ \| \S+))?"
    r"(?: +NaN or infinite: (?P<odd>\d+), first at (?P<odd_at>\[[\d, ]*\]))?"
)


class Diff:
    """The parts of the output; every line must be understood."""

    def __init__(self, result):
        assert result.returncode in (0, 1) and result.stderr == "", result
        self.status = result.returncode
        heading, *blocks, summary = result.stdout.rstrip("\n").split("\n\n")
        assert re.fullmatch(r"A  .*\nB  .*", heading)
        self.summary = summary
        self.rows, self.tensors = {}, {}
        for block in blocks:
            title, *lines = block.split("\n")
            kind = title.split()[0]
            if kind == "tensor":
                for line in lines:
                    name, rest = re.fullmatch(r"  (\S+) +(.*)", line).groups()
                    self.tensors[name] = rest
            else:
                self.rows[kind] = lines
        self.check_summary()

    def check_summary(self):
        if self.status == 0:
            assert self.summary.startswith("the same") and not self.tensors
            assert not set(self.rows) - {"provenance"}
            return
        pattern = r"different: settings (\d+), tokenizer (\d+), tensors (\d+) of (\d+).*"
        n_settings, n_tokenizer, n_tensors, _ = map(int, re.match(pattern, self.summary).groups())
        assert n_tensors == len(self.tensors)
        for kind, n in ("settings", n_settings), ("tokenizer", n_tokenizer):
            lines = self.rows.get(kind, [])
            more = [int(x.split()[2]) for x in lines if x.startswith("  ... and ")]
            assert len(lines) - len(more) + sum(more) == n

    def cells(self, kind):
        """{name: (a, b)} of the rows of settings or tokenizer."""
        found = {}
        for line in self.rows.get(kind, []):
            parts = re.split(r" {2,}", line.strip())
            found[parts[0]] = tuple(parts[1:])
        return found


def diff(a, b, **options):
    return Diff(smolconv("diff", a, b, **options))


def place(index, shape):
    return str([int(i) for i in np.unravel_index(index, shape)])


def check_values(line, a, b):
    """Checks one line against two arrays of float64."""
    found = VALUES.fullmatch(line)
    assert found, line
    differ = (a != b) & ~(np.isnan(a) & np.isnan(b))
    odd = differ & ~(np.isfinite(a) & np.isfinite(b))
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.where(differ & ~odd, np.abs(a - b), 0)
    assert (int(found["n"]), int(found["of"])) == (differ.sum(), a.size)
    assert int(found["odd"] or 0) == odd.sum()
    if odd.any():
        assert found["odd_at"] == place(np.argmax(odd), a.shape)
    if differ.sum() == odd.sum():
        assert (found["largest"], found["mean"], found["at"]) == ("-", "-", None)
        return found
    largest, mean = float(found["largest"]), float(found["mean"])
    assert math.isclose(largest, apart.max(), rel_tol=1e-5)
    assert math.isclose(mean, apart.sum() / (a.size - odd.sum()), rel_tol=1e-5)
    assert found["at"] == place(np.argmax(apart), a.shape)
    return found


def blob_values(path):
    return {name: t.values().astype(np.float64) for name, t in read_blob(path).tensors.items()}


def wide(tensor):
    return tensor.to(torch.float64).numpy()


def checkpoint_values(folder, like):
    """The tensors under the names of a blob's; where there is no head, it is the embedding."""
    tensors = load_file(folder / "model.safetensors")
    if "lm_head.weight" not in tensors:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    return {name: wide(tensors[source_name(name)]) for name in like}


def check_tensors(found, a, b, tied=True):
    """Every tensor that differs has its line, and no other."""
    for name in a:
        same = np.array_equal(a[name], b[name], equal_nan=True)
        if name == "output" and tied:
            assert name not in found.tensors  # it is the embedding
        elif same:
            assert name not in found.tensors, (name, found.tensors[name])
        else:
            check_values(found.tensors[name], a[name], b[name])
    assert set(found.tensors) <= set(a)


def parts(kind, *paths):
    """Returns the cells with which diff shows sections that it compares as wholes; a space separates two of them."""
    places = [(path.read_bytes(), *section(bytearray(path.read_bytes()), kind)) for path in paths]
    return " ".join(f"{size} bytes, xxh3 {xxh3(data[at : at + size]):016x}" for data, at, size in places)


def place_in_f32(tensor, element):
    """Returns the place of an element in an f32 blob; FORMAT.md, 7.2 and 7.3."""
    row, col = divmod(element, tensor.cols)
    if tensor.is_vector:
        return tensor.offset + col * 4
    return tensor.offset + row // 16 * tensor.cols * 64 + col * 64 + row % 16 * 4
