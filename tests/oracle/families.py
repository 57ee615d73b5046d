"""Strategies for configurations of every family that is supported: small, and with all that their
configuration classes allow and smolconv converts. Windows, scaled contexts and patterns of layers are
so small that a text of some hundred tokens goes past all of them. What comes first in a list is what
a failing case shrinks to."""

import re

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from internal import ROOT
from minicpm import MiniCPMConfig
from transformers import (
    ArceeConfig,
    Cohere2Config,
    Ernie4_5Config,
    Exaone4Config,
    FalconH1Config,
    Gemma2Config,
    Gemma3TextConfig,
    Gemma4TextConfig,
    Gemma4UnifiedTextConfig,
    GemmaConfig,
    Glm4Config,
    GlmConfig,
    GPT2Config,
    GPTNeoXConfig,
    GraniteConfig,
    GraniteMoeConfig,
    GraniteMoeHybridConfig,
    GraniteMoeSharedConfig,
    GraniteMoeSWAConfig,
    GraniteSWAConfig,
    HeliumConfig,
    HunYuanDenseV1Config,
    Lfm2Config,
    Lfm2MoeConfig,
    Lfm3Config,
    LlamaConfig,
    MiniCPM3Config,
    Ministral3Config,
    MistralConfig,
    NanoChatConfig,
    NemotronConfig,
    NemotronHConfig,
    Olmo2Config,
    Olmo3Config,
    OlmoConfig,
    OlmoeConfig,
    Phi3Config,
    PhiConfig,
    Qwen2Config,
    Qwen3_5MoeTextConfig,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3MoeConfig,
    Qwen3NextConfig,
    SeedOssConfig,
    SmolLM3Config,
    StableLmConfig,
    Starcoder2Config,
    VaultGemmaConfig,
    YoutuConfig,
)

CONTEXT = 512
CONFIGS = {
    "llama": LlamaConfig,
    "mistral": MistralConfig,
    "qwen2": Qwen2Config,
    "qwen3": Qwen3Config,
    "smollm3": SmolLM3Config,
    "granite": GraniteConfig,
    "graniteswa": GraniteSWAConfig,
    "granitemoehybrid": GraniteMoeHybridConfig,
    "phi3": Phi3Config,
    "olmo2": Olmo2Config,
    "olmo3": Olmo3Config,
    "ministral3": Ministral3Config,
    "ernie4_5": Ernie4_5Config,
    "helium": HeliumConfig,
    "glm": GlmConfig,
    "glm4": Glm4Config,
    "seedoss": SeedOssConfig,
    "olmo": OlmoConfig,
    "exaone4": Exaone4Config,
    "arcee": ArceeConfig,
    "nanochat": NanoChatConfig,
    "hunyuandensev1": HunYuanDenseV1Config,
    "minicpm": MiniCPMConfig,
    "minicpm3": MiniCPM3Config,
    "youtu": YoutuConfig,
    "lfm2": Lfm2Config,
    "lfm3": Lfm3Config,
    "lfm2moe": Lfm2MoeConfig,
    "falconh1": FalconH1Config,
    "nemotronh": NemotronHConfig,
    "qwen3_5": Qwen3_5TextConfig,
    "qwen3_5moe": Qwen3_5MoeTextConfig,
    "qwen3next": Qwen3NextConfig,
    "stablelm": StableLmConfig,
    "cohere2": Cohere2Config,
    "olmoe": OlmoeConfig,
    "qwen3moe": Qwen3MoeConfig,
    "granitemoe": GraniteMoeConfig,
    "granitemoeshared": GraniteMoeSharedConfig,
    "granitemoeswa": GraniteMoeSWAConfig,
    "gptneox": GPTNeoXConfig,
    "gpt2": GPT2Config,
    "starcoder2": Starcoder2Config,
    "nemotron": NemotronConfig,
    "phi": PhiConfig,
    "gemma": GemmaConfig,
    "gemma2": Gemma2Config,
    "vaultgemma": VaultGemmaConfig,
    "gemma3": Gemma3TextConfig,
    "gemma4": Gemma4TextConfig,
    "gemma4moe": Gemma4TextConfig,
    "gemma4unified": Gemma4UnifiedTextConfig,
}


def _listed():
    """The rows of the documents' table of families: each architecture with the largest difference from
    transformers that was measured for it (`make families`), as a share of a position's spread."""
    row = re.compile(r"^\| .*\(`(\w+?)(?:ForCausalLM)?`\) \|.*\| ([0-9.]+e-[0-9]+) \|$", re.M)
    pages = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    return {name: float(figure) for page in pages for name, figure in row.findall(page.read_text())}


