// The page: settings, the conversation, and what the buttons do. Only this tab remembers any of it.
import { Problem, chat, models } from "./api.js";
import { drawCode, drawOdds, drawText } from "./answer.js";

const $ = (id) => document.getElementById(id);
const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "seed", "max_tokens"];
const REMEMBERED = ["system", ...NUMBERS, "schema", "key"];
const N_ALTERNATIVES = 5;
const turns = []; // {question, answer: {text, request, seed, finish, partial, n_tokens, tokens}, parts}
let known = []; // the models of the server
let active = null; // the AbortController of the request in progress

// --- words for those who listen ------------------------------------------------------------------

function announce(text) {
  const line = document.createElement("p");
  line.textContent = text;
  $("announcer").append(line);
  while ($("announcer").childElementCount > 20) $("announcer").firstChild.remove();
}

// Speaks a growing text sentence by sentence: single tokens would interrupt one another.
function speaker() {
  let spoken = 0;
  return (text, ended) => {
    const fresh = text.slice(spoken);
    const sentences = ended ? fresh : fresh.match(/^[^]*(?:[.!?:;](?=\s)|\n)/)?.[0];
    if (!sentences?.trim()) return;
    announce(sentences);
    spoken += sentences.length;
  };
}

// --- settings ------------------------------------------------------------------------------------

const wide = matchMedia("(min-width: 62rem)");

function openSettings(open) {
  $("settings").hidden = !open;
  $("adjust").ariaExpanded = open;
  for (const id of ["skip", "top", "main"]) $(id).inert = open && !wide.matches; // covered
}

function closeSettings() {
  openSettings(false);
  $("adjust").focus();
}

function remember() {
  try {
    for (const id of REMEMBERED) sessionStorage.setItem(id, $(id).value);
  } catch {
    // without storage, settings last as long as the page
  }
}

function recall() {
  try {
    for (const id of REMEMBERED) $(id).value = sessionStorage.getItem(id) ?? "";
  } catch {
    // as above
  }
}

// Returns the schema, or undefined if there is none. Throws a Problem.
function readSchema() {
  const text = $("schema").value.trim();
  let schema;
  if (!text) return undefined;
  try {
    schema = JSON.parse(text);
  } catch (error) {
    throw new Problem(`This is not JSON: ${error.message}.`, "schema");
  }
  if (schema === null || typeof schema !== "object") throw new Problem("A schema is an object.", "schema");
  return schema;
}

// Returns the members of a request that the settings decide. Throws a Problem.
function readSettings() {
  const body = { model: $("model").value };
  for (const id of NUMBERS) {
    if (!$(id).checkValidity()) throw new Problem($(id).validationMessage, id);
    if ($(id).value) body[id] = Number($(id).value);
  }
  const schema = readSchema();
  if (schema) body.response_format = { type: "json_schema", json_schema: { name: "answer", schema, strict: true } };
  return body;
}

function describeModel() {
  const model = known.find(({ id }) => id === $("model").value);
  $("name").textContent = model?.id ?? "the model";
  $("about").textContent = model
    ? `${model.id}: weights in ${model.dtype}, a context of ${model.context_length.toLocaleString("en")} tokens.` : "";
}

async function loadModels() {
  try {
    known = await models($("key").value);
  } catch (error) {
    showProblem(error);
    if (["loading", "unreachable"].includes(error.code)) setTimeout(loadModels, 2000);
    return;
  }
  const before = $("model").value;
  $("model").replaceChildren(...known.map(({ id }) => new Option(id)));
  if (known.some(({ id }) => id === before)) $("model").value = before;
  $("model").disabled = false;
  showProblem(null);
  describeModel();
}

// --- failures ------------------------------------------------------------------------------------

// Shows what went wrong, beside the setting that is at fault if one is. null: nothing is wrong.
function showProblem(error) {
  const id = error?.code === "invalid_api_key" ? "key" : error?.code;
  const field = REMEMBERED.includes(id) ? $(id) : null;
  const words = [field ? "" : (error?.message ?? ""), field ? error.message : ""];
  for (const invalid of document.querySelectorAll("[aria-invalid]")) invalid.ariaInvalid = null;
  if ($("problem").textContent !== words[0]) $("problem").textContent = words[0]; // said once
  if (field) {
    openSettings(true);
    field.after($("wrong"));
    field.ariaInvalid = true;
    field.setAttribute("aria-errormessage", "wrong");
    field.focus();
    field.scrollIntoView({ block: "center" });
  }
  $("wrong").textContent = words[1];
}

// --- requests ------------------------------------------------------------------------------------

function setActive(controller) {
  active = controller;
  $("send").textContent = controller ? "Stop" : "Send";
  $("send").classList.toggle("main", !controller);
  $("escape").hidden = !controller;
  for (const button of document.querySelectorAll(".again, .show")) button.disabled = controller !== null;
}

