"""What stands beside the weights of an exported run: special tokens, class names, tokenizer, how inputs are read."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from txjax import tree
from txjax.data import (
    Bytes,
    Completions,
    Conversations,
    Dataset,
    Images,
    Pairs,
    Tags,
    Tokenizer,
    TokenizerFolder,
    Trained,
)
from txjax.data.loading.limits import size_of
from txjax.data.text.sentences import Sentences
from txjax.data.text.text_windows import Text
from txjax.data.tokenizers.tokenizer_folder import FILE as TOKENIZER
from txjax.data.tokenizers.tokenizer_folder import GENERATION, SETTINGS, SPECIALS, TEMPLATE
from txjax.data.tokenizers.vocabulary_files import VOCABULARIES
from txjax.data.tokenizers.written_tokenizer import write_tokenizer
from txjax.errors import UserError
from txjax.experiment import Experiment
from txjax.interop.huggingface.audio_reading import PART, PROCESSOR, extractor_entries, front_end_of, read_front_end
from txjax.interop.huggingface.image_reading import BICUBIC, PREPROCESSOR, padding_entries
from txjax.interop.huggingface.options import FILE as CONFIG
from txjax.interop.huggingface.representation import TOKENS
from txjax.io.files import replace_text
from txjax.io.kept_files import files_beside_weights
from txjax.models.multimodal.two_towers.two_towers import TwoTowers
from txjax.objectives import MaskedPatch, SpanCorruption

log = logging.getLogger("txjax")

OF_A_TOKENIZER = tuple(dict.fromkeys((TOKENIZER, SETTINGS, SPECIALS, TEMPLATE, *itertools.chain(*VOCABULARIES))))


def describe_run(experiment: Experiment, kept: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A run's model with the image size of its data, and what its config.json has besides the model.

    Args:
      kept: the config.json of an imported folder, or nothing.
    """
    model = experiment.model
    spec = experiment.data.spec()
    data = experiment.data
    if getattr(model, "image_size", None) == () and "image" in spec:
        model = model.clone(image_size=spec["image"].shape[:2])
    facts = {**kept, **_token_entries(experiment, kept), **_class_entries(data, size_of(model, "head.classes"))}
    if isinstance(model, TwoTowers):
        facts["text_config"] = {**_frame_entries(tokenizer_of(experiment)), **kept.get("text_config", {})}
    match experiment.objective, data:
        case MaskedPatch(rate=rate, target=target), _:
            facts |= {"mask_ratio": rate, "norm_pix_loss": target == "normalised"}
        case SpanCorruption(start_id=start, end_id=end), _:
            facts |= {"decoder_start_token_id": start, "eos_token_id": end}
        case _, Pairs(tokenizer=tokenizer) as pairs:
            start, end = (tokenizer.special(name) for name in (pairs.start, pairs.end))
            facts |= {"decoder_start_token_id": start, "eos_token_id": end}
    return model, facts


def write_companions(experiment: Any, kept: Path, to: Path, config: Mapping[str, Any]) -> None:
    """Writes the files beside config.json and the weights: what a run keeps, and what its data say.

    Kept files are copied byte for byte, unless the run's data end texts at another token, or have other pixels.

    Args:
      experiment: of the run, or a model alone.
      kept: the folder with what is kept of an import; it need not exist.
      config: the content of config.json.
    """
    data = getattr(experiment, "data", None)
    tokenizer = tokenizer_of(experiment)
    files = {path: kept / path for path in files_beside_weights(kept)}
    if isinstance(tokenizer, Trained | Bytes):
        try:
            write_tokenizer(tokenizer, to)
            _merge(to / SETTINGS, _input_entries(experiment))
            files = {path: file for path, file in files.items() if path.name not in OF_A_TOKENIZER}
        except UserError as error:
            log.warning("the export has no tokenizer: %s", error)
    elif isinstance(tokenizer, TokenizerFolder) and not _is_kept(tokenizer, kept):
        files = {path: file for path, file in files.items() if path.name not in OF_A_TOKENIZER}
        beside = [tokenizer.file(), *(tokenizer.file().with_name(name) for name in OF_A_TOKENIZER)]
        files |= {Path(file.name): file for file in beside if file.is_file()}
    for path, file in files.items():
        if path != Path(CONFIG):
            (to / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, to / path)
    if not (to / GENERATION).is_file():
        tokens = {key: config[key] for key in TOKENS if config.get(key) is not None}
        _merge(to / GENERATION, tokens if "eos_token_id" in tokens else {})
    elif data is not None:
        _merge(to / GENERATION, _end_entries(_read(to / GENERATION), _end(data)))
    if isinstance(data, Images) or isinstance(data, Conversations) and data.image_feature:
        _merge(to / PREPROCESSOR, _pixel_entries(data, _read(to / PREPROCESSOR)))
    front_end = front_end_of(getattr(experiment, "model", experiment))
    if front_end is not None and read_front_end(to) != front_end:
        part = _read(to / PROCESSOR).get(PART)
        entries = extractor_entries(front_end)
        _merge(*((to / PREPROCESSOR, entries) if part is None else (to / PROCESSOR, {PART: {**part, **entries}})))


