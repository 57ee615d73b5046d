#!/usr/bin/env python3
"""Runs every command of smolconv and smolrun again and again, and each time another call fails: the
k-th allocation, open, read, write, sync, rename ... (shim.c), for every k until there are no more.

    tests/fault/sweep.py BUILD [--first N] [--stride N] [--only TEXT] [--sanitized]

Whatever fails, the program must end by itself, soon, without a crash, and either have done all that
it would have done otherwise, or say what is wrong in one line and with the exit status for it. What
stood where the output goes is as before, or the new file stands there whole; nothing else is left.
A chat saves what it reached after an error, too: a session that the same command can go on from.

--first and --stride take the first N faults of a kind and of the others every so many; --sanitized
is for a build whose programs have the shim linked in (make fault)."""
import argparse
import dataclasses
import errno
import hashlib
import itertools
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tiny

MEMORY, FILE = 6, 3
TEXT = b"abc 12 ab"
REQUESTS = b"""{"prompt": "abc 12", "max_tokens": 3, "logprobs": 1}
{"prompt": "ab", "stop": ["zz"], "temperature": 1, "max_tokens": 2, "id": 1}
{"prompt": "abc", "max_tokens": 1}
"""
TIMEOUT = 60
SIGNALS = {"HUP": 1, "INT": 2, "KILL": 9, "TERM": 15}


@dataclasses.dataclass(frozen=True)
class Fault:
    """How the calls of a group fail. `statuses` beside 0: those that the program may end with."""

    group: str
    action: int
    statuses: tuple
    from_on: bool = False

    def __str__(self):
        how = errno.errorcode.get(self.action, "half" if self.action == 0 else f"signal {-self.action}")
        return f"{self.group} {how}{' from' if self.from_on else ' at'}"


FAULTS = [
    Fault("memory", errno.ENOMEM, (MEMORY,)),
    Fault("memory", errno.ENOMEM, (MEMORY,), from_on=True),
    Fault("thread", errno.EAGAIN, (MEMORY,)),
    Fault("map", errno.ENOMEM, (MEMORY,)),
    Fault("map", errno.ENOMEM, (MEMORY,), from_on=True),
    Fault("map", errno.ENODEV, (MEMORY, FILE)),
    Fault("open", errno.EIO, (FILE,)),
    Fault("open", errno.EMFILE, (FILE,), from_on=True),
    Fault("stat", errno.EIO, (FILE,)),
    Fault("stat", errno.EIO, (FILE,), from_on=True),
    Fault("lock", errno.EIO, (FILE,)),
    Fault("read", errno.EIO, (FILE,)),
    Fault("read", errno.EINTR, ()),
    Fault("read", 0, ()),
    Fault("write", errno.EIO, (FILE,)),
    Fault("write", errno.ENOSPC, (FILE,), from_on=True),
    Fault("write", errno.EINTR, (FILE,)),
    Fault("write", 0, ()),
    Fault("sync", errno.EIO, (FILE,)),
    Fault("close", errno.EIO, (FILE,)),
    Fault("rename", errno.EIO, (FILE,)),
    Fault("rename", errno.ENOSYS, (FILE,)),
    Fault("exclusive", errno.EEXIST, (FILE,)),
    Fault("exclusive", errno.ENOSYS, (), from_on=True),
    Fault("exclusive", errno.EINVAL, (FILE,)),
    Fault("truncate", errno.ENOSPC, (FILE,)),
    Fault("remove", errno.EIO, (FILE,)),
    Fault("seek", errno.ESPIPE, (FILE,)),
    *(Fault("all", -number, ()) for number in SIGNALS.values()),
]


@dataclasses.dataclass(frozen=True)
class Command:
    """A command line; OUT in it is the output, which stands there already if `old`: True, or its
    bytes. What is unfinished
    is kept as OUT.part if `resume`, which may have begun with the bytes `part`."""

    name: str
    words: tuple
    old: bool | bytes = False
    stdin: bytes = b""
    status: int = 0  # what it ends with when nothing fails
    resume: bool = False
    part: bytes = b""
    requests: bool = False  # one that finds no memory is answered with that, and the rest goes on
    saves: bool = False  # OUT, after an error too; that this fails, too, is said in a line of its own


