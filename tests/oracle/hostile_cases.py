"""Bad files, and the exit status and words that each must get. See hostile.py."""

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "demo/model"
OK, USAGE, FILE, DAMAGED, UNSUPPORTED, MEMORY, NUMERIC = 0, 2, 3, 4, 5, 6, 7
GIB = 1 << 30


@dataclass(frozen=True)
class Sparse:
    """A file of `size` bytes that begins with `head`; the rest is a hole."""

    head: bytes
    size: int


@dataclass(frozen=True)
class Case:
    name: str
    content: object  # bytes, Sparse, or a function without arguments that makes one of them
    status: object = DAMAGED  # or a tuple: of each program that is run
    words: tuple = ()

    def make(self):
        return self.content() if callable(self.content) else self.content

    @property
    def strictest(self):
        """The exit status of programs that look at everything, such as verify."""
        return self.status[0] if isinstance(self.status, tuple) else self.status


def shortened(content):
    """The bytes of a content, a megabyte of them if it is sparse."""
    return content.head.ljust(1 << 20, b"\0") if isinstance(content, Sparse) else content


def write(path, content):
    if isinstance(content, Sparse):
        path.write_bytes(content.head)
        os.truncate(path, content.size)
    else:
        path.write_bytes(content)