LISTED = _listed()
# The deviation that a checkpoint of the family may have: random weights vary by more than transformers' releases do.
TOLERANCES = {
    name.lower().removesuffix("lmheadmodel"): 3 * figure for name, figure in LISTED.items()
}
TOLERANCES["gemma4moe"] = TOLERANCES["gemma4"]  # the same architecture


def cases(n):
    """`n` cases, always the same ones."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(
        max_examples=n,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=checks,
    )


def either(*values):
    return st.sampled_from(values)


FLAG = st.booleans()
WINDOW = either(1, 2, 7, 33, 64, 70)
THETA = either(10000.0, 100.0, 500000.0) | st.floats(10, 1e7)
ORIGINAL = either(16, 40, 64)  # the text of a test crosses it


# --- rotation -----------------------------------------------------------------------------------

# what rope_parameters need besides type and theta, and what they may have
SCALINGS = {
    "default": ({}, {}),
    "linear": ({"factor": either(2.0, 8.0, 3.7)}, {}),
    "llama3": (
        {
            "factor": either(8.0, 32.0, 2.5),
            "low_freq_factor": either(1.0, 0.5),
            "high_freq_factor": either(4.0, 2.0),
            "original_max_position_embeddings": ORIGINAL,
        },
        {},
    ),
    "yarn": (
        {"factor": either(4.0, 12.8, 1.5, None), "original_max_position_embeddings": ORIGINAL},
        {
            "attention_factor": either(1.0, 0.8, 1.3),
            "beta_fast": either(16.0, 48),
            "beta_slow": either(2, 0.5),
            "truncate": FLAG,
            "mscale": either(1.0, 0.7),
            "mscale_all_dim": either(0.5, 1.2),
        },
    ),
    "longrope": (
        {"original_max_position_embeddings": st.just(256)},  # longer than the tests' texts
        {"factor": st.just(4.0), "attention_factor": st.just(1.19)},
    ),
    "proportional": ({"partial_rotary_factor": either(0.5, 0.25, 0.8, 1.0, 0.0)}, {"factor": either(2.0, 3.7)}),
}


def factors(dim, most):
    """Draws a factor for each pair of elements that rotate."""
    return st.lists(st.floats(1, most, width=32), min_size=dim // 2, max_size=dim // 2)


def rope(dim, kind):
    """rope_parameters of one kind, for `dim` elements of a head."""
    needed, possible = SCALINGS[kind]
    needed = {"rope_type": st.just(kind), "rope_theta": THETA} | needed
    if kind == "longrope":
        needed |= {"short_factor": factors(dim, 2), "long_factor": factors(dim, 20)}
    return st.fixed_dictionaries(needed, optional=possible)


def rotated(shape):
    """Elements of a head."""
    return shape.get("head_dim") or shape["hidden_size"] // shape["num_attention_heads"]


# --- shapes -------------------------------------------------------------------------------------


@st.composite
def shapes(draw, head_dim=False):
    """Sizes that all families have; `head_dim`: apart from hidden_size / heads."""
    kv_heads, groups = draw(either((1, 1), (1, 3), (2, 2), (2, 1), (3, 2), (1, 5)))
    shape = dict(
        vocab_size=draw(either(17, 101, 258, 300)),
        hidden_size=kv_heads * groups * 2 * draw(st.integers(2, 12)),
        intermediate_size=draw(st.integers(8, 89)),
        num_hidden_layers=draw(st.integers(2, 6)),
        num_attention_heads=kv_heads * groups,
        num_key_value_heads=kv_heads,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=draw(either(1e-6, 1e-5, 1e-2)),
        tie_word_embeddings=draw(FLAG),
        bos_token_id=None,
        eos_token_id=draw(either(2, [2, 5], None)),
        pad_token_id=None,
    )
    return shape | ({"head_dim": 2 * draw(st.integers(1, 16))} if head_dim else {})


def layer_types(shape):
    n = shape["num_hidden_layers"]
    kinds = either("full_attention", "sliding_attention")
    return st.lists(kinds, min_size=n, max_size=n)


@st.composite
def scaled(draw, shape, *kinds):
    """The shape with rope_parameters of one of the kinds; none: of any."""
    kind = draw(either(*(kinds or SCALINGS)))
    return shape | {"rope_parameters": draw(rope(rotated(shape), kind))}


# --- families -----------------------------------------------------------------------------------


@st.composite
def llama(draw):
    return draw(scaled(draw(shapes(head_dim=draw(FLAG))))) | {
        "attention_bias": draw(FLAG),
        "mlp_bias": draw(FLAG),
        "hidden_act": draw(either("silu", "gelu_pytorch_tanh")),
    }


@st.composite
def arcee(draw):
    return draw(llama()) | {"hidden_act": draw(either("relu2", "silu"))}


@st.composite
def nanochat(draw):
    return draw(scaled(draw(shapes(head_dim=draw(FLAG))))) | {
        "attention_bias": draw(FLAG),
        "hidden_act": draw(either("relu2", "silu")),
        "final_logit_softcapping": draw(either(15.0, 3.0, None)),
        "tie_word_embeddings": False,
    }


@st.composite
def mistral(draw):
    window = draw(st.none() | WINDOW)
    return draw(scaled(draw(shapes(head_dim=draw(FLAG))))) | {"sliding_window": window}


@st.composite
def qwen(draw, head_dim):
    shape = draw(shapes(head_dim=head_dim))
    windows = {
        "use_sliding_window": draw(FLAG),
        "sliding_window": draw(WINDOW),
        "max_window_layers": draw(st.integers(0, shape["num_hidden_layers"] - 1)),
    }
    if windows["use_sliding_window"] and draw(FLAG):
        windows["layer_types"] = draw(layer_types(shape))
    return draw(scaled(shape, "default", "yarn")) | windows


def qwen2():
    return qwen(head_dim=False)


@st.composite
def qwen3(draw):
    return draw(qwen(head_dim=True)) | {"attention_bias": draw(FLAG)}


@st.composite
def smollm3(draw):
    shape = draw(shapes())
    n = shape["num_hidden_layers"]
    windows = {"use_sliding_window": draw(FLAG), "sliding_window": draw(WINDOW)}
    if windows["use_sliding_window"] and draw(FLAG):
        windows["layer_types"] = draw(layer_types(shape))
    if draw(FLAG):
        no_rope = {"no_rope_layer_interval": draw(st.integers(1, 4))}
    else:
        no_rope = {"no_rope_layers": draw(st.lists(either(1, 0), min_size=n, max_size=n + 1))}
    biases = {"attention_bias": draw(FLAG), "mlp_bias": draw(FLAG)}
    return draw(scaled(shape, "default", "yarn")) | windows | no_rope | biases


def scales(draw):
    """Granite's."""
    return {
        "embedding_multiplier": draw(either(1.0, 12.0, 0.3)),
        "residual_multiplier": draw(either(1.0, 0.22, 1.7)),
        "attention_multiplier": draw(either(1.0, 0.0078125, 0.4)),
        "logits_scaling": draw(either(1, 8.0, 0.5)),
    }


