"""The Python package returns what smolrun prints: the same bits, for all that both can do."""

import json
import random
import re

import numpy as np
import package  # noqa: F401
import pytest
import smolrun
from internal import ROOT
from programs import smolconv
from programs import smolrun as run_program
from test_jsonl import WORDS, answers, draw_request
from test_serve_tools import REPLY, WITH_SCHEMA
from test_tools import TOOLS, USER, painter  # noqa: F401 (a fixture)

SCHEMA = {"type": "object", "properties": {"name": {"enum": ["Zoë", "Rosa"]}, "n": {"type": "integer", "minimum": 0, "maximum": 9}},
          "required": ["name", "n"], "additionalProperties": False}  # fmt: skip


@pytest.fixture(scope="module")
def model(blob):
    return smolrun.Model(blob)


@pytest.fixture(scope="module")
def painting(painter):  # noqa: F811
    return smolrun.Model(painter)


def without(members, *names):
    return {name: value for name, value in members.items() if name not in names}


def ask(model, request):
    """The answer to a request of --jsonl, with the members of smolrun's."""
    options = without(request, "prompt", "messages")
    if "messages" in request:
        return model.chat(request["messages"], **options).to_dict()
    return model.generate(request["prompt"], **options).to_dict()


def printed(blob, requests):
    return [without(answer, "index") for answer in answers(blob, requests)]


# --- generation -----------------------------------------------------------------------------------


@pytest.mark.quick
def test_random_requests_are_answered_as_by_smolrun(blob, model):
    rng = random.Random(1)
    requests = [draw_request(rng) | rng.choice([{}, {"logprobs": 2}]) for _ in range(60)]
    assert any("messages" in request for request in requests)
    assert [ask(model, request) for request in requests] == printed(blob, requests)


def test_further_options_mean_the_same(blob, model):
    prompt = "Once upon a time there was"
    requests = [
        {"prompt": prompt, **more} for more in (
            {}, {"max_tokens": 0}, {"frequency_penalty": 1.5, "presence_penalty": 0.5, "max_tokens": 60},
            {"logit_bias": {"261": -100, "16": 3.5}}, {"temperature": 1.2, "top_p": 0}, {"temperature": 1, "min_p": 0.2, "seed": 2**63 - 1},
            {"stop": [" and", "."], "logprobs": 20}, {"stop": "ed", "temperature": 0.9},
            {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}, "logprobs": 3},
            {"response_format": {"type": "regex", "pattern": "[a-c]{3,9} ?[0-9]+"}, "temperature": 1},
            {"response_format": {"type": "choices", "choices": ["yes", "no", "maybe"]}},
            {"response_format": {"type": "grammar", "grammar": 'root ::= "a" | "b" root'}, "temperature": 1},
            {"response_format": {"type": "json_object"}, "max_tokens": 40}, {"response_format": {"type": "text"}},
        )
    ]  # fmt: skip
    # the bias's ids are whole numbers here
    mine = [ask(model, {**request, "logit_bias": {int(k): v for k, v in request.get("logit_bias", {}).items()}}) for request in requests]
    assert mine == printed(blob, requests)


def test_texts_of_any_bytes(blob, model):
    texts = ["", "Zoë 日本 \U0001f600", "<|im_end|> is spelled out", "a\0b", " ", "\r\n\t"]
    requests = [{"prompt": text, "max_tokens": 6} for text in texts]
    assert [ask(model, request) for request in requests] == printed(blob, requests)
    assert model.generate("\ud800", max_tokens=3).text == model.generate("\ufffd" * 3, max_tokens=3).text
    assert model.generate(b"\xff\xfe", max_tokens=3).text == model.generate("\ufffd\ufffd", max_tokens=3).text


