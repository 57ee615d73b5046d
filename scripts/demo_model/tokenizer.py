"""The byte-level BPE tokenizer of the demo model, with SmolLM2's pre-tokenizer."""

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
END_OF_TEXT = 0


def without_markers(text):
    """Returns the text without special tokens, which must not become ordinary ones."""
    for token in SPECIAL_TOKENS:
        text = text.replace(token, "")
    return text


def train_tokenizer(texts, vocab_size):
    """Returns a tokenizer trained on these texts; ids 0 to 2 are the special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(map(without_markers, texts), trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[AddedToken(token, special=True, normalized=False)
                        for token in SPECIAL_TOKENS],
        show_progress=False,
    ))
    if tokenizer.get_vocab_size() != vocab_size:
        raise ValueError(f"the texts gave only {tokenizer.get_vocab_size()} tokens")
    return tokenizer
