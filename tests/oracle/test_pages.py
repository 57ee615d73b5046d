"""The files, links, options and figures that the documentation names exist."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from internal import ROOT
from test_manual import options_of

SVG = "{http://www.w3.org/2000/svg}"
PICTURE = ElementTree.parse(ROOT / "docs/data-flow.svg").getroot()
PAGES = subprocess.run(
    ["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True
).stdout.splitlines()  # fmt: skip


def words(element, name):
    return [word for text in element.iter() if text.get("class") == name for word in text.text.split()]


def test_each_file_of_the_picture_is_in_its_module():
    modules = {group.get("id"): words(group, "file") for group in PICTURE.iter(f"{SVG}g")}
    assert list(modules) == ["convert", "format", "runtime", "smolrun", "cli", "common"]
    assert sum(map(len, modules.values())) == len(words(PICTURE, "file")) >= 40
    assert [f"{module}/{file}" for module in modules for file in modules[module] if not (ROOT / module / file).exists()] == []


def test_the_blob_of_the_picture_has_the_sections_of_the_format_in_their_order():
    names = re.findall(r"SECTION_(\w+) = \d+,.*/\* (?:u|f|s|U|t)", (ROOT / "format/format.h").read_text())
    assert words(PICTURE, "section") == [name.lower() for name in names]


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/*.svg")), ids=lambda path: path.name)
def test_pictures_are_well_formed_and_have_text_and_nothing_from_elsewhere(path):
    source = path.read_text()
    assert len(list(ElementTree.fromstring(source).iter(f"{SVG}text"))) > 10
    assert not re.search(r"<(script|image|foreignObject|a)\b|@import|@font-face|href|url\((?!#)", source)


def test_the_page_and_the_picture_of_quality_show_the_figures_that_were_measured():
    sys.path.append(str(ROOT / "scripts"))
    from quality import plot, report

    figures = json.loads((ROOT / "docs/quality.json").read_text())
    assert (ROOT / "docs/quality.md").read_text() == report.page(figures)
    assert (ROOT / "docs/quality.svg").read_text() == plot.draw(figures)


def prose(page):
    """Its text without blocks of code."""
    text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(), flags=re.M | re.S)
    return re.sub(r"^    .*$", "", text, flags=re.M)


def anchors(page):
    """The names of headings in links, as the forges make them: in small letters, without signs, spaces as dashes."""
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.M):
        heading = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", heading)
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("name", PAGES)
def test_each_link_within_the_tree_leads_somewhere(name):
    page = ROOT / name
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def named_options():
    """(program, sub-command or "", option) of the right column of the page on llama.cpp."""
    program = None
    for row in re.findall(r"^\|(.+)\|$", (ROOT / "docs/llama-cpp.md").read_text(), re.M):
        right = re.split(r"(?<!\\)\|", row)[1]
        if heading := re.fullmatch(r" `(smol\w+)` ", right):
            program = heading[1]
        for words in map(str.split, re.findall(r"`(.+?)`", right)):
            own = words[0] in ("smolrun", "smolconv")
            command = words[1] if own and re.fullmatch("[a-z]+", " ".join(words[1:2])) else ""
            for option in (word.rstrip(",") for word in words if re.match(r"--?[a-z]", word)):
                yield words[0] if own else program, command, option


def test_each_option_of_ours_on_the_page_about_llama_cpp_exists():
    named = list(named_options())
    assert len(named) > 60
    assert [(p, c, o) for p, c, o in named if o not in options_of(p, c)] == []


@pytest.mark.parametrize("program", ["smolrun", "smolconv"])
def test_each_option_of_ours_is_on_the_page_about_llama_cpp(program):
    named = {option for p, command, option in named_options() if p == program and not command}
    assert set(options_of(program, "")) - named - {"-h", "--help", "--version"} == set()


def test_the_figures_of_the_readme_are_those_of_the_measurements():
    """Each value of its table is in the row of docs/measurements.md that has its name, or in that of the weights."""
    table = re.findall(r"^\| (.*?) \| (.*?) \| (.*?) \|$", (ROOT / "README.md").read_text(), re.M)
    rows = [(what, smol, peer) for what, smol, peer in table if re.match(r"[\d.]+( |$)", smol)]
    measured = (ROOT / "docs/measurements.md").read_text().splitlines()

    def row(start):
        return next(line for line in measured if line.startswith(f"| {start}"))

    names = {"start to first token": "start to first token", "decode": "int8 decode, 2", "prefill of 512": "int8 prefill of 512, 2",
             "decode at depth 4096": "int8 decode at depth 4096, 2"}  # fmt: skip
    assert len(rows) == len(names) + 1
    for what, *values in rows:
        places = [row(names[what])] * 2 if what in names else [row("smol int8"), row("llama.cpp Q8_0")]
        for value, place in zip(values, places):
            number, unit = re.fullmatch(r"([\d.]+) ?(.*)", value).groups()
            assert re.search(rf"[ |]{re.escape(number)} .*{re.escape(unit)}", place), (what, value)


@pytest.mark.quick
def test_each_architecture_of_gguf_files_is_on_its_page():
    table = (ROOT / "convert/checkpoint/gguf_tensors.c").read_text().split("archs[] = {")[1].split("};")[0]
    names = re.findall(r'^    \{"([\w-]+)",', table, re.M)
    part = (ROOT / "docs/checkpoints.md").read_text().split("* **Architectures:**")[1].split("\n* **")[0]
    assert len(names) >= 37 and set(names) == set(re.findall(r"`([\w-]+)`", part))


@pytest.mark.quick
def test_each_style_of_calls_is_on_its_page():
    names = re.findall(r'\[TOOLS_\w+\] =\s*\{"([\w-]+)"', (ROOT / "format/template_names.c").read_text())
    table = (ROOT / "docs/structured-output.md").read_text().split("| style | models |")[1].split("\n\n")[0]
    cells = re.findall(r"^\| (\w[\w, -]*) \|", table, re.M)
    assert len(names) >= 23 and set(names) == {name for cell in cells for name in cell.split(", ")}


# --- length and files -----------------------------------------------------------------------------


@pytest.mark.parametrize("name, lines, words", [("README.md", 130, None), ("CONTRIBUTING.md", 60, None), ("docs/architecture.md", None, 2500)])
def test_pages_that_newcomers_read_are_short(name, lines, words):
    text = (ROOT / name).read_text()
    assert lines is None or len(text.splitlines()) <= lines
    assert words is None or len(text.split()) <= words


@pytest.mark.quick
def test_limits_are_those_of_the_source():
    subprocess.run([ROOT / "scripts/gen-limits", "--check"], check=True)


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith(("docs/", "README", "CONTRIBUTING"))])
def test_each_file_that_a_page_names_exists(name):
    """Paths of sources and tests between backticks; capitals stand for any name."""
    named = re.findall(r"`((?:[a-z][\w-]*/)+[a-z\d_*-]+\.(?:[ch]|py|map|txt))`", prose(ROOT / name))
    assert [file for file in named if not any(ROOT.glob(file))] == []


def test_contributing_names_existing_tests():
    """The second column of its table: X is tests/unit/test_X.c, tests/oracle/test_X.py, or both."""
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.M)[1:]
    parts = [part for row in rows if row[0] != "`" for part in re.sub(r"\(.*?\)|;.*", "", row).split(", ")]
    named = [part.strip() for part in parts if re.fullmatch(r"[a-z][a-z0-9_]+ ?", part)]
    assert len(named) >= 40
    assert [name for name in named if not [*ROOT.glob(f"tests/*/test_{name}.[cp]*")]] == []


# --- docs/tree.md ---------------------------------------------------------------------------------

TREE = (ROOT / "docs/tree.md").read_text()


def test_the_tree_has_a_line_for_each_folder():
    listed = re.findall(r"^\| `([\w/.]+?)/?` \| .+ \|$", TREE.split("\n## A tensor")[0], re.M)
    files = subprocess.run(["git", "ls-files", "*.[ch]"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    folders = {str(Path(name).parent) for name in files.splitlines()} - {"docs/man", "tests"}  # of docs; of tests/*
    assert len(set(listed)) == len(listed) and folders <= set(listed)
    assert [name for name in listed if not (ROOT / name).is_dir()] == []


@pytest.mark.parametrize("walk, first, last", [("A tensor", "convert/command/main.c", "runtime/kernels/scalar.c"), ("A prompt", "smolrun/main.c", "cli/terminal.c")])
def test_a_walk_names_existing_files_once_each(walk, first, last):
    section = TREE.split(f"\n## {walk}")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(.+?)` \| (.+) \|$", section, re.M)
    files = [file for file, _ in rows]
    assert len(rows) >= 15 and len(set(files)) == len(files) and (files[0], files[-1]) == (first, last)
    for file, text in rows:
        beside = [(ROOT / file).parent / name for name in re.findall(r"`(\w+\.c)`", text)]
        assert [path for path in [ROOT / file, *beside] if not path.exists()] == []
