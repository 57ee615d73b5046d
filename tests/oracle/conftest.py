"""Shared by the oracle tests. They compare smol with the reference implementation: transformers
in float32 on the CPU, and tokenizers for the token ids.

Take token ids from `tokenizers.Tokenizer.from_file(model / "tokenizer.json")`, not from
AutoTokenizer: transformers 5 rebuilds the class named in tokenizer_config.json (GPT2Tokenizer)
with GPT-2's own pre-tokenizer and loses the rule that splits digits.
"""
import gc
import os
import shutil
import subprocess
import sys
import zlib
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before huggingface_hub is imported: only local files
# Before torch is: with several threads these mostly wait for one another, at full speed.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Ends a test that hangs, or whose work is quadratic where it should be linear (pytest-timeout).
os.environ.setdefault("PYTEST_TIMEOUT", "600")

ROOT = Path(__file__).resolve().parent.parent.parent


def pytest_configure(config):
    config.addinivalue_line("markers", "quick: part of `make check`")
    config.addinivalue_line("markers", "slow: only part of `scripts/check --all`")
    config.addinivalue_line("markers", "sample(n): outside of `scripts/check --all` only n of the test's cases")


def pytest_collection():
    gc.disable()


def pytest_collection_finish():
    """What was imported and collected stays, so the collector of garbage never looks at it: each time would take a second."""
    gc.freeze()
    gc.enable()


def sampled_out(items):
    """Returns what the samples leave out. Which cases are chosen depends on their names alone: the same in every
    run, and spread over the parameters. Cases that are left out anyway do not count."""
    tests = {}
    for item in items:
        if item.get_closest_marker("sample") and not any(map(item.get_closest_marker, ("skip", "slow"))):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    out = set()
    for cases in tests.values():
        (n,) = cases[0].get_closest_marker("sample").args
        out.update(sorted(cases, key=lambda item: zlib.crc32(item.nodeid.encode()))[n:])
    return out


def pytest_collection_modifyitems(config, items):
    """Deselects what is slow, and what is not of a test's sample, unless everything is asked for, or the test by name."""
    if os.environ.get("SMOL_TEST_ALL") or any("::" in word for word in config.args):
        return
    out = sampled_out(items) | {item for item in items if item.get_closest_marker("slow")}
    config.hook.pytest_deselected(items=[item for item in items if item in out])
    items[:] = [item for item in items if item not in out]


@pytest.fixture(scope="session")
def repo_root():
    return ROOT


@pytest.fixture(scope="session")
def training():
    """Texts to train tokenizers from."""
    from texts import training_texts

    return training_texts()


@cache
def load_script(name):
    """Returns a Python script of scripts/ as a module."""
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / "scripts" / name))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def model_builder():
    """scripts/build-test-model, in this process, which has imported torch already."""
    if not (Path(sys.prefix) / ".complete").exists():  # the script would replace this process
        pytest.fail("start pytest with the Python of scripts/venv")
    return load_script("build-test-model")


@pytest.fixture(scope="session")
def rebuilt_model_dir():
    """SmolLM2-135M-Instruct rebuilt from 4-bit weights; made on first use."""
    folder = ROOT / "models/SmolLM2-135M-Instruct"
    model_builder().build(folder, force=False)
    return folder


@pytest.fixture(scope="session")
def gguf_file():
    """The 4-bit file that it was rebuilt from."""
    return model_builder().fetch_gguf()


@pytest.fixture(scope="session")
def is_original():
    """Whether SMOL_HUB_MODEL names a folder with the original checkpoint from the Hub."""
    return bool(os.environ.get("SMOL_HUB_MODEL"))


@pytest.fixture(scope="session")
def real_model_dir(is_original, request):
    """A real model: the original where SMOL_HUB_MODEL names one, otherwise the rebuilt one."""
    if not is_original:
        return request.getfixturevalue("rebuilt_model_dir")
    folder = Path(os.environ["SMOL_HUB_MODEL"])
    if not (folder / "model.safetensors").is_file():
        pytest.fail(f"SMOL_HUB_MODEL={folder} holds no model.safetensors")
    return folder


@pytest.fixture(scope="session")
def demo_blob(tmp_path_factory):
    """demo_blob(dtype, option...): the bundled model, converted by smolconv on first use."""
    from internal import BUILD

    folder = tmp_path_factory.mktemp("demo")

    def convert(dtype="int8", *options):
        blob = folder / f"{dtype}{''.join(options)}.smol"
        if not blob.exists():
            command = [BUILD / "smolconv", "--dtype", dtype, *options, ROOT / "demo/model", blob]
            subprocess.run(command, check=True)
        return blob

    return convert


@pytest.fixture(scope="session")
def blob(demo_blob):
    return demo_blob("int8")


@pytest.fixture(scope="session")
def slow_blob(tmp_path_factory):
    """The bundled model with eight times its layers and room for many tokens: it answers serving.ENDLESS for more
    than ten seconds, so that a test can see what happens in between; the bundled one takes a tenth of a second."""
    from checkpoints import deepen
    from engine import convert

    folder = tmp_path_factory.mktemp("slow")
    return convert(deepen(ROOT / "demo/model", folder / "slow", 8, max_position_embeddings=8192), folder / "slow.smol", "int8")


@pytest.fixture
def checkpoint(tmp_path):
    """A copy of the bundled checkpoint that a test may spoil."""
    return Path(shutil.copytree(ROOT / "demo/model", tmp_path / "checkpoint"))


@pytest.fixture(scope="session")
def demo_tokenizer():
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(ROOT / "demo/model/tokenizer.json"))


@pytest.fixture(scope="session")
def demo_logits():
    """demo_logits(ids): those of the bundled model in transformers, float32 (tokens, vocabulary)."""
    from checkpoints import load_reference, reference_logits

    model = load_reference(ROOT / "demo/model")
    return lambda ids: reference_logits(model, ids)
