"""smolconv inspect of a checkpoint: whether it is supported, what it is, and how large what it becomes
is, which is held against what it becomes."""
import json
import re

import engine
import pytest
from checkpoints import edit_json, make, make_of
from families import CONFIGS
from features import featured
from internal import ROOT
from programs import smolconv
from test_embedder import write_modules

DEMO = ROOT / "demo/model"
DTYPES = ("int4", "int5", "int6", "int8", "bf16", "f32")


def inspect(*arguments):
    result = smolconv("inspect", *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def row(text, name):
    (value,) = re.findall(rf"^{name} +(.*)$", text, re.M)
    return value


def sizes(*arguments, context=None):
    """dtype: bytes of the blob, of keys and values, of all, for the longest text or another."""
    memory = json.loads(inspect("--json", *arguments))["memory"]
    context = context or max(need["context"] for need in memory)
    return {
        need["dtype"]: [need["blob_bytes"], need["kv_bytes"], need["total_bytes"]]
        for need in memory
        if need["context"] == context
    }


@pytest.fixture(scope="module")
def variants(tmp_path_factory):
    """name: the words for inspect, and for converting."""
    import sys

    sys.path.append(str(ROOT / "tests/fault"))
    import tiny

    folder = tmp_path_factory.mktemp("variants")
    tiny.shard(tiny.make(folder / "tiny"), folder / "sharded")
    tiny.adapt(folder / "adapter")
    untied = make(folder / "untied", tie_word_embeddings=False, attention_bias=True, vocab_size=300)
    return {
        "the demo model": [DEMO],
        "one file": ["--config", DEMO / "config.json", DEMO / "model.safetensors"],
        "shards": [folder / "sharded"],
        "an adapter": ["--lora", f"{folder / 'adapter'}:0.25", folder / "tiny"],
        "untied": [untied],
    }


@pytest.mark.parametrize("name", ["the demo model", "one file", "shards", "an adapter", "untied"])
def test_sizes_are_those_of_the_blobs(tmp_path, variants, name):
    words = variants[name]
    text = inspect(*words)
    assert row(text, "supported") == "yes"
    table = sizes(*words)
    assert set(table) == set(DTYPES)
    for dtype, (size, cache, both) in table.items():
        out = tmp_path / f"{dtype}.smol"
        assert smolconv("--quiet", "--dtype", dtype, *words, out).returncode == 0
        assert size == out.stat().st_size and both == size + cache
        assert row(text, dtype).split()[0] == str(size)


@pytest.mark.sample(16)
@pytest.mark.parametrize("family", CONFIGS)
def test_sizes_of_every_family_are_those_of_the_blobs(tmp_path, family):
    """Some have sections that Llama's blobs do not have."""
    folder = make_of(featured(family), tmp_path / "checkpoint", seed=1)
    text, out = inspect(folder), tmp_path / "out.smol"
    assert smolconv("--quiet", folder, out).returncode == 0
    assert sizes(folder)["int8"][0] == out.stat().st_size
    blob = smolconv("inspect", out).stdout
    assert blob[blob.index("layers ") : blob.index("\nprovenance")] in text


def test_longrope_goes_by_the_context(tmp_path):
    factors = dict(short_factor=[1.0] * 8, long_factor=[2.0] * 8)
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 64}
    make(tmp_path, rope_parameters=rope | factors)
    assert row(inspect(tmp_path), "longrope") == "short factors, for texts of up to 64 of 512 tokens"
    text = inspect("--context", 65, tmp_path)
    assert row(text, "longrope") == "long factors, for texts of up to 512 of 512 tokens"
    out = tmp_path / "out.smol"
    assert smolconv("--quiet", "--context", 65, tmp_path, out).returncode == 0
    assert sizes("--context", 65, tmp_path)["int8"][0] == out.stat().st_size


@pytest.mark.parametrize("context", [1, 64, 65, 300, 512, 0])
def test_keys_and_values_are_those_of_the_runtime(demo_blob, context):
    asked = ["--context", context] if context else []
    assert re.search(rf"^memory .* with {context or 512} tokens", inspect(*asked, DEMO), re.M)
    for dtype, (_, cache, _) in sizes(*asked, DEMO, context=context).items():
        with engine.Model(demo_blob(dtype)) as model, model.context(n_ctx=512) as c:
            c.eval([5] * (context or 512), 1)
            assert c.info().kv_bytes == cache


