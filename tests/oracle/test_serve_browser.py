"""smolserve's chat page in headless Chromium: what it shows is what the server answers to the same request,
and people can use it with the keyboard, with a screen reader, on any screen."""

import json
import math

import pytest
from browser import browsing
from programs import smolconv
from serving import Server, serving

pytestmark = pytest.mark.slow

IDLE = "document.querySelector('#send').textContent === 'Send'"
LAST = "document.querySelector('#turns > li:last-child"
SCHEMA = {"type": "object", "properties": {"n": {"type": "boolean"}}, "required": ["n"], "additionalProperties": False}
LONG = {"type": "array", "items": {"type": "integer"}, "minItems": 500}

# The faults that a person with ordinary or little sight would meet.
FAULTS = """(() => {
const wrong = [], shown = (e) => e.checkVisibility({visibilityProperty: true}) && !e.closest(".hidden, .skip");
const parse = (color) => {
  const [r, g, b, a = 1] = color.match(/[0-9.e-]+/g).map(Number);
  return color.startsWith("color(") ? [r, g, b, a] : [r / 255, g / 255, b / 255, a];
};
const ground = (e) => {
  let over = parse(getComputedStyle(e).backgroundColor);
  if (over[3] === 1 || !e.parentElement) return over;
  const under = ground(e.parentElement);
  return [0, 1, 2].map((i) => over[i] * over[3] + under[i] * (1 - over[3])).concat(1);
};
const luminance = (c) => c.slice(0, 3).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (a, b) => {
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
};
let texts = 0;
for (const e of document.body.querySelectorAll("*")) {
  if (!shown(e) || e.closest("svg")) continue;
  const style = getComputedStyle(e), control = e.matches("input, textarea, select, button");
  const text = control || [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  if (text) texts += 1;
  if (text && contrast(parse(style.color), ground(e)) < 4.5) wrong.push("contrast: " + e.outerHTML.slice(0, 99));
  if (e.matches("input, textarea") && parseFloat(style.borderTopWidth) > 0 &&
      contrast(parse(style.borderTopColor), ground(e.parentElement)) < 3) wrong.push("edge: " + e.id);
  if (e.placeholder && contrast(parse(getComputedStyle(e, "::placeholder").color), ground(e)) < 4.5) wrong.push("placeholder: " + e.id);
  const box = e.getBoundingClientRect();
  if (control && (box.width < 24 || box.height < 24)) wrong.push("small: " + e.outerHTML);
  if (box.right > innerWidth + 1 || box.left < -1) wrong.push("sticks out: " + e.outerHTML.slice(0, 99));
}
if (document.documentElement.scrollWidth > innerWidth) wrong.push("scrolls sideways");
if (texts < 10) wrong.push("too little text");
return wrong;
})()"""


@pytest.fixture(scope="module")
def server(blob):
    with serving(blob, "--sequences", 4) as server:
        yield server


@pytest.fixture
def tab(server, tmp_path):
    """The page, ready. Nothing may reach the console, and nothing may come from elsewhere."""
    with browsing(tmp_path / "profile") as tab:
        tab.screen(1280)
        start(tab, server)
        yield tab
        assert tab.seen == []
        assert all(url.startswith(f"http://127.0.0.1:{server.port}/") for url in tab.requests) and len(tab.requests) > 5


@pytest.fixture(scope="module")
def slow_server(rebuilt_model_dir, tmp_path_factory):
    """A server of the real model, whose answers take long enough to watch."""
    blob = tmp_path_factory.mktemp("real") / "real.smol"
    assert smolconv("--quiet", rebuilt_model_dir, blob).returncode == 0
    with serving(blob) as server:
        yield server


@pytest.fixture
def slow_tab(slow_server, tab):
    start(tab, slow_server)
    yield tab
    tab.requests[:] = [url for url in tab.requests if not url.startswith(f"http://127.0.0.1:{slow_server.port}/")]


def start(tab, server):
    tab.open(f"http://127.0.0.1:{server.port}/")
    tab.wait("!document.querySelector('#model').disabled")


def configure(tab, **settings):
    for name, value in settings.items():
        tab.fill(f"#{name}", str(value))


def ask(tab, text):
    """Types a message and waits for the end of the answer, whose text is returned."""
    tab.fill("#question", text)
    tab.press("Enter")
    return ended(tab)


def ended(tab):
    tab.wait(f"{IDLE} && {LAST} .tools:not([hidden])') !== null")
    return shown(tab)


