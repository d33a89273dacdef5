"""Fields with ranges, and errors of one line."""

import dataclasses

from txjax.tree import check_fields
from txjax.types import UserError, config_field


@dataclasses.dataclass
class Noise:
    """Noise of inputs."""

    rate: float = config_field(0.1, at_least=0, at_most=1)
    kind: str = config_field("normal", choices=("normal", "uniform"))


try:
    check_fields(Noise(rate=1.5, kind="gauss"), "config.data.noise")
except UserError as error:
    print(error)
# config.data.noise.rate: expected at most 1, got 1.5
# config.data.noise.kind: expected one of 'normal', 'uniform', got 'gauss'

print(UserError("config.model.widht", "a field of Decoder", near=["width"], hint="see docs/models.md"))
# config.model.widht: expected a field of Decoder; did you mean width?; see docs/models.md