def state_layers(draw, shape):
    """Draws the layers that have a state; at least one attends."""
    n = shape["num_hidden_layers"]
    types = draw(st.lists(either("linear_attention", "full_attention"), min_size=n, max_size=n))
    types[draw(st.integers(0, n - 1))] = "full_attention"
    return types


@st.composite
def granitemoehybrid(draw):
    config = draw(granite())
    config.pop("mlp_bias")
    sparse = draw(experts("num_local_experts")) if draw(FLAG) else {"num_local_experts": 0}
    groups = draw(either(1, 2, 3))
    expand = draw(either(2, 1, 3))
    width = expand * config["hidden_size"]
    heads = draw(st.sampled_from([n for n in range(groups, 65, groups) if width % n == 0] or [width]))
    groups = groups if heads % groups == 0 else 1
    return config | sparse | {
        "shared_intermediate_size": draw(st.integers(8, 89)),
        "layer_types": state_layers(draw, config),
        "position_embedding_type": draw(either(None, "rope")),
        "mamba_n_heads": heads,
        "mamba_n_groups": groups,
        "mamba_d_state": draw(either(8, 16, 1, 33)),
        "mamba_d_conv": draw(either(4, 2, 3, 7)),
        "mamba_expand": expand,
        "mamba_conv_bias": draw(FLAG),
        "mamba_chunk_size": draw(either(256, 16)),
    }


@st.composite
def nemotronh(draw):
    """Layers of one block each. A norm of a few numbers is little more than their signs: groups have 5 or more."""
    config = draw(shapes(head_dim=True))
    config["layer_norm_epsilon"] = config.pop("rms_norm_eps")
    kinds = draw(st.lists(either("linear_attention", "full_attention", "mlp", "moe"), max_size=config.pop("num_hidden_layers")))
    kinds = draw(st.permutations([*kinds, "full_attention", draw(either("mlp", "moe"))]))
    sparse = draw(experts("n_routed_experts", least=2)) if "moe" in kinds else {}
    groups = draw(either(1, 2, 3))
    return config | sparse | {
        "layers_block_type": kinds,
        "mlp_hidden_act": draw(either("relu2", "silu", "gelu")),
        "mlp_bias": "moe" not in kinds and draw(FLAG),
        "mamba_num_heads": groups * draw(either(1, 2, 3)),
        "mamba_head_dim": draw(either(8, 5, 16, 33)),
        "n_groups": groups,
        "ssm_state_size": draw(either(8, 16, 1, 33)),
        "conv_kernel": draw(either(4, 2, 3, 7)),
        "use_conv_bias": draw(FLAG),
        "chunk_size": draw(either(128, 16)),
        "moe_shared_expert_intermediate_size": draw(st.integers(8, 89)),
        "norm_topk_prob": draw(FLAG),
        "routed_scaling_factor": draw(either(1.0, 2.5)),
        "tie_word_embeddings": False,
    }


