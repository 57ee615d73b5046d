"""Models that contain a language model, as transformers has them: small ones, whose part for pictures is as small as it may be."""

from typing import NamedTuple

import torch
from checkpoints import byte_tokenizer, randomize, with_plain_experts
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForImageTextToText,
    Exaone4_5_Config,
    Gemma3Config,
    Gemma4Config,
    Gemma4UnifiedConfig,
    Granite4VisionConfig,
    GraniteDoclingConfig,
    Idefics3Config,
    InternVLConfig,
    Lfm2VlConfig,
    Lfm3VlConfig,
    LlavaConfig,
    LlavaNextConfig,
    LlavaOnevisionConfig,
    MiniCPMV4_6Config,
    MiniCPMV4_7Config,
    Mistral3Config,
    Qwen2_5_VLConfig,
    Qwen2VLConfig,
    Qwen3_5Config,
    Qwen3_5MoeConfig,
    Qwen3VLConfig,
    SmolVLMConfig,
)

FURTHER = {"mtp.fc.weight": torch.ones(8, 16), "mtp.layers.0.mlp.up_proj.weight": torch.ones(3)}

QWEN = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=16, num_position_embeddings=16)
VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
PIXTRAL = VISION | {"model_type": "pixtral", "head_dim": 8}
CLIP = VISION | {"model_type": "clip_vision_model", "projection_dim": 16}
SIGLIP = VISION | {"model_type": "siglip_vision_model"}
MINICPM = VISION | {"insert_layer_id": 0}
AUDIO = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, subsampling_conv_channels=[4, 4], output_proj_dims=16)
WINDOWED_QWEN = QWEN | {"fullatt_block_indexes": [0], "num_key_value_heads": 1}


class Nest(NamedTuple):
    family: str  # of the language model, in families.py
    kind: type  # the configuration around it
    vision: dict
    text_type: str = ""  # where it has a class of its own for the language model
    settings: dict = {}  # noqa: RUF012  what else the configuration needs


NESTS = {
    "qwen3_5": Nest("qwen3_5", Qwen3_5Config, QWEN),
    "qwen3_5moe": Nest("qwen3_5moe", Qwen3_5MoeConfig, QWEN),
    "gemma3": Nest("gemma3", Gemma3Config, SIGLIP, settings={"mm_tokens_per_image": 4}),
    "gemma4": Nest(
        "gemma4", Gemma4Config, VISION | {"model_type": "gemma4_vision", "num_key_value_heads": 2, "head_dim": 8},
        settings={"audio_config": AUDIO},
    ),
    "gemma4moe": Nest("gemma4moe", Gemma4Config, VISION | {"model_type": "gemma4_vision", "num_key_value_heads": 2, "head_dim": 8}),
    "gemma4unified": Nest("gemma4unified", Gemma4UnifiedConfig, dict(patch_size=2, mm_embed_dim=16, mm_posemb_size=4, output_proj_dims=16)),
    "ministral3": Nest("ministral3", Mistral3Config, PIXTRAL),
    "mistral": Nest("mistral", Mistral3Config, PIXTRAL),
    "lfm2": Nest("lfm2", Lfm2VlConfig, VISION | {"model_type": "siglip2_vision_model"}),
    "lfm3": Nest("lfm3", Lfm3VlConfig, VISION | {"num_key_value_heads": 1}),
    "qwen3_vl": Nest("qwen3", Qwen3VLConfig, QWEN | {"deepstack_visual_indexes": [0]}, "qwen3_vl_text"),
    "qwen2_5_vl": Nest("qwen2", Qwen2_5_VLConfig, WINDOWED_QWEN, "qwen2_5_vl_text"),
    "qwen2_vl": Nest("qwen2", Qwen2VLConfig, dict(depth=1, embed_dim=16, hidden_size=16, num_heads=2), "qwen2_vl_text"),
    "smolvlm": Nest("llama", SmolVLMConfig, VISION),
    "idefics3": Nest("llama", Idefics3Config, VISION),
    "internvl": Nest("qwen2", InternVLConfig, VISION),
    "internvl3_5": Nest("qwen3", InternVLConfig, VISION),
    "llava": Nest("llama", LlavaConfig, CLIP),
    "llava_interleave": Nest("qwen2", LlavaConfig, SIGLIP),
    "llava_next": Nest("mistral", LlavaNextConfig, CLIP),
    "llava_onevision": Nest("qwen2", LlavaOnevisionConfig, SIGLIP),
    "granite_docling": Nest("granite", GraniteDoclingConfig, VISION | {"deepstack_visual_indexes": [0]}, "granite_docling_text"),
    "granite4_vision": Nest(
        "granite", Granite4VisionConfig, CLIP | {"hidden_size": 64}, "granite4_vision_text",
        dict(downsample_rate="1/2", deepstack_layer_map=[[0, 0]], qformer_config=dict(
            model_type="blip_2_qformer", num_hidden_layers=1, intermediate_size=16, cross_attention_frequency=1,
        )),
    ),
    "minicpmv4_6": Nest("qwen3_5", MiniCPMV4_6Config, MINICPM, settings={"insert_layer_id": 0}),
    "minicpmv4_7": Nest("qwen3_5", MiniCPMV4_7Config, MINICPM, settings={"insert_layer_id": 0}),
    "exaone4_5": Nest("exaone4", Exaone4_5_Config, WINDOWED_QWEN),
}  # fmt: skip


def text_settings(text, nest):
    """The keys of the language model, where it has a class of its own."""
    settings = text.to_dict()
    if nest.text_type == "qwen3_vl_text":  # which has no windows
        settings = {key: settings[key] for key in settings if "window" not in key and key != "layer_types"}
    if nest.family.startswith("gemma4"):  # which puts it where pictures are
        settings["pad_token_id"] = 0
    if nest.text_type:
        settings["model_type"] = nest.text_type
    if nest.text_type.startswith("qwen"):
        pairs = (getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads) // 2
        if nest.family == "qwen2":  # whose heads share out the hidden size
            settings.pop("head_dim", None)
        settings["rope_parameters"] = dict(text.rope_parameters, mrope_section=[pairs - 2 * (pairs // 3), pairs // 3, pairs // 3])
    return settings


def nested(text, name):
    """The configuration of a model that contains the language model."""
    nest = NESTS[name]
    vision = dict(nest.vision)
    if "docling" in name:
        vision["out_hidden_size"] = text.hidden_size
    return nest.kind(
        text_config=text_settings(text, nest), vision_config=vision, tie_word_embeddings=text.tie_word_embeddings, **nest.settings
    )


def make_nested(text, name, folder, seed=0):
    """Writes its checkpoint, and returns the model."""
    model = with_plain_experts(AutoModelForImageTextToText.from_config(nested(text, name)).eval())
    randomize(model, torch.Generator().manual_seed(seed))
    model.save_pretrained(folder)
    byte_tokenizer(text.vocab_size).save(str(folder / "tokenizer.json"))
    if name.startswith("qwen3_5"):
        change_tensors(folder, lambda tensors: tensors | FURTHER)
    return model


def change_tensors(folder, change):
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})