@pytest.mark.quick
def test_batches_and_streams_are_the_same_as_alone(model):
    rng = random.Random(2)
    prompts = [" ".join(rng.choice(WORDS) for _ in range(rng.choice([1, 20, 150]))) for _ in range(30)]
    options = {"max_tokens": 25, "temperature": 0.8, "seed": 5, "logprobs": 1, "stop": "the"}
    alone = [model.generate(prompt, **options) for prompt in prompts]
    assert model.generate(prompts, **options) == alone
    assert model.generate([model.tokenize(prompt) for prompt in prompts], **options) == alone
    for prompt, answer in zip(prompts[:8], alone):
        stream = model.stream(prompt, **options)
        pieces = list(stream)
        assert "".join(pieces) == answer.text and stream.answer == answer and all(pieces)
    assert model.generate([]) == []


def test_threads_caches_guesses_and_checks_change_nothing(blob, model):
    prompts = [f"{'Once upon a time there was a little girl. ' * 9}{word}" for word in WORDS]
    expected = model.generate(prompts, max_tokens=9)
    for options in ({"n_threads": 1}, {"n_threads": 3, "sequences": 3}, {"prefix_cache": 8 << 20}, {"mmap": False}, {"verify": "open"}, {"lookup": True}):
        with smolrun.Model(blob, **options) as other:
            assert other.generate(prompts, max_tokens=9) == expected
            if "prefix_cache" in options:
                again = other.generate(prompts, max_tokens=9)
                assert again == expected and min(answer.reused_tokens for answer in again) > 0


@pytest.mark.slow
def test_the_real_model(real_model_dir, tmp_path):
    blob = tmp_path / "real.smol"
    smolrun.convert(real_model_dir, blob)
    requests = [{"messages": [{"role": "user", "content": "Name three colours."}], "max_tokens": 24, "logprobs": 2},
                {"prompt": "The capital of France is", "max_tokens": 12, "temperature": 0.7, "top_p": 0.9, "seed": 3}]  # fmt: skip
    with smolrun.Model(blob) as real:
        assert [ask(real, request) for request in requests] == printed(blob, requests)


# --- structure, tools -----------------------------------------------------------------------------


def test_structured_answers_are_parsed(model):
    answer = model.generate("A girl called", schema=SCHEMA, json_space="spaced", temperature=1)
    assert json.loads(answer.text) == answer.parsed and answer.parsed["name"] in ("Zoë", "Rosa")
    assert model.generate("x", schema=json.dumps(SCHEMA)).parsed == model.generate("x", schema=SCHEMA).parsed
    assert model.generate("x", schema={"type": "string"}, max_tokens=1).parsed is None
    cut = model.generate("x", schema=SCHEMA, stop='":')
    assert cut.finish_reason == "stop" and cut.text == '{"name' and cut.parsed is None
    assert re.fullmatch("[0-9]{4}", model.generate("x", regex="[0-9]{4}").text)
    assert model.generate("Is it? ", choices=["yes", "no"]).text in ("yes", "no")
    assert set(model.generate("x", grammar='root ::= "ab" | "a" root').text) <= {"a", "b"}


def test_pydantic_models_are_schemas(model):
    pydantic = pytest.importorskip("pydantic")

    class Girl(pydantic.BaseModel, extra="forbid"):
        name: str = pydantic.Field(pattern="^[A-Z][a-z]{1,9}$")
        age: int = pydantic.Field(ge=0, le=12)

    answer = model.generate("A girl", schema=Girl, temperature=1)
    assert isinstance(answer.parsed, Girl) and 0 <= answer.parsed.age <= 12
    assert answer == model.generate("A girl", schema=Girl.model_json_schema(), temperature=1)


@pytest.mark.sample(3)
@pytest.mark.parametrize("members", [
    {}, {"tool_choice": "required"}, {"tool_choice": "required", "parallel_tool_calls": False}, {"tool_choice": "none"}, WITH_SCHEMA,
    WITH_SCHEMA | {"tool_choice": "required"}, WITH_SCHEMA | {"tool_choice": "none"}, {"tool_choice": {"type": "function", "function": {"name": "paint"}}}, {"tool_choice": "paint", "max_tokens": 12}], ids=str)  # fmt: skip
