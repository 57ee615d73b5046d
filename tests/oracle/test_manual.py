"""Manual pages and completions match --help of every command, and work in the programs that read them."""
import os
import pty
import re
import select
import subprocess

import pytest
from conftest import ROOT, load_script

DOCS = ROOT / "build/docs"
gen_docs = load_script("gen-docs")
COMMANDS = [(program, name) for program in gen_docs.PROGRAMS for name in gen_docs.command_names(program)]
PAGES = ["-".join(filter(None, command)) for command in COMMANDS]


@pytest.fixture(scope="module", autouse=True)
def docs():
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    subprocess.run(["make", "-s", "-C", ROOT, "all", "docs"], check=True, env=environment)


def run(*words, **options):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=60, **options)


def help_of(program, name):
    result = run(ROOT / "build" / program, *filter(None, [name]), "--help")
    assert result.returncode == 0
    return result.stdout


def options_of(program, name):
    """The flags that --help lists."""
    rows = re.findall(r"^  (-[^ ,]+(?:, --[^ ]+)?)", help_of(program, name), flags=re.M)
    return [flag for row in rows for flag in row.split(", ")]


def shown(page):
    environment = dict(os.environ, MANWIDTH="400", LC_ALL="C.UTF-8")
    text = run("man", "-l", DOCS / f"man/{page}.1", env=environment).stdout
    return re.sub(r".\x08|\x1b\[[0-9;]*m", "", text)


def squeeze(text):
    """Without what depends on the width: white space, and hyphens (U+2010) at the ends of lines."""
    return "".join(text.replace("’", "'").replace("\u2010", "").split())


# --- which there are ------------------------------------------------------------------------------


@pytest.mark.parametrize("program", gen_docs.PROGRAMS)
def test_every_command_that_the_program_knows_is_documented(program):
    """A command that lacks its page: write docs/man/PROGRAM-NAME.1.scd in the manner of the others."""
    folder = ROOT / gen_docs.PROGRAMS[program][0]
    known = set(re.findall(r'\{"([a-z]+)", smol', (folder / "main.c").read_text()))
    assert bool(known) == (program != "smolserve") and set(gen_docs.command_names(program)) == {""} | known
    have = {path.name.removesuffix(".1.scd") for path in (ROOT / "docs/man").glob(f"{program}*.scd")}
    assert have == {page for page in PAGES if page.split("-")[0] == program}


@pytest.mark.parametrize("program", gen_docs.PROGRAMS)
def test_explanations_stand_in_a_column(program):
    for name in gen_docs.command_names(program):
        rows = re.findall(r"^  -.*(?:\n {24}\S.*)?", help_of(program, name), flags=re.M)
        assert rows
        for row in rows:  # a name that is too long for its column has a line of its own
            assert re.fullmatch(r"  .{20}  \S.*|  \S.{20,}\n {24}\S.*", row), row
            assert max(map(len, row.splitlines())) <= 100, row


# --- manual pages ---------------------------------------------------------------------------------


@pytest.mark.sample(8)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_rendered_without_a_warning(page):
    result = run("man", "--warnings", "-l", "-Tutf8", "-Z", DOCS / f"man/{page}.1", env=dict(os.environ, LC_ALL="C.UTF-8"))
    assert (result.returncode, result.stderr) == (0, "")
    text = shown(page)
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "SEE ALSO"):
        assert f"\n{section}\n" in text
    assert "@" not in text
    for other in re.findall(r"(\S+)\(1\)", text.split("SEE ALSO")[1]):
        assert other in PAGES


@pytest.mark.parametrize("program", gen_docs.PROGRAMS)
def test_a_program_s_page_leads_to_those_of_its_commands(program):
    pages = {f"{program}-{name}" for name in gen_docs.command_names(program) if name}
    assert set(re.findall(r"(\S+)\(1\)", shown(program).split("SEE ALSO")[1])) >= pages


@pytest.mark.parametrize("program, name", COMMANDS)
def test_a_page_says_what_help_says(program, name):
    text, expected = shown("-".join(filter(None, (program, name)))), help_of(program, name)
    for flag in options_of(program, name):
        assert re.search(rf"^ +(-\w, )?{re.escape(flag)}( |,|$)", text, flags=re.M), flag
    text = squeeze(text)
    for paragraph in re.split(r"\n\n", expected):
        lines = [line for line in paragraph.split("\n") if not line.startswith(("  ", "usage: "))]
        assert squeeze("\n".join(lines)) in text
    usage = expected.split("\n")[0].removeprefix("usage: ")
    assert squeeze(usage) in text


