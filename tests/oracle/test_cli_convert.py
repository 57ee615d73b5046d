"""smolconv from outside: every command, option and exit status, on the bundled checkpoint and on
broken copies of it."""
import json
import os
import pty
import re
import struct
import subprocess

import numpy as np
import pytest
from blobs import edited, section, spoiled, xxh3
from checkpoints import edit_json, make
from internal import BUILD, ROOT
from programs import assert_fails, limited, smolconv, smolrun
from safetensors.numpy import load_file, save_file
from smol_reader import PROVENANCE, Blob
from test_embedder import write_modules

DEMO = ROOT / "demo/model"


@pytest.fixture(scope="module")
def blob(tmp_path_factory):
    out = tmp_path_factory.mktemp("blob") / "demo.smol"
    assert smolconv(DEMO, out).returncode == 0
    return out


def edit_tensors(checkpoint, edit):
    """Rewrites the weights as float32 after edit(tensors)."""
    import torch
    from safetensors.torch import load_file as load_torch

    path = checkpoint / "model.safetensors"
    tensors = {name: t.to(torch.float32).numpy().copy() for name, t in load_torch(path).items()}
    edit(tensors)
    save_file(tensors, path)


# --- converting -------------------------------------------------------------------------------


def test_converts_a_folder_or_the_file_in_it_to_the_same_bytes(tmp_path):
    folder, file = tmp_path / "folder.smol", tmp_path / "file.smol"
    assert smolconv(DEMO, folder).returncode == 0
    result = smolconv("--threads", 1, "--quiet", DEMO / "model.safetensors", file)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert folder.read_bytes() == file.read_bytes()


def test_a_model_of_the_hub_is_what_smol_fetch_is_for(tmp_path):
    name = "HuggingFaceTB/SmolLM2-135M-Instruct"
    result = smolconv(name, tmp_path / "out.smol", cwd=tmp_path)
    assert_fails(result, 3, f"smolconv: {name}: no such file or folder: ", f"run smol-fetch {name}\n")
    (tmp_path / name).mkdir(parents=True)
    assert "smol-fetch" not in smolconv(name, tmp_path / "out.smol", cwd=tmp_path).stderr
    for path in ("a/b/c", "./b", "../b", "/b", "b", "a/", "a/.b", "a/b c"):
        assert "smol-fetch" not in smolconv(path, tmp_path / "out.smol", cwd=tmp_path).stderr


def write_pytorch(path):
    import torch

    torch.save({"a": torch.zeros(3)}, path)


FOREIGN = {  # file -> its bytes or who writes it, and what the message says of it
    "pytorch_model.bin": (write_pytorch, "a PyTorch", "save_pretrained"),
    "old.bin": (b"\x80\x02}q\x00.", "PyTorch", "save_pretrained"),
    "model.pth": (bytes(range(250, 256)) * 9, "a PyTorch file", "save_pretrained"),
    "model.onnx": (b"\x08\x07\x12\x07pytorch\x1a\x05" + b"2.0.1" * 9, "an ONNX model", "original safetensors"),
    "model-Q4_K_M.gguf": (b"GGUF\3\0\0\0" + bytes(100), "a GGUF file", "original safetensors"),
    "tf_model.h5": (b"\x89HDF\r\n\x1a\n" + bytes(9), "a Keras file", "save_pretrained"),
    "flax_model.msgpack": (b"\x81\xa1a\xc0" * 9, "a Flax file", "save_pretrained"),
    "tokenizer.model": (b"\n\x0e\n\x05<unk>\x15" * 9, "a SentencePiece tokenizer", "folder"),
}


@pytest.mark.parametrize("name", [name for name in FOREIGN if not name.endswith(".gguf")])  # which is read
def test_a_file_of_another_kind_is_recognised(tmp_path, name):
    content, *words = FOREIGN[name]
    content(tmp_path / name) if callable(content) else (tmp_path / name).write_bytes(content)
    assert_fails(smolconv(tmp_path / name, tmp_path / "o"), 5, f"{name}: this is a", *words)


