"""The package's reading of smol.h and of its own C header, compared with the headers by a compiler."""

import ctypes
import re
import subprocess

import package  # noqa: F401
import pytest
from internal import ROOT
from smolrun import _library, _smol_h

pytestmark = pytest.mark.quick

# C types of arguments and results, as ctypes passes them
PLAIN = {"void": None, "int": ctypes.c_int, "size_t": ctypes.c_size_t, "uint32_t": ctypes.c_uint32, "double": ctypes.c_double,
         "uint64_t": ctypes.c_uint64}  # fmt: skip
POINTERS = (ctypes.c_void_p, ctypes.c_char_p)


def declarations(header):
    """{function: (result, [argument])} of a header, types without names."""
    text = re.sub(r"/\*.*?\*/", " ", (ROOT / header).read_text(), flags=re.S)
    found = {}
    for result, name, arguments in re.findall(r"SMOL_API ([\w ]+[ *])(\w+)\(([^)]*)\);", text):
        arguments = [] if arguments.strip() == "void" else arguments.split(",")
        found[name] = (result.strip(), [re.sub(r"\w+$", "", " ".join(word.split())).strip() for word in arguments])
    return found


def same(c_type, python_type):
    c_type = c_type.removeprefix("const ")
    if "*" in c_type:
        return python_type in POINTERS or issubclass(python_type, ctypes._Pointer)
    if c_type in PLAIN:
        return python_type is PLAIN[c_type]
    if c_type in _smol_h.STRUCTS:
        return python_type is _smol_h.STRUCTS[c_type]
    return python_type is (ctypes.c_int if c_type in ("smol_status", "smol_pooling", "smol_reply", "smol_tool_part") else _smol_h.ON_TOOL_PART)


@pytest.mark.parametrize("module, header", [(_smol_h, "smol.h"), (_library, "python/collector.h")], ids=["smol.h", "collector.h"])
def test_functions_have_the_types_of_the_header(module, header):
    declared = declarations(header)
    assert len(declared) >= len(module.FUNCTIONS) > 7
    for name, (result, arguments) in module.FUNCTIONS.items():
        c_result, c_arguments = declared[name]
        assert same(c_result, result), (name, c_result)
        # the only callback that is passed as such is smol_on_tool_part *
        for c_argument, argument in zip(c_arguments, arguments, strict=True):
            assert same(c_argument, argument) or argument is _smol_h.ON_TOOL_PART, (name, c_argument)


def assertions():
    for name, struct in {**_smol_h.STRUCTS, **_library.STRUCTS}.items():
        yield f"sizeof({name}) == {ctypes.sizeof(struct)}"
        for field, *_ in struct._fields_:
            place = getattr(struct, field)
            yield f"offsetof({name}, {field}) == {place.offset}"
            yield f"sizeof((({name} *)0)->{field}) == {place.size}"
    for prefix, constants in _smol_h.ENUMS.items():
        for constant, value in constants.items():
            yield f"{prefix}{constant} == {value}"
    yield f"SMOL_NO_TOKEN == {_smol_h.NO_TOKEN}"


def compiled(lines):
    code = "#include <stddef.h>\n#include \"python/collector.h\"\n" + "\n".join(lines)
    command = ["cc", "-std=c11", f"-I{ROOT}", "-fsyntax-only", "-x", "c", "-"]
    return subprocess.run(command, input=code, text=True, capture_output=True, timeout=60)


def test_structs_and_constants_are_those_of_the_headers():
    lines = [f'_Static_assert({line}, "{line}");' for line in assertions()]
    result = compiled(lines)
    assert result.returncode == 0, result.stderr
    wrong = compiled([*lines, "_Static_assert(sizeof(smol_error) == 1, \"\");"])
    assert wrong.returncode != 0  # the assertions are looked at


def test_every_struct_of_the_header_that_is_used_is_complete():
    """A member that the header has and the package lacks would shift nothing, because `reserved` shrinks: names tell."""
    text = re.sub(r"/\*.*?\*/", " ", (ROOT / "smol.h").read_text(), flags=re.S)
    for name, struct in _smol_h.STRUCTS.items():
        (body,) = re.findall(r"typedef struct %s \{([^}]*)\}" % name, text)
        members = re.findall(r"(\w+)(?:\[\w+\])?\s*[,;]", body)
        assert members == [field for field, *_ in struct._fields_], name


def test_every_status_has_an_exception():
    from smolrun import SmolError, errors

    assert set(errors.CLASSES) == set(_smol_h.STATUS.values()) - {0}
    assert all(issubclass(one, SmolError) and one.__doc__ for one in errors.CLASSES.values())
    assert len({one.code for one in errors.CLASSES.values()}) == len(errors.CLASSES)
