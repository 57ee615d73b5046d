"""Language models in checkpoints of more, as published: config.json's text_config, longer names of tensors, and tensors of vision
and of the prediction of further tokens, which are skipped with a message. Beside transformers' models that read pictures."""

import json
import os
import tempfile
from pathlib import Path

import published
import pytest
import torch
from checkpoints import byte_tokenizer, edit_config, make_of, randomize, reference_logits, with_plain_experts
from engine import Model, SmolError, convert
from families import TOLERANCES, cases, configs
from features import FEATURES, config_of, featured
from hypothesis import given
from hypothesis import strategies as st
from internal import DAMAGED, UNSUPPORTED
from programs import smolconv
from safetensors.torch import load_file, save_file
from test_config import as_set, check_block, check_sizes, load
from test_families import contents, tokens
from test_logits import check
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    Gemma3Config,
    Lfm2VlConfig,
    Lfm3VlConfig,
    Mistral3Config,
    Qwen3_5Config,
    Qwen3_5MoeConfig,
)

N_CASES = int(os.environ.get("SMOL_FAMILY_CASES", 40 if os.environ.get("SMOL_TEST_ALL") else 1))
# family: the configuration around it, and settings that make its part for pictures small
QWEN_VISION = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=16, num_position_embeddings=16)
VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
NESTS = {
    "qwen3_5": (Qwen3_5Config, QWEN_VISION),
    "qwen3_5moe": (Qwen3_5MoeConfig, QWEN_VISION),
    "gemma3": (Gemma3Config, VISION | {"model_type": "siglip_vision_model"}),
    "ministral3": (Mistral3Config, VISION | {"model_type": "pixtral", "head_dim": 8}),
    "mistral": (Mistral3Config, VISION | {"model_type": "pixtral", "head_dim": 8}),
    "lfm2": (Lfm2VlConfig, VISION | {"model_type": "siglip2_vision_model"}),
    "lfm3": (Lfm3VlConfig, VISION | {"num_key_value_heads": 1}),
}
FURTHER = {"mtp.fc.weight": torch.ones(8, 16), "mtp.layers.0.mlp.up_proj.weight": torch.ones(3)}


def nested(text, family):
    """The configuration of a model that contains the language model."""
    kind, vision = NESTS[family]
    return kind(
        text_config=text.to_dict(), vision_config=dict(vision), tie_word_embeddings=text.tie_word_embeddings,
        mm_tokens_per_image=4,
    )  # fmt: skip


def make_nested(text, family, folder, seed=0):
    """Writes its checkpoint, and returns the model."""
    model = with_plain_experts(AutoModelForImageTextToText.from_config(nested(text, family)).eval())
    randomize(model, torch.Generator().manual_seed(seed))
    model.save_pretrained(folder)
    byte_tokenizer(text.vocab_size).save(str(folder / "tokenizer.json"))
    if family.startswith("qwen3_5"):
        change_tensors(folder, lambda tensors: tensors | FURTHER)
    return model


def change_tensors(folder, change):
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


@pytest.mark.parametrize("family", NESTS)
def test_drawn_checkpoints_answer_as_transformers_does(family):
    differences = []

    def drop_cap(config):
        """Removes the cap, which the reference does not have here."""
        if hasattr(config, "final_logit_softcapping"):
            config.final_logit_softcapping = None
        return config

    @cases(N_CASES)
    @given(configs(family).map(drop_cap), st.integers(0, 99))
    def compare_drawn(config, seed):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            reference = make_nested(config, family, folder, seed)
            ids = tokens(config.vocab_size)
            with Model(convert(folder, folder / "f32.smol", "f32")) as model:
                ours = model.logits(ids, kv="f32")
            differences.append(float(check(ours, reference_logits(reference, ids), TOLERANCES[family])))

    compare_drawn()
    print(f"{family}: {len(differences)} checkpoints, at most {max(differences):.1e}")


@pytest.mark.parametrize("name", published.NESTED)
def test_settings_as_published_are_read_as_transformers_reads_them(name, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(published.NESTED[name]))
    ours, theirs = load(tmp_path), AutoConfig.from_pretrained(tmp_path)
    text = theirs.get_text_config()
    check_block(ours, text)
    text.tie_word_embeddings = published.NESTED[name].get("tie_word_embeddings", text.tie_word_embeddings)
    check_sizes(ours.model, text)
    ends = as_set(getattr(theirs, "eos_token_id", None)) | as_set(text.eos_token_id)
    assert list(ours.stop[: ours.n_stop]) == sorted(ends)


@pytest.mark.parametrize("family", NESTS)
def test_the_blob_is_that_of_the_language_model(family, tmp_path):
    """Under the names of either release of transformers."""
    text = featured(family)
    plain = make_of(text, tmp_path / "plain", dtype="F32")
    expected = contents(convert(plain, plain / "a.smol"))
    folder = tmp_path / "nested"
    make_nested(text, family, folder)
    language = load_file(plain / "model.safetensors")
    vision = {name: tensor for name, tensor in load_file(folder / "model.safetensors").items() if "vis" in name or "mm" in name}
    assert vision
    for before in ("model.language_model.", "language_model.model."):
        output = "language_model.lm_head" if before.startswith("language") else "lm_head"
        names = {name: name.replace("lm_head", output) if "lm_head" in name else before + name.removeprefix("model.")
                 for name in language}  # fmt: skip
        change_tensors(folder, lambda _: {names[name]: language[name] for name in language} | vision)
        assert contents(convert(folder, folder / "a.smol", force=True)) == expected