def test_calls_of_tools_are_those_of_smolrun(painter, painting, members):  # noqa: F811
    requests = [{"messages": [USER], "tools": TOOLS, "temperature": 1, "seed": seed, "max_tokens": 300} | members for seed in range(5)]
    expected = printed(painter, requests)
    assert [ask(painting, request) for request in requests] == expected
    for request, answer in zip(requests, expected):
        stream = painting.stream_chat(request.pop("messages"), **request)
        assert "".join(stream) == answer["text"] and stream.answer.to_dict() == answer
    if members.get("tool_choice") == "required":
        call = smolrun.Answer("", [], "stop", 1, [smolrun.ToolCall("id", "paint", '{"a": 1}')])
        assert call.tool_calls[0].parse() == {"a": 1} and call.message["tool_calls"][0]["function"]["name"] == "paint"
        with pytest.raises(smolrun.UsageError, match="the call of paint was cut off"):
            smolrun.ToolCall("id", "paint", '{"a": ').parse()


def test_an_answer_calls_tools_or_follows_the_schema(painting):  # noqa: F811
    """Its parsed value is that of an answer without calls."""
    called = set()
    for seed in range(12):
        answer = painting.chat([USER], tools=TOOLS[:3], schema=REPLY, temperature=1, seed=seed, max_tokens=300)
        if answer.finish_reason in ("stop", "tool_calls"):
            called.add(bool(answer.tool_calls))
            assert (answer.parsed is None) == bool(answer.tool_calls) == (answer.text == "")
            assert answer.tool_calls or answer.parsed["city"] in ("Rome", "<tool_call>")
    assert called == {True, False}
    for how, message in (({"regex": "x"}, "only a JSON schema"), ({"schema": "true\0x"}, "U.0000")):
        with pytest.raises(smolrun.UsageError, match=message):
            painting.chat([USER], tools=TOOLS, **how)


def test_errors_are_those_of_smolrun(blob, model, painter, painting):  # noqa: F811
    cases = [
        (model, blob, {"messages": [{"role": "fly", "content": ""}]}), (model, blob, {"messages": [USER], "tools": TOOLS}),
        (painting, painter, {"messages": [USER], "tools": TOOLS, "tool_choice": "fly"}),
        (painting, painter, {"messages": [USER], "tool_choice": "required"}), (model, blob, {"prompt": "Once " * 600}),
        (model, blob, {"prompt": "a", "response_format": {"type": "regex", "pattern": "("}}),
        (model, blob, {"prompt": "a", "response_format": {"type": "json_schema", "json_schema": {"schema": {"uniqueItems": True}}}}),
    ]  # fmt: skip
    for of, file, request in cases:
        (answer,) = printed(file, [request])
        with pytest.raises(smolrun.SmolError) as caught:
            ask(of, request)
        assert caught.value.code == answer["error"]["code"]
        # the words are the library's, but for what the package checks itself
        assert str(caught.value) == answer["error"]["message"] or "tool" in str(caught.value), (str(caught.value), answer)


@pytest.mark.parametrize("options, part", [
    ({"temperature": -1}, "temperature"), ({"temperature": "hot"}, "temperature"), ({"top_k": 1.5}, "top_k"), ({"top_p": 2}, "top_p"),
    ({"seed": -1}, "seed"), ({"max_tokens": -1}, "max_tokens"), ({"logprobs": 21}, "logprobs"), ({"stop": ""}, "stop"),
    ({"logit_bias": {-1: 0}}, "logit_bias"), ({"temprature": 1}, "temprature: no such option"), ({"regex": "a", "schema": {}}, "one of them"),
    ({"json_space": "wide", "schema": {}}, "json_space"), ({"response_format": {"type": "xml"}}, "response_format"),
    ({"response_format": {"type": "json_object", "schema": {"type": "object"}}}, "schema: no such member"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, "missing"), ({"response_format": {"type": "regex"}}, "missing"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "mode": 1}}}, "mode: no such member"),
    ({"schema": {"a": {1, 2}}}, "JSON"), ({"logit_bias": {2000: 1.0}}, "2000")], ids=str)  # fmt: skip
