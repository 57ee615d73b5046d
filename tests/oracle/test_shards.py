"""Checkpoints as they come: in shards, in one file with its config elsewhere. However they come, the
same tensors give the same blob. What a bad index does is in hostile_shards.py."""
import contextlib
import json
import os
import re
import resource
import shutil
import struct
import warnings
from pathlib import Path

import pytest
from blobs import read_blob, section, xxh3
from checkpoints import byte_tokenizer, make
from programs import assert_fails, smolconv
from safetensors.torch import load_file, save_file
from smol_reader import PROVENANCE, Blob
from transformers import LlamaForCausalLM

INDEX = "model.safetensors.index.json"


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    return make(tmp_path_factory.mktemp("single"), tie_word_embeddings=False)


@pytest.fixture(scope="module")
def shards(tmp_path_factory, single):
    """The model as the reference saves it in several files."""
    folder = tmp_path_factory.mktemp("shards")
    model = LlamaForCausalLM.from_pretrained(single, dtype="auto")
    model.save_pretrained(folder, max_shard_size="60KB")
    shutil.copy(single / "tokenizer.json", folder)
    assert len(list(folder.glob("model-*.safetensors"))) == 3
    return folder


def contents(path):
    """All that the provenance does not move."""
    blob = Blob(path.read_bytes(), xxh3)
    return blob.model, blob.data[blob.data_offset :]


def convert(out, *arguments, **options):
    result = smolconv("--quiet", *arguments, out, **options)
    assert (result.returncode, result.stderr) == (0, "")
    return out


@pytest.fixture()
def copy(tmp_path, shards):
    """The sharded checkpoint, to be spoiled."""
    return Path(shutil.copytree(shards, tmp_path / "copy"))


@pytest.mark.parametrize("dtype", ["int8", "f32"])
def test_shards_give_the_blob_of_the_one_file(tmp_path, single, shards, dtype):
    one = convert(tmp_path / "one.smol", "--dtype", dtype, single)
    several = convert(tmp_path / "several.smol", "--dtype", dtype, "--threads", 3, shards)
    assert contents(one) == contents(several)
    index = convert(tmp_path / "index.smol", "--dtype", dtype, shards / INDEX)
    assert index.read_bytes() == several.read_bytes()
    within = convert(tmp_path / "within.smol", "--dtype", dtype, INDEX, cwd=shards)
    assert within.read_bytes() == several.read_bytes()


def test_the_provenance_lists_the_index_and_every_shard(tmp_path, shards):
    out = convert(tmp_path / "out.smol", shards)
    files = sorted(path.name for path in shards.glob("model-*.safetensors"))
    offset, size = section(out.read_bytes(), PROVENANCE)
    lines = out.read_bytes()[offset : offset + size].decode().splitlines()[2:]
    for line in lines:
        name, length, digest = line.removeprefix("source: ").split(", ")
        content = (shards / name).read_bytes()
        assert (length, digest) == (f"{len(content)} bytes", f"xxh3 {xxh3(content):016x}")
    names = [line.removeprefix("source: ").split(", ")[0] for line in lines]
    assert names == [INDEX, *files, "config.json", "generation_config.json", "tokenizer.json"]


def test_a_blob_of_shards_is_verified_against_them(tmp_path, single, shards, copy):
    blob = convert(tmp_path / "out.smol", shards)
    for source in (shards, shards / INDEX, copy):
        result = smolconv("verify", "--source", source, blob)
        assert (result.returncode, result.stderr) == (0, "")
    assert_fails(smolconv("verify", "--source", single, blob), 1, "but the provenance is not", "source: model.safetensors")
    file = copy / "model-00002-of-00003.safetensors"
    tensors = load_file(file)
    tensor = next(t for name, t in tensors.items() if t.dim() == 2)
    tensor[0, 0] += 1
    save_file(tensors, file)
    assert_fails(smolconv("verify", "--source", copy, blob), 1, "differs from what this checkpoint gives", "tensor layers.")
    result = smolconv("diff", shards, copy)
    assert result.returncode == 1 and "tensors 1 of" in result.stdout
    assert smolconv("diff", single, shards / INDEX).returncode == 0