def shown(tab, part=".answer .text"):
    return tab.run(f"{LAST} {part}').textContent")


def content(answer):
    return answer["choices"][0]["message"]["content"].strip()


def seed_shown(tab):
    return int(shown(tab, ".facts").replace("\u00a0", " ").split("seed ")[1])


def test_answers_are_those_of_the_server_for_the_settings_and_the_conversation(server, tab):
    configure(tab, system="Be brief.", temperature=0.7, top_k=20, top_p=0.9, min_p=0.01, seed=5, max_tokens=30)
    members = {"temperature": 0.7, "top_k": 20, "top_p": 0.9, "min_p": 0.01, "seed": 5, "max_tokens": 30}
    messages = [{"role": "system", "content": "Be brief."}]
    for question in ("Tell me a story", "And then?"):
        messages.append({"role": "user", "content": question})
        status, expected = server.post("/v1/chat/completions", {"messages": messages} | members)
        assert status == 200 and ask(tab, question) == content(expected) != ""
        messages.append({"role": "assistant", "content": expected["choices"][0]["message"]["content"]})
    assert shown(tab, ".question .text") == "And then?" and seed_shown(tab) == 5
    assert f"{expected['usage']['completion_tokens']}\u00a0tokens" in shown(tab, ".facts")


def test_an_answer_grows_and_is_said_in_sentences(slow_tab):
    tab = slow_tab
    tab.run("""window.sizes = new Set(), window.said = "";
        new MutationObserver(() => sizes.add(document.querySelector('.answer .text')?.textContent.length))
          .observe(document.querySelector('#turns'), {childList: true, subtree: true});
        new MutationObserver((all) => all.forEach((m) => m.addedNodes.forEach((n) => said += n.textContent + "|")))
          .observe(document.querySelector('#announcer'), {childList: true}); 0""")
    configure(tab, max_tokens=100, temperature=0)
    text = ask(tab, "Tell me a long story")
    assert tab.run("sizes.size") > 5
    parts = tab.run("said").split("|")
    assert parts[0] == "Answering" and "".join(parts[1:]).startswith(text)
    assert 2 < len(parts) < 40 and tab.run("document.querySelector('#announcer').ariaLive") == "polite"


@pytest.mark.parametrize("how", ["Escape", "click"])
def test_stop_ends_the_request_and_keeps_what_has_been_written(slow_server, slow_tab, how):
    tab, before = slow_tab, slow_server.metrics()["smolserve_cancelled_total"]
    configure(tab, schema=json.dumps(LONG))
    tab.fill("#question", "Count")
    tab.press("Enter")
    tab.wait(f"{LAST} .answer .text')?.textContent.length > 10")
    tab.press("Escape") if how == "Escape" else tab.click("#send")
    assert ended(tab).startswith("[")
    slow_server.wait_for("smolserve_cancelled_total", before + 1)
    assert shown(tab, ".facts").startswith("stopped")
    tab.click("#turns .show")
    tab.wait(f"{IDLE} && {LAST} .tokens') !== null")
    assert shown(tab, ".tokens").startswith(shown(tab).rstrip())


def test_regenerating_draws_another_answer_unless_the_seed_is_kept(server, tab):
    configure(tab, max_tokens=40, temperature=1.5)
    first = ask(tab, "Tell me a story")
    tab.click(".again")
    second, seed = ended(tab), seed_shown(tab)
    assert second != first and tab.run("document.querySelectorAll('#turns > li').length") == 1
    tab.click(".keep")
    assert shown(tab, ".keep") == "Kept"
    tab.click(".again")
    assert (ended(tab), seed_shown(tab)) == (second, seed)


def test_answers_satisfy_the_schema_and_a_wrong_one_is_explained_beside_it(server, tab):
    configure(tab, schema=json.dumps(SCHEMA), temperature=0)
    assert isinstance(json.loads(ask(tab, "How many?"))["n"], bool)
    n = len(tab.requests)
    for text, words in [('{"type":', "not JSON"), ("7", "an object")]:
        configure(tab, schema=text)
        tab.fill("#question", "How many?")
        tab.press("Enter")
        assert words in tab.run("document.querySelector('#schema + #wrong').textContent")
        assert tab.run("document.activeElement.id") == "schema" and tab.run("document.activeElement.ariaInvalid") == "true"
        assert len(tab.requests) == n
    configure(tab, schema='{"type": "nothing"}')
    ask(tab, "How many?")
    assert "refuses. Schema: #/type" in shown(tab, ".fault")
    tab.seen.clear()  # the browser tells of the status 400