@pytest.mark.parametrize("name", FOREIGN)
def test_a_folder_with_weights_of_another_kind_is_told_which(tmp_path, name):
    content, *words = FOREIGN[name]
    content(tmp_path / name) if callable(content) else (tmp_path / name).write_bytes(content)
    words[0] = words[0].removeprefix("a ")
    for more in ("config.json", "tokenizer.model"):
        (tmp_path / more).touch()
        assert_fails(smolconv(tmp_path, tmp_path / "o"), 5, f"index.json, only {name}, a", *words)
        assert name in smolconv("inspect", tmp_path).stdout


@pytest.mark.parametrize("name, word", [
    ("consolidated.safetensors", "name the file itself"), ("adapter_model.safetensors", "a LoRA adapter"),
    ("model-00001-of-00002.safetensors", "model.safetensors.index.json"),
])  # fmt: skip
def test_a_folder_with_safetensors_of_another_name_is_told_which(tmp_path, name, word):
    (tmp_path / name).touch()
    (tmp_path / "training_args.bin").touch()
    assert_fails(smolconv(tmp_path, tmp_path / "o"), 5, f"only {name}, a ", word)


@pytest.mark.parametrize("name", ["tokenizer.model", "vocab.json", "vocab.txt", "sentencepiece.bpe.model"])
def test_a_tokenizer_of_another_kind_is_recognised(tmp_path, checkpoint, name):
    (checkpoint / "tokenizer.json").unlink()
    assert_fails(smolconv(checkpoint, tmp_path / "o"), 3, "tokenizer.json: cannot open")
    (checkpoint / name).touch()
    assert_fails(smolconv(checkpoint, tmp_path / "o"), 5, f"no tokenizer.json, only {name}: ", "AutoTokenizer")
    assert name in smolconv("inspect", checkpoint).stdout


def test_converts_from_within_the_folder(tmp_path, blob):
    out = tmp_path / "out.smol"
    assert smolconv("model.safetensors", out, cwd=DEMO).returncode == 0
    assert out.read_bytes() == blob.read_bytes()


def test_dtype_decides_how_matrices_are_stored(tmp_path):
    sizes = {}
    for dtype in ("int8", "f32"):
        out = tmp_path / dtype
        assert smolconv(f"--dtype={dtype}", DEMO, out).returncode == 0
        assert f"dtype              {dtype}\n" in smolconv("inspect", out).stdout
        sizes[dtype] = out.stat().st_size
    assert sizes["f32"] > 3 * sizes["int8"]


def test_an_existing_output_is_kept_unless_forced(tmp_path):
    out = tmp_path / "out.smol"
    out.write_text("mine")
    assert_fails(smolconv(DEMO, out), 3, "out.smol: exists already", "--force")
    assert out.read_text() == "mine"
    assert smolconv("--force", DEMO, out).returncode == 0
    assert smolconv("verify", out).returncode == 0


@pytest.mark.parametrize("words", [[], ["--dtype", "int4"], ["--bits", "4.5"]])
def test_the_output_and_the_context_are_checked_before_what_takes_long(tmp_path, checkpoint, words):
    """A tokenizer whose tables cannot be made is found after the quick checks."""
    if "--bits" in words:
        words = ["--calibration", tmp_path / "stats", *words]
        (tmp_path / "text").write_text("Anna met Otto. " * 40)
        assert smolconv("--dtype", "f32", checkpoint, tmp_path / "a").returncode == 0
        assert smolrun("calibrate", tmp_path / "a", tmp_path / "text", "-o", tmp_path / "stats").returncode == 0
    content = json.loads((checkpoint / "tokenizer.json").read_text())
    content["model"]["merges"].append(["no", "token"])
    (checkpoint / "tokenizer.json").write_text(json.dumps(content))
    out = tmp_path / "out"
    out.write_text("mine")
    before = set(tmp_path.rglob("*"))
    assert_fails(smolconv("--force", *words, checkpoint, out), 4, "tokenizer.json", "merge")
    assert_fails(smolconv(*words, checkpoint, out), 3, "exists already")
    assert_fails(smolconv(*words, checkpoint, tmp_path / "none/out"), 3, "none/out")
    assert_fails(smolconv("--context", 100, *words, checkpoint, tmp_path / "new"), 2, "--context 100")
    assert out.read_text() == "mine" and set(tmp_path.rglob("*")) == before


