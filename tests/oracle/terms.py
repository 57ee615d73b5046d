"""Terms of runtime/constrain, through ctypes: which texts they allow."""

import ctypes
import json

from internal import OK, Error, lib
from structs import c_struct

term = ctypes.c_uint32
table = ctypes.c_void_p
text_args = [table, ctypes.c_char_p, ctypes.c_size_t]
lib.smol_terms_free.argtypes = [table]
lib.smol_terms_free.restype = None
lib.smol_terms_root.argtypes = [table]
lib.smol_terms_root.restype = term
lib.smol_term_after.argtypes = [table, term, ctypes.c_uint8]
lib.smol_term_after.restype = term
lib.smol_term_may_end.argtypes = [table, term]
lib.smol_term_may_end.restype = ctypes.c_bool
lib.smol_terms_finish.argtypes = [table, term, ctypes.c_void_p]
lib.smol_terms_status.argtypes = [table, ctypes.c_void_p]
lib.smol_regex_term.argtypes = [*text_args, ctypes.c_int, *[ctypes.c_void_p] * 4]
lib.smol_schema_term.argtypes = [*text_args, *[ctypes.c_void_p] * 3]
lib.smol_grammar_term.argtypes = [*text_args, *[ctypes.c_void_p] * 2]
lib.smol_choices_term.argtypes = [*text_args, *[ctypes.c_void_p] * 2]
WHOLE, SEARCH = range(2)


class Refused(Exception):
    """A status other than OK, with its message."""


class Terms:
    """A settled table, made by `build`: a function of the table, the address of a term and an error."""

    def __init__(self, build):
        self.table, root, error = table(), term(), Error()
        assert OK == lib.smol_terms_create(ctypes.byref(self.table), ctypes.byref(error))
        status = build(self.table, ctypes.byref(root), ctypes.byref(error))
        if status == OK:
            status = lib.smol_terms_finish(self.table, root, ctypes.byref(error))
        if status != OK:
            assert error.status == status and str(error)
            raise Refused(str(error))
        self.root = lib.smol_terms_root(self.table)

    def __del__(self):
        lib.smol_terms_free(self.table)

    def after(self, data: bytes, at=None):
        """Returns the term that remains after `data`, 0 if none can follow."""
        at = self.root if at is None else at
        for byte in data:
            at = lib.smol_term_after(self.table, at, byte)
            if at == 0:
                assert lib.smol_terms_status(self.table, None) == OK
                break
        return at

    def allows(self, text) -> bool:
        data = text if isinstance(text, bytes) else text.encode()
        return bool(lib.smol_term_may_end(self.table, self.after(data)))


def regex(pattern, anchoring=WHOLE):
    data = pattern if isinstance(pattern, bytes) else pattern.encode()
    character = ctypes.cast(lib.smol_utf8_term, ctypes.c_void_p)
    return Terms(
        lambda t, root, error: lib.smol_regex_term(
            t, data, len(data), anchoring, character, None, root, error
        )
    )


def grammar(text):
    data = text if isinstance(text, bytes) else text.encode()
    return Terms(lambda t, root, error: lib.smol_grammar_term(t, data, len(data), root, error))


def choices(*texts):
    data = json.dumps(texts).encode()
    return Terms(lambda t, root, error: lib.smol_choices_term(t, data, len(data), root, error))


SchemaOptions = c_struct("runtime/constrain/front_ends.h", "schema_options")


COMPACT, SPACED, INDENTED = range(3)


def schema(value, white_space=COMPACT, any_order=False):
    data = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
    options = SchemaOptions(white_space, any_order)
    return Terms(
        lambda t, root, error: lib.smol_schema_term(
            t, data, len(data), ctypes.byref(options), root, error
        )
    )
