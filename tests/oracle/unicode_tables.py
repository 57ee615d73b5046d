"""Tables that are made from what Python knows of Unicode; other Pythons know other characters."""

import re
import subprocess
import sys
import unicodedata

import pytest
from internal import ROOT


def need_this_unicode(table):
    """Skips a test unless this Python has the version that the table was made from."""
    version = re.search(r"Unicode ([\d.]+)", (ROOT / table).read_text())[1]
    if version != unicodedata.unidata_version:
        pytest.skip(f"this Python has Unicode {unicodedata.unidata_version}, and {table} {version}")


def assert_generated(table, name):
    need_this_unicode(table)
    assert_written(name)


def assert_written(name):
    command = [sys.executable, ROOT / "scripts/gen-unicode", "--check", name]
    assert subprocess.run(command).returncode == 0
