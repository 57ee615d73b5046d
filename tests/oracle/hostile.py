"""Hand-written bad files, one for each rule of each format, and the real programs run on them, with
little memory and time:

    "$(scripts/venv)" tests/oracle/hostile.py BUILD [--sanitized]

runs them and counts; test_hostile.py does the same with pytest, and compares with other readers.
Sanitized programs, which take long to start, get no blob twice where the same code reads it, and
without SMOL_TEST_ALL every fourteenth case. The cases are in hostile_*.py, blobs and deltas named after
the step of the document that finds them, the others after what is wrong. Each blob comes a second
and a third time: packed, and as what a delta makes.

Where a case is what made a published flaw in readers of GGUF, it is marked:
  [21802]  CVE-2024-21802  a count of dimensions past the end of an array
  [23605]  CVE-2024-23605  a count that wraps when multiplied by the size of an entry
  [53630]  CVE-2025-53630  a sum of sizes that wraps
  [27940]  CVE-2026-27940  the same once each size is checked: rounding or another factor wraps
  [33298]  CVE-2026-33298  a product of dimensions that wraps to something small
  [7482]   CVE-2026-7482   offset and size of a tensor past the end of the file
  [length] a string's length past its end    [zero]    a zero that something is divided by
  [align]  an alignment without a bound      [type]    a table of the wrong element type
  [alias]  an offset into the header         [depth]   recursion without a bound
What only an assertion forbade, gone in a release build, has no mark: all cases run on release
builds.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from blob_images import base
from hostile_blobs import BLOBS
from hostile_cases import DAMAGED, DEMO, GIB, NUMERIC, OK, UNSUPPORTED, write
from hostile_deltas import DELTAS, PATCHED
from hostile_gguf import GGUF
from hostile_json import INDEX, JSON
from hostile_packed import PACKED
from hostile_safetensors import SAFETENSORS
from hostile_shards import SHARDS
from hostile_stats import OF_HEADS, STATS, tiny

ADDRESS_SPACE, SECONDS = GIB + (512 << 20), 60  # of a process: the largest file and half a gibibyte


def run(command, limited):
    """(exit status, what it says); a run that takes too long fails."""
    limit = ["sh", "-c", f'ulimit -v {ADDRESS_SPACE >> 10} && exec "$0" "$@"'] if limited else []
    result = subprocess.run(
        [*limit, *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, timeout=SECONDS,
    )  # fmt: skip
    return result.returncode, result.stderr.decode(errors="replace")


def complaint(program, expected, words, result):
    """Returns a complaint about the result of a run, or None."""
    status, message = result
    allowed = expected if isinstance(expected, tuple) else (expected,)
    if status not in allowed:
        return f"{program}: exit status {status}, should be {expected}: {message}"
    if status == OK:
        return None
    if message.count("\n") != 1 or not message.startswith(program.split()[0] + ": "):
        return f"{program}: not one line: {message}"
    if status != NUMERIC:
        missing = [word for word in words if word not in message]
        if missing:
            return f"{program}: does not say {missing}: {message}"
    return None


def check_blob(case, build, folder, limited=True):
    """Gives the case to all that reads blobs; returns what is wrong."""
    path = folder / "x.smol"
    write(path, case.make())
    commands = {
        "smolconv verify": [build / "smolconv", "verify", path],
        "smolconv inspect": [build / "smolconv", "inspect", "--tensors", path],
        "smolrun": [build / "smolrun", path, "the", "-n", "2", "--threads", "1"],
        "smolconv diff": [build / "smolconv", "diff", path, path],
    }
    statuses = case.status if isinstance(case.status, tuple) else (case.status,) * 3
    statuses = (*statuses, case.strictest)
    found = [
        complaint(program, status, case.words, run(command, limited))
        for (program, command), status in zip(commands.items(), statuses, strict=True)
        if limited or program in ("smolconv verify", "smolrun")
    ]
    return [text for text in found if text]


def check_packed(case, build, folder, limited=True):
    """Unpacking finds what is wrong with the packed file, or with the blob in it."""
    path = folder / "x.smol.zst"
    write(path, case.make())
    found = run([build / "smolconv", "unpack", "--threads", "1", path, folder / "x.smol"], limited)
    unpacked = complaint("smolconv unpack", case.status, ("x.smol", *case.words), found)
    left = "an output is left" if sorted(folder.iterdir()) != [path] else None
    return [text for text in (unpacked, left) if text]


def check_delta(case, build, folder, limited=True):
    """A bad delta makes no NEW."""
    old, path, new = folder / "old.smol", folder / "x.smoldelta", folder / "new.smol"
    old.write_bytes(base("1.0-int8"))
    write(path, case.make())
    found = run([build / "smolconv", "patch", old, path, new], limited)
    made = complaint("smolconv patch", case.status, case.words, found)
    allowed = [new, old, path] if found[0] == OK else [old, path]
    left = "an output is left" if sorted(folder.iterdir()) != allowed else None
    return [text for text in (made, left) if text]


def checkpoint(folder, file, content):
    """The bundled checkpoint with one file of it replaced."""
    for source in DEMO.glob("*.json"):
        shutil.copy(source, folder)
    if file not in ("model.safetensors", INDEX):
        (folder / "model.safetensors").symlink_to(DEMO / "model.safetensors")
    write(folder / file, content)


def check_safetensors(case, build, folder, limited=True):
    """A valid safetensors file of these cases lacks the model's tensors."""
    checkpoint(folder, "model.safetensors", case.make())
    path = folder / "model.safetensors"
    found = run([build / "smolconv", "inspect", path], limited)
    inspected = complaint("smolconv inspect", case.status, case.words, found)
    found = run([build / "smolconv", "diff", path, path], limited)
    compared = complaint("smolconv diff", case.status, case.words, found)
    found = run([build / "smolconv", "--threads", "1", folder, folder / "x.smol"], limited)
    words = case.words if case.status != OK else ()
    converted = complaint("smolconv", case.status or DAMAGED, words, found)
    left = "an output is left" if list(folder.glob("*.smol*")) else None
    return [text for text in (inspected, compared, converted, left) if text]


