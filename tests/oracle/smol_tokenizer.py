"""The tokenizer as its oracle tests use it: a tokenizer.json compiled by the converter, and used by
the runtime through the internal functions of both."""

import ctypes

from internal import OK, Error, Settings, lib
from structs import c_struct

PARSE_SPECIAL, WHOLE_TEXT = 1, 2  # enum encode_flag of runtime/tokenizer/tokenizer.h


Section = c_struct("convert/tokenizer/tokenizer.h", "tokenizer_section")
Pretokenizer = c_struct("convert/tokenizer/pretokenizer.h", "pretokenizer")
TokenList = c_struct("runtime/tokenizer/tokenizer.h", "token_list", ids=ctypes.POINTER(ctypes.c_uint32))
EncodeParams = c_struct("runtime/tokenizer/tokenizer.h", "encode_params")
TokenText = c_struct("runtime/tokenizer/tokenizer.h", "token_text", bytes=ctypes.POINTER(ctypes.c_char))
StreamText = c_struct("runtime/tokenizer/stream.h", "stream_text", text=ctypes.POINTER(ctypes.c_char))


pointer, size_t, u32, c_bool, text = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_bool, ctypes.c_char_p
)  # fmt: skip
for name, arguments in {
    "settings_open": [text, text, c_bool, pointer, pointer],
    "tokenizer_check_rules": [pointer, text, pointer, pointer],
    "tokenizer_rules_free": [pointer],
    "scanner_tables_open": [pointer, size_t, pointer, pointer],
    "tokenizer_compile": [pointer, text, pointer, u32, pointer, pointer],
    "text_tables_open": [pointer, size_t, pointer, pointer],
    "tokenizer_tables_open": [pointer, size_t, u32, pointer, pointer, pointer],
    "tokenizer_encode": [pointer, text, size_t, pointer, pointer, pointer],
    "tokenizer_text": [pointer, u32],
    "stream_create": [pointer, size_t, pointer, pointer],
    "stream_token": [pointer, pointer, u32, c_bool, pointer, pointer],
    "stream_finish": [pointer, pointer, pointer],
    "stream_free": [pointer],
}.items():
    getattr(lib, "smol_" + name).argtypes = arguments
lib.smol_tokenizer_text.restype = TokenText
libc = ctypes.CDLL(None)
libc.free.argtypes = [ctypes.c_void_p]

# room for struct tokenizer_rules, text_tables and tokenizer_tables, of which only the addresses
# are used here
ROOM = 8192
SCANNER = 120  # where in struct tokenizer_tables the struct scanner_tables lies


def import_json(path, vocab_size):
    """The sections' bytes, tokenizer, text and scanner; a refusal is raised as (status, message)."""
    section, rules = Section(), ctypes.create_string_buffer(ROOM)
    json_file, error = Settings(), Error()
    status = lib.smol_settings_open(
        str(path.parent).encode(), path.name.encode(), True, ctypes.byref(json_file),
        ctypes.byref(error),
    )  # fmt: skip
    if status == OK:
        status = lib.smol_tokenizer_check_rules(
            json_file.object, json_file.path, rules, ctypes.byref(error)
        )
    if status == OK:
        status = lib.smol_tokenizer_compile(
            json_file.object, json_file.path, rules, vocab_size, ctypes.byref(section),
            ctypes.byref(error),
        )  # fmt: skip
    lib.smol_settings_close(ctypes.byref(json_file))
    data = ctypes.string_at(section.data, section.size) if status == OK else b""
    text_data = ctypes.string_at(section.text.data, section.text.size) if status == OK else b""
    pretokenizer = Pretokenizer.from_buffer(rules)  # which the rules start with
    scanner = ctypes.string_at(pretokenizer.scanner.data, pretokenizer.scanner.size)
    lib.smol_tokenizer_rules_free(rules)
    lib.smol_tokenizer_section_free(ctypes.byref(section))
    if status != OK:
        assert error.status == status
        raise ValueError(status, str(error))
    return data, text_data, scanner


def aligned(data):
    """A copy at a multiple of 64: what owns it, and its address."""
    buffer = ctypes.create_string_buffer(len(data) + 64)
    address = (ctypes.addressof(buffer) + 63) // 64 * 64
    ctypes.memmove(address, data, len(data))
    return buffer, address


class Smol:
    """A tokenizer.json as smol reads it."""

    def __init__(self, path, vocab_size=1 << 20):
        self.data, self.text_data, self.scanner_data = import_json(path, vocab_size)
        self.buffer, address = aligned(self.data)
        self.text_buffer, text_address = aligned(self.text_data)
        self.rules, self.tables = (ctypes.create_string_buffer(ROOM) for _ in range(2))
        error = Error()
        if self.text_data:
            status = lib.smol_text_tables_open(
                text_address, len(self.text_data), self.rules, ctypes.byref(error)
            )
            assert status == OK, error
        status = lib.smol_tokenizer_tables_open(
            address, len(self.data), vocab_size, self.rules if self.text_data else None,
            self.tables, ctypes.byref(error),
        )  # fmt: skip
        assert status == OK, error
        if self.scanner_data:
            self.scanner_buffer, place = aligned(self.scanner_data)
            status = lib.smol_scanner_tables_open(
                place, len(self.scanner_data), ctypes.byref(self.tables, SCANNER), ctypes.byref(error)
            )
            assert status == OK, error
        self.n_tokens = ctypes.c_uint32.from_address(address).value
        texts = [lib.smol_tokenizer_text(self.tables, i) for i in range(self.n_tokens)]
        self.texts = [ctypes.string_at(t.bytes, t.length) for t in texts]

    def encode(self, text, flags=PARSE_SPECIAL):
        data = text if isinstance(text, bytes) else text.encode()
        out, error = TokenList(), Error()
        status = lib.smol_tokenizer_encode(
            self.tables, data, len(data), ctypes.byref(EncodeParams(flags)), ctypes.byref(out),
            ctypes.byref(error),
        )  # fmt: skip
        assert status == OK, error
        ids = out.ids[: out.n]
        libc.free(out.ids)
        return ids

    def pieces(self, ids, skip_special):
        """The text of the ids as it is streamed: what each brings, then what was held back."""
        stream, out, error = ctypes.c_void_p(), StreamText(), Error()
        assert lib.smol_stream_create(None, 0, ctypes.byref(stream), ctypes.byref(error)) == OK
        pieces = []
        for i in ids:
            status = lib.smol_stream_token(
                stream, self.tables, i, not skip_special, ctypes.byref(out), ctypes.byref(error)
            )
            assert status == OK, error
            pieces.append(ctypes.string_at(out.text, out.size))
        assert lib.smol_stream_finish(stream, ctypes.byref(out), ctypes.byref(error)) == OK, error
        pieces.append(ctypes.string_at(out.text, out.size))
        lib.smol_stream_free(stream)
        return [piece.decode() for piece in pieces]  # each is whole characters

    def decode(self, ids, skip_special):
        return "".join(self.pieces(ids, skip_special))
