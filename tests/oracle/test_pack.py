"""Packing blobs for shipping and unpacking what arrives, from outside."""

import subprocess

import pytest
from internal import BUILD
from packed import PIECE, read_table, zstd_restores
from test_format import example_blob

DTYPES = ["int8", "bf16", "f32"]


def smolconv(*arguments, **options):
    command = [str(BUILD / "smolconv"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=120, **options)


def assert_fails(result, status, *parts):
    message = result.stderr.decode()
    assert result.returncode == status, message
    assert message.startswith("smolconv: ") and message.count("\n") == 1
    for part in parts:
        assert part in message, message


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
    """By what zstd's format says of the byte behind the magic."""
    data = pack(demo_blob("int8")).read_bytes()
    for start, _, _ in read_table(data):
        assert data[start : start + 4] == b"\x28\xb5\x2f\xfd"
        descriptor = data[start + 4]
        assert descriptor & 0x04 and descriptor & 0x20 and not descriptor & 0x1B


@pytest.mark.parametrize("level", [1, 9, 19])
def test_the_same_bytes_for_any_number_of_threads(level, tmp_path, demo_blob):
    outputs = []
    for threads in [1, 2, 3, 16]:
        out = tmp_path / f"{threads}.zst"
        options = ["--quiet", "--level", level, "--threads", threads]
        assert smolconv("pack", *options, demo_blob("int8"), out).returncode == 0
        outputs.append(out.read_bytes())
    assert all(output == outputs[0] for output in outputs)
    assert zstd_restores(outputs[0]) == demo_blob("int8").read_bytes()


def test_a_higher_level_packs_smaller(tmp_path, demo_blob):
    sizes = []
    for level in [1, 22]:
        out = tmp_path / f"{level}.zst"
        assert smolconv("pack", "--level", level, demo_blob("int8"), out).returncode == 0
        sizes.append(out.stat().st_size)
    assert sizes[1] < 0.99 * sizes[0]


def test_a_damaged_blob_is_not_packed(tmp_path, demo_blob):
    data, bad = bytearray(demo_blob("int8").read_bytes()), tmp_path / "bad.smol"
    data[-5] ^= 1
    bad.write_bytes(data)
    assert_fails(smolconv("pack", bad, tmp_path / "out.zst"), 4, "bad.smol", "tensor", "bytes")
    bad.write_bytes(data[:-1])
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


def unpack_all(tmp_path, data, *options):
    return smolconv("unpack", "--resume", "--quiet", *options, "-", tmp_path / "out.smol", input=data)


def test_a_transfer_that_is_cut_goes_on_where_it_was_cut(tmp_path, demo_blob, pack):
    data, place = pack(demo_blob("int8")).read_bytes(), 0
    for step in [300000, 1, 700000, 263000, 500000]:
        result = unpack_all(tmp_path, data[place : place + step])
        assert_fails(result, 4, "ends within a frame", f"continue with byte {int(result.stdout)}")
        assert place <= int(result.stdout) <= place + step
        place = int(result.stdout)
    assert unpack_all(tmp_path, data[place:]).returncode == 0
    assert (tmp_path / "out.smol").read_bytes() == demo_blob("int8").read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["out.smol"]
