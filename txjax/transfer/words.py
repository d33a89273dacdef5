"""A prompt whose tokens begin as words."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from txjax.data import Bytes, Tokenizer
from txjax.errors import UserError
from txjax.transfer.resize import ResizeAxis
from txjax.types import config_field


@dataclasses.dataclass
class Words(ResizeAxis):
    """A row for each text, the mean of its tokens' rows in a table (Lester et al. 2021, 3.2, such as labels' names).

    `From(run, here="prompt/tokens", there="embed/embedding", resize=(Words(("good", "bad"), tokenizer),))`.

    Attributes:
      texts: as many as the prompt has tokens.
      tokenizer: of the run whose table it is.
      factor: of the rows, where the model multiplies its embeddings (`ScaledEmbed`: by the root of their width).
    """

    texts: tuple[str, ...] = config_field()
    tokenizer: Tokenizer = dataclasses.field(default_factory=Bytes)
    factor: float = 1.0
    axis: str = dataclasses.field(default="prompt", kw_only=True)

    def ids(self) -> list[np.ndarray]:
        """The ids of each text's tokens."""
        return self.tokenizer.encode_batch(self.texts)

    def __call__(self, table: Float[Array, "P D"], rows: int) -> Float[Array, "{rows} D"]:
        return self.factor * jnp.stack([table[ids].mean(0) for ids in self.ids()])

    def check(self, rows: int, there: int) -> None:
        self.tokenizer.check()
        if len(self.texts) != rows:
            raise UserError("resize.texts", f"{rows} texts, one for each token of the prompt", len(self.texts))
        for text, ids in zip(self.texts, self.ids(), strict=True):
            if not len(ids) or ids.max() >= there or rows == there:
                expected = f"texts with tokens among more than {rows} rows of a table"
                raise UserError("resize.texts", expected, text, hint=f"the table has {there}")