@st.composite
def falconh1(draw):
    """Attention and Mamba2 side by side. A norm of a few numbers is little more than their signs: groups have 5 or more."""
    config = draw(scaled(draw(shapes(head_dim=draw(FLAG)))))
    groups = draw(either(1, 2, 3))
    heads, head_dim = groups * draw(either(1, 2, 3)), draw(either(8, 5, 16, 33))
    width = heads * head_dim if draw(FLAG) else None
    if width is None:
        heads, head_dim = groups, 2 * config["hidden_size"] // groups
        groups, heads, head_dim = (groups, heads, head_dim) if groups < 3 else (1, 1, 2 * config["hidden_size"])
    scale = either(1.0, 0.25, 1.25, 0.9375, 0.35355339)
    biases = ("attention_bias", "mlp_bias", "projectors_bias", "mamba_proj_bias", "mamba_conv_bias")
    one = ("attention_in", "attention_out", "ssm_in", "ssm_out", "key", "embedding", "lm_head")
    return config | {key: draw(FLAG) for key in biases} | {f"{key}_multiplier": draw(scale) for key in one} | {
        "mamba_d_ssm": width,
        "mamba_n_heads": heads,
        "mamba_d_head": draw(either("auto", head_dim)),
        "mamba_n_groups": groups,
        "mamba_d_state": draw(either(8, 16, 1, 33)),
        "mamba_d_conv": draw(either(4, 2, 3, 7)),
        "mamba_chunk_size": draw(either(256, 16)),
        "mamba_rms_norm": draw(FLAG),
        "mamba_norm_before_gate": draw(FLAG),
        "ssm_multipliers": draw(st.none() | st.lists(scale, min_size=5, max_size=5)),
        "mlp_multipliers": draw(st.none() | st.lists(scale, min_size=2, max_size=2)),
    }


@st.composite
def qwen3_5(draw):
    config = draw(shapes())
    keys, values = draw(either((2, 4), (1, 1), (3, 3), (1, 5)))
    types = state_layers(draw, config)
    types[draw(either(*[i for i in range(len(types))]))] = "linear_attention"
    if "full_attention" not in types:
        types = [*types, "full_attention"]
        config["num_hidden_layers"] += 1
    head_dim = rotated(config)
    turned = draw(st.sampled_from([n for n in range(2, head_dim + 1, 2) if int(head_dim * (n / head_dim)) == n]))
    return config | {
        "head_dim": head_dim,
        "num_key_value_heads": config["num_key_value_heads"] or config["num_attention_heads"],
        "attention_bias": draw(FLAG),
        "layer_types": types,
        "linear_conv_kernel_dim": draw(either(4, 2, 3, 7)),
        "linear_key_head_dim": draw(either(16, 8, 4, 33)),  # the direction of fewer numbers is too unsteady
        "linear_value_head_dim": draw(either(16, 8, 1, 33)),
        "linear_num_key_heads": keys,
        "linear_num_value_heads": values,
        "rope_parameters": {"rope_type": "default", "rope_theta": draw(THETA), "partial_rotary_factor": turned / head_dim},
    }


@st.composite
def qwen3_5moe(draw):
    config = draw(qwen3_5())
    config.pop("intermediate_size")
    return config | draw(experts("num_experts")) | {
        "moe_intermediate_size": draw(st.integers(4, 70)),
        "shared_expert_intermediate_size": draw(either(20, 33, 64, 1)),
    }


@st.composite
def qwen3next(draw):
    return draw(qwen3_5moe()) | {
        "intermediate_size": draw(st.integers(8, 89)),
        "norm_topk_prob": draw(FLAG),
        "decoder_sparse_step": draw(either(1, 2, 3)),
        "mlp_only_layers": draw(st.none() | st.lists(st.integers(0, 7), max_size=3)),
    }


@st.composite
def granite(draw):
    biases = {"attention_bias": draw(FLAG), "mlp_bias": draw(FLAG)}
    return draw(scaled(draw(shapes()))) | biases | scales(draw)


@st.composite
def experts(draw, key, least=1):
    """The number of experts, and of those that a token uses."""
    n = max(least, draw(either(4, 1, 2, 7, 16, 33)))
    return {key: n, "num_experts_per_tok": draw(st.integers(1, min(n, 5)))}


