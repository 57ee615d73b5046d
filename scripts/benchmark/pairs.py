"""Both sides' files of hybrids and of a larger model in published shapes, with random weights: a GGUF file in Q8_0 for
llama.cpp, as its converter writes it, and an int8 blob that smolconv makes of it.

The files are in build/pairs and are made again if their sources are newer. The tokenizer has a token for each
byte; tokens that nothing spells fill up the published number."""

import json
import math
import subprocess
import sys

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from .gguf_files import settle
from .paths import BUILD, ROOT, Unmeasured

sys.path.append(str(ROOT / "tests/oracle"))
import gguf_files
import published

FOLDER = BUILD / "pairs"
SHAPES = {"lfm2": "LFM2 350M", "granite": "Granite 4.0 H 350M", "qwen": "Qwen 3.5 0.8B",
          "llama": "Llama 3.2 1B Instruct"}  # fmt: skip
N_TOKENS = 257  # with a text
NOT_MATRICES = ("A_log", "mamba.D", "bias")


def settings(shape):
    """The published config.json, with what llama.cpp's converter derives from it."""
    config = dict((published.CONFIGS | published.NESTED)[SHAPES[shape]])
    if "text_config" in config:
        config = config["text_config"] | {"architectures": ["Qwen3_5ForCausalLM"], "mtp_num_hidden_layers": 0}
    if "full_attn_idxs" in config:
        kinds = {True: "full_attention", False: "conv"}
        config["layer_types"] = [kinds[i in config["full_attn_idxs"]] for i in range(config["num_hidden_layers"])]
        multiple = config["block_multiple_of"]
        config["intermediate_size"] = math.ceil(int(2 * config["block_ff_dim"] / 3) / multiple) * multiple
    return config | {"eos_token_id": N_TOKENS - 1}  # the published one has no text here


# --- names and shapes of tensors, as in checkpoints; ".weight" is left out ------------------------


