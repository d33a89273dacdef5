"""The experiments of imported models of audio. Their data are a folder that is still to be named."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from txjax.data import AudioFolder, ByName, LabelledAudio, TextNormalization, TokenizerFolder, Utterances
from txjax.data.audio.transcripts import can_encode
from txjax.data.class_names import known_names, names_of_config
from txjax.data.tokenizers.tokenizer_folder import GENERATION
from txjax.decoding import Beam, BestPath
from txjax.errors import UserError
from txjax.eval import ErrorRates, Evaluation
from txjax.experiment import Experiment
from txjax.interop.huggingface.audio_reading import front_end_of
from txjax.interop.huggingface.folder_tokenizer import folder_tokenizer
from txjax.interop.huggingface.options import FILE as CONFIG
from txjax.models.audio.speech_transformer.speech_transformer import SpeechTransformer
from txjax.nn import Classes, TokenClasses
from txjax.nn.audio.extents import FixedFrames, FixedSamples
from txjax.objectives import CTC, Classification, NextToken
from txjax.tree import read_json

log = logging.getLogger("txjax")

_SECONDS = 30  # of the longest recording, where the front end has no length of its own
_LENGTH = 512  # of the longest transcript, where the model has no limit
_ENGLISH = "<|en|>"


def audio_experiment(model: Any, folder: Path, kept: Path) -> Experiment | None:
    """An experiment with a classifier, a model that is trained by CTC or a decoder of speech; None for another one.

    Args:
      folder: with the files beside the weights.
      kept: where the experiment finds them, once they are there.

    Raises:
      UserError: a classifier without a preprocessor_config.json; a tokenizer that the model or its texts don't have.
    """
    if isinstance(model, SpeechTransformer):
        return _of_texts(model, folder, kept)
    if isinstance(model.head, TokenClasses):
        return _of_frames(model, folder, kept)
    return _of_classes(model, folder) if isinstance(model.head, Classes) else None


def _of_classes(model: Any, folder: Path) -> Experiment:
    """A class of the folder is the model's class of the same name, if its config.json has names."""
    if model.front_end is None:
        expected = "a folder with preprocessor_config.json, which says how audio is read"
        raise UserError("--from", expected, "none")
    names = known_names(names_of_config(read_json(folder / CONFIG)))
    label = "label" if names is None else ByName(names=names)
    data = LabelledAudio(**recordings(model.front_end), label=label, too_long="cut")
    held_out = LabelledAudio(split="validation", too_long="cut")
    evals: dict[str, Any] = {"valid": Evaluation(data=held_out)}
    return Experiment(model=model, objective=Classification(), data=data, evals=evals, batch_size=8)


def _of_frames(model: Any, folder: Path, kept: Path) -> Experiment:
    """The blank of CTC is the token that pads texts in transformers."""
    classes = model.head.classes
    tokenizer = folder_tokenizer(folder, classes)
    blank = tokenizer.setting(CONFIG).get("pad_token_id", tokenizer.roles().pad)
    if type(blank) is not int or not 0 <= blank < classes:
        raise UserError(f"{CONFIG}: pad_token_id", f"the blank, a token from 0 to {classes - 1}", blank)
    objective = CTC(blank=-1 if blank == classes - 1 else blank)
    data = Utterances(
        **recordings(model.front_end),
        length=_LENGTH,
        tokenizer=TokenizerFolder(path=str(kept)),
        normalization=normalization_for(tokenizer),
    )
    evals: dict[str, Any] = {"valid": ErrorRates(data=Utterances(split="validation"), search=BestPath())}
    return Experiment(model=model, objective=objective, data=data, evals=evals, batch_size=8)


def _of_texts(model: SpeechTransformer, folder: Path, kept: Path) -> Experiment:
    tokenizer = folder_tokenizer(folder, model.vocab)
    if not tokenizer.roles().eos:
        raise UserError("--from", "a tokenizer with a token that ends a text", f"none in {folder}")
    data = Utterances(
        **recordings(front_end_of(model)),
        length=min(_LENGTH, getattr(model.positions, "max_length", _LENGTH)),
        tokenizer=TokenizerFolder(path=str(kept)),
        normalization=normalization_for(tokenizer),
        prompt=prompt_names(tokenizer),
    )
    evals: dict[str, Any] = {"valid": ErrorRates(data=Utterances(split="validation"), search=Beam())}
    return Experiment(model=model, objective=NextToken(), data=data, evals=evals, batch_size=8)


def recordings(front_end: Any) -> dict[str, Any]:
    """The fields of a folder of recordings, at the front end's rate and as long as its features."""
    extent = getattr(front_end, "extent", None)
    samples = _SECONDS * front_end.rate
    if isinstance(extent, FixedSamples):
        samples = extent.size
    elif isinstance(extent, FixedFrames):
        samples = front_end.window + front_end.hop * (extent.size - 1)
    return {"source": AudioFolder(), "rate": front_end.rate, "samples": samples}


def normalization_for(tokenizer: TokenizerFolder) -> TextNormalization:
    """The case of transcripts: of letters in one case, where the tokenizer has no others."""
    lower, upper = (can_encode(tokenizer, letter) for letter in ("e", "E"))
    return TextNormalization(case="keep" if lower == upper else "lower" if lower else "upper")


def prompt_names(tokenizer: TokenizerFolder) -> tuple[str, ...]:
    """The names of the tokens that begin each text, by config.json and generation_config.json.

    The first one is `decoder_start_token_id`. Others are those that generation forces; where it leaves the language
    to be recognised, English.
    """
    config, generation = (tokenizer.setting(name) for name in (CONFIG, GENERATION))
    settings = config | {key: value for key, value in generation.items() if value is not None}
    numbers = [settings.get(key) for key in ("decoder_start_token_id", "forced_bos_token_id")]
    numbers += _forced(settings.get("forced_decoder_ids"), tokenizer)
    numbers.append(settings.get("no_timestamps_token_id"))
    names = [tokenizer.name_of([number]) for number in dict.fromkeys(numbers) if type(number) is int and number >= 0]
    return tuple(name for name in names if name is not None)


def _forced(pairs: Any, tokenizer: TokenizerFolder) -> list[int]:
    """The tokens of `forced_decoder_ids`: positions in the text and their tokens, null for a language."""
    pairs = pairs or []
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise UserError(f"{CONFIG}: forced_decoder_ids", "positions and their tokens", pairs)
    if None in (number for _, number in pairs):
        log.warning("config.data.prompt has the language %s: name another one there", _ENGLISH)
    return [tokenizer.special(_ENGLISH) if number is None else number for _, number in pairs]
