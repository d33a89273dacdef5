"""The models of the benchmarks as experiments, and synthetic data for them."""

import dataclasses
from typing import Any

import audio_models  # beside this file, as the next
import image_text_models
import jax
import numpy as np

from txjax.data import Bytes, Dataset, Detections, Images, NextTokenWindows, Pairs, TextWindows
from txjax.data.keys import part_of
from txjax.experiment import Experiment
from txjax.models import Model, Stage
from txjax.models.text.bert.bert import Bert
from txjax.models.text.deberta.deberta import deberta_v3
from txjax.models.text.decoder.decoder import gpt, llama
from txjax.models.text.electra.electra import Electra
from txjax.models.text.encoder_decoder.encoder_decoder import t5, transformer
from txjax.models.vision.conv_next import ConvNeXt
from txjax.models.vision.detr import DETR
from txjax.models.vision.res_net import ResidualStem, ResNet
from txjax.models.vision.swin import Swin, shifted_windows
from txjax.models.vision.vit.vit import ViT
from txjax.nn import (
    Classes,
    FirstToken,
    FrozenBatchNorm,
    LayerNorm,
    Learned,
    MeanTokens,
    NormedPool,
    ObjectBoxes,
    PatchEmbedding,
    ReplacedTokens,
)
from txjax.objectives import (
    Classification,
    CrossEntropy,
    MaskedToken,
    NextToken,
    Objective,
    ReplacedToken,
    SetPrediction,
)
from txjax.optim import AdamW
from txjax.train.state.state import batch_spec

SIZES: dict[str, dict[str, Any]] = {
    "gpt": dict(vocab=1024, length=256, width=384, depth=6, heads=6, batch=12),
    "bert": dict(vocab=1024, length=128, width=256, depth=4, heads=4, batch=32),
    "vit": dict(image=32, patch=4, classes=10, width=192, depth=12, heads=3, batch=32),
    "transformer": dict(vocab=8192, source=32, length=32, width=512, depth=6, heads=8, batch=64),
    "t5": dict(vocab=8192, source=128, length=32, width=512, depth=6, heads=8, batch=16),
    "electra": dict(vocab=30522, length=128, width=256, depth=12, heads=4, batch=16),
    "deberta": dict(vocab=8192, length=256, width=384, depth=6, heads=6, batch=8),
    "swin": dict(image=112, patch=4, side=7, classes=10, width=64, depths=(2, 2, 6, 2), heads=2, batch=8),
    "convnext": dict(image=112, patch=4, classes=10, width=64, depths=(3, 3, 9, 3), batch=8),
    "detr": dict(
        image=128,
        stages=((64, 2), (128, 2), (256, 2)),
        queries=20,
        objects=8,
        classes=10,
        width=128,
        depth=3,
        heads=4,
        batch=8,
    ),
}
SIZES |= audio_models.SIZES | image_text_models.SIZES


