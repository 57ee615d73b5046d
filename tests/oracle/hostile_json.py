"""Bad JSON files of a checkpoint: what is no JSON, and values that make no sense."""

import json

from hostile_cases import DAMAGED, DEMO, GIB, UNSUPPORTED, Case, Sparse

JSON = []
CONFIG, TOKENS, SETTINGS = "config.json", "tokenizer.json", "tokenizer_config.json"
GENERATION, INDEX = "generation_config.json", "model.safetensors.index.json"

# --- any of them ------------------------------------------------------------------------------


def document(name, file, content, *words, status=DAMAGED):
    raw = content.encode() if isinstance(content, str) else content
    JSON.append((file, Case(f"{file}: {name}", raw, status, words)))


for file in (CONFIG, TOKENS, GENERATION, SETTINGS, INDEX):
    document("empty", file, b"", "empty")
    document("nothing but white space", file, " \n", "not valid JSON")
    document("a list", file, "[]", "list")
    document("a number", file, "1", file)
    document("not closed", file, '{"a":', "not valid JSON")
    document("something after its end", file, "{}{}", "not valid JSON")
    document("a NUL byte", file, b'{"a":"\0"}', "not valid JSON")
    document("an escaped NUL in a key", file, '{"a\\u0000":1}', "not valid JSON")
    document("not UTF-8", file, b'{"a":"\xff"}', "not valid JSON")
    document("a surrogate in UTF-8", file, b'{"a":"\xed\xa0\x80"}', "not valid JSON")
    document("a key twice", file, '{"a":1,"a":1}', "not valid JSON", "duplicate")
    document("3,000 lists in each other [depth]", file, '{"a":' + "[" * 3000 + "]" * 3000 + "}",
             "not valid JSON")  # fmt: skip
    document("a million lists in each other [depth]", file, "[" * 10**6, "not valid JSON")
    document("a million objects in each other [depth]", file, '{"a":' * 10**6, "not valid JSON")
    document("a number beyond f64", file, '{"a":1e999}', "not valid JSON")
    document("a number of a million digits", file, '{"a":' + "9" * 10**6 + "}", file)
    document("ten million values", file, "[" + "0," * 10**7 + "0]", "values")
    document("a gibibyte of nothing", file, Sparse(b"", GIB), "too large")
    document("a web page", file, "<!DOCTYPE html>", "web page")


def changed(file, name, path, value, *words, status=DAMAGED):
    """The bundled file with `value` at `path` (keys and indexes, separated by spaces)."""

    def content():
        whole = json.loads((DEMO / file).read_text())
        *outer, last = (int(key) if key.isdigit() else key for key in path.split())
        place = whole
        for key in outer:
            place = place[key]
        place[last] = value
        return json.dumps(whole).encode()

    JSON.append((file, Case(f"{file}: {name}", content, status, words)))


# --- config.json ------------------------------------------------------------------------------


def asking(name, keys, *words, status=DAMAGED):
    """The bundled config.json with other keys."""

    def content():
        return json.dumps(json.loads((DEMO / CONFIG).read_text()) | keys).encode()

    JSON.append((CONFIG, Case(f"{CONFIG}: {name}", content, status, words)))


for value in ("168", 168.5, 1e300, True, [168], {}):
    changed(CONFIG, f"hidden_size {value!r} [type]", "hidden_size", value, "hidden_size")
for key in ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size",
            "hidden_size", "intermediate_size", "max_position_embeddings", "head_dim"):  # fmt: skip
    changed(CONFIG, f"{key} 0 [zero]", key, 0, key)
    changed(CONFIG, f"{key} -1", key, -1, key)
    for value in (2**31, 2**63 - 1):  # there might be such a model
        changed(CONFIG, f"{key} {value} [33298]", key, value, key, status=UNSUPPORTED)
