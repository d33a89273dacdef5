"""The rules of a ladder. Nothing here imports JAX: they are flags of `txjax scaling ladder`."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Rules:
    """The rules from a width to a run; all other fields are the config's.

    Attributes:
      head_size: of attention; heads = width / head_size, at least one.
      aspect: width / depth. If None, the config's depth. Depths that jump between sizes make ragged curves.
      lr_by_width: the learning rate is the config's times (width / its width) to this power.
      lr_by_batch: it is also multiplied by (batch / the config's batch) to this power.
      batch_by_tokens: the batch is the config's times (tokens / its tokens) to this power, rounded to a power of two.
        A batch above the critical size wastes data (McCandlish et al. 2018).
      warmup: share of the steps; capped at as many tokens as the model has parameters (Porian et al. 2024).
      tokens_per_parameter: of the middle size of a budget, near the expected optimum: 20 (Hoffmann et al. 2022).
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