def test_probabilities_are_the_models(server, tab):
    configure(tab, temperature=1, seed=11, max_tokens=25)
    text = ask(tab, "Tell me a story")
    answer = server.chat("Tell me a story", temperature=1, seed=11, max_tokens=25, logprobs=True, top_logprobs=5)
    expected = answer["choices"][0]["logprobs"]["content"]
    tab.click(".show")
    tab.wait("document.querySelectorAll('.tokens > span').length > 0")
    assert tab.run(f"{LAST} .tokens').textContent").strip() == text
    labels = tab.run("[...document.querySelectorAll('.tokens > span')].map((e) => e.ariaLabel)")
    assert len(labels) == len(expected)
    for label, token in zip(labels, expected, strict=True):
        value = 100 * math.exp(token["logprob"])
        if value >= 0.01:
            assert abs(float(label.split(", ")[-1].removesuffix(" %")) - value) < 0.06
    tab.run("document.querySelector('.tokens > [tabindex=\"0\"]').focus()")
    tab.press("ArrowRight")
    tab.press("ArrowRight")
    assert tab.run("[...document.querySelectorAll('.tokens > span')].indexOf(document.activeElement)") == 2
    rows = tab.run("document.querySelectorAll('.detail tbody tr').length")
    listed = expected[2]["token"] in [top["token"] for top in expected[2]["top_logprobs"]]
    assert rows == (5 if listed else 6) and tab.run("document.querySelectorAll('.detail .taken').length") == 1
    tab.click(".show")
    assert shown(tab) == text and tab.run("document.querySelector('.odds').hidden")


def test_markup_stays_text(server, tab):
    markup = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    configure(tab, schema=json.dumps({"const": markup}))
    assert ask(tab, markup) == json.dumps(markup) and shown(tab, ".question .text") == markup
    text = f"{markup} **{markup}** `{markup}`\n# {markup}\n```html\n{markup}\n```\n"
    tags = tab.run(f"""import('./answer.js').then(({{drawText}}) => {{
        const target = document.createElement('div');
        drawText(target, {json.dumps(text)});
        return [...target.querySelectorAll('*')].map((e) => e.localName).concat(target.textContent.split('<img').length - 1);
    }})""")
    assert tags == ["div", "strong", "code", "strong", "pre", "code", 5]
    refused = "(() => {{ try {{ {} ; return 'done'; }} catch (error) {{ return error.name; }} }})()"
    assert tab.run(refused.format("document.querySelector('#turns').innerHTML = '<b>x</b>'")) == "TypeError"
    assert tab.run("document.querySelector('#turns b')") is None
    assert tab.run("fetch('http://127.0.0.1:9/').then(() => 'done', (error) => error.name)") == "TypeError"
    assert len(tab.seen) == 3 and all("Content Security Policy" in str(line) or "trusted" in str(line).lower() for line in tab.seen), tab.seen
    tab.seen.clear()


def test_errors_are_shown_in_words(server, tab):
    ask(tab, "word " * 600)
    assert "longer than the model’s context" in shown(tab, ".fault") and tab.seen and shown(tab, ".facts") == ""
    tab.seen.clear()
    configure(tab, top_p=3)
    tab.fill("#question", "Hi")
    tab.press("Enter")
    assert tab.run("document.querySelector('#top_p + #wrong').textContent.length") > 5
    configure(tab, top_p="")
    assert tab.run("document.querySelector('#wrong').textContent") == ""
    tab.run("window.fetch = () => Promise.resolve(new Response(JSON.stringify({error: {message: 'too many requests are waiting'}}),"
            "{status: 429, headers: {'Retry-After': '7'}}))")  # fmt: skip
    ask(tab, "Hi")
    assert shown(tab, ".fault") == "The server is busy. Too many requests are waiting. Wait 7 s."
    tab.run("window.fetch = () => Promise.resolve(new Response('data: {\"choices\": []}\\n\\n'))")
    tab.click("li:last-child .again")
    tab.wait(f"{LAST} .fault').textContent.includes('connection was lost')")


def test_an_unreachable_server_is_told_of(blob, tmp_path):
    server = Server([blob])
    with browsing(tmp_path / "profile") as tab:
        start(tab, server)
        server.stop()
        ask(tab, "Hi")
        assert shown(tab, ".fault") == "The server cannot be reached. Is it running?"
        tab.click(".again")
        tab.wait(f"{IDLE} && {LAST} .fault').textContent.includes('reached')")