def test_a_failed_conversion_leaves_nothing_behind(tmp_path, checkpoint):
    def spoil(tensors):
        tensors["model.norm.weight"][3] = np.inf

    edit_tensors(checkpoint, spoil)
    out = tmp_path / "out"
    out.mkdir()
    old = out / "old.smol"
    old.write_text("old")
    result = smolconv("--force", checkpoint, old)
    assert_fails(result, 4, "model.norm.weight", "element 3", "inf")
    assert [p.name for p in out.iterdir()] == ["old.smol"] and old.read_text() == "old"


@pytest.mark.parametrize("dtype", ["int8", "bf16", "f32"])
def test_a_row_block_larger_than_a_batch_is_converted(tmp_path, dtype):
    """16 rows of 40,000 floats are 2.5 MB."""
    sizes = dict(hidden_size=8, intermediate_size=40000, num_hidden_layers=1, vocab_size=40)
    make(tmp_path, dtype="F32", num_attention_heads=2, num_key_value_heads=2, **sizes)
    out = tmp_path / "out.smol"
    assert smolconv("--threads", 2, "--dtype", dtype, tmp_path, out).returncode == 0
    source = load_file(tmp_path / "model.safetensors")["model.layers.0.mlp.down_proj.weight"]
    values = Blob(out.read_bytes(), xxh3).tensors["layers.0.mlp_down"].values()
    step = np.abs(source).max() / 127 / 2
    assert np.abs(values - source).max() <= {"int8": step * 1.01, "bf16": step, "f32": 0}[dtype]


def test_a_terminal_gets_a_progress_bar_and_a_pipe_gets_none(tmp_path):
    master, slave = pty.openpty()
    command = [BUILD / "smolconv", "--force", DEMO, tmp_path / "out.smol"]
    subprocess.run(command, stderr=slave, check=True, timeout=60)
    os.close(slave)
    assert b"100 %" in os.read(master, 65536)
    os.close(master)
    assert "%" not in smolconv("--force", DEMO, tmp_path / "out.smol").stderr


def test_a_summary_tells_the_rate_and_the_sync_apart(tmp_path):
    text = smolconv(DEMO, tmp_path / "out.smol").stderr
    number = r"(\d+\.\d+)"
    line = rf"smolconv: {number} MB in {number} s \({number} MB/s\), synced in {number} s\n"
    megabytes, seconds, rate, _ = map(float, re.fullmatch(line, text).groups())
    assert abs(megabytes * 1e6 - (DEMO / "model.safetensors").stat().st_size) <= 0.05e6
    assert (megabytes - 0.05) / (seconds + 0.001) - 0.1 <= rate  # as far as the digits go
    assert rate <= (megabytes + 0.05) / max(seconds - 0.001, 1e-9) + 0.1


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", ["int8", "bf16", "f32"])
def test_conversion_of_the_real_model_needs_64_megabytes(tmp_path, real_model_dir, dtype):
    """RLIMIT_DATA bounds private writable memory, so anonymous memory is below it at any time,
    the import of the tokenizer included."""
    out = tmp_path / "out.smol"
    result = smolconv("--dtype", dtype, "--threads", 2, real_model_dir, out, preexec_fn=limited("DATA", 64_000_000))
    assert result.returncode == 0, result.stderr
    assert smolconv("verify", out).returncode == 0


