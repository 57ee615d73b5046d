"""smolrun.ray and smolrun.spark on clusters of this machine: workers are killed at random and the driver twice, and the
output is, byte by byte, what one `smolrun --jsonl` prints. They run in an environment of their own, which scripts/venv makes:
1.3 GB."""

import json
import os
import random
import re
import signal
import subprocess
import threading
import time
from functools import cache

import package
import pytest
from internal import ROOT
from test_python_batch import HOSTILE, joined, parts, printed, requests, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

JOB = ROOT / "tests/oracle/scale_job.py"
# programs that a kill may hit: command lines of processes contain one of these
WORKERS = {"ray": ("ray::MapWorker", "smolrun --jsonl"), "spark": ("pyspark.daemon", "CoarseGrainedExecutorBackend", "smolrun --jsonl")}


@cache
def python():
    words = [ROOT / "scripts/venv", "--alone", ROOT / "tests/scale-requirements.txt"]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def environment():
    return {**os.environ, "PYTHONPATH": str(package.FOLDER)}


def start(cluster, workers, *words):
    return subprocess.Popen(
        [python(), JOB, cluster, str(workers), *map(str, words)], env=environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run_python(code, *words):
    result = subprocess.run([python(), "-c", code, *map(str, words)], env=environment(), capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-5000:]
    return result.stdout


def descendants(pid):
    """{pid: command line} of all processes that a process has started."""
    parents, lines = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(name)] = int(open(f"/proc/{name}/stat").read().rpartition(")")[2].split()[1])
            lines[int(name)] = open(f"/proc/{name}/cmdline").read().replace("\0", " ").strip()
        except OSError:
            continue
    found, new = {}, {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new}
        found |= {child: lines.get(child, "") for child in new}
    return found


def alive(pid, line):
    try:
        return open(f"/proc/{pid}/cmdline").read().replace("\0", " ").strip() == line != ""
    except OSError:
        return False


def is_worker(cluster, line):
    return any(word in line for word in WORKERS[cluster]) or "/smolrun " in line


def kill_at_random(cluster, driver, folder, ended, killed):
    """Kills an actor, executor, Python worker or smolrun, again and again, each time after some progress: on a slow machine
    nothing else would start."""
    rng, n_parts = random.Random(1), 0
    while not ended.wait(rng.uniform(1, 3)):
        if len(parts(folder)) <= n_parts + 2:
            continue
        n_parts = len(parts(folder))
        workers = [(pid, line) for pid, line in descendants(driver.pid).items() if is_worker(cluster, line)]
        if workers:
            pid, line = rng.choice(workers)
            if alive(pid, line):
                os.kill(pid, signal.SIGKILL)
                killed.append(line.split()[0])


def end(driver):
    """Kills a driver; then what it has started and what does not end by itself."""
    rest = descendants(driver.pid)
    driver.kill()
    driver.communicate()
    stop = time.monotonic() + 20
    while time.monotonic() < stop and any(alive(*one) for one in rest.items()):
        time.sleep(0.2)
    for pid, line in rest.items():
        if alive(pid, line):
            os.kill(pid, signal.SIGKILL)


def disturbed(cluster, workers, words, folder, enough):
    """Runs a job whose workers are killed at random, until the folder has `enough` parts (None: until its end)."""
    driver, ended, killed = start(cluster, workers, *words), threading.Event(), []
    thread = threading.Thread(target=kill_at_random, args=(cluster, driver, folder, ended, killed))
    thread.start()
    try:
        if enough is None:
            output, errors = driver.communicate(timeout=1200)
            assert driver.returncode == 0, errors[-5000:]
            return json.loads(output.splitlines()[-1]), killed
        wait_until(lambda: len(parts(folder)) >= enough or driver.poll() is not None, 900)
        assert driver.poll() is None, driver.communicate()[1][-5000:]
        return None, killed
    finally:
        ended.set()
        thread.join()
        end(driver)


