"""`txjax generate` of a run with CTC: the words of recordings, and when they are said."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from txjax.cli.adapter_runs import sides
from txjax.cli.generation_flags import DRAWING, LENGTH, recordings_of
from txjax.cli.load_run import open_run
from txjax.errors import UserError
from txjax.terminal_escape import printable

if TYPE_CHECKING:
    from txjax.data import Utterances
    from txjax.decoding import CTCSearch, Inputs
    from txjax.decoding.word_times import TimedWord
    from txjax.experiment import Experiment
    from txjax.types import PyTree


@dataclasses.dataclass(frozen=True)
class Transcript:
    """A text that was recognised.

    Attributes:
      score: of the search.
      words: with their times; None if they weren't asked for.
    """

    text: str
    score: float
    words: list[TimedWord] | None

    def __str__(self) -> str:
        lines = [f"{word.start:8.2f} {word.end:8.2f}  {word.word}" for word in self.words or ()]
        return "\n".join([self.text, *lines])


def transcribe(flags: argparse.Namespace, experiment: Experiment) -> int:
    """Prints the words of the recordings that the flags name, and with `--times` the seconds of each.

    Raises:
      UserError: flags of a decoder, no recordings, unusable ones, or a run on other data than `Utterances`.
    """
    from txjax.data import Utterances
    from txjax.decoding.frame_times import FrameTimes
    from txjax.decoding.spoken_prompts import read_recordings
    from txjax.train.check import check_without_data

    search = ctc_search_of(flags)
    data = experiment.data
    if not isinstance(data, Utterances):
        raise UserError("config.data", "Utterances, for --audio", type(data).__name__)
    paths = recordings_of(flags)
    batch = read_recordings(paths, data, "--audio")
    seconds = FrameTimes.of(experiment.model, data.rate).tokens if flags.times else None
    with open_run(flags, experiment, check_without_data) as loaded:
        recognise = recogniser(experiment, data, search, flags.samples, seconds)
        for side in sides(flags, experiment, loaded):
            if flags.adapters and not flags.json:
                print(f"== {side.workdir}, step {side.step}")
            run = {"run": str(side.workdir)} if flags.adapters else {}
            for number, (path, transcripts) in enumerate(zip(paths, recognise(side.variables, batch), strict=True)):
                if flags.json:
                    print(json.dumps({**run, "step": side.step, "prompt": path, **columns(transcripts)}))
                else:
                    print(printable(("\n" if number else "") + "\n\n".join(f"{path}\n{t}" for t in transcripts)))
    return 0


def ctc_search_of(flags: argparse.Namespace) -> CTCSearch:
    """The search that the flags describe. Raises UserError for flags of a decoder's."""
    from txjax.decoding import BestPath, PrefixBeam

    of_decoder = (*DRAWING, "length_penalty", "ctc_weight", "lm", "lm_weight", "end")
    defaults = dict.fromkeys(of_decoder) | {"length": LENGTH}
    for name, default in defaults.items():
        if (value := getattr(flags, name)) != default:
            raise UserError(f"--{name}", "a decoder's run: texts of CTC aren't written token by token", value)
    if flags.beam is not None:
        return PrefixBeam(flags.beam)
    if flags.samples > 1:
        raise UserError("--samples", "--beam too, since the best path has one text", flags.samples)
    return BestPath()


def recogniser(
    experiment: Experiment, data: Utterances, search: CTCSearch, count: int, seconds: float | None
) -> Callable[[PyTree, Inputs], list[list[Transcript]]]:
    """A function of variables and a batch of recordings, that returns at most `count` texts of each, the best first.

    Args:
      seconds: from one frame of logits to the next. If None, words have no times.
    """
    import jax
    import numpy as np

    from txjax import backend
    from txjax.decoding import align
    from txjax.decoding.word_times import word_times

    model = experiment.model
    objective: Any = experiment.objective

    def logits_and_texts(variables: PyTree, batch: Inputs) -> tuple[Any, ...]:
        logits, frames = objective.frame_logits(model, variables, batch)
        return logits, frames, search(logits, frames, objective.blank)

    find_texts = backend.jit(logits_and_texts)
    find_frames = backend.jit(align, static_argnames="blank")

    def recognise(variables: PyTree, batch: Inputs) -> list[list[Transcript]]:
        logits, frames, texts = find_texts(variables, batch)
        symbols, lengths, scores = jax.device_get((texts.symbols, texts.lengths, texts.scores))
        transcripts: list[list[Transcript]] = [[] for _ in symbols]
        for k in range(min(count, symbols.shape[1])):
            longest = max(int(lengths[:, k].max()), 1)
            spans = None
            if seconds is not None:
                alignment = find_frames(logits, frames, symbols[:, k, :longest], lengths[:, k], blank=objective.blank)
                spans = seconds * np.stack([alignment.starts, alignment.ends], axis=1)
            for row in np.flatnonzero(np.isfinite(scores[:, k])):
                ids = symbols[row, k, : lengths[row, k]]
                words = None if spans is None else word_times(data.tokenizer, ids, *spans[row])
                transcripts[row].append(Transcript(data.tokenizer.decode(ids), float(scores[row, k]), words))
        return transcripts

    return recognise


def columns(transcripts: list[Transcript]) -> dict[str, Any]:
    """Texts, scores and times as lists, for JSON."""
    record: dict[str, Any] = {"texts": [t.text for t in transcripts], "scores": [t.score for t in transcripts]}
    times = [[dataclasses.asdict(word) for word in t.words] for t in transcripts if t.words is not None]
    return record | ({"times": times} if times else {})
