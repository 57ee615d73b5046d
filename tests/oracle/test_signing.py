"""docs/shipping.md, run as it stands: sign, pack, ship, unpack, verify, run; and what must then be
refused."""

import os
import re
import shutil
import subprocess

import pytest
from blobs import edited, section
from internal import BUILD, ROOT

pytestmark = pytest.mark.slow

OK, DAMAGED = 0, 4
SHIPPED = ("model.smol.zst", "model.sha256", "model.sha256.minisig")
UPDATE = ("model-2.smoldelta", "model-2.sha256", "model-2.sha256.minisig")


def page():
    """The page's text and its commands: [(where, commands)]."""
    text = (ROOT / "docs/shipping.md").read_text()
    return text, re.findall(r"^```sh (\w+)\n(.*?)^```$", text, re.M | re.S)


def shell(folder, commands):
    """(exit status, standard output, standard error) of commands that stop at the first failure."""
    done = subprocess.run(
        ["bash", "-euc", commands], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL,
        env={**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"}, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def done(folder, commands):
    status, output, complaint = shell(folder, commands)
    assert status == OK, complaint
    return output


def make_key(folder, name):
    done(folder, f"minisign -G -W -p {name}.pub -s {name}.key")  # -W: no password to ask for


def step(where, number):
    """The number-th block of commands that the page has for a place."""
    return [commands for place, commands in page()[1] if place == where][number]


@pytest.fixture(scope="module")
def shipment(tmp_path_factory):
    """The folder "home" after the page's first block, the key of somebody else beside it."""
    home = tmp_path_factory.mktemp("shipment") / "home"
    home.mkdir()
    (home / "checkpoint").symlink_to(ROOT / "demo/model")
    make_key(home, "maker")
    make_key(home, "other")
    done(home, step("home", 0))
    return home


@pytest.fixture(scope="module")
def update(shipment):
    """The folder after the second block too."""
    done(shipment, step("home", 1))
    return shipment


@pytest.fixture
def device(shipment, tmp_path):
    """A device that has the maker's key, and what was shipped."""
    for name in (*SHIPPED, "maker.pub"):
        shutil.copy(shipment / name, tmp_path)
    return tmp_path


def receive(device):
    return shell(device, step("device", 0))


# --- as the page says -----------------------------------------------------------------------------


def test_the_page_runs_as_it_stands(shipment, update, device):
    text, blocks = page()
    assert [where for where, _ in blocks] == ["home", "device", "home", "device"]
    assert all(f"`{name}`" in text for name in SHIPPED)
    status, output, complaint = receive(device)
    assert status == OK and len(output) > 20, complaint
    assert (device / "model.smol").read_bytes() == (shipment / "model.smol").read_bytes()

    for name in UPDATE:
        shutil.copy(update / name, device)
    assert len(done(device, step("device", 1))) > 20
    assert (device / "model-2.smol").read_bytes() == (update / "model-2.smol").read_bytes()


# --- what is refused on the way -------------------------------------------------------------------


def flip(path, share):
    data = bytearray(path.read_bytes())
    start = data.index(b"\n") + 1 if path.suffix == ".minisig" else 0  # a comment that nobody signed
    data[start + int((len(data) - start) * share)] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_flipped_bit_in_anything_shipped_is_refused_before_unpacking(device, name, share):
    flip(device / name, share)
    assert receive(device)[0] != OK
    assert not (device / "model.smol").exists()


def test_a_list_that_somebody_else_signed_is_refused(shipment, device):
    done(device, f"minisign -S -m model.sha256 -s {shipment}/other.key")
    status, _, complaint = receive(device)
    assert status != OK and "signature" in complaint.lower(), complaint
    assert (device / "trusted.sha256").read_bytes() == b""


def test_a_list_without_a_signature_is_refused(device):
    (device / "model.sha256.minisig").unlink()
    assert receive(device)[0] != OK


# --- XXH3 is not enough, SHA-256 is ---------------------------------------------------------------


def make_hostile(source, target):
    """Another model, with every digest of its own right: one weight's bits are changed."""

    def edit(data):
        weights, _ = section(data, 33)
        data[weights + 64] ^= 1

    return edited(source, target, edit)


def test_a_blob_with_right_digests_from_an_attacker_is_refused(shipment, device):
    hostile = make_hostile(shipment / "model.smol", device / "hostile.smol")
    done(device, "smolconv verify hostile.smol")  # nothing in the file gives it away
    done(device, "smolconv pack --quiet --force hostile.smol model.smol.zst")
    assert receive(device)[0] != OK
    hostile.rename(device / "model.smol")
    run = 'smolrun model.smol Once -n 2 --require-digest "$(cut -c 1-64 model.sha256 | head -n 1)"'
    status, output, complaint = shell(device, run)
    assert status == DAMAGED and output == "" and "SHA-256" in complaint


def test_a_blob_that_is_changed_after_it_was_unpacked_is_refused(device):
    assert receive(device)[0] == OK
    changed = make_hostile(device / "model.smol", device / "changed.smol")
    changed.rename(device / "model.smol")
    start = step("device", 0).splitlines()[-2:]
    status, output, complaint = shell(device, "\n".join(start))
    assert status == DAMAGED and output == "" and "SHA-256" in complaint


def test_a_blob_unpacked_from_a_pipe_is_judged_in_the_end(shipment, device):
    make_hostile(shipment / "model.smol", device / "hostile.smol")
    done(device, "smolconv pack --quiet hostile.smol hostile.smol.zst")
    for packed, expected in (("model.smol.zst", OK), ("hostile.smol.zst", DAMAGED)):
        done(device, f"smolconv unpack --quiet --force - model.smol < {packed}")
        lines = step("device", 0).splitlines()
        status, _, complaint = shell(device, "\n".join([lines[0], *lines[-2:]]))
        assert status == expected, complaint


def test_an_old_list_is_told_by_its_signed_comment_alone(update, device):
    """The signature of an old list stays right, as the page says."""
    shutil.copy(update / "model-2.sha256", device)
    shutil.copy(update / "model-2.sha256.minisig", device)
    show = "minisign -V -Q -m {} -p maker.pub"
    assert done(device, show.format("model.sha256")) == "model, release 1\n"
    assert done(device, show.format("model-2.sha256")) == "model, release 2, from release 1\n"
