"""docs/models.md: every model whose settings the tests hold is in it, with the sizes that smolconv states."""

import subprocess
import sys

import pytest
from conftest import load_script
from internal import BUILD, ROOT

ROWS = [line for line in (ROOT / "docs/models.md").read_text().splitlines() if line.startswith("| ")][2:]


@pytest.fixture(scope="module")
def script():
    sys.path.append(str(ROOT / "scripts"))
    return load_script("gen-models")


def test_every_model_of_the_tests_has_its_row(script):
    assert [row.split(" | ")[0].removeprefix("| ") for row in ROWS] == list(script.shapes.models())
    assert set(script.PUBLISHED) | set(script.speeds()) <= set(script.shapes.models())


@pytest.mark.parametrize("name", ["SmolLM2 135M Instruct", "Gemma 3 270M", "LFM2 350M", "GPT-2", "all-MiniLM-L6-v2", "EmbeddingGemma 300M"])
def test_rows_are_what_smolconv_states(script, name):
    (row,) = [row for row in ROWS if row.startswith(f"| {name} | ")]
    assert script.row(name, script.shapes.models()[name], BUILD) == row


@pytest.mark.slow
def test_the_page_is_up_to_date():
    subprocess.run([sys.executable, ROOT / "scripts/gen-models", "--check", "--build", BUILD], check=True)
