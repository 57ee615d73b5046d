"""Structs of the project's headers as ctypes sees them, read from the headers, so that no test repeats their fields."""

import ctypes
import functools
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PLAIN = {
    "char": ctypes.c_char, "int": ctypes.c_int, "unsigned": ctypes.c_uint, "unsigned char": ctypes.c_ubyte, "long": ctypes.c_long, "long int": ctypes.c_long,
    "float": ctypes.c_float, "double": ctypes.c_double, "_Bool": ctypes.c_bool, "size_t": ctypes.c_size_t, "time_t": ctypes.c_long,
    "int8_t": ctypes.c_int8, "uint8_t": ctypes.c_uint8, "int16_t": ctypes.c_int16, "uint16_t": ctypes.c_uint16,
    "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
}  # fmt: skip
DECLARATION = re.compile(r"(?P<type>(?:const |struct |enum )*(?:unsigned (?:char|long)|\w+))\b\s*(?P<names>.*)", re.S)


@functools.cache
def preprocessed(header):
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", "-E", "-P", f"-I{ROOT}", ROOT / header]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@functools.cache
def constants(header):
    """The enumerators."""
    values = {}
    for body in re.findall(r"\benum \w*\s*{([^}]*)}", preprocessed(header)):
        last = -1
        for item in filter(None, (item.strip() for item in body.split(","))):
            name, _, value = item.partition("=")
            last = values[name.strip()] = evaluate(value, values) if value else last + 1
    return values


def evaluate(expression, values):
    return int(eval(re.sub(r"\b(0x[0-9a-f]+|\d+)u?l*\b", r"\1", " ".join(expression.split()), flags=re.I).replace("/", "//"), {}, values))


def fields(header, body):
    for line in filter(None, (line.strip() for line in body.split(";"))):
        match = DECLARATION.match(line.replace("_Atomic ", ""))
        kind = match["type"].removeprefix("const ")
        for name in match["names"].split(",") if "(" not in line else [match["names"]]:
            if "(" in name or "*" in name:
                found = ctypes.c_char_p if kind == "char" and name.count("*") == 1 else ctypes.c_void_p
            elif kind.startswith("struct "):
                found = c_struct(header, kind.removeprefix("struct "))
            else:
                found = ctypes.c_int if kind.startswith("enum ") else plain(header, kind)
            for size in reversed(re.findall(r"\[([^]]*)\]", name)):
                found = found * evaluate(size, constants(header))
            yield re.search(r"(\w+)\s*(\[|\)|$)", name.strip())[1], found


def plain(header, name):
    """The type of a name that is no `struct`."""
    text = preprocessed(header)
    if name in PLAIN:
        return PLAIN[name]
    if re.search(rf"\bstruct {name}\s*{{", text):
        return c_struct(header, name)
    if re.search(rf"\btypedef enum [^;]*\b{name};", text):
        return ctypes.c_int
    return plain(header, re.search(rf"\btypedef ([\w ]*?)\s+{name};", text)[1])


@functools.cache
def c_struct(header, name, **types):
    """The class of `struct name`, which the header or one that it includes defines. A pointer to char is a c_char_p,
    other pointers are a c_void_p, unless `types` has another type for a field. A union without a name is its first member,
    which must be as large as the others."""
    text = re.sub(r"\bunion\s*{([^;{}]*;)[^{}]*}\s*;", r"\1", preprocessed(header))
    (body,) = re.findall(rf"\bstruct {name}\s*{{([^}}]*)}}", text)
    found = [(field, types.get(field, kind)) for field, kind in fields(header, body)]
    return type(name, (ctypes.Structure,), {"_fields_": found})
