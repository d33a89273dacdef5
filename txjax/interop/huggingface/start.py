"""The experiment of an imported model, so that `evaluate` and `generate` work at once.

Its data are a placeholder: every field can be overridden.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from txjax.data import ByName, ImageFolder, Images, NextTokenWindows, Pairs, SentencePairs, TextWindows, TokenizerFolder
from txjax.data.class_names import known_names, names_of_config
from txjax.data.loading.limits import size_of
from txjax.errors import UserError
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.interop.huggingface.audio_experiments import audio_experiment
from txjax.interop.huggingface.conversation_experiments import conversation_experiment
from txjax.interop.huggingface.folder_tokenizer import folder_tokenizer
from txjax.interop.huggingface.image_reading import image_fields
from txjax.interop.huggingface.options import FILE as CONFIG
from txjax.models.audio.speech_transformer.speech_transformer import SpeechTransformer
from txjax.models.multimodal.llava.llava import LLaVA
from txjax.models.text.bert.bert import Bert
from txjax.models.text.decoder.decoder import Decoder
from txjax.models.text.encoder_decoder.encoder_decoder import EncoderDecoder
from txjax.nn import Pooled, Projected
from txjax.objectives import Classification, MaskedToken, NextToken, Objective
from txjax.tree import read_json

_LENGTH = 256


def experiment(model: Any, folder: Path, kept: Path) -> Experiment | None:
    """An experiment with the model: of conversations about images, of texts, of audio, or a classifier of images; None
    for another one.

    Args:
      folder: with the files beside the weights.
      kept: where the experiment finds them, once they are there.

    Raises:
      UserError: a model of texts without a tokenizer, with one of too many tokens, or without the special tokens that
        it needs; a model of images without a preprocessor_config.json, or with one that txjax can't follow.
    """
    if isinstance(model, LLaVA):
        return conversation_experiment(model, folder, kept)
    if isinstance(model, Decoder | Bert | EncoderDecoder) and not _is_text_tower(model):
        return _of_texts(model, folder, kept)
    if hasattr(model, "front_end") or isinstance(model, SpeechTransformer):
        return audio_experiment(model, folder, kept)
    if "image" in inspect.signature(model.__call__).parameters and size_of(model, "head.classes") is not None:
        return _of_images(model, folder)
    return None


def _is_text_tower(model: Any) -> bool:
    """Whether it is a decoder that gives one vector a text, which no text alone trains."""
    return isinstance(model, Decoder) and isinstance(model.head, Pooled | Projected)


def _of_images(model: Any, folder: Path) -> Experiment:
    """The classification of images of a folder that is still to be named: `--config.data.source`.

    A class of the folder is the model's class of the same name, if its config.json has names.
    """
    names = known_names(names_of_config(read_json(folder / CONFIG)))
    label = "label" if names is None else ByName(names=names)
    data = Images(source=ImageFolder(), label=label, **image_fields(folder))
    held_out = Images(split="validation", transforms=data.transforms)
    evals: dict[str, Any] = {"valid": Evaluation(data=held_out)}
    return Experiment(model=model, objective=Classification(), data=data, evals=evals, batch_size=8)


def _of_texts(model: Any, folder: Path, kept: Path) -> Experiment:
    """The training of a text model on the embedded text, of an encoder-decoder the source and the target."""
    tokenizer = folder_tokenizer(folder, model.vocab)
    roles = tokenizer.roles()
    length = min(_LENGTH, getattr(model.positions, "max_length", _LENGTH) - getattr(model.positions, "first", 0))
    fields: dict[str, Any] = {"length": length, "tokenizer": TokenizerFolder(path=str(kept))}
    objective: Objective
    kind: type[TextWindows] | type[Pairs]
    if isinstance(model, Decoder):
        kind = NextTokenWindows
        objective = NextToken()
        fields |= {"start": tokenizer.name_of(tokenizer.opening()), "end": tokenizer.name_of(roles.eos)}
    elif isinstance(model, EncoderDecoder):
        kind = Pairs
        objective = NextToken()
        start = tokenizer.name_of([tokenizer.setting(CONFIG).get("decoder_start_token_id", roles.pad)])
        end = tokenizer.name_of(roles.eos)
        for name, role in ((start, "begins"), (end, "ends")):
            if name is None:
                raise UserError("--from", f"a tokenizer with a token that {role} a text", f"none in {folder}")
        fields |= dict(source_text="{text}", target_text="{text}", source_length=length, start=start, end=end)
    else:
        kind = SentencePairs if getattr(model.head, "next_sentence", None) else TextWindows
        if kind is SentencePairs and model.stack.groups is not None:
            fields["other"] = "swapped"  # as ALBERT is trained
        if roles.mask is None:
            raise UserError("--from", "a tokenizer with a token that hides others", f"none in {folder}")
        objective = MaskedToken(mask_id=roles.mask, vocab=model.vocab)

    data = kind(name="txjax_python_text", split="train", **fields)
    held_out = kind(split="validation", **fields)  # of the same set
    evals: dict[str, Any] = {"valid": Evaluation(data=held_out, max_batches=32)}
    return Experiment(model=model, objective=objective, data=data, evals=evals, batch_size=8)
