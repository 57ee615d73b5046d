"""Exceptions: one class for each smol_status, all of them a SmolError."""

from __future__ import annotations

from ._smol_h import STATUS, Error


class SmolError(Exception):
    """Any failure of the library or of a program of the package. `code` is the word that smolrun's answers use."""

    code = "error"


class UsageError(SmolError, ValueError):
    """Invalid arguments. Nothing was changed."""

    code = "usage"


class FileError(SmolError, OSError):
    """A file is missing, unreadable, unwritable, or changed while it was in use."""

    code = "file"


class DamagedError(SmolError):
    """A blob or session is damaged, breaks its format, or does not have the digest that it must have."""

    code = "damaged"


class UnsupportedError(SmolError):
    """Well-formed, but not supported by this release."""

    code = "unsupported"


class OutOfMemoryError(SmolError, MemoryError):
    """Out of memory."""

    code = "memory"


class NumericError(SmolError, ArithmeticError):
    """NaN or infinity in activations or logits."""

    code = "numeric"


class ContextFullError(SmolError):
    """There is no room for the tokens."""

    code = "context_full"


class CancelledError(SmolError):
    """A call was cancelled that has no partial result."""

    code = "cancelled"


class MismatchError(SmolError):
    """Two files differ, or a model did not come from the checkpoint."""

    code = "mismatch"


CLASSES: dict[int, type[SmolError]] = {
    STATUS["ERROR_MISMATCH"]: MismatchError,
    STATUS["ERROR_USAGE"]: UsageError,
    STATUS["ERROR_FILE"]: FileError,
    STATUS["ERROR_DAMAGED"]: DamagedError,
    STATUS["ERROR_UNSUPPORTED"]: UnsupportedError,
    STATUS["ERROR_MEMORY"]: OutOfMemoryError,
    STATUS["ERROR_NUMERIC"]: NumericError,
    STATUS["ERROR_CONTEXT_FULL"]: ContextFullError,
    STATUS["ERROR_CANCELLED"]: CancelledError,
}


def from_status(status: int, message: str) -> SmolError:
    """Returns the exception for a status of the library, or an exit status of a program, which has the same numbers."""
    return CLASSES.get(status, SmolError)(message)


def check(status: int, error: Error) -> None:
    """Raises the exception for `status`, unless it is SMOL_OK."""
    if status:
        raise from_status(status, str(error))