def test_wrong_options_are_named(model, options, part):
    with pytest.raises(smolrun.UsageError, match=part):
        model.generate("Once", **options)
    assert isinstance(smolrun.UsageError(""), ValueError)


# --- tokens, logits, scores ------------------------------------------------------------------------


def test_tokens_are_those_of_the_reference(model, demo_tokenizer):
    for text in ("Once upon a time", "Zoë's 12 cats\n", "<|im_start|>user", "日本語 \U0001f600", ""):
        ids = model.tokenize(text)
        assert ids == demo_tokenizer.encode(text).ids
        assert model.detokenize(ids) == demo_tokenizer.decode(ids, skip_special_tokens=True)
        assert model.detokenize(ids, special=True) == demo_tokenizer.decode(ids, skip_special_tokens=False)
    assert model.tokenize("<|im_start|>", special=False) != model.tokenize("<|im_start|>")
    with pytest.raises(smolrun.UsageError):
        model.detokenize([2000])
    with pytest.raises(smolrun.UsageError, match="token ids"):
        model.detokenize([-1])


def test_chats_are_rendered_as_by_the_reference(model):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "demo/model")
    messages = [{"role": "user", "content": "Hi <|im_end|>"}, {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "?"}]
    assert model.format_chat(messages) == tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    short = model.format_chat(messages, add_generation_prompt=False)
    assert short == tokenizer.apply_chat_template(messages, tokenize=False)
    assert model.detokenize(model.tokenize_chat(messages), special=True) == model.format_chat(messages)
    begun = [{"role": "user", "content": "Hi"}, messages[1]]
    text = model.format_chat(begun, continue_final_message=True)
    assert text == tokenizer.apply_chat_template(begun, tokenize=False, continue_final_message=True)
    assert model.tokenize_chat(begun, continue_final_message=True) == tokenizer(text, add_special_tokens=False).input_ids
    answer = model.chat(begun, continue_final_message=True, max_tokens=8)
    assert answer.text == model.generate(text, max_tokens=8).text
    with pytest.raises(smolrun.UsageError, match="continue_final_message: not with add_generation_prompt"):
        model.format_chat(begun, continue_final_message=True, add_generation_prompt=True)


@pytest.mark.parametrize("dtype", ["int8", "f32"])
def test_logits_are_the_bytes_that_smolrun_writes(demo_blob, tmp_path, dtype):
    text = "Once upon a time there was " * 40
    with smolrun.Model(demo_blob(dtype)) as model:
        logits = model.logits(text)
        assert logits.dtype == np.float32 and logits.shape == (len(model.tokenize(text)), model.info.vocab_size)
        for words, found in (((), logits), (("--last", "150"), model.logits(text, last=150))):
            run_program("logits", demo_blob(dtype), text, "-o", tmp_path / "logits", *words, check=True)
            assert (tmp_path / "logits").read_bytes() == found.tobytes()
        assert np.array_equal(model.logits(text, last=1000), logits)
        with pytest.raises(smolrun.ContextFullError, match="512"):
            model.logits([1] * 513)


def test_hidden_states_are_those_of_the_engine(blob, model):
    import engine

    text = "Once upon a time there was a little girl"
    with engine.Model(blob) as other, other.context() as context:
        expected = context.embed(model.tokenize(text))
    assert np.array_equal(model.embed(text, pooling="none"), expected)
    assert np.array_equal(model.embed(text, pooling="last"), expected[-1])
    assert np.array_equal(model.embed(text), expected.mean(axis=0, dtype=np.float64).astype(np.float32))
    both = model.embed(["Once upon", "a time"])
    assert both.shape == (2, model.info.hidden_size) and np.array_equal(both[1], model.embed("a time"))


