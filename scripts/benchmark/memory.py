"""The memory of other processes, from /proc."""

import re
from pathlib import Path


def memory_of(pid):
    """Returns {field: bytes}: "VmHWM" is the most resident memory, "RssAnon" that without a file. Empty once the process has
    ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {}
    return {name: int(kb) * 1024 for name, kb in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}
