"""Files that are written, and what may stand in their way: full disks, folders and file systems that
must not be written to, things in the target's place. And files that are read and are none. A failed
command leaves everything as it was."""
import contextlib
import fcntl
import hashlib
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from internal import BUILD, ROOT
from programs import limited

sys.path.append(str(ROOT / "tests/fault"))
import tiny  # noqa: E402

DEMO = ROOT / "demo/model"
OLD = b"what stood here before"

# name: words; OUT is the output, FORCE an option that allows to replace it
WRITERS = {
    "convert": ["smolconv", "--quiet", "FORCE", DEMO, "OUT"],
    "pack": ["smolconv", "pack", "--quiet", "FORCE", "BLOB", "OUT"],
    "unpack": ["smolconv", "unpack", "--quiet", "FORCE", "PACKED", "OUT"],
    "delta": ["smolconv", "delta", "--quiet", "FORCE", "BLOB", "NEWER", "OUT"],
    "patch": ["smolconv", "patch", "FORCE", "BLOB", "DELTA", "OUT"],
    "perplexity": ["smolrun", "perplexity", "BLOB", DEMO / "config.json", "--save-logits", "OUT"],
    "report": ["smolconv", "report", "--quiet", "FORCE", "BLOB", "-o", "OUT"],
    "logits": ["smolrun", "logits", "BLOB", "--tokens", "5 6 " * 100, "-o", "OUT"],
}
FORCED = {name for name, words in WRITERS.items() if "FORCE" not in words}


def command(name, out, blob, force):
    values = {**material(blob), "OUT": out, "BLOB": blob, "FORCE": "--force"}
    words = [w for w in WRITERS[name] if w != "FORCE" or force]
    return [str(BUILD / words[0]), *(str(values.get(w, w)) for w in words[1:])]


def material(blob):
    """The files that commands read; they lie beside the blob."""
    paths = {name: blob.with_name(f"outputs-{name}") for name in ("PACKED", "NEWER", "DELTA")}
    if not paths["DELTA"].exists():
        for words in (
            ["pack", blob, paths["PACKED"]],
            [tiny.retrain(DEMO, blob.with_name("retrained")), paths["NEWER"]],
            ["delta", blob, paths["NEWER"], paths["DELTA"]],
        ):
            subprocess.run([BUILD / "smolconv", *words], check=True)
    return paths


def run(words, **options):
    return subprocess.run(words, capture_output=True, text=True, timeout=120, **options)


def assert_fails(result, status, *parts):
    assert result.returncode == status, (result.returncode, result.stderr)
    assert re.fullmatch(r"smol(conv|run): [^\n]+\n", result.stderr), result.stderr
    for part in parts:
        assert part in result.stderr, result.stderr


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="session")
def whole(tmp_path_factory, blob):
    """whole(name): what the command writes when nothing is in its way."""
    folder, made = tmp_path_factory.mktemp("whole"), {}

    def make(name):
        if name not in made:
            run(command(name, folder / name, blob, False), check=True)
            made[name] = (folder / name).read_bytes()
        return made[name]

    return make


# --- disks ------------------------------------------------------------------------------------

# Mounts a volume where nobody else sees it, runs a command with its output there, and tells how it
# ended and what is there then. $OLD is a file that stands there before.
IN_VOLUME = """
mount -t tmpfs -o "$OPTIONS" volume "$VOLUME" || exit 99
cd "$VOLUME" || exit 99
[ -z "$OLD" ] || cp "$OLD" out || exit 99
[ -z "$READ_ONLY" ] || mount -o remount,ro "$VOLUME" || exit 99
"$@"
echo "status $?"
sha256sum -- *
"""


def in_volume(tmp_path, words, options, old=None, read_only=False):
    """Exit status, errors, and digests of the files by name."""
    volume = tmp_path / "volume"
    volume.mkdir(exist_ok=True)
    share = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    environment = {
        **os.environ,
        "OPTIONS": options,
        "VOLUME": str(volume),
        "OLD": str(old or ""),
        "READ_ONLY": "1" if read_only else "",
    }
    result = run([*share, "sh", "-c", IN_VOLUME, "sh", *words], env=environment)
    if result.returncode == 99 or "unshare" in result.stderr:
        pytest.fail("cannot mount a volume: needs root or user namespaces: " + result.stderr)
    text = result.stdout.partition("status ")[2]
    digests = {line.split()[1]: line.split()[0] for line in text.splitlines()[1:]}
    stderr = "".join(line for line in result.stderr.splitlines(True) if "sha256sum" not in line)
    return int(text.split()[0]), stderr, digests