@st.composite
def olmoe(draw):
    return draw(scaled(draw(shapes()))) | draw(experts("num_experts")) | {
        "attention_bias": draw(FLAG),
        "norm_topk_prob": draw(FLAG),
        "clip_qkv": draw(either(None, 1.0, 0.3)),
    }


@st.composite
def qwen3moe(draw):
    """Some layers may have one MLP, of another size than the experts."""
    shape = draw(shapes(head_dim=True))
    return draw(scaled(shape)) | draw(experts("num_experts")) | {
        "attention_bias": draw(FLAG),
        "norm_topk_prob": draw(FLAG),
        "use_sliding_window": draw(FLAG),
        "sliding_window": draw(WINDOW),
        "moe_intermediate_size": draw(st.integers(4, 70)),
        "decoder_sparse_step": draw(either(1, 2, 3)),
        "mlp_only_layers": draw(st.none() | st.lists(st.integers(0, 7), max_size=3)),
        "hidden_act": draw(either("silu", "gelu")),
    }


@st.composite
def granitemoe(draw):
    shape = draw(scaled(draw(shapes()))) | {"attention_bias": draw(FLAG)}
    return shape | draw(experts("num_local_experts")) | scales(draw)


@st.composite
def granitemoeshared(draw):
    return draw(granitemoe()) | {"shared_intermediate_size": draw(either(0, 20, 33, 64, 100))}


def with_sinks(draw, config):
    """The configuration with windows, and a theta for each layer, of at most two."""
    n = config["num_hidden_layers"]
    config |= {"sliding_window": draw(WINDOW)}
    if draw(FLAG):
        config["layer_types"] = draw(layer_types(config))
    if draw(FLAG):
        thetas = draw(either([10000.0, 0], [0.0, 500000, 100.0], [10000, 1e7]))
        config["layer_rope_theta"] = draw(st.lists(either(*thetas), min_size=n, max_size=n))
    return config


@st.composite
def graniteswa(draw):
    return with_sinks(draw, draw(granite()))


@st.composite
def granitemoeswa(draw):
    return with_sinks(draw, draw(granitemoeshared()))


@st.composite
def phi3(draw):
    """Parts of heads rotate; its lists of factors are as long as that takes."""
    shape = draw(shapes())
    head_dim = rotated(shape)
    dims = [n for n in range(head_dim, 0, -2) if int(head_dim * (n / head_dim)) == n]
    turned = draw(st.sampled_from(dims))
    parameters = draw(rope(turned, draw(either("default", "longrope"))))
    original = parameters.pop("original_max_position_embeddings", 4096)
    return shape | {
        "rope_parameters": parameters | {"partial_rotary_factor": turned / head_dim},
        "original_max_position_embeddings": original,
        "sliding_window": draw(st.none() | WINDOW),
    }


@st.composite
def olmo2(draw):
    return draw(scaled(draw(shapes()))) | {"attention_bias": draw(FLAG)}


@st.composite
def olmo3(draw):
    """Its `truncate` must be true: the reference ignores another one here."""
    config = draw(shapes()) | {"attention_bias": draw(FLAG), "sliding_window": draw(WINDOW)}
    if draw(FLAG):
        config["layer_types"] = draw(layer_types(config))
    kinds = either("default", "linear", "llama3", "yarn")
    config["rope_parameters"] = {
        layers: draw(rope(rotated(config), draw(kinds)).filter(lambda r: r.get("truncate", True)))
        for layers in ("full_attention", "sliding_attention")
    }
    return config


@st.composite
def ministral3(draw):
    """Its queries grow with the position, from the original context on."""
    shape = draw(shapes(head_dim=True))
    kind = draw(either("yarn", "default", "linear", "llama3"))
    parameters = draw(rope(rotated(shape), kind))
    parameters.setdefault("original_max_position_embeddings", draw(ORIGINAL))
    parameters["llama_4_scaling_beta"] = draw(either(0.1, 0.5, 1))
    return shape | {"rope_parameters": parameters, "sliding_window": draw(st.none() | WINDOW)}


@st.composite
def ernie4_5(draw):
    return draw(scaled(draw(shapes(head_dim=True)))) | {
        "use_bias": draw(FLAG),
        "hidden_act": draw(either("silu", "gelu")),
    }


@st.composite
def helium(draw):
    shape = draw(shapes())
    return draw(scaled(shape | {"head_dim": rotated(shape)})) | {"attention_bias": draw(FLAG), "mlp_bias": draw(FLAG)}


@st.composite
def seedoss(draw):
    return draw(scaled(draw(shapes(head_dim=True)))) | {"attention_bias": draw(FLAG), "mlp_bias": draw(FLAG)}


@st.composite
def olmo(draw):
    """Its norms have no weights, and an epsilon that no key sets."""
    shape = draw(shapes())
    del shape["rms_norm_eps"]
    return draw(scaled(shape)) | {"attention_bias": draw(FLAG), "hidden_act": draw(either("silu", "gelu"))}


