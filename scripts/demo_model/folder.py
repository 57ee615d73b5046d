"""Writes the demo model as a Hugging Face folder."""

import csv
import io
import json
import os
from pathlib import Path

import safetensors.torch
import torch

from .tokenizer import SPECIAL_TOKENS

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

CONFIG_KEYS = (
    "attention_bias", "attention_dropout", "bos_token_id", "eos_token_id", "head_dim",
    "hidden_act", "hidden_size", "initializer_range", "intermediate_size",
    "max_position_embeddings", "mlp_bias", "model_type", "num_attention_heads",
    "num_hidden_layers", "num_key_value_heads", "rms_norm_eps", "tie_word_embeddings",
    "use_cache", "vocab_size",
)


def model_config(config):
    """Returns the config.json of the checkpoint, without anything about this machine."""
    values = {key: getattr(config, key) for key in CONFIG_KEYS}
    values.update(architectures=["LlamaForCausalLM"], rope_scaling=None, torch_dtype="bfloat16",
                  rope_theta=config.rope_parameters["rope_theta"])
    return dict(sorted(values.items()))


def tokenizer_config(max_length):
    """Returns the tokenizer_config.json for the tokenizer."""
    added = {
        str(number): {"content": token, "lstrip": False, "normalized": False, "rstrip": False,
                      "single_word": False, "special": True}
        for number, token in enumerate(SPECIAL_TOKENS)
    }
    end = SPECIAL_TOKENS[0]
    return {
        "add_prefix_space": False, "added_tokens_decoder": added, "bos_token": end,
        "chat_template": CHAT_TEMPLATE, "clean_up_tokenization_spaces": False, "eos_token": end,
        "model_max_length": max_length, "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": end,
    }


def replace(path, data):
    """Writes a file atomically: a reader sees the old or the new one."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_bytes(data if isinstance(data, bytes) else data.encode())
    os.replace(temporary, path)


def as_json(values):
    """Returns JSON text with a line break at the end."""
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


def rounded_weights(model):
    """Returns the weights in bfloat16, without the output matrix, which is tied to the embedding."""
    return {name: tensor.detach().to(torch.bfloat16).contiguous()
            for name, tensor in model.state_dict().items() if name != "lm_head.weight"}


def log_text(rows):
    """Returns the training log as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_folder(out, model, tokenizer, rows, readme):
    """Writes every file of the checkpoint folder."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    # a text ends with the first special token, a turn of the chat template with the last
    ends = [SPECIAL_TOKENS.index("<|endoftext|>"), SPECIAL_TOKENS.index("<|im_end|>")]
    generation = {"bos_token_id": 0, "eos_token_id": ends, "pad_token_id": 0}
    replace(out / "config.json", as_json(model_config(model.config)))
    replace(out / "generation_config.json", as_json(generation))
    replace(out / "tokenizer.json", tokenizer.to_str(pretty=True) + "\n")
    replace(out / "tokenizer_config.json",
            as_json(tokenizer_config(model.config.max_position_embeddings)))
    replace(out / "model.safetensors",
            safetensors.torch.save(rounded_weights(model), metadata={"format": "pt"}))
    replace(out / "training-log.csv", log_text(rows))
    replace(out / "README.md", readme)