def test_what_is_skipped_is_said_once(tmp_path):
    make_nested(featured("qwen3_5"), "qwen3_5", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    vision = [tensor for name, tensor in tensors.items() if name.startswith("model.visual.")]
    size = sum(tensor.numel() * tensor.element_size() for tensor in (*vision, *FURTHER.values()))
    words = f"skipped: {len(vision)} tensors of vision and 2 tensors of the prediction of further tokens, {size / 1e6:.1f} MB: "
    told = smolconv(tmp_path, tmp_path / "a.smol")
    assert told.returncode == 0 and told.stderr.count("skipped") == 1 and words in told.stderr
    quiet = smolconv("--quiet", tmp_path, tmp_path / "b.smol")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert words.split(": ")[1] in smolconv("inspect", tmp_path).stdout
    shown = json.loads(smolconv("inspect", "--json", tmp_path).stdout)
    assert words.split(": ")[1] == shown["skipped"] and shown["architecture"] == "Qwen3_5ForConditionalGeneration"


def test_tensors_of_further_tokens_may_be_there_without_vision(tmp_path):
    make_of(featured("qwen3_5"), tmp_path)
    expected = contents(convert(tmp_path, tmp_path / "a.smol"))
    change_tensors(tmp_path, lambda tensors: tensors | FURTHER)
    assert contents(convert(tmp_path, tmp_path / "b.smol")) == expected
    change_tensors(tmp_path, lambda tensors: tensors | {"model.visual.x": torch.ones(2)})
    with pytest.raises(SmolError, match="model.visual.x is not part of the model"):
        convert(tmp_path, tmp_path / "c.smol")


def change_text(**changes):
    return lambda config: config["text_config"].update(changes)


@pytest.mark.parametrize("change, status, words", [
    (lambda c: c.pop("text_config"), DAMAGED, "text_config must be an object"),
    (lambda c: c.update(text_config=[]), DAMAGED, "text_config must be an object"),
    (lambda c: c.update(model_type="gemma3"), DAMAGED, "model_type must be qwen3_5"),
    (lambda c: c.update(quantization_config={}), UNSUPPORTED, "quantization_config"),
    (change_text(quantization_config={}), UNSUPPORTED, "text_config.quantization_config"),
    (change_text(model_type="llama"), UNSUPPORTED, "text_config.model_type is .llama.: not supported within"),
    (change_text(model_type="clip"), UNSUPPORTED, "text_config.model_type is .clip.: smolconv reads"),
    (change_text(hidden_size="x"), DAMAGED, "text_config.hidden_size must be an integer"),
    (lambda c: c.update(eos_token_id=10**6), DAMAGED, "eos_token_id"),
    (change_text(eos_token_id=10**6), DAMAGED, "text_config.eos_token_id"),
])  # fmt: skip
def test_contradictions_are_refused_by_name(change, status, words, tmp_path):
    make_nested(featured("qwen3_5"), "qwen3_5", tmp_path)
    edit_config(tmp_path, change)
    with pytest.raises(SmolError, match=words) as caught:
        convert(tmp_path, tmp_path / "a.smol")
    assert caught.value.status == status


def test_a_cap_that_the_reference_ignores_is_refused(tmp_path):
    make_nested(config_of("gemma3", **FEATURES["gemma3"][0], final_logit_softcapping=30.0), "gemma3", tmp_path)
    with pytest.raises(SmolError, match="text_config.final_logit_softcapping is 30.*ignores it"):
        convert(tmp_path, tmp_path / "a.smol")


@pytest.mark.parametrize("spoil, words", [
    (lambda t: t | {"language_model.model.norm.weight": t["model.language_model.norm.weight"]}, "\"norm.weight\" appears twice"),
    (lambda t: {k: v for k, v in t.items() if "language_model.norm" not in k}, "model.norm.weight is missing"),
    (lambda t: t | {"audio.x": torch.ones(1)}, "audio.x is not part of the model"),
    (lambda t: t | {"model.norm.weight": torch.ones(1)}, "is missing|has shape"),
])  # fmt: skip
def test_bad_tensors_are_named(spoil, words, tmp_path):
    make_nested(featured("qwen3_5"), "qwen3_5", tmp_path)
    change_tensors(tmp_path, lambda tensors: {k: v.clone() for k, v in spoil(tensors).items()})
    with pytest.raises(SmolError, match=words) as caught:
        convert(tmp_path, tmp_path / "a.smol")
    assert caught.value.status == DAMAGED


def test_texts_end_where_either_part_of_the_configuration_says(tmp_path):
    make_nested(featured("qwen3_5"), "qwen3_5", tmp_path)
    edit_config(tmp_path, lambda c: (c.update(eos_token_id=[5, 9]), c["text_config"].update(eos_token_id=7)))
    (tmp_path / "generation_config.json").unlink(missing_ok=True)
    shown = smolconv("inspect", "--json", convert(tmp_path, tmp_path / "a.smol")).stdout
    assert json.loads(shown)["stop"] == [5, 7, 9]
