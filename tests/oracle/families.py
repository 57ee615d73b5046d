"""Random configurations of every family that is supported, small, and with all that their
configuration classes allow and smolconv converts. Windows, scaled contexts and patterns of layers are
so small that a text of some hundred tokens goes past all of them."""

import random

from transformers import (
    Gemma2Config,
    Gemma3TextConfig,
    GraniteConfig,
    LlamaConfig,
    MistralConfig,
    Olmo2Config,
    Phi3Config,
    Qwen2Config,
    Qwen3Config,
    SmolLM3Config,
)

CONTEXT = 512
ROPE_TYPES = ["default", "linear", "llama3", "yarn", "longrope"]


def chance(rng, p=0.5):
    return rng.random() < p


def shape(rng, head_dim=True):
    """Sizes that all families have; `head_dim`: apart from hidden_size / heads, sometimes."""
    kv_heads, groups = rng.choice([(1, 1), (1, 3), (2, 2), (2, 1), (3, 2), (1, 5)])
    own = 2 * rng.randrange(1, 17)
    settings = dict(
        vocab_size=rng.choice([17, 101, 258, 300]),
        hidden_size=kv_heads * groups * 2 * rng.randrange(2, 13),
        intermediate_size=rng.randrange(8, 90),
        num_hidden_layers=rng.randrange(2, 7),
        num_attention_heads=kv_heads * groups,
        num_key_value_heads=kv_heads,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=rng.choice([1e-6, 1e-5, 1e-2]),
        tie_word_embeddings=chance(rng),
        bos_token_id=None,
        eos_token_id=rng.choice([2, [2, 5], None]),
        pad_token_id=None,
    )
    if head_dim:
        settings["head_dim"] = own
    return settings


def rotated(settings):
    """Elements of a head."""
    return settings.get("head_dim") or settings["hidden_size"] // settings["num_attention_heads"]


