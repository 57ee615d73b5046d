"""The library as those who embed it get it: installed by `make install`, found through pkg-config,
used by the programs in examples/."""
import ctypes
import json
import os
import re
import subprocess

import numpy as np
import pytest
import smol_h
import torch
from checkpoints import load_reference
from engine import Model, blob_of, convert
from internal import BUILD, FILE, OK, ROOT, lib
from programs import smolrun
from test_embedder import make as make_embedder
from test_embedder import write_modules
from test_encoder import lines
from tokenizers import Tokenizer
from transformers import AutoTokenizer, GenerationConfig

DEMO = ROOT / "demo/model"

VERSION = ".".join(re.findall(r"^#define SMOL_VERSION_[A-Z]+ (\d+)$", (ROOT / "smol.h").read_text(), re.M))
HEADERS_AND_PROGRAMS = ["bin/smol-fetch", "bin/smolconv", "bin/smolrun", "bin/smolserve", "include/smol.h"]
LIBRARY = ["libsmol.a", "libsmol.so", "libsmol.so.0", f"libsmol.so.{VERSION}", "pkgconfig/smol.pc"]


def make(target, **variables):
    settings = [f"{name}={value}" for name, value in variables.items()]
    command = ["make", "-s", "-C", ROOT, f"BUILD={BUILD}", "DOCS=no", target, *settings]
    subprocess.run(command, check=True, capture_output=True)


def files_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir())


def pkg_config(folder, *arguments, **environment):
    command = ["pkg-config", *arguments, "smol"]
    variables = {**os.environ, "PKG_CONFIG_PATH": str(folder), **environment}
    done = subprocess.run(command, env=variables, check=True, capture_output=True, text=True)
    return done.stdout.split()


# --- make install -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("libdir", [None, "lib/x86_64-linux-gnu"])
def test_install_and_uninstall_know_the_same_files(tmp_path, libdir):
    """make is called as by a distribution: for /usr, into a folder."""
    places = {"DESTDIR": tmp_path, "PREFIX": "/usr"}
    if libdir:
        places["LIBDIR"] = f"/usr/{libdir}"
    make("install", **places)
    library = [f"{libdir or 'lib'}/{name}" for name in LIBRARY]
    found = [name for name in files_below(tmp_path / "usr") if not name.startswith("share/")]
    assert found == sorted(HEADERS_AND_PROGRAMS + library)
    package = tmp_path / "usr" / (libdir or "lib") / "pkgconfig"
    flags = pkg_config(package, "--cflags", "--libs", PKG_CONFIG_SYSROOT_DIR=str(tmp_path))
    assert f"-I{tmp_path}/usr/include" in flags and "-lsmol" in flags
    assert f"-L{tmp_path}/usr/{libdir or 'lib'}" in flags
    assert pkg_config(package, "--modversion") == [VERSION]
    assert "-lm" in pkg_config(package, "--libs", "--static")
    make("uninstall", **places)
    assert files_below(tmp_path) == []


