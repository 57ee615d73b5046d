"""The operation of smolserve: its metrics as prometheus_client reads them, the dashboard for Grafana, the commands of
its page, and the units for systemd."""

import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT
from internal import BUILD
from prometheus_client.parser import text_string_to_metric_families
from serving import ENDLESS, post_bytes, serving

DASHBOARD = json.loads((ROOT / "docs/grafana.json").read_text())
UNIT = (ROOT / "debian/smolserve.service").read_text()


# --- metrics --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def families(blob):
    """name -> family, after a few requests."""
    with serving(blob) as server:
        for _ in range(2):
            server.chat("Hello", max_tokens=5, temperature=0)
        assert server.post("/v1/chat/completions", {})[0] == 400
        _, headers, data = server.http("GET", "/metrics")
    assert headers["Content-Type"] == "text/plain; version=0.0.4"
    return {family.name: family for family in text_string_to_metric_families(data.decode())}


def test_metrics_follow_the_practice_of_prometheus(families):
    """https://prometheus.io/docs/practices/naming/: a prefix, base units, _total for counters, help."""
    for name, family in families.items():
        assert re.fullmatch(r"smolserve(_[a-z]+)+", name) and family.documentation.endswith(".") and family.samples, name
        assert not re.search(r"_(ms|milliseconds|microseconds|kb|mb|mib|kibibytes|percent)\b", name), name
        names = {sample.name for sample in family.samples}
        if family.type == "counter":
            assert names == {f"{name}_total"}
        elif family.type == "histogram":
            assert name.endswith("_seconds") and names == {f"{name}_bucket", f"{name}_sum", f"{name}_count"}
            bounds = [float(s.labels["le"]) for s in family.samples if s.name.endswith("_bucket")]
            counts = [s.value for s in family.samples if s.name.endswith("_bucket")]
            assert bounds == sorted(bounds) and bounds[-1] == float("inf") and counts == sorted(counts)
            assert counts[-1] == next(s.value for s in family.samples if s.name.endswith("_count"))
        else:
            assert family.type == "gauge" and names == {name} and not name.endswith("_total")


def test_metrics_count_what_was_done(families):
    requests = {sample.labels["status"]: sample.value for sample in families["smolserve_requests"].samples}
    assert requests["200"] == 2 and requests["400"] == 1
    assert families["smolserve_completion_tokens"].samples[0].value == 10
    assert families["smolserve_resident_bytes"].samples[0].value > 1 << 20
    first = families["smolserve_first_token_seconds"].samples
    assert next(sample.value for sample in first if sample.name.endswith("_count")) == 2


def test_keys_and_values_are_counted_until_the_server_is_idle(slow_blob):
    with serving(slow_blob) as server:
        body = {"model": server.model, "messages": [{"role": "user", "content": "Hello"}]} | ENDLESS
        with server.socket(post_bytes("/v1/chat/completions", body)):
            while server.metrics()["smolserve_kv_bytes"] == 0:  # pytest-timeout ends it
                pass
        server.wait_for("smolserve_kv_bytes", 0)


def expressions():
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_the_dashboard_shows_every_metric_and_no_other(families):
    known = {sample.name for family in families.values() for sample in family.samples}
    used = {name for text in expressions() for name in re.findall(r"\bsmolserve_\w+", text)}
    assert used <= known
    for name, family in families.items():
        assert any(re.search(rf"\b{name}(_total|_bucket|_sum|_count)?\b", text) for text in expressions()), name
        assert family.type != "counter" or any(f"rate({name}_total{{" in text for text in expressions())