# --- completions ----------------------------------------------------------------------------------


def test_the_shells_can_read_them():
    for program in gen_docs.PROGRAMS:
        files = {"bash": program, "zsh": f"_{program}", "fish": f"{program}.fish"}
        for shell, file in files.items():
            result = run(shell, "-n", DOCS / "completions" / shell / file)
            assert (result.returncode, result.stderr) == (0, "")


def bash_completes(program, *words):
    """Returns what bash offers for the last word."""
    script = """
        . "$1"; shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        "_$1"
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    result = run("bash", "-c", script, "bash", DOCS / "completions/bash" / program, program, *words)
    assert result.stderr == ""
    return result.stdout.split()


def fish_completes(program, *words):
    script = f'source {DOCS}/completions/fish/{program}.fish; complete -C"{program} {" ".join(words)}"'
    result = run("fish", "--no-config", "-c", script)
    assert result.stderr == ""
    return [line.split("\t")[0] for line in result.stdout.splitlines()]


@pytest.mark.parametrize("program, name", COMMANDS)
def test_every_option_is_completed(program, name):
    expected = options_of(program, name)
    words = [*filter(None, [name]), "x"]
    assert bash_completes(program, *words, "-") == expected
    long = {flag for flag in expected if flag.startswith("--")}
    assert set(fish_completes(program, *words, "--")) >= long
    text = (DOCS / f"completions/zsh/_{program}").read_text()
    section = text.split(f"\n({name or '*'})\n")[1].split(";;")[0]
    assert re.findall(r"'\*?(-[^\[=]+)=?\[", section) == expected


@pytest.mark.parametrize("complete", [bash_completes, fish_completes])
def test_commands_and_values_are_completed(tmp_path, complete):
    for program in gen_docs.PROGRAMS:
        names = [name for owner, name in COMMANDS if owner == program and name]
        assert set(names) <= set(complete(program, ""))
        assert set(names).isdisjoint(complete(program, "x", ""))
    assert sorted(complete("smolrun", "bench", "x", "--kv", "f")) == ["f16", "f32"]
    assert sorted(complete("smolrun", "--verify", "o")) == ["off", "open"]
    assert complete("smolrun", "--temp", "") == []
    assert complete("smolconv", "verify", "--source", f"{ROOT}/dem") in ([f"{ROOT}/demo"], [f"{ROOT}/demo/"])
    assert complete("smolconv", f"{ROOT}/READ") == [f"{ROOT}/README.md"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    for name in ("a.smol", "b.smol", "b.smol.zst", "c.smoldelta", "about", "folder/d.smol", "full/about"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)


EVERY = {"a.smol", "b.smol", "b.smol.zst", "c.smoldelta", "about", "folder", "full"}
BLOBS = {"a.smol", "b.smol", "folder", "full"}
PACKED, DELTAS = {"b.smol.zst", "folder", "full"}, {"c.smoldelta", "folder", "full"}
FILES = [  # words of a command, and the files that are offered for the last one
    ("smolrun bench", "", BLOBS), ("smolrun bench --threads 2", "", BLOBS), ("smolrun bench --json", "", BLOBS),
    ("smolrun --no-mmap", "", BLOBS), ("smolrun bench", "b", {"b.smol"}), ("smolrun bench", "ab", {"about"}),
    ("smolrun bench", "folder/", {"folder/d.smol"}), ("smolrun bench", "full/", {"full/about"}),
    ("smolrun perplexity a.smol", "", EVERY), ("smolrun perplexity --ctx 9 a.smol --json", "", EVERY),
    ("smolrun perplexity --kl-from", "", EVERY), ("smolconv inspect", "", EVERY), ("smolconv diff a.smol", "", EVERY),
    ("smolconv verify", "", BLOBS), ("smolconv unpack", "", PACKED), ("smolconv about", "", BLOBS),
    ("smolconv patch a.smol", "", DELTAS), ("smolconv patch a.smol c.smoldelta", "", BLOBS),
    ("smolconv delta a.smol b.smol", "", DELTAS), ("smolconv pack -- a.smol", "", PACKED),
    ("smolconv --calibration", "", EVERY), ("smolconv verify --source", "", EVERY), ("smolconv report full -o", "", EVERY), ("smolserve --unix", "", EVERY),
    ("smolrun calibrate a.smol about -o", "", EVERY), ("smolrun calibrate a.smol -o x about", "", EVERY),
]  # fmt: skip


@pytest.mark.parametrize("words, last, expected", FILES)
def test_bash_offers_the_files_that_are_wanted(files, words, last, expected):
    assert sorted(bash_completes(*words.split(), last)) == sorted(expected)


def test_bash_counts_no_value_after_an_equals_sign(files):
    assert set(bash_completes("smolrun", "bench", "--kv", "=", "f16", "")) == BLOBS
    assert set(bash_completes("smolrun", "perplexity", "--kv", "=", "f16", "a.smol", "")) == EVERY


@pytest.mark.parametrize("words, wanted", [("bench", {"a.smol", "b.smol"}), ("", {"a.smol", "b.smol"}), ("bench a.smol", set())])
def test_fish_offers_the_files_that_are_wanted_first(files, words, wanted):
    commands = {name for owner, name in COMMANDS if owner == "smolrun" and name}
    found = [word.rstrip("/") for word in fish_completes("smolrun", *words.split(), "") if word not in commands]
    assert set(found) == EVERY and len(found) == len(EVERY)
    assert set(found[: len(wanted)]) == wanted


def test_bash_completes_what_stands_after_an_equals_sign():
    assert bash_completes("smolrun", "--kv", "=", "i") == ["int8", "int4"]
    assert bash_completes("smolrun", "--kv", "=") == ["f32", "f16", "int8", "int4"]


START = {
    "bash": ["bash --norc --noprofile -i", f"PS1=; . {DOCS}/completions/bash/smolrun"],
    "zsh": ["zsh -f -i", f"PS1=; PROMPT_EOL_MARK=; fpath=({DOCS}/completions/zsh $fpath); autoload -Uz compinit; compinit -u -D"],
    "fish": ["fish --no-config -i", f"source {DOCS}/completions/fish/smolrun.fish"],
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("shell", START)
def test_the_tab_key_works(tmp_path, shell):
    """In a terminal, as a user has it: bench --de<Tab> 5 is bench --depth 5, and --kv=f1<Tab> --kv=f16."""
    words = press_keys(tmp_path, shell, b"smolrun ben\t--de\t5 --kv=f1\t\r")
    assert words.replace("--depth=", "--depth ") == "bench --depth 5 --kv=f16\n"


@pytest.mark.parametrize("shell", ["bash", "zsh"])  # fish offers the others too
def test_the_tab_key_finds_blobs(files, tmp_path, shell):
    words = press_keys(tmp_path, shell, b"smolrun perplexity --ctx 9 a\tab\t\r")
    assert words == "perplexity --ctx 9 a.smol about\n"


def press_keys(tmp_path, shell, keys):
    """The words that a command gets when a line is typed."""
    command, setup = START[shell]
    report = tmp_path / "report"
    define = {"fish": f"function smolrun; echo $argv >{report}; end"}.get(shell, f"smolrun() {{ echo $* >{report}; }}")
    environment = dict(os.environ, TERM="dumb" if shell != "fish" else "xterm", HOME=str(tmp_path))
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(command.split()[0], command.split(), environment)
    ready = tmp_path / "ready"
    os.write(terminal, f"{define}; {setup}; echo >{ready}\r".encode())
    read_until(terminal, ready.exists)
    os.write(terminal, keys)
    read_until(terminal, lambda: report.exists() and report.read_text().endswith("\n"))
    os.write(terminal, b"exit\r")
    os.waitpid(child, 0)
    os.close(terminal)
    return report.read_text()


def read_until(terminal, done):
    """Reads what a shell shows, so that it is not held up, until something is so."""
    for _ in range(600):
        if done():
            return
        if select.select([terminal], [], [], 0.1)[0]:
            os.read(terminal, 65536)
    raise AssertionError("the shell does not answer")


# --- installing -----------------------------------------------------------------------------------


def test_what_is_installed_is_found_and_taken_away(tmp_path):
    def make(target):
        subprocess.run(["make", "-s", "-C", ROOT, target, f"DESTDIR={tmp_path}", "PREFIX=/usr"], check=True)

    make("install-docs")
    found = {str(p.relative_to(tmp_path / "usr/share")) for p in tmp_path.rglob("*") if p.is_file()}
    shells = {f"{folder}/{prefix}{program}{suffix}" for program in gen_docs.PROGRAMS for folder, prefix, suffix in (
        ("bash-completion/completions", "", ""), ("zsh/site-functions", "_", ""), ("fish/vendor_completions.d", "", ".fish"))}  # fmt: skip
    assert found == shells | {f"man/man1/{page}.1" for page in [*PAGES, "smol-fetch"]}
    page = run("man", "-M", tmp_path / "usr/share/man", "smolconv-pack", env=dict(os.environ, LC_ALL="C"))
    assert "compresses a blob for shipping" in page.stdout
    make("uninstall-docs")
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
