"""smolserve under load and without memory: short runs of scripts/soak-server and tests/fault/sweep_server.py, which
`scripts/check --all` runs for longer."""

import subprocess
import sys

import pytest
from internal import BUILD, ROOT


def assert_succeeds(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_many_clients_get_the_answers_that_each_gets_alone():
    words = ("--seconds", "1.5", "--questions", "30", "--build", BUILD)
    output = assert_succeeds(sys.executable, ROOT / "scripts/soak-server", *words)
    assert "0 faults" in output and " streamed" in output and " left" in output


@pytest.mark.slow
def test_a_request_without_memory_is_refused_and_the_next_one_is_answered():
    subprocess.run(["make", "-s", "-C", ROOT, (BUILD / "tests/fault.so").relative_to(ROOT)], check=True)
    output = assert_succeeds(sys.executable, ROOT / "tests/fault/sweep_server.py", BUILD, "--first", "9", "--stride", "23")
    assert " 0 failed" in output
