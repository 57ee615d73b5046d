"""What the documentation says of the tree is there: files in the picture, links."""

import re
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import ROOT

SVG = "{http://www.w3.org/2000/svg}"
PICTURE = ElementTree.parse(ROOT / "docs/data-way.svg").getroot()
PAGES = subprocess.run(
    ["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True
).stdout.splitlines()  # fmt: skip


def words(element, name):
    return [word for text in element.iter() if text.get("class") == name for word in text.text.split()]


def test_each_file_of_the_picture_is_in_its_house():
    houses = {group.get("id"): words(group, "file") for group in PICTURE.iter(f"{SVG}g")}
    assert list(houses) == ["convert", "format", "runtime", "common"]
    assert sum(map(len, houses.values())) == len(words(PICTURE, "file")) >= 40
    assert [f"{house}/{file}" for house in houses for file in houses[house] if not (ROOT / house / file).exists()] == []


def test_the_blob_of_the_picture_has_the_sections_of_the_format_in_their_order():
    names = re.findall(r"SECTION_(\w+) = \d+,.*/\* (?:u|f|s|U|t)", (ROOT / "format/format.h").read_text())
    assert words(PICTURE, "section") == [name.lower() for name in names]


def test_the_picture_is_text_and_nothing_from_elsewhere():
    source = (ROOT / "docs/data-way.svg").read_text()
    assert not re.search(r"<(script|image|foreignObject|a)\b|@import|@font-face|href|url\((?!#)", source)


def prose(page):
    """Its text without blocks of code."""
    text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(), flags=re.M | re.S)
    return re.sub(r"^    .*$", "", text, flags=re.M)


def anchors(page):
    """What headings are called in links: as the forges do it, in small letters, without signs, spaces as dashes."""
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
