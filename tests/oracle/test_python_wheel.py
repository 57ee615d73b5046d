"""Wheels and source distributions of the Python package: their contents, and that what is installed from them gives the
text and the blobs of build/smolrun and build/smolconv. scripts/build-wheels builds the wheels of other machines; the slow
tests install and run them: with every Python that is there, emulated, and with musl."""

import base64
import email
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT
from internal import BUILD
from programs import smolrun as run_program

sys.path.insert(0, str(ROOT / "python"))
import backend

MAXIMUM = 3_000_000  # bytes of a wheel
PIP = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
PROMPT, N = "Once upon a time", 30
GENERATE = """
import smolrun, sys
model = smolrun.Model(sys.argv[1])
print(model.generate(sys.argv[2], max_tokens=int(sys.argv[3]), temperature=0.8).text, end="")
"""


def run(*words, check=True, **options):
    options.setdefault("timeout", 600)
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    assert not check or result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    return result


def build(source, folder, *settings, **options):
    """Builds a wheel with pip (PEP 517), and returns its path."""
    words = [word for setting in settings for word in ("-C", setting)]
    run(*PIP, "wheel", "--no-deps", "--no-cache-dir", "--wheel-dir", folder, *words, source, **options)
    (wheel,) = Path(folder).glob("*.whl")
    return wheel


def make_environment(folder, *wheels):
    """Makes a virtual environment of this Python with NumPy of the tests' environment, so that none is downloaded, and
    returns its interpreter."""
    venv.create(folder)
    python = folder / "bin/python"
    (packages,) = folder.glob("lib/python*/site-packages")
    import numpy

    for path in Path(numpy.__file__).parent.parent.glob("numpy*"):
        (packages / path.name).symlink_to(path)
    for wheel in wheels:
        run(*PIP, "--python", python, "install", "--no-deps", "--no-index", wheel)
    return python


def assert_generates(python, blob, tmp_path):
    """An installed package generates, converts and runs its programs as those of the build do."""
    expected = run_program("--temp", 0.8, blob, PROMPT, "-n", N).stdout.decode().removesuffix("\n")
    environment = {"PATH": "/nowhere"}  # no compiler, no other programs
    options = {"cwd": tmp_path, "env": environment}
    assert expected and run(python, "-I", "-c", GENERATE, blob, PROMPT, N, **options).stdout == expected
    printed = run(python, "-I", "-m", "smolrun", "--temp", 0.8, blob, PROMPT, "-n", N, **options).stdout
    assert printed.removesuffix("\n") == expected
    code = "import smolrun, sys; smolrun.convert(sys.argv[1], 'new.smol', force=True)"
    run(python, "-I", "-c", code, ROOT / "demo/model", **options)
    assert (tmp_path / "new.smol").read_bytes() == Path(blob).read_bytes()


# --- a wheel of this machine -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of the built package."""
    return build(ROOT, tmp_path_factory.mktemp("wheel"), f"folder={BUILD / 'python/smolrun'}")


def test_the_metadata_is_that_of_pyproject(wheel):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        found = email.message_from_bytes(archive.read(name))
        folder = name.rpartition("/")[0]
        licenses = {name.removeprefix(f"{folder}/licenses/") for name in archive.namelist() if "/licenses/" in name}
    extras = project.pop("optional-dependencies")
    expected = {
        "Metadata-Version": ["2.4"],
        "Name": [project.pop("name")],
        "Version": [run(BUILD / "smolrun", "--version").stdout.split()[1]],
        "Summary": [project.pop("description")],
        "License-Expression": [project.pop("license")],
        "License-File": sorted(str(p.relative_to(ROOT)) for pattern in project.pop("license-files") for p in ROOT.glob(pattern)),
        "Classifier": project.pop("classifiers"),
        "Requires-Python": [project.pop("requires-python")],
        "Requires-Dist": project.pop("dependencies")
        + [f'{one}; extra == "{extra}"' for extra, needed in extras.items() for one in needed],
        "Provides-Extra": list(extras),
        "Description-Content-Type": ["text/markdown"],
    }
    assert {key: found.get_all(key) for key in found} == expected
    assert licenses == set(expected["License-File"])
    assert found.get_payload() == (ROOT / project.pop("readme")).read_text()
    assert project == {"dynamic": ["version"]}  # there is nothing else to compare


