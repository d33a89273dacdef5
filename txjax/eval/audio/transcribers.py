"""How the model of a run writes what it hears: by a search of CTC, or as a decoder, token by token."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.data import Dataset, Utterances
from txjax.decoding import Beam, CTCSearch, CTCTexts, Generator, Inputs, Ngram, Search, generator_for
from txjax.errors import UserError
from txjax.eval.audio.language_run import LanguageRun
from txjax.eval.evaluator import Context, outline
from txjax.objectives import source_inputs
from txjax.sharding import constrain
from txjax.types import Batch, PyTree

Transcribe = Callable[[PyTree, Batch], CTCTexts]  # of a state and a batch; in numpy all are read on the host


def ctc_transcriber(context: Context, search: CTCSearch) -> Transcribe:
    """The texts of each example by a search of CTC, the best first.

    The first argument of the function is (variables, table): the table of the n-gram, or None.
    """
    model = context.model
    objective: Any = context.objective

    def transcribe(state: PyTree, batch: Batch) -> CTCTexts:
        variables, table = state
        logits, frames = objective.frame_logits(model, variables, batch)
        return search(logits, frames, objective.blank, table)

    return transcribe


def decoder_transcriber(context: Context, search: Search, data: Any, language: LanguageRun | None = None) -> Transcribe:
    """The texts that a decoder writes for each example, without the end token, the best first.

    The first argument of the function is (variables, variables of the language model), or (variables, None).

    Args:
      language: the model whose score is added to that of each token. If None, there is none.
    """
    model = context.model
    first_tokens = data.opening() if isinstance(data, Utterances) else (data.tokenizer.roles().beginning,)
    opening = np.array(first_tokens, np.int32)  # a constant of the program, which is on the host

    def transcribe(state: PyTree, batch: Batch) -> CTCTexts:
        variables, of_language = state
        rows = len(batch["id"])
        prompts = constrain(jnp.tile(opening, (rows, 1)), "batch", "length")
        inputs = {"tokens": prompts, **source_inputs(model, batch)}
        generator = generator_for(model, variables, inputs, data.length)
        if language is not None:
            generator = language.fuse(generator, of_language, rows)
            variables = state
        key = jax.random.fold_in(jax.random.key(context.seed), batch["id"][0])
        return search_texts(search, generator, variables, inputs, data.length - len(opening), key)

    return transcribe


def search_texts(
    search: Search, generator: Generator, variables: PyTree, inputs: Inputs, length: int, key: jax.Array
) -> CTCTexts:
    """What a search finds, without the end token: of a beam all texts with their scores, else one, whose score is 0."""
    if isinstance(search, Beam):
        texts = search.hypotheses(generator, variables, inputs, length)
        tokens = texts.tokens
        scores = texts.scores
    else:
        tokens = search(generator, variables, inputs, length, key)[:, None]
        scores = jnp.zeros(tokens.shape[:2])
    return CTCTexts(tokens, (search.ends(tokens).cumsum(-1) == 0).sum(-1), scores)


def count_ngram(ngram: Ngram, context: Context, data: Any) -> np.ndarray:
    """The table of an n-gram, counted from the transcripts of the run's training data.

    Raises:
      UserError: they can't be had without the recordings.
    """
    transcripts = getattr(context.train.open(), "transcripts", None)
    if transcripts is None:
        kind = type(context.train).__name__
        raise UserError("config.data", "data whose transcripts can be read alone, for an n-gram", kind)
    texts = [data.tokenizer.encode(text) for text in transcripts()]
    return ngram.table(texts, count_symbols(context.model, context.objective, data))


def count_symbols(model: Any, objective: Any, data: Dataset) -> int:
    """The classes of a model's frames that may be symbols: all up to the last one that isn't the blank."""
    _, variables = outline(model, objective, data)
    batch = {key: jax.ShapeDtypeStruct((1, *x.shape), x.dtype) for key, x in data.spec().items()}
    logits, _ = jax.eval_shape(functools.partial(objective.frame_logits, model), variables, batch)
    classes = logits.shape[-1]
    return classes - (objective.blank % classes == classes - 1)
