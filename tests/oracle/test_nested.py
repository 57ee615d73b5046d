"""Language models in checkpoints of more, as published: config.json's text_config, longer names of tensors, and tensors of vision
and of the prediction of further tokens, which are skipped with a message. Beside transformers' models that read pictures."""

import json
import os
import tempfile
from pathlib import Path

import published
import pytest
import torch
from checkpoints import edit_config, make_of, reference_logits
from engine import Model, SmolError, convert
from families import TOLERANCES, cases, configs
from features import FEATURES, config_of, featured
from hypothesis import given
from hypothesis import strategies as st
from internal import DAMAGED, UNSUPPORTED
from nests import FURTHER, NESTS, change_tensors, make_nested, nested
from programs import smolconv
from safetensors.torch import load_file
from test_config import as_set, check_block, check_sizes, load, scales_of
from test_families import contents, rounding_error, tokens
from test_logits import check, largest_difference
from transformers import (
    AutoConfig,
    Granite4VisionTextConfig,
    GraniteDoclingTextConfig,
    Qwen2_5_VLTextConfig,
    Qwen2Config,
    Qwen2VLTextConfig,
    Qwen3Config,
    Qwen3VLTextConfig,
)

PLAIN = {"qwen3_vl_text": Qwen3Config, "qwen2_5_vl_text": Qwen2Config}  # those with the same blocks
N_CASES = int(os.environ.get("SMOL_FAMILY_CASES", 40 if os.environ.get("SMOL_TEST_ALL") else 1))


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", NESTS)
def test_drawn_checkpoints_answer_as_transformers_does(name):
    differences = []
    family = NESTS[name].family

    def without_ignored(config):
        """Removes the cap, which the reference of Gemma 3 does not have here, and the windows of Qwen 3, which Qwen 3-VL has not."""
        if family == "gemma3":
            config.final_logit_softcapping = None
        if name == "qwen3_vl":
            config.use_sliding_window = False
        return config

    def suits(config):
        """Granite Docling's part for pictures needs it."""
        return name != "granite_docling" or config.hidden_size % 4 == 0

    @cases(N_CASES)
    @given(configs(family).map(without_ignored).filter(suits), st.integers(0, 99))
    def compare_drawn(config, seed):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            reference = make_nested(config, name, folder, seed)
            ids = tokens(config.vocab_size)
            with Model(convert(folder, folder / "f32.smol", "f32")) as model:
                ours = model.logits(ids, kv="f32")
            expected, tolerance = reference_logits(reference, ids), TOLERANCES[family]
            if largest_difference(ours, expected) > tolerance:  # as in test_families.py
                tolerance = max(tolerance, 4 * rounding_error(reference, expected, ids))
            differences.append(float(check(ours, expected, tolerance)))

    compare_drawn()
    print(f"{name}: {len(differences)} checkpoints, at most {max(differences):.1e}")


@pytest.mark.parametrize("name", published.NESTED)
def test_settings_as_published_are_read_as_transformers_reads_them(name, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(published.NESTED[name]))
    ours, theirs = load(tmp_path), AutoConfig.from_pretrained(tmp_path)
    text = theirs.get_text_config()
    if text.model_type in PLAIN:
        text = PLAIN[text.model_type](**{key: value for key, value in text.to_dict().items() if key != "model_type"})
    check_block(ours, text)
    text.tie_word_embeddings = theirs.tie_word_embeddings
    check_sizes(ours.model, text)
    ends = as_set(getattr(theirs, "eos_token_id", None)) | as_set(text.eos_token_id)
    assert list(ours.stop[: ours.n_stop]) == sorted(ends)


