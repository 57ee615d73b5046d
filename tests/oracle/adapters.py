"""Adapters and notebooks, run by test_python_adapters.py with the Python of adapters-requirements.txt:

    python adapters.py NAME MODEL.smol

prints as JSON what they got. The questions and settings are those of clients.py."""

import json
import os
import subprocess
import sys
from pathlib import Path

from clients import ASK, MESSAGES, SETTINGS, TOOL, person

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples/python"
sys.path.insert(0, str(EXAMPLES))
os.environ |= {"LANGSMITH_TRACING": "false"}


def use_langchain(path):
    import asyncio

    from langchain_smolrun import ChatSmol, SmolEmbeddings

    Person = person()
    chat = ChatSmol(path=path, max_tokens=SETTINGS["max_tokens"], temperature=SETTINGS["temperature"], options={"seed": SETTINGS["seed"]})
    whole, pieces = chat.invoke(MESSAGES), list(chat.stream(MESSAGES))
    joined = pieces[0]
    for piece in pieces[1:]:
        joined += piece
    exact = ChatSmol(path=path, max_tokens=300)
    tools = exact.bind_tools([TOOL], tool_choice="required", parallel_tool_calls=False)
    shorter = [ChatSmol(path=path, max_tokens=n).bind_tools([TOOL], tool_choice="required") for n in range(10, 40, 3)]
    streamed_call = None
    for piece in tools.stream(MESSAGES):
        streamed_call = piece if streamed_call is None else streamed_call + piece

    async def ask():
        return (await chat.ainvoke(MESSAGES)).content, "".join([piece.content async for piece in chat.astream(MESSAGES)])

    try:
        exact.with_structured_output(Person, max_tokens=2).invoke(ASK)
        cut_off = None
    except ValueError as error:
        cut_off = str(error)
    try:
        SmolEmbeddings(path, query_prompt="nothing").embed_query("The sea")
        refused = None
    except ValueError as error:
        refused = str(error)
    return {
        "text": whole.content, "streamed": joined.content, "async": asyncio.run(ask()), "n_pieces": len(pieces),
        "tokens": [whole.usage_metadata["input_tokens"], whole.usage_metadata["output_tokens"]],
        "streamed_tokens": [joined.usage_metadata["input_tokens"], joined.usage_metadata["output_tokens"]],
        "batch": [one.content for one in chat.batch([MESSAGES, MESSAGES])],
        "person": exact.with_structured_output(Person).invoke(ASK).model_dump(),
        "dictionary": exact.with_structured_output(Person.model_json_schema()).invoke(ASK),
        "calls": [[call["name"], call["args"], call["id"]] for call in tools.invoke(MESSAGES).tool_calls],
        "streamed_calls": [[call["name"], call["args"], call["id"]] for call in streamed_call.tool_calls],
        "cut_calls": [call["name"] for one in shorter for call in one.invoke(MESSAGES).invalid_tool_calls],
        "stopped": chat.invoke(MESSAGES, stop=["sea"]).content, "cut off": cut_off,
        "embedding": SmolEmbeddings(path, query_prompt="nothing").embed_documents(["The sea"])[0], "refused": refused,
    }  # fmt: skip


def use_llm(path):
    """The program, with the plugin installed in the folder PLUGIN."""
    def run(*words, **options):
        done = subprocess.run([sys.executable, "-m", "llm", *map(str, words)], text=True, capture_output=True, timeout=300, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout.rstrip("\n")

    model, settings = Path(path).stem, ["-o", "temperature", SETTINGS["temperature"], "-o", "seed", SETTINGS["seed"], "-o", "max_tokens", SETTINGS["max_tokens"]]
    question = MESSAGES[0]["content"]
    text = run("-m", model, *settings, question)
    return {
        "models": run("models"), "text": text, "whole": run("-m", model, "--no-stream", *settings, question),
        "continued": run("-m", model, "-c", *settings, "And of the sky?"),
        "system": run("-m", model, "-s", "You answer in one word.", "-o", "max_tokens", 8, question),
        "person": json.loads(run("-m", model, "--schema", "name, age int", "-o", "max_tokens", 60, ASK[0]["content"])),
        "regex": run("-m", model, "-o", "regex", "[0-9]{3}", "How many?"),
        "logged": json.loads(run("logs", "-n", "1", "--json"))[0]["output_tokens"],
        "tool": run("-m", model, "-T", "llm_version", "--td", "-o", "max_tokens", 200, "Which version of llm is installed?"),
    }  # fmt: skip


def use_notebook(path):
    """A notebook in a kernel of Jupyter."""
    import nbclient
    import nbformat

    cells = [
        f"import smolrun\nmodel = smolrun.Model({path!r}, verify='open', progress=True)", "model.explain('The sea is blue.')",
        "model.perplexity('The sea is blue. ' * 200, progress=True).tokens", "print(''.join([piece async for piece in model.astream('The sea', max_tokens=5)]))",
        "(await model.agenerate('The sea', max_tokens=5)).text", "model.generate('The sea', max_tokens=5).text",
    ]  # fmt: skip
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3").execute()
    return [[dict(output) for output in cell.outputs] for cell in notebook.cells]


if __name__ == "__main__":
    print(json.dumps({"langchain": use_langchain, "llm": use_llm, "notebook": use_notebook}[sys.argv[1]](sys.argv[2])))
