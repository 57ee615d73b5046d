"""Checkpoints in shards whose index is not to be believed."""

import functools
import json
import struct

from hostile_cases import DAMAGED, DEMO, FILE, GIB, OK, UNSUPPORTED, Case, Sparse, write
from hostile_json import INDEX
from hostile_safetensors import assemble

SHARDS = []
ONE, TWO = (f"model-0000{i}-of-00002.safetensors" for i in (1, 2))


@functools.cache
def demo_tensors():
    """name: (description, bytes) of the bundled model's tensors."""
    raw = (DEMO / "model.safetensors").read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    entries = json.loads(raw[8 : 8 + size])
    entries.pop("__metadata__", None)
    spans = {name: [8 + size + at for at in entry["data_offsets"]] for name, entry in entries.items()}
    return {name: (entry, raw[spans[name][0] : spans[name][1]]) for name, entry in entries.items()}


def safetensors_of(names):
    texts, data = [], b""
    for name in names:
        entry, content = demo_tensors()[name]
        place = [len(data), len(data) + len(content)]
        texts.append(f"{json.dumps(name)}:{json.dumps({**entry, 'data_offsets': place})}")
        data += content
    return assemble(("{" + ",".join(texts) + "}").encode(), data)


class Sharded:
    """The bundled model in two shards, to be spoiled."""

    def __init__(self):
        names = list(demo_tensors())
        self.parts = {ONE: names[:7], TWO: names[7:]}
        self.files = {}  # others, or other contents
        self.links = {}
        self.map = {name: file for file, part in self.parts.items() for name in part}
        self.metadata = {"total_size": sum(len(data) for _, data in demo_tensors().values())}

    def write(self, folder):
        for file, names in self.parts.items():
            write(folder / file, safetensors_of(names))
        for file, content in self.files.items():
            write(folder / file, content)
        for file, target in self.links.items():
            (folder / file).symlink_to(target)
        if INDEX not in self.files:
            index = {"metadata": self.metadata, "weight_map": self.map}
            write(folder / INDEX, json.dumps(index).encode())


def sharded(name, change, *words, status=DAMAGED):
    def content():
        checkpoint = Sharded()
        change(checkpoint)
        return checkpoint

    SHARDS.append(Case(name, content, status, words))


def put(attribute, value):
    return lambda s: setattr(s, attribute, value)


def in_map(value):
    return lambda s: s.map.update({s.parts[ONE][0]: value})


def in_file(name, content):
    return lambda s: s.files.update({name: content})


def second(name, link=None):
    """The second shard has this name, and is not there, or a link to something."""

    def change(s):
        s.map.update(dict.fromkeys(s.parts.pop(TWO), name))
        if link:
            s.links[name] = link

    return change


def duplicate_key(s):
    """Writes the index by hand, because no JSON library writes a key twice."""
    pair = f'{json.dumps(s.parts[ONE][0])}: "{TWO}"'
    s.files[INDEX] = f'{{"weight_map": {{{pair}, {json.dumps(s.map)[1:]}}}'.encode()


sharded("two shards", lambda s: None, status=OK)
sharded("no total", put("metadata", {}), status=OK)
sharded("no metadata", put("metadata", None), status=OK)
sharded("a total with a point", lambda s: s.metadata.update(total_size=float(s.metadata["total_size"])),
        status=OK)  # fmt: skip
for value in (None, [], {}, "x", 1):
    sharded(f"weight_map {value!r} [type]", put("map", value), INDEX, "weight_map")
for value in (None, 1, [ONE], {}, "", ".", "..", ".safetensors/", "model.bin", "/etc/passwd"):
    sharded(f"a tensor in {value!r} [type]", in_map(value), INDEX, ".safetensors file in the same folder")
for value in (f"../{ONE}", f"/tmp/{ONE}", f"./{ONE}", f"a/{ONE}", f"..\\{ONE}", f"C:\\{ONE}"):
    sharded(f"a tensor in {value} [alias]", in_map(value), INDEX, ".safetensors file in the same folder")
sharded("a name of a megabyte [length]", second("x" * 10**6 + ".safetensors"), "xxx", status=FILE)
sharded("a shard that there is not", second("other.safetensors"), "other.safetensors", status=FILE)
sharded("a shard that is missing", second(TWO), TWO, status=FILE)
sharded("a shard that is a folder", second(TWO, "/"), "a folder", status=FILE)
sharded("a link that leads nowhere", second(TWO, "x"), TWO, status=FILE)
sharded("the index lacks a shard", lambda s: s.map.update(dict.fromkeys(s.map, ONE)), INDEX,
        "lists 1 shards")  # fmt: skip
sharded("a shard of another series", in_map("model-00001-of-00003.safetensors"), "lists 3 shards")
sharded("a shard that is left over", in_file("model-00003-of-00002.safetensors", assemble(b"{}", b"")),
        "model-00003-of-00002.safetensors", "not listed")  # fmt: skip
sharded("513 shards", lambda s: s.map.update({f"t{i}": f"{i}.safetensors" for i in range(600)}),
        "more than 512", status=UNSUPPORTED)  # fmt: skip
sharded("a million shards", lambda s: s.map.update({f"t{i}": f"{i}.safetensors" for i in range(10**6)}),
        "more than 512", status=UNSUPPORTED)  # fmt: skip
sharded("a tensor that its shard lacks", lambda s: s.parts[TWO].pop(), "is missing: config.json calls for it")
sharded("a tensor that no shard has", lambda s: s.map.update({"x" * 10**6: ONE}), status=OK)
sharded("a tensor in another shard", lambda s: s.map.update({s.parts[ONE][0]: TWO}), status=OK)
sharded("a tensor that is in no place", lambda s: s.map.pop(s.parts[TWO][0]), status=OK)
sharded("a tensor in two shards", lambda s: s.parts[TWO].append(s.parts[ONE][0]), "appears twice", ONE, TWO)
sharded("a tensor twice in a shard", lambda s: s.parts[TWO].append(s.parts[TWO][0]), "appears twice", TWO)
sharded("a shard under two names", second("x.safetensors", ONE), "appears twice")
sharded("a tensor twice in the index", duplicate_key, "not valid JSON", "duplicate")
for value in (0, -1, 10**30, 0.5, "1", [], {}, True, 2**63 - 1, 1e300):
    sharded(f"total_size {value!r} [53630]", put("metadata", {"total_size": value}), status=OK)
for value in ([], "x", 1):
    sharded(f"metadata {value!r} [type]", put("metadata", value), status=OK)
sharded("a shard cut off", lambda s: s.files.update({TWO: safetensors_of(s.parts[TWO])[:-1]}), TWO, "truncated")
sharded("a shard that is empty", in_file(ONE, b""), ONE, "empty")
sharded("a shard that is a GGUF file", in_file(ONE, b"GGUF" + bytes(60)), ONE, "GGUF", status=UNSUPPORTED)
sharded("a gibibyte of nothing for a shard", in_file(ONE, Sparse(b"", GIB)), ONE, "header is damaged")