def digest(data):
    return hashlib.sha256(data).hexdigest()


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("share", [0, 0.5, 0.99, 1.2])
def test_a_full_disk_is_status_3_and_changes_nothing(tmp_path, blob, whole, name, share):
    """`share` of the output has room."""
    old = tmp_path / "old"
    old.write_bytes(OLD)
    out = tmp_path / "volume/out"
    pages = 1 + int(share * len(whole(name))) // 4096  # of tmpfs; one for the old file
    words = command(name, out, blob, True)
    options = f"size={max(pages, 1) * 4096}"
    status, stderr, files = in_volume(tmp_path, words, options, old=old)
    if share > 1:
        assert (status, files) == (0, {"out": digest(whole(name))}), stderr
    else:
        assert status == 3 and "out: cannot write (No space left on device)" in stderr
        assert files == {"out": digest(OLD)}


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", WRITERS)
def test_a_limit_on_the_size_of_files_is_status_3_and_changes_nothing(tmp_path, blob, name):
    """The signal for it would end a program that does not mind it."""
    out = tmp_path / "out"
    out.write_bytes(OLD)
    result = run(command(name, out, blob, True), preexec_fn=limited("FSIZE", 4096))
    assert_fails(result, 3, "out: cannot write (File too large)")
    assert names(tmp_path) == ["out"] and out.read_bytes() == OLD


@pytest.mark.parametrize("name", WRITERS)
def test_a_volume_without_room_for_a_name_is_status_3(tmp_path, blob, name):
    words = command(name, tmp_path / "volume/out", blob, False)
    status, stderr, files = in_volume(tmp_path, words, "nr_inodes=1")
    assert (status, files) == (3, {}) and "out: cannot create (No space left" in stderr


@pytest.mark.parametrize("name", WRITERS)
def test_a_read_only_file_system_is_status_3(tmp_path, blob, name):
    old = tmp_path / "old"
    old.write_bytes(OLD)
    words = command(name, tmp_path / "volume/out", blob, True)
    status, stderr, files = in_volume(tmp_path, words, "size=1m", old=old, read_only=True)
    assert status == 3 and "out: cannot create (Read-only file system)" in stderr
    assert files == {"out": digest(OLD)}


# --- folders ----------------------------------------------------------------------------------


def without_privileges(words):
    """Root may write everywhere; without its capabilities it is like everybody else."""
    if os.geteuid():
        return words
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--", *words]


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_must_not_be_written_to_is_status_3(tmp_path, blob, name):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "out").write_bytes(OLD)
    folder.chmod(0o555)
    result = run(without_privileges(command(name, folder / "out", blob, True)))
    assert_fails(result, 3, "out: cannot create (Permission denied)")
    assert names(folder) == ["out"] and (folder / "out").read_bytes() == OLD


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_must_not_be_read_can_be_written_to(tmp_path, blob, whole, name):
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o333)
    result = run(without_privileges(command(name, folder / "out", blob, False)))
    assert result.returncode == 0, result.stderr
    folder.chmod(0o755)
    assert names(folder) == ["out"] and (folder / "out").read_bytes() == whole(name)