def test_a_folder_with_both_is_read_as_the_reference_reads_it(tmp_path, single, copy):
    tensors = load_file(single / "model.safetensors")
    tensors["model.norm.weight"] *= 2
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    reference = LlamaForCausalLM.from_pretrained(copy, dtype="auto").state_dict()
    assert (reference["model.norm.weight"] == tensors["model.norm.weight"]).all()
    blob = read_blob(convert(tmp_path / "out.smol", copy))
    expected = tensors["model.norm.weight"].float().numpy()
    assert (blob.tensors["final_norm"].values() == expected).all()


def test_a_folder_without_weights_says_what_is_expected(tmp_path, copy):
    for path in copy.glob("model*"):
        path.unlink()
    assert_fails(smolconv(copy, tmp_path / "o"), 3, "no model.safetensors or model.safetensors.index.json in it")
    (copy / "model.safetensors").symlink_to("nowhere")
    assert_fails(smolconv(copy, tmp_path / "o"), 3, "model.safetensors: cannot open")


def test_a_shard_by_itself_is_named(tmp_path, shards):
    file = shards / "model-00002-of-00003.safetensors"
    assert_fails(smolconv(file, tmp_path / "o"), 5, "shard 2 of 3", ".index.json")
    assert smolconv("inspect", file).returncode == 0


def test_no_shard_is_written_over(tmp_path, copy):
    for name in (INDEX, "model-00003-of-00003.safetensors"):
        content = (copy / name).read_bytes()
        assert_fails(smolconv("--force", copy, copy / name), 2, "a file of the input")
        assert (copy / name).read_bytes() == content


def test_of_several_shards_too_many_the_first_is_named(copy):
    """Whatever their order in the folder is."""
    for i in (7, 4, 9, 6, 5):
        shutil.copy(copy / "model-00001-of-00003.safetensors", copy / f"model-0000{i}-of-00003.safetensors")
    assert_fails(smolconv(copy, copy / "o.smol"), 4, "model-00004-of-00003.safetensors: this shard is not listed")


def test_what_is_wrong_with_a_tensor_names_its_shard(tmp_path, copy):
    name = "model.layers.1.mlp.up_proj.weight"
    file = copy / json.loads((copy / INDEX).read_text())["weight_map"][name]
    tensors = load_file(file)
    tensors[name][3, 4] = float("nan")
    save_file(tensors, file)
    assert_fails(smolconv(copy, tmp_path / "o"), 4, f"{file}: tensor {name}: element {3 * 64 + 4} (nan)")


def test_the_index_may_name_files_of_any_name(tmp_path, shards, copy):
    """Links that leave the folder are what the cache of the Hub is made of."""
    index = json.loads((copy / INDEX).read_text())
    for i, file in enumerate(sorted(copy.glob("model-*.safetensors"))):
        name = f"part {i}.safetensors"
        file.unlink()
        (copy / name).symlink_to(shards / file.name)
        index["weight_map"] = {
            key: name if value == file.name else value for key, value in index["weight_map"].items()
        }
    (copy / INDEX).write_text(json.dumps(index))
    expected = convert(tmp_path / "expected.smol", shards)
    assert contents(convert(tmp_path / "out.smol", copy)) == contents(expected)


# --- --config -------------------------------------------------------------------------------------


@pytest.fixture()
def apart(tmp_path, single):
    """The weights in one folder, everything else in another, config.json under another name."""
    weights, settings = tmp_path / "weights", tmp_path / "settings"
    weights.mkdir()
    settings.mkdir()
    shutil.copy(single / "model.safetensors", weights / "some.safetensors")
    for file in single.glob("*.json"):
        shutil.copy(file, settings)
    (settings / "config.json").rename(settings / "of-mine.json")
    return weights / "some.safetensors", settings / "of-mine.json"


def test_config_takes_the_other_files_from_its_folder(tmp_path, single, apart):
    weights, config = apart
    blob = convert(tmp_path / "out.smol", "--config", config, weights)
    assert contents(blob) == contents(convert(tmp_path / "single.smol", single))
    text = smolconv("inspect", blob).stdout
    for name in ("some.safetensors", "of-mine.json", "tokenizer.json"):
        assert f"source: {name}, " in text
    assert smolconv("verify", "--source", weights, "--config", config, blob).returncode == 0
    assert_fails(smolconv("verify", "--source", weights, blob), 3, "weights/config.json")


