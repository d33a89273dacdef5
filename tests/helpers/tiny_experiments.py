"""Tiny experiments that tests share; every field can be overridden."""

from typing import Any

from txjax.data import Images, NextTokenWindows
from txjax.experiment import Experiment
from txjax.models.text.decoder import Decoder
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken
from txjax.objectives import Classification, NextToken
from txjax.optim import AdamW, Constant


def decoder(**fields: Any) -> Experiment:
    """A decoder of one layer on 16 bytes of text."""
    model = Decoder(vocab=256, width=16, depth=1, heads=2)
    data = NextTokenWindows(name="txjax_python_text", length=16)
    return _tiny(fields, model=model, objective=NextToken(), data=data)


def vit(**fields: Any) -> Experiment:
    """A ViT of one layer on digits."""
    model = ViT(patch=4, head=Classes(10, FirstToken()), width=16, depth=1, heads=2)
    return _tiny(fields, model=model, objective=Classification(), data=Images(name="txjax_digits", shape=(8, 8, 1)))


def _tiny(fields: dict[str, Any], **own: Any) -> Experiment:
    shared = {"optimizer": AdamW(peak_lr=1e-2, schedule=Constant()), "batch_size": 8, "trackers": ()}
    return Experiment(**shared | own | fields)
