"""Files that are damaged, become shorter or are written to while they are in use: every command ends
in an error that says so, hands out nothing wrong and leaves no output behind.

The moment of a change is decided by tests/fault/change.c, not by a clock: right after the k-th time
that the program asks for the file's state, for every k until it no longer matters."""

import os
import re
import shutil
import subprocess

import pytest
from internal import BUILD, DAMAGED, FILE, NO, OK, ROOT
from programs import assert_fails

PROMPT = "Once upon a time"
SMOLRUN, SMOLCONV = str(BUILD / "smolrun"), str(BUILD / "smolconv")


def run(command, **environment):
    return subprocess.run(
        list(map(str, command)), capture_output=True, stdin=subprocess.DEVNULL, timeout=120,
        env={**os.environ, **environment},
    )  # fmt: skip


# --- every command ------------------------------------------------------------------------------

RUN = {
    "generate": ("BLOB", PROMPT, "-n", 4, "--threads", 1),
    "three threads": ("BLOB", PROMPT, "-n", 3, "--threads", 3),
    "json": ("BLOB", PROMPT, "-n", 3, "--json"),
    "verify open": ("BLOB", PROMPT, "-n", 3, "--verify", "open"),
    "verify off": ("BLOB", PROMPT, "-n", 3, "--verify", "off"),
    "no-mmap": ("BLOB", PROMPT, "-n", 3, "--no-mmap"),
    "tokenize": ("tokenize", "BLOB", PROMPT),
    "tokenize no-mmap": ("tokenize", "BLOB", PROMPT, "--no-mmap"),
    "decode": ("tokenize", "BLOB", "--decode", "500 600 700"),
    "logits": ("logits", "BLOB", PROMPT, "-o", "OUT"),
    "logits no-mmap": ("logits", "BLOB", PROMPT, "-o", "OUT", "--no-mmap"),
    "bench": ("bench", "BLOB", "-p", 2, "-n", 2),
    "bench no-mmap": ("bench", "BLOB", "-p", 2, "-n", 2, "--no-mmap"),
}
CONVERT = {
    "verify": ("verify", "BLOB"),
    "inspect": ("inspect", "BLOB"),
    "pack": ("pack", "--quiet", "BLOB", "OUT"),
    "diff A": ("diff", "BLOB", "OTHER"),
    "diff B": ("diff", "OTHER", "BLOB"),
    "delta from": ("delta", "--quiet", "BLOB", "OTHER", "OUT"),
    "delta to": ("delta", "--quiet", "OTHER", "BLOB", "OUT"),
    "patch": ("patch", "BLOB", "DELTA", "OUT"),
    "verify with source": ("verify", "BLOB", "--source", "CHECKPOINT"),
}
SOURCE = {
    "convert": ("--quiet", "CHECKPOINT", "OUT"),
    "verify source": ("verify", "BLOB", "--source", "CHECKPOINT"),
}
SOURCE_FILES = (
    "model.safetensors", "config.json", "generation_config.json", "tokenizer.json",
    "tokenizer_config.json",
)  # fmt: skip
COMMANDS = [
    *(pytest.param(SMOLRUN, words, "BLOB", id=name) for name, words in RUN.items()),
    *(pytest.param(SMOLCONV, words, "BLOB", id=name) for name, words in CONVERT.items()),
    *(
        pytest.param(SMOLCONV, words, f"CHECKPOINT/{file}", id=f"{name}, {file}")
        for name, words in SOURCE.items()
        for file in SOURCE_FILES
    ),
    pytest.param(
        SMOLCONV, ("inspect", "CHECKPOINT/model.safetensors"), "CHECKPOINT/model.safetensors",
        id="inspect safetensors",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """A blob, another one, the way from one to the other, a checkpoint: never changed."""
    folder = tmp_path_factory.mktemp("material")
    checkpoint = folder / "CHECKPOINT"
    shutil.copytree(ROOT / "demo/model", checkpoint)
    defaults = checkpoint / "generation_config.json"
    text = defaults.read_text()
    defaults.write_text(text.replace("{", '{"temperature": 0.5,', 1))
    for command in (
        ("--quiet", checkpoint, folder / "OTHER"),
        ("--quiet", ROOT / "demo/model", folder / "BLOB"),
        ("delta", "--quiet", folder / "BLOB", folder / "OTHER", folder / "DELTA"),
    ):
        subprocess.run([SMOLCONV, *command], check=True)
    defaults.write_text(text)
    return folder


class Trial:
    """A command on copies of the material, one of which changes under it."""

    def __init__(self, tool, words, changed, material, folder):
        shutil.copytree(material, folder, dirs_exist_ok=True)
        names = {path.name for path in folder.iterdir()} | {"OUT", changed}
        self.command = [tool, *(folder / word if word in names else word for word in words)]
        self.pristine, self.changed, self.out = material / changed, folder / changed, folder / "OUT"
        self.names = {path.name for path in folder.iterdir()}
        undisturbed = run(self.command)
        assert undisturbed.returncode in (OK, NO) and undisturbed.stderr == b"", undisturbed
        self.status, self.good = undisturbed.returncode, self.results(undisturbed)

    def results(self, result):
        """Returns the output of a run, without figures of speed."""
        written = self.out.read_bytes() if self.out.exists() else None
        self.out.unlink(missing_ok=True)
        shown = b"" if "bench" in self.command else re.sub(b'"timings".*', b"", result.stdout)
        return shown, written

    def run(self, k, action, number):
        """Runs once, with a file whose time of modification differs from those of later ones."""
        shutil.copy(self.pristine, self.changed)
        os.utime(self.changed, (1, 1))
        return run(
            self.command, LD_PRELOAD=str(BUILD / "tests/change.so"), SMOL_SANDBOX="off",
            CHANGE=f"{k} {action} {number} {self.changed}",
        )  # fmt: skip

    def run_all(self, action, number, message):
        """One run after the other, the change later in each, until it comes too late. Returns how
        many there were."""
        for k in range(1, 200):
            result = self.run(k, action, number)
            stdout, written = self.results(result)
            if result.returncode == self.status:
                assert (stdout, written) == self.good
                return k
            if "--no-mmap" in self.command and k == 1:  # between a look at the header and the rest
                assert result.returncode in (FILE, DAMAGED)
            else:
                assert_fails(result, FILE, f"{self.changed.name}: ")
                assert re.search(message, result.stderr.decode()), result.stderr
            assert written is None
            assert {path.name for path in self.out.parent.iterdir()} == self.names
        pytest.fail("it never ends well")


SHORTER = (
    r"can no longer be read at offset \d+ \(it was truncated\): restore it and start again"
    r"|was truncated while being read"
)
WRITTEN = "was modified while (in use: start again|being read: try again)"


@pytest.mark.sample(6)
@pytest.mark.parametrize("tool, words, changed", COMMANDS)
def test_a_file_that_becomes_shorter_is_an_error(material, tmp_path, tool, words, changed):
    trial = Trial(tool, words, changed, material, tmp_path)
    size = trial.pristine.stat().st_size
    for left in (0, size // 3, size - 1):
        assert trial.run_all("cut", left, SHORTER) >= 2


@pytest.mark.sample(12)
@pytest.mark.parametrize("tool, words, changed", COMMANDS)
def test_a_file_that_is_written_to_is_an_error(material, tmp_path, tool, words, changed):
    trial = Trial(tool, words, changed, material, tmp_path)
    assert trial.run_all("flip", trial.pristine.stat().st_size // 3, WRITTEN) >= 2 or (
        "tokenize" in words and "--no-mmap" in words  # which has no use for that byte
    )
