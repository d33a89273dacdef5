"""One decoder for many tasks on images and texts."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.models.attended_sequences import Sequences
from txjax.models.multimodal.unit.map_encoder import DecoderSource, MapEncoder
from txjax.models.task_model import TaskModel
from txjax.models.text.bert.bert import Bert
from txjax.models.two_stacks import WithDecoder
from txjax.models.vision.detr.detr import QueryDecoder, query_sequences
from txjax.nn import (
    MLP,
    Block,
    CrossAttention,
    Embed,
    Encoded,
    Head,
    Init,
    LayerNorm,
    Linear,
    Mask,
    Memory,
    Mixer,
    Norm,
    PositionedAttention,
    PositionedCrossAttention,
    PostNorm,
    StackInputs,
    Xavier,
)
from txjax.types import config_field


@dataclasses.dataclass
class DecodedTask:
    """What `UniT` has for a task.

    Attributes:
      head: from the features of the task's queries to the output. The features of all layers but the last are its
        `Encoded.stages`, which `ObjectBoxes` reads too.
      queries: their number.
      text_tokens: how many of a text's first tokens the decoder reads: 1 is the class token alone. If None, all.
      decoder: the name of its decoder. Tasks of one name share it.
    """

    head: Head = config_field()
    queries: int = config_field(25, at_least=1)
    text_tokens: int | None = config_field(None, at_least=1)
    decoder: str = "shared"


class UniT(TaskModel, WithDecoder, kw_only=True):
    """UniT (Hu and Singh 2021): encoders of images and of texts, and a decoder that reads both with a task's queries.

    A batch of a task has images, texts, or both (`objectives.MultiTask`; `data.AlternatingTasks` as in the paper). The
    encoders see a vector of the task as a token more. A new task is a row more of `tasks`, at their end, in a run that
    starts from another's parameters (`init_from`).

    Parameters: `vision`, `text`; `vision_tasks/embedding` and `text_tasks/embedding` [most_tasks width of the encoder];
    `vision_features`, `vision_positions`, `text_features`, `text_positions` (linear layers to the decoder's width);
    `queries_TASK/embedding` [Q D], `decoder_NAME` (`layers`, `norm_final`); under the name of each task, its head's.
    Sows `features` [B D], of the first query.

    Attributes:
      vision: the encoder of images.
      text: the encoder of texts, with `head=None`.
      tasks: what the tasks have, by name.
      most_tasks: rows of the tables of tasks, as many as may ever be.
    """

    vision: MapEncoder = config_field()
    text: Bert = config_field()
    tasks: dict[str, DecodedTask] | Mapping[str, DecodedTask] = config_field()
    most_tasks: int = config_field(256, at_least=1)
    mixer: Mixer | tuple[Mixer, ...] = dataclasses.field(default_factory=PositionedAttention)
    cross: CrossAttention = dataclasses.field(default_factory=PositionedCrossAttention)
    norm: Norm = dataclasses.field(default_factory=lambda: LayerNorm(eps=1e-5))
    mlp: MLP = dataclasses.field(default_factory=lambda: MLP(activation="relu"))
    block: Block = dataclasses.field(default_factory=PostNorm)
    initial: Init = dataclasses.field(default_factory=Xavier)

    @property
    def head(self) -> Head | None:
        """The head of the call's task; None if there is no such task."""
        task = self.tasks.get(self.task or "")
        return None if task is None else task.head

    @nn.compact
    def __call__(
        self,
        image: Float[Array, "B H W C"] | None = None,
        tokens: Int[Array, "B L"] | None = None,
        segments: Int[Array, "B L"] | None = None,
        positions: Int[Array, "B L"] | None = None,
        types: Int[Array, "B L"] | None = None,
        extent: Int[Array, "B 2"] | None = None,
        train: bool = False,
    ) -> Any:
        """The output of the task's head.

        Args:
          image, tokens: one of both, or both.
          segments, positions, types: of the tokens, see `Bert`. The decoder reads all that is not padding.
          extent: rows and columns of the image that are not padding. If None, all are.

        Raises:
          UserError: no task is chosen, or the tables of tasks have too few rows.
        """
        task = self.entry()
        if len(self.tasks) > self.most_tasks:
            raise UserError("config.model.most_tasks", f"at least the {len(self.tasks)} tasks", self.most_tasks)
        number = jnp.array([[list(self.tasks).index(str(self.task))]], jnp.int32)
        sources = []
        if image is not None:
            before = self.task_vector("vision", number, self.vision.width, len(image))
            sources.append(self.project("vision", self.vision(image, extent, train, before)))
        if tokens is not None:
            before = self.task_vector("text", number, self.text.width, len(tokens))
            encoded = self.text(tokens, segments, positions, types, train=train, before=before)
            kept = slice(task.text_tokens)
            rows = self.position_rows(tokens[:, kept], segments, positions)
            source = DecoderSource(encoded.features[:, kept], rows, None if segments is None else segments[:, kept])
            sources.append(self.project("text", source))
        assert sources, "an image or tokens"
        keys = [jnp.ones(x.features.shape[:2], jnp.int32) if x.segments is None else x.segments > 0 for x in sources]
        features, added = (jnp.concatenate([source[i] for source in sources], axis=1) for i in range(2))
        indices = jnp.arange(task.queries, dtype=jnp.int32)[None]
        embed = Embed(task.queries, self.width, axis="queries", std=1.0, name=f"queries_{self.task}")
        memory = Memory(
            features,
            Mask(query_segments=jnp.ones_like(indices), key_segments=jnp.concatenate(keys, axis=1).astype(jnp.int32)),
            added,
        )
        decoder = QueryDecoder(**self.decoder_fields(), name=f"decoder_{task.decoder}")
        x = jnp.zeros((len(features), task.queries, self.width), self.dtype)
        inputs = StackInputs(indices, indices, train=train, memory=memory, added=embed(indices, self.dtype))
        *others, last = decoder(x, inputs)
        encoded = Encoded(last, stages=tuple(Encoded(stage) for stage in others))
        context = self.head_context(train)
        context.sow_features(last[:, 0])
        return context.within(str(self.task), lambda context: task.head(encoded, context))

    @nn.nowrap
    def sequences(self, path: str, inputs: Mapping[str, Any]) -> tuple[Sequences, Sequences] | None:
        """An encoder has the vector of the task before its input; the decoder's queries read the image and the text."""
        encoded: dict[str, Sequences] = {"vision/encoder": {"": 1, "image": None}, "text": {"": 1, "tokens": None}}
        for name, sequence in encoded.items():
            if path.startswith(f"{name}/"):
                return sequence, sequence
        return query_sequences(path, self.memory_parts(inputs)) if path.startswith("decoder_") else None

    @nn.nowrap
    def memory_parts(self, inputs: Mapping[str, Any]) -> Sequences:
        """The sequences that the decoder reads, with the number of the text's tokens."""
        image: Sequences = {"image": None} if inputs.get("image") is not None else {}
        if inputs.get("tokens") is None:
            return image
        length = inputs["tokens"].shape[1]
        return {**image, "tokens": min(length, self.entry().text_tokens or length)}

    @nn.nowrap
    def task_vector(self, kind: str, number: Int[Array, "1 1"], width: int, batch: int) -> Float[Array, "B 1 W"]:
        """The vector of a task for an encoder of this width, for each example."""
        rows = Embed(self.most_tasks, width, axis="tasks", name=f"{kind}_tasks")(number, self.dtype)
        return jnp.broadcast_to(rows, (batch, 1, width))

    @nn.nowrap
    def position_rows(
        self, tokens: Int[Array, "B S"], segments: Int[Array, "B L"] | None, positions: Int[Array, "B L"] | None
    ) -> Float[Array, "#B S E"]:
        """The vectors that the text encoder adds for the positions of a text's first tokens."""
        table = self.text.positions
        numbers = table.numbers(tokens.shape[1], segments) if positions is None else positions
        numbers = numbers[:, : tokens.shape[1]]
        zeros = jnp.zeros((*numbers.shape, self.text.embed_width or self.text.width), self.dtype)
        return table.add(zeros, numbers)

    @nn.nowrap
    def project(self, kind: str, source: DecoderSource) -> DecoderSource:
        """An encoder's output, at the decoder's width."""

        def linear(name: str, x: Float[Array, "B S W"]) -> Float[Array, "B S D"]:
            fields: dict[str, Any] = dict(kernel_init=self.kernel_init, name=f"{kind}_{name}")
            return Linear((self.width,), ("embed",), ("width",), **fields)(x.astype(self.dtype))

        features = linear("features", source.features)
        positions = jnp.broadcast_to(linear("positions", source.positions), features.shape)
        return DecoderSource(features, positions, source.segments)
