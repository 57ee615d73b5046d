"""debian/ repeats the tree correctly. `make deb` builds the packages, which takes minutes; these tests check
what would be forgotten."""
import re
import subprocess

import pytest
from conftest import ROOT

CONTROL = (ROOT / "debian/control").read_text()


def test_the_packages_are_of_this_release():
    release = ".".join(re.findall(r"^#define SMOL_VERSION_[A-Z]+ (\d+)$", (ROOT / "smol.h").read_text(), re.M))
    assert (ROOT / "debian/changelog").read_text().startswith(f"smol ({release})")


def test_the_library_is_named_for_its_soname():
    number = re.search(r"^SOVERSION := (\d+)$", (ROOT / "Makefile").read_text(), flags=re.M)[1]
    assert f"\nPackage: libsmol{number}\n" in CONTROL
    assert f"libsmol{number} (= ${{binary:Version}})" in CONTROL


def test_the_packages_are_built_with_what_the_tree_is_built_with():
    setup = (ROOT / "scripts/setup").read_text()
    needed = {word for name in ("build", "docs") for word in re.search(rf"^{name}=\((.*?)\)", setup, flags=re.M)[1].split()}
    declared = set(re.findall(r"[a-z0-9-]+", CONTROL.split("Build-Depends: ")[1].split("\n")[0]))
    assert needed - {"gcc", "libc6-dev", "make"} <= declared  # these every Debian package may count on


def test_what_the_packages_list_exists():
    for name in ("smol.docs", "smolserve.examples"):
        for pattern in (ROOT / "debian" / name).read_text().split():
            assert list(ROOT.glob(pattern)), pattern
    for name in ("service", "socket", "default", "dirs"):  # which debhelper installs by these names
        assert (ROOT / f"debian/smolserve.{name}").read_text().strip()


@pytest.mark.parametrize("target", ["all", "clean", "install", "uninstall"])
@pytest.mark.parametrize("name", ["BUILD", "DESTDIR", "PREFIX", "LIBDIR", "MANDIR"])
def test_a_folder_with_blanks_is_refused_before_anything_is_done(tmp_path, name, target):
    """`make uninstall PREFIX="$HOME/my programs"` removed the file $HOME/my."""
    (tmp_path / "my").touch()
    result = subprocess.run(
        ["make", "-s", "-C", ROOT, target, f"{name}={tmp_path}/my programs"], capture_output=True, text=True
    )
    assert result.returncode == 2 and "must be a folder without blanks" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["my"]


def test_the_licence_is_the_licence():
    text = (ROOT / "debian/copyright").read_text().split("\nLicense: MIT\n ")[1]
    assert text.replace("\n .\n", "\n\n").replace("\n ", "\n").split() == (ROOT / "LICENSE").read_text().split("\n", 4)[4].split()