def test_a_key_is_asked_for_and_forgotten_with_the_tab(blob, tmp_path):
    (tmp_path / "keys").write_text("one secret-key\n")
    with serving(blob, "--api-keys", tmp_path / "keys") as server, browsing(tmp_path / "profile") as tab:
        tab.screen(360)
        tab.open(f"http://127.0.0.1:{server.port}/")
        tab.wait("document.querySelector('#key + #wrong')?.textContent.includes('API key')")
        assert tab.run("document.activeElement.id") == "key"
        assert tab.run("document.querySelector('#wrong').getBoundingClientRect().bottom < innerHeight"), "it is in sight"
        tab.fill("#key", "\u2603")
        tab.wait("document.querySelector('#wrong').textContent.includes('characters')")
        tab.fill("#key", "secret-key")
        tab.wait("!document.querySelector('#model').disabled")
        tab.click("#done")
        configure_open = "document.querySelector('#adjust').ariaExpanded"
        assert tab.run(configure_open) == "false" and ask(tab, "Hi")
        start(tab, server)  # the tab has kept it
        assert ask(tab, "Hi")
        assert tab.run("JSON.stringify(localStorage) + document.cookie") == "{}"
        assert "secret-key" not in " ".join(tab.requests)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1280])
def test_everything_can_be_read_on_every_screen(server, tab, scheme, width):
    tab.screen(width, 900, scheme)
    start(tab, server)
    dark = "getComputedStyle(document.body).backgroundColor !== 'rgb(255, 255, 255)'"
    assert tab.run(dark) == (scheme == "dark")
    assert tab.run(FAULTS) == []
    if width < 992:
        tab.click("#adjust")
        assert tab.run(FAULTS) == [] and tab.run("document.querySelector('#main').inert")
        tab.press("Escape")
        assert tab.run("document.querySelector('#settings').hidden && document.activeElement.id === 'adjust'")
    tab.fill("#question", "Tell me a story of " + "incomprehensibilities" * 5)
    tab.press("Enter")
    tab.wait(f"{LAST} .answer .text')?.textContent.length > 3")
    assert tab.run(FAULTS) == []
    ended(tab)
    assert tab.run(FAULTS) == []
    tab.click(".show")
    tab.wait("document.querySelectorAll('.tokens > span').length > 0")
    assert tab.run(FAULTS) == []
    tab.click("#theme")
    assert tab.run(dark) == (scheme == "light")
    assert tab.run(FAULTS) == []
    start(tab, server)
    assert tab.run(dark) == (scheme == "light"), "the choice is remembered"


def test_everything_works_from_the_keyboard_and_has_a_name(server, tab):
    ask(tab, "Hi")
    tree = tab.tree()
    controls = [row for row in tree if row[0] in ("button", "textbox", "combobox", "spinbutton", "link")]
    assert all(name for _, name, _ in controls) and len(controls) >= 18, controls
    names = {name for _, name, _ in controls}
    assert {"Send", "Message", "Model", "New chat", "Settings", "Dark colors", "Temperature", "JSON Schema", "API key",
            "Regenerate", "Probabilities", "Skip to the message"} <= names  # fmt: skip
    assert {name for role, name, _ in tree if role == "heading"} == {"smol", "Conversation", "You", "Answer", "Settings"}
    assert {role for role, *_ in tree} >= {"banner", "main", "complementary", "group", "list"}
    reached = []
    for _ in range(2 * len(controls)):  # from the message to the end, and from the start to the end
        tab.press("Tab")
        reached.append(tab.run("""(() => {
            const e = document.activeElement, {x, y, width, height} = e.getBoundingClientRect(), style = getComputedStyle(e);
            const hit = document.elementFromPoint(x + width / 2, y + height / 2), field = e.closest(".field");
            const ring = style.outlineStyle !== "none" || (field && getComputedStyle(field).boxShadow !== "none");
            return [e.id || e.className, e.contains(hit), ring || e === document.body];
        })()"""))
    missed = [row for row in reached if not (row[1] and row[2])]
    assert missed == [], missed
    assert {"model", "new", "theme", "adjust", "again", "show", "keep", "question", "send", "system", *("seed", "schema", "key")} <= {
        row[0].split(" ")[0] for row in reached}  # fmt: skip