// Runs what sends a request, which Stop ends.
async function occupy(work) {
  const controller = new AbortController();
  setActive(controller);
  try {
    await work(controller.signal);
  } finally {
    if (active === controller) setActive(null);
  }
}

// Keeps the end of the conversation in sight, if it was.
function following(change) {
  const page = document.documentElement;
  const follows = page.scrollHeight - innerHeight - scrollY < 60;
  change();
  if (follows) scrollTo(0, page.scrollHeight);
}

function draw(turn) {
  const { answer, parts } = turn;
  following(() => {
    parts.details.hidden = !answer.reasoning;
    parts.details.lastElementChild.textContent = answer.reasoning;
    (answer.request.response_format ? drawCode : drawText)(parts.text, answer.text);
  });
}

// Joins what is known; lines break only between the items.
const facts = (...items) => items.filter(Boolean).map((item) => item.replaceAll(" ", "\u00a0")).join(" · ");

function describeEnd(answer) {
  if (answer.finish === "stopped") return answer.finish;
  if (answer.finish !== "length") return "";
  return answer.n_tokens === answer.request.max_tokens ? "cut at Max tokens" : "cut: the context is full";
}

// Streams the answer of a turn into the page.
async function stream(turn, signal) {
  const { answer, parts } = turn, speak = speaker(), start = performance.now();
  let first = 0, drawing = 0;
  for await (const chunk of chat(answer.request, $("key").value, signal)) {
    const choice = chunk.choices[0];
    answer.seed = chunk.seed;
    answer.n_tokens = chunk.usage?.completion_tokens ?? answer.n_tokens;
    answer.finish = choice?.finish_reason ?? answer.finish;
    const { reasoning_content: reasoning = "", content = "" } = choice?.delta ?? {};
    if (!reasoning && !content) continue;
    if (!answer.text) parts.facts.textContent = content ? "Writing" : "Reasoning";
    first ||= performance.now();
    answer.reasoning += reasoning;
    answer.text += content;
    speak(answer.text, false);
    drawing ||= requestAnimationFrame(() => {
      drawing = 0;
      draw(turn);
    });
  }
  const seconds = (performance.now() - first) / 1000, n = answer.n_tokens;
  speak(answer.text, true);
  parts.speed = first && facts(`${n} token${n === 1 ? "" : "s"}`, seconds > 0.1 && `${Math.round((n - 1) / seconds)} per second`,
    `first after ${Math.round(first - start)} ms`);
}

// Answers a turn, for the first time or again.
async function answer(turn, request) {
  const { parts } = turn;
  turn.answer = { text: "", reasoning: "", request, seed: null, finish: null, partial: false, n_tokens: 0, tokens: null };
  parts.speed = "";
  parts.item.ariaBusy = true;
  parts.text.replaceChildren();
  parts.details.hidden = true;
  parts.fault.textContent = "";
  parts.facts.textContent = "Reading";
  parts.tools.hidden = true;
  hideOdds(turn);
  announce("Answering");
  await occupy(async (signal) => {
    try {
      await stream(turn, signal);
    } catch (error) {
      if (!(error instanceof Problem) && error.name !== "AbortError") throw error;
      turn.answer.partial = true;
      if (error instanceof Problem) fail(turn, error);
      else turn.answer.finish = "stopped";
    }
  });
  draw(turn);
  following(() => {
    const end = describeEnd(turn.answer);
    if (end) announce(end);
    parts.item.ariaBusy = false;
    parts.facts.textContent = facts(end, parts.speed, turn.answer.seed !== null && `seed ${turn.answer.seed}`);
    parts.tools.hidden = false;
    for (const name of ["show", "keep", "copy"]) parts[name].hidden = !turn.answer.text && (name === "copy" || !turn.answer.reasoning);
    parts.copy.hidden ||= !navigator.clipboard; // which only secure origins have
  });
}

function fail(turn, error) {
  following(() => (turn.parts.fault.textContent = error.message));
  announce(error.message);
  if (error.code === "invalid_api_key") showProblem(error);
}

// --- probabilities -------------------------------------------------------------------------------

function hideOdds({ parts }) {
  parts.odds.hidden = true;
  parts.text.hidden = false;
  parts.show.ariaPressed = false;
}

// Asks the same with the same seed, which gets the same answer, with probabilities this time.
async function fetchTokens({ answer }, signal) {
  const request = { ...answer.request, seed: answer.seed, logprobs: true, top_logprobs: N_ALTERNATIVES };
  const tokens = [];
  const before = answer.reasoning + answer.text;
  let text = "";
  for await (const chunk of chat(request, $("key").value, signal)) {
    const choice = chunk.choices[0];
    tokens.push(...(choice?.logprobs?.content ?? []));
    text += (choice?.delta.reasoning_content ?? "") + (choice?.delta.content ?? "");
    if (answer.partial && text.length >= before.length) break;
  }
  if (!text.startsWith(before)) throw new Problem("The server gave another answer this time: has its model been replaced?");
  return tokens;
}