def test_texts_are_embedded_together(model, monkeypatch):
    """A group has at most 32 texts or 4,096 tokens, and each text gets the bits that it gets alone."""
    from smolrun import _likelihood

    sizes, embed_many = [], _likelihood.lib.smol_embed_many
    monkeypatch.setattr(_likelihood.lib, "smol_embed_many", lambda parts, n, *rest: sizes.append(n) or embed_many(parts, n, *rest))
    draw = random.Random(8)
    texts = [" ".join(draw.choice(WORDS) for _ in range(draw.choice([1, 3, 40]))) for _ in range(40)]
    for pooling in ("mean", "last", "first", "max", "model"):
        alone = [model.embed(text, pooling=pooling) for text in texts]
        assert sizes == [] and np.array_equal(model.embed(texts, pooling=pooling), alone)
        assert sizes == [32, 8]
        sizes.clear()
    long = [[5 + i] * 500 for i in range(10)]
    assert np.array_equal(model.embed(long), [model.embed(ids) for ids in long]) and sizes == [8, 2]
    with pytest.raises(smolrun.UsageError, match="990000"):
        model.embed([[5], [990000], [6]])
    assert np.array_equal(model.embed([[5], [6]])[1], model.embed([6]))


def test_scores_and_perplexity_are_those_of_smolrun(blob, model, tmp_path):
    text = " ".join(random.Random(3).choice(WORDS) for _ in range(900))
    (tmp_path / "text").write_text(text)
    for ctx in (64, 512):
        printed = json.loads(run_program("perplexity", blob, tmp_path / "text", "--ctx", ctx, "--json", check=True).stdout)
        found = model.perplexity(text, n_ctx=ctx)
        assert {name: getattr(found, name) for name in found.__dataclass_fields__} == printed
        assert float(found) == printed["perplexity"]
    short = text[:300]
    explained = json.loads(run_program("explain", blob, short, "-n", 0, "--given", "--json", check=True).stdout)
    score = model.score(short)
    assert [one["logprob"] for one in explained["prompt"]] == score.logprobs.tolist()
    assert [one["rank"] for one in explained["prompt"]] == score.ranks.tolist()
    assert [[t["id"] for t in one["top"]] for one in explained["prompt"]] == [[t.id for t in top] for top in score.top]
    after = model.score(score.ids[50:], prompt=model.tokenize(short)[:51])
    assert after.logprobs.tolist() == score.logprobs[50:].tolist() and not after.is_greedy
    greedy = model.generate("Once", max_tokens=9, logprobs=0)
    again = model.score(greedy.ids, prompt="Once")
    assert again.is_greedy and again.logprobs.tolist() == [one.logprob for one in greedy.logprobs]
    html = again._repr_html_()
    assert html.count("<span") == 9 and "rank 1" in html
    with pytest.raises(smolrun.UsageError, match="no token to score"):
        model.score([1])


# --- sessions --------------------------------------------------------------------------------------


def test_sessions_are_the_files_of_smolrun(blob, model, tmp_path):
    """Turns of the program and of the package alternate; the bytes are those of the program alone."""
    options, words = {"temperature": 0.9, "seed": 7, "repetition_penalty": 1.2, "max_tokens": 8}, ["--temp", 0.9, "--seed", 7, "--repeat-penalty", 1.2]
    texts = ["Once upon a time", "", " there was", "", " Once upon a"]
    for i, text in enumerate(texts):
        more = words if i == 0 else []
        done = run_program(blob, text, "-n", 8, "--session", tmp_path / "theirs", "--json", *more, check=True)
        if i % 2:
            run_program(blob, text, "-n", 8, "--session", tmp_path / "ours", *more, check=True)
            continue
        with model.session(tmp_path / "ours" if i else None) as session:
            answer = session.generate(text, **(options if i == 0 else {"max_tokens": 8}))
            session.save(tmp_path / "ours")
            assert answer.ids == json.loads(done.stdout)["ids"]
            assert session.to_bytes() == (tmp_path / "ours").read_bytes() and len(session) == len(session.ids)
        assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes(), i
    assert (tmp_path / "ours").stat().st_mode & 0o777 == 0o600