def _input_entries(experiment: Any) -> dict[str, Any]:
    """How sentences are read as in training; and the inputs of a model whose tokens have types."""
    entries: dict[str, Any] = {}
    if isinstance(data := getattr(experiment, "data", None), Sentences):  # names of special tokens in a text are text
        entries |= {"model_max_length": data.length, "split_special_tokens": True}
    if (getattr(getattr(experiment, "model", experiment), "types", None) or 0) > 1:
        entries["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    return entries


def tokenizer_of(experiment: Any) -> Tokenizer | None:
    """The tokenizer of a run's texts; None if it has none."""
    nodes = (getattr(node, "tokenizer", None) for _, node in tree.walk(getattr(experiment, "data", None), "data"))
    return next((node for node in nodes if isinstance(node, Tokenizer)), None)


def _is_kept(tokenizer: TokenizerFolder, kept: Path) -> bool:
    """Whether the data's tokenizer is the kept one, or is gone, as the import may be that the run started from."""
    try:
        digest = tokenizer.vocabulary_digest()
    except UserError as error:
        log.warning("the export has the kept tokenizer, if there is one: %s", error)
        return True
    with contextlib.suppress(UserError):
        return TokenizerFolder(str(kept)).vocabulary_digest() == digest
    return False


def _token_entries(experiment: Experiment, there: Mapping[str, Any]) -> dict[str, Any]:
    """The tokens that begin, end and fill texts, for a run that predicts the next token; `there` may have them."""
    tokenizer = tokenizer_of(experiment)
    if tokenizer is None or "targets" not in experiment.objective.required_keys:
        return {}
    try:
        roles = tokenizer.roles()
    except UserError as error:
        log.warning("config.json has the tokens of the kept one, if there is one: %s", error)
        return {}
    ids = {"bos_token_id": roles.bos, "eos_token_id": _one_or_all(roles.eos), "pad_token_id": roles.pad}
    missing = {key: number for key, number in ids.items() if number is not None and there.get(key) is None}
    return missing | _end_entries({**missing, **there}, _end(experiment.data))


def _frame_entries(tokenizer: Tokenizer | None) -> dict[str, Any]:
    """The tokens around a text and behind it, of a tower that reads texts at the token that ends them."""
    if tokenizer is None:
        return {}
    try:
        before, after = tokenizer.frame(1).marks
        ids = {"bos_token_id": before, "eos_token_id": after[::-1], "pad_token_id": (tokenizer.roles().pad,)}
    except UserError as error:
        log.warning("config.json has no token that ends texts, so transformers takes the largest one: %s", error)
        return {}
    return {key: numbers[0] for key, numbers in ids.items() if numbers and numbers[0] is not None}


def _end(data: Any) -> int | None:
    """The token that ends the texts of the data; None if they end with none, or if their tokenizer is gone."""
    with contextlib.suppress(UserError):
        if isinstance(data, Completions):
            return data.ends()[0]
        if isinstance(data, Text) and data.end is not None:
            return data.marks()[1][0]
    return None


def _end_entries(there: Mapping[str, Any], end: int | None) -> dict[str, Any]:
    """What makes a file end texts at this token, too."""
    ends = there.get("eos_token_id")
    ends = ends if isinstance(ends, list) else [] if ends is None else [ends]
    return {} if end is None or end in ends else {"eos_token_id": _one_or_all([end, *ends])}


def _one_or_all(ids: Sequence[int]) -> Any:
    """The one of several numbers, their list, or None if there is none."""
    return (ids[0] if len(ids) == 1 else [*ids]) if ids else None


def _class_entries(data: Dataset, count: int | None) -> dict[str, Any]:
    """The names of the data's classes, if the model's head has as many."""
    if count is None:
        return {}
    try:
        names = data.class_names()
    except UserError as error:
        log.warning("config.json has no names of classes: %s", error)
        return {}
    if not names or len(names) != count:
        return {}
    several = {"problem_type": "multi_label_classification"} if isinstance(getattr(data, "label", None), Tags) else {}
    numbers = {name: number for number, name in enumerate(names)}
    return several | {"id2label": {str(number): name for name, number in numbers.items()}, "label2id": numbers}


def _pixel_entries(data: Images | Conversations, there: Mapping[str, Any]) -> dict[str, Any]:
    """How images become those of the data, for preprocessor_config.json, as far as `there` says something else."""
    height, width, channels = data.shape
    mean, std = ([*numbers] * (channels if len(numbers) == 1 else 1) for numbers in (data.mean, data.std))
    entries: dict[str, Any] = {"image_mean": mean, "image_std": std}
    if not there.get("do_normalize", True) or any(there.get(key) != value for key, value in entries.items()):
        entries["do_normalize"] = True
    sizes = [there.get("crop_size") or there.get("size")]
    if {"height": height, "width": width} not in sizes and not (height == width and height in _numbers(sizes)):
        entries |= {"do_resize": True, "size": {"height": height, "width": width}, "resample": BICUBIC}
    if not {"image_processor_type", "feature_extractor_type"} & set(there):
        entries |= {"image_processor_type": "ViTImageProcessor", "do_rescale": True, "rescale_factor": 1 / 255}
    return entries | padding_entries(data.transforms, mean, there)


def _numbers(sizes: Sequence[Any]) -> set[Any]:
    """The numbers of some sizes, which are numbers themselves or have sides."""
    return {number for size in sizes for number in (size.values() if isinstance(size, dict) else [size])}


def _read(path: Path) -> dict[str, Any]:
    """The content of a JSON file; {} if there is none."""
    return dict(tree.read_json(path)) if path.is_file() else {}


def _merge(path: Path, entries: Mapping[str, Any]) -> None:
    """Adds entries to a JSON file. A file that has them already stays as it is."""
    there = _read(path)
    if any(there.get(key) != value for key, value in entries.items()):
        replace_text(path, json.dumps({**there, **entries}, indent=2) + "\n")
