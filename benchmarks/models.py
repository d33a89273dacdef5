"""The small models of the benchmarks, as experiments."""

from txjax.data import Bytes, Images, NextTokenWindows, TextWindows
from txjax.experiment import Experiment
from txjax.models.text.bert import Bert
from txjax.models.text.decoder import gpt
from txjax.models.vision.vit import ViT
from txjax.nn import LayerNorm, Learned
from txjax.objectives import Classification, MaskedToken, NextToken
from txjax.optim import AdamW


def experiment(name: str, size: dict[str, int], dtype: str) -> Experiment:
    """`gpt`, `bert` or `vit` in this size."""
    size = dict(size)
    batch, optimizer = size.pop("batch"), AdamW(weight_decay=0.1)
    if name == "vit":
        image = size.pop("image")
        count = (image // size["patch"]) ** 2 + 1
        model = ViT(**size, positions=Learned(max_length=count), norm=LayerNorm(eps=1e-6), dtype=dtype)
        data = Images(shape=(image, image, 3), classes=10)
        return Experiment(model=model, objective=Classification(), data=data, optimizer=optimizer, batch_size=batch)
    length = size.pop("length")
    if name == "gpt":
        model = gpt(**size, max_length=length, dtype=dtype)
        data = NextTokenWindows(length=length, tokenizer=Bytes(), boundaries=False)
        return Experiment(model=model, objective=NextToken(), data=data, optimizer=optimizer, batch_size=batch)
    model = Bert(**size, positions=Learned(max_length=length), dtype=dtype)
    data = TextWindows(length=length, tokenizer=Bytes(), boundaries=False)
    objective = MaskedToken(mask_id=3, vocab=1000)
    return Experiment(model=model, objective=objective, data=data, optimizer=optimizer, batch_size=batch)