@pytest.mark.parametrize(
    "kind", [Qwen3VLTextConfig, Qwen2VLTextConfig, Qwen2_5_VLTextConfig, GraniteDoclingTextConfig, Granite4VisionTextConfig]
)
def test_defaults_are_those_of_transformers(kind, tmp_path):
    """Of a text_config that has hardly a key."""
    architecture = kind.__name__.replace("TextConfig", "ForConditionalGeneration")
    outer = kind.model_type.removesuffix("_text")
    config = {"architectures": [architecture], "model_type": outer, "text_config": {"model_type": kind.model_type}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    ours, theirs = load(tmp_path), kind()
    theirs.tie_word_embeddings = getattr(theirs, "tie_word_embeddings", False)
    check_sizes(ours.model, theirs)
    bos = getattr(theirs, "bos_token_id", None)
    assert ours.model.bos_id == (0xFFFFFFFF if bos is None else bos)
    assert ours.model.rope_theta == theirs.rope_parameters["rope_theta"]
    assert set(ours.stop[: ours.n_stop]) == as_set(getattr(theirs, "eos_token_id", None))
    for name, value in scales_of(theirs).items():
        assert abs(getattr(ours.model, name) - value) <= 1e-7 * value, name


def test_embeddings_are_tied_as_transformers_ties_them(tmp_path):
    """Most kinds of model have a flag of their own, which counts alone; for some, that of the language model is enough."""
    for name, nest in NESTS.items():
        settings = nested(featured(nest.family), name).to_dict()
        for outer, inner in ((None, False), (False, True)):
            for object, tied in ((settings, outer), (settings["text_config"], inner)):
                for key in {"tie_word_embeddings", "tie_embedding"} & set(object):
                    del object[key]
                object.update({} if tied is None else {"tie_word_embeddings": tied})
            (tmp_path / "config.json").write_text(json.dumps(settings))
            theirs = AutoConfig.from_pretrained(tmp_path).tie_word_embeddings
            assert load(tmp_path).model.tied_embeddings == theirs, (name, outer, inner)


def test_settings_may_be_flat(tmp_path):
    """As published for Qwen 2-VL and 2.5-VL: the text's keys are config.json's own, and the rotation is named mrope."""
    make_nested(featured("qwen2"), "qwen2_5_vl", tmp_path)
    expected = contents(convert(tmp_path, tmp_path / "a.smol"))

    def flatten(config):
        text = config.pop("text_config")
        text.pop("model_type")
        rope = text.pop("rope_parameters")
        text |= {"rope_theta": rope.pop("rope_theta"), "rope_scaling": rope}
        config |= text | {key: config[key] for key in ("model_type", "architectures")}

    edit_config(tmp_path, flatten)
    assert contents(convert(tmp_path, tmp_path / "b.smol")) == expected
    plain = {"rope_parameters": None, "rope_theta": 1e4, "rope_scaling": {"type": "default"}}
    edit_config(tmp_path, lambda config: config.update(plain))
    expected = contents(convert(tmp_path, tmp_path / "c.smol"))
    for scaling in ({"type": "mrope", "mrope_section": [2, 2, 2]}, {"type": "mrope", "rope_type": "default"}):
        edit_config(tmp_path, lambda config, scaling=scaling: config.update(rope_scaling=scaling))
        assert contents(convert(tmp_path, tmp_path / "c.smol", force=True)) == expected
    edit_config(tmp_path, lambda config: config.update(text_config=[]))
    with pytest.raises(SmolError, match="text_config must be an object"):
        convert(tmp_path, tmp_path / "d.smol")


def test_architectures_of_the_language_model_do_not_count(tmp_path):
    """SmolVLM's name a class of its own, EXAONE 4.5's model_type an older one."""
    for name, changes in (("smolvlm", {"architectures": ["VLlama3ForCausalLM"]}), ("exaone4_5", {"model_type": "exaone4_5_text"})):
        folder = tmp_path / name
        folder.mkdir()
        make_nested(featured(NESTS[name].family), name, folder)
        expected = contents(convert(folder, folder / "a.smol"))
        edit_config(folder, change_text(**changes))
        assert contents(convert(folder, folder / "b.smol")) == expected


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", NESTS)
def test_the_blob_is_that_of_the_language_model(name, tmp_path):
    """Under the names of either release of transformers."""
    text = featured(NESTS[name].family)
    plain = make_of(text, tmp_path / "plain", dtype="F32")
    expected = contents(convert(plain, plain / "a.smol"))
    folder = tmp_path / "nested"
    make_nested(text, name, folder)
    language = load_file(plain / "model.safetensors")
    vision = {name: tensor for name, tensor in load_file(folder / "model.safetensors").items() if "vis" in name or "mm" in name}
    assert vision
    for before in ("model.language_model.", "language_model.model."):
        output = "language_model.lm_head" if before.startswith("language") else "lm_head"
        names = {name: name.replace("lm_head", output) if "lm_head" in name else before + name.removeprefix("model.")
                 for name in language}  # fmt: skip
        change_tensors(folder, lambda _: {names[name]: language[name] for name in language} | vision)
        assert contents(convert(folder, folder / "a.smol", force=True)) == expected


@pytest.mark.parametrize(
    "name, other, kind", [("qwen3_5", "mtp.", "the prediction of further tokens"), ("gemma4", "model.audio_tower.", "audio")]
)
def test_what_is_skipped_is_said_once(name, other, kind, tmp_path):
    make_nested(featured(name), name, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    skipped = {name: tensor for name, tensor in tensors.items() if not name.startswith(("model.language_model.", "lm_head."))}
    n = sum(name.startswith((other, other.replace("audio_tower", "embed_audio"))) for name in skipped)
    size = sum(tensor.numel() * tensor.element_size() for tensor in skipped.values())
    assert 0 < n < len(skipped)
    words = f"skipped: {len(skipped) - n} tensors of vision and {n} tensors of {kind}, {size / 1e6:.1f} MB: "
    told = smolconv(tmp_path, tmp_path / "a.smol")
    assert told.returncode == 0 and told.stderr.count("skipped") == 1 and words in told.stderr
    quiet = smolconv("--quiet", tmp_path, tmp_path / "b.smol")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    assert words.split(": ")[1] in smolconv("inspect", tmp_path).stdout
    shown = json.loads(smolconv("inspect", "--json", tmp_path).stdout)
    assert words.split(": ")[1] == shown["skipped"] and shown["architecture"] == f"{name.title()}ForConditionalGeneration"


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
    (change_text(model_type="clip"), UNSUPPORTED, "text_config.model_type is .clip.: docs/families.md"),
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