def test_config_goes_with_folders_and_shards_too(tmp_path, shards, apart):
    _, config = apart
    expected = contents(convert(tmp_path / "expected.smol", shards))
    for i, source in enumerate((shards, shards / INDEX)):
        assert contents(convert(tmp_path / f"{i}.smol", "--config", config, source)) == expected


def test_a_config_that_is_none_is_refused(tmp_path, apart):
    weights, config = apart
    assert_fails(smolconv("--config", tmp_path / "none", weights, tmp_path / "o"), 3, "none")
    assert_fails(smolconv("--config", config.parent, weights, tmp_path / "o"), 3, "a folder")
    assert_fails(smolconv("--config", weights, weights, tmp_path / "o"), 4, "some.safetensors: ")
    config.write_text(config.read_text().replace('"hidden_size": 64', '"hidden_size": 2097152'))
    assert_fails(smolconv("--config", config, weights, tmp_path / "o"), 5, "of-mine.json: hidden_size")


# --- more than memory -----------------------------------------------------------------------------

WIDE = dict(
    vocab_size=65536, hidden_size=4096, intermediate_size=21760, num_hidden_layers=1, head_dim=64,
    num_attention_heads=1, num_key_value_heads=1, max_position_embeddings=64, eos_token_id=2,
    tie_word_embeddings=True, architectures=["LlamaForCausalLM"], model_type="llama",
)  # fmt: skip
SHAPES = {
    "model.embed_tokens.weight": [65536, 4096],
    "model.norm.weight": [4096],
    "model.layers.0.input_layernorm.weight": [4096],
    "model.layers.0.self_attn.q_proj.weight": [64, 4096],
    "model.layers.0.self_attn.k_proj.weight": [64, 4096],
    "model.layers.0.self_attn.v_proj.weight": [64, 4096],
    "model.layers.0.self_attn.o_proj.weight": [4096, 64],
    "model.layers.0.post_attention_layernorm.weight": [4096],
    "model.layers.0.mlp.gate_proj.weight": [21760, 4096],
    "model.layers.0.mlp.up_proj.weight": [21760, 4096],
    "model.layers.0.mlp.down_proj.weight": [4096, 21760],
}


def sparse_file(path, names):
    """Tensors of zeros, which take no room on the disk. Returns their bytes."""
    header, at = {}, 0
    for name in names:
        size = 4
        for n in SHAPES[name]:
            size *= n
        header[name] = {"dtype": "F32", "shape": SHAPES[name], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
    return at


def make_large(folder):
    """A checkpoint of 2 GiB in two shards."""
    folder.mkdir()
    names, places, total = list(SHAPES), {}, 0
    for i, part in enumerate((names[:1], names[1:])):
        file = f"model-{i + 1:05}-of-00002.safetensors"
        total += sparse_file(folder / file, part)
        places |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / INDEX).write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(WIDE))
    byte_tokenizer(WIDE["vocab_size"]).save(str(folder / "tokenizer.json"))
    assert total > 2 << 30
    return folder


@contextlib.contextmanager
def memory_group(limit):
    """A control group whose processes have `limit` bytes of memory, the files that they read and
    write included; None, with a warning, where there is none to be had."""
    for base, name in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        group = Path("/sys/fs/cgroup") / base / f"smol-large-{os.getpid()}"
        try:
            group.mkdir(exist_ok=True)
            (group / name).write_text(str(limit))
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        yield group
        group.rmdir()
        return
    warnings.warn("no control group for memory: the page cache is not limited", stacklevel=1)
    yield None


@pytest.mark.slow
def test_a_checkpoint_of_2_gib_is_converted_in_128_mib(tmp_path):
    """64 MB of them for what is not a file."""
    source, out = make_large(tmp_path / "large"), tmp_path / "out.smol"
    with memory_group(128 << 20) as group:

        def limited():
            if group:
                (group / "cgroup.procs").write_text("0")
            resource.setrlimit(resource.RLIMIT_DATA, (64_000_000, 64_000_000))  # nothing behind it

        result = smolconv("--threads", 2, source, out, preexec_fn=limited)
    try:
        assert result.returncode == 0, result.stderr
        assert f"{out.stat().st_size} bytes" in smolconv("verify", out).stdout
        assert re.search(rf"^int8 +{out.stat().st_size} ", smolconv("inspect", source).stdout, re.M)
    finally:
        out.unlink(missing_ok=True)  # half a gigabyte