@st.composite
def exaone4(draw):
    shape = draw(shapes(head_dim=draw(FLAG)))
    n, window = shape["num_hidden_layers"], draw(WINDOW | st.none())
    windows = {"sliding_window": window, "sliding_window_pattern": draw(either(4, 1, 2, 3))}
    if window is None:
        windows["layer_types"] = ["full_attention"] * n
    elif draw(FLAG):
        windows["layer_types"] = draw(layer_types(shape))
        windows["sliding_window_pattern"] = draw(either("LLLG", None, 4))
    return draw(scaled(shape)) | windows


@st.composite
def hunyuandensev1(draw):
    shape = draw(shapes()) | {"head_dim": 2 * draw(st.integers(2, 16)), "attention_bias": draw(FLAG)}
    if draw(FLAG):
        return draw(scaled(shape))
    alpha = {"rope_type": "dynamic", "alpha": draw(either(1000.0, 2.5)), "factor": 1.0}
    return shape | {"rope_parameters": alpha | {"rope_theta": draw(THETA)}}


@st.composite
def minicpm(draw):
    return draw(scaled(draw(shapes()), "default", "linear", "longrope")) | {
        "attention_bias": draw(FLAG),
        "scale_emb": draw(either(12, 1, 0.5)),
        "scale_depth": draw(either(1.4, 1, 2.5)),
        "dim_model_base": draw(either(16, 1, 256)),
    }


@st.composite
def minicpm3(draw):
    heads = draw(either(4, 1, 3, 5))
    shape = draw(shapes()) | {
        "hidden_size": heads * 2 * draw(st.integers(2, 12)),
        "num_attention_heads": heads,
        "num_key_value_heads": draw(either(heads, None)),
        "head_dim": 2 * draw(st.integers(1, 10)),
        "q_lora_rank": draw(either(24, 7, 33, None)),
        "kv_lora_rank": draw(either(16, 48, 64)),
        "qk_nope_head_dim": draw(either(8, 1, 33, 20)),
        "v_head_dim": draw(either(16, 32, 48)),
        "hidden_act": draw(either("silu", "gelu_pytorch_tanh")),
        "mlp_bias": draw(FLAG),
        "scale_emb": draw(either(12, 1, 0.5)),
        "scale_depth": draw(either(1.4, 1, 2.5)),
        "dim_model_base": draw(either(16, 1, 256)),
    }
    settings = draw(scaled(shape))
    settings["rope_parameters"].pop("mscale_all_dim", None)  # it is not supported
    return settings | {"qk_rope_head_dim": settings.pop("head_dim")}


@st.composite
def youtu(draw):
    config = draw(minicpm3())
    settings = {key: value for key, value in config.items() if key not in ("mlp_bias", "scale_emb", "scale_depth", "dim_model_base")}
    return settings | {"num_key_value_heads": config["num_attention_heads"], "rope_interleave": draw(FLAG)}


@st.composite
def lfm2(draw):
    shape = draw(shapes(head_dim=draw(FLAG)))
    n = shape["num_hidden_layers"]
    config = {"norm_eps": shape.pop("rms_norm_eps"), "conv_bias": draw(FLAG)}
    config |= {"conv_L_cache": draw(either(3, 2, 4, 7))}
    kinds = st.lists(either("conv", "full_attention"), min_size=n, max_size=n)
    types = draw(kinds.filter(lambda kinds: "full_attention" in kinds))
    if draw(FLAG):
        config["layer_types"] = types
    else:
        config["full_attn_idxs"] = [i for i in range(n) if types[i] == "full_attention"]
    config["block_auto_adjust_ff_dim"] = draw(FLAG)
    if config["block_auto_adjust_ff_dim"]:
        config["block_multiple_of"] = draw(either(8, 1, 13))
        config["block_ffn_dim_multiplier"] = draw(either(1.0, 1, 1.3, 0.5))
    return draw(scaled(shape)) | config


@st.composite
def lfm3(draw):
    shape = draw(shapes(head_dim=True))
    n = shape["num_hidden_layers"]
    kinds = st.lists(either("conv", "full_attention", "sliding_attention"), min_size=n, max_size=n)
    types = either("proportional", "default", "linear", "yarn")
    ropes = {
        kind: draw(rope(shape["head_dim"], draw(types)).filter(lambda r: r.get("truncate", True)))
        for kind in ("full_attention", "sliding_attention")
    }
    return shape | {
        "norm_eps": shape.pop("rms_norm_eps"),
        "conv_bias": draw(FLAG),
        "conv_L_cache": draw(either(7, 2, 3)),
        "attention_bias": draw(FLAG),
        "layer_types": draw(kinds.filter(lambda kinds: "conv" in kinds and len(set(kinds)) > 1)),
        "sliding_window": draw(WINDOW),
        "use_sandwich_norm": draw(FLAG),
        "use_attention_gate": draw(FLAG),
        "rope_parameters": ropes,
    }