def rope(rng, dim, kind, theta=None):
    """rope_parameters of one kind; the text of a test crosses its original context."""
    theta = theta or rng.choice([100.0, 10000.0, 500000.0, 1234567.89])
    original = rng.choice([16, 40, 64])
    rope = {"rope_type": kind, "rope_theta": theta}
    if kind == "linear":
        rope |= {"factor": rng.choice([2.0, 8.0, 3.7])}
    if kind == "llama3":
        rope |= {
            "factor": rng.choice([8.0, 32.0, 2.5]),
            "low_freq_factor": rng.choice([1.0, 0.5]),
            "high_freq_factor": rng.choice([4.0, 2.0]),
            "original_max_position_embeddings": original,
        }
    if kind == "yarn":
        rope |= {
            "factor": rng.choice([4.0, CONTEXT / original, 1.5]),
            "original_max_position_embeddings": original,
        }
        for key, values in {
            "attention_factor": [1.0, 0.8, 1.3],
            "beta_fast": [16.0, 48],
            "beta_slow": [2, 0.5],
            "truncate": [False, True],
        }.items():
            if chance(rng, 0.3):
                rope[key] = rng.choice(values)
        if chance(rng, 0.3):
            rope |= {"mscale": rng.choice([1.0, 0.7]), "mscale_all_dim": rng.choice([0.5, 1.2])}
    if kind == "longrope":
        rope |= {
            name: [round(rng.uniform(1, most), 3) for _ in range(dim // 2)]
            for name, most in (("short_factor", 2), ("long_factor", 20))
        }
        rope["original_max_position_embeddings"] = 256  # longer than the tests' texts
        for key, value in {"factor": 4.0, "attention_factor": 1.19}.items():
            if chance(rng, 0.3):
                rope[key] = value
    return rope


def layer_types(rng, n):
    kinds = ["full_attention", "sliding_attention"]
    return [rng.choice(kinds) for _ in range(n)]


def window(rng):
    return rng.choice([1, 2, 7, 33, 64, 70])


def with_rope(rng, settings, i, **options):
    kind = ROPE_TYPES[i % len(ROPE_TYPES)]
    return settings | {"rope_parameters": rope(rng, rotated(settings), kind, **options)}


def llama(rng, i):
    settings = shape(rng, chance(rng)) | {
        "attention_bias": chance(rng),
        "mlp_bias": chance(rng),
        "hidden_act": rng.choice(["silu", "silu", "gelu_pytorch_tanh"]),
    }
    return LlamaConfig(**with_rope(rng, settings, i + 2))


def mistral(rng, i):
    settings = shape(rng, chance(rng)) | {"sliding_window": None if i % 4 == 3 else window(rng)}
    return MistralConfig(**with_rope(rng, settings, i if chance(rng, 0.3) else 0))


def qwen_windows(rng, settings, i):
    settings |= {"use_sliding_window": i % 4 > 0, "sliding_window": window(rng)}
    n = settings["num_hidden_layers"]
    settings["max_window_layers"] = rng.randrange(n)
    if i % 4 == 3:
        settings["layer_types"] = layer_types(rng, n)
    return settings


def qwen2(rng, i):
    settings = qwen_windows(rng, shape(rng, head_dim=False), i)
    return Qwen2Config(**with_rope(rng, settings, 3 if i % 2 else 0))


def qwen3(rng, i):
    settings = qwen_windows(rng, shape(rng), i) | {"attention_bias": chance(rng)}
    return Qwen3Config(**with_rope(rng, settings, 3 if i % 2 else 0))


def smollm3(rng, i):
    settings = shape(rng, head_dim=False) | {
        "attention_bias": chance(rng, 0.3),
        "mlp_bias": chance(rng, 0.3),
        "use_sliding_window": i % 2 == 1,
        "sliding_window": window(rng),
    }
    n = settings["num_hidden_layers"]
    if i % 4 < 2:
        settings["no_rope_layers"] = [int(chance(rng)) for _ in range(n + i % 2)]
    else:
        settings["no_rope_layer_interval"] = rng.randrange(1, 5)
    if i % 4 == 1:
        settings["layer_types"] = layer_types(rng, n)
    return SmolLM3Config(**with_rope(rng, settings, 3 if i % 4 == 3 else 0))


def granite(rng, i):
    settings = shape(rng, head_dim=False) | {
        "attention_bias": chance(rng, 0.3),
        "mlp_bias": chance(rng, 0.3),
        "embedding_multiplier": rng.choice([12.0, 1.0, 0.3]),
        "residual_multiplier": rng.choice([0.22, 1.0, 1.7]),
        "attention_multiplier": rng.choice([0.0078125, 1.0, 0.4]),
        "logits_scaling": rng.choice([8.0, 1, 0.5]),
    }
    return GraniteConfig(**with_rope(rng, settings, i))


def phi3(rng, i):
    """Parts of heads rotate; its lists of factors are as long as that takes."""
    settings = shape(rng, head_dim=False) | {"sliding_window": None if i % 2 else window(rng)}
    head_dim = rotated(settings)
    turned = rng.choice([n for n in range(2, head_dim + 1, 2) if int(head_dim * (n / head_dim)) == n])
    parameters = rope(rng, turned, "longrope" if i % 4 else "default")
    original = parameters.pop("original_max_position_embeddings", 4096)
    parameters["partial_rotary_factor"] = turned / head_dim
    settings |= {"rope_parameters": parameters, "original_max_position_embeddings": original}
    return Phi3Config(**settings)


def olmo2(rng, i):
    settings = shape(rng, head_dim=False) | {"attention_bias": chance(rng, 0.3)}
    return Olmo2Config(**with_rope(rng, settings, i if chance(rng, 0.5) else 0))


def gemma(rng, i):
    settings = shape(rng) | {
        "attention_bias": chance(rng, 0.3),
        "query_pre_attn_scalar": rng.choice([4, 16, 100]),
        "sliding_window": window(rng),
        "final_logit_softcapping": rng.choice([None, 30.0, 20.0]),
        "hidden_activation": rng.choice(["gelu_pytorch_tanh"] * 3 + ["silu"]),
    }
    if i % 4 == 3:
        settings["layer_types"] = layer_types(rng, settings["num_hidden_layers"])
    return settings


def gemma2(rng, i):
    settings = gemma(rng, i) | {"attn_logit_softcapping": rng.choice([None, 50.0, 3.0])}
    return Gemma2Config(**with_rope(rng, settings, i if chance(rng, 0.3) else 0))


def gemma3(rng, i):
    settings = gemma(rng, i)
    if "layer_types" not in settings:
        settings["sliding_window_pattern"] = rng.choice([1, 2, 3, 6])
    kind = rng.choice(["default", "linear", "linear", "llama3"])
    settings["rope_parameters"] = {
        "full_attention": rope(rng, rotated(settings), kind),
        "sliding_attention": rope(rng, rotated(settings), rng.choice(["default", "default", kind])),
    }
    return Gemma3TextConfig(**settings)


FAMILIES = {
    make.__name__: make
    for make in (llama, mistral, qwen2, qwen3, smollm3, granite, phi3, olmo2, gemma2, gemma3)
}


def draw(family, i):
    """The i-th configuration of a family: always the same one."""
    return FAMILIES[family](random.Random(f"{family} {i}"), i)
