"""The keys of a batch: their shapes, dtypes and meaning, and the check of a data set's spec against them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax

from txjax.errors import UserError, near_misses

Key = tuple[str, str, str]  # shape, dtype, meaning

# B batch, L length, S length of a source, O choices, I images, R regions, T samples or frames, N things in an image.
# H W height and width.
BATCH_KEYS: dict[str, Key] = {
    "id": ("B", "int32", "the example's number in its dataset; keys every random draw made for it"),
    "tokens": ("B L", "int32", "input token ids"),
    "targets": ("B L", "int32", "the token to predict at each position"),
    "weights": ("B L | B", "float32", "weight of each target (or example) in the loss; 0 = ignore"),
    "segments": ("B L", "int32", "document number inside the window, from 1; 0 = padding; attention stays inside"),
    "positions": ("B L", "int32", "position of each token inside its document"),
    "types": ("B L", "int32", "0 for the first, 1 for the second sentence of a pair"),
    "context": ("B L", "int32", "1 for the tokens of the context of a question, which its answer is a part of"),
    "languages": ("B L", "int32", "id of each token's language; any where there is padding"),
    "choice_tokens": ("B O L", "int32", "token ids of each of O choices, in its context"),
    "choice_segments": ("B O L", "int32", "segments of the choices; 0 = padding"),
    "choice_types": ("B O L", "int32", "0 for the context, 1 for the choice"),
    "choice_image": ("B O H W C", "float32", "the image of each choice, normalised by the dataset"),
    "next_sentence": (
        "B",
        "int32",
        "1 if the second sentence follows the first or belongs to it, 0 if not, below 0 if not known",
    ),
    "source_tokens": ("B S", "int32", "token ids of the source, which the encoder of an encoder-decoder reads"),
    "source_segments": ("B S", "int32", "segments of the source; 0 = padding"),
    "source_positions": ("B S", "int32", "position of each source token inside its document"),
    "start": ("B", "int32", "index in `tokens` of an answer's first token"),
    "end": ("B", "int32", "index in `tokens` of an answer's last token"),
    "image": ("B H W C", "float32", "pixels, normalised by the dataset"),
    "images": ("B I H W C", "float32", "pixels of the images of a text, in their order; zeros where there are fewer"),
    "regions": ("B R C", "float32", "features of R regions of an image, the first of which is the whole image"),
    "region_boxes": ("B R 4", "float32", "top, left, bottom, right of each region, as in `boxes`"),
    "region_segments": ("B R", "int32", "1 for each region; 0 = padding"),
    "region_classes": ("B R K", "float32", "probabilities of each region's K classes by a detector"),
    "clean_image": ("B H W C", "float32", "the image of the same example without augmentations, which a teacher sees"),
    "extent": ("B 2", "int32", "rows and columns of `image` that are not padding, which is below and to the right"),
    "stored_extent": ("B 2", "float32", "rows and columns of the stored image that `extent` shows"),
    "boxes": ("B N 4", "float32", "top, left, bottom, right of each box, as fractions of the image's height and width"),
    "box_labels": ("B N", "int32", "class of each box; -1 = padding"),
    "box_attributes": ("B N", "int32", "attribute of each box's object; -1 = none"),
    "box_areas": ("B N", "float32", "area of each box's object, in pixels of the stored image"),
    "crowd_boxes": ("B N 4", "float32", "boxes, as in `boxes`, of groups whose members are not annotated one by one"),
    "crowd_labels": ("B N", "int32", "class of each box of a group; -1 = padding"),
    "masks": ("B N H W | B H W", "int32", "1 inside each object, else 0; or the class of each pixel, -1 = ignore"),
    "points": ("B N 2", "float32", "row and column of each point, as fractions of the image's height and width"),
    "point_labels": ("B N", "int32", "1 for a point on the object, 0 off it; 2, 3 corners of its box; -1 = padding"),
    "audio": ("B T", "float32", "samples at the data set's rate, in [-1, 1]; 0 = padding"),
    "audio_length": ("B", "int32", "samples of `audio` that are not padding"),
    "transcript": ("B L", "int32", "symbols of the words that are heard, for CTC; 0 = padding"),
    "transcript_length": ("B", "int32", "symbols of `transcript` that are not padding"),
    "features": ("B T C", "float32", "frames of features, such as log mels; 0 = padding"),
    "features_length": ("B", "int32", "frames of `features` that are not padding"),
    "label": ("B", "int32", "class number"),
    "labels": ("B C", "float32", "1 for each class that an example has, else 0; in a mixture its share"),
    "other_label": ("B", "int32", "class of the example that was mixed in (mixup, cutmix)"),
    "mix": ("B", "float32", "share of `label` in a mixed example; the rest is `other_label`'s"),
    "value": ("B", "float32", "the number to predict"),
    "teacher": ("B V | B L V", "float32", "logits of a teacher, stored with the example"),
}

# What a model may read, and the keys that say how it is to be read.
MODALITIES: dict[str, tuple[str, ...]] = {
    "source_tokens": ("source_segments", "source_positions"),
    "tokens": ("segments", "positions", "types", "languages"),
    "image": ("extent",),
    "images": (),
    "regions": ("region_boxes", "region_segments"),
    "features": ("features_length",),
}

# What a text is written from: the modalities but the text itself, and the waveforms that features are made of.
SOURCES = (
    *(key for name, others in MODALITIES.items() if name != "tokens" for key in (name, *others)),
    "audio",
    "audio_length",
)


def read_modalities(call: Callable[..., Any] | None, batch: Mapping[str, Any]) -> dict[str, Any]:
    """What a model reads of a batch: the modalities that its call has arguments for, each with its further keys.

    Args:
      call: of the model. If None, it takes whatever there is.
    """
    parameters = {} if call is None else inspect.signature(call).parameters
    takes_all = call is None or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    modalities = [name for name in MODALITIES if name in batch and (takes_all or name in parameters)]
    keys = [key for name in modalities for key in (name, *MODALITIES[name])]
    return {key: batch[key] for key in keys if key in batch}


def part_of(key: str) -> tuple[str, str]:
    """The task of a key and its own name: `texts` and `tokens` of `texts/tokens`; `` and `tokens` of `tokens`."""
    task, _, name = key.rpartition("/")
    return task, name


def check_spec(kind: str, spec: Mapping[str, jax.ShapeDtypeStruct], dataset_keys: Mapping[str, Key]) -> None:
    """Checks the spec of an example against `BATCH_KEYS` and the keys `dataset_keys` of the data set.

    A key `task/key` (`data.tasks`) has an axis of rows before those of the table.

    Args:
      kind: the data set's class, for messages.

    Raises:
      UserError: a key is unknown, or has another rank or dtype; the field is `data`.
    """
    known = BATCH_KEYS | dict(dataset_keys)
    for key, x in spec.items():
        task, name = part_of(key)
        if name not in known:
            expected = f"{kind}.spec() with keys of txjax.data.keys.BATCH_KEYS or {kind}.keys()"
            raise UserError("data", expected, key, near_misses(name, known) or list(known))
        shapes, dtype, _ = known[name]
        ranks = {len(shape.split()) - 1 for shape in shapes.split(" | ")}
        if len(x.shape) - bool(task) not in ranks or str(x.dtype) != dtype:
            expected = f"{kind}.spec() with {key} as {dtype} [{shapes}], B aside"
            raise UserError("data", expected, f"{x.dtype}{list(x.shape)}")