@st.composite
def lfm2moe(draw):
    config = {key: value for key, value in draw(lfm2()).items() if not key.startswith(("block_", "full_attn"))}
    if "layer_types" not in config:
        n = config["num_hidden_layers"]
        attends = draw(st.integers(0, n - 1))
        config["layer_types"] = ["full_attention" if i == attends else "conv" for i in range(n)]
    return config | draw(experts("num_experts")) | {
        "moe_intermediate_size": draw(st.integers(4, 70)),
        "num_dense_layers": draw(either(0, 1, 2, 9)),
        "norm_topk_prob": draw(FLAG),
        "use_expert_bias": draw(FLAG),
        "routed_scaling_factor": draw(either(1.0, 2.5, 0.3)),
    }


def with_layer_norms(shape):
    """The shape of a model with LayerNorms."""
    return {key: value for key, value in shape.items() if key != "rms_norm_eps"} | {
        "layer_norm_eps": shape["rms_norm_eps"]
    }


@st.composite
def in_part(draw, shape):
    """The shape with heads that rotate in part."""
    head_dim = rotated(shape)
    dims = [n for n in range(head_dim, 0, -2) if int(head_dim * (n / head_dim)) == n]
    turned = draw(st.sampled_from(dims))
    parameters = draw(rope(turned, draw(either("default", "linear", "llama3", "yarn"))))
    return shape | {"rope_parameters": parameters | {"partial_rotary_factor": turned / head_dim}}


@st.composite
def glm(draw):
    """Without a token that ends a text it has three beyond a small vocabulary."""
    shape = draw(shapes(head_dim=True))
    return draw(in_part(shape | {"eos_token_id": shape["eos_token_id"] or 2})) | {
        "attention_bias": draw(FLAG),
        "hidden_act": draw(either("silu", "gelu")),
    }


def glm4():
    return glm()


@st.composite
def stablelm(draw):
    return draw(in_part(with_layer_norms(draw(shapes())))) | {
        "use_qkv_bias": draw(FLAG),
        "use_parallel_residual": draw(FLAG),
    }


@st.composite
def cohere2(draw):
    config = draw(scaled(with_layer_norms(draw(shapes())))) | {
        "attention_bias": draw(FLAG),
        "sliding_window": draw(WINDOW),
        "logit_scale": draw(either(0.0625, 0.25, 1.3)),
        "hidden_act": draw(either("silu", "gelu")),
    }
    pattern = {"layer_types": draw(layer_types(config))} if draw(FLAG) else {"sliding_window_pattern": draw(either(4, 1, 2, 3))}
    return config | pattern


@st.composite
def gptneox(draw):
    shape = with_layer_norms(draw(shapes()))
    del shape["num_key_value_heads"]
    return draw(in_part(shape)) | {
        "attention_bias": draw(FLAG),
        "use_parallel_residual": draw(FLAG),
        "hidden_act": draw(either("gelu", "gelu_fast", "gelu_new", "silu")),
    }


@st.composite
def gpt2(draw):
    shape = draw(shapes())
    return {
        "n_embd": shape["hidden_size"],
        "n_inner": draw(either(None, shape["intermediate_size"])),
        "n_layer": shape["num_hidden_layers"],
        "n_head": shape["num_attention_heads"],
        "n_positions": CONTEXT,
        "layer_norm_epsilon": shape["rms_norm_eps"],
        "activation_function": draw(either("gelu_new", "gelu", "silu")),
    } | {key: shape[key] for key in ("vocab_size", "tie_word_embeddings", "bos_token_id", "eos_token_id")}


@st.composite
def starcoder2(draw):
    shape = draw(shapes())
    return draw(scaled(shape | {"norm_epsilon": shape.pop("rms_norm_eps")})) | {
        "use_bias": draw(FLAG),
        "sliding_window": draw(st.none() | WINDOW),
        "hidden_act": draw(either("gelu_pytorch_tanh", "gelu")),
    }


@st.composite
def nemotron(draw):
    shape = draw(shapes(head_dim=draw(FLAG)))
    return draw(in_part(shape | {"norm_eps": shape.pop("rms_norm_eps")})) | {
        "attention_bias": draw(FLAG),
        "mlp_bias": draw(FLAG),
        "hidden_act": draw(either("relu2", "gelu")),
    }


@st.composite
def phi(draw):
    shape = with_layer_norms(draw(shapes(head_dim=draw(FLAG))))
    return draw(in_part(shape)) | {"hidden_act": draw(either("gelu_new", "gelu"))}