def test_sessions_continue_from_bytes(model):
    whole = model.generate("Once upon a time", max_tokens=40, temperature=1, seed=4)
    session = model.session()
    parts = [session.generate("Once upon a time", max_tokens=10, temperature=1, seed=4)]
    for _ in range(3):
        session = model.session(session.to_bytes())
        parts.append(session.generate(max_tokens=10))
    assert [one for part in parts for one in part.ids] == whole.ids
    assert session.text == "Once upon a time" + whole.text
    session.data = b"mine"
    assert model.session(session.to_bytes()).data == b"mine"
    session.truncate(3)
    assert session.ids == model.tokenize("Once upon a time")[:3]


def test_options_of_a_session_stay(model):
    """Also biases, until others are given, and none of a call that fails."""
    options = {"temperature": 1.2, "seed": 5, "frequency_penalty": 0.5, "logit_bias": {300: 100}}
    with model.session() as session, model.session() as same:
        session.generate("Once upon a time", max_tokens=3, **options)
        for failing in ({"seed": 9, "regex": "("}, {"logit_bias": {10**6: 1}}):
            with pytest.raises(smolrun.SmolError):
                session.generate(max_tokens=3, **failing)
        ids = session.generate(max_tokens=3).ids
        same.generate("Once upon a time", max_tokens=3, **options)
        assert ids == same.generate(max_tokens=3, **options).ids == [300] * 3
        with pytest.raises(smolrun.UsageError):
            session.to_bytes()
        assert 300 not in session.generate(max_tokens=3, logit_bias={}).ids + session.generate(max_tokens=3).ids
        session.generate(max_tokens=1, frequency_penalty=0)
        assert session.to_bytes()


def test_conversations_in_a_session_are_read_once(model):
    messages = [{"role": "user", "content": "Tell me a story about a cat."}]
    with model.session() as session:
        for question in ("And then?", "The end?"):
            answer = session.chat(messages, max_tokens=20)
            assert answer.text == model.chat(messages, max_tokens=20).text
            messages += [answer.message, {"role": "user", "content": question}]
        assert answer.prompt_tokens < len(model.tokenize_chat(messages[:-2])) / 2


@pytest.fixture(params=["evaluated", "pending"])
def told(request, model, monkeypatch):
    """A session whose last token is evaluated, or is not. Each step returns to Python: prompts are not read at once."""
    monkeypatch.setattr("smolrun._sequence.TURN", 0)
    with model.session() as session:
        session.generate("Once upon a time", max_tokens=0, temperature=1, seed=3)
        if request.param == "pending":
            session.generate(max_tokens=5)
        yield session


def interrupt(done, total):
    raise KeyboardInterrupt