# --- what stands in the target's place --------------------------------------------------------


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("kind", ["file", "link", "dangling", "folder", "fifo", "device"])
def test_what_stands_there_is_kept_unless_it_is_a_file_and_forced(tmp_path, blob, whole, name, kind):
    out, other = tmp_path / "out", tmp_path / "other"
    other.write_bytes(OLD)
    if kind == "file":
        out.write_bytes(OLD)
    elif kind == "folder":
        out.mkdir()
    elif kind == "fifo":
        os.mkfifo(out)
    else:
        out.symlink_to({"link": other, "dangling": tmp_path / "none", "device": "/dev/full"}[kind])
    before = out.lstat().st_ino
    if name not in FORCED:
        result = run(command(name, out, blob, False))
        advice = ("exists already", "--force") if kind in ("file", "link", "dangling") else ("name a file",)
        assert_fails(result, 3, "out: ", *advice)
        assert out.lstat().st_ino == before
    result = run(command(name, out, blob, True))
    if kind in ("file", "link", "dangling"):
        assert result.returncode == 0, result.stderr
        assert not out.is_symlink() and out.read_bytes() == whole(name)
    else:
        assert_fails(result, 3, "out: is ", "name a file")
        assert out.lstat().st_ino == before
    assert names(tmp_path) == ["other", "out"] and other.read_bytes() == OLD


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", WRITERS)
def test_a_replaced_file_has_the_mode_of_a_new_one(tmp_path, blob, name):
    out = tmp_path / "out"
    out.write_bytes(OLD)
    out.chmod(0o640)
    run(command(name, out, blob, True), check=True, umask=0o027)
    assert out.stat().st_mode & 0o777 == 0o640
    run(command(name, out, blob, True), check=True, umask=0o022)
    assert out.stat().st_mode & 0o777 == 0o644


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", sorted(set(WRITERS) - FORCED))
def test_a_file_that_appears_meanwhile_is_kept(tmp_path, blob, name):
    """The shim stops the program right before it gives the output its name."""
    shim = BUILD / "tests/fault.so"
    subprocess.run(["make", "-s", "-C", ROOT, shim.relative_to(ROOT)], check=True)
    out = tmp_path / "out"
    environment = {
        **os.environ,
        "LD_PRELOAD": str(shim),
        "SMOL_FAULT": f"exclusive {-signal.SIGSTOP} 1 0",
        "SMOL_FAULT_REPORT": str(tmp_path / "report"),
    }
    process = subprocess.Popen(
        command(name, out, blob, False), env=environment, stderr=subprocess.PIPE, text=True
    )
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    assert not out.exists()
    out.write_bytes(OLD)
    process.send_signal(signal.SIGCONT)
    stderr = process.communicate(timeout=60)[1]
    assert process.returncode == 3 and "another process has just created it: remove it, or name another output\n" in stderr  # by any program
    assert names(tmp_path) == ["out", "report"] and out.read_bytes() == OLD


# --- standard output --------------------------------------------------------------------------

PRINTERS = {
    "inspect": ["smolconv", "inspect", "BLOB"],
    "inspect safetensors": ["smolconv", "inspect", DEMO / "model.safetensors"],
    "inspect --json": ["smolconv", "inspect", "--json", "BLOB"],
    "verify": ["smolconv", "verify", "BLOB"],
    "diff": ["smolconv", "diff", "BLOB", DEMO],
    "--help": ["smolconv", "--help"],
    "help": ["smolconv", "help"],
    "generate": ["smolrun", "BLOB", "Hello", "-n", "2"],
    "generate --ids": ["smolrun", "BLOB", "Hello", "-n", "2", "--ids"],
    "generate --json": ["smolrun", "BLOB", "Hello", "-n", "2", "--json"],
    "tokenize": ["smolrun", "tokenize", "BLOB", "Hello"],
    "detokenize": ["smolrun", "tokenize", "BLOB", "--decode", "20 30"],
    "bench": ["smolrun", "bench", "BLOB", "-p", "2", "-n", "2"],
    "bench --json": ["smolrun", "bench", "BLOB", "-p", "2", "-n", "2", "--json"],
    "--help of smolrun": ["smolrun", "--help"],
    "help of smolrun": ["smolrun", "help"],
    "perplexity": ["smolrun", "perplexity", "BLOB", DEMO / "config.json"],
    "explain": ["smolrun", "explain", "BLOB", "Hello", "-n", "2"],
}


@pytest.mark.parametrize("target", ["full", "closed"])
@pytest.mark.parametrize("name", PRINTERS)
def test_a_full_or_closed_standard_output_is_status_3(blob, name, target):
    words = [str(blob if word == "BLOB" else word) for word in PRINTERS[name]]
    words[0] = str(BUILD / words[0])
    redirect = {"full": 'exec "$@" >/dev/full', "closed": 'exec "$@" >&-'}[target]
    reason = {"full": "No space left on device", "closed": "Bad file descriptor"}[target]
    result = run(["sh", "-c", redirect, "sh", *words])
    assert_fails(result, 3, f"standard output: cannot write ({reason})")


@pytest.mark.sample(10)
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("name", WRITERS)
def test_closed_standard_files_do_not_get_into_the_output(tmp_path, blob, whole, name, closed):
    """A file that is opened next would get the number of a closed one."""
    out = tmp_path / "out"
    words = [word for word in command(name, out, blob, False) if word != "--quiet"]
    result = run(["sh", "-c", f'exec "$@" {closed}', "sh", *words])
    prints = name in PRINTERS and ">&-" in closed.split()
    assert result.returncode == (3 if prints else 0) and out.read_bytes() == whole(name)


