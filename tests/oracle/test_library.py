"""The library as those who embed it get it: installed by `make install`, found through pkg-config,
used by the programs in examples/."""
import os
import re
import subprocess

import pytest
from internal import BUILD, ROOT

VERSION = re.search(r'"(.*)"', (ROOT / "common/version.h").read_text().split("SMOL_VERSION")[1])[1]
HEADERS_AND_PROGRAMS = ["bin/smolconv", "bin/smolrun", "include/smol.h"]
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


@pytest.mark.parametrize("libdir", [None, "lib/x86_64-linux-gnu"])
def test_install_and_uninstall_know_the_same_files(tmp_path, libdir):
    """As a distribution calls it: for /usr, into a folder."""
    places = {"DESTDIR": tmp_path, "PREFIX": "/usr"}
    if libdir:
        places["LIBDIR"] = f"/usr/{libdir}"
    make("install", **places)
    library = [f"{libdir or 'lib'}/{name}" for name in LIBRARY]
    assert files_below(tmp_path / "usr") == sorted(HEADERS_AND_PROGRAMS + library)
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


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """A PREFIX that smol was installed to."""
    folder = tmp_path_factory.mktemp("installed")
    make("install", PREFIX=folder)
    return folder