# --- refusing ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["a"], "INPUT OUT.smol"),
        (["a", "b", "c"], "a: no such file or command: smolconv --help lists the commands"),
        ([str(DEMO), "b", "c"], "too many"),
        (["--dtype", "q4", "a", "b"], "q4"),
        (["--threads", "0", "a", "b"], "--threads"),
        (["--threads", "two", "a", "b"], "--threads"),
        (["--frobnicate", "a", "b"], "--frobnicate"),
        (["verify"], "FILE.smol"),
        (["inspect", "--force", "a"], "--force"),
    ],
)
def test_wrong_usage_is_status_2(arguments, part):
    assert_fails(smolconv(*arguments), 2, part)


def test_no_arguments_show_the_usage_and_help_and_version_succeed():
    result = smolconv()
    assert result.returncode == 2 and result.stderr.startswith("usage: smolconv")
    commands = re.findall(r"^  smolconv ([a-z]+)", result.stderr, re.M)
    assert sorted(commands) == ["delta", "diff", "inspect", "pack", "patch", "report", "unpack", "verify"]
    assert (smolconv("help").returncode, smolconv("help").stdout) == (0, result.stderr)
    for arguments in (["--help"], ["-h"], ["verify", "--help"], ["inspect", "--help"]):
        result = smolconv(*arguments)
        assert result.returncode == 0 and result.stdout.startswith("usage: smolconv")
        assert result.stderr == ""
    assert smolconv("--version").stdout.startswith("smolconv 0.")


def test_a_double_dash_ends_the_options(tmp_path):
    assert smolconv("--", DEMO, "--odd.smol", cwd=tmp_path).returncode == 0
    assert (tmp_path / "--odd.smol").is_file()


def test_missing_and_unwritable_files_are_status_3(tmp_path, checkpoint):
    said = "foo: no such file or command: smolconv --help lists the commands"
    assert_fails(smolconv("foo", tmp_path / "o"), 3, said)
    assert_fails(smolconv("./foo", tmp_path / "o"), 3, "./foo: cannot open")
    assert_fails(smolconv(tmp_path / "none", tmp_path / "o"), 3, "none")
    assert_fails(smolconv(DEMO, tmp_path / "no/such/o.smol"), 3, "o.smol", "No such file")
    assert_fails(smolconv("--force", DEMO, tmp_path), 3, "folder")
    assert_fails(smolconv("verify", tmp_path), 3, "folder")
    assert_fails(smolconv("inspect", tmp_path / "none"), 3, "none")
    os.mkfifo(tmp_path / "fifo")
    assert_fails(smolconv("inspect", tmp_path / "fifo"), 3, "pipe")
    for name in ("config.json", "tokenizer.json"):
        path = checkpoint / name
        content = path.read_bytes()
        path.unlink()
        assert_fails(smolconv(checkpoint, tmp_path / "o"), 3, name)
        path.write_bytes(content)


def test_a_full_disk_is_status_3_and_leaves_nothing(tmp_path):
    result = smolconv(DEMO, tmp_path / "out.smol", preexec_fn=limited("FSIZE", 1 << 20))
    assert_fails(result, 3, "out.smol", "write")
    assert list(tmp_path.iterdir()) == []


def test_devices_and_the_source_itself_are_not_written_over(tmp_path, checkpoint):
    link = tmp_path / "link"
    link.symlink_to("/dev/null")
    assert_fails(smolconv("--force", DEMO, link), 3, "link", "device")
    assert link.is_symlink()
    source = checkpoint / "model.safetensors"
    content = source.read_bytes()
    assert_fails(smolconv("--force", checkpoint, source), 2, "a file of the input")
    assert source.read_bytes() == content


def check_all_are_kept(files, *words):
    """None of the files may be the last word, under its name or another."""
    for file in files:
        content, link = file.read_bytes(), file.with_name("another name")
        os.link(file, link)
        for output in (file, link):
            assert_fails(smolconv(*words, output), 2, f"{output}: is a file of the input")
            assert file.read_bytes() == content
        link.unlink()


