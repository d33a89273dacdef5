"""Masked visual token modelling: predict the masked tokens of an image that another model made of it."""

import dataclasses
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.data import Dataset
from txjax.data.loading.limits import size_of
from txjax.errors import UserError
from txjax.nn import MASK_SCHEDULES, Logits
from txjax.objectives.base import Objective, apply_model, example_keys
from txjax.objectives.frozen_variables import join, split, with_state
from txjax.objectives.losses import CrossEntropy
from txjax.objectives.masked_token import check_masked
from txjax.types import Batch, ObjectiveOutput, PyTree, config_field

PREFIX = "tokenizer"


@dataclasses.dataclass
class MaskedVisualTokens(Objective):
    """The loss of MaskGIT (Chang et al. 2022, 3.2) for a `Bert`, such as `models.mask_git` returns.

    The tokenizer makes N tokens of an image, in the step itself. The model reads its class and these: with K codes and
    C classes, ids below K are codes, K to K + C - 1 classes, and K + C is the mask. ceil(share * N) tokens are masked,
    chosen uniformly; the share is that of `schedule` at a time that is uniform in [0, 1), in evaluations too. The loss
    is the cross entropy over the K codes, in nats a masked token.

    The tokenizer's parameters are below `tokenizer`: `init_from=From(run="runs/vq", here="tokenizer")` takes them from
    its run, and `groups=train_all_but("tokenizer/.*")` of the optimizer freezes them.

    Attributes:
      tokenizer: a `VQTokenizer`, or a model with its methods `encode`, `decode` and `grid`, and its field `codes`.
      classes: number of classes C.
      schedule: one of `nn.MASK_SCHEDULES`.
      loss: the cross entropy of the masked tokens, and the terms that training adds to it.
    """

    tokenizer: Any = config_field()
    classes: int = config_field(at_least=1)
    schedule: str = config_field("cosine", choices=tuple(MASK_SCHEDULES))
    loss: CrossEntropy = dataclasses.field(default_factory=CrossEntropy)

    frozen: ClassVar[tuple[str, ...]] = (PREFIX,)
    models: ClassVar[str] = "mask_git()"
    required_keys: ClassVar[tuple[str, ...]] = ("id", "image", "label", "weights")

    @property
    def mask_id(self) -> int:
        """The id of a masked token, the last one of K + C + 1."""
        return int(self.tokenizer.codes) + self.classes

    def check(self, model: Any, data: Dataset) -> None:
        super().check(model, data)
        if size_of(self.tokenizer, "codes") is None:
            raise UserError("objective.tokenizer", "a VQTokenizer", type(self.tokenizer).__name__)
        if (adapter := getattr(self.tokenizer, "adapter", None)) is not None:
            raise UserError("objective.tokenizer.adapter", "None: merge it first", type(adapter).__name__)
        if (known := size_of(model, "vocab")) is not None and known <= self.mask_id:
            expected = f"at least {self.mask_id + 1}: {self.tokenizer.codes} codes, {self.classes} classes and the mask"
            raise UserError("config.model.vocab", expected, known)
        if (classes := getattr(data, "classes", None)) is not None and self.classes < classes:
            raise UserError("objective.classes", f"at least {classes}, the classes of config.data", self.classes)

    def inputs(self, model: Any, batch: Batch) -> dict[str, Any]:
        """The model's arguments where all tokens are masked."""
        count = math.prod(self.tokenizer.grid(*batch["image"].shape[1:3]))
        return self.sequence(jnp.full((len(batch["label"]), count), self.mask_id, jnp.int32), batch["label"])

    def sequence(self, tokens: Int[Array, "B N"], label: Int[Array, "B"]) -> dict[str, Any]:
        """The model's arguments for images of these classes, of which these tokens are known."""
        first = self.tokenizer.codes + jnp.clip(label, 0, self.classes - 1)
        return {"tokens": jnp.concatenate([first[:, None].astype(jnp.int32), tokens], 1)}

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        check_masked(model, output, self, "mask_git() makes such a Bert: its head is MaskedTokens()")

    def of_codes(self, output: Any) -> Logits:
        """The logits [B N K] of each token to be each code, from the model's output."""
        return Logits.of(output[0])[:, 1:].first(self.tokenizer.codes)

    def init(self, model: Any, rngs: dict[str, jax.Array], batch: Batch) -> PyTree:
        """The variables of both models; the run's own are drawn as without a tokenizer."""
        model_variables = super().init(model, rngs, batch)
        try:
            tokenizer_variables = self.tokenizer.init(rngs, batch["image"])
        except UserError as error:
            raise error.with_path("config.objective.tokenizer", "config.model") from None
        return join(model_variables, {kind: {PREFIX: tree} for kind, tree in tokenizer_variables.items()})

    def encode(self, variables: PyTree, image: Float[Array, "B H W C"]) -> Int[Array, "B N"]:
        """The tokens of images, int32, row by row."""
        tokens = self._tokenizer(variables, "encode", image=image)
        return tokens.reshape(len(tokens), -1)

    def decode(self, variables: PyTree, tokens: Int[Array, "B N"], height: int, width: int) -> Float[Array, "B H W C"]:
        """The images of tokens, float32, of this height and width."""
        grid = self.tokenizer.grid(height, width)
        return self._tokenizer(variables, "decode", tokens=tokens.reshape(len(tokens), *grid))

    def _tokenizer(self, variables: PyTree, method: str, **inputs: jax.Array) -> jax.Array:
        tokenizer_variables = {kind: tree[PREFIX] for kind, tree in split(variables, PREFIX)[1].items()}
        tokenizer_output: jax.Array = self.tokenizer.apply(tokenizer_variables, **inputs, method=method)
        return tokenizer_output

    def hide(self, key: jax.Array, count: int) -> Bool[Array, "N"]:
        """Which of an image's `count` tokens are masked: at least one."""
        time, order = jax.random.split(key)
        share = MASK_SCHEDULES[self.schedule](jax.random.uniform(time))
        ranks = jnp.argsort(jnp.argsort(jax.random.uniform(order, (count,))))
        return ranks < jnp.maximum(jnp.ceil(share * count), 1)

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        model_variables, others = split(variables, PREFIX)
        tokens = self.encode(variables, batch["image"])
        hidden = jax.vmap(lambda key: self.hide(key, tokens.shape[1]))(example_keys(key, batch))
        inputs = self.sequence(jnp.where(hidden, self.mask_id, tokens), batch["label"])
        output, aux = apply_model(model, model_variables, inputs, batch, key, train)
        self.check_output(model, output, batch)
        weights = hidden * batch["weights"][:, None]
        losses, metrics = self.loss("masked_visual_token", self.of_codes(output), tokens, weights, train)
        return with_state(aux.outcome(losses, metrics), others)
