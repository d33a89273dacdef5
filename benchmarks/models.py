"""The small models of the benchmarks, as experiments."""

import jax
import numpy as np

from txjax.data import Bytes, Images, NextTokenWindows, TextWindows
from txjax.experiment import Experiment
from txjax.models.text.bert import Bert
from txjax.models.text.decoder import gpt
from txjax.models.vision.vit import ViT
from txjax.nn import LayerNorm, Learned
from txjax.objectives import Classification, MaskedToken, NextToken
from txjax.optim import AdamW
from txjax.train.state import batch_spec

SIZES: dict[str, dict[str, int]] = {
    "gpt": dict(vocab=1024, length=256, width=384, depth=6, heads=6, batch=12),
    "bert": dict(vocab=1024, length=128, width=256, depth=4, heads=4, batch=32),
    "vit": dict(image=32, patch=4, classes=10, width=192, depth=12, heads=3, batch=32),
}


def experiment(name: str, size: dict[str, int], dtype: str) -> Experiment:
    """`gpt`, `bert` or `vit` in this size."""
    size = dict(size)
    batch, optimizer = size.pop("batch"), AdamW(weight_decay=0.1)
    if name == "vit":
        image = size.pop("image")
        count = (image // size["patch"]) ** 2 + 1
        model = ViT(**size, positions=Learned(max_length=count), norm=LayerNorm(eps=1e-6), dtype=dtype)
        data = Images(name="txjax_digits", shape=(image, image, 3), classes=10)
        return Experiment(model=model, objective=Classification(), data=data, optimizer=optimizer, batch_size=batch)
    length = size.pop("length")
    if name == "gpt":
        model = gpt(**size, max_length=length, dtype=dtype)
        data = NextTokenWindows(name="txjax_python_text", length=length, tokenizer=Bytes(), boundaries=False)
        return Experiment(model=model, objective=NextToken(), data=data, optimizer=optimizer, batch_size=batch)
    model = Bert(**size, positions=Learned(max_length=length), dtype=dtype)
    data = TextWindows(name="txjax_python_text", length=length, tokenizer=Bytes(), boundaries=False)
    objective = MaskedToken(mask_id=3, vocab=1000)
    return Experiment(model=model, objective=objective, data=data, optimizer=optimizer, batch_size=batch)


def made_up(run: Experiment) -> dict[str, np.ndarray]:
    """A batch of noise as the run's data would give it."""
    rng = np.random.default_rng(0)
    vocab = min(getattr(run.model, "vocab", 1000), 1000)
    limits = {"tokens": vocab, "targets": vocab, "label": getattr(run.data, "classes", None) or 2}

    def fill(key: str, x: jax.ShapeDtypeStruct) -> np.ndarray:
        if key == "id":
            return np.arange(x.shape[0], dtype=x.dtype)
        if key in ("weights", "segments"):
            return np.ones(x.shape, x.dtype)
        whole = key in limits and np.issubdtype(x.dtype, np.integer)
        return (rng.integers(0, limits[key], x.shape) if whole else rng.normal(size=x.shape)).astype(x.dtype)

    return {key: fill(key, x) for key, x in batch_spec(run.data, run.batch_size).items()}