def attention(config, out, gates=1):
    width = config["hidden_size"]
    head = config.get("head_dim", width // config["num_attention_heads"])
    n, n_kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    parts = {"q_proj": (gates * n, width), "k_proj": (n_kv, width), "v_proj": (n_kv, width), out: (width, n)}
    return {f"self_attn.{part}": shape for part, shape in parts.items()}, (head,)


def lfm2_layer(config, kind):
    width, hidden = config["hidden_size"], config["intermediate_size"]
    norms = {"operator_norm": (width,), "ffn_norm": (width,)}
    mlp = {"feed_forward.w1": (hidden, width), "feed_forward.w3": (hidden, width), "feed_forward.w2": (width, hidden)}
    if kind == "conv":
        mixer = {"conv.conv": (width, 1, config["conv_L_cache"]), "conv.in_proj": (3 * width, width),
                 "conv.out_proj": (width, width)}  # fmt: skip
    else:
        mixer, head = attention(config, "out_proj")
        mixer |= {"self_attn.q_layernorm": head, "self_attn.k_layernorm": head}
    return norms | mixer | mlp


def granite_layer(config, kind):
    width, hidden = config["hidden_size"], config["shared_intermediate_size"]
    heads, inner = config["mamba_n_heads"], config["mamba_expand"] * width
    channels = inner + 2 * config["mamba_n_groups"] * config["mamba_d_state"]
    norms = {"input_layernorm": (width,), "post_attention_layernorm": (width,)}
    mlp = {"shared_mlp.input_linear": (2 * hidden, width), "shared_mlp.output_linear": (width, hidden)}
    if kind == "attention":
        mixer, _ = attention(config, "o_proj")
    else:
        mixer = {"mamba.A_log": (heads,), "mamba.D": (heads,), "mamba.dt_bias": (heads,), "mamba.norm": (inner,),
                 "mamba.conv1d": (channels, 1, config["mamba_d_conv"]), "mamba.conv1d.bias": (channels,),
                 "mamba.in_proj": (inner + channels + heads, width), "mamba.out_proj": (width, inner)}  # fmt: skip
    return norms | mixer | mlp


def norms_and_mlp(config):
    width, hidden = config["hidden_size"], config["intermediate_size"]
    norms = {"input_layernorm": (width,), "post_attention_layernorm": (width,)}
    mlp = {"mlp.gate_proj": (hidden, width), "mlp.up_proj": (hidden, width), "mlp.down_proj": (width, hidden)}
    return norms, mlp


def qwen_layer(config, kind):
    width = config["hidden_size"]
    heads, head = config["linear_num_value_heads"], config["linear_value_head_dim"]
    inner = heads * head
    channels = inner + 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"]
    norms, mlp = norms_and_mlp(config)
    if kind == "full_attention":
        mixer, head = attention(config, "o_proj", gates=2)
        return norms | mixer | {"self_attn.q_norm": head, "self_attn.k_norm": head} | mlp
    parts = {"A_log": (heads,), "dt_bias": (heads,), "norm": (head,), "conv1d": (channels, 1, config["linear_conv_kernel_dim"]),
             "in_proj_qkv": (channels, width), "in_proj_z": (inner, width), "in_proj_a": (heads, width),
             "in_proj_b": (heads, width), "out_proj": (width, inner)}  # fmt: skip
    return norms | {f"linear_attn.{part}": shape for part, shape in parts.items()} | mlp


def llama_layer(config, kind):
    norms, mlp = norms_and_mlp(config)
    return norms | attention(config, "o_proj")[0] | mlp


LAYERS = {
    "lfm2": (lfm2_layer, "embedding_norm"),
    "granitemoehybrid": (granite_layer, "norm"),
    "qwen3_5_text": (qwen_layer, "norm"),
    "llama": (llama_layer, "norm"),
}


def tensors(config):
    layer, last_norm = LAYERS[config["model_type"]]
    named = {"embed_tokens": (config["vocab_size"], config["hidden_size"]), last_norm: (config["hidden_size"],)}
    for i, kind in enumerate(config.get("layer_types", ["full_attention"] * config["num_hidden_layers"])):
        named |= {f"layers.{i}.{part}": shape for part, shape in layer(config, kind).items()}
    return {f"model.{name}" + ("" if name.endswith(NOT_MATRICES) else ".weight"): shape for name, shape in named.items()}


# --- weights ----------------------------------------------------------------------------------------


def draw(name, shape, rng, centre):
    """Normals that keep the scale of what passes through them, so that activations stay finite."""
    values = rng.standard_normal(shape, np.float32)
    if "norm" in name:
        return (1 if "linear_attn" in name else centre) + 0.3 * values
    if name.endswith("A_log"):
        return values - 1
    if name.endswith("mamba.D"):
        return 1 + 0.5 * values
    if name.endswith("bias"):
        return 0.5 * values
    if "embed_tokens" in name:
        return np.float32(0.1) * values  # the layers matter more
    return values / np.float32(math.sqrt(shape[-1]))


def weights(config):
    """Returns {name: array}, always the same, in float32 with the values of bf16."""
    rng = np.random.default_rng(1)
    centre = 0 if config["model_type"] == "qwen3_5_text" else 1  # its norms multiply by 1 more
    made = {}
    for name, shape in tensors(config).items():
        bits = draw(name, shape, rng, centre).astype(np.float32).view(np.uint32)
        bits &= np.uint32(0xFFFF0000)
        made[name] = bits.view(np.float32)
    return made


# --- files ------------------------------------------------------------------------------------------


def byte_tokenizer():
    """tokenizer.json of BPE with a token for each byte and one merge: a GGUF file must have one."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    texts = [*alphabet, alphabet[0] + alphabet[1]]
    assert len(texts) == N_TOKENS
    tokenizer = Tokenizer(models.BPE(vocab={text: i for i, text in enumerate(texts)}, merges=[tuple(alphabet[:2])]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return json.loads(tokenizer.to_str())


def write_gguf(path, config, made):
    temporary = path.with_suffix(".part")
    gguf_files.compose(temporary, config, byte_tokenizer(), made, gguf_files.QUANT.Q8_0)
    settle(temporary, path)


def convert(source, blob):
    command = [BUILD / "smolconv", "--force", "--quiet", "--dtype", "int8", source, blob]
    if subprocess.run(command).returncode:
        raise Unmeasured(f"smolconv cannot convert {source}")


def is_older(path, *sources):
    return not path.exists() or any(path.stat().st_mtime < source.stat().st_mtime for source in sources)


def make(shape):
    """Makes what is missing. Returns the paths of the GGUF file and the blob."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path, blob = (FOLDER / f"{shape}{end}" for end in (".gguf", ".smol"))
    sources = [ROOT / name for name in ("scripts/benchmark/pairs.py", "tests/oracle/gguf_files.py", "tests/oracle/published.py")]
    if is_older(path, *sources):
        config = settings(shape)
        write_gguf(path, config, weights(config))
    if is_older(blob, path, BUILD / "smolconv"):
        convert(path, blob)
    return path, blob
