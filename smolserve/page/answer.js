// Draws answers. The model's text only ever becomes text nodes.

function element(tag, name, ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.append(...children);
  return made;
}

// Code and bold print of a paragraph.
function inline(text) {
  return text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/).map((part, i) => {
    if (i % 2 === 0) return part;
    return part[0] === "`" ? element("code", "", part.slice(1, -1)) : element("strong", "", part.slice(2, -2));
  });
}

// Draws text with the parts of Markdown that matter for reading: fenced code, headings, code and bold.
export function drawText(target, text) {
  const parts = text.split(/^```.*(?:\n|$)/m).map((part, i) => {
    if (i % 2) return element("pre", "", element("code", "", part.replace(/\n$/, "")));
    return element("div", "", ...part.trim().split(/^#{1,6} (.*)$/m).flatMap((piece, j) =>
      j % 2 ? [element("strong", "", piece)] : inline(piece)));
  });
  target.replaceChildren(...parts.filter((part) => part.textContent));
}

export function drawCode(target, text) {
  target.replaceChildren(element("pre", "", element("code", "", text)));
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

// The text of a token; its bytes, if they are a part of a character.
function tokenText({ bytes }) {
  try {
    return utf8.decode(new Uint8Array(bytes));
  } catch {
    return `‹${bytes.map((byte) => byte.toString(16).padStart(2, "0")).join(" ")}›`;
  }
}

function percent(logprob) {
  const value = 100 * Math.exp(logprob);
  return value < 0.01 ? "< 0.01 %" : `${value.toFixed(value < 10 ? 2 : 1)} %`;
}

const visible = (text) => text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/ /g, "␣") || "∅";

// A table of what might have stood in the place of a token.
function alternatives(token) {
  const text = tokenText(token);
  const rows = token.top_logprobs.map((other) => [tokenText(other), other.logprob]);
  if (!rows.some(([other]) => other === text)) rows.push([text, token.logprob]);
  const body = element("tbody");
  for (const [other, logprob] of rows) {
    const bar = element("span", "bar");
    bar.style.width = `${100 * Math.exp(logprob)}%`;
    const row = element("tr", other === text ? "taken" : "",
      element("th", "", visible(other)), element("td", "", percent(logprob)), element("td", "", bar));
    if (other === text) row.firstChild.append(element("span", "hidden", " (chosen)"));
    row.firstChild.scope = "row";
    body.append(row);
  }
  return element("table", "", element("caption", "", "In this place, the likeliest were"), body);
}

// Draws the tokens, each shaded by how unlikely it was, and the alternatives of the one that is looked at.
export function drawOdds(target, tokens) {
  const list = element("div", "tokens");
  const detail = element("div", "detail");
  const steps = [0.05, 0.2, 0.5, 0.9]; // below these, a shade darker each
  list.role = "listbox";
  list.ariaLabel = "Tokens: the arrow keys go from one to the next";
  list.ariaOrientation = "horizontal";
  for (const token of tokens) {
    const shade = steps.filter((step) => Math.exp(token.logprob) < step).length;
    const text = tokenText(token);
    const option = element("span", `p${shade}`, text);
    option.role = "option";
    option.tabIndex = -1;
    option.ariaSelected = "false";
    option.ariaLabel = `${visible(text)}, ${percent(token.logprob)}`;
    list.append(option);
  }
  const look = (option) => {
    for (const other of list.querySelectorAll("[aria-selected=true]")) {
      other.ariaSelected = "false";
      other.tabIndex = -1;
    }
    option.ariaSelected = "true";
    option.tabIndex = 0;
    detail.replaceChildren(alternatives(tokens[[...list.children].indexOf(option)]));
  };
  list.addEventListener("focusin", (event) => event.target !== list && look(event.target));
  list.addEventListener("keydown", (event) => {
    const at = [...list.children].indexOf(event.target);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tokens.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    list.children[next]?.focus();
  });
  const legend = element("p", "help",
    "The stronger the color, the less likely the token was to the model, before temperature and filters. Choose one to see its alternatives.");
  target.replaceChildren(list, legend, detail);
  if (list.firstChild) look(list.firstChild);
}
