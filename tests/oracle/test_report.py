"""smolconv report: a page that a strict parser of XML reads, with nothing outside it, whose plots show
what numpy computes."""
import json
import re
import shutil
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from checkpoints import make
from internal import ROOT
from programs import assert_fails, smolconv
from safetensors.torch import load_file, save_file
from test_format import example_blob, quantize

DEMO = ROOT / "demo/model"
SPACE = "{http://www.w3.org/1999/xhtml}"
ROLES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_o": "self_attn.o_proj", "mlp_gate": "mlp.gate_proj", "mlp_up": "mlp.up_proj",
    "mlp_down": "mlp.down_proj",
}  # fmt: skip


class Page:
    """A report, parsed; and as what it must be: without scripts, and with nothing from elsewhere."""

    def __init__(self, *arguments, out):
        result = smolconv("report", "--quiet", "--force", *arguments, "-o", out)
        assert (result.returncode, result.stderr, result.stdout) == (0, "", "")
        self.text = out.read_bytes().decode()
        assert self.text.startswith("<!DOCTYPE html>\n")
        self.root = ElementTree.fromstring(self.text)
        names = {element.tag.removeprefix(SPACE) for element in self.root.iter()}
        assert not names & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "a"}
        attributes = {name for element in self.root.iter() for name in element.attrib}
        assert not {n for n in attributes if n in ("src", "href", "style") or n.startswith("on")}
        style = self.find("style")[0].text
        assert "url(" not in style and "@import" not in style and "prefers-color-scheme:dark" in style

    def find(self, tag, within=None):
        return list((self.root if within is None else within).iter(SPACE + tag))

    def rows(self, heading):
        """Cells of the table whose first heading this is."""
        for table in self.find("table"):
            rows = [["".join(c.itertext()) for c in row] for row in self.find("tr", table)]
            if rows[0][0] == heading:
                return rows[1:]
        raise AssertionError(heading)

    def histograms(self):
        """name: (low, high, heights as shares of the tallest)."""
        for figure in self.find("figure"):
            caption = self.find("figcaption", figure)
            if not caption:
                continue
            ticks = [float(t.text) for t in self.find("text", figure) if t.get("class") == "x"]
            (area,) = (p for p in self.find("path", figure) if p.get("class") == "area")
            bottom = float(re.match(r"M[\d.]+ ([\d.]+)", area.get("d"))[1])
            heights = bottom - np.array([float(v) for v in re.findall(r"V([\d.]+)H", area.get("d"))])
            yield self.find("b", caption[0])[0].text, (ticks[0], ticks[1], heights)

    def lines(self, unit):
        """label: {layer: value}, read off the axes as a person would."""
        found = {}
        for svg in self.find("svg"):
            texts = {kind: [t for t in self.find("text", svg) if t.get("class") == kind]
                     for kind in ("x", "y", "unit")}  # fmt: skip
            if unit not in [t.text for t in texts["unit"]]:
                continue
            x = self.axis([(float(t.get("x")), float(t.text)) for t in texts["x"]])
            y = self.axis([(float(t.get("y")) - 4, float(t.text)) for t in texts["y"]])
            names = {t.get("class").split()[1][1:]: t.text for t in self.find("text", svg)
                     if t.get("class").startswith("name ")}  # fmt: skip
            for line in self.find("polyline", svg):
                points = [tuple(map(float, p.split(","))) for p in line.get("points").split()]
                name = names[line.get("class").split()[1][1:]]
                found[name] = {round(x(px)): y(py) for px, py in points}
        return found

    @staticmethod
    def axis(ticks):
        """Returns a function from a coordinate to a value, which the first and the last tick determine."""
        (p, a), (q, b) = ticks[0], ticks[-1]
        return lambda place: a + (place - p) / (q - p) * (b - a)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Matrices that int8 takes well and badly, from layer to layer."""
    folder = make(tmp_path_factory.mktemp("report") / "checkpoint", num_hidden_layers=7)
    tensors = load_file(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(3)
    for name, tensor in tensors.items():
        layer = re.search(r"layers\.(\d+)\.", name)
        if layer and tensor.dim() == 2:
            mask = torch.rand(tensor.shape, generator=generator) < 0.002 * int(layer[1])
            tensor[mask] *= 30
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder, tensors


def matrices(tensors, role):
    return [t.float().numpy() for n, t in tensors.items() if f".{ROLES[role]}." in n]


def test_lines_show_the_error_of_each_layer(tmp_path, checkpoint):
    folder, tensors = checkpoint
    page = Page(folder, out=tmp_path / "r.html")
    decibels, rmse = page.lines("signal-to-noise, dB"), page.lines("root mean square error")
    assert decibels.keys() == rmse.keys() == ROLES.keys()
    for role in ROLES:
        for layer, values in enumerate(matrices(tensors, role)):
            steps, scales = quantize(values)
            errors = values.astype(np.float64) - steps.astype(np.float64) * scales
            due = 10 * np.log10((values.astype(np.float64) ** 2).sum() / (errors**2).sum())
            assert decibels[role][layer] == pytest.approx(due, abs=0.05), (role, layer)
            assert rmse[role][layer] == pytest.approx(np.sqrt((errors**2).mean()), rel=0.03)
        assert len(decibels[role]) == 7


def test_colours_go_by_names(tmp_path, demo_blob):
    """The order in the file does not matter, for a blob has another one."""
    colours = []
    for kind in (DEMO, demo_blob("int8")):
        page = Page(kind, out=tmp_path / "r.html")
        names = [t for t in page.find("text") if t.get("class").startswith("name ")]
        colours.append({t.text: t.get("class").split()[1] for t in names})
        assert len(names) == 2 * len(ROLES)
    assert colours[0] == colours[1] and colours[0].keys() == ROLES.keys()
    for part in ("attn", "mlp"):
        shown = [colour for name, colour in colours[0].items() if name.startswith(part)]
        assert len(set(shown)) == len(shown)


def test_tied_embeddings_are_counted_once_by_all(tmp_path, demo_blob):
    blob, counts = demo_blob("int8"), set()
    for kind in (DEMO, blob):
        page = Page(kind, out=tmp_path / "r.html")
        facts = {dt.text: dd.text for dt, dd in zip(page.find("dt"), page.find("dd"))}
        total = re.search(r"^total +(\d+)", smolconv("inspect", kind).stdout, re.M)
        counts |= {int(facts["tensors"]), int(total[1])}
    counts.add(int(re.search(r"(\d+) tensors", smolconv("verify", blob).stdout)[1]))
    assert counts == {len(load_file(DEMO / "model.safetensors"))}


def test_histograms_are_those_of_numpy(tmp_path, checkpoint):
    folder, tensors = checkpoint
    found = dict(Page(folder, out=tmp_path / "r.html").histograms())
    assert found.keys() >= ROLES.keys() | {"embed", "attn_norm", "mlp_norm", "final_norm"}
    for role in ROLES:
        parts = [m.astype(np.float64) for m in matrices(tensors, role)]
        reach = [5 * m.std(ddof=1) for m in parts]
        low = min(max(m.min(), m.mean() - r) for m, r in zip(parts, reach))
        high = max(min(m.max(), m.mean() + r) for m, r in zip(parts, reach))
        counts, _ = np.histogram(np.concatenate([m.ravel() for m in parts]), 61, (low, high))
        shown_low, shown_high, heights = found[role]
        assert (shown_low, shown_high) == pytest.approx((low, high), rel=6e-3)
        assert heights / heights.max() == pytest.approx(counts / counts.max(), abs=2e-3)


@pytest.mark.parametrize("kind", ["checkpoint", "weights", "int8", "f32"])
def test_the_table_shows_the_statistics(tmp_path, demo_blob, kind):
    weights = DEMO / "model.safetensors"
    subject = {"checkpoint": DEMO, "weights": weights}.get(kind) or demo_blob(kind)
    page = Page(subject, out=tmp_path / "r.html")
    found = json.loads(smolconv("inspect", "--stats", "--json", subject).stdout)
    rows = page.rows("tensor")
    assert [row[0] for row in rows] == [tensor["name"] for tensor in found["tensors"]]
    for row, tensor in zip(rows, found["tensors"]):
        s = tensor["statistics"]
        due = [s[key] for key in ("mean", "variance", "min", "max", "sum")]
        assert [float(v) for v in row[3:8]] == pytest.approx(due, rel=1e-3)
        assert list(map(int, row[8:11])) == [s["zeros"], s["outliers"], s["nan"] + s["infinite"]]
        errors = s["int8"] and [s["int8"][key] for key in ("rmse", "max_error", "snr_db")]
        assert ([float(v) for v in row[11:]] if errors else row[11:]) == (
            pytest.approx(errors, rel=1e-3) if errors else ["", "", ""]
        )
    parts = {row[0]: row[1].replace(",", "") for row in page.rows("part")}
    assert parts == {p["part"]: str(p["parameters"] or "") for p in found["parts"]}
    assert ("estimates" in page.text) == (kind == "int8")
    assert ("source: model.safetensors" in page.text) == (kind in ("int8", "f32"))


def test_any_number_of_threads_gives_the_same_page(tmp_path, checkpoint):
    pages = {Page("--threads", n, checkpoint[0], out=tmp_path / "r.html").text for n in (1, 2, 5)}
    assert len(pages) == 1


def test_hostile_names_stay_text(tmp_path):
    names = [
        "</td><script>alert(1)</script>", "a&b\"c'd<e>", "x\x7f\x1b[1m\u202ey\ufffe\U0001ffff",
        "<!--", "]]>", "layers.1.</title><script>", "layers.2.</title><script>", "&amp;" * 3000,
    ]  # fmt: skip
    path = tmp_path / "<b>&'\".safetensors"
    save_file({name: torch.randn(4, 40) for name in names}, path)
    page = Page(path, out=tmp_path / "r.html")
    shown = {row[0] for row in page.rows("tensor")}
    for name in set(names) - {names[2]}:
        assert name in shown
    assert "x\ufffd\ufffd[1m\ufffdy\ufffd\ufffd" in shown
    assert page.find("h1")[0].text == path.name == page.find("title")[0].text


def test_long_text_of_strangers_is_whole(tmp_path):
    """However it comes to the page: no character is cut in two."""
    text = "\u00e9\u4e2d" * 9000
    (tmp_path / "x.smol").write_bytes(example_blob(tmp_path, f"x{text}\n".encode()))
    page = Page(tmp_path / "x.smol", out=tmp_path / "r.html")
    assert f"x{text}" in page.text and "\ufffd" not in page.text


@pytest.mark.parametrize(
    "tensors",
    [
        {},
        {"x": torch.zeros(0, 3), "y": torch.tensor(float("nan")), "z": torch.zeros(3, 3)},
        {f"layers.{i}.w": torch.full((2, 32), float("inf")) for i in range(3)},
        {f"b.{i}.w": torch.full((2, 32), 3.0e38) for i in range(3)},
        {f"h.{i}.w": torch.full((2, 32), 1.0) for i in range(900)},
        {f"kind{i}.{k}": torch.randn(2, 32) for i in range(40) for k in range(2)},
        {"c": torch.zeros(3, dtype=torch.complex64), "i": torch.zeros(3, dtype=torch.int64)},
    ],
)
def test_odd_files_have_a_page(tmp_path, tensors):
    path = tmp_path / "x.safetensors"
    save_file(tensors, path)
    page = Page(path, out=tmp_path / "r.html")
    assert len(page.rows("tensor")) == len(tensors)
    assert "nan" not in re.sub("[a-z-]+=\"[^\"]*\"|<style>.*?</style>|infinity", "", page.text, flags=re.S)


def test_what_is_not_supported_has_a_page_that_says_so(tmp_path):
    folder = shutil.copytree(DEMO, tmp_path / "checkpoint")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "<relu6>"}))
    page = Page(folder, out=tmp_path / "r.html")
    assert "This checkpoint cannot be converted: " in page.text and "&lt;relu6&gt;" in page.text


def test_a_page_has_a_name_and_replaces_nothing(tmp_path, demo_blob):
    assert_fails(smolconv("report", demo_blob()), 2, "-o PAGE")
    out = tmp_path / "r.html"
    out.write_text("old")
    assert_fails(smolconv("report", demo_blob(), "-o", out), 3, "r.html", "--force")
    assert_fails(smolconv("report", tmp_path / "none", "-o", tmp_path / "new"), 3, "none")
    assert out.read_text() == "old" and not (tmp_path / "new").exists()
