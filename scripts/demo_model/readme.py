"""The README.md of the checkpoint folder, from the figures of the run."""

import textwrap

TEXT = """# Willowby: the demo model of smol

A tiny Llama model ({parameters:,} parameters) that tells stories about the village of Willowby:
Mila and her cat Pepper, Anna the baker, Felix the clockmaker and their neighbours. It knows
nothing else. It gives smol a small real checkpoint to convert, run and test.

The generator in `scripts/demo_model` made the training text; no other data was used. One run made
tokenizer and weights:

    "$(scripts/venv)" scripts/train-demo-model{arguments}

| | |
|---|---|
| layers, hidden size, MLP size | {layers}, {hidden}, {mlp} |
| heads, key/value heads, head size | {heads}, {kv_heads}, {head_dim} |
| vocabulary, context | {vocab:,}, {context} |
| seed | {seed} |
| training text | {documents:,} documents, {corpus_tokens:,} tokens |
| trained on | {seen:,} tokens in {steps:,} steps |
| wall time of the run | {minutes:.0f} minutes with {threads} CPU thread(s) |
| training loss at the end | {train_loss:.4f} nats a token |
| held-out loss, float32 weights | {held_out:.4f} nats a token |
| held-out loss, bfloat16 weights (this folder) | {held_out_rounded:.4f} nats a token |

The held-out loss is measured over {held_out_tokens:,} tokens of documents made with other seeds (a few short
ones, like sums, coincide with training documents); `training-log.csv` records it during training.
The log uses windows of 512 tokens, and training uses windows of 256 until 70% of the steps, which
explains the drop there. The same seed, versions and number of threads should give the same weights;
another machine may round differently and reach slightly different ones.

The model was also trained on short chats; `tokenizer_config.json` has the chat template. A document ends
with `<|endoftext|>`, a message in a chat with `<|im_end|>`.

## Samples

These texts come from the weights in this folder, with `transformers` in float32; the first is greedy,
the second at temperature 0.8. Lines are wrapped here, and texts are cut after 200 tokens.

{samples}
Licence: MIT, like the rest of smol.
"""


def readme(figures, samples):
    """Returns the text, with the prompts and the model's continuations."""
    parts = []
    for prompt, greedy, warm in samples:
        parts.append(f"Prompt `{prompt}`:\n\n{quoted(greedy)}\n\n{quoted(warm)}\n")
    return TEXT.format(samples="\n".join(parts), **figures)


def quoted(text):
    """Returns the text as an indented block, which Markdown does not format, in lines of moderate length."""
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, 90) or [""]]
    return "\n".join(("    " + line).rstrip() for line in lines)
