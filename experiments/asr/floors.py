"""Prints the character error rates of what learns nothing: a constant text, and transcripts of near training examples.

python experiments/asr/floors.py
"""

import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from txjax.data import Utterances
from txjax.data.audio.utterances import UtteranceSource
from txjax.data.loading.rng import example_rng
from txjax.experiment import with_default_eval_data
from txjax.nn.audio.front_ends import telephone

FRAMES = 32  # that each recording's features are averaged to


def main() -> None:
    spec = importlib.util.spec_from_file_location("config", Path(__file__).with_name("config.py"))
    assert spec is not None and spec.loader is not None
    config = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(config)
    for data, part in (("digits", "known"), ("digits", "unseen"), ("prompts", "test")):
        experiment = with_default_eval_data(config.get_config(f"conformer_{data}"))
        train = experiment.data
        test = experiment.evals[part].data
        assert isinstance(train, Utterances) and isinstance(test, Utterances)
        print(f"{data}, {part}: {describe(train, test)}")


def describe(train_data: Utterances, test_data: Utterances) -> str:
    """The error rates of a constant text, of the nearest sound's text, and of the nearest text itself."""
    train, test = (data.open() for data in (train_data, test_data))
    assert isinstance(train, UtteranceSource) and isinstance(test, UtteranceSource)
    texts, references = list(train.transcripts()), list(test.transcripts())
    letters = sum(map(len, references))
    candidates = sorted({*texts, *(word for text in texts for word in text.split())})
    constant = cdist(candidates, references, scorer=Levenshtein.distance).sum(1)
    edits = cdist(texts, references, scorer=Levenshtein.distance)
    alike = np.argmin(distances(features(train), features(test)), 0)
    by_sound = edits[alike, np.arange(len(references))].sum()
    return (
        f"constant {candidates[constant.argmin()]!r} {constant.min() / letters:.3f}, "
        f"nearest sound {by_sound / letters:.3f}, nearest text {edits.min(0).sum() / letters:.3f}"
    )


def features(source: UtteranceSource) -> np.ndarray:
    """The log-mel features of each example, averaged to FRAMES frames, [N FRAMES M]."""
    front_end = jax.jit(telephone().__call__)
    return np.stack([shrink(*front_end(*waveform)) for waveform in waveforms(source)])


def waveforms(source: UtteranceSource) -> Iterable[tuple[Any, Any]]:
    """Each example of the first epoch, a batch of one."""
    for index in range(len(source)):
        example = source.example(index, 0, example_rng(0, 0, index))
        yield example["audio"][None], example["audio_length"][None]


def shrink(frames: Any, count: Any) -> np.ndarray:
    """The means over FRAMES equal parts of an utterance."""
    parts = np.array_split(np.asarray(frames[0, : int(count[0])]), FRAMES)
    return np.stack([part.mean(0) if len(part) else np.zeros(frames.shape[-1]) for part in parts])


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The squared distances of all pairs, [N M]."""
    a, b = a.reshape(len(a), -1), b.reshape(len(b), -1)
    return np.square(a).sum(1)[:, None] - 2 * a @ b.T + np.square(b).sum(1)[None]


if __name__ == "__main__":
    main()