def assert_recorded(wheel):
    """RECORD lists every file once, with its size and digest; nothing else is there that an installer would write."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (record,) = [name for name in names if name.endswith(".dist-info/RECORD")]
        rows = [line.split(",") for line in archive.read(record).decode().splitlines()]
        assert [row[0] for row in rows] == names == list(dict.fromkeys(names))
        assert rows.pop() == [record, "", ""]
        for name, digest, size in rows:
            data = archive.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            assert (digest, int(size)) == (f"sha256={expected}", len(data)), name
        for entry in archive.infolist():
            assert entry.external_attr >> 16 == (0o100755 if "/_native/" in entry.filename else 0o100644)


def test_a_wheel_is_complete_and_small(wheel):
    assert_recorded(wheel)
    assert wheel.stat().st_size <= MAXIMUM
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
    modules = {f"smolrun/{path.name}" for path in (ROOT / "python/smolrun").iterdir() if path.suffix in (".py", ".typed")}
    assert files == modules | {f"smolrun/_native/{name}" for name in ("libsmol.so", "smolconv", "smolrun")}


def test_an_installed_wheel_works_and_can_be_removed(wheel, blob, tmp_path):
    folder = tmp_path / "an environment"
    python = make_environment(folder)
    before = listing(folder)
    run(*PIP, "--python", python, "install", "--no-deps", "--no-index", wheel)
    assert_generates(python, blob, tmp_path)
    run(*PIP, "--python", python, "uninstall", "-y", "smolrun")
    assert listing(folder) == before and not list(folder.glob("**/smolrun*"))


def test_metadata_does_not_need_a_build(tmp_path):
    """pip asks for it before it builds; without an answer it would compile twice."""
    info = backend.prepare_metadata_for_build_wheel(str(tmp_path), {"make": "CC=false"})
    assert (tmp_path / info / "METADATA").read_text() == backend.metadata()


@pytest.mark.slow
def test_an_editable_install_is_refused(tmp_path):
    python = make_environment(tmp_path / "venv")
    result = run(*PIP, "--python", python, "install", "--no-deps", "--no-index", "-e", ROOT, check=False)
    assert result.returncode and "cannot be installed in editable mode" in " ".join(result.stderr.split())


def test_a_failed_build_leaves_no_wheel_and_says_why(tmp_path, monkeypatch):
    for name, value, message in (
        ("PATH", str(tmp_path), "smolrun: make is missing: the build needs make and a C compiler"),
        ("CC", "false", "smolrun: make ended with status 2: its message is above"),
    ):
        with monkeypatch.context() as context, pytest.raises(SystemExit, match=message):
            context.setenv(name, value)
            backend.build_wheel(str(tmp_path))
    blanks = tmp_path / "with blanks"
    blanks.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(blanks))
    with pytest.raises(SystemExit, match="make needs a folder for temporary files without blanks: set TMPDIR"):
        backend.build_wheel(str(tmp_path))
    assert list(tmp_path.iterdir()) == [blanks] and not any(blanks.iterdir())


# --- the source distribution -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The source distribution with the libraries, as scripts/build-wheels makes it."""
    vendor = run(ROOT / "scripts/vendor").stdout.strip()
    folder = tmp_path_factory.mktemp("sdist")
    return folder / backend.build_sdist(str(folder), {"vendor": vendor})


@pytest.mark.slow
def test_a_source_distribution_contains_itself(sdist, tmp_path):
    """Made again from itself, without git, it is the same."""
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert (source / "PKG-INFO").read_text() == backend.metadata()
    code = "import backend; backend.build_sdist('..')"
    run(sys.executable, "-c", code, cwd=source, env={"PATH": "/nowhere", "PYTHONPATH": "python"})
    assert (tmp_path / sdist.name).read_bytes() == sdist.read_bytes()


def listing(folder):
    return sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts)


@pytest.mark.slow
def test_a_source_distribution_builds_with_a_compiler_and_make_only(sdist, blob, tmp_path):
    """The folder's name has blanks, nothing is written to it, the umask is private, and git and the system's jansson, zstd
    and xxHash are absent."""
    (tmp_path / "source files").mkdir()
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source files", filter="data")
    (source,) = (tmp_path / "source files").iterdir()
    run("chmod", "-R", "a-w", source)
    before = listing(source)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in "sh make cc as ld ar strip mkdir rm ln cp touch sed paste printf find cat".split():
        (tools / name).symlink_to(shutil.which(name))
    for name in ("jansson.h", "zstd.h", "xxhash.h"):  # these come before the system's headers
        (tools / name).write_text("#error")
    environment = {"PATH": str(tools), "CPPFLAGS": f"-isystem {tools}"}
    wheel = build(source, tmp_path, "make=CFLAGS=-O0", env=environment, umask=0o077)
    assert listing(source) == before
    assert_recorded(wheel)
    needed = set().union(*(needs(program)[0] for program in unpack(wheel, tmp_path / "wheel").iterdir()))
    assert {"libc.so.6"} <= needed <= {"libc.so.6", "libm.so.6"} | LOADERS
    assert_generates(make_environment(tmp_path / "venv", wheel), blob, tmp_path)


