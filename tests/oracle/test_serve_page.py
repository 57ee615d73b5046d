"""The files of smolserve's chat page, as they come over HTTP. test_serve_browser.py uses it in a browser."""

import re
from html.parser import HTMLParser

import pytest
from internal import ROOT
from serving import serving

FOLDER = ROOT / "smolserve/page"
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
POLICY = {
    "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self'", "connect-src": "'self'",
    "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'", "trusted-types": "'none'",
}  # fmt: skip


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []  # (tag, attributes)
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@pytest.fixture(scope="module")
def server(blob, tmp_path_factory):
    """A server that requires keys."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("one secret-key\n")
    with serving(blob, "--api-keys", keys) as server:
        yield server


@pytest.fixture(scope="module")
def tags():
    return Tags((FOLDER / "page.html").read_text()).found


def test_every_file_of_the_page_is_served_as_it_is_and_needs_no_key(server):
    size = 0
    for file in sorted(FOLDER.iterdir()):
        path = "/" if file.name == "page.html" else f"/{file.name}"
        status, headers, data = server.http("GET", path)
        assert (status, data) == (200, file.read_bytes()), path
        assert headers["Content-Type"].split(";")[0] == TYPES[file.suffix[1:]]
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        policy = headers["Content-Security-Policy"].split("; ")
        assert dict(rule.split(" ", 1) for rule in policy) == POLICY
        head = server.http("HEAD", path)
        assert (head[0], head[1]["Content-Length"], head[2]) == (200, str(len(data)), b"")
        assert server.http("POST", path, {})[0] == 405
        assert server.http("GET", path, Host="evil.example")[0] == 403
        size += len(data)
    assert 20_000 < size < 60_000
    assert server.http("GET", "/v1/models")[0] == 401


def test_the_page_refers_to_nothing_but_its_own_files(tags):
    names = {file.name for file in FOLDER.iterdir()}
    links = {attributes[name] for _, attributes in tags for name in ("src", "href") if name in attributes}
    imports = {name for file in FOLDER.glob("*.js") for name in re.findall(r'from "\./(.*?)"', file.read_text())}
    assert {link for link in links if link[0] != "#"} | imports | {"page.html"} == names
    assert {tag for tag, attributes in tags if tag == "script" and "src" not in attributes} == set()
    assert not {tag for tag, _ in tags} & {"style", "iframe", "object", "embed", "base", "img"}
    assert not [name for _, attributes in tags for name in attributes if name.startswith("on") or name == "style"]
    for file in FOLDER.iterdir():
        text = file.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"https?:|@import|url\(", text), file


def test_every_control_has_a_label_and_every_id_that_the_script_uses_exists(tags):
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    labels = {attributes["for"] for tag, attributes in tags if tag == "label"}
    controls = {attributes["id"] for tag, attributes in tags if tag in ("input", "select", "textarea")}
    assert len(ids) == len(set(ids)) and labels == controls and len(controls) == 11
    described = {attributes[name] for _, attributes in tags for name in ("aria-describedby", "aria-controls", "aria-labelledby")
                 if name in attributes}  # fmt: skip
    used = set(re.findall(r'\$\("([\w-]+)"\)', (FOLDER / "page.js").read_text()))
    assert described | used <= set(ids)