def commands(material):
    """Every command; those that write, with and without a file where the output goes."""
    source, blob = material / "tiny", material / "tiny.smol"
    weights = source / "model.safetensors"
    packed, part = (material / "larger.smol.zst"), (material / "part").read_bytes()
    larger, other = material / "larger.smol", material / "other.smol"
    delta = material / "delta"
    threads = ("--threads", "2")
    exact = material / "exact.smol"
    calibrated = ("--dtype", "int4", "--calibration", material / "gram")
    return [
        Command("convert", ("smolconv", *threads, source, "OUT")),
        Command("convert --force", ("smolconv", *threads, "--force", source, "OUT"), old=True),
        Command("convert shards", ("smolconv", *threads, material / "sharded", "OUT")),
        Command("convert lora", ("smolconv", *threads, "--lora", f"{material / 'adapter'}:2", source,
                                 "OUT")),
        Command("convert calibrated", ("smolconv", *threads, *calibrated, source, "OUT")),
        Command("convert diagonal", ("smolconv", *threads, "--dtype", "int8", "--calibration",
                                     material / "diagonal", source, "OUT")),
        Command("verify", ("smolconv", "verify", blob)),
        Command("verify --source", ("smolconv", "verify", "--source", source, blob)),
        Command("verify calibrated", ("smolconv", "verify", "--source", source, *calibrated[2:],
                                      material / "calibrated.smol")),
        Command("pack", ("smolconv", "pack", *threads, blob, "OUT")),
        Command("pack --force", ("smolconv", "pack", "--force", blob, "OUT"), old=True),
        Command("unpack", ("smolconv", "unpack", *threads, packed, "OUT")),
        Command("unpack pipe", ("smolconv", "unpack", "--force", "-", "OUT"),
                stdin=packed.read_bytes(), old=True),
        Command("resume", ("smolconv", "unpack", "--resume", packed, "OUT"), resume=True),
        Command("resume a part", ("smolconv", "unpack", "--resume", "--quiet", "-", "OUT"),
                stdin=packed.read_bytes(), resume=True, part=part),
        Command("delta", ("smolconv", "delta", *threads, blob, other, "OUT")),
        Command("delta --force", ("smolconv", "delta", "--force", other, blob, "OUT"), old=True),
        Command("patch", ("smolconv", "patch", larger, delta, "OUT")),
        Command("patch pipe", ("smolconv", "patch", "--force", larger, "-", "OUT"),
                stdin=delta.read_bytes(), old=True),
        Command("diff", ("smolconv", "diff", blob, other), status=1),
        Command("diff safetensors", ("smolconv", "diff", weights, weights)),
        Command("inspect", ("smolconv", "inspect", "--tensors", blob)),
        Command("inspect checkpoint", ("smolconv", "inspect", material / "cached")),
        Command("inspect safetensors", ("smolconv", "inspect", weights)),
        Command("inspect --json", ("smolconv", "inspect", "--json", source)),
        Command("inspect --stats", ("smolconv", "inspect", "--stats", *threads, blob)),
        Command("report", ("smolconv", "report", *threads, blob, "-o", "OUT")),
        Command("report --force", ("smolconv", "report", "--force", source, "-o", "OUT"), old=True),
        Command("diff checkpoint", ("smolconv", "diff", source, weights)),
        Command("generate", ("smolrun", blob, "abc 12", "-n", "3", *threads)),
        Command("generate --json", ("smolrun", blob, "ab", "-n", "3", "--json", "--stop", "zz")),
        Command("sample", ("smolrun", blob, "-", "-n", "3", "--temp", "1", "--top-k", "9",
                           "--top-p", "0.9", "--repeat-penalty", "1.1", "--no-mmap", *threads),
                stdin=b"ab 12 " * 5),
        Command("generate --jsonl", ("smolrun", blob, "--jsonl", "--sequences", "2", *threads),
                stdin=REQUESTS, requests=True),
        Command("digest", ("smolrun", blob, "ab", "-n", "1", "--ids", "--verify", "open",
                           "--require-digest", hashlib.sha256(blob.read_bytes()).hexdigest())),
        Command("session", ("smolrun", blob, "abc 12", "-n", "3", "--session", "OUT", *threads)),
        Command("session, again", ("smolrun", blob, "", "-n", "3", "--session", "OUT"),
                old=(material / "session").read_bytes()),
        Command("chat", ("smolrun", "chat", material / "chat.smol", "-n", "3", "--session", "OUT"),
                stdin=b"ab\n/regen\n", saves=True),
        Command("bench", ("smolrun", "bench", blob, "-p", "1", "-n", "1", "--json", *threads)),
        Command("logits", ("smolrun", "logits", blob, "abc", "-o", "OUT", *threads)),
        Command("logits, old", ("smolrun", "logits", blob, "--tokens", "5 6", "-o", "OUT"), old=True),
        Command("perplexity", ("smolrun", "perplexity", blob, material / "text", "--save-logits", "OUT",
                               *threads)),
        Command("perplexity, old", ("smolrun", "perplexity", blob, "-", "--save-logits", "OUT", "--kl-from",
                                    material / "saved"), stdin=TEXT, old=True),
        Command("calibrate", ("smolrun", "calibrate", *threads, exact, material / "text", "-o", "OUT"),
                resume=True),
        Command("calibrate a part", ("smolrun", "calibrate", "--diagonal", exact, "-", "-o", "OUT"),
                stdin=TEXT, resume=True, part=(material / "diagonal").read_bytes()[:300]),
        Command("explain", ("smolrun", "explain", blob, "-", "-n", "3", "--given", *threads), stdin=TEXT),
        Command("explain --json", ("smolrun", "explain", blob, "ab", "-n", "3", "--temp", "1", "--json")),
        Command("tokenize", ("smolrun", "tokenize", blob, "-"), stdin=b"abc " * 9),
        Command("detokenize", ("smolrun", "tokenize", blob, "--decode", "12 70 12")),
    ]  # fmt: skip