# --- wheels of other machines (slow) ---------------------------------------------------------------


def slow(test):
    """Building all wheels takes minutes, which count for the first test that needs them."""
    return pytest.mark.slow(pytest.mark.timeout(3600)(test))


MACHINES = {
    "x86_64": ("X86-64", "x86_64-linux-gnu", []),
    "aarch64": ("AArch64", "aarch64-linux-gnu", ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]),
    "armv7l": ("ARM", "arm-linux-gnueabihf", ["qemu-arm", "-L", "/usr/arm-linux-gnueabihf"]),
}
PLATFORMS = [f"{library}-{machine}" for library in ("manylinux", "musllinux") for machine in MACHINES]
LOADERS = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "ld-linux-armhf.so.3"}
GLIBC_2_17 = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"} | LOADERS


def needs(program):
    """Returns the libraries that a program needs, and the greatest version of glibc's symbols, such as (2, 17)."""
    text = run("readelf", "-dVW", program).stdout
    versions = [tuple(map(int, version.split("."))) for version in re.findall(r"Name: GLIBC_([0-9.]+)", text)]
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", text)), max(versions, default=(0,))


def unpack(wheel, folder):
    """Returns the folder of the unpacked programs."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    for program in (folder / "smolrun/_native").iterdir():
        program.chmod(0o755)
    return folder / "smolrun/_native"


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """{platform: wheel}, of all platforms. SMOL_WHEELS names a folder with those of a release, which are then tested."""
    folder = Path(os.environ.get("SMOL_WHEELS") or tmp_path_factory.mktemp("wheels"))
    if not os.environ.get("SMOL_WHEELS"):
        run(ROOT / "scripts/build-wheels", "--out", folder, timeout=3600)
    found = {}
    for wheel in folder.glob("*.whl"):
        library, machine = re.fullmatch(r"smolrun-[0-9.]+-py3-none-([a-z]+)_\d_\d+_(\w+?)(\..*)?\.whl", wheel.name).group(1, 2)
        found[f"{library}-{machine}"] = wheel
    assert sorted(found) == sorted(PLATFORMS)
    return found


@pytest.fixture(scope="module")
def programs(foreign, tmp_path_factory):
    """{platform: folder of its programs}."""
    return {platform: unpack(wheel, tmp_path_factory.mktemp(platform)) for platform, wheel in foreign.items()}


@pytest.fixture(scope="module")
def musl():
    """musl(machine) returns words that run a program with musl, and those that compile for it."""

    def words(machine):
        if machine == "x86_64":
            return ["/usr/lib/x86_64-linux-musl/libc.so"], ["musl-gcc"]
        folder = run(ROOT / "scripts/foreign-libraries", {"aarch64": "arm64", "armv7l": "armhf"}[machine]).stdout.strip()
        _, prefix, runner = MACHINES[machine]
        return [runner[0], f"{folder}/musl/lib/libc.so"], [f"{prefix}-gcc", f"-specs={folder}/musl/gcc.specs"]

    return words


@slow
@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_foreign_wheel_is_for_its_system(foreign, programs, musl, platform):
    library, machine = platform.split("-")
    assert_recorded(foreign[platform])
    assert foreign[platform].stat().st_size <= MAXIMUM
    for program in programs[platform].iterdir():
        header = run("readelf", "-hldW", program).stdout
        assert re.search(rf"Machine: .*\b{MACHINES[machine][0]}\n", header) and "Type:                              DYN" in header
        assert "GNU_RELRO" in header and re.search(r"GNU_STACK .* RW +0", header) and re.search(r"FLAGS_1.* NOW", header)
        assert ".debug_info" not in run("readelf", "-SW", program).stdout
        libraries, version = needs(program)
        if library == "manylinux":
            assert {"libc.so.6"} <= libraries <= GLIBC_2_17 and (2, 0) < version <= (2, 17), program
        else:
            assert libraries <= {f"libc.musl-{machine.replace('v7l', 'v7')}.so.1"} and version == (0,), program
            symbols = run("nm", "-D", "--defined-only", musl(machine)[0][-1]).stdout.split()
            undefined = re.findall(r" U (\w+)", run("nm", "-D", program).stdout)
            assert set(undefined) <= set(symbols), program


@slow
@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_foreign_wheel_computes_the_same(programs, musl, blob, tmp_path, platform):
    """Its programs, and its library through an example of a program that embeds it, emulated where that is necessary."""
    library, machine = platform.split("-")
    _, prefix, runner = MACHINES[machine]
    compiler = [f"{prefix}-gcc" if runner else "cc"]
    folder = programs[platform]
    if library == "musllinux":
        runner, compiler = musl(machine)
    expected = run(ROOT / "scripts/check-text", BUILD, *runner, folder / "smolrun").stdout
    assert "3 passed, 0 failed" in expected
    run(*runner, folder / "smolconv", "--quiet", ROOT / "demo/model", tmp_path / "new.smol")
    assert (tmp_path / "new.smol").read_bytes() == Path(blob).read_bytes()

    run(*compiler, f"-I{ROOT}", "-o", tmp_path / "example", ROOT / "examples/generate.c", folder / "libsmol.so")
    path = [f"LD_LIBRARY_PATH={folder}"]
    environment = ["-E", *path] if runner[:1] and runner[0].startswith("qemu") else []
    words = [*runner[:1], *environment, *runner[1:]] if environment else ["env", *path, *runner]
    printed = run(*words, tmp_path / "example", blob, PROMPT).stdout
    run("cc", f"-I{ROOT}", "-o", tmp_path / "own", ROOT / "examples/generate.c", BUILD / "libsmol.a", "-lm", "-pthread")
    assert printed and printed == run(tmp_path / "own", blob, PROMPT).stdout


@slow
def test_an_emulated_python_runs_the_wheel(foreign, blob, tmp_path):
    """Debian's Python for aarch64, with NumPy's wheel. NumPy has none for armv7l, and there is no Python for musl here."""
    folder = Path(run(ROOT / "scripts/foreign-libraries", "arm64").stdout.strip()) / "python"
    python = (folder / "usr/bin/python3").resolve()
    packages = tmp_path / "packages"
    platforms = [word for tag in ("2014", "_2_28") for word in ("--platform", f"manylinux{tag}_aarch64")]
    version = ["--python-version", python.name.removeprefix("python"), "--only-binary", ":all:"]
    run(*PIP, "install", "--target", packages, *platforms, *version, foreign["manylinux-aarch64"])
    variables = {"PYTHONHOME": folder / "usr", "LD_LIBRARY_PATH": folder / "lib", "PYTHONPATH": packages}
    words = [word for name, value in variables.items() for word in ("-E", f"{name}={value}")]
    emulated = [*MACHINES["aarch64"][2], *words, python]
    expected = run_program("--temp", 0.8, blob, PROMPT, "-n", N).stdout.decode().removesuffix("\n")
    assert run(*emulated, "-c", GENERATE, blob, PROMPT, N).stdout == expected
    code = "import smolrun, sys; print(smolrun.Model(sys.argv[1]).logits([1, 2, 3]).tobytes().hex())"
    logits = run(sys.executable, "-c", code, blob, env={"PYTHONPATH": str(BUILD / "python")}).stdout
    assert run(*emulated, "-c", code, blob).stdout == logits and len(logits) > 1000


@slow
def test_wheels_are_the_same_bytes_from_another_folder(foreign, tmp_path):
    """The other folder's name has blanks, the umask is private, and make runs one job at a time."""
    copy = tmp_path / "another folder"
    copy.mkdir()
    listed = run("git", "ls-files", "-z", cwd=ROOT).stdout.split("\0")
    for name in filter(None, listed):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    run("git", "init", "-q", cwd=copy)
    run("git", "add", "--all", "--force", cwd=copy)
    words = ["--out", tmp_path / "out", "manylinux-aarch64", "musllinux-x86_64"]
    environment = {**os.environ, "LC_ALL": "C", "TZ": "Pacific/Chatham"}
    run("taskset", "1", "scripts/build-wheels", *words, cwd=copy, umask=0o077, env=environment, timeout=3600)
    made = list((tmp_path / "out").iterdir())
    assert len(made) == 3
    for path in made:
        assert path.read_bytes() == (foreign["manylinux-x86_64"].parent / path.name).read_bytes(), path.name


def interpreters():
    """The Python interpreters of this machine, of every version that the package supports."""
    for minor in range(10, 20):
        places = [shutil.which(f"python3.{minor}"), *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3")]
        for python in filter(None, places):
            if run(python, "-c", "import venv, ensurepip", check=False).returncode == 0:
                yield f"3.{minor}", python
                break


@slow
def test_every_python_runs_the_wheel(foreign, blob, tmp_path):
    """Each has a fresh environment with the newest NumPy for it."""
    found = dict(interpreters())
    assert f"3.{sys.version_info.minor}" in found
    for version, python in found.items():
        folder = tmp_path / version
        run(python, "-m", "venv", folder)
        run(folder / "bin/pip", "-q", "install", foreign["manylinux-x86_64"])
        assert_generates(folder / "bin/python", blob, tmp_path)
    print("Python", *found)