changed(CONFIG, "heads that do not divide", "num_key_value_heads", 4, "num_key_value_heads")
changed(CONFIG, "an odd head_dim", "head_dim", 27, "head_dim", status=UNSUPPORTED)
changed(CONFIG, "an end that is a text [type]", "eos_token_id", "0", "eos_token_id")
changed(CONFIG, "an end that there is not", "eos_token_id", [0, 1990], "eos_token_id")
changed(CONFIG, "a start that there is not", "bos_token_id", 1990, "bos_token_id")
changed(CONFIG, "rope_theta that is a text [type]", "rope_theta", "10000", "rope_theta")
changed(CONFIG, "rope_theta 0 [zero]", "rope_theta", 0, "rope_theta")
changed(CONFIG, "rms_norm_eps 2", "rms_norm_eps", 2.0, "rms_norm_eps")
changed(CONFIG, "an architecture that is a number [type]", "architectures", 3, "architectures")
changed(CONFIG, "an architecture that is in a list in a list [type]", "architectures", [["a"]],
        "architectures", status=UNSUPPORTED)  # fmt: skip
for rope, word in [
    ("linear", "rope_scaling"),
    ({"type": 3}, "type"),
    ({"type": "linear"}, "factor"),
    ({"type": "linear", "factor": 0}, "factor"),
    ({"type": "linear", "factor": "2"}, "factor"),
    ({"type": "llama3", "factor": 8}, "low_freq_factor"),
    ({"type": "yarn", "factor": 8, "original_max_position_embeddings": 0}, "original_max"),
    ({"type": "yarn", "factor": 8, "original_max_position_embeddings": 1.5}, "original_max"),
    ({"type": "yarn", "factor": 8, "beta_fast": [32]}, "beta_fast"),
    ({"type": "yarn", "factor": 1e300}, "factor"),
    ({"type": "longrope", "short_factor": 1, "long_factor": 1}, "short_factor"),
    ({"type": "longrope", "short_factor": [1.0] * 10**6}, "short_factor"),
    ({"type": "longrope", "short_factor": [0.0] * 14, "long_factor": [1] * 14}, "short_factor"),
    ({"type": "longrope", "short_factor": [1] * 14, "long_factor": [1e300] * 14}, "long_factor"),
]:
    asking(f"rope_scaling {json.dumps(rope)[:60]} [type]", {"rope_scaling": rope}, word)
for rope, word in [
    ({"type": "dynamic", "factor": 2}, "dynamic"),
    ({"type": "x" * 10**5}, "xxxx"),
    ({"type": "linear", "factor": 1e-30}, "frequency 0"),
    ({"full_attention": {}}, "full_attention"),
]:
    asking(f"rope_scaling {json.dumps(rope)[:60]}", {"rope_scaling": rope}, word, status=UNSUPPORTED)