@pytest.mark.parametrize("cluster", ["ray", "spark"])
def test_workers_killed_at_random_and_the_driver_twice(cluster, blob, tmp_path):
    lines = requests(1500, seed=7)
    for i, line in enumerate(HOSTILE):
        lines.insert(i * 30, line)
    (tmp_path / "rows").write_bytes(b"\n".join(lines))
    expected, out = printed(blob, lines), tmp_path / "out"
    n_rows = expected.count(b"\n")
    n_parts = -(-n_rows // 20)
    words, killed = (blob, tmp_path / "rows", out, json.dumps({"rows_per_part": 20})), []
    for workers, share in ((2, 0.3), (1, 0.6)):
        before = {path: path.stat().st_ino for path in parts(out)}
        _, more = disturbed(cluster, workers, words, out, int(n_parts * share))
        killed += more
        assert len(parts(out)) < n_parts and before.items() <= {path: path.stat().st_ino for path in parts(out)}.items()
    report, more = disturbed(cluster, 3, words, out, None)
    assert killed + more, "no worker was killed"
    assert joined(out) == expected and len(parts(out)) == n_parts
    assert report["reused"] + report["rows"] == report["total"] == n_rows and report["reused"] >= n_rows * 0.6
    assert {path.name[0] for path in out.iterdir()} == {"p", "_"}


ROWS = [{"prompt": "Once", "max_tokens": 3, "url": "a"}, {"prompt": None, "max_tokens": 3, "url": "b"}, {"prompt": "Zoë", "max_tokens": None, "url": "c"}]

STAGE = {
    "ray": """
import json, sys, ray, smolrun.ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
rows = json.loads(sys.argv[2])
answered = smolrun.ray.answer(ray.data.from_items(rows), sys.argv[1], columns=["prompt", "max_tokens"], max_tokens=5, workers=1)
found = sorted(answered.take_all(), key=lambda row: row["url"])
print(json.dumps([[dict(row, answer=None) for row in found], [row["answer"] for row in found]]))
""",
    "spark": """
import json, os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
import smolrun.spark
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
frame = session.createDataFrame(json.loads(sys.argv[2]), "prompt string, max_tokens int, url string")
answered = smolrun.spark.answer(frame, sys.argv[1], columns=["prompt", "max_tokens"], max_tokens=5)
found = sorted((row.asDict() for row in answered.collect()), key=lambda row: row["url"])
print(json.dumps([[dict(row, answer=None) for row in found], [row["answer"] for row in found]]))
""",
}


@pytest.mark.parametrize("cluster", ["ray", "spark"])
def test_a_stage_adds_answers_to_rows(cluster, blob):
    rows, answers = json.loads(run_python(STAGE[cluster], blob, json.dumps(ROWS)).splitlines()[-1])
    assert rows == [row | {"answer": None} for row in ROWS]
    lines = [json.dumps({k: v for k, v in row.items() if v is not None and k != "url"}).encode() for row in ROWS]
    expected = [json.loads(line) for line in printed(blob, lines, "-n", 5).splitlines()]
    assert [json.loads(answer) for answer in answers] == [{k: v for k, v in one.items() if k != "index"} for one in expected]


READ = """
import json, sys, pyarrow as pa, pyarrow.parquet as pq
rows = [{"messages": [{"role": "user", "content": f"Who is {i}?"}], "max_tokens": i % 7} for i in range(60)]
pq.write_table(pa.Table.from_pylist(rows), sys.argv[1], row_group_size=13)
with open(sys.argv[2], "w") as file:
    file.writelines(json.dumps(row, separators=(",", ":")) + "\\n" for row in rows)
"""


@pytest.mark.parametrize("cluster", ["ray", "spark"])
def test_parquet_and_openais_format(cluster, blob, tmp_path):
    run_python(READ, tmp_path / "rows.parquet", tmp_path / "rows.jsonl")
    lines = (tmp_path / "rows.jsonl").read_bytes().splitlines()
    batch_rows = [json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/chat/completions", "body": json.loads(line)}) for i, line in enumerate(lines)]
    (tmp_path / "batch.jsonl").write_text("\n".join(batch_rows))
    for name, more in (("rows.parquet", {}), ("batch.jsonl", {"row_format": "openai", "price": 3.6})):
        driver = start(cluster, 2, blob, tmp_path / name, tmp_path / f"out-{name}", json.dumps({"rows_per_part": 7} | more))
        try:
            output, errors = driver.communicate(timeout=600)
            assert driver.returncode == 0, errors[-5000:]
        finally:
            end(driver)
    assert joined(tmp_path / "out-rows.parquet") == printed(blob, lines)
    found = [json.loads(line) for line in joined(tmp_path / "out-batch.jsonl").splitlines()]
    texts = [json.loads(line)["text"] for line in printed(blob, lines).splitlines()]
    assert [one["response"]["body"]["choices"][0]["message"]["content"] for one in found] == texts
    assert [one["custom_id"] for one in found] == [str(i) for i in range(60)]
    assert json.loads(output.splitlines()[-1])["price"] == 3.6


@pytest.mark.parametrize("cluster", ["ray", "spark"])
def test_errors_say_what_is_wrong(cluster, blob, tmp_path):
    (tmp_path / "rows").write_bytes(b'{"prompt": "Once"}')
    for message, words in (
        ("none: cannot be read", (blob, tmp_path / "none", tmp_path / "out")),
        ("temprature: no such setting", (blob, tmp_path / "rows", tmp_path / "out", '{"temprature": 1}')),
    ):
        driver = start(cluster, 1, *words)
        try:
            _, errors = driver.communicate(timeout=600)
        finally:
            end(driver)
        assert driver.returncode == 1 and message in errors.strip().splitlines()[-1], errors[-3000:]


@pytest.mark.parametrize("cluster", ["ray", "spark"])
def test_the_block_of_the_page_runs(cluster, blob, tmp_path):
    (code,) = re.findall(rf"^```python {cluster}\n(.*?)^```", (ROOT / "docs/scale.md").read_text(), re.M | re.S)
    os.link(blob, tmp_path / "model.smol")
    lines = requests(20)
    (tmp_path / "prompts.jsonl").write_bytes(b"\n".join(lines))
    before = "import os, sys\nos.environ['PYSPARK_PYTHON'] = sys.executable\n"
    assert "Once upon a time" in run_python(before + code.replace("/shared", str(tmp_path)))
    assert joined(tmp_path / "answers") == printed(blob, lines, "-n", 60)


def test_the_batch_of_the_tutorial_runs(blob, tmp_path):
    (code,) = re.findall(r"^```python ray\n(.*?)^```", (ROOT / "docs/python-tutorial.md").read_text(), re.M | re.S)
    os.link(blob, tmp_path / "model.smol")
    printed_text = run_python(f"import os\nos.chdir({str(tmp_path)!r})\n" + code)
    lines = (tmp_path / "towns.jsonl").read_bytes().splitlines()
    assert joined(tmp_path / "answers") == printed(blob, lines, "-n", 40)
    assert "4 of 4 rows" in printed_text and all(town in printed_text for town in ("Oslo", "Lima", "Accra", "Hanoi"))
