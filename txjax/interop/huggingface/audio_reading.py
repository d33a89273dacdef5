"""How an imported model reads waveforms: the front end that its preprocessor_config.json describes, both ways."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from txjax.interop.huggingface.image_reading import PREPROCESSOR
from txjax.interop.huggingface.options import Options
from txjax.nn.audio import front_ends
from txjax.nn.audio.emphasis import SignalEmphasis
from txjax.nn.audio.extents import FixedFrames, FixedSamples
from txjax.nn.audio.feature_norms import FeatureNorm, FixedNorm
from txjax.nn.audio.log_mel import LogMel
from txjax.tree import read_json
from txjax.types import UserError

log = logging.getLogger("txjax")

TYPE = "feature_extractor_type"


class Extractor(NamedTuple):
    """A class of feature extractors.

    Attributes:
      front_end: from the options of its file to the front end.
      entries: from a front end to those of its options that may differ. If the front end has other parts, any.
      required: the options that have one value.
    """

    front_end: Callable[[Options], LogMel]
    entries: Callable[[LogMel], dict[str, Any]]
    required: Mapping[str, Any]


def front_end_of(model: Any) -> Any:
    """The front end of a model of audio or of its encoder; None if it has none."""
    return getattr(model if hasattr(model, "front_end") else getattr(model, "encoder", None), "front_end", None)


def with_front_end(model: Any, front_end: LogMel) -> Any:
    """The model with this front end, in its encoder if that has it; a model of another modality as it is."""
    if hasattr(model, "front_end"):
        return model.clone(front_end=front_end)
    encoder: Any = getattr(model, "encoder", None)
    return model.clone(encoder=encoder.clone(front_end=front_end)) if hasattr(encoder, "front_end") else model


def read_front_end(folder: Path) -> LogMel | None:
    """The front end of a folder's preprocessor_config.json; None without one, or with one of another modality.

    Raises:
      UserError: features are extracted in a way that txjax has not.
    """
    if not (folder / PREPROCESSOR).is_file():
        return None
    options = Options(read_json(folder / PREPROCESSOR), PREPROCESSOR)
    name = options.get(TYPE, "")
    if name not in EXTRACTORS:
        if name:
            log.warning("%s: no front end of txjax is a %s; the model's is kept", PREPROCESSOR, name)
        return None
    extractor = EXTRACTORS[name]
    options.require(**extractor.required)
    front_end = extractor.front_end(options)
    front_end.check()
    return front_end


def extractor_entries(front_end: Any) -> dict[str, Any]:
    """The preprocessor_config.json of a front end; with a warning none, if no feature extractor is equal to it."""
    for name, extractor in EXTRACTORS.items():
        entries = {TYPE: name, **extractor.required, **extractor.entries(front_end)}
        if _describes(extractor, entries, front_end):
            return entries
    log.warning("no %s: no feature extractor of Hugging Face's is equal to config.model.front_end", PREPROCESSOR)
    return {}


def _describes(extractor: Extractor, entries: dict[str, Any], front_end: Any) -> bool:
    """Whether a file with these entries is read as this front end."""
    try:
        return extractor.front_end(Options(entries, PREPROCESSOR)) == front_end
    except UserError:
        return False


def _spectrogram(options: Options) -> LogMel:
    mean, deviation = (float(options.get(key, x)) for key, x in zip(("mean", "std"), front_ends.AUDIOSET, strict=True))
    if deviation <= 0:
        raise options.refuse("std", "a number above 0", deviation)
    front_end = front_ends.audio_spectrogram((mean, deviation), options.size("max_length", 1024))
    norm = front_end.norm if options.get("do_normalize", True) else FeatureNorm()
    return _with_mels(dataclasses.replace(front_end, norm=norm), options, "num_mel_bins", 128)


def _spectrogram_entries(front_end: LogMel) -> dict[str, Any]:
    norm = front_end.norm
    extent = front_end.extent
    statistics = {"mean": norm.mean, "std": norm.std / 2} if isinstance(norm, FixedNorm) else {"do_normalize": False}
    length = {"max_length": extent.size} if isinstance(extent, FixedFrames) else {}
    return {"num_mel_bins": front_end.mels, "sampling_rate": front_end.rate} | statistics | length


def _speech(options: Options) -> LogMel:
    return _with_mels(front_ends.speech2text(), options, "num_mel_bins", 80)


def _speech_entries(front_end: LogMel) -> dict[str, Any]:
    mels = {"feature_size": front_end.mels, "num_mel_bins": front_end.mels}
    return mels | {"sampling_rate": front_end.rate}


def _whisper(options: Options) -> LogMel:
    window = options.size("n_fft", 400)
    sizes: dict[str, Any] = {"window": window, "fft": window, "hop": options.size("hop_length", 160)}
    samples = options.size("chunk_length", 30) * options.size("sampling_rate", 16_000)
    front_end = dataclasses.replace(front_ends.whisper(), extent=FixedSamples(samples), **sizes)
    return _with_mels(front_end, options, "feature_size", 80)


def _whisper_entries(front_end: LogMel) -> dict[str, Any]:
    extent = front_end.extent
    length = {"chunk_length": extent.size // front_end.rate} if isinstance(extent, FixedSamples) else {}
    sizes = {"feature_size": front_end.mels, "sampling_rate": front_end.rate, "n_fft": front_end.fft}
    return sizes | {"hop_length": front_end.hop} | length


def _parakeet(options: Options) -> LogMel:
    window, fft, hop = (options.size(key, x) for key, x in (("win_length", 400), ("n_fft", 512), ("hop_length", 160)))
    emphasis = SignalEmphasis(options.get("preemphasis", 0.97))
    front_end = dataclasses.replace(front_ends.parakeet(), window=window, fft=fft, hop=hop, emphasis=emphasis)
    return _with_mels(front_end, options, "feature_size", 80)


def _parakeet_entries(front_end: LogMel) -> dict[str, Any]:
    emphasis = front_end.emphasis
    factor = {"preemphasis": emphasis.factor} if isinstance(emphasis, SignalEmphasis) else {}
    sizes = {"win_length": front_end.window, "n_fft": front_end.fft, "hop_length": front_end.hop}
    return sizes | factor | {"feature_size": front_end.mels, "sampling_rate": front_end.rate}


def _with_mels(front_end: LogMel, options: Options, key: str, default: int) -> LogMel:
    """The front end at the file's rate with its number of filters, of which some may be empty as in the reference."""
    rate = options.size("sampling_rate", 16_000)
    mels = options.size(key, default)
    front_end = dataclasses.replace(front_end, rate=rate, mels=mels)
    empty = int((front_end.mel_matrix().sum(0) == 0).sum())
    filters = dataclasses.replace(front_end.filters, allowed_empty=empty)
    return dataclasses.replace(front_end, filters=filters)


EXTRACTORS: dict[str, Extractor] = {
    "ASTFeatureExtractor": Extractor(_spectrogram, _spectrogram_entries, {"feature_size": 1, "padding_value": 0.0}),
    "Speech2TextFeatureExtractor": Extractor(
        _speech,
        _speech_entries,
        {"dither": 0.0, "do_ceptral_normalize": True, "normalize_means": True, "normalize_vars": True},
    ),
    "WhisperFeatureExtractor": Extractor(_whisper, _whisper_entries, {"dither": 0.0, "padding_value": 0.0}),
    "ParakeetFeatureExtractor": Extractor(_parakeet, _parakeet_entries, {"padding_value": 0.0}),
}
