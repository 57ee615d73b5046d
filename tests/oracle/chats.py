"""Chat templates through smol, and through the reference: for the oracle tests to compare.

smol's side calls the compiler (convert/template/template_compiler.h) and the machine (runtime/chat.h) in the
internal library; the reference is transformers' own render_jinja_template, given the values that
apply_chat_template would give it."""

import ctypes
import json
import time

from internal import OK, Error, lib
from structs import c_struct
from transformers.utils.chat_template_utils import render_jinja_template

Token = c_struct("convert/template/template_compiler.h", "template_token")
Text = c_struct("convert/template/template_compiler.h", "template_text")
Input = c_struct("convert/template/template_compiler.h", "template_input", tokens=ctypes.POINTER(Token))
Section = c_struct("convert/template/template_compiler.h", "template_section", data=ctypes.POINTER(ctypes.c_uint8))


class Tm(ctypes.Structure):
    """struct tm of <time.h>, with room for what a C library adds."""

    _fields_ = [
        (name, ctypes.c_int)
        for name in "tm_sec tm_min tm_hour tm_mday tm_mon tm_year tm_wday tm_yday tm_isdst".split()
    ] + [("more", ctypes.c_uint8 * 64)]


ChatParams = c_struct("smol.h", "smol_chat_params", now=ctypes.POINTER(Tm))
ChatText = c_struct(
    "smol.h", "smol_chat_text", text=ctypes.POINTER(ctypes.c_char), from_conversation=ctypes.POINTER(ctypes.c_uint8)
)


class Refused(Exception):
    """The template, or smol, refuses."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


NOW = time.struct_time((2026, 11, 9, 7, 5, 3, 0, 313, 0))  # a Monday
libc = ctypes.CDLL(None)
libc.free.argtypes = [ctypes.c_void_p]


def compile_template(source, tokens=None, name="default", tools=None):
    """The section's bytes, and why there is no code in it or None. `tools`: what counts where there are tools."""
    tokens = tokens or {}
    array = (Token * len(tokens))(*[(k.encode(), v.encode()) for k, v in tokens.items()])
    text = source.encode() if isinstance(source, str) else source
    plain, with_tools = Text(name.encode(), text, len(text)), Text(b"tool_use", None, 0)
    if tools is not None:
        with_tools = Text(b"tool_use", tools.encode(), len(tools.encode()))
    given = Input(name.encode(), plain, with_tools, array, len(tokens))
    section, reason, error = Section(), ctypes.c_char_p(), Error()
    status = lib.smol_template_compile(
        ctypes.byref(given), ctypes.byref(section), ctypes.byref(reason), ctypes.byref(error)
    )
    assert status == OK, str(error)
    data = bytes(section.data[: section.size])
    why = reason.value.decode() if reason.value is not None else None
    libc.free(section.data)
    return data, why


def open_section(data):
    """(status, message, struct template_code, what must stay alive)."""
    room = ctypes.create_string_buffer(len(data) + 64)
    start = (-ctypes.addressof(room)) % 64
    ctypes.memmove(ctypes.addressof(room) + start, data, len(data))
    code, error = ctypes.create_string_buffer(256), Error()
    status = lib.smol_template_open(
        ctypes.c_void_p(ctypes.addressof(room) + start), ctypes.c_size_t(len(data)), code,
        ctypes.byref(error),
    )  # fmt: skip
    return status, str(error), code, room


def as_json(value):
    return None if value is None else json.dumps(value, ensure_ascii=False).encode()


def chat_params(messages, tools=None, documents=None, variables=None, add_generation_prompt=False,
                now=NOW, parse_arguments=False, continue_final_message=False):  # fmt: skip
    clock = Tm(now.tm_sec, now.tm_min, now.tm_hour, now.tm_mday, now.tm_mon - 1, now.tm_year - 1900)
    return ChatParams(
        None, 0, as_json(messages), as_json(tools), as_json(documents), as_json(variables),
        add_generation_prompt, ctypes.pointer(clock), parse_arguments=parse_arguments,
        continue_final_message=continue_final_message,
    )  # fmt: skip


def render(section, *arguments, **named):
    """(text, marks) of a conversation; Refused."""
    params = chat_params(*arguments, **named)
    status, message, code, alive = open_section(section)
    if status != OK:
        raise Refused(status, message)
    text, error = ChatText(), Error()
    status = lib.smol_chat_run(
        code, ctypes.byref(params), ctypes.byref(text), ctypes.byref(error)
    )
    if status != OK:
        raise Refused(status, str(error))
    result = ctypes.string_at(text.text, text.size).decode()
    marks = bytes(text.from_conversation[: text.size])
    lib.smol_chat_text_free(ctypes.byref(text))
    return result, marks


def chat_ids(model, messages, add_generation_prompt=True, **named):
    """The ids that a model (its handle) is asked for its answer to a conversation; Refused."""
    params = chat_params(messages, add_generation_prompt=add_generation_prompt, **named)
    error = Error()
    ids, n = ctypes.POINTER(ctypes.c_uint32)(), ctypes.c_size_t()
    status = lib.smol_chat_tokenize(
        model, ctypes.byref(params), ctypes.byref(ids), ctypes.byref(n), ctypes.byref(error)
    )
    if status != OK:
        raise Refused(status, str(error))
    result = ids[: n.value]
    lib.smol_free(ids)
    return result


def reference(source, tokens, messages, tools=None, documents=None, variables=None,
              add_generation_prompt=False, continue_final_message=False):  # fmt: skip
    """Renders a conversation with transformers, and passes its exceptions on."""
    messages = [{k: v for k, v in message.items() if v is not None} for message in messages]
    rendered, _ = render_jinja_template(
        conversations=[messages], tools=tools, documents=documents, chat_template=source,
        add_generation_prompt=add_generation_prompt, continue_final_message=continue_final_message,
        **{**(tokens or {}), **(variables or {})},
    )  # fmt: skip
    return rendered[0]
