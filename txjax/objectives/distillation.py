"""Distillation: a model learns from another one's outputs and features, and from the labels."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.data import Dataset
from txjax.data.loading.limits import size_of
from txjax.errors import UserError
from txjax.nn import Encoded, Logits, Teacher, WithEncoded
from txjax.objectives.base import Objective, check_arguments
from txjax.objectives.frozen_variables import join, split, with_state
from txjax.objectives.multi_task import MultiTask
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, config_field, is_on

PREFIX = "teacher"


@dataclasses.dataclass
class Distillation(Objective):
    """Another objective, and in training the outputs of a teacher as soft targets (Hinton et al. 2015).

    The student is the run's model, under its own paths, so what reads a run reads the student. The teacher's
    parameters are below `teacher`: `init_from=From(run="runs/teacher", here="teacher")` takes them from its run, and
    `groups=train_all_but("teacher/.*")` of the optimizer freezes them. It is called once an update, on the inputs that
    `objective` gives the student (the same masked tokens), without dropout; with `teacher_image` it sees another image
    of the example, as in Noisy Student, whose student alone sees the noise (Xie et al. 2020). Training adds these
    terms, means over the tokens (or examples) that have weight; an evaluation is that of `objective` alone. With the
    logits s and t of student and teacher, T = temperature:

        soft_targets    soft_targets * T^2 * KL(softmax(t / T), softmax(s / T))
        hidden_states   hidden_states * (1 - cosine of the features that the two heads read)

    T^2 keeps the gradient's size whatever T is. The weights are DistilBERT's (Sanh et al. 2019). In training the terms
    of `objective` are multiplied by `labels`.

    Attributes:
      teacher: the teacher: a model with a head like the student's. Nothing else need be alike.
      objective: the student's own.
      temperature: T.
      soft_targets, hidden_states, labels: the weights of the terms. Without soft targets the heads' outputs may differ
        in their number, without hidden states the widths.
      teacher_image: the batch's key of the image that the teacher gets, such as "clean_image". If None, the student's.
      chunk: positions of each row whose logits are computed at a time, as in `CrossEntropy`. If None, all at once.
    """

    teacher: Any = config_field()
    objective: Objective = config_field()
    temperature: float = config_field(2.0, above=0, traced=True)
    soft_targets: float = config_field(5.0, at_least=0, traced=True, off=0)
    hidden_states: float = config_field(1.0, at_least=0, traced=True, off=0)
    labels: float = config_field(2.0, at_least=0, traced=True)
    teacher_image: str | None = None
    chunk: int | None = config_field(None, at_least=1)

    frozen: ClassVar[tuple[str, ...]] = (PREFIX,)

    @property
    def required_keys(self) -> tuple[str, ...]:
        return self.objective.required_keys

    def inputs(self, model: Any, batch: Batch) -> dict[str, Any]:
        return self.objective.inputs(model, batch)

    def check(self, model: Any, data: Dataset) -> None:
        try:
            self.objective.check(model, data)
        except UserError as error:
            raise error.with_path("objective.objective", "objective") from None
        if isinstance(self.objective, MultiTask | Distillation):
            expected = "an objective that calls the model once, such as MaskedToken"
            raise UserError("objective.objective", expected, type(self.objective).__name__)
        if self.teacher_image is not None and self.teacher_image not in (keys := data.spec()):
            hint = "Images(clean=()) has clean_image"
            raise UserError("objective.teacher_image", "a key of the examples", self.teacher_image, sorted(keys), hint)
        if not callable(getattr(self.teacher, "init", None)):
            raise UserError("objective.teacher", "a model", type(self.teacher).__name__)
        for field, of in {"config.model": model, "objective.teacher": self.teacher}.items():
            if getattr(of, "head", None) is None:
                raise UserError(f"{field}.head", "a head, whose outputs are compared", None)
        if getattr(self.teacher, "adapter", None) is not None:
            raise UserError("objective.teacher.adapter", "None: merge it first", type(self.teacher.adapter).__name__)
        compared = ["vocab", "source_vocab", "head.classes"] * bool(self.soft_targets)
        for name in compared + ["width"] * bool(self.hidden_states):
            ours = size_of(model, name)
            theirs = size_of(self.teacher, name)
            if ours != theirs:
                term = "hidden_states" if name == "width" else "soft_targets"
                hint = f"objective.{term}=0 leaves out the term that compares them"
                raise UserError(f"objective.teacher.{name}", f"{ours}, as config.model.{name}", theirs, hint=hint)

    def init(self, model: Any, rngs: dict[str, jax.Array], batch: Batch) -> PyTree:
        """The variables of both; the student's are drawn as without a teacher.

        Raises:
          UserError: the teacher can't read the inputs; its fields are named by their place in the objective.
        """
        student = self.objective.init(model, rngs, batch)
        self._check_teacher(model, batch)
        try:
            teacher = Teacher(teacher=self.teacher).init(rngs, **self.objective.inputs(model, batch))
        except UserError as error:
            raise error.with_path("config.objective.teacher", "config.model") from None
        return join(student, teacher)

    def check_model(self, model: Any, batch: Batch) -> None:
        self.objective.check_model(model, batch)
        self._check_teacher(model, batch)

    def _check_teacher(self, model: Any, batch: Batch) -> None:
        try:
            names = [*self.objective.inputs(model, batch), *self.objective.arguments, "train"]
            check_arguments(self.teacher, names, self)
        except UserError as error:
            raise error.with_path("config.objective.teacher", "config.model") from None

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        student_variables, others = split(variables, PREFIX)
        student = _Recorded(model) if train else model
        student_output = with_state(self.objective(student, student_variables, batch, key, train), others)
        if not isinstance(student, _Recorded):
            return student_output
        losses = {name: Mean(self.labels * mean.total, mean.count) for name, mean in student_output.losses.items()}
        teacher = Teacher(teacher=_with_encoded(self.teacher))
        view = {} if self.teacher_image is None else {"image": batch[self.teacher_image]}
        teacher_output: Any = teacher.apply(others, **student.arguments | view, train=False)
        output, encoded = teacher_output
        if is_on(self.soft_targets):
            ours, theirs = (_logits(x) for x in (student.output, output))
            values = self.soft_targets * self._divergence(ours, theirs)
            losses["soft_targets"] = Mean.of(values, _weights(batch, values))
        if is_on(self.hidden_states):
            values = self.hidden_states * (1 - cosine(student.encoded.features, encoded.features))
            losses["hidden_states"] = Mean.of(values, _weights(batch, values, student.encoded))
        return ObjectiveOutput(losses, student_output.metrics, student_output.model_state)

    def _divergence(self, student: Logits, teacher: Logits) -> Float[Array, "*batch"]:
        """T^2 KL(teacher, student) at each position, in nats."""

        def divergence(logits: jax.Array, features: jax.Array) -> jax.Array:
            targets = dataclasses.replace(teacher, features=features).dense()
            targets, log_probs = (
                jax.nn.log_softmax(x.astype(jnp.float32) / self.temperature) for x in (targets, logits)
            )
            return self.temperature**2 * jnp.sum(jnp.exp(targets) * (targets - log_probs), -1)

        return student.reduce(divergence, teacher.features, chunk=self.chunk)


def cosine(a: Float[Array, "*batch D"], b: Float[Array, "*batch D"]) -> Float[Array, "*batch"]:
    """The cosine of the angle between vectors, float32; 0 for a vector of zeros."""
    a = a.astype(jnp.float32)
    b = b.astype(jnp.float32)
    lengths = jnp.sum(a * a, -1) * jnp.sum(b * b, -1)
    return jnp.sum(a * b, -1) * jax.lax.rsqrt(jnp.maximum(lengths, 1e-30))


class _Recorded:
    """A model as an objective calls it, which keeps the arguments and the results of the call.

    Attributes:
      arguments: of the call.
      output: of its head.
      encoded: what the head reads.
    """

    arguments: dict[str, Any]
    output: Any
    encoded: Encoded

    def __init__(self, model: Any):
        self._model = _with_encoded(model)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def apply(self, variables: PyTree, *, train: bool, rngs: Any, mutable: Any, **arguments: Any) -> tuple[Any, PyTree]:
        result, changed = self._model.apply(variables, **arguments, train=train, rngs=rngs, mutable=mutable)
        self.arguments = arguments
        self.output, self.encoded = result
        return self.output, changed


def _with_encoded(model: Any) -> Any:
    return model.clone(head=WithEncoded(model.head))


def _logits(output: Any) -> Logits:
    """The logits that are compared: of heads with several outputs, the first."""
    return Logits.of(output[0] if isinstance(output, tuple) else output)


def _weights(batch: Batch, values: Float[Array, "*batch"], encoded: Encoded | None = None) -> Float[Array, "*batch"]:
    """The batch's weights of these values, one a token or one an example; 0 for padding of what was encoded."""
    weights = batch["weights"]
    if weights.ndim > values.ndim:
        weights = weights.reshape(len(weights), -1).max(1)
    weights = weights.reshape(weights.shape + (1,) * (values.ndim - weights.ndim))
    if encoded is not None and encoded.segments is not None and values.ndim == encoded.segments.ndim:
        weights = weights * (encoded.segments > 0)
    return jnp.broadcast_to(weights, values.shape)
