"""Documents as one stream of token ids, and windows cut from it."""

import torch

from .tokenizer import END_OF_TEXT


class Stream:
    """All documents in a row, each followed by <|endoftext|>."""

    def __init__(self, tokenizer, texts):
        ids, starts = [END_OF_TEXT], []
        for encoding in tokenizer.encode_batch(texts):
            starts.append(len(ids))
            ids += encoding.ids + [END_OF_TEXT]
        self.ids = torch.tensor(ids)
        self.starts = torch.tensor(starts)

    def __len__(self):
        return len(self.ids)

    def batch(self, size, length, generator):
        """Returns random windows that begin at a document, half of them with the <|endoftext|> before it.

        Starting at documents teaches the model to continue a prompt at position 0.
        """
        usable = int(torch.searchsorted(self.starts, len(self.ids) - length))
        chosen = torch.randint(usable, (size,), generator=generator)
        before = torch.randint(2, (size,), generator=generator)
        return self.windows(self.starts[chosen] - before, length)

    def rows(self, size, length):
        """Returns consecutive windows from the beginning, for evaluation."""
        return self.windows(torch.arange(size) * length, length)

    def windows(self, begins, length):
        """Returns windows of length + 1 tokens: the inputs and, shifted by one, the targets."""
        return self.ids[begins[:, None] + torch.arange(length + 1)]