OLD = b"what stood here before"


def old_bytes(command):
    return OLD if command.old is True else command.old


@dataclasses.dataclass
class Outcome:
    status: int
    stdout: bytes
    stderr: str
    files: dict  # what is in the output's folder afterwards
    calls: int  # of the group
    struck: int
    call: int  # the last that was made to fail, and its first argument
    argument: int


class Runner:
    """Runs commands in a folder of its own, which is made anew for each run."""

    def __init__(self, build, folder, sanitized):
        self.build, self.folder = build, folder
        self.environment = {**os.environ, "SMOL_FAULT_REPORT": str(folder / "report")}
        if sanitized:
            self.environment["ASAN_OPTIONS"] = "allocator_may_return_null=1:handle_segv=1"
            self.environment["SMOL_SANDBOX"] = "off"  # it refuses what is done at the end
        else:
            self.environment["LD_PRELOAD"] = str(build / "tests/fault.so")

    def prepare(self, command):
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        if command.old:
            (out / "OUT").write_bytes(old_bytes(command))
        if command.part:
            (out / "OUT.part").write_bytes(command.part)

    def run(self, command, fault, k):
        """Runs it on what is in the folder, with the k-th call failing; 0: none."""
        out = self.folder / "out"
        program, *words = command.words
        words = [str(out / "OUT") if word == "OUT" else str(word) for word in words]
        plan = f"{fault.group} {fault.action} {k} {int(fault.from_on)}"
        try:
            done = subprocess.run(
                [self.build / program, *words], input=command.stdin, capture_output=True,
                env={**self.environment, "SMOL_FAULT": plan}, timeout=TIMEOUT, close_fds=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Outcome(-1000, b"", "", {}, 0, 1, -1, 0)
        if done.returncode == 125:  # the shim itself could not begin; elsewhere in memory it can
            return self.run(command, fault, k)  # and nothing has happened
        *report, _ = struct.unpack("<QQqqQ", (self.folder / "report").read_bytes())
        files = {path.name: path.read_bytes() for path in out.iterdir()}
        stdout = re.sub(rb'("\w*(_ms|_second|_min|_max|bytes)"): [\d.null]+', rb"\1", done.stdout)
        return Outcome(done.returncode, stdout, done.stderr.decode(), files, *report)


def complaint(command, fault, good, got):
    """Returns a complaint about an outcome, or None. `good`: the outcome of the run in which nothing failed."""
    before = {"OUT": old_bytes(command)} if command.old else {}
    killed = fault.action == -SIGNALS["KILL"]
    left = {name: data for name, data in got.files.items() if not is_kept(name, command, killed)}
    if got.status == -1000:
        return "hangs"
    if re.search("Sanitizer|runtime error", got.stderr):
        return "sanitizer: " + got.stderr
    if fault.action < 0:
        if got.status not in (fault.action, good.status):
            return f"status {got.status}, not the signal's"
        return None if left in (before, good.files) else f"left {sizes(got.files)}"
    if command.requests and got.status == 0 and are_answers(got.stdout, good.stdout):
        return None
    if got.status == good.status and (got.stdout, got.files) != (good.stdout, good.files):
        return f"says {got.status}, but stdout {got.stdout[:200]!r}, files {sizes(got.files)}"
    if got.status == good.status:
        return None
    if command.part and not got.files:
        return "the part is lost"
    if got.status not in fault.statuses:
        return f"status {got.status}, due {fault.statuses}: {got.stderr}"
    if left not in (before, good.files) and fault.group != "remove" and not (
        command.saves and [*left] == ["OUT"]
    ):
        return f"left {sizes(got.files)}"
    if not good.stdout.startswith(got.stdout) and not (
        command.resume and re.fullmatch(rb"\d+\n", got.stdout)
    ):
        return f"stdout {got.stdout[:200]!r}"
    about_stderr = fault.group == "write" and got.argument == 2
    lines = "{1,2}" if command.saves else ""
    # a program that runs out of descriptors may first say that the sandbox did
    errors = re.sub(r"^smolrun: warning: sandbox: [^\n]+\n", "", got.stderr)
    if not re.fullmatch(rf"(smol(conv|run): [^\n]+\n){lines}", errors) and not about_stderr:
        return f"stderr {got.stderr!r}"
    return None


def are_answers(got, good):
    """Whether requests have their answers, but for some that there was no memory for."""
    pairs = itertools.zip_longest(got.splitlines(), good.splitlines())
    return all(a == b or (a and b and b'"code": "memory"' in a) for a, b in pairs)


def is_kept(name, command, killed):
    """Whether the file may be left when a command has failed."""
    return (command.resume and name == "OUT.part") or (killed and name.startswith("OUT.tmp-"))


def sizes(files):
    return {name: len(data) for name, data in files.items()}


def sample(n, first, stride):
    """Returns the first few numbers of 1..n, then every stride-th, and the last."""
    return sorted({*range(1, min(first, n) + 1), *range(first + 1, n + 1, stride), n} - {0})


def sweep(runner, command, fault, first, stride):
    """Returns the number of runs and what was wrong with them."""
    runner.prepare(command)
    good = runner.run(command, fault, 0)
    if good.status != command.status:
        return 1, [f"{command.name}: without a fault: status {good.status}: {good.stderr}"]
    if fault.group == "memory" and good.calls == 0:
        return 1, [f"{command.name}: the shim sees no allocations"]
    wrong = []
    numbers = sample(good.calls, first, stride)
    for k in numbers:
        runner.prepare(command)
        got = runner.run(command, fault, k)
        problem = complaint(command, fault, good, got)
        if command.resume and not problem and got.files != good.files:
            again = runner.run(command, fault, 0)
            if (again.status, again.files) != (0, good.files):
                problem = f"cannot be resumed: {again.stderr} {sizes(again.files)}"
        if command.saves and not problem and got.files not in ({}, good.files):
            again = runner.run(command, fault, 0)
            if again.status != 0:
                problem = f"cannot be gone on from: {again.stderr} {sizes(got.files)}"
        if problem:
            wrong.append(f"{command.name}: {fault} {k}: {problem.strip()}")
    return len(numbers), wrong


def make_material(build, folder):
    """Makes the files that the commands work on."""
    tool = build / "smolconv"
    kinds = (("tiny", 32, 0), ("other", 32, 1), ("larger", 8192, 0), ("newer", 8192, 1))
    for name, middle, seed in kinds:
        source = tiny.make(folder / name, middle, seed)
        subprocess.run([tool, "--quiet", source, folder / f"{name}.smol"], check=True)
    tiny.shard(folder / "tiny", folder / "sharded")
    (folder / "cached/snapshots").mkdir(parents=True)
    (folder / "cached/refs").mkdir()
    (folder / "cached/refs/main").write_text("one")
    for revision in ("one", "two"):  # as in the Hub's cache
        (folder / "cached/snapshots" / revision).symlink_to(folder / "sharded")
    tiny.adapt(folder / "adapter")
    two = (folder / "larger.smol", folder / "newer.smol")
    subprocess.run([tool, "delta", "--quiet", *two, folder / "delta"], check=True)
    (folder / "template").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    chat = ("--chat-template", folder / "template", folder / "tiny", folder / "chat.smol")
    subprocess.run([tool, "--quiet", *chat], check=True)
    packed = folder / "larger.smol.zst"
    subprocess.run([tool, "pack", "--quiet", folder / "larger.smol", packed], check=True)
    size = packed.stat().st_size
    with subprocess.Popen(
        [tool, "unpack", "--quiet", "--resume", "-", folder / "begun"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as begun:  # fmt: skip
        begun.communicate(packed.read_bytes()[: size * 3 // 4])
    (folder / "begun.part").rename(folder / "part")
    subprocess.run(
        [build / "smolrun", folder / "tiny.smol", "abc", "-n", "2", "--session", folder / "session"],
        stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    (folder / "text").write_bytes(TEXT)
    words = ["perplexity", folder / "tiny.smol", folder / "text", "--save-logits", folder / "saved"]
    subprocess.run([build / "smolrun", *words], check=True, stdout=subprocess.DEVNULL)
    calibrate(build, folder)


def calibrate(build, folder):
    """Statistics of both kinds, and a blob that was converted with them."""
    exact, tool = folder / "exact.smol", [build / "smolconv", "--quiet"]
    subprocess.run([*tool, "--dtype", "f32", folder / "tiny", exact], check=True)
    for name, kind in (("gram", []), ("diagonal", ["--diagonal"])):
        words = ["calibrate", exact, folder / "text", "-o", folder / name, *kind]
        subprocess.run([build / "smolrun", *words], check=True)
    words = ["--dtype", "int4", "--calibration", folder / "gram", folder / "tiny"]
    subprocess.run([*tool, *words, folder / "calibrated.smol"], check=True)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--first", type=int, default=1 << 30)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--only", default="", help="sweeps whose name holds this")
    parser.add_argument("--sanitized", action="store_true", help="the shim is linked in")
    return parser.parse_args()


def main():
    options = parse()
    build = options.build.resolve()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        root = Path(name)
        make_material(build, root)
        work = [
            (command, fault)
            for command, fault in itertools.product(commands(root), FAULTS)
            if options.only in f"{command.name}: {fault}"
        ]

        def one(job):
            number, (command, fault) = job
            folder = root / str(number)
            folder.mkdir()
            runner = Runner(build, folder, options.sanitized)
            return sweep(runner, command, fault, options.first, options.stride)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(one, enumerate(work)))
    wrong = [line for _, lines in results for line in lines]
    print("\n".join(wrong))
    print(f"{sum(n for n, _ in results) - len(wrong)} passed, {len(wrong)} failed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
