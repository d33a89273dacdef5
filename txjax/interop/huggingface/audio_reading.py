"""How an imported model reads waveforms: the front end that its files describe, both ways.

That is preprocessor_config.json, or the part `feature_extractor` of processor_config.json, as transformers 5 saves it
with a tokenizer.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from txjax.errors import UserError, near_misses
from txjax.interop.huggingface.image_reading import PREPROCESSOR
from txjax.interop.huggingface.options import Options
from txjax.nn.audio import front_ends
from txjax.nn.audio.emphasis import Emphasis, SignalEmphasis
from txjax.nn.audio.extents import FixedFrames, FixedSamples
from txjax.nn.audio.feature_norms import FeatureNorm, FixedNorm
from txjax.nn.audio.log_mel import LogMel
from txjax.nn.audio.waveform_convs import WaveformSamples
from txjax.tree import read_json

log = logging.getLogger("txjax")

PROCESSOR = "processor_config.json"
PART = "feature_extractor"
TYPE = "feature_extractor_type"
# Options that don't change features.
UNREAD = (TYPE, "processor_class", "return_attention_mask")
REQUIRED = {"padding_side": "right", "padding_value": 0.0}

AnyFrontEnd = LogMel | WaveformSamples


class Extractor(NamedTuple):
    """A class of feature extractors.

    Attributes:
      front_end: from the options of its file to the front end.
      entries: from a front end to those of its options that may differ. If the front end has other parts, any.
      read: the names of the options that `front_end` reads.
      required: the options that have one value, besides `REQUIRED`.
      unread: the names of further options that don't change features.
      kind: the class of its front ends.
    """

    front_end: Callable[[Options], AnyFrontEnd]
    entries: Callable[[Any], dict[str, Any]]
    read: tuple[str, ...]
    required: Mapping[str, Any] = {}
    unread: tuple[str, ...] = ()
    kind: type[AnyFrontEnd] = LogMel

    def check(self, options: Options) -> None:
        """Raises UserError, with its name, for an option that isn't known or has another value than the only one."""
        options.require(**REQUIRED, **self.required)
        known = {*self.read, *self.required, *REQUIRED, *self.unread, *UNREAD}
        for name, value in options.values.items():
            if name not in known and value is not None:
                raise options.refuse(name, "no such option", value, near_misses(name, known))


def front_end_of(model: Any) -> Any:
    """The front end of a model of audio or of its encoder; None if it has none."""
    return getattr(model if hasattr(model, "front_end") else getattr(model, "encoder", None), "front_end", None)


def with_front_end(model: Any, front_end: AnyFrontEnd) -> Any:
    """The model with this front end, in its encoder if that has it; a model of another modality as it is."""
    if hasattr(model, "front_end"):
        return model.clone(front_end=front_end)
    encoder: Any = getattr(model, "encoder", None)
    return model.clone(encoder=encoder.clone(front_end=front_end)) if hasattr(encoder, "front_end") else model


def read_front_end(folder: Path) -> AnyFrontEnd | None:
    """The front end that a folder's files describe; None without such a file, or with one of another modality.

    Raises:
      UserError: features are extracted in a way that txjax has not.
    """
    options = _extractor_options(folder)
    name = options.get(TYPE, "")
    if name not in EXTRACTORS:
        if name:
            log.warning("%s: no front end of txjax is a %s; the model's is kept", options.file, name)
        return None
    EXTRACTORS[name].check(options)
    return EXTRACTORS[name].front_end(options)


def _extractor_options(folder: Path) -> Options:
    """The options of a folder's feature extractor, none if it has none; as in transformers, of PROCESSOR first."""
    if (folder / PROCESSOR).is_file():
        part = Options(read_json(folder / PROCESSOR), PROCESSOR).part(PART)
        if part.values:
            return part
    file = folder / PREPROCESSOR
    return Options(read_json(file) if file.is_file() else {}, PREPROCESSOR)


def extractor_entries(front_end: Any) -> dict[str, Any]:
    """The preprocessor_config.json of a front end; with a warning none, if no feature extractor is equal to it."""
    for name, extractor in EXTRACTORS.items():
        if not isinstance(front_end, extractor.kind):
            continue
        entries = {TYPE: name, **REQUIRED, **extractor.required, **extractor.entries(front_end)}
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
    factor = None if options.values.get("preemphasis", 0) is None else options.get("preemphasis", 0.97)
    emphasis = Emphasis() if factor is None else SignalEmphasis(factor)
    front_end = dataclasses.replace(front_ends.parakeet(), window=window, fft=fft, hop=hop, emphasis=emphasis)
    return _with_mels(front_end, options, "feature_size", 80)


def _parakeet_entries(front_end: LogMel) -> dict[str, Any]:
    emphasis = front_end.emphasis
    factor = {"preemphasis": emphasis.factor if isinstance(emphasis, SignalEmphasis) else None}
    sizes = {"win_length": front_end.window, "n_fft": front_end.fft, "hop_length": front_end.hop}
    return sizes | factor | {"feature_size": front_end.mels, "sampling_rate": front_end.rate}


def _with_mels(front_end: LogMel, options: Options, key: str, default: int) -> LogMel:
    """The front end at the file's rate with its number of filters, of which some may be empty as in the reference."""
    rate = options.size("sampling_rate", 16_000)
    mels = options.size(key, default)
    front_end = dataclasses.replace(front_end, rate=rate, mels=mels)
    empty = int((front_end.mel_matrix().sum(0) == 0).sum())
    filters = dataclasses.replace(front_end.filters, allowed_empty=empty)
    front_end = dataclasses.replace(front_end, filters=filters)
    front_end.check()
    return front_end


def _samples(options: Options) -> WaveformSamples:
    front_end = WaveformSamples(rate=options.size("sampling_rate", 16_000))
    norm = front_end.norm if options.get("do_normalize", True) else FeatureNorm()
    return dataclasses.replace(front_end, norm=norm)


def _samples_entries(front_end: WaveformSamples) -> dict[str, Any]:
    return {"sampling_rate": front_end.rate, "do_normalize": type(front_end.norm) is not FeatureNorm}


EXTRACTORS: dict[str, Extractor] = {
    "ASTFeatureExtractor": Extractor(
        _spectrogram,
        _spectrogram_entries,
        read=("do_normalize", "max_length", "mean", "num_mel_bins", "sampling_rate", "std"),
        required={"feature_size": 1},
    ),
    "Speech2TextFeatureExtractor": Extractor(
        _speech,
        _speech_entries,
        read=("num_mel_bins", "sampling_rate"),
        required={"dither": 0.0, "do_ceptral_normalize": True, "normalize_means": True, "normalize_vars": True},
        unread=("feature_size",),
    ),
    "WhisperFeatureExtractor": Extractor(
        _whisper,
        _whisper_entries,
        read=("chunk_length", "feature_size", "hop_length", "n_fft", "sampling_rate"),
        required={"dither": 0.0},
        unread=("mel_filters", "n_samples", "nb_max_frames"),  # computed of the others
    ),
    "ParakeetFeatureExtractor": Extractor(
        _parakeet,
        _parakeet_entries,
        read=("feature_size", "hop_length", "n_fft", "preemphasis", "sampling_rate", "win_length"),
    ),
    "Wav2Vec2FeatureExtractor": Extractor(
        _samples,
        _samples_entries,
        read=("do_normalize", "sampling_rate"),
        required={"feature_size": 1},
        kind=WaveformSamples,
    ),
}