async function showOdds(turn) {
  const { parts } = turn;
  parts.fault.textContent = "";
  try {
    if (!turn.answer.tokens) await occupy(async (signal) => (turn.answer.tokens = await fetchTokens(turn, signal)));
  } catch (error) {
    if (error instanceof Problem) fail(turn, error);
    else if (error.name !== "AbortError") throw error;
    return;
  }
  following(() => {
    drawOdds(parts.odds, turn.answer.tokens);
    parts.odds.hidden = false;
    parts.text.hidden = true;
    parts.show.ariaPressed = true;
  });
}

// --- the conversation ----------------------------------------------------------------------------

// Returns the request that asks a question after some turns. Throws a Problem.
function makeRequest(question, before) {
  const body = readSettings(), messages = [];
  if (!known.length) throw new Problem("There is no model to ask yet.");
  if ($("system").value.trim()) messages.push({ role: "system", content: $("system").value });
  for (const { question, answer } of before)
    if (answer.text) messages.push({ role: "user", content: question }, { role: "assistant", content: answer.text });
  messages.push({ role: "user", content: question });
  return { ...body, messages };
}

function regenerate(turn) {
  try {
    const request = makeRequest(turn.question, turns.slice(0, turns.indexOf(turn)));
    showProblem(null);
    answer(turn, request);
  } catch (error) {
    showProblem(error);
  }
}

// Shows for a moment, in place of its name, that a button has worked.
function confirm(button, words, name) {
  announce(words);
  button.textContent = words;
  setTimeout(() => (button.textContent = name), 1500);
}

function addTurn(question) {
  const item = $("turn").content.firstElementChild.cloneNode(true);
  const parts = { item, text: item.querySelector(".answer .text"), details: item.querySelector("details") };
  for (const name of ["odds", "fault", "facts", "tools", "again", "show", "keep", "copy"]) parts[name] = item.querySelector(`.${name}`);
  const turn = { question, answer: { text: "" }, parts };
  item.querySelector(".question .text").textContent = question;
  parts.again.addEventListener("click", () => regenerate(turn));
  parts.show.addEventListener("click", () => (parts.odds.hidden ? showOdds : hideOdds)(turn));
  parts.keep.addEventListener("click", () => {
    $("seed").value = turn.answer.seed;
    remember();
    confirm(parts.keep, "Kept", "Keep seed");
  });
  parts.copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(turn.answer.text);
    confirm(parts.copy, "Copied", "Copy");
  });
  if (turns.length) turns.at(-1).parts.again.hidden = true; // what follows depends on it
  turns.push(turn);
  $("turns").append(item);
  return turn;
}

function send() {
  const question = $("question").value.trim();
  if (!question || active) return;
  try {
    const request = makeRequest(question, turns);
    showProblem(null);
    $("intro").hidden = true;
    $("question").value = "";
    fitQuestion();
    const turn = addTurn(question);
    scrollTo(0, document.documentElement.scrollHeight);
    answer(turn, request);
  } catch (error) {
    showProblem(error);
  }
}

function restart() {
  active?.abort();
  turns.length = 0;
  $("turns").replaceChildren();
  $("announcer").replaceChildren();
  $("intro").hidden = false;
  showProblem(null);
  $("question").focus();
}

// As high as its text, up to the limit of the style sheet.
function fitQuestion() {
  $("question").style.height = "auto";
  $("question").style.height = `${$("question").scrollHeight}px`;
}

// --- events --------------------------------------------------------------------------------------

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  if (active) active.abort();
  else send();
});
$("question").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
$("question").addEventListener("input", fitQuestion);
$("examples").addEventListener("click", (event) => {
  if (event.target.localName !== "button") return;
  $("question").value = event.target.textContent;
  fitQuestion();
  $("question").focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (active) active.abort();
  else if (!$("settings").hidden && !wide.matches) closeSettings();
});
$("new").addEventListener("click", restart);
$("adjust").addEventListener("click", () => {
  openSettings($("settings").hidden);
  if (!$("settings").hidden) $("system").focus();
});
$("done").addEventListener("click", closeSettings);
wide.addEventListener("change", () => openSettings(!$("settings").hidden));
$("options").addEventListener("submit", (event) => event.preventDefault());
$("options").addEventListener("input", (event) => {
  remember();
  if (event.target.ariaInvalid) showProblem(null);
});
$("key").addEventListener("change", loadModels);
$("model").addEventListener("change", describeModel);

recall();
openSettings(wide.matches);
loadModels();