# --- what is read -----------------------------------------------------------------------------

ONTO_ITSELF = {
    "logits": ["smolrun", "logits", "BLOB", "Hello", "-o", "BLOB"],
    "perplexity": ["smolrun", "perplexity", "BLOB", "TEXT", "--save-logits", "BLOB"],
    "perplexity, text": ["smolrun", "perplexity", "BLOB", "TEXT", "--save-logits", "TEXT"],
    "report": ["smolconv", "report", "BLOB", "--force", "-o", "BLOB"],
    "report, link": ["smolconv", "report", "BLOB", "--force", "-o", "LINK"],
    "report, weights": ["smolconv", "report", "CHECKPOINT", "--force", "-o", "CHECKPOINT/model.safetensors"],
    "convert": ["smolconv", "CHECKPOINT", "--force", "CHECKPOINT/model.safetensors"],
}


@pytest.mark.parametrize("name", ONTO_ITSELF)
def test_what_is_read_is_not_replaced(tmp_path, blob, name):
    """`smolrun logits FILE.smol ... -o FILE.smol` lost the blob."""
    model, text = tmp_path / "model.smol", tmp_path / "text"
    shutil.copy(blob, model)
    text.write_text("Once upon a time\n" * 9)
    (tmp_path / "link").symlink_to(model)
    shutil.copytree(DEMO, tmp_path / "checkpoint")
    words = {"BLOB": model, "TEXT": text, "LINK": tmp_path / "link"}
    program, *rest = [str(words.get(w, w)).replace("CHECKPOINT", str(tmp_path / "checkpoint")) for w in ONTO_ITSELF[name]]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert_fails(run([BUILD / program, *rest]), 2, "name another output")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


STANDARD_READERS = {
    "run": ["smolrun", "BLOB", "-"],
    "chat": ["smolrun", "chat", "BLOB"],
    "--jsonl": ["smolrun", "BLOB", "--jsonl"],
    "tokenize": ["smolrun", "tokenize", "BLOB", "-"],
    "perplexity": ["smolrun", "perplexity", "BLOB", "-"],
    "unpack": ["smolconv", "unpack", "-", "OUT"],
    "patch": ["smolconv", "patch", "BLOB", "-", "OUT"],
}


@pytest.mark.parametrize("name", STANDARD_READERS)
def test_a_file_that_is_open_is_not_read_as_a_closed_standard_input(tmp_path, blob, name):
    """It would get its number: --jsonl took the blob's bytes for requests."""
    words = {"BLOB": blob, "OUT": tmp_path / "out"}
    program, *rest = [str(words.get(word, word)) for word in STANDARD_READERS[name]]
    result = run(["sh", "-c", 'exec "$@" <&-', "sh", str(BUILD / program), *rest])
    assert_fails(result, 3, "standard input: cannot read")


