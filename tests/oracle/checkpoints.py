"""Random checkpoints in Hugging Face's layout, made with transformers.

Its own initialization gives nearly flat logits, on which most mistakes do not show. Here every
part of the model matters: matrices that keep the scale of their input, attention scores with a
spread of some units, norms and biases away from 1 and 0."""

import json
import shutil

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.utils import logging

logging.disable_progress_bar()

SMALL = dict(
    vocab_size=101,
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=512,
    rms_norm_eps=1e-5,
    tie_word_embeddings=True,
    bos_token_id=None,
    eos_token_id=2,
    pad_token_id=None,
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
)
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


NORMS = ("norm.weight", "norm_1.weight", "norm_2.weight", "per_expert_scale", "LayerNorm.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight", "norm_f.weight")
EMBEDDINGS = ("embed_tokens", "embeddings.", "embed_in", "wte", "relative_attention_bias")
QUERIES = (
    "q_proj", "k_proj", "qkv_proj", "query_key_value", "c_attn",
    "self.query", "self.key", "q_lin", "k_lin", "attn.q.", "attn.k.",
)  # fmt: skip


def randomize(model, generator):
    kind = model.config.get_text_config().model_type
    zero_centred = kind == "gemma" or kind.startswith(("gemma2", "gemma3", "vaultgemma", "qwen3_5", "qwen3_next"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.randn(parameter.shape, generator=generator)
            n_inputs = parameter.shape[0 if ".c_" in name else -1]  # GPT-2's are transposed
            if name.endswith(NORMS):
                center = 0 if zero_centred and "linear_attn" not in name else 1
                values = center + 0.3 * values
            elif name.endswith("A_log"):
                values = values - 1  # half of a state lasts some tokens
            elif name.endswith(("mamba.D", "mixer.D")):
                values = 1 + 0.5 * values
            elif name.endswith("router.scale"):
                values = (1 + 0.3 * values) * n_inputs**0.5
            elif name.endswith("sinks"):
                values = 2 + 2 * values  # like scores
            elif name.endswith("bias"):
                values = 0.5 * values
            elif any(part in name for part in QUERIES):
                values = values * 1.5 / n_inputs**0.5
            elif not any(part in name for part in EMBEDDINGS):
                values = values / n_inputs**0.5
            if name in ("lm_head.weight", "embed_out.weight"):
                values = values * 4
            if "wpe" in name:
                values = values * n_inputs**0.5 * 0.7
            parameter.copy_(values)
        for name, buffer in model.named_buffers():
            if name.endswith("layer_scalar"):
                buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))
            if name.endswith(("expert_bias", "e_score_correction_bias")):
                buffer.copy_(0.3 * torch.randn(buffer.shape, generator=generator))


def byte_tokenizer(vocab_size):
    """SmolLM2's kind of tokenizer, with one token for each of as many bytes as fit."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())[:vocab_size]
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def make(folder, seed=0, dtype="BF16", edit=None, **settings):
    """Writes a checkpoint with LlamaConfig's `settings` over SMALL; `edit` may change its weights
    (a dict of tensors of the source dtype) before they are written. Returns the folder."""
    make_of(LlamaConfig(**(SMALL | settings)), folder, seed, dtype)
    if edit:
        weights = load_file(folder / "model.safetensors")
        edit(weights)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def make_of(config, folder, seed=0, dtype="BF16"):
    """Writes a checkpoint of any family that transformers has a causal model for."""
    model = AutoModelForCausalLM.from_config(config)
    randomize(model, torch.Generator().manual_seed(seed))
    model.to(DTYPES[dtype]).save_pretrained(folder)
    byte_tokenizer(config.vocab_size).save(str(folder / "tokenizer.json"))
    return folder


def deepen(source, folder, n, **settings):
    """Copies a checkpoint of the Llama kind so that its layers follow one another n times, with `settings` in its
    config.json. Returns the folder."""
    shutil.copytree(source, folder)
    weights, more = load_file(source / "model.safetensors"), {}
    n_layers = json.loads((source / "config.json").read_text())["num_hidden_layers"]
    for name, tensor in weights.items():
        before, layers, rest = name.partition("layers.")
        if layers:
            number, _, part = rest.partition(".")
            more |= {f"{before}{layers}{int(number) + i * n_layers}.{part}": tensor.clone() for i in range(1, n)}
    save_file(weights | more, folder / "model.safetensors", metadata={"format": "pt"})
    edit_config(folder, lambda config: config.update(num_hidden_layers=n * n_layers, **settings))
    return folder


def edit_json(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_config(folder, change):
    path = folder / "config.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def with_plain_experts(model):
    """Computes experts by the plain loop: grouped products need widths that are multiples of 4."""
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    return model


def reference_of(folder, **settings):
    return with_plain_experts(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **settings).eval())


def load_reference(folder):
    """The checkpoint as transformers computes it: the rounded weights, widened to float32."""
    return reference_of(folder)


def reference_logits(model, ids, n_logits=0):
    """float32 (n_logits, vocab_size); n_logits 0: all positions."""
    with torch.inference_mode():
        ids = torch.tensor([[int(i) for i in ids]])
        return model(ids, logits_to_keep=n_logits, use_cache=False).logits[0].numpy()
