"""What the scripts have in common that write a C header from what Python packages know of Unicode
(scripts/gen-unicode-*)."""
import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def use_venv():
    """Starts the script again if another Python than scripts/venv's runs it."""
    if (Path(sys.prefix) / ".complete").exists():
        return
    venv = subprocess.run([ROOT / "scripts/venv"], stdout=subprocess.PIPE, text=True)
    if venv.returncode:
        sys.exit(venv.returncode)
    python = venv.stdout.strip()
    os.execv(python, [python, *sys.argv])


def code_ranges(name, ranges):
    """The lines of a table (common/code_range.h)."""
    return [f"static const struct code_range {name}[] = {{", *(f"    {{{a:#x}, {b:#x}}}," for a, b in ranges), "};"]


def main(description, target, header):
    """Writes what `header` returns; with --check only compares it with the committed file."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare with what is there")
    arguments = parser.parse_args()
    text = header()
    if not arguments.check:
        target.write_text(text)
    elif not target.exists() or target.read_text() != text:
        sys.exit(f"{target} is not what this script writes: run it")