def test_links_lead_to_the_library_by_its_soname(installed):
    folder = installed / "lib"
    assert (folder / "libsmol.so").resolve() == folder / f"libsmol.so.{VERSION}"
    assert (folder / "libsmol.so.0").resolve() == folder / f"libsmol.so.{VERSION}"
    elf = subprocess.run(
        ["readelf", "--wide", "--dynamic", "--version-info", folder / "libsmol.so"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert re.findall(r"soname: \[(.*)\]", elf) == ["libsmol.so.0"]
    assert set(re.findall(r"Name: (SMOL_\w+)", elf)) == {"SMOL_0"}


def test_what_is_installed_is_stripped(installed):
    for name in ("bin/smolconv", "bin/smolrun", "lib/libsmol.so"):
        sections = subprocess.run(
            ["readelf", "--wide", "--sections", installed / name], check=True, capture_output=True
        ).stdout
        assert b".dynsym" in sections and b".symtab" not in sections and b".debug" not in sections


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """A PREFIX that smol was installed to."""
    folder = tmp_path_factory.mktemp("installed")
    make("install", PREFIX=folder)
    return folder


# --- examples/, against the installed copy ----------------------------------------------------

EXAMPLES = ["generate", "chat", "batch", "embeddings"]
WARNINGS = "-O1 -pedantic -Wall -Wextra -Werror".split()
COMPILERS = {
    "gcc": ["gcc", "-std=c99"],
    "clang": ["clang", "-std=c99"],
    "g++": ["g++", "-x", "c++", "-std=c++11"],
    "clang++": ["clang++", "-x", "c++", "-std=c++11"],
}
PROMPTS = ["Once upon a time", "My name is", "The"]
TURNS = ["Hello", "What is your name?"]
TEXTS = ["a red boat", "the boat is red", "My name is Otto."]


def build(installed, folder, compiler, static):
    """Programs from all examples; {name: path}."""
    package = installed / "lib/pkgconfig"
    cflags = pkg_config(package, "--cflags")
    libs = pkg_config(package, "--libs", *(["--static"] if static else []))
    how = ["-static"] if static else [f"-Wl,-rpath,{installed}/lib"]
    programs = {}
    for name in EXAMPLES:
        programs[name] = folder / name
        source = ROOT / f"examples/{name}.c"
        command = [*COMPILERS[compiler], *WARNINGS, *cflags, source, *how, *libs, "-lm"]
        subprocess.run([*command, "-o", programs[name]], check=True)
    return programs


def run(*command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_program_starts_where_the_guide_has_the_loader_look(installed, tmp_path):
    flags = pkg_config(installed / "lib/pkgconfig", "--cflags", "--libs")
    command = [tmp_path / "generate", blob_of(DEMO, "int8"), "Hello"]
    source = ROOT / "examples/generate.c"
    subprocess.run(["cc", source, *flags, "-o", command[0]], check=True)
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 127 and "libsmol.so.0" in found.stderr
    subprocess.run(command, env={**os.environ, "LD_LIBRARY_PATH": f"{installed}/lib"}, check=True, capture_output=True)
    subprocess.run(["cc", source, f"-Wl,-rpath,{installed}/lib", *flags, "-o", command[0]], check=True)
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="session")
def expected():
    """The expected output of the examples, as the reference computes it."""
    reference = load_reference(DEMO)
    tokenizer = Tokenizer.from_file(str(DEMO / "tokenizer.json"))
    stop = reference.generation_config.eos_token_id

    def go_on(ids, n):
        generated = reference.generate(torch.tensor([ids]), max_new_tokens=n, do_sample=False)
        new = [i for i in generated[0, len(ids) :].tolist() if i not in np.atleast_1d(stop)]
        return tokenizer.decode(new)

    def chat():
        messages, template = [], AutoTokenizer.from_pretrained(DEMO)
        for turn in TURNS:
            messages.append({"role": "user", "content": turn})
            text = template.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            messages.append({"role": "assistant", "content": go_on(ids, 256)})
        return [message["content"] for message in messages[1::2]]

    def embed(text):
        ids = tokenizer.encode(text).ids
        with torch.inference_mode():
            states = reference.model(torch.tensor([ids])).last_hidden_state[0]
        return states.double().mean(dim=0).numpy()

    vectors = [embed(text) for text in TEXTS]
    return {
        "generate": [go_on(tokenizer.encode(prompt).ids, 40) for prompt in PROMPTS],
        "chat": chat(),
        "embeddings": [
            vectors[0] @ v / np.sqrt((vectors[0] @ vectors[0]) * (v @ v)) for v in vectors
        ],
    }


def check_answers(programs, blob, expected):
    for prompt, answer in zip(PROMPTS, expected["generate"], strict=True):
        assert run(programs["generate"], blob, prompt) == answer + "\n"
    together = "".join(p + a + "\n" for p, a in zip(PROMPTS, expected["generate"], strict=True))
    assert run(programs["batch"], blob, *PROMPTS) == together
    talk = "".join(answer + "\n" for answer in expected["chat"])
    assert run(programs["chat"], blob, text="\n".join(TURNS) + "\n") == talk
    lines = run(programs["embeddings"], blob, *TEXTS).splitlines()
    assert [line.split("  ", 1)[1] for line in lines] == TEXTS
    cosines = [float(line.split()[0]) for line in lines]
    assert np.allclose(cosines, expected["embeddings"], rtol=0, atol=1e-5)
    assert cosines[0] == 1 and cosines[1] > cosines[2]


@pytest.mark.sample(2)
@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_examples_answer_as_the_reference(compiler, static, installed, expected, tmp_path):
    programs = build(installed, tmp_path, compiler, static)
    needed = run("readelf", "--dynamic", programs["generate"])
    assert ("libsmol.so.0" in needed) == (not static)
    check_answers(programs, blob_of(DEMO, "f32"), expected)


def test_the_example_embeds_as_the_model_says(installed, tmp_path):
    """The model uses the last token and a Dense layer; a text that is too long loses its end."""
    make_embedder(tmp_path / "c", lines(20, seed=1), max_position_embeddings=60)
    write_modules(tmp_path / "c", dense=[(20, "tanh", True)])
    texts = [*TEXTS, " ".join(lines(30, seed=2))]
    blob = convert(tmp_path / "c", tmp_path / "a.smol", "f32")
    expected = smolrun("embed", blob, "-", "--similarity", input="\n".join(texts).encode()).stdout.split()
    shown = run(build(installed, tmp_path, "gcc", static=False)["embeddings"], blob, *texts).splitlines()
    assert np.allclose([float(line.split()[0]) for line in shown[1:]], list(map(float, expected)), rtol=0, atol=2e-6)


def test_examples_fit_a_screen_or_two():
    for path in (ROOT / "examples").glob("*.c"):
        assert len(path.read_text().splitlines()) < 80, path.name


def test_examples_say_what_is_wrong(installed, tmp_path):
    programs = build(installed, tmp_path, "gcc", static=False)
    missing = tmp_path / "missing.smol"
    for name, program in programs.items():
        done = subprocess.run(
            [program, missing, "text"], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        assert done.returncode == FILE, name
        assert done.stderr.startswith(f"{missing}: cannot open")


# --- the log ----------------------------------------------------------------------------------


@ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.py_object), ctypes.c_int, ctypes.c_char_p)
def keep_line(lines, level, message):
    lines.contents.value.append((level, message.decode()))


def test_a_log_has_what_a_model_lacks(checkpoint, tmp_path):
    """A chat template that was not compiled, and why; that nothing ends a text."""
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        settings = json.loads((checkpoint / name).read_text())
        settings |= {"eos_token_id": None, "eos_token": None, "chat_template": "{% include 'header' %}"}
        (checkpoint / name).write_text(json.dumps(settings))
    blob, lines, model, error = tmp_path / "bare.smol", [], ctypes.c_void_p(), smol_h.Error()
    subprocess.run([BUILD / "smolconv", "--quiet", checkpoint, blob], check=True, capture_output=True)
    params = smol_h.ModelParams(on_log=ctypes.cast(keep_line, ctypes.c_void_p))
    params.user = ctypes.cast(ctypes.pointer(ctypes.py_object(lines)), ctypes.c_void_p)
    lib = smol_h.load(BUILD / "libsmol.so")
    status = lib.smol_model_open(
        str(blob).encode(), ctypes.byref(params), ctypes.byref(model), ctypes.byref(error)
    )
    assert status == OK, error
    lib.smol_model_close(model)
    assert [level for level, _ in lines] == [0, 0, 0]
    assert all(line.startswith("bare.smol: ") for _, line in lines)
    assert "the model has no stop token" in lines[1][1]
    assert "chat template" in lines[2][1] and "include" in lines[2][1]


# --- the model's sampling parameters ------------------------------------------------------------

SAMPLING = {
    "nothing": {},
    "penalty without sampling": {"repetition_penalty": 1.125},
    "greedy says so": {"do_sample": False, "temperature": 0.5, "top_k": 9, "top_p": 0.5},
    "sampling alone": {"do_sample": True},
    "all": {
        "do_sample": True, "temperature": 0.75, "top_k": 20, "top_p": 0.875, "min_p": 0.0625,
        "repetition_penalty": 1.25,
    },
}  # fmt: skip


@pytest.mark.parametrize("settings", SAMPLING.values(), ids=SAMPLING)
def test_default_sampler_is_what_generation_config_asks_for(settings, checkpoint, tmp_path):
    """transformers reads the file, and says its mode and its values."""
    path = checkpoint / "generation_config.json"
    path.write_text(json.dumps(settings))
    reference = GenerationConfig.from_pretrained(checkpoint)
    sampled = reference.get_generation_mode() == "sample"
    expected = {name: getattr(reference, name) for name in settings if name != "do_sample"}
    if sampled:
        expected.setdefault("temperature", 1)
    else:
        expected = {name: value for name, value in expected.items() if name == "repetition_penalty"}
    blob = convert(checkpoint, tmp_path / "sampling.smol", "f32")
    with Model(blob) as model:
        found = lib.smol_model_default_sampler(model.handle)
    names = ["temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed"]
    assert {name: getattr(found, name) for name in names} == dict.fromkeys(names, 0) | expected


def test_info_has_whether_there_is_a_chat_template(checkpoint, tmp_path):
    settings = json.loads((checkpoint / "tokenizer_config.json").read_text())
    templates = {None: 0, "{{ messages[0].content }}": 1, "{% include 'header' %}": 0}
    for i, (template, expected) in enumerate(templates.items()):
        settings["chat_template"] = template
        (checkpoint / "tokenizer_config.json").write_text(json.dumps(settings))
        with Model(convert(checkpoint, tmp_path / f"{i}.smol", "f32")) as model:
            assert model.info.has_chat_template == expected


# --- docs/embedding.md ------------------------------------------------------------------------


def test_the_guide_names_what_there_is():
    header = (ROOT / "smol.h").read_text()
    guide = (ROOT / "docs/embedding.md").read_text()
    for name in re.findall(r"`((?:smol|SMOL)_\w+)", guide):
        assert name == "SMOL_ISA" or re.search(rf"\b{name}\b", header), name