def test_no_file_that_is_read_is_written_over(tmp_path, checkpoint):
    width = json.loads((checkpoint / "config.json").read_text())["hidden_size"]
    write_modules(checkpoint, dense=[(32, "tanh", True)], width=width)
    (checkpoint / "sentence_bert_config.json").write_text('{"max_seq_length": 20}')
    for name in ("generation_config.json", "special_tokens_map.json"):
        (checkpoint / name).write_text("{}")
    (checkpoint / "chat_template.jinja").write_text("{{ messages[0].content }}")
    files = [path for path in checkpoint.rglob("*") if path.suffix in (".json", ".jinja", ".safetensors")]
    assert len(files) >= 12
    check_all_are_kept(files, "--force", checkpoint)
    check_all_are_kept(files, "report", "--force", checkpoint, "-o")
    assert smolconv("report", "--force", DEMO / "model.safetensors", "-o", checkpoint / "tokenizer.json").returncode == 0


def test_no_file_of_an_option_is_written_over(tmp_path, checkpoint):
    template, stats, blob = (tmp_path / name for name in ("template.jinja", "stats", "a.smol"))
    template.write_text("{{ messages[0].content }}")
    check_all_are_kept([template], "--force", "--chat-template", template, checkpoint)
    assert smolconv("--dtype", "f32", checkpoint, blob).returncode == 0
    template.write_text("Anna met Otto. " * 40)
    assert smolrun("calibrate", blob, template, "-o", stats).returncode == 0
    check_all_are_kept([stats], "--force", "--dtype", "int4", "--calibration", stats, checkpoint)


def test_json_of_too_many_values_is_refused_before_it_takes_memory(tmp_path, checkpoint):
    (checkpoint / "tokenizer.json").write_text('{"x":[' + "{}," * 10_000_000 + "0]}")
    result = smolconv("--threads", 1, checkpoint, tmp_path / "o", preexec_fn=limited("DATA", 64 << 20))
    assert_fails(result, 4, "tokenizer.json", "values")


def test_a_decoder_that_multiplies_text_is_refused_before_it_takes_memory(tmp_path, checkpoint):
    grow = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 64}
    decoder = {"type": "Sequence", "decoders": [grow] * 8 + [{"type": "Fuse"}]}
    edit_json(checkpoint / "tokenizer.json", pre_tokenizer=None, decoder=decoder)
    result = smolconv("--threads", 1, checkpoint, tmp_path / "o", preexec_fn=limited("DATA", 64 << 20))
    assert_fails(result, 5, "tokenizer.json", "the decoder makes more than 65535 bytes of token")


def test_a_closed_standard_output_is_status_3(blob):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [BUILD / "smolconv", "inspect", blob], stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert result.returncode == 3 and b"standard output" in result.stderr


def test_a_truncated_or_damaged_checkpoint_is_status_4(tmp_path, checkpoint):
    path, out = checkpoint / "model.safetensors", tmp_path / "o"
    content = path.read_bytes()
    path.write_bytes(content[:-1000])
    assert_fails(smolconv(checkpoint, out), 4, "truncated", "1000")
    path.write_bytes(content[:4])
    assert_fails(smolconv(checkpoint, out), 4, "model.safetensors")
    path.write_bytes(content)
    (checkpoint / "config.json").write_text('{"hidden_size": 168,')
    assert_fails(smolconv(checkpoint, out), 4, "config.json", "line")


@pytest.mark.parametrize(
    ("edit", "parts"),
    [
        (lambda t: t.pop("model.layers.0.mlp.up_proj.weight"), ["layers.0.mlp.up_proj", "missing"]),
        (lambda t: t.update(extra=np.zeros(3, np.float32)), ["extra", "not part of the model"]),
        (lambda t: t.update({"model.norm.weight": np.ones(167, np.float32)}), ["norm", "[168]"]),
        (lambda t: t["model.embed_tokens.weight"].__setitem__((5, 7), np.nan),
         ["embed_tokens", str(5 * 168 + 7), "nan"]),
    ],
)  # fmt: skip
def test_tensors_that_do_not_fit_are_status_4_and_named(tmp_path, checkpoint, edit, parts):
    edit_tensors(checkpoint, edit)
    assert_fails(smolconv(checkpoint, tmp_path / "o"), 4, *parts)


