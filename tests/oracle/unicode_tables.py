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


def assert_generated(table, script):
    need_this_unicode(table)
    assert subprocess.run([sys.executable, ROOT / "scripts" / script, "--check"]).returncode == 0