def check_gguf(case, build, folder, limited=True):
    """A description of a file that is not supported tells why, and is no failure."""
    path = folder / "x.gguf"
    write(path, case.make())
    found = run([build / "smolconv", "--threads", "1", path, folder / "x.smol"], limited)
    converted = complaint("smolconv", case.status, case.words, found)
    found = run([build / "smolconv", "inspect", path], limited)
    status = OK if case.status == UNSUPPORTED else case.status
    inspected = complaint("smolconv inspect", status, case.words, found)
    left = "an output is left" if list(folder.glob("*.smol*")) else None
    return [text for text in (converted, inspected, left) if text]


def check_json(file, case, build, folder, limited=True):
    checkpoint(folder, file, case.make())
    found = run([build / "smolconv", "--threads", "1", folder, folder / "x.smol"], limited)
    converted = complaint("smolconv", case.status, (file, *case.words), found)
    left = "an output is left" if list(folder.glob("*.smol*")) else None
    return [text for text in (converted, left) if text]


def check_shards(case, build, folder, limited=True):
    """An index that is believed too much."""
    for source in DEMO.glob("*.json"):
        shutil.copy(source, folder)
    case.make().write(folder)
    found = run([build / "smolconv", "--threads", "1", folder, folder / "x.smol"], limited)
    converted = complaint("smolconv", case.status, case.words, found)
    found = run([build / "smolconv", "diff", folder / INDEX, folder], limited)
    compared = complaint("smolconv diff", case.status, case.words, found)
    made = [folder / "x.smol"] if case.status == OK else []
    left = "an output is left" if list(folder.glob("*.smol*")) != made else None
    return [text for text in (converted, compared, left) if text]


def check_stats(case, build, folder, limited=True):
    """Statistics that are accepted make a good blob."""
    source, stats, blob = tiny.make(folder / "tiny"), folder / "stats", folder / "x.smol"
    if case.name in OF_HEADS:
        source = tiny.share(source, folder / "latent")
    write(stats, case.make())
    words = ["--quiet", "--threads", "1", "--dtype", "int4", "--calibration", stats, source, blob]
    found = run([build / "smolconv", *words], limited)
    converted = complaint("smolconv", case.status, case.words, found)
    left = "an output is left" if sorted(folder.glob("*.smol*")) != [blob] * (case.status == OK) else None
    verified = None
    if blob.exists():
        verified = complaint("smolconv verify", OK, (), run([build / "smolconv", "verify", blob], limited))
    return [text for text in (converted, left, verified) if text]


def main():
    build, limited = Path(sys.argv[1]), "--sanitized" not in sys.argv[2:]
    checks = [(f"blob, {c.name}", lambda f, c=c: check_blob(c, build, f, limited)) for c in BLOBS]
    checks += [(c.name, lambda f, c=c: check_packed(c, build, f, limited)) for c in PACKED]
    deltas = [*DELTAS, *(PATCHED if limited else ())]
    checks += [(c.name, lambda f, c=c: check_delta(c, build, f, limited)) for c in deltas]
    checks += [(f"safetensors, {c.name}", lambda f, c=c: check_safetensors(c, build, f, limited))
               for c in SAFETENSORS]  # fmt: skip
    checks += [(f"GGUF, {c.name}", lambda f, c=c: check_gguf(c, build, f, limited)) for c in GGUF]
    checks += [(c.name, lambda f, n=n, c=c: check_json(n, c, build, f, limited)) for n, c in JSON]
    checks += [(f"shards, {c.name}", lambda f, c=c: check_shards(c, build, f, limited)) for c in SHARDS]
    checks += [(c.name, lambda f, c=c: check_stats(c, build, f, limited)) for c in STATS]
    if not limited and not os.environ.get("SMOL_TEST_ALL"):
        checks = checks[::14]
    failed = 0
    for name, check in checks:
        with tempfile.TemporaryDirectory() as folder:
            found = check(Path(folder))
        failed += bool(found)
        for text in found:
            print(f"{name}: {text}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
