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


class Local:
    """An object that belongs to its process and is not pickled."""

    def __reduce__(self) -> Any:
        raise UsageError(f"a {type(self).__name__} cannot be pickled, because it belongs to its process: create one in each")


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


class Turn:
    """Lets one thread at a time use an object, and refuses others instead of letting them wait: a signal handler that
    waited for the thread below it would wait for ever."""

    def __init__(self, what: str):
        self._what = what
        self._lock = threading.Lock()

    def take(self) -> bool:
        return self._lock.acquire(blocking=False)

    def give(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        if not self.take():
            raise UsageError(f"the {self._what} is in use, by another thread or task or an interrupted call: use one for each")

    def __exit__(self, *_: Any) -> None:
        self.give()


class Handle:
    """Owns a pointer that `free` frees: when it is closed, or no longer referred to, and nothing made from it or using it
    remains.

    `with handle as pointer` is for calls during which other threads run: one of them may close the handle."""

    def __init__(self, pointer: int, free: Callable[[int], Any], *made_from: Handle, forks: bool = True):
        self._pointer = pointer
        self._free = free
        self._made_from = made_from
        self._forks = forks
        self._process = _process
        self._users = 1  # itself, those made from it, and calls
        self._closed = False
        with _lock:
            for one in made_from:
                one._users += 1

    @property
    def pointer(self) -> int:
        if self._closed:
            raise UsageError("the object was closed: open it again")
        if not self.usable:
            raise UsageError("the object belongs to the process that this one was forked from: create it again")
        return self._pointer

    @property
    def here(self) -> bool:
        """Whether this process may use and free it."""
        return self._forks or self._process == _process

    @property
    def usable(self) -> bool:
        return not self._closed and self.here

    def __enter__(self) -> int:
        with _lock:
            pointer = self.pointer
            self._users += 1
        return pointer

    def __exit__(self, *_: Any) -> None:
        self._drop()

    def _drop(self) -> None:
        with _lock:
            self._users -= 1
            last = self._users == 0
        if last:
            if self.here:
                self._free(self._pointer)
            for one in self._made_from:
                one._drop()

    def close(self) -> None:
        """May be called again."""
        with _lock:
            first, self._closed = not self._closed, True
        if first:
            self._drop()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()
