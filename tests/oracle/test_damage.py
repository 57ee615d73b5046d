"""Random damage to the real model's blob is refused, see tests/damage.c and `make damage`."""

import os
import re
import subprocess

from engine import blob_of
from internal import BUILD

ROUNDS, SEED = 400 if os.environ.get("SMOL_TEST_ALL") else 160, 2


def test_verification_refuses_what_storage_does_to_a_real_blob(real_model_dir):
    command = [BUILD / "tests/damage", blob_of(real_model_dir, "int8"), str(ROUNDS), str(SEED)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    refused = re.findall(r"^(\d+) (\w+) refused$", result.stdout, re.M)
    assert refused == [(str(ROUNDS // 4), k) for k in ("flips", "overwrites", "swaps", "torn")]