SMOLLM3 = {"architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3"}
GEMMA2 = {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2"}
GEMMA3 = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text"}
for value in (1, [], [1], [1] * 5, [2] * 6, ["1"] * 6, [[1]] * 6):
    asking(f"no_rope_layers {value} [type]", SMOLLM3 | {"no_rope_layers": value}, "no_rope_layers")
for value in (0, -1, "4", [4]):
    asking(f"no_rope_layer_interval {value!r} [zero]", SMOLLM3 | {"no_rope_layer_interval": value},
           "no_rope_layer_interval")  # fmt: skip
for value in ("full_attention", [], ["full_attention"] * 7, [1] * 6, [None] * 6):
    asking(f"layer_types {value} [type]", GEMMA2 | {"layer_types": value}, "layer_types")
for value in (0, -1, "4096", [4096]):
    asking(f"sliding_window {value!r}", GEMMA2 | {"sliding_window": value}, "sliding_window")
for value in (0, -1, "30", 1e300):
    asking(f"a soft-cap of {value!r}", GEMMA2 | {"final_logit_softcapping": value}, "softcapping")
for value, word in ((3, "rope_parameters"), ({"rope_theta": 1}, "rope_parameters"),
                    ({"full_attention": 1}, "rope_parameters"), ({"sliding_attention": [1]}, "rope_theta")):
    asking(f"rope_parameters {value} [type]", GEMMA3 | {"rope_theta": None, "rope_parameters": value,
           "sliding_window_pattern": 2}, word)  # fmt: skip
asking("another family's tensors", GEMMA2 | {"head_dim": 28}, "pre_feedforward_layernorm")
changed(CONFIG, "tied to a text [type]", "tie_word_embeddings", "yes", "tie_word_embeddings")

# --- generation_config.json, tokenizer_config.json --------------------------------------------

changed(GENERATION, "a temperature that is a text [type]", "temperature", "hot",
        "temperature")  # fmt: skip
changed(GENERATION, "top_k -1", "top_k", -1, "top_k")
changed(GENERATION, "an end that there is not", "eos_token_id", [1990], "eos_token_id")
changed(GENERATION, "ends that are texts [type]", "eos_token_id", ["0"], "eos_token_id")
changed(SETTINGS, "an end that is a number [type]", "eos_token", 0, "eos_token")
changed(SETTINGS, "an end that is a list [type]", "eos_token", ["a"], "eos_token")


def many_templates():
    """A list of chat templates whose names all have to be compared, and whose last is none."""
    settings = json.loads((DEMO / SETTINGS).read_text())
    settings["chat_template"] = [{"name": f"n{i}", "template": ""} for i in range(200000)] + [0]
    return json.dumps(settings).encode()


JSON.append((SETTINGS, Case(f"{SETTINGS}: many templates", many_templates, DAMAGED, ["chat_template"])))

# --- tokenizer.json ---------------------------------------------------------------------------

for value in (None, [], "BPE", 1):
    changed(TOKENS, f"the model is {value!r} [type]", "model", value, "model")
    changed(TOKENS, f"the vocabulary is {value!r} [type]", "model vocab", value, "vocab")
    changed(
        TOKENS,
        f"the pre-tokenizer is {value!r} [type]",
        "pre_tokenizer",
        value,
        "pre_tokenizer",
        status=UNSUPPORTED,
    )
for value in (None, {}, "h e", 1, [1], ["he"], ["h e x"], [["h"]], [["h", "e", "x"]], [["h", 1]],
              [[]], [["h", "\U0001f600"]]):  # fmt: skip
    changed(TOKENS, f"the merges are {value!r} [type]", "model merges", value, "merge")
for value in ("5", 5.5, None, -1, 1990, 2**32, 2**63 - 1, [5], 0):
    changed(TOKENS, f"a token's id is {value!r} [type]", "model vocab h", value, "token")
for value in ({}, "x", 1, [1], [None], [[]], [{}]):
    changed(TOKENS, f"the added tokens are {value!r} [type]", "added_tokens", value, "added")
for key, values in {
    "content": ["", None, 1],
    "id": ["0", -1, 1990, 2**63 - 1],
    "special": ["yes", None, 1],
    "normalized": [0],
    "lstrip": [1],
}.items():
    for value in values:
        changed(
            TOKENS, f"an added token's {key} is {value!r} [type]", f"added_tokens 1 {key}", value
        )
for n in (1025, 10**6):
    changed(TOKENS, f"an added token of {n} bytes [length]", "added_tokens 1 content", "x" * n,
            "too long", status=UNSUPPORTED)  # fmt: skip
changed(TOKENS, "another model", "model type", "WordLevel", "WordLevel", status=UNSUPPORTED)
changed(TOKENS, "a model's kind that is a number [type]", "model type", 1, "type",
        status=UNSUPPORTED)  # fmt: skip
for value in ({"type": "Nmt"}, {"type": "Replace", "pattern": {"Regex": "."}, "content": ""}, [], 7,
              {"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 65},
              {"type": "Prepend", "prepend": ""}, {"type": "Prepend", "prepend": "b" * 10**6},
              {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 3},
              {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 10**5},
              {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": []}]}):  # fmt: skip
    changed(TOKENS, f"a normalizer: {str(value)[:60]}... of {len(str(value))}", "normalizer", value,
            "normalizer", status=UNSUPPORTED)  # fmt: skip
FUSE, STRIP = {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}
for value in (None, 7, [], {"type": "CTC"}, {"type": "Metaspace"}, {"type": "Sequence", "decoders": []},
              {"type": "Sequence", "decoders": [FUSE, FUSE]}, {"type": "Sequence", "decoders": [STRIP]},
              *({"type": "Sequence", "decoders": [FUSE, STRIP | change]} for change in (
                  {"start": -1}, {"start": 65}, {"start": 2**63 - 1}, {"start": "1"}, {"stop": 1},
                  {"content": ""}, {"content": "ab"}, {"content": None}))):  # fmt: skip
    changed(TOKENS, f"a decoder: {value!r}", "decoder", value, "decoder", status=UNSUPPORTED)
GROW = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 64}
changed(TOKENS, "a decoder's text of 65 bytes", "decoder", GROW | {"content": "a" * 65}, "decoder",
        status=UNSUPPORTED)  # fmt: skip
TEMPLATE = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}], "special_tokens": {}}
for value in (7, [], {"type": "BertProcessing"}, TEMPLATE | {"single": []}, TEMPLATE | {"single": 1},
              TEMPLATE | {"single": [{"Sequence": {"id": "B"}}]},
              TEMPLATE | {"single": [{"Sequence": {"id": "A"}}] * 2},
              {"type": "Sequence", "processors": [TEMPLATE, TEMPLATE]}):  # fmt: skip
    changed(TOKENS, f"a post-processor: {value!r}", "post_processor", value, "post_processor",
            status=UNSUPPORTED)  # fmt: skip