def test_the_dashboard_is_whole():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) and DASHBOARD["schemaVersion"] >= 36
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?([a-z]+)", json.dumps(DASHBOARD))) == variables
    cells = [(x, y) for panel in panels for p in [panel["gridPos"]] for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(set(cells)) == len(cells) == 24 * 32 and max(cells)[0] < 24
    for panel in panels:
        assert panel["title"] and panel["fieldConfig"]["defaults"]["unit"] and len({t["refId"] for t in panel["targets"]}) == len(panel["targets"])


# --- curl -----------------------------------------------------------------------------------------


def test_the_page_asks_with_curl_as_it_says(blob, tmp_path):
    (text,) = re.findall(r"^```sh server\n(.*?)^```$", (ROOT / "docs/server.md").read_text(), flags=re.M | re.S)
    (tmp_path / "smollm2.smol").symlink_to(blob)
    with serving(tmp_path / "smollm2.smol") as server:
        environment = {"PATH": os.environ["PATH"], "no_proxy": "*"}
        outputs = [
            subprocess.run(["bash", "-c", line.replace(":8080", f":{server.port}")], env=environment, text=True, check=True, capture_output=True, timeout=60).stdout
            for line in text.splitlines()
        ]  # fmt: skip
    whole, events, year, vectors, tokens, models = outputs
    assert json.loads(whole)["usage"]["completion_tokens"] <= 20
    assert events.startswith("data: {") and events.endswith("data: [DONE]\n\n")
    assert re.fullmatch("19[0-9]{2}", json.loads(year)["choices"][0]["text"])
    assert len(json.loads(vectors)["data"]) == 2 and json.loads(tokens)["count"] == len(json.loads(tokens)["tokens"])
    assert json.loads(models)["data"][0]["id"] == "smollm2"


# --- systemd --------------------------------------------------------------------------------------


def test_the_unit_has_options_that_exist():
    help = subprocess.run([BUILD / "smolserve", "--help"], text=True, capture_output=True, check=True).stdout
    (command,) = re.findall(r"^ExecStart=(.*)$", UNIT, flags=re.M)
    defaults = (ROOT / "debian/smolserve.default").read_text()
    for option in re.findall(r"--[a-z-]+", command + defaults + (ROOT / "docs/server.md").read_text().split("## systemd")[1].split("\n## ")[0]):
        assert re.search(rf"^ +{option}\b", help, flags=re.M) or option in ("--now", "--full"), option
    assert set(re.findall(r"\$(\w+)", command)) == set(re.findall(r"^(\w+)=", defaults, flags=re.M))


@pytest.fixture
def units(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    for name in ("smolserve.service", "smolserve.socket"):
        text = (ROOT / "debian" / name).read_text().replace("/usr/bin/smolserve", str(BUILD / "smolserve"))
        (tmp_path / name).write_text(text.replace("Documentation=man:smolserve(1)\n", ""))  # the page is not installed
    return tmp_path


def analyze(*words):
    return subprocess.run(["systemd-analyze", *map(str, words)], text=True, capture_output=True, timeout=60)


def test_systemd_understands_the_units(units):
    found = analyze("verify", units / "smolserve.service", units / "smolserve.socket")
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
    (units / "smolserve.service").write_text(UNIT.replace("DynamicUser=yes", "DynamicUsers=yes"))
    assert "DynamicUsers" in analyze("verify", units / "smolserve.service").stderr


def test_the_unit_is_as_safe_as_its_page_says(units):
    found = analyze("security", "--offline=true", units / "smolserve.service").stdout
    score = re.search(r"Overall exposure level for smolserve.service: ([\d.]+) ", found)[1]
    assert f"exposure level {score} of 10" in " ".join((ROOT / "docs/server.md").read_text().split())


def members(group):
    """The system calls of a group of systemd's."""
    names = [line.strip() for line in analyze("syscall-filter", group).stdout.splitlines()[1:]]
    names = [name for name in names if name and not name.startswith("#")]
    return {call for name in names for call in (members(name) if name.startswith("@") else {name})}


@pytest.mark.slow
def test_the_unit_allows_the_calls_that_the_server_makes(blob, units, tmp_path):
    """strace follows a server with a socket that was passed to it, from its start through requests of each kind to its end."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    rows = re.findall(r"^SystemCallFilter=(~?)(.*)$", UNIT, flags=re.M)
    sets = [(sign, {c for word in words.split() for c in (members(word) if word.startswith("@") else {word})}) for sign, words in rows]
    allowed = set().union(*(calls for sign, calls in sets if not sign)) - set().union(*(calls for sign, calls in sets if sign))
    assert {"seccomp", "read", "accept4"} <= allowed and "mount" not in allowed
    trace, script = tmp_path / "trace", tmp_path / "smolserve"
    script.write_text(f'#!/bin/sh\nexec strace -f -D -o {trace} {BUILD / "smolserve"} "$@"\n')
    script.chmod(0o755)
    with serving(blob, program=script) as server:
        server.chat("Hello", max_tokens=3)
        server.client.embeddings.create(model=server.model, input="x")
        server.metrics()
    calls = re.findall(r"^\d+ +(\w+)\(", trace.read_text(), flags=re.M)
    assert "accept4" in calls and "seccomp" in calls
    network = {"socket", "bind", "listen", "setsockopt"}  # not with a socket that was passed
    assert set(calls) - network <= allowed
