#!/usr/bin/env python3
"""Kills commands that write, at random moments, and lets others run in the same folder: the output is
always the old file or the new one, whole, and what killed runs leave hurts nobody.

    tests/fault/kills.py BUILD [--kills N] [--seed N]

SIGKILL cannot be noticed, so a killed run may leave its temporary, OUT.tmp-* (with --resume OUT.part,
with which the next run goes on); nothing else."""
import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tiny

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "demo/model"


def commands(build, folder):
    """Name and words of each command, the output last."""
    out, blob = folder / "OUT", folder / "demo.smol"
    packed = folder / "demo.smol.zst"
    subprocess.run([build / "smolconv", "--quiet", DEMO, blob], check=True)
    subprocess.run([build / "smolconv", "pack", "--quiet", blob, packed], check=True)
    yield "convert", [build / "smolconv", "--quiet", "--force", DEMO, out]
    yield "pack", [build / "smolconv", "pack", "--quiet", "--force", blob, out]
    unpack = [build / "smolconv", "unpack", "--quiet", "--force"]
    yield "unpack", [*unpack, packed, out]
    yield "unpack --resume", [*unpack, "--resume", packed, out]
    newer, delta = folder / "newer.smol", folder / "demo.smoldelta"
    retrained = tiny.retrain(DEMO, folder / "retrained")
    subprocess.run([build / "smolconv", "--quiet", retrained, newer], check=True)
    subprocess.run([build / "smolconv", "delta", "--quiet", blob, newer, delta], check=True)
    yield "delta", [build / "smolconv", "delta", "--quiet", "--force", blob, newer, out]
    yield "patch", [build / "smolconv", "patch", "--force", blob, delta, out]
    exact = folder / "exact.smol"
    subprocess.run([build / "smolconv", "--quiet", "--dtype", "f32", DEMO, exact], check=True)
    (folder / "text").write_text("Anna the baker met Otto in Willowby. " * 60)
    yield "calibrate", [build / "smolrun", "calibrate", exact, folder / "text", "-o", out]
    yield "logits", [build / "smolrun", "logits", blob, "--tokens", "5 6 " * 60, "-o", out]


def run_for(words, seconds):
    """Kills the command after that time. Whether it was killed."""
    process = subprocess.Popen(words)
    try:
        return process.wait(seconds) < 0
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait() < 0


def kill_often(words, kills, numbers):
    """Yields what is wrong; ends with the number of temporaries that were left."""
    out = words[-1]
    start = time.monotonic()
    subprocess.run(words, check=True)
    duration = time.monotonic() - start
    new, old = out.read_bytes(), b"what stood here before"
    others = {path.name for path in out.parent.iterdir()}
    killed = tries = 0
    while killed < kills and tries < 20 * kills:
        tries += 1
        out.write_bytes(old)
        killed += run_for(words, numbers.uniform(0, 1.1 * duration))
        if out.read_bytes() not in (old, new):
            yield f"{out.stat().st_size} bytes after kill {killed}"
    if killed < kills:
        yield f"only {killed} of {tries} runs could be killed"
    left = {path.name for path in out.parent.iterdir()} - others
    if any(not name.startswith(("OUT.tmp-", "OUT.part")) for name in left):
        yield f"left {left}"
    subprocess.run(words, check=True)
    if out.read_bytes() != new:
        yield "another output after the kills"
    print(f"{killed} of {tries} runs killed within {duration:.3f} s, {len(left)} temporaries left")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--kills", type=int, default=250, help="of each command")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = passed = 0
    with tempfile.TemporaryDirectory() as name:
        for command, words in commands(options.build.resolve(), Path(name)):
            print(command, end=": ", flush=True)
            wrong = list(kill_often(words, options.kills, random.Random(options.seed)))
            print("".join(f"{command}: {line}\n" for line in wrong), end="")
            failed += bool(wrong)
            passed += not wrong
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
