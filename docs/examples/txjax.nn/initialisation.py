"""Initialisers, and one of your own.

The standard deviation of an MLP's first kernel, and the factor at the end of the 24 branches of 12 layers.
"""

from txjax.models.text.decoder import Decoder
from txjax.nn import GPT2, Init


class SmallInit(Init):
    """Standard deviation sqrt(2 / (5 D)), the smaller side of a kernel as D (Nguyen and Salazar 2019)."""

    def std(self, fan_in, fan_out):
        return (2 / (5 * min(fan_in, fan_out))) ** 0.5


for initial in (Init(), GPT2(stddev=0.02), SmallInit()):
    model = Decoder(vocab=50257, width=768, depth=12, heads=12, initial=initial)
    print(f"{type(initial).__name__} {model.initial.std(768, 3072):.3f} {model.initial.residual_scale(24):.3f}")
# Init 0.036 1.000
# GPT2 0.020 0.204
# SmallInit 0.023 1.000
