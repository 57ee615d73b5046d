"""Objects of the library: freed once, in the right order, and not after a fork.

A child process has no threads but the one that forked, so a context from before the fork could never be evaluated or
freed there: both would wait for its threads. A handle knows in which process it was made. In a child, contexts are
forgotten (their memory is shared with the parent until it is written) and refused; models and what never has threads
remain usable."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from .errors import UsageError

# Guards counts of users. Held while a process forks, so that no child finds it taken.
_lock = threading.RLock()
_process = 0  # raised in each child


def _in_child() -> None:
    global _lock, _process
    _lock = threading.RLock()
    _process += 1


os.register_at_fork(before=lambda: _lock.acquire(), after_in_parent=lambda: _lock.release(), after_in_child=_in_child)


def process() -> int:
    """Returns a number that differs between a process and its children."""
    return _process


class Handle:
    """Owns a pointer that `free` frees: when it is closed, or no longer referred to, and nothing made from it remains."""

    def __init__(self, pointer: int, free: Callable[[int], Any], made_from: Handle | None = None, forks: bool = True):
        self._pointer = pointer
        self._free = free
        self._made_from = made_from
        self._forks = forks
        self._process = _process
        self._users = 1  # itself, and those made from it
        self._closed = False
        if made_from is not None:
            with _lock:
                made_from._users += 1

    @property
    def pointer(self) -> int:
        if self._closed:
            raise UsageError("the object was closed: open it again")
        if not self.usable:
            raise UsageError("the object is of the process that this one was forked from: make it anew")
        return self._pointer

    @property
    def usable(self) -> bool:
        return not self._closed and (self._forks or self._process == _process)

    def _drop(self) -> None:
        with _lock:
            self._users -= 1
            last = self._users == 0
        if last:
            if self._forks or self._process == _process:
                self._free(self._pointer)
            if self._made_from is not None:
                self._made_from._drop()

    def close(self) -> None:
        """May be called again."""
        with _lock:
            first, self._closed = not self._closed, True
        if first:
            self._drop()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()
