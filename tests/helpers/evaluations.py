"""Small data sets and models for tests of evaluations, without files and fast to compile."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from txjax import sharding
from txjax.data import Dataset
from txjax.eval import Context, Evaluator, Harness
from txjax.eval.harness.harness_model import HarnessModel
from txjax.eval.harness.harness_texts import texts_of
from txjax.experiment import Experiment
from txjax.nn import Logits, patchify
from txjax.objectives import NextToken, Objective
from txjax.objectives.masked_patch import normalise_patches
from txjax.sharding import Mesh
from txjax.train.run_eval import evaluator
from txjax.types import spec

from helpers.arrays import numbers

N, CLASSES = 53, 3
LABELS = np.random.default_rng(1).integers(0, CLASSES, N).astype(np.int32)
LABELS[::7] = -1  # examples without a label
IMAGES = numbers(N, 4, 4, 1) + np.float32(0.5) * LABELS[:, None, None, None].astype(np.float32)
VALUES = numbers(N, seed=2) + IMAGES[:, 0, 0, 0]


@dataclasses.dataclass
class Pictures(Dataset):
    """53 images of 4 x 4 pixels, some without a label; without `classes`, with a number instead of the label."""

    name: str = "made"
    split: str = "test"
    classes: int | None = CLASSES
    mean: tuple[float, ...] = (0.4,)
    std: tuple[float, ...] = (0.2,)

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        answer = {"value": spec((), "float32")} if self.classes is None else {"label": spec((), "int32")}
        return {"id": spec((), "int32"), "image": spec((4, 4, 1), "float32"), "weights": spec((), "float32")} | answer

    def check(self) -> None:
        pass

    def open(self) -> "PictureSource":
        return PictureSource(self)


class PictureSource:
    """All texts, or the first 40 in the split `train`."""

    fingerprint = "made"

    def __init__(self, data: Pictures):
        self.data = data

    def __len__(self) -> int:
        return 40 if self.data.split == "train" else N

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        found = {"image": IMAGES[index], "weights": np.float32(LABELS[index] >= 0)}
        if self.data.classes is None:
            return found | {"value": VALUES[index]}
        return found | {"label": np.int32(LABELS[index] % self.data.classes)}


@dataclasses.dataclass
class Scenes(Pictures):
    """The same images with two objects each: the left half, and padding."""

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        objects = {"boxes": spec((2, 4), "float32"), "box_labels": spec((2,), "int32")}
        image = {"image": spec((4, 4, 1), "float32"), "masks": spec((2, 4, 4), "int32")}
        return {"id": spec((), "int32"), "weights": spec((), "float32")} | image | objects

    def open(self) -> "SceneSource":
        return SceneSource(self)


class SceneSource(PictureSource):
    def example(self, index: int, epoch: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        masks = np.zeros((2, 4, 4), np.int32)
        masks[0, :, :2] = 1
        boxes = np.array([[0, 0, 1, 0.5], [0, 0, 0, 0]], np.float32)
        objects = {"boxes": boxes, "box_labels": np.asarray([0, -1], np.int32)}
        return {"image": IMAGES[index], "weights": np.ones((), np.float32), "masks": masks} | objects


TAGS = ("O", "B-name", "I-name", "B-place", "I-place")
TAGGED = np.random.default_rng(3).integers(0, len(TAGS), (N, 6)).astype(np.int32)
WEIGHED = (np.random.default_rng(4).uniform(size=(N, 6)) < 0.8).astype(np.float32)


@dataclasses.dataclass
class Tagged(Dataset):
    """53 texts of six words with tags; a word is the right tag, or in one of three words another."""

    names: tuple[str, ...] = TAGS

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        found = {key: spec((6,), "int32") for key in ("tokens", "targets")}
        return {"id": spec((), "int32"), "weights": spec((6,), "float32")} | found

    def class_names(self) -> tuple[str, ...]:
        return self.names

    def check(self) -> None:
        pass

    def open(self) -> "TaggedSource":
        return TaggedSource()


class TaggedSource:
    fingerprint = "tagged"

    def __len__(self) -> int:
        return N

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        wrong = (np.arange(6) + index) % 3 == 0
        words = np.where(wrong, (TAGGED[index] + 1) % len(TAGS), TAGGED[index]).astype(np.int32)
        return {"tokens": words, "targets": TAGGED[index], "weights": WEIGHED[index]}


class Tagger(nn.Module):
    """The most likely tag is the word itself."""

    @nn.compact
    def __call__(self, tokens: jax.Array, train: bool = False) -> jax.Array:
        return self.param("scale", nn.initializers.ones, ()) * jax.nn.one_hot(tokens, len(TAGS))


class Net(nn.Module):
    """Features are the first pixels; logits are the first features."""

    outputs: int = CLASSES
    features: int = 5

    @nn.compact
    def __call__(self, image: jax.Array, train: bool = False) -> jax.Array:
        scale = self.param("scale", nn.initializers.ones, ())
        x = image.reshape(len(image), -1)[:, : self.features] * scale[None, None]
        self.sow("intermediates", "features", x)
        return x[:, : self.outputs]


class Bigrams(nn.Module):
    """A table of next-token logits, by token."""

    vocab: int = 257

    @nn.compact
    def __call__(self, tokens, segments=None, positions=None, train=False):
        if self.is_mutable_collection("cache"):
            self.variable("cache", "nothing", jnp.zeros, ())
        logits = self.param("table", nn.initializers.zeros, (self.vocab, self.vocab))[tokens]
        return Logits(logits)


class Copier(nn.Module):
    """At every position, the most likely next token is the source's: it generates the source."""

    vocab: int = 258

    @nn.compact
    def __call__(self, tokens, source_tokens, source_segments, segments=None, positions=None, train=False):
        scale = self.param("scale", nn.initializers.ones, ())
        missing = max(0, tokens.shape[1] - source_tokens.shape[1])
        source = jnp.pad(source_tokens, ((0, 0), (0, missing)))[:, : tokens.shape[1]]
        return Logits(9.0 * scale * jax.nn.one_hot(source, self.vocab))


