// Requests to the server. Whatever goes wrong becomes a Problem, whose message is for a person.

export class Problem extends Error {
  constructor(message, code = "") {
    super(message);
    this.code = code;
  }
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

// Explains an error object of the server.
function refusal(status, error, wait) {
  const said = error?.message ? sentence(error.message) : `It answered with the HTTP status ${status}.`;
  const words = {
    context_length_exceeded: "The conversation is longer than the model’s context. Shorten the message, or start a new chat.",
    draining: "The server is shutting down and accepts no further requests.",
    invalid_api_key: "This server needs a valid API key.",
    loading: "The server is still loading its models.",
    timeout: "The answer took longer than the server permits.",
  }[error?.code];
  if (words) return new Problem(words, error.code);
  if (status === 429) return new Problem(`The server is busy. ${said} Wait ${wait || 1} s.`, error?.code);
  return new Problem(`The server refuses. ${said}`, error?.code);
}

async function ask(path, key, options) {
  const headers = new Headers({ "Content-Type": "application/json" });
  let response;
  try {
    if (key) headers.set("Authorization", `Bearer ${key}`);
  } catch {
    throw new Problem("The API key contains characters that no key has.", "invalid_api_key");
  }
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server cannot be reached. Is it running?", "unreachable");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw refusal(response.status, body.error, response.headers.get("Retry-After"));
}

export async function models(key) {
  return (await (await ask("v1/models", key, {})).json()).data;
}

// Yields the chunks of a streamed answer.
export async function* chat(body, key, signal) {
  const response = await ask("v1/chat/completions", key, {
    method: "POST",
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        if (error.name === "AbortError") throw error;
        return { done: true };
      });
      if (done) throw new Problem("The connection was lost before the answer was complete.", "unreachable");
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) {
        const data = event.replace(/^data: /, "");
        if (data === "[DONE]") return;
        const chunk = JSON.parse(data);
        if (chunk.error) throw refusal(500, chunk.error);
        yield chunk;
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // so that the server stops, if there is more
  }
}