def test_of_several_bad_weights_any_number_of_threads_names_the_first(tmp_path, checkpoint):
    def spoil(tensors):
        for name, values in tensors.items():
            if not name.startswith(("model.embed", "model.layers.0.input", "model.layers.0.self")):
                values[:] = np.inf  # all of what comes later
        tensors["model.layers.0.self_attn.q_proj.weight"][20:, 3] = np.nan
        tensors["model.layers.0.self_attn.q_proj.weight"][20, 2] = 1e9  # only too large for int8

    edit_tensors(checkpoint, spoil)
    for threads in (1, 2, 3, 8) * 4:
        result = smolconv("--threads", threads, checkpoint, tmp_path / "o")
        assert_fails(result, 4, "layers.0.self_attn.q_proj", f"element {20 * 168 + 3} (nan)")


def test_what_we_do_not_run_is_status_5_and_named(tmp_path, checkpoint):
    config, out = checkpoint / "config.json", tmp_path / "o"
    original = config.read_text()
    for changes, part in [
        ({"architectures": ["BloomForCausalLM"]}, "BloomForCausalLM"),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "dynamic"),
        ({"hidden_act": "relu"}, "relu"),
    ]:
        edit_json(config, **changes)
        assert_fails(smolconv(checkpoint, out), 5, "config.json", part)
        config.write_text(original)

    def whole_numbers(tensors):
        tensors["model.norm.weight"] = tensors["model.norm.weight"].astype(np.int32)

    edit_tensors(checkpoint, whole_numbers)
    assert_fails(smolconv(checkpoint, out), 5, "model.norm.weight", "I32")


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"GGUF" + bytes(60), "GGUF"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "LFS"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "web page"),
        (b"PK\x03\x04" + bytes(60), "PyTorch"),
        (b"\x80\x02}q\x00." + bytes(60), "pickle"),
    ],
)
def test_files_of_another_kind_are_recognised(tmp_path, checkpoint, content, part):
    (checkpoint / "model.safetensors").write_bytes(content)
    assert_fails(smolconv(checkpoint, tmp_path / "o"), 5, part)
    if part != "GGUF":  # which is read where it is named itself
        assert_fails(smolconv("inspect", checkpoint / "model.safetensors"), 5, part)


def test_int8_refuses_weights_beyond_its_scales_and_f32_takes_them(tmp_path, checkpoint):
    def enlarge(tensors):
        tensors["model.layers.1.mlp.up_proj.weight"][2, 3] = 1e9

    edit_tensors(checkpoint, enlarge)
    assert_fails(smolconv(checkpoint, tmp_path / "o"), 5, "layers.1.mlp.up_proj", "--dtype f32")
    assert smolconv("--dtype", "f32", checkpoint, tmp_path / "o").returncode == 0


@pytest.mark.parametrize("mebibytes", [1, 2, 4, 8, 16])
def test_out_of_memory_is_status_6(tmp_path, real_model_dir, mebibytes):
    result = smolconv("--threads", 1, real_model_dir, tmp_path / "o", preexec_fn=limited("DATA", mebibytes << 20))
    assert_fails(result, 6, "out of memory")
    assert list(tmp_path.iterdir()) == []


# --- inspecting and verifying -----------------------------------------------------------------


def test_inspect_lists_the_tensors_on_request(blob):
    for path, name in [(blob, "layers.0.attn_q"), (DEMO, "model.layers.0.self_attn.q_proj.weight"),
                       (DEMO / "model.safetensors", "model.layers.0.self_attn.q_proj.weight")]:  # fmt: skip
        short, long = (smolconv("inspect", *words, path).stdout for words in ([], ["--tensors"]))
        assert name not in short and f"  {name}\n" in long
        table = "\n\ndtype    shape "
        before, _, after = long.partition(table)
        assert short == before + "\n\n" + after.partition("\n\n")[2] and table not in short


