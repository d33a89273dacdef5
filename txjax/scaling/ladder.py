"""From a compute budget to runs: widths, depths, heads, tokens, batches and learning rates by stated rules.

The FLOPs are those that the model's own operations are counted to, for any model and objective, and not 6 N D.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flax.core import meta

from txjax.experiment import Experiment
from txjax.sweep.points import Point
from txjax.train.counting import count_parameters, flops_per_step, tokens_per_batch
from txjax.train.state import abstract_variables
from txjax.types import UserError

Load = Callable[[Sequence[str]], Experiment]  # the config with more flags
TOLERANCE = 0.01  # of a budget


@dataclasses.dataclass(frozen=True)
class Rules:
    """How a width becomes a run; what is not said here is as the config has it.

    Attributes:
      head_size: of attention; heads = width / head_size, and one where the width is smaller.
      aspect: width / depth; None keeps the config's depth. Depths that jump between sizes make ragged curves.
      lr_by_width: the learning rate is the config's times (width / its width) to this power.
      lr_by_batch: and times (batch / its batch) to this power.
      batch_by_tokens: the batch is the config's times (tokens / its tokens) to this power, rounded to a power of two.
        Above its critical size a batch wastes data (McCandlish et al. 2018).
      warmup: its share of the steps; at most as many tokens as the model has parameters (Porian et al. 2024).
      tokens_per_parameter: about where the best size lies, in the middle of the sizes of a budget: 20 (Hoffmann et al.
        2022).
      spacing: the ratio of parameters of neighbouring sizes.
    """

    head_size: int = 16
    aspect: float | None = None
    lr_by_width: float = -0.5
    lr_by_batch: float = 0.0
    batch_by_tokens: float = 0.0
    warmup: float = 0.05
    tokens_per_parameter: float = 20.0
    spacing: float = 1.7


@dataclasses.dataclass(frozen=True)
class LadderRun:
    """One run of a ladder.

    Attributes:
      budget: the FLOPs asked for; None where tokens per parameter were.
      params, params_without_embeddings: N, counted in both ways.
      tokens: D, all that are seen: places of the residual stream (of images, patches).
      flops: of the whole run.
    """

    budget: float | None
    width: int
    depth: int
    heads: int
    params: int
    params_without_embeddings: int
    tokens: int
    steps: int
    batch_size: int
    warmup: int | None
    lr: float
    flops: int

    @property
    def off(self) -> float:
        """How far the FLOPs are from the budget, as a share of it."""
        return 0.0 if self.budget is None else self.flops / self.budget - 1

    def point(self, evals: Iterable[str] = ()) -> Point:
        """What a sweep sets. Each of `evals` is measured at the end alone."""
        warmup = {} if self.warmup is None else {"optimizer.schedule.warmup_steps": self.warmup}
        return {
            "model.width": self.width,
            "model.depth": self.depth,
            "model.heads": self.heads,
            "num_steps": self.steps,
            "batch_size": self.batch_size,
            "optimizer.peak_lr": self.lr,
            **warmup,
            **{f"evals.{name}.every_steps": self.steps for name in evals},
        }


class Ladder:
    """Makes rungs of a config.

    Args:
      load: gives the config with flags laid over it, fresh each time.

    Raises:
      UserError: a model without a width, a depth and heads of its own.
    """

    def __init__(self, load: Load, rules: Rules = Rules()):
        self.load, self.rules, self.base = load, rules, load(())
        self._known: dict[int, tuple[Experiment, int, int]] = {}
        self._flops: dict[tuple[int, int], int] = {}
        for name in ("width", "depth", "heads"):
            if not isinstance(getattr(self.base.model, name, None), int):
                raise UserError("config.model", f"a model with a {name}", type(self.base.model).__name__)

    def isoflop(self, budgets: Sequence[float], sizes: int = 5, widths: Sequence[int] = ()) -> list[LadderRun]:
        """For every budget the same FLOPs in models of several sizes (Hoffmann et al. 2022, 3.2).

        Args:
          sizes: how many a budget, around the best one that is expected; where `widths` are given, these are taken.

        Raises:
          UserError: a budget that no whole number of steps comes within 1% of.
        """
        return [self._within(budget, width) for budget in budgets for width in (widths or self.around(budget, sizes))]

    def ratios(self, widths: Sequence[int], ratios: Sequence[float]) -> list[LadderRun]:
        """Every width with every number of tokens a parameter: the grid over N and D of a parametric fit."""
        made = []
        for width in widths:
            for ratio in ratios:
                tokens = ratio * self._params(width)[0]
                batch = self._batch(tokens)
                steps = max(1, round(tokens / self._tokens_per_step(batch)))
                made.append(self._rung(None, width, batch, steps))
        return made

    def around(self, budget: float, sizes: int) -> list[int]:
        """Widths whose parameters lie `spacing` apart, the middle one with about `tokens_per_parameter`.

        Further apart where that would be less than one more head.
        """
        rules, found = self.rules, [0]
        for k in range(sizes):
            wanted = rules.tokens_per_parameter * rules.spacing ** (2 * ((sizes - 1) / 2 - k))
            found.append(max(self._width_for(budget, wanted), found[-1] + rules.head_size))
        return found[1:]

    def _width_for(self, budget: float, ratio: float) -> int:
        """The width at which a budget buys so many tokens a parameter: more of them at smaller widths."""

        def bought(heads: int) -> float:
            width = heads * self.rules.head_size
            return budget / self._flops_per_token(width) / self._params(width)[0]

        high = 1
        while bought(high) > ratio and high < 2**12:
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if bought(middle) > ratio else (low, middle)
        nearest = min((h for h in (low, high) if h), key=lambda heads: abs(math.log(bought(heads) / ratio)))
        return nearest * self.rules.head_size

    def _within(self, budget: float, width: int) -> LadderRun:
        batch = self._batch(budget / self._flops_per_token(width))
        steps = max(1, round(budget / self._flops_of(width, batch)))
        rung = self._rung(budget, width, batch, steps)
        if abs(rung.off) > TOLERANCE:
            raise UserError(
                "--budgets",
                f"FLOPs that steps of width {width} and batch {batch} come within {TOLERANCE:.0%} of",
                f"{budget:.4g}",
                hint=f"{steps} of them are {rung.flops:.4g}; take a smaller config.batch_size or a larger budget",
            )
        return rung

    def _rung(self, budget: float | None, width: int, batch: int, steps: int) -> LadderRun:
        rules, base, (experiment, *counts) = self.rules, self.base, self._model(width)
        per_step = self._tokens_per_step(batch)
        warmup = None
        if hasattr(base.optimizer.schedule, "warmup_steps"):
            warmup = max(1, round(min(rules.warmup * steps, counts[0] / per_step)))
        wider, larger = width / base.model.width, batch / base.batch_size
        lr = base.optimizer.peak_lr * wider**rules.lr_by_width * larger**rules.lr_by_batch
        return LadderRun(
            budget=budget,
            width=width,
            depth=experiment.model.depth,
            heads=experiment.model.heads,
            params=counts[0],
            params_without_embeddings=counts[1],
            tokens=steps * per_step,
            steps=steps,
            batch_size=batch,
            warmup=warmup,
            lr=float(f"{lr:.4g}"),
            flops=steps * self._flops_of(width, batch),
        )

    def _batch(self, tokens: float) -> int:
        if not self.rules.batch_by_tokens:
            return self.base.batch_size
        more = tokens / (self.base.num_steps * tokens_per_batch(self.base))
        return 2 ** max(0, round(math.log2(self.base.batch_size * more**self.rules.batch_by_tokens)))

    def _model(self, width: int) -> tuple[Experiment, int, int]:
        """The config at a width, and its parameters counted in both ways."""
        if width not in self._known:
            rules, depth = self.rules, self.base.model.depth
            depth = depth if rules.aspect is None else max(1, round(width / rules.aspect))
            heads = max(1, width // rules.head_size)
            sizes = {"width": width, "depth": depth, "heads": heads}
            experiment = self.load([f"--config.model.{name}={size}" for name, size in sizes.items()])
            self._known[width] = (experiment, *count_parameters(meta.unbox(abstract_variables(experiment)["params"])))
        return self._known[width]

    def _params(self, width: int) -> tuple[int, int]:
        return self._model(width)[1:]

    def _tokens_per_step(self, batch: int) -> int:
        return tokens_per_batch(self.base) // self.base.batch_size * batch

    def _flops_per_token(self, width: int) -> float:
        return self._flops_of(width, self.base.batch_size) / tokens_per_batch(self.base)

    def _flops_of(self, width: int, batch: int) -> int:
        """FLOPs of one step."""
        if (width, batch) not in self._flops:
            experiment: Any = dataclasses.replace(self._model(width)[0], batch_size=batch)
            self._flops[width, batch] = flops_per_step(experiment)
        return self._flops[width, batch]


def below(target: float, rungs: int, headroom: float = 10.0, spacing: float = 10**0.5) -> list[float]:
    """Budgets that lead up to a target run's FLOPs: the largest `headroom` times smaller, each `spacing` apart."""
    return sorted(target / headroom / spacing**k for k in range(rungs))