@pytest.mark.parametrize("family", ["lfm2", "lfm3", "granitemoehybrid", "qwen3_5"])
def test_states_are_those_of_the_runtime(tmp_path, family):
    """Two copies, and a snapshot for each 256 tokens and for the end."""
    config = featured(family)
    config.max_position_embeddings = 2000
    folder = make_of(config, tmp_path / "checkpoint", seed=1)
    blob = engine.convert(folder, tmp_path / "out.smol", "int8")
    found = {}
    for context in (2, 256, 600, 2000):
        (need,) = [n for n in json.loads(inspect("--json", "--context", context, blob))["memory"] if n["context"] == context]
        assert need["total_bytes"] == need["blob_bytes"] + need["kv_bytes"] + need["state_bytes"]
        with engine.Model(blob) as model, model.context(n_ctx=2000) as c:
            c.eval([5] * context, 1)
            unused = need["kv_bytes"] - c.info().kv_bytes
            assert unused == 0 or (unused > 0 and (family, context) == ("lfm3", 600))  # windows may need two blocks more
            before = c.info().state_bytes
            c.truncate(0)
            found[context] = need["state_bytes"], before - c.info().state_bytes
    one = found[2][0] // 3
    for context, (state, freed) in found.items():
        assert one > 0 and state == (2 + -(-context // 256)) * one and state <= freed <= state + 4096  # a list of snapshots


def test_what_is_shown_is_what_the_blob_shows(tmp_path, demo_blob):
    """Settings line by line; the rest is what only one of them has."""
    blob = smolconv("inspect", demo_blob()).stdout
    text = inspect(DEMO)
    start, end = blob.index("layers "), blob.index("\nprovenance")
    assert blob[start:end] in text
    assert row(blob, "total").split()[:2] == row(text, "total").split()[:2]
    config = json.loads((DEMO / "config.json").read_text())
    assert row(text, "architecture") == config["architectures"][0]
    assert row(text, "model_type") == config["model_type"]
    assert row(text, "weights") == "model.safetensors"
    assert re.fullmatch(r"56, 4237296 bytes \(4\.0 MiB\): 56 BF16", row(text, "tensors"))


@pytest.mark.parametrize("prompts", [{}, {"query": "find: ", "web": "naïve"}])
def test_embeddings_are_shown_as_of_the_blob(tmp_path, prompts):
    folder = make(tmp_path / "checkpoint")
    write_modules(folder, "mean_tokens", [(32, "tanh", True)], prompts=prompts, default=min(prompts, default=None), width=64)
    engine.convert(folder, tmp_path / "a.smol", "int8")
    text, blob = inspect(folder), inspect(tmp_path / "a.smol")
    assert row(text, "embeddings") == "mean, of 32 values, of length 1, texts of 512 tokens"
    for name in ("embeddings", "default prompt", "prompt"):
        assert re.findall(rf"^{name} .*", text, re.M) == re.findall(rf"^{name} .*", blob, re.M)
    assert len(re.findall("^(?:default )?prompt ", text, re.M)) == len(prompts)


def test_shards_are_counted(variants):
    text = inspect(*variants["shards"])
    assert row(text, "weights") == "model.safetensors.index.json" and row(text, "shards") == "2"


@pytest.mark.parametrize(
    ("edit", "shown"),
    [
        (lambda c: None, ["tokenizer_config.json"]),
        (lambda c: (c / "chat_template.jinja").write_text("{{ x }}"), ["chat_template.jinja"]),
        (lambda c: (c / "tokenizer_config.json").unlink(), []),
        (lambda c: edit_json(c / "tokenizer_config.json", chat_template=None), []),
        (
            lambda c: edit_json(
                c / "tokenizer_config.json",
                chat_template=[{"name": n, "template": ""} for n in ("default", "\x1btools")],
            ),
            ["tokenizer_config.json: default ?tools"],
        ),
    ],
)
def test_the_template_is_found_where_the_reference_looks(checkpoint, edit, shown):
    edit(checkpoint)
    text = inspect(checkpoint)
    assert re.findall(r"^template from +(.*)$", text, re.M) == shown
    assert len(re.findall("^chat template ", text, re.M)) == len(shown)


@pytest.mark.parametrize(
    ("file", "changes", "reason"),
    [
        ("config.json", {"architectures": ["MixtralForCausalLM"]}, "MixtralForCausalLM"),
        ("config.json", {"hidden_act": "relu6"}, "hidden_act"),
        ("config.json", {"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
        ("tokenizer.json", {"model": {"type": "WordLevel"}}, "WordLevel"),
    ],
)
def test_what_is_not_supported_is_no_error_and_says_why(checkpoint, file, changes, reason):
    edit_json(checkpoint / file, **changes)
    text = inspect(checkpoint)
    verdict = row(text, "supported")
    assert verdict.startswith(f"no: {checkpoint}/{file}: ") and reason in verdict
    assert row(text, "tensors").startswith("56, ") and row(text, "model_type") == "llama"
    assert smolconv(checkpoint, checkpoint / "o.smol").returncode == 5


def test_weights_of_another_kind_are_named(checkpoint):
    (checkpoint / "model.safetensors").write_bytes(b"GGUF" + bytes(60))
    text = inspect(checkpoint)
    assert "GGUF" in row(text, "supported") and "\ntensors" not in text


def test_words_of_a_checkpoint_cannot_steer_the_terminal(checkpoint):
    edit_json(checkpoint / "config.json", model_type="ll\x1b[31mama\u202e", architectures=["\x1b]0;x"])
    text = inspect(checkpoint)
    assert row(text, "model_type") == "ll?[31mama?" and row(text, "architecture") == "?]0;x"
    assert "\x1b" not in text and "\u202e" not in text


def test_what_is_damaged_or_missing_is_an_error_all_the_same(tmp_path, checkpoint):
    assert smolconv("inspect", tmp_path).returncode == 3
    assert smolconv("inspect", "--config", tmp_path / "none", DEMO).returncode == 3
    weights = checkpoint / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1])
    result = smolconv("inspect", checkpoint)
    assert result.returncode == 4 and "truncated" in result.stderr and result.stdout == ""
    weights.write_bytes(content)
    (checkpoint / "config.json").write_text("{")
    assert smolconv("inspect", checkpoint).returncode == 4
    assert smolconv("inspect", "--context", 0, DEMO).returncode == 2
    result = smolconv("inspect", "--context", 513, DEMO)
    assert result.returncode == 2 and "--context 513: the model's longest text is 512 tokens" in result.stderr