PRESSED = smolrun.Cancel()
PRESSED.cancel()
TALK = [{"role": "user", "content": "Tell me a story."}]
LONG = [{"role": "user", "content": "x " * 150}]
FAILING = {
    "no expression": (smolrun.UnsupportedError, lambda session: session.generate("", regex="(", seed=9)),
    "no button": (smolrun.UsageError, lambda session: session.generate("", cancel=1)),
    "too long": (smolrun.ContextFullError, lambda session: session.chat([{"role": "user", "content": "x " * 999}])),
    "interrupted": (KeyboardInterrupt, lambda session: session.generate([5] * 400, progress=interrupt)),
    "interrupted chat": (KeyboardInterrupt, lambda session: session.chat(LONG, progress=interrupt)),
    "cancelled": (None, lambda session: session.generate("", cancel=PRESSED)),
    "cancelled text": (None, lambda session: session.generate("abc", cancel=PRESSED)),
    "cancelled whole": (None, lambda session: session.generate(session.text, cancel=PRESSED)),
    "cancelled chat": (None, lambda session: session.chat(TALK, cancel=PRESSED)),
    "not read": (None, lambda session: session.stream("")),
    "closed chat": (None, lambda session: session.stream_chat(TALK).close()),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_call_that_fails_leaves_a_session_as_it_was(model, told, name):
    """Its tokens, its bytes, and what follows."""
    error, call = FAILING[name]
    ids, data = told.ids, told.to_bytes()
    for _ in range(3):
        if error is not None:
            with pytest.raises(error):
                call(told)
        elif isinstance(answer := call(told), smolrun.Answer):
            assert answer.finish_reason == "cancelled" and answer.ids == []
        assert told.ids == ids
    if not name.endswith(("chat", "long")):  # those remove a pending token, which is evaluated instead
        assert told.to_bytes() == data
    with model.session(data) as same:
        assert told.generate(max_tokens=8).ids == same.generate(max_tokens=8).ids and told.ids == same.ids


def test_tokens_that_a_failed_call_removed_are_there(model, told):
    ids = told.ids
    with model.session(told.to_bytes()) as same:
        told.chat(TALK, cancel=PRESSED)
        assert told.to_bytes() and told.ids == ids  # which evaluates them
        told.chat(TALK, cancel=PRESSED)
        assert told.generate(" there", max_tokens=5).ids == same.generate(" there", max_tokens=5).ids and told.ids == same.ids
        told.chat(TALK, cancel=PRESSED)
        for session in (told, same):
            session.truncate(len(ids) - 1)
            assert session.ids == ids[:-1]
        assert told.chat(TALK, max_tokens=5).ids == same.chat(TALK, max_tokens=5).ids and told.ids == same.ids
        told.truncate(len(ids) - 1)
        assert told.ids == same.ids[: len(ids) - 1]


def test_damaged_and_foreign_sessions_are_refused(model, demo_blob, tmp_path):
    saved = model.session()
    saved.generate("Once", max_tokens=3)
    data = saved.to_bytes()
    with pytest.raises(smolrun.DamagedError):
        model.session(data[:-1])
    with pytest.raises(smolrun.UnsupportedError), smolrun.Model(demo_blob("f32")) as other:
        other.session(data)
    with pytest.raises(smolrun.FileError):
        model.session(tmp_path / "missing")
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(smolrun.FileError, match="not a session"):
        saved.save(tmp_path / "precious")
    assert (tmp_path / "precious").read_text() == "mine" and [one.name for one in tmp_path.iterdir()] == ["precious"]


# --- programs --------------------------------------------------------------------------------------


def test_the_programs_are_in_the_package(blob, tmp_path):
    made = tmp_path / "made.smol"
    assert smolrun.convert(ROOT / "demo/model", made) == str(made)
    assert made.read_bytes() == blob.read_bytes()
    with pytest.raises(smolrun.FileError, match="force=True"):
        smolrun.convert(ROOT / "demo/model", made)
    with pytest.raises(smolrun.UsageError, match="--reranker"):
        smolrun.convert(ROOT / "demo/model", made, reranker=True, force=True)
    with pytest.raises(smolrun.UsageError, match="force: must be True or False"):
        smolrun.convert(ROOT / "demo/model", made, force="yes")
    (tmp_path / "plain.jinja").write_text("{{ messages[-1].content }}")
    smolrun.convert(ROOT / "demo/model", made, dtype="int4", chat_template=tmp_path / "plain.jinja", force=True)
    assert smolrun.Model(made).format_chat([{"role": "user", "content": "plain"}]) == "plain"
    assert smolrun.inspect(made) == json.loads(smolconv("inspect", "--json", made).stdout)
    with pytest.raises(smolrun.UsageError, match="dtype"):
        smolrun.convert(ROOT / "demo/model", made, dtype="int3", force=True)
    with pytest.raises(smolrun.FileError):
        smolrun.inspect(tmp_path / "missing")
    code = "import runpy; runpy.run_module('smolrun', run_name='__main__')"
    assert package.output_of(code, made, "Once", "-n", "3") == run_program(made, "Once", "-n", 3, check=True).stdout.decode()
    assert package.run_python(code, "verify", made).returncode == 0
    assert package.run_python(code, "convert", "--force", ROOT / "demo/model", made).returncode == 0
