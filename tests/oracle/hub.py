"""A hub on the loopback device: the three addresses of it that scripts/smol-fetch asks for, and, as
a test wishes, the ways in which a network or a server can fail."""
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

REPO, COMMIT = "someone/tiny", "c0ffee" + "0" * 34


def entry(name, content, lfs):
    """A file as the hub lists it: large ones by SHA-256, small ones as git names them."""
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    known = {"type": "file", "oid": git, "size": len(content), "path": name}
    if lfs:
        digest = hashlib.sha256(content).hexdigest()
        known |= {"lfs": {"oid": digest, "size": len(content), "pointerSize": 134}}
    return known


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        try:
            self.server.hub.answer(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def reply(self, content, status=200, length=None, **headers):
        """All of an answer; `length` is the Content-Length where that is a lie."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", len(content) if length is None else length)
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()
        if length is not None and length != len(content):
            self.close_connection = True

    def first_byte(self):
        """Where the range that is asked for begins; 0 without one."""
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        return int(found[1]) if found else 0

    def reply_range(self, content, part=None, length=None):
        """Answers as a good server does; `part` replaces the content."""
        first, rest = self.first_byte(), (content if part is None else part)[self.first_byte() :]
        if first >= len(content) > 0:
            self.reply(b"", 416, Content_Range=f"bytes */{len(content)}")
        elif first:
            span = f"bytes {first}-{len(content) - 1}/{len(content)}"
            self.reply(rest, 206, length, Content_Range=span)
        else:
            self.reply(rest, 200, length)


class Hub:
    """The files of `repo`: name -> bytes. plans: name, "revision" or "tree" -> functions that answer the next
    requests for it, each called with the handler and the content. requests: what was asked."""

    def __init__(self, files=(), repo=REPO, small=lambda name: name.endswith((".json", ".jinja", ".md"))):
        self.files, self.repo = dict(files), repo
        self.entries = [entry(n, c, not small(n)) for n, c in self.files.items()]
        self.page_size, self.plans, self.requests = 1000, {}, []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.hub = self
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def url(self, host="127.0.0.1"):
        return f"http://{host}:{self.server.server_port}"

    def asked(self, name):
        """The headers of each request for a file."""
        return [headers for path, headers in self.requests if path.endswith(f"/resolve/{COMMIT}/{name}")]

    def names(self):
        return [path.split(f"/resolve/{COMMIT}/")[1] for path, _ in self.requests if "/resolve/" in path]

    def answer(self, handler):
        self.requests.append((handler.path, dict(handler.headers)))
        url = urlsplit(handler.path)
        path = unquote(url.path)
        if path.startswith(f"/api/models/{self.repo}/revision/"):
            self.carry_out("revision", handler, json.dumps({"id": self.repo, "sha": COMMIT}).encode())
        elif path == f"/api/models/{self.repo}/tree/{COMMIT}":
            self.list_page(handler, parse_qs(url.query))
        elif path.startswith(f"/{self.repo}/resolve/{COMMIT}/"):
            name = path.split("/", 5)[5]
            self.carry_out(name, handler, self.files[name])
        else:
            handler.reply(b"no", 404, X_Error_Message="Repository not found")

    def list_page(self, handler, query):
        start = int(query.get("cursor", ["0"])[0])
        end = start + self.page_size
        deep = query.get("recursive") == ["true"]
        entries = [e for e in self.entries if deep or "/" not in e["path"]]
        content = json.dumps(entries[start:end]).encode()
        if end < len(entries):
            path = urlsplit(handler.path).path
            link = f'<{self.url()}{path}?recursive=true&cursor={end}&limit=1>; rel="next"'
            handler.reply(content, Link=link)
        else:
            self.carry_out("tree", handler, content)

    def carry_out(self, name, handler, content):
        plan = self.plans.get(name)
        (plan.pop(0) if plan else Handler.reply_range)(handler, content)


# --- what can go wrong, to be put into plans ---


def drop(n):
    """The connection ends after n more bytes, of as many as were announced."""

    def answer(handler, content):
        first = handler.first_byte()
        handler.reply_range(content, content[: first + n], len(content) - first)

    return answer


def shorter(n):
    """Content-Length is n, and so many bytes come."""
    return lambda handler, content: handler.reply_range(
        content, content[: handler.first_byte() + n], n
    )


def longer(handler, content):
    """The file, and more, for ever: no length is announced."""
    handler.send_response(200)
    handler.end_headers()
    handler.close_connection = True
    handler.wfile.write(content)
    while True:
        handler.wfile.write(b"more" * 1000)


def whole(handler, content):
    """Ranges are ignored."""
    handler.reply(content)


def damaged(handler, content):
    handler.reply_range(bytes([content[0] ^ 1]) + content[1:])


def page(handler, content):
    handler.reply(b"<html>Welcome! Please log in.</html>" * 1000, Content_Type="text/html; charset=utf-8")


def status(code, **headers):
    return lambda handler, content: handler.reply(b"an explanation", code, **headers)


def redirect(url):
    return lambda handler, content: handler.reply(b"elsewhere", 302, Location=url)


def held(n, arrived, go_on):
    """n bytes; the rest when the test says so."""

    def answer(handler, content):
        handler.send_response(200)
        handler.send_header("Content-Length", len(content))
        handler.end_headers()
        handler.wfile.write(content[:n])
        handler.wfile.flush()
        arrived.set()
        go_on.wait(60)
        handler.wfile.write(content[n:])

    return answer
