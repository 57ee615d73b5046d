"""scripts/check-hardening finds what is missing: a program compiled with everything passes, one
that lacks a single property does not."""
import platform
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = r"""
#include <stdio.h>
#include <string.h>
static void show(char *text, int n) {
    char copy[32];
    strcpy(copy, text);
    sprintf(text, "%s %d", copy, n);
    puts(text);
}
int main(int argc, char **argv) {
    char text[64];
    strcpy(text, argv[argc - 1]);
    show(text, argc);
    return 0;
}
"""
FLAGS = """-g -O2 -fPIE -pie -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE
    -D_FORTIFY_SOURCE=2 -Wl,-z,relro,-z,now,-z,noexecstack""".split()
MARKS = {"x86_64": "-fcf-protection", "aarch64": "-mbranch-protection=standard"}
NO_MARKS = {"x86_64": "-fcf-protection=none", "aarch64": "-mbranch-protection=none"}


def check(folder, *flags):
    """Compiles a program with FLAGS and more; (exit status, output) of the script."""
    source = folder / "main.c"
    source.write_text(SOURCE)
    compiler = ["gcc", *FLAGS, MARKS[platform.machine()], *flags, source]
    subprocess.run([*compiler, "-c", "-o", folder / "main.o"], check=True, capture_output=True)
    subprocess.run([*compiler, "-o", folder / "smolrun"], check=True, capture_output=True)
    subprocess.run(["ar", "rcs", folder / "libsmol.a", folder / "main.o"], check=True)
    script = [ROOT / "scripts/check-hardening", folder]
    done = subprocess.run(script, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_a_hardened_program_passes(tmp_path):
    status, output = check(tmp_path)
    assert status == 0 and ", 0 failed" in output, output


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "flag, complaint",
    [
        ("-no-pie", "loaded at a fixed address"),
        ("-Wl,-z,norelro", "no RELRO"),
        ("-Wl,-z,lazy", "not bound at start"),
        ("-Wl,-z,execstack", "memory that is written and executed"),
        ("-Wl,-rpath,/tmp", "a folder of its own for libraries"),
        ("-fno-stack-protector", "no guarded stacks"),
        ("-fno-stack-clash-protection", "without guarded and probed stacks"),
        ("-U_FORTIFY_SOURCE", "no calls that know sizes"),
        (NO_MARKS[platform.machine()], "marked for guarded jumps"),
    ],
)
def test_a_missing_property_is_found(tmp_path, flag, complaint):
    status, output = check(tmp_path, flag)
    assert status == 1 and complaint in output, output