@pytest.mark.parametrize("name", ["run", "--jsonl", "tokenize", "unpack"])
def test_a_standard_input_that_does_not_wait_is_waited_for(tmp_path, blob, whole, name):
    """A pipe with O_NONBLOCK, which is empty when half of it has been read."""
    data = {"--jsonl": b'{"prompt": "Once", "max_tokens": 2}\n{"prompt": "a"}', "unpack": whole("pack")}
    given = data.get(name, b"Once upon a time")
    words = {"BLOB": blob, "OUT": tmp_path / "out"}
    program, *rest = [str(words.get(word, word)) for word in STANDARD_READERS[name]]
    expected = subprocess.run([BUILD / program, *rest], input=given, capture_output=True)
    (tmp_path / "out").unlink(missing_ok=True)
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    process = subprocess.Popen([BUILD / program, *rest], stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.write(writer, given[:9])
    while process.poll() is None and fcntl.ioctl(reader, termios.FIONREAD, bytes(4)) != bytes(4):
        time.sleep(0.01)
    os.close(reader)
    with contextlib.suppress(BrokenPipeError), os.fdopen(writer, "wb") as rest_of_it:
        rest_of_it.write(given[9:])
    stdout, stderr = process.communicate()
    assert (process.returncode, stdout) == (0, expected.stdout), stderr


READERS = {
    "convert": ["smolconv", "FILE", "OUT"],
    "inspect": ["smolconv", "inspect", "FILE"],
    "report": ["smolconv", "report", "FILE", "-o", "OUT"],
    "verify": ["smolconv", "verify", "FILE"],
    "pack": ["smolconv", "pack", "FILE", "OUT"],
    "unpack": ["smolconv", "unpack", "FILE", "OUT"],
    "unpack --resume": ["smolconv", "unpack", "--resume", "FILE", "OUT"],
    "delta": ["smolconv", "delta", "FILE", "FILE", "OUT"],
    "patch": ["smolconv", "patch", "BLOB", "FILE", "OUT"],
    "generate": ["smolrun", "FILE", "Hello", "-n", "2"],
    "generate --no-mmap": ["smolrun", "FILE", "Hello", "-n", "2", "--no-mmap"],
    "tokenize": ["smolrun", "tokenize", "FILE", "Hello"],
    "logits": ["smolrun", "logits", "FILE", "Hello", "-o", "OUT"],
    "bench": ["smolrun", "bench", "FILE", "-n", "1", "-p", "1"],
}
SPARSE = (4 << 30) + 4096, 1 << 40


def make_odd(path, kind, blob):
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "link to nothing":
        path.symlink_to(path.parent / "none")
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.touch()
        if kind == "sparse blob":
            shutil.copy(blob, path)
        if kind == "sparse text":
            path.write_text("{")
        if kind != "empty":
            os.truncate(path, SPARSE[0] if kind == "sparse" else SPARSE[1])


little_memory = limited("DATA", 256 << 20)


KINDS = ["fifo", "folder", "loop", "link to nothing", "device", "empty", "sparse", "sparse blob"]


@pytest.mark.sample(25)
@pytest.mark.parametrize("kind", [*KINDS, "sparse text"])
@pytest.mark.parametrize("name", READERS)
def test_an_odd_file_is_refused_at_once_and_without_memory(tmp_path, blob, name, kind):
    if kind == "fifo" and name in ("unpack", "unpack --resume", "patch"):
        return  # which reads pipes: it waits for a writer
    words = READERS[name]
    path = tmp_path / "odd.safetensors"
    make_odd(path, kind, blob)
    values = {"FILE": path, "BLOB": blob, "OUT": tmp_path / "out"}
    words = [str(BUILD / words[0]), *(str(values.get(word, word)) for word in words[1:])]
    result = run(words, preexec_fn=little_memory)
    assert result.returncode in (2, 3, 4, 5), (result.returncode, result.stderr)
    assert_fails(result, result.returncode, "odd.safetensors" if kind != "folder" else "")
    assert names(tmp_path) == ["odd.safetensors"]


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", [*KINDS, "sparse text"])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "generation_config.json"])
def test_an_odd_json_file_is_refused_at_once_and_without_memory(tmp_path, blob, name, kind):
    checkpoint = Path(shutil.copytree(DEMO, tmp_path / "checkpoint"))
    (checkpoint / name).unlink()
    make_odd(checkpoint / name, kind, blob)
    result = run(
        [BUILD / "smolconv", checkpoint, tmp_path / "out"], preexec_fn=little_memory
    )
    assert result.returncode in (3, 4), result.stderr
    assert_fails(result, result.returncode, name)
    assert names(tmp_path) == ["checkpoint"]


HUGE_PAGE = 2 << 20


def huge_bytes(path):
    """Returns how many bytes of a file are mapped in huge pages after each was read."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        for at in range(0, len(mapped), 4096):
            mapped[at]
        mappings = re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text())
        entry = next(entry for entry in mappings if str(path) in entry)
    return int(re.search(r"^FilePmdMapped: +(\d+) kB$", entry, re.M)[1]) << 10


def test_a_new_blob_is_mapped_in_huge_pages(tmp_path):
    control, blob = tmp_path / "control", tmp_path / "blob"
    with control.open("wb", buffering=0) as file:
        file.write(bytes(HUGE_PAGE))
    if not huge_bytes(control):
        pytest.skip("this system does not map files in huge pages")
    subprocess.run([BUILD / "smolconv", "--quiet", "--dtype", "f32", DEMO, blob], check=True)
    whole = blob.stat().st_size // HUGE_PAGE - 1  # the first one is written in two parts
    assert whole >= 2 and huge_bytes(blob) >= whole * HUGE_PAGE