def test_inspect_shows_a_blob(blob):
    text = smolconv("inspect", "--tensors", blob).stdout
    config = json.loads((DEMO / "config.json").read_text())
    for key in ("hidden_size", "intermediate_size", "vocab_size"):
        assert f"{key:<18} {config[key]}\n" in text
    assert "layers.0.attn_q" in text and "source: model.safetensors" in text
    assert str(blob.stat().st_size) in text
    assert text.startswith("format             .smol 1.1\nfeatures           template\n")
    assert "chat template      default, 196 bytes, " in text


def test_inspect_shows_the_provenance_line_by_line(tmp_path, blob):
    offset, size = section(blob.read_bytes(), PROVENANCE)
    lines = blob.read_bytes()[offset : offset + size].decode().splitlines()
    shown = "".join(f"  {line}\n" for line in lines)
    assert f"\nprovenance\n{shown}\ndtype " in smolconv("inspect", "--tensors", blob).stdout

    def by_hand(data):
        data[offset : offset + size] = b"by \x1b[1mhand\n\nno line feed".ljust(size, b"!")

    text = smolconv("inspect", edited(blob, tmp_path / "other.smol", by_hand)).stdout
    heading = "\nprovenance (not made by smolconv)\n"
    assert heading + "  by ?[1mhand\n  \n  no line feed!!" in text and "\x1b" not in text


def test_inspect_shows_features_that_it_does_not_know(tmp_path, blob):
    newer = edited(blob, tmp_path / "newer.smol", lambda data: data.__setitem__(48, 5))
    assert "features           template; optional 0x5, unknown here\n" in smolconv("inspect", newer).stdout


def test_inspect_shows_a_safetensors_file():
    text = smolconv("inspect", "--tensors", DEMO / "model.safetensors").stdout
    assert text.startswith("format             safetensors\ntensors            56, 4237296 bytes (4.0 MiB): 56 BF16\n")
    from safetensors import safe_open

    with safe_open(DEMO / "model.safetensors", "np") as file:
        for name in file.keys():
            shape = "[" + ", ".join(map(str, file.get_slice(name).get_shape())) + "]"
            assert any(name in line and shape in line for line in text.splitlines())


def test_names_in_a_file_cannot_steer_the_terminal(tmp_path):
    name = "\x1b[31mred\u009b1m\n\u202etfel\u2066\x7f"
    header = json.dumps({name: {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}})
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode())
    result = smolconv("inspect", "--tensors", path)
    assert result.returncode == 0 and "?[31mred?1m??tfel??\n" in result.stdout


def test_the_name_of_a_file_cannot_steer_the_terminal(tmp_path, blob):
    path = tmp_path / "\x1b[31mred\nb.smol: good\u202e.smol"
    path.write_bytes(blob.read_bytes())
    for words in [("verify", path), ("inspect", path), ("inspect", path.with_name("\x1b[1mno"))]:
        result = smolconv(*words)
        text = result.stdout + result.stderr
        assert "\x1b" not in text and "\u202e" not in text and "\nb.smol" not in text


def test_verify_approves_good_blobs_and_names_the_damaged_tensor(tmp_path, blob):
    assert smolconv("verify", blob).returncode == 0
    bad = spoiled(blob, tmp_path / "bad.smol")
    assert_fails(smolconv("verify", bad), 4, "bad.smol", "tensor", "bytes")
    bad.write_bytes(blob.read_bytes()[:-1])
    assert_fails(smolconv("verify", bad), 4, "truncated")
    bad.write_bytes(blob.read_bytes() + b"\0")
    assert_fails(smolconv("verify", bad), 4, "appended")
    bad.write_bytes(blob.read_bytes().replace(b"\r\n", b"\n", 1))
    assert_fails(smolconv("verify", bad), 4, "binary")
    newer = bytearray(blob.read_bytes())
    newer[16] = 2
    bad.write_bytes(newer)
    assert_fails(smolconv("verify", bad), 5, "version 2.1")
