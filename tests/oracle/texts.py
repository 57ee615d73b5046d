"""English prose that every Python brings along: the language reference that `help()` shows."""

from pydoc_data.topics import topics

# Mostly sentences; the topics that are mostly tables and grammar are left out.
PROSE = """execmodel customization objects types debugger attribute-access import compound try
    assignment comparisons naming function class strings with async raise""".split()


def prose():
    """Some 220,000 characters, the same for one version of Python."""
    return "\n\n".join(topics[name] for name in PROSE)
