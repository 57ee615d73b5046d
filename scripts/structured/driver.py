"""Decodes with the library, token by token, and keeps the time of each part."""

import sys
import time
from dataclasses import dataclass, field

import numpy as np
from benchmark.paths import ROOT

sys.path.append(str(ROOT / "tests/oracle"))

from structured_output import Matcher, Sampler, text_of  # noqa: E402


@dataclass
class Written:
    """An answer; for each pass of the model the seconds of evaluating and sampling, and of the constraint."""

    ids: list = field(default_factory=list)
    model_s: list = field(default_factory=list)
    mask_s: list = field(default_factory=list)
    text: str = ""

    def seconds(self):
        return sum(self.model_s) + sum(self.mask_s)


def write(context, logits, limit, constraint=None, jump=False, **sampling):
    """Writes an answer after the context's tokens, whose last logits are given. `jump`: tokens that must follow
    are evaluated in one pass."""
    model, clock = context.model, time.perf_counter
    stops, written, sampler = set(model.stop_ids()), Written(), Sampler(**sampling)
    every_token = np.full((model.vocab_size + 63) // 64, 2**64 - 1, np.uint64)
    matcher = Matcher(constraint) if constraint else None
    while len(written.ids) < limit:
        begin = clock()
        new = matcher.forced() if jump else []
        mask = matcher.mask() if matcher and not new else every_token
        masked = clock()
        new = new or [sampler.sample(logits, mask)]
        sampled = clock()
        for token in new if matcher else ():
            matcher.accept(token)
        accepted = clock()
        if new[-1] in stops:
            break
        logits = context.eval(new, 1)
        written.ids += new
        written.mask_s.append(masked - begin + accepted - sampled)
        written.model_s.append(sampled - masked + clock() - accepted)
    written.text = text_of(model, written.ids).decode(errors="replace")
    return written
