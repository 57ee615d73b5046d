"""The programs as a user runs them, and what their failures look like."""
import os
import pty
import resource
import subprocess
import termios
from pathlib import Path

from internal import BUILD


def run(program, words, **options):
    """Standard input is empty unless `options`, those of subprocess.run, say otherwise."""
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("timeout", 300)
    return subprocess.run([BUILD / program, *map(str, words)], capture_output=True, **options)


def limited(what, most):
    """Returns a preexec_fn that limits a program: "DATA" is its private writable memory, "FSIZE" the size of a file."""
    return lambda: resource.setrlimit(getattr(resource, f"RLIMIT_{what}"), (most, most))


def smolconv(*words, **options):
    """Its output is text, or bytes where its input is, or with text=False."""
    options.setdefault("text", not isinstance(options.get("input"), bytes))
    return run("smolconv", words, **options)


def smolrun(*words, **options):
    """Its output is bytes."""
    return run("smolrun", words, **options)


def assert_fails(result, status, *parts):
    """Checks that a program printed one line of error with `parts` in it, and its exit status."""
    message = result.stderr if isinstance(result.stderr, str) else result.stderr.decode()
    assert result.returncode == status, (result.returncode, message)
    assert message.startswith(f"{Path(result.args[0]).name}: "), message
    assert message.count("\n") == 1, message
    for part in parts:
        assert part in message, message


def assert_refuses(result, status, *parts):
    """Checks that a program failed in this way, and printed nothing else."""
    assert not result.stdout, result.stdout
    assert_fails(result, status, *parts)


def on_terminal(words, errors=None, columns=0, **environment):
    """Returns what a command of smolrun prints on a terminal, with its errors in between if `errors` is STDOUT."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, columns))  # 0: it does not say
    environment = {"TERM": "xterm", **{k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}, **environment}
    process = subprocess.Popen(
        [BUILD / "smolrun", *map(str, words)],
        stdin=subprocess.DEVNULL, stdout=follower, stderr=errors, env=environment,
    )  # fmt: skip
    os.close(follower)
    data = b""
    try:
        while part := os.read(leader, 65536):
            data += part
    except OSError:  # the last of its users has gone
        pass
    os.close(leader)
    assert process.wait(60) == 0
    return data.decode().replace("\r\n", "\n")


def wiped(shown):
    """Returns the texts that replaced each other in one row of a terminal before it was wiped, and what followed."""
    *drawn, blank, rest = shown.split("\r")
    assert drawn[0] == "" and set(blank) == {" "} and len(blank) == len(drawn[-1].rstrip())
    return [text.rstrip() for text in drawn[1:]], rest