def experiment(name: str, size: dict[str, Any], dtype: str) -> Experiment:
    """One of `SIZES` or `llama` in this size; DeBERTa is version 3."""
    size = dict(size)
    batch, optimizer = size.pop("batch"), AdamW(weight_decay=0.1)
    for module in (audio_models, image_text_models):
        if name in module.SIZES:
            return Experiment(**{"optimizer": optimizer, **module.parts(name, size, dtype)}, batch_size=batch)
    if name == "detr":
        image, classes, objects = (size.pop(field) for field in ("image", "classes", "objects"))
        stages = tuple(Stage(*stage) for stage in size.pop("stages"))
        stem = ResidualStem(channels=stages[0].width // 4)
        backbone = ResNet(stages=stages, stem=stem, norm=FrozenBatchNorm(), dtype=dtype)
        model = DETR(backbone=backbone, **size, head=ObjectBoxes(classes), dtype=dtype)
        data = Detections(name="txjax_canvases", shape=(image, image, 3), classes=classes, objects=objects)
        return Experiment(model=model, objective=SetPrediction(), data=data, optimizer=optimizer, batch_size=batch)
    if "image" in size:
        image = size.pop("image")
        model = of_images(name, image, size, dtype)
        data = Images(name="txjax_digits", shape=(image, image, 3), classes=10)
        return Experiment(model=model, objective=Classification(), data=data, optimizer=optimizer, batch_size=batch)
    length = size.pop("length")
    if "source" in size:
        data = Pairs(
            name="multi30k/en_de",
            source_text="{en}",
            target_text="{de}",
            source_length=size.pop("source"),
            length=length,
        )
        model = {"transformer": transformer, "t5": t5}[name](**size, dtype=dtype)
        objective = NextToken(CrossEntropy(label_smoothing=0.1 if name == "transformer" else 0.0))
        return Experiment(model=model, objective=objective, data=data, optimizer=optimizer, batch_size=batch)
    if name in ("gpt", "llama"):
        model = gpt(**size, max_length=length, dtype=dtype) if name == "gpt" else llama(**size, dtype=dtype)
        data = NextTokenWindows(name="txjax_python_text", length=length, tokenizer=Bytes(), boundaries=False)
        return Experiment(model=model, objective=NextToken(), data=data, optimizer=optimizer, batch_size=batch)
    data = TextWindows(name="txjax_python_text", length=length, tokenizer=Bytes(), boundaries=False)
    masking: dict[str, Any] = dict(mask_id=3, vocab=1000)
    objective: Objective = ReplacedToken(**masking) if name == "electra" else MaskedToken(**masking)
    positions = Learned(max_length=length)
    if name == "electra":
        model = electra(**size, positions=positions, dtype=dtype)
    else:
        model = deberta_v3(**size, dtype=dtype) if name == "deberta" else Bert(**size, positions=positions, dtype=dtype)
    return Experiment(model=model, objective=objective, data=data, optimizer=optimizer, batch_size=batch)


def of_images(name: str, image: int, size: dict[str, Any], dtype: str) -> Model:
    """A model of square images with so many pixels on a side."""
    classes, patch = size.pop("classes"), size["patch"]
    if name == "vit":
        positions = Learned(max_length=(image // patch) ** 2 + 1)
        head = Classes(classes, FirstToken())
        return ViT(**size, head=head, positions=positions, norm=LayerNorm(eps=1e-6), dtype=dtype)
    width, heads = size["width"], size.get("heads", 1)
    stages = tuple(Stage(width * 2**i, depth, heads * 2**i) for i, depth in enumerate(size["depths"]))
    fields: dict[str, Any] = dict(stages=stages, stem=PatchEmbedding(patch=patch), dtype=dtype)
    if name == "convnext":
        return ConvNeXt(**fields, head=Classes(classes, NormedPool()))
    attention, norm = shifted_windows(size["side"]), LayerNorm(eps=1e-5)
    return Swin(**fields, mixer=attention, norm=norm, head=Classes(classes, MeanTokens()))


def electra(*, width: int, heads: int, **fields: Any) -> Electra:
    """An ELECTRA of the proportions of its small model: a generator of a quarter, embeddings of half the width."""
    fields["embed_width"] = width // 2
    generator = Bert(width=width // 4, heads=heads // 4, **fields)
    return Electra(generator=generator, discriminator=Bert(width=width, heads=heads, head=ReplacedTokens(), **fields))


def made_up(run: Experiment) -> dict[str, np.ndarray]:
    """A batch of noise as the run's data would give it."""
    spec, rng = batch_spec(run.data, run.batch_size), np.random.default_rng(0)
    classes = getattr(run.data, "classes", None) or 2
    batch: dict[str, np.ndarray] = {}
    for task in dict.fromkeys(part_of(key)[0] for key in spec):
        keys = {part_of(key)[1]: key for key in spec if part_of(key)[0] == task}
        arrays = noise({name: spec[key] for name, key in keys.items()}, vocab_of(run), classes, rng)
        batch |= {keys[name]: x for name, x in arrays.items()}
    return image_text_models.with_image_tokens(run.model, batch)


def vocab_of(run: Experiment) -> int:
    """The vocabulary size of the noise."""
    return min(getattr(run.model, "vocab", 1000), 1000)


def noise(
    spec: dict[str, jax.ShapeDtypeStruct], vocab: int, classes: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Arrays of this spec, of one example or of a batch."""
    limits = {"tokens": vocab, "source_tokens": vocab, "targets": vocab, "label": classes}

    def fill(key: str, x: jax.ShapeDtypeStruct) -> np.ndarray:
        if key == "id":
            return np.arange(x.size, dtype=x.dtype).reshape(x.shape)
        if key == "boxes":
            return np.sort(rng.uniform(size=(*x.shape[:-1], 2, 2)), -2).reshape(x.shape).astype(x.dtype)
        if key == "box_labels":
            return rng.integers(-1, classes, x.shape, x.dtype)
        if key == "features_length":
            return np.full(x.shape, spec["features"].shape[-2], x.dtype)
        if key == "extent":
            return np.broadcast_to(np.array(spec["image"].shape[-3:-1], x.dtype), x.shape)
        if key in ("weights", "segments", "source_segments"):
            return np.ones(x.shape, x.dtype)
        if key in limits and np.issubdtype(x.dtype, np.integer):
            return rng.integers(0, limits[key], x.shape, x.dtype)
        return rng.normal(size=x.shape).astype(x.dtype)

    made = {key: fill(key, x) for key, x in spec.items()}
    return padded(made, rng) if "segments" in made and made.keys() & {"source_segments", "features", "image"} else made


def padded(pairs: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The same pairs; of each source and of each target, at least a half is not padding."""

    def mask(*shape: int) -> np.ndarray:
        return np.arange(shape[-1]) < rng.integers(shape[-1] // 2, shape[-1] + 1, (*shape[:-1], 1))

    masked = dict(pairs)
    if "features" in pairs:
        frames = mask(*pairs["features"].shape[:-1])
        masked["features"] = pairs["features"] * frames[..., None]
        masked["features_length"] = frames.sum(-1, dtype=np.int32)
    for keys in (("source_segments",), ("segments", "weights")):
        if keys[0] in pairs:
            tokens = mask(*pairs[keys[0]].shape)
            of_tokens = [key for key in keys if pairs[key].shape == tokens.shape]
            masked |= {key: (pairs[key] * tokens).astype(pairs[key].dtype) for key in of_tokens}
    return masked


@dataclasses.dataclass
class Noise(Dataset):
    """Made-up examples of the spec of another data set, which is never opened.

    Attributes:
      like: the other one.
      tokens: that are drawn from.
      classes: of labels.
      count: examples of an epoch.
    """

    like: Dataset
    tokens: int = 256
    classes: int = 2
    count: int = 4096

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        return self.like.spec()

    def vocab(self) -> int | None:
        return self.tokens if "tokens" in self.spec() else None

    def check(self) -> None:
        pass

    def open(self) -> "NoiseSource":
        return NoiseSource(self)


class NoiseSource:
    """The examples of `Noise`: each is drawn from its own generator."""

    def __init__(self, data: Noise):
        self.data, self.fingerprint = data, repr(data)
        self.spec = {key: x for key, x in data.spec().items() if key != "id"}

    def __len__(self) -> int:
        return self.data.count

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return noise(self.spec, self.data.tokens, self.data.classes, rng)
