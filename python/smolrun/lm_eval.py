"""Models for lm-eval, the evaluation harness (pip install smolrun[lm-eval]).

    python -m smolrun.lm_eval --model smolrun --model_args pretrained=model.smol --tasks hellaswag

takes the command line of lm-eval. In Python, importing this module adds the model "smolrun" to lm_eval's; an instance can
also be passed: lm_eval.simple_evaluate(model=smolrun.lm_eval.SmolLM("model.smol"), tasks=...)."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import lm_eval.models.utils as harness
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tqdm import tqdm

from . import _likelihood
from ._sequence import Request, ids_array
from .errors import SmolError
from .model import Model
from .settings import SAMPLING
from .settings import read as read_settings

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

DEFAULT_TOKENS = 256  # of a text whose task does not say how long it may be, as with lm-eval's other models


@register_model("smolrun")
class SmolLM(TemplateLM):  # type: ignore[misc]
    """A smolrun.Model as a model of lm-eval.

    pretrained: the path of a blob, or a Model; options: those of smolrun.Model. max_length: tokens of a context, the model's
    if None. batch_size: of texts that are generated together ("auto": 8). device: ignored, because lm-eval names a GPU unless
    told otherwise."""

    def __init__(
        self,
        pretrained: str | os.PathLike[str] | Model,
        *,
        max_length: int | None = None,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
        **options: Any,
    ):
        super().__init__()
        if isinstance(pretrained, Model):
            self.model = pretrained
        else:
            n = int(str(batch_size)) if str(batch_size).isdecimal() else max_batch_size or 8
            self.model = Model(pretrained, n_ctx=max_length or 0, sequences=n, **options)

    # --- the tokenizer ---

    @property
    def eot_token_id(self) -> int:
        return self.model.stop_ids[0]

    @property
    def prefix_token_id(self) -> int:
        bos = self.model.info.bos_id
        return self.eot_token_id if bos is None else bos

    @property
    def max_length(self) -> int:
        return self.model.n_ctx

    @property
    def tokenizer_name(self) -> str:
        """A name under which lm-eval caches requests that were rendered by the blob's chat template."""
        return self.model.digest

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return self.model.format_chat(
            chat_history, add_generation_prompt=add_generation_prompt, continue_final_message=not add_generation_prompt
        )

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        """Adds the tokens around a whole text unless told otherwise, or unless they are in the text, as those of a chat are."""
        if add_special_tokens is None:
            bos = self.model.info.bos_id
            add_special_tokens = bos is None or not string.startswith(self.model.detokenize([bos], special=True))
        return self.model.tokenize(string, whole=add_special_tokens)

    # --- likelihoods ---

    def _loglikelihood_tokens(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], disable_tqdm: bool = False, **_: Any
    ) -> list[tuple[float, bool]]:
        """Scores texts in an order in which those with a common beginning are neighbours, so that it is evaluated once."""
        texts: list[tuple[array[int], int]] = []
        for _, context, continuation in requests:
            ids = ids_array(context + continuation)[-(self.max_length + 1) :]  # cut off at the left
            texts.append((ids, len(ids) - len(continuation)))
        order = sorted(range(len(texts)), key=lambda i: (texts[i][0], texts[i][1]))
        found: list[tuple[float, bool]] = [(0.0, False)] * len(texts)
        scores = _likelihood.score(self.model, (texts[i] for i in order))
        shown = tqdm(scores, total=len(order), disable=disable_tqdm, desc="Running loglikelihood requests")
        for score, i in zip(shown, order):
            found[i] = score.sum, score.is_greedy
            if requests[i][0] is not None:
                self.cache_hook.add_partial("loglikelihood", requests[i][0], found[i])
        return found

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Each token is scored once, in windows of the context's size."""
        windows: list[tuple[None, list[int], list[int]]] = []
        ends = []
        for request in requests:
            ids = self.tok_encode(request.args[0])
            rolling = get_rolling_token_windows(ids, self.prefix_token_id, max_seq_len=self.max_length, context_len=1)
            windows += [(None, *make_disjoint_window(pair)) for pair in rolling]
            ends.append(len(windows))
        found = [total for total, _ in self._loglikelihood_tokens(windows, disable_tqdm)]
        sums = [sum(found[first:end]) for first, end in zip([0, *ends], ends)]
        for request, total in zip(requests, sums):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return sums

    # --- texts ---

    def _request(self, context: str, options: dict[str, Any]) -> tuple[Request, list[str]]:
        """Returns a request, and the strings that end its text."""
        given = harness.normalize_gen_kwargs(options, DEFAULT_TOKENS)
        end = self.model.detokenize([self.eot_token_id], special=True)
        until = [text for text in harness.handle_stop_sequences(given.pop("until"), end) if text]
        n = given.pop("max_gen_toks")
        if not given.pop("do_sample"):
            given = {name: value for name, value in given.items() if name not in SAMPLING}
        ids, n = harness.maybe_truncate(self.tok_encode(context), n, self.max_length)
        return Request(ids_array(ids), read_settings({"max_tokens": n, "stop": until, **given})), until

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        prepared = [self._request(*request.args) for request in requests]
        texts = [""] * len(requests)
        answers = self.model.run(request for request, _ in prepared)
        for i, answer in tqdm(answers, total=len(requests), disable=disable_tqdm, desc="Running generate_until requests"):
            if isinstance(answer, SmolError):
                raise answer
            texts[i] = harness.postprocess_generated_text(answer.text, prepared[i][1], None)
            self.cache_hook.add_partial("generate_until", requests[i].args, texts[i])
        return texts


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
