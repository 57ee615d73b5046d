"""Headless Chromium through its debugging pipe: a page that a test opens, uses and looks at."""
import base64
import json
import os
import shutil
import subprocess
import time
from contextlib import contextmanager

import pytest

PROGRAM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
WORDS = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
KEYS = {"Enter": ("\r", 13), "Escape": ("", 27), "Tab": ("", 9), "ArrowRight": ("", 39), "End": ("", 35)}


class Tab:
    """A page. `seen` collects what must stay empty: messages of the console, exceptions, failed requests."""

    def __init__(self, folder):
        read, self.write = os.pipe()
        self.read, write = os.pipe()
        # the pipe's ends are the file descriptors 3 and 4 of the browser
        command = f'exec "$@" 3<&{read} 4>&{write}'
        self.process = subprocess.Popen(
            ["bash", "-c", command, "-", PROGRAM, *WORDS, f"--user-data-dir={folder}"],
            pass_fds=(read, write), stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read), os.close(write)
        self.rest, self.n, self.session, self.seen, self.requests = b"", 0, None, [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")

    def close(self):
        os.close(self.write)  # at which the browser ends
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read)

    # --- the protocol ---

    def call(self, method, **params):
        self.n += 1
        message = {"id": self.n, "method": method, "params": params} | ({"sessionId": self.session} if self.session else {})
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.n:
            self.note(answer)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def receive(self):
        while b"\0" not in self.rest:
            part = os.read(self.read, 1 << 20)
            assert part, f"the browser has ended: {self.process.wait(20)}"
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def note(self, event):
        params = event.get("params", {})
        if event["method"] == "Runtime.consoleAPICalled":
            self.seen.append([argument.get("value") for argument in params["args"]])
        elif event["method"] == "Runtime.exceptionThrown":
            self.seen.append(params["exceptionDetails"].get("exception", params["exceptionDetails"]))
        elif event["method"] == "Log.entryAdded":
            self.seen.append(params["entry"]["text"])
        elif event["method"] == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    # --- what a test does with a page ---

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def run(self, expression):
        """The value of an expression, which may be a promise."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True)
        assert "exceptionDetails" not in done, (expression, done)
        return done["result"].get("value")

    def wait(self, expression, seconds=60):
        end = time.monotonic() + seconds
        while not (value := self.run(expression)):
            assert time.monotonic() < end, (expression, self.run("document.body.innerText"), self.seen)
            time.sleep(0.02)
        return value

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, modifiers=0):
        text, code = KEYS[key]
        same = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown", **same, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **same)

    def fill(self, selector, text):
        """Types over a control's text."""
        self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.focus(); e.select(); }})()")
        self.call("Input.insertText", text=text) if text else self.run("document.execCommand('delete')")
        self.run(f"document.querySelector({json.dumps(selector)}).dispatchEvent(new Event('change', {{bubbles: true}}))")

    def click(self, selector):
        """Clicks with the mouse in the middle of an element, which must be on top there."""
        at = self.run(f"""(() => {{
            const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: "center"}});
            const {{x, y, width, height}} = e.getBoundingClientRect();
            const hit = document.elementFromPoint(x + width / 2, y + height / 2);
            return e.contains(hit) ? [x + width / 2, y + height / 2] : hit?.outerHTML;
        }})()""")
        assert isinstance(at, list), (selector, at)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)

    def screen(self, width, height=900, scheme="light"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def tree(self):
        """(role, name, description) of what a screen reader meets, in order."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        value = lambda node, member: node.get(member, {}).get("value", "")  # noqa: E731
        return [(value(n, "role"), value(n, "name"), value(n, "description")) for n in nodes if not n["ignored"]]


@contextmanager
def browsing(folder):
    """A tab. Without Chromium the test is skipped, in words."""
    if not PROGRAM:
        pytest.skip("chromium-headless-shell is not installed: scripts/setup browser installs it")
    tab = Tab(folder)
    try:
        yield tab
    finally:
        tab.close()
