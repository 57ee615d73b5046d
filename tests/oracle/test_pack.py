"""Packing blobs for shipping and unpacking what arrives, from outside."""

import contextlib
import ctypes
import functools
import gzip
import os
import random
import shutil
import signal
import struct
import subprocess
import time

import programs
import pytest
from blobs import edited, repaired, section, spoiled
from internal import BUILD, OK, Error, lib, open_writer
from packed import PIECE, frame, packed, read_table, seek_table, zstd_restores
from programs import assert_fails, limited
from smol_reader import CHUNK
from test_format import Contents, example_blob, example_tokenizer

DTYPES = ["int8", "int4", "bf16", "f32"]
smolconv = functools.partial(programs.smolconv, text=False)


def pack_file(blob, out, *options):
    result = smolconv("pack", "--quiet", *options, blob, out)
    assert result.returncode == 0, result.stderr
    return out


def sized_blob(folder, front_chunks, extra_tokens=0):
    """A blob of exactly front_chunks + 2 chunks: weights that are zero, tied, of one layer with
    biases (65536 bytes), and the rest of the front filled with a provenance that packs badly."""
    tokens = 912 + extra_tokens
    model = struct.pack(
        "<12IfIIId1976x", 1, 1, 1, 16, 16, 1, 1, 6, tokens, 8, 3, 1, 1e-5, 1, 1, 0, 1e4
    )
    notes = random.Random(0).randbytes(front_chunks * CHUNK // 2 - CHUNK // 2).hex().encode()
    contents = Contents(
        model, struct.pack("<3f", 1, 0.5, 0.25), b"", 0, bytes(64), notes, len(notes),
        example_tokenizer(), len(example_tokenizer()),
    )  # fmt: skip
    path, writer, error = folder / "sized.smol", ctypes.c_void_p(), Error()
    status = open_writer(path, contents, writer, error)
    assert status == OK, error
    zeros = bytes(CHUNK)
    for _ in range(1 + extra_tokens // 1024):
        status = lib.smol_writer_append(
            writer, zeros, ctypes.c_size_t(CHUNK), ctypes.byref(error)
        )
        assert status == OK, error
    assert lib.smol_writer_finish(writer, ctypes.byref(error)) == OK, error
    return path


# --- pack -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A blob that fits into one frame."""
    folder = tmp_path_factory.mktemp("example")
    example_blob(folder)
    return folder / "example.smol"


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    """pack(blob): the packed file, made on first use."""
    folder, made = tmp_path_factory.mktemp("packed"), {}

    def make(blob):
        if blob not in made:
            made[blob] = folder / f"{blob.name}.zst"
            assert smolconv("pack", "--quiet", blob, made[blob]).returncode == 0
        return made[blob]

    return make


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", [*DTYPES, "example"])
def test_zstd_restores_what_was_packed_and_the_table_says_where_its_frames_are(
    dtype, demo_blob, example, pack
):
    blob = example if dtype == "example" else demo_blob(dtype)
    content, data = blob.read_bytes(), pack(blob).read_bytes()
    assert zstd_restores(data) == content
    frames = read_table(data)
    assert len(frames) == -(-len(content) // PIECE)
    for i, (start, end, size) in enumerate(frames):
        piece = content[i * PIECE : (i + 1) * PIECE]
        assert len(piece) == size and zstd_restores(data[start:end]) == piece


def test_each_frame_has_its_content_size_and_a_checksum(demo_blob, pack):
    """The byte after the magic says so in zstd's format."""
    data = pack(demo_blob("int8")).read_bytes()
    for start, _, _ in read_table(data):
        assert data[start : start + 4] == b"\x28\xb5\x2f\xfd"
        descriptor = data[start + 4]
        assert descriptor & 0x04 and descriptor & 0x20 and not descriptor & 0x1B


@pytest.mark.parametrize("level", [1, 9, 15])
def test_the_same_bytes_for_any_number_of_threads(level, tmp_path, demo_blob):
    outputs = []
    for threads in [1, 2, 16]:
        out = tmp_path / f"{threads}.zst"
        options = ["--quiet", "--level", level, "--threads", threads]
        assert smolconv("pack", *options, demo_blob("int8"), out).returncode == 0
        outputs.append(out.read_bytes())
    assert all(output == outputs[0] for output in outputs)
    assert zstd_restores(outputs[0]) == demo_blob("int8").read_bytes()


def test_a_higher_level_packs_smaller(tmp_path, demo_blob):
    sizes = []
    for level in [1, 16]:
        out = tmp_path / f"{level}.zst"
        assert smolconv("pack", "--level", level, demo_blob("int8"), out).returncode == 0
        sizes.append(out.stat().st_size)
    assert sizes[1] < 0.99 * sizes[0]


def test_a_damaged_blob_is_not_packed(tmp_path, demo_blob):
    bad = spoiled(demo_blob("int8"), tmp_path / "bad.smol")
    assert_fails(smolconv("pack", bad, tmp_path / "out.zst"), 4, "bad.smol", "tensor", "bytes")
    bad.write_bytes(bad.read_bytes()[:-1])
    assert_fails(smolconv("pack", bad, tmp_path / "out.zst"), 4, "truncated")
    assert [p.name for p in tmp_path.iterdir()] == ["bad.smol"]


def test_packing_says_how_much_and_respects_what_is_there(tmp_path, demo_blob, pack):
    blob, out = demo_blob("int8"), tmp_path / "out.zst"
    result = smolconv("pack", blob, out)
    size, packed_size = blob.stat().st_size / 1e6, out.stat().st_size / 1e6
    wanted = f"smolconv: packed {size:.1f} MB into {packed_size:.1f} MB\n"
    assert (result.returncode, result.stdout, result.stderr.decode()) == (0, b"", wanted)
    assert_fails(smolconv("pack", blob, out), 3, "out.zst", "exists already", "--force")
    result = smolconv("pack", "--force", "--quiet", blob, out)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    assert_fails(smolconv("pack", out, tmp_path / "twice"), 5, "out.zst", "smolconv unpack")
    assert_fails(smolconv("pack", "--level", 23, blob, tmp_path / "x"), 2, "--level")
    assert_fails(smolconv("pack", "--level", 0, blob, tmp_path / "x"), 2, "--level")
    assert_fails(smolconv("pack", blob), 2, "file name is missing")
    assert_fails(smolconv("pack", tmp_path / "none", out), 3, "none")
    assert [p.name for p in tmp_path.iterdir()] == ["out.zst"]


# --- unpack -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*DTYPES, "example"])
@pytest.mark.parametrize("piped", [False, True])
def test_unpack_restores_what_was_packed(dtype, piped, tmp_path, demo_blob, example, pack):
    blob = example if dtype == "example" else demo_blob(dtype)
    out = tmp_path / "out.smol"
    if piped:
        result = smolconv("unpack", "-", out, input=pack(blob).read_bytes())
    else:
        result = smolconv("unpack", pack(blob), out)
    size, packed_size = blob.stat().st_size / 1e6, pack(blob).stat().st_size / 1e6
    wanted = f"smolconv: unpacked {packed_size:.1f} MB into {size:.1f} MB\n"
    assert (result.returncode, result.stdout, result.stderr.decode()) == (0, b"", wanted)
    assert out.read_bytes() == blob.read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["out.smol"]


@pytest.mark.parametrize("front_chunks", [2, 6, 26])
def test_blobs_that_fill_their_last_frame_and_fronts_of_many(front_chunks, tmp_path):
    blob = sized_blob(tmp_path, front_chunks)
    assert blob.stat().st_size == (front_chunks + 2) * CHUNK
    data = pack_file(blob, tmp_path / "packed").read_bytes()
    assert [size for _, _, size in read_table(data)] == [PIECE] * ((front_chunks + 2) // 4)
    assert zstd_restores(data) == blob.read_bytes()
    assert smolconv("unpack", "-", tmp_path / "out", input=data).returncode == 0
    assert (tmp_path / "out").read_bytes() == blob.read_bytes()


@pytest.mark.parametrize("threads", [1, 2, 3, 16, 100])
def test_any_number_of_threads_unpacks_the_same(threads, tmp_path, demo_blob, pack):
    out, packed_file = tmp_path / "out.smol", pack(demo_blob("f32"))
    assert smolconv("unpack", "--threads", threads, packed_file, out).returncode == 0
    assert out.read_bytes() == demo_blob("f32").read_bytes()


@pytest.mark.parametrize("seed", range(3))
def test_a_pipe_may_deliver_in_pieces_of_any_size(seed, tmp_path, demo_blob, pack):
    """A named one, written to as a slow and fitful link would."""
    data, out, pipe = pack(demo_blob("int8")).read_bytes(), tmp_path / "out", tmp_path / "pipe"
    os.mkfifo(pipe)
    process = subprocess.Popen([BUILD / "smolconv", "unpack", "--quiet", pipe, out])
    rng = random.Random(seed)
    with open(pipe, "wb", buffering=0) as end:
        while data:
            n = rng.choice([1, 2, 100, 4096, 65536, rng.randrange(1, 1 << 18)])
            written = end.write(data[:n])
            data = data[written:]
    assert process.wait(timeout=60) == 0
    assert out.read_bytes() == demo_blob("int8").read_bytes()


def test_frames_without_checksums_will_do(tmp_path, demo_blob):
    blob = demo_blob("int8").read_bytes()
    result = smolconv("unpack", "-", tmp_path / "out", input=packed(blob, checksum=0))
    assert result.returncode == 0 and (tmp_path / "out").read_bytes() == blob


def test_an_existing_file_is_replaced_only_by_force(tmp_path, demo_blob, pack):
    packed_file, out = pack(demo_blob("int8")), tmp_path / "out"
    out.write_text("old")
    for options in [[], ["--resume"]]:
        result = smolconv("unpack", *options, packed_file, out)
        assert_fails(result, 3, "out: exists already", "--force")
        assert result.stdout == b"" and out.read_text() == "old"
    for options in [[], ["--resume"]]:
        assert smolconv("unpack", "--force", *options, packed_file, out).returncode == 0
        assert out.read_bytes() == demo_blob("int8").read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_the_other_commands_say_that_it_has_to_be_unpacked(demo_blob, pack):
    packed_file = pack(demo_blob("int8"))
    for command in ["verify", "inspect"]:
        assert_fails(smolconv(command, packed_file), 5, "zstd", "smolconv unpack")
    result = subprocess.run([BUILD / "smolrun", packed_file, "Hello"], capture_output=True)
    assert result.returncode == 5 and b"smolconv unpack" in result.stderr


def test_memory_does_not_grow_with_the_file(tmp_path, demo_blob, pack):
    """128 MiB of blob: its weights are zero, and zeros pack well."""
    blob = sized_blob(tmp_path, 2, extra_tokens=1 << 21)
    assert blob.stat().st_size > 1 << 27
    data, out = pack_file(blob, tmp_path / "packed", "--level", 1), tmp_path / "out"
    with open(data, "rb") as pipe:
        command = [BUILD / "smolconv", "unpack", "--threads", "2", "-", out]
        subprocess.run(command, stdin=pipe, check=True, preexec_fn=limited("DATA", 32 << 20))
    assert subprocess.run(["cmp", blob, out]).returncode == 0


# --- what is no packed blob -------------------------------------------------------------------


def lying(holds, says):
    """A frame that says it holds another number of bytes than it does: four of its header."""

    def lie(blob):
        data = bytearray(frame(blob[:holds]))
        assert data[4] >> 6 == 2
        struct.pack_into("<I", data, 5, says)
        return bytes(data) + frame(blob[PIECE:])

    return lie


def with_dictionary(data):
    """The first frame names one, in a byte after the frame header's descriptor."""
    assert data[4] & 3 == 0
    return data[:4] + bytes([data[4] | 1, 42]) + data[5:]


def skippable(magic, size=8):
    return struct.pack("<II", magic, size) + bytes(size)


def blocks_without_end(blob):
    """Raw blocks of no bytes: a frame that goes on for longer than what it holds can take."""
    return frame(blob[:PIECE])[:9] + b"\0\0\0" * 300000


def without_table(data):
    return data[: read_table(data)[-1][1]]


REMEDY = ["zstd -d"]
FOREIGN = {  # (status, what is said, bytes made from a blob of several frames)
    "nothing": (4, ["ends within the front"], lambda b: b""),
    "a plain blob": (5, ["not packed"], lambda b: b),
    "gzip": (4, ["not a zstd frame (offset 0)"], lambda b: gzip.compress(b)),
    "text": (4, ["not a zstd frame (offset 0)"], lambda b: b"Not Found\n" * 100),
    "three bytes": (4, ["ends within a frame"], lambda b: b"\x28\xb5\x2f"),
    "one large frame": (5, ["more than 262144", *REMEDY], lambda b: frame(b)),
    "larger frames": (5, ["more than 262144", *REMEDY], lambda b: packed(b, piece=PIECE * 4)),
    "smaller frames": (5, ["different sizes", *REMEDY], lambda b: packed(b, piece=PIECE // 4)),
    "no sizes": (5, ["without its content size", *REMEDY], lambda b: packed(b, content_size=0)),
    "a dictionary": (5, ["needs a dictionary", *REMEDY], lambda b: with_dictionary(packed(b))),
    "an old release": (5, ["old format of zstd", *REMEDY], lambda b: b"\x27\xb5\x2f\xfd" + bytes(99)),
    "skippable first": (5, ["skippable", *REMEDY], lambda b: skippable(0x184D2A50) + packed(b)),
    "a table first": (4, ["frames are missing"], lambda b: seek_table([]) + packed(b)),
    "skippable between": (
        5, ["skippable", *REMEDY],
        lambda b: frame(b[:PIECE]) + skippable(0x184D2A5F) + frame(b[PIECE:]),
    ),
    "an empty frame": (5, ["empty frame", *REMEDY], lambda b: frame(b"") + packed(b)),
    "a size too large": (4, ["damaged frame (offset 0"], lying(PIECE - 1, PIECE)),
    "a size too small": (4, ["damaged frame (offset 0"], lying(PIECE, PIECE - 1)),
    "four gigabytes": (5, ["more than 262144", *REMEDY], lying(PIECE, 0xFFFFFFFF)),
    "an endless frame": (4, ["malformed frame (offset 0)"], blocks_without_end),
    "garbage between": (
        4, ["not a zstd frame"], lambda b: frame(b[:PIECE]) + bytes(999) + frame(b[PIECE:])
    ),
    "frames swapped": (
        4, ["data damaged", "bytes 524288"],
        lambda b: packed(b[: 2 * PIECE] + b[3 * PIECE : 4 * PIECE] + b[2 * PIECE : 3 * PIECE]),
    ),
    "a frame too many": (4, ["bytes after the end"], lambda b: packed(b + b[:PIECE])),
    "no seek table": (4, ["ends within the seek table"], lambda b: without_table(packed(b))),
    "two files": (4, ["bytes after the seek table"], lambda b: packed(b) * 2),
    "bytes after": (4, ["bytes after the seek table"], lambda b: packed(b) + b"\n"),
    "packed twice": (5, ["smolconv unpack"], lambda b: packed(packed(b))),
}


@pytest.mark.sample(12)
@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("resume", [False, True])
def test_what_pack_does_not_make_is_refused(kind, resume, tmp_path, demo_blob):
    status, parts, make = FOREIGN[kind]
    data = make(demo_blob("int8").read_bytes())
    options = ["--resume"] if resume else []
    result = smolconv("unpack", *options, "-", tmp_path / "out", input=data)
    assert_fails(result, status, "standard input: ", *parts)
    if resume and result.stdout != b"0\n":
        assert [p.name for p in tmp_path.iterdir()] == ["out.part"]
    else:
        assert list(tmp_path.iterdir()) == []
    assert bool(result.stdout) == resume


SMALL_CHANGES = [1, 0x80, 0xFF]


@pytest.mark.slow
def test_each_byte_of_the_seek_table_counts(tmp_path, demo_blob, pack):
    data = pack(demo_blob("int8")).read_bytes()
    start = read_table(data)[-1][1]
    for at in range(start, len(data)):
        bad = bytearray(data)
        bad[at] ^= SMALL_CHANGES[at % 3]
        result = smolconv("unpack", "-", tmp_path / "out", input=bytes(bad))
        assert result.returncode in (4, 5), at
        if at >= start + 4:  # after the magic
            assert_fails(result, 4, "seek table does not match its frames")
        assert list(tmp_path.iterdir()) == []


def test_a_blob_whose_digests_are_right_keeps_all_other_rules_too(tmp_path, demo_blob):
    def edit(data):
        offset, _ = section(data, 33)
        data[offset + 64] = 0x80  # a step of -128

    bad = edited(demo_blob("int8"), tmp_path / "bad", edit)
    data = packed(bad.read_bytes())
    for options in [[], ["--resume"]]:
        result = smolconv("unpack", *options, "-", tmp_path / "out", input=data)
        assert_fails(result, 4, "tensor embed breaks the format")
    assert [p.name for p in tmp_path.iterdir()] == ["bad"]


# --- going on ---------------------------------------------------------------------------------


def unpack_some(tmp_path, data, *options):
    return smolconv(
        "unpack", "--resume", "--quiet", *options, "-", tmp_path / "out.smol", input=data
    )


def ask(tmp_path):
    """Returns the place at which to resume, as a script asks for it."""
    result = unpack_some(tmp_path, b"")
    assert result.returncode == 4
    return int(result.stdout)


def finishes(result, tmp_path, blob):
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    assert (tmp_path / "out.smol").read_bytes() == blob.read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["out.smol"]
    (tmp_path / "out.smol").unlink()


def test_a_transfer_that_is_cut_goes_on_where_it_was_cut(tmp_path, demo_blob, pack):
    data, place = pack(demo_blob("int8")).read_bytes(), 0
    for step in [300000, 1, 700000, 263000, 500000]:
        result = unpack_some(tmp_path, data[place : place + step])
        assert_fails(result, 4, "ends within a frame", f"continue with byte {int(result.stdout)} ")
        assert place <= int(result.stdout) <= place + step
        place = int(result.stdout)
        assert ask(tmp_path) == place
    finishes(unpack_some(tmp_path, data[place:]), tmp_path, demo_blob("int8"))


def rest_of(data, place):
    return data[place:]


def all_of(data, place):
    return data


@pytest.mark.sample(3)
@pytest.mark.parametrize("where", ["at a frame's end", "within a frame", "one byte short"])
@pytest.mark.parametrize("continuation", [rest_of, all_of])
def test_it_goes_on_after_every_frame(where, continuation, tmp_path, demo_blob, pack):
    blob = demo_blob("int8")
    data = pack(blob).read_bytes()
    for start, end, _ in read_table(data):
        cut = {"at a frame's end": end, "one byte short": end - 1}.get(where, (start + end) // 2)
        result = unpack_some(tmp_path, data[:cut])
        place = end if cut == end else start
        assert (result.returncode, int(result.stdout)) == (4, place)
        finishes(unpack_some(tmp_path, continuation(data, place)), tmp_path, blob)


def test_it_goes_on_within_the_seek_table(tmp_path, demo_blob, pack):
    blob = demo_blob("int8")
    data = pack(blob).read_bytes()
    end = read_table(data)[-1][1]
    for cut in [end, end + 1, end + 4, end + 9, len(data) - 9, len(data) - 1]:
        result = unpack_some(tmp_path, data[:cut])
        assert (result.returncode, int(result.stdout)) == (4, end)
        finishes(unpack_some(tmp_path, data[[0, end][cut % 2] :]), tmp_path, blob)


def test_a_file_goes_on_as_a_pipe_does(tmp_path, demo_blob, pack):
    """Unpacking begins with a part of the packed file that another program fetched, and then has all of it."""
    blob, cut, out = demo_blob("int8"), tmp_path / "cut.zst", tmp_path / "out.smol"
    data = pack(blob).read_bytes()
    cut.write_bytes(data[:1000000])
    result = smolconv("unpack", "--resume", cut, out)
    place = int(result.stdout)
    assert_fails(result, 4, "cut.zst: ends within a frame", f"continue with byte {place} ")
    result = smolconv("unpack", "--resume", pack(blob), out)
    lines = result.stderr.decode().splitlines()
    assert lines[0].endswith(f"out.smol.part: the first 1.3 MB are good: resuming at byte {place}")
    assert result.returncode == 0 and len(lines) == 2 and out.read_bytes() == blob.read_bytes()
    out.unlink()
    assert smolconv("unpack", "--resume", cut, out).returncode == 4
    cut.write_bytes(data[place:])
    assert smolconv("unpack", "--resume", cut, out).returncode == 0
    assert out.read_bytes() == blob.read_bytes()


def test_without_a_whole_front_nothing_is_kept(tmp_path):
    blob = sized_blob(tmp_path, 26)
    data = packed(blob.read_bytes())
    frames, part = read_table(data), tmp_path / "out.smol.part"
    for cut in [0, 1, frames[0][1], frames[5][1], frames[6][1] - 1]:
        result = unpack_some(tmp_path, data[:cut])
        assert (result.returncode, result.stdout) == (4, b"0\n") and not part.exists()
    result = unpack_some(tmp_path, data[: frames[6][1]])
    assert (result.returncode, int(result.stdout)) == (4, frames[6][1]) and part.exists()
    assert unpack_some(tmp_path, data).returncode == 0
    assert (tmp_path / "out.smol").read_bytes() == blob.read_bytes()


@pytest.fixture(scope="module")
def begun(tmp_path_factory, demo_blob, pack):
    """A kept part of the int8 demo blob, and where to go on."""
    folder = tmp_path_factory.mktemp("begun")
    result = unpack_some(folder, pack(demo_blob("int8")).read_bytes()[:1200000])
    return folder / "out.smol.part", int(result.stdout)


CONTINUATIONS = {
    "the next frame missing": (4, ["data damaged"], lambda d, n: d[next_frame(d, n) :]),
    "the last frame again": (4, ["data damaged"], lambda d, n: d[frame_before(d, n) :]),
    "a byte too late": (4, ["not a zstd frame"], lambda d, n: d[n + 1 :]),
    "a byte too early": (4, ["not a zstd frame"], lambda d, n: d[n - 1 :]),
    "text": (4, ["not a zstd frame"], lambda d, n: b"404 Not Found" * 99),
    "zeros": (4, ["not a zstd frame"], lambda d, n: bytes(1000000)),
    "only the table": (4, ["frames are missing"], lambda d, n: d[read_table(d)[-1][1] :]),
}


def next_frame(data, place):
    return next(end for start, end, _ in read_table(data) if start == place)


def frame_before(data, place):
    return next(start for start, end, _ in read_table(data) if end == place)


def refused_and_kept(result, status, begun, tmp_path, *parts):
    part, place = begun
    assert_fails(result, status, *parts, f"out.smol.part is kept: continue with byte {place} ")
    assert int(result.stdout) == place
    assert [p.name for p in tmp_path.iterdir()] == ["out.smol.part"]
    assert (tmp_path / "out.smol.part").read_bytes() == part.read_bytes()


@pytest.mark.parametrize("kind", CONTINUATIONS)
def test_what_does_not_continue_is_refused_and_the_part_kept(
    kind, tmp_path, demo_blob, pack, begun
):
    status, parts, make = CONTINUATIONS[kind]
    data = pack(demo_blob("int8")).read_bytes()
    shutil.copy(begun[0], tmp_path)
    result = unpack_some(tmp_path, make(data, begun[1]))
    refused_and_kept(result, status, begun, tmp_path, *parts)
    finishes(unpack_some(tmp_path, data[begun[1] :]), tmp_path, demo_blob("int8"))


def test_a_file_that_has_changed_since_is_noticed(tmp_path, demo_blob, pack, begun):
    """Another model, a new version that differs at the end only, and the same packed otherwise."""
    old = demo_blob("int8").read_bytes()
    changed = bytearray(old)
    changed[-1000] ^= 1
    level_1 = pack_file(demo_blob("int8"), tmp_path / "packed", "--level", 1)
    others = {
        "another model": pack(demo_blob("f32")).read_bytes(),
        "a new version": packed(repaired(changed)),
        "packed otherwise": level_1.read_bytes(),
    }
    level_1.unlink()
    shutil.copy(begun[0], tmp_path)
    for name, data in others.items():
        words = ["begins a blob other than"] if name != "packed otherwise" else ["not a zstd frame"]
        refused_and_kept(unpack_some(tmp_path, data), 4, begun, tmp_path, *words)
        refused_and_kept(unpack_some(tmp_path, data[begun[1] :]), 4, begun, tmp_path)


def wait_for(condition):
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise TimeoutError


def heed_signals():
    """Even if whoever started the tests ignores them: nohup, or a shell without job control."""
    for name in (signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_DFL)


@contextlib.contextmanager
def hanging_transfer(tmp_path, blob, data, n_frames):
    """A transfer that has delivered so many frames and half of the next, and hangs: what has come is
    kept by now, each frame with an entry of 16 bytes in the journal."""
    frames, part = read_table(data), tmp_path / "out.smol.part"
    command = [BUILD / "smolconv", "unpack", "--resume", "--quiet", "-", tmp_path / "out.smol"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=heed_signals
    )
    process.stdin.write(data[: sum(frames[n_frames][:2]) // 2])
    process.stdin.flush()
    size = blob.stat().st_size + 16 * n_frames
    wait_for(lambda: part.exists() and part.stat().st_size == size)
    yield process
    process.kill()
    process.stdin.close()
    process.wait()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_what_has_come_is_kept_whatever_ends_the_process(name, tmp_path, demo_blob, pack):
    blob = demo_blob("int8")
    data = pack(blob).read_bytes()
    for n_frames in [1, 7]:
        with hanging_transfer(tmp_path, blob, data, n_frames) as process:
            process.send_signal(getattr(signal, name))
            assert process.wait(timeout=60) == -getattr(signal, name)
        place = ask(tmp_path)
        assert place == read_table(data)[n_frames][0]
        finishes(unpack_some(tmp_path, data[place:]), tmp_path, blob)


def test_only_one_process_writes_a_part(tmp_path, demo_blob, pack):
    blob = demo_blob("int8")
    data = pack(blob).read_bytes()
    with hanging_transfer(tmp_path, blob, data, 3) as process:
        result = unpack_some(tmp_path, data)
        assert_fails(result, 3, "out.smol.part: another process is writing it")
        assert result.stdout == b"" and process.poll() is None
        process.stdin.write(data[sum(read_table(data)[3][:2]) // 2 :])
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    assert (tmp_path / "out.smol").read_bytes() == blob.read_bytes()


def test_a_signal_leaves_nothing_that_is_not_to_be_kept(tmp_path, demo_blob, pack):
    data = pack(demo_blob("int8")).read_bytes()
    command = [BUILD / "smolconv", "unpack", "-", tmp_path / "out.smol"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    process.stdin.write(data[:1000000])
    process.stdin.flush()
    wait_for(lambda: list(tmp_path.iterdir()))
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == -signal.SIGTERM
    process.stdin.close()
    assert list(tmp_path.iterdir()) == []


# The states in which a power cut may leave a part: each page is as it once was, or zero.
TEARS = {
    "nothing is left": lambda part: b"",
    "only zeros are": lambda part: bytes(len(part)),
    "the data is lost": lambda part: part[:262144] + bytes(len(part) - 262144),
    "the last of it is": lambda part: part[:1100000],
    "the journal is": lambda part: part[:-16] + bytes(16),
    "a page within": lambda part: part[:700000] + bytes(4096) + part[704096:],
    "a page of the front": lambda part: bytes(4096) + part[4096:],
}


@pytest.mark.parametrize("kind", TEARS)
def test_what_a_power_cut_has_torn_is_fetched_again(kind, tmp_path, demo_blob, pack, begun):
    data = pack(demo_blob("int8")).read_bytes()
    (tmp_path / "out.smol.part").write_bytes(TEARS[kind](begun[0].read_bytes()))
    place = ask(tmp_path)
    assert place in [start for start, _, _ in read_table(data)] and place <= begun[1]
    assert (place > 0) == (kind in ("the journal is", "a page within"))
    finishes(unpack_some(tmp_path, data[place:]), tmp_path, demo_blob("int8"))


def test_starting_over_is_said(tmp_path, demo_blob, pack):
    (tmp_path / "out.smol.part").write_bytes(bytes(1000))
    packed_file = pack(demo_blob("int8"))
    result = smolconv("unpack", "--resume", packed_file, tmp_path / "out.smol")
    assert result.returncode == 0
    assert b"out.smol.part: nothing in it is usable: starting over\n" in result.stderr


def test_the_part_of_another_program_is_left_alone(tmp_path, demo_blob, pack):
    part = tmp_path / "out.smol.part"
    part.write_bytes(pack(demo_blob("int8")).read_bytes()[:1000000])
    result = smolconv("unpack", "--resume", part, tmp_path / "out.smol")
    assert_fails(result, 3, "out.smol.part: not an unfinished blob")
    assert result.stdout == b"" and part.stat().st_size == 1000000


LOOP = """
fetch() { tail -c +$(($1 + 1)) "$packed" | head -c 300000; } # a link that is soon cut
n=$($smolconv unpack --resume - out.smol </dev/null)
until n=$(fetch "$n" | $smolconv unpack --resume - out.smol); do echo "$n"; done
"""


def test_the_loop_of_the_readme_ends_with_the_whole_blob(tmp_path, demo_blob, pack):
    blob = demo_blob("int8")
    values = {"smolconv": str(BUILD / "smolconv"), "packed": str(pack(blob))}
    result = subprocess.run(
        ["sh", "-c", LOOP], cwd=tmp_path, env=os.environ | values, capture_output=True, timeout=120
    )
    assert result.returncode == 0 and (tmp_path / "out.smol").read_bytes() == blob.read_bytes()
    places = [int(line) for line in result.stdout.split()]
    starts = [start for start, _, _ in read_table(pack(blob).read_bytes())]
    assert len(places) > 5 and sorted(set(places)) == places and set(places) <= set(starts)