class Painter:
    """A model that predicts the target patches, times a number."""

    patch = 2

    def __init__(self, target: str):
        self.target = {"normalised": normalise_patches, "pixels": lambda patches: patches}[target]

    def apply(self, variables, image, keep, train):
        return self.target(patchify(image, self.patch)) * variables["params"]["scale"][None, None, None]


HELD = {"params": {"scale": jnp.ones(())}}


def measure(
    model: Any,
    objective: Objective,
    evaluation: Evaluator,
    variables: Any = HELD,
    folder: Path | None = None,
    mesh: Mesh | None = None,
    results: dict[str, Any] | None = None,
    **fields: Any,
) -> dict[str, float]:
    """The metrics of an evaluator named x, on all devices, after 7 steps."""
    experiment = Experiment(
        model=model,
        objective=objective,
        evals={"x": evaluation},
        **{"data": evaluation.data, "batch_size": 16} | fields,
    )
    with sharding.use_mesh(mesh or Mesh()) as built:
        placed = jax.device_put(variables, jax.NamedSharding(built, jax.P()))
        over = sharding.batch_sharding(built, mesh or Mesh())
        run = evaluator(experiment, over, folder=folder, results=results)
        run.trace(jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), placed))
        with jax.transfer_guard("disallow"):  # as the train loop does
            return run("x", placed, 7)


@contextlib.contextmanager
def answering(model: Any, variables: Any, evaluation: Harness, mesh: Mesh | None = None) -> Iterator[HarnessModel]:
    """The model that answers a harness's requests, on all devices."""
    with sharding.use_mesh(mesh or Mesh()) as built:
        rows = sharding.batch_sharding(built, mesh or Mesh())
        size, data = evaluation.batch_size or 16, evaluation.data
        context = Context(
            name="x",
            evaluator=evaluation,
            model=model,
            objective=NextToken(),
            seed=0,
            train=data,
            source=data.open(),
            batch_size=size,
            sharding=rows,
        )
        found = HarnessModel(context, texts_of(data, model, "eval", evaluation.window))
        found.variables = jax.device_put(variables, jax.NamedSharding(built, jax.P()))
        with jax.transfer_guard("disallow"):
            yield found