@st.composite
def gemma(draw):
    return draw(scaled(draw(shapes(head_dim=True)))) | {
        "attention_bias": draw(FLAG),
        "hidden_act": draw(either("gelu_pytorch_tanh", "gelu", "silu")),
    }


@st.composite
def later_gemma(draw):
    return draw(shapes(head_dim=True)) | {
        "attention_bias": draw(FLAG),
        "query_pre_attn_scalar": draw(either(4, 16, 100)),
        "sliding_window": draw(WINDOW),
        "final_logit_softcapping": draw(either(None, 30.0, 20.0)),
        "hidden_activation": draw(either("gelu_pytorch_tanh", "silu")),
    }


@st.composite
def gemma2(draw):
    config = draw(scaled(draw(later_gemma())))
    if draw(FLAG):
        config["layer_types"] = draw(layer_types(config))
    return config | {"attn_logit_softcapping": draw(either(None, 50.0, 3.0))}


@st.composite
def vaultgemma(draw):
    return draw(gemma2())


@st.composite
def gemma3(draw):
    config = draw(later_gemma())
    if draw(FLAG):
        config["layer_types"] = draw(layer_types(config))
    else:
        config["sliding_window_pattern"] = draw(either(1, 2, 3, 6))
    config["rope_parameters"] = {
        kind: draw(rope(rotated(config), draw(either("default", "linear", "llama3"))))
        for kind in ("full_attention", "sliding_attention")
    }
    return config


@st.composite
def gemma4(draw):
    config = draw(shapes(head_dim=True)) | {
        "attention_bias": draw(FLAG),
        "sliding_window": draw(WINDOW),
        "final_logit_softcapping": draw(either(None, 30.0, 20.0)),
        "hidden_activation": draw(either("gelu_pytorch_tanh", "silu")),
        "global_head_dim": 2 * draw(st.integers(1, 24)),
        "hidden_size_per_layer_input": draw(either(0, 16, 5, 40)),
        "use_double_wide_mlp": draw(FLAG),
        "attention_k_eq_v": draw(FLAG),
        "num_global_key_value_heads": draw(either(None, 1)),
        "use_bidirectional_attention": draw(either(None, "vision")),
    }
    types = [*draw(layer_types(config))[:-1], "full_attention"]
    shared = draw(st.integers(0, len(types) - 1))
    while shared and set(types[:-shared]) != set(types):
        shared -= 1
    config |= {"layer_types": types, "num_kv_shared_layers": shared, "vocab_size_per_layer_input": config["vocab_size"]}
    if draw(FLAG):
        proportional = {"partial_rotary_factor": either(0.25, 0.5, 1.0), "factor": either(1.0, 4.0)}
        config["rope_parameters"] = {
            kind: draw(
                st.fixed_dictionaries({"rope_type": st.just("default"), "rope_theta": THETA})
                | st.fixed_dictionaries({"rope_type": st.just("proportional"), "rope_theta": THETA}, optional=proportional)
            )
            for kind in ("full_attention", "sliding_attention")
        }
    return config


@st.composite
def gemma4moe(draw):
    n_experts = draw(st.integers(1, 9))
    return draw(gemma4()) | {
        "enable_moe_block": True,
        "num_experts": n_experts,
        "top_k_experts": draw(st.integers(1, n_experts)),
        "moe_intermediate_size": draw(st.integers(1, 70)),
        "hidden_size_per_layer_input": 0,
        "use_double_wide_mlp": False,
        "num_kv_shared_layers": 0,  # transformers fails with some but without inputs of layers
    }


@st.composite
def gemma4unified(draw):
    ignored = ("hidden_size_per_layer_input", "vocab_size_per_layer_input")
    return {key: value for key, value in draw(gemma4()).items() if key not in ignored}


SETTINGS = {
    make.__name__: make()
    for make in (
        llama, mistral, qwen2, qwen3, smollm3, granite, graniteswa, granitemoehybrid, phi3, olmo2, olmo3, ministral3, ernie4_5,
        helium, glm, glm4, seedoss, olmo, exaone4, arcee, nanochat, hunyuandensev1, minicpm, minicpm3, youtu, lfm2, lfm3, lfm2moe, falconh1, nemotronh, qwen3_5, qwen3_5moe, qwen3next, stablelm, cohere2, olmoe, qwen3moe, granitemoe,
        granitemoeshared, granitemoeswa,
        gptneox, gpt2, starcoder2, nemotron, phi, gemma, gemma2, vaultgemma, gemma3, gemma4, gemma4moe, gemma4unified,
    )  # fmt: skip
}


def configs(family):
    """A strategy for configurations of a family."""
    return SETTINGS[family].map(lambda settings: CONFIGS[family](**settings))
