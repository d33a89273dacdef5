"""The order of a search's texts by the language model of another run."""

from typing import Any

import jax
from jaxtyping import Array, Float

from txjax.decoding import CTCTexts, Rescoring, language_log_probs, language_rows, rescore
from txjax.eval.audio.language_run import LanguageRun, normal_form, plain_text
from txjax.eval.evaluator import Context
from txjax.types import PyTree


class Rescorer:
    """Orders the texts of each example, in numpy, by `rescore`. One program for each length of rows.

    Args:
      context: of the evaluation.
      run: the language model.
      rescoring: the weights.
      data: the recogniser's, with its tokenizer. The language model reads texts in the form of their normalisation,
        without special tokens.
    """

    def __init__(self, context: Context, run: LanguageRun, rescoring: Rescoring, data: Any):
        def score(variables: PyTree, rows: Any) -> Float[Array, "N"]:
            return language_log_probs(lambda tokens: run.model.apply(variables, tokens=tokens, train=False), rows)

        self._context = context
        self._run = run
        self._rescoring = rescoring
        self._data = data
        self._score = context.program(score)
        self._variables = run.variables(context.whole)

    def __call__(self, texts: CTCTexts) -> CTCTexts:
        rows, count, length = texts.symbols.shape
        symbols = zip(texts.symbols.reshape(-1, length), texts.lengths.reshape(-1), strict=True)
        strings = [normal_form(self._data, plain_text(self._data, row[:size])) for row, size in symbols]
        ids = self._run.tokenizer.encode_batch(strings)
        batch = language_rows(ids, self._run.beginning, self._run.end[:1], most=self._run.window)
        self._run.check_length(batch.tokens.shape[1])
        scores = jax.device_get(self._score(self._variables, self._context.put(batch))).reshape(rows, count)
        with jax.transfer_guard("allow"):
            return jax.device_get(rescore(texts, scores, self._rescoring.weight, self._rescoring.bonus))