for value in (1990, -1, 2**63 - 1, "1", None, 10**9):
    piece = {"SpecialToken": {"id": "x"}}
    template = TEMPLATE | {"single": [piece, *TEMPLATE["single"]], "special_tokens": {"x": {"ids": [value]}}}
    changed(TOKENS, f"an id around a text is {value!r} [type]", "post_processor", template, "post_processor")
for key in ("byte_fallback", "fuse_unk", "ignore_merges", "unk_token"):
    for value in (1, [True], {}):
        changed(TOKENS, f"{key} is {value!r} [type]", f"model {key}", value, key)
NESTED = {}
for _ in range(200):
    NESTED = {"type": "Sequence", "pretokenizers": [NESTED]}
changed(TOKENS, "a pre-tokenizer in itself, 200 times [depth]", "pre_tokenizer", NESTED,
        "pre_tokenizer", status=UNSUPPORTED)  # fmt: skip
for what, pattern, *words in [
    ("a million repetitions [work]", "(?:a{999}){999}", "has too many repetitions"),
    ("too many states [memory]", r"(?:\w{30}|\d){30}b", "states"),
    ("of a megabyte [length]", "a" * (1 << 20), "too long"),
    ("groups within groups [depth]", "(" * 8000 + "a" + ")" * 8000, "nested too deeply"),
    ("classes within classes [depth]", "[" * 8000 + "a" + "]" * 8000, "nested too deeply"),
    ("repetitions of repetitions [depth]", "a" + "{2}" * 5000, "repeating repetitions"),
    ("a character of its own each [memory]", "|".join(map(chr, range(0x4E00, 0x5A00))), "classes"),
    ("properties over and over [work]", "[" + r"\p{L}" * 2000 + "]", "too large"),
    ("a back-reference", r"(a)\1", "escape"),
    ("not closed", "(a", "without its )"),
]:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    row = [split, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]
    changed(TOKENS, f"a pattern, {what}", "pre_tokenizer", {"type": "Sequence", "pretokenizers": row},
            *words, status=UNSUPPORTED)  # fmt: skip
changed(TOKENS, "dropout", "model dropout", 0.5, "dropout", status=UNSUPPORTED)
