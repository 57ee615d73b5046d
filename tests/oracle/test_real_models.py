"""Published checkpoints against transformers: Gemma 3 270M and Qwen 2.5 Coder 1.5B as GGUF files of 4 bits, and
all-mpnet-base-v2 (1.6 GB in all)."""

import json
import zipfile

import numpy as np
import pytest
import torch
from checkpoints import reference_logits
from engine import Model, convert
from programs import smolrun
from real_models import fetch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, MPNetModel

pytestmark = pytest.mark.slow

TEXTS = [
    "The capital of France is",
    "Once upon a time",
    "def fib(n):",
    "Die Hauptstadt von Deutschland",
    "1, 2, 3, 4,",
    "料理のレシピ：\n",
    "\tif (x > 0) {\n\t\treturn  x;\n",
]
MESSAGES = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "Reverse a string in Python."},
    {"role": "assistant", "content": "```python\ns[::-1]\n```"},
    {"role": "user", "content": "And in C?"},
]


def gguf_reference(name):
    """The file's model and tokenizer, as transformers reads them."""
    path = fetch(name)
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    return path, model.eval(), AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)


def log_softmax(logits):
    return torch.log_softmax(torch.from_numpy(logits).double(), -1).numpy()


def divergence(ours, theirs):
    """The mean KL divergence in nats, and the share of positions with the same best token."""
    ours, theirs = log_softmax(ours), log_softmax(theirs)
    return np.mean(np.sum(np.exp(theirs) * (theirs - ours), -1)), np.mean(ours.argmax(-1) == theirs.argmax(-1))


def page(repo_root):
    return (repo_root / "docs/tutorial.md").read_text()[:700]


def test_gemma_3_270m(repo_root, tmp_path):
    path, model, tokenizer = gguf_reference("gemma-3-270m-q4_k_m.gguf")
    blobs = {dtype: convert(path, tmp_path / f"{dtype}.smol", dtype) for dtype in ("f32", "int8")}
    ids = tokenizer(page(repo_root)).input_ids
    theirs = reference_logits(model, ids)
    with Model(blobs["f32"]) as ours, Model(blobs["int8"]) as small:
        for text in [*TEXTS, page(repo_root)]:
            assert ours.tokenize(text) == tokenizer(text, add_special_tokens=False).input_ids
        assert np.abs(ours.logits(ids) - theirs).max() < 1e-4 * np.ptp(theirs)
        kl, same = divergence(small.logits(ids), theirs)
        print(f"int8: KL {kl:.5f}, same best token {same:.4f}")
        assert kl < 0.01 and same > 0.95
    for text in TEXTS:
        prompt = tokenizer(text, return_tensors="pt").input_ids
        made = model.generate(prompt, max_new_tokens=40, do_sample=False)[0, prompt.shape[1] :]
        assert json.loads(smolrun(blobs["f32"], text, "-n", 40, "--json").stdout)["ids"] == made.tolist()


def test_qwen_2_5_coder_1_5b(repo_root, tmp_path):
    path, model, tokenizer = gguf_reference("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf")
    blob = convert(path, tmp_path / "int8.smol")
    ids = tokenizer(page(repo_root)).input_ids
    theirs = reference_logits(model, ids)
    del model
    with Model(blob) as ours:
        for text in [*TEXTS, page(repo_root)]:
            assert ours.tokenize(text) == tokenizer(text, add_special_tokens=False).input_ids
        kl, same = divergence(ours.logits(ids), theirs)
        print(f"int8: KL {kl:.5f}, same best token {same:.4f}")
        assert kl < 0.01 and same > 0.95
    prompt = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, return_dict=False)
    request = json.dumps({"messages": MESSAGES, "max_tokens": 1})
    answer = json.loads(smolrun(blob, "--jsonl", input=request.encode()).stdout)
    assert answer["usage"]["prompt_tokens"] == len(prompt)


@pytest.mark.parametrize(("dtype", "least"), [("f32", 0.999999), ("int8", 0.9995)])
def test_all_mpnet_base_v2(dtype, least, repo_root, tmp_path):
    with zipfile.ZipFile(fetch("all-mpnet-base-v2.zip")) as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / "all-mpnet-base-v2"
    model = MPNetModel.from_pretrained(folder).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    texts = [line.strip() for line in (repo_root / "docs/decisions.md").read_text().splitlines() if len(line) > 20][:300]
    blob = convert(folder, tmp_path / "a.smol", dtype)
    rows = [json.loads(line)["embedding"] for line in
            smolrun("embed", blob, "-", "--json", input="\n".join(texts).encode()).stdout.splitlines()]  # fmt: skip
    cosines = []
    for row, text in zip(np.array(rows, np.float64), texts, strict=True):
        with torch.inference_mode():
            states = model(torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0].numpy()
        mean = states.mean(axis=0, dtype=np.float64)
        cosines.append(row @ mean / np.linalg.norm(row) / np.linalg.norm(mean))
    print(f"{dtype}: least {min(cosines):.7f}, median {np.median(cosines):.7f}")
    assert min(cosines) >= least
