"""The ladder: runs for compute budgets, with widths, depths, heads, tokens, batches and learning rates set by rules.

FLOPs are counted from the model's operations, for any model and objective; they are not 6 N D.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from flax.core import meta

from txjax.errors import UserError
from txjax.experiment import Experiment
from txjax.scaling.ladder_rules import Rules
from txjax.train.state.counting import count_parameters, flops_per_step, tokens_per_batch
from txjax.train.state.state import abstract_variables

Load = Callable[[Sequence[str]], Experiment]  # loads the config with more flags
TOLERANCE = 0.01  # relative, of a budget


@dataclasses.dataclass(frozen=True)
class LadderRun:
    """One run of a ladder.

    Attributes:
      budget: the requested FLOPs. None if the tokens per parameter were given instead.
      params, params_without_embeddings: N with and without embeddings.
      tokens: D, all tokens trained on: positions of the residual stream (patches of images).
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
        """The relative difference of the FLOPs from the budget."""
        return 0.0 if self.budget is None else self.flops / self.budget - 1


class Ladder:
    """Makes the runs of a ladder from a config.

    Args:
      load: returns a fresh config with these flags applied.

    Raises:
      UserError: the model has no width, depth and heads, or batches change.
    """

    def __init__(self, load: Load, rules: Rules):
        self.load = load
        self.rules = rules
        self.base = load(())
        self._known: dict[int, tuple[Experiment, int, int]] = {}
        self._flops: dict[tuple[int, int], int] = {}
        for name in ("width", "depth", "heads"):
            if not isinstance(getattr(self.base.model, name, None), int):
                raise UserError("config.model", f"a model with a {name}", type(self.base.model).__name__)
        if self.base.changes:
            raise UserError("config.changes", "() in a ladder, whose runs have batches of one size", self.base.changes)

    def isoflop(self, budgets: Sequence[float], sizes: int = 5, widths: Sequence[int] = ()) -> list[LadderRun]:
        """Runs of several sizes for every budget, each with the budget's FLOPs (Hoffmann et al. 2022, 3.2).

        Args:
          sizes: number of sizes for each budget, around the expected optimum.
          widths: the sizes to use instead.

        Raises:
          UserError: no integer number of steps is within 1% of a budget.
        """
        return [
            self._run_within_budget(budget, width)
            for budget in budgets
            for width in (widths or self.around(budget, sizes))
        ]

    def ratios(self, widths: Sequence[int], ratios: Sequence[float]) -> list[LadderRun]:
        """Runs of every width with every number of tokens per parameter: the grid over N and D of a parametric fit."""
        runs = []
        for width in widths:
            for ratio in ratios:
                tokens = ratio * self._params(width)[0]
                batch = self._batch(tokens)
                steps = max(1, round(tokens / self._tokens_per_step(batch)))
                runs.append(self._make_run(None, width, batch, steps))
        return runs

    def around(self, budget: float, sizes: int) -> list[int]:
        """Widths whose parameter counts differ by `spacing`; the middle one has about `tokens_per_parameter`.

        They differ by at least one head.
        """
        rules = self.rules
        widths = [0]
        for k in range(sizes):
            wanted = rules.tokens_per_parameter * rules.spacing ** (2 * ((sizes - 1) / 2 - k))
            widths.append(max(self._width_for(budget, wanted), widths[-1] + rules.head_size))
        return widths[1:]

    def _width_for(self, budget: float, ratio: float) -> int:
        """The width at which a budget gives this many tokens per parameter; smaller widths give more."""

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

    def _run_within_budget(self, budget: float, width: int) -> LadderRun:
        batch = self._batch(budget / self._flops_per_token(width))
        steps = max(1, round(budget / self._flops_of(width, batch)))
        run = self._make_run(budget, width, batch, steps)
        if abs(run.off) > TOLERANCE:
            raise UserError(
                "--budgets",
                f"FLOPs that steps of width {width} and batch {batch} come within {TOLERANCE:.0%} of",
                f"{budget:.4g}",
                hint=f"{steps} of them are {run.flops:.4g}; take a smaller config.batch_size or a larger budget",
            )
        return run

    def _make_run(self, budget: float | None, width: int, batch: int, steps: int) -> LadderRun:
        rules = self.rules
        base = self.base
        experiment, *counts = self._model(width)
        per_step = self._tokens_per_step(batch)
        warmup = None
        if hasattr(base.optimizer.schedule, "warmup_steps"):
            warmup = max(1, round(min(rules.warmup * steps, counts[0] / per_step)))
        wider = width / base.model.width
        larger = batch / base.batch_size
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
        """The config at a width, and its number of parameters with and without embeddings."""
        if width not in self._known:
            rules = self.rules
            depth = self.base.model.depth
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


def budgets_below(target: float, count: int, headroom: float = 10.0, spacing: float = 10**0.5) -> list[float]:
    """Budgets below a target run's FLOPs, increasing: the last is target / headroom, the ratio is `spacing`."""
    return sorted(target / headroom / spacing**k for k in range(count))
