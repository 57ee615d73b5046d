"""Texts that are at hand: English prose that every Python brings along, the language reference that `help()` shows; and texts to
train tokenizers from."""

from pathlib import Path
from pydoc_data.topics import topics

ROOT = Path(__file__).resolve().parent.parent.parent

# Mostly sentences; the topics that are mostly tables and grammar are left out.
PROSE = """execmodel customization objects types debugger attribute-access import compound try
    assignment comparisons naming function class strings with async raise""".split()


def prose():
    """Some 220,000 characters, the same for one version of Python."""
    return "\n\n".join(topics[name] for name in PROSE)


def training_texts():
    sources = [*sorted(ROOT.glob("*/*.h")), *sorted((ROOT / "tests/oracle").glob("*.py"))]
    words = "naïve café Zürich  Привет мир こんにちは 世界 مرحبا १२३ 한국어 \U0001f600\u200d\U0001f44d "
    return (*(file.read_text(encoding="utf-8") for file in sources), words * 20)
