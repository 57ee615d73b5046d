"""smolconv as a user runs it, and what its failures look like."""
import subprocess

from internal import BUILD


def smolconv(*arguments, **options):
    command = [str(BUILD / "smolconv"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def assert_fails(result, status, *parts):
    """One line of error and the exit status."""
    assert result.returncode == status, result.stderr
    assert result.stderr.startswith("smolconv: ") and result.stderr.count("\n") == 1, result.stderr
    for part in parts:
        assert part in result.stderr, result.stderr
