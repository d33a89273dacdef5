"""How an imported model reads images, as its preprocessor_config.json says."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from txjax.data import CenterCrop, Channels, PadSquare, Resize, Stretch, Transform
from txjax.errors import UserError
from txjax.interop.huggingface.options import FILE as CONFIG
from txjax.interop.huggingface.options import Options
from txjax.tree import read_json

log = logging.getLogger("txjax")

PREPROCESSOR = "preprocessor_config.json"
BICUBIC = 3  # the number of Pillow's filter
_PADDING = "LlavaImageProcessor"
_FILTERS = {0: "nearest", 1: "Lanczos", 2: "bilinear", 4: "box", 5: "Hamming"}
# Pixels from which images are resized to a square, where a file has a `crop_pct` and no `crop_size`: ConvNeXt's rule.
_STRETCHED = 384


def image_fields(folder: Path) -> dict[str, Any]:
    """The fields of `Images` for a model's images: shape, mean, std and transforms.

    Args:
      folder: the Hugging Face folder, which has config.json and preprocessor_config.json.

    Raises:
      UserError: there is no preprocessor_config.json, or images are read in a way that txjax has not.
    """
    config = Options(read_json(folder / CONFIG))
    channels = config.size("num_channels", config.part("vision_config").size("num_channels", 3))
    if not (folder / PREPROCESSOR).exists():
        raise UserError("--from", f"a folder with {PREPROCESSOR}, which says how images are read", "none")
    options = Options(read_json(folder / PREPROCESSOR), PREPROCESSOR)
    options.require(do_resize=True, do_rescale=True, rescale_factor=1 / 255)
    options.require(rescale_offset=False, include_top=False)  # of EfficientNet's processor, which normalises twice
    if (resample := options.get("resample", BICUBIC)) != BICUBIC:
        log.warning("%s: images are resized bicubic here, not %s", PREPROCESSOR, _FILTERS.get(resample, resample))
    transforms, side = _resizing(options)
    if not _pads(options):
        transforms = (*transforms, Channels(channels))
    else:
        transforms = (Channels(channels), PadSquare(_numbers(options, "image_mean")), *transforms)
    fields: dict[str, Any] = {"shape": (side, side, channels), "transforms": transforms}
    if not options.get("do_normalize", True):
        return fields | {"mean": (0.0,), "std": (1.0,)}
    return fields | {"mean": _numbers(options, "image_mean"), "std": _numbers(options, "image_std")}


def _pads(options: Options) -> bool:
    """Whether images are padded to squares, in the colour of the mean: `do_pad` of LLaVA's processor alone."""
    if not str(options.values.get("image_processor_type")).startswith("Llava"):
        options.require(do_pad=False)
    return bool(options.get("do_pad", False))


def padding_entries(transforms: Sequence[Transform], mean: Sequence[float], there: Mapping[str, Any]) -> dict[str, Any]:
    """What preprocessor_config.json says of padding to squares, as far as `there` says something else.

    Args:
      transforms: of the data.
      mean: of its pixels (/ 255), one for each channel.
    """
    pads = [transform for transform in transforms if isinstance(transform, PadSquare)]
    if pads and {*pads[0].color} != {*mean}:
        log.warning("%s: images are padded with image_mean, not with %s", PREPROCESSOR, pads[0].color)
    if bool(pads) == bool(there.get("do_pad", False)):
        return {}
    return {"do_pad": True, "do_center_crop": False, "image_processor_type": _PADDING} if pads else {"do_pad": False}


def _numbers(options: Options, key: str) -> tuple[float, ...]:
    """A list of numbers, one for all channels or one for each."""
    values = options.values.get(key, [0.5])
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        raise options.refuse(key, "a list of numbers", values)
    return tuple(map(float, values))


def _resizing(options: Options) -> tuple[tuple[Transform, ...], int]:
    """The transforms that bring an image to the model's size, and its side in pixels."""
    values = options.values
    size = values.get("size", 224)
    edge = size.get("shortest_edge") if isinstance(size, dict) else size if _is_clip(values) else None
    share = values.get("crop_pct")
    side = edge if edge is not None else _side(options, "size", size)
    if type(side) is not int or side < 1:
        raise options.refuse("size", "a number of pixels", size)
    if share is not None and not (type(share) in (int, float) and 0 < share <= 1):
        raise options.refuse("crop_pct", "a share above 0, at most 1", share)
    if share is not None:
        if side >= _STRETCHED and "crop_size" not in values:
            return (Stretch(side),), side
        crop = _side(options, "crop_size", values.get("crop_size", side))
        return (Resize(int(side / share)), CenterCrop(crop)), crop
    resizes: tuple[Transform, ...] = (Resize(side) if edge is not None else Stretch(side),)
    if values.get("do_center_crop", "crop_size" in values):
        crop = _side(options, "crop_size", values.get("crop_size", side))
        return (*resizes, CenterCrop(crop)), crop
    if edge is not None:
        raise options.refuse("size", "a square, or a shortest_edge with do_center_crop or crop_pct", size)
    return resizes, side


def _is_clip(values: Mapping[str, Any]) -> bool:
    """Whether a file is of CLIP's processor, for which a size that is one number is the shorter side's."""
    return any(str(values.get(key)).startswith("CLIP") for key in ("image_processor_type", "feature_extractor_type"))


def _side(options: Options, key: str, size: Any) -> int:
    """The side of a square, from a number or from height and width. Raises UserError for another shape."""
    side, other = (size.get("height"), size.get("width")) if isinstance(size, dict) else (size, size)
    if type(side) is not int or side != other or side < 1:
        raise options.refuse(key, "the side of a square", size)
    return side
