"""A config file of the models that `accelerator.py` measures, on made-up data: published sizes, and tiny ones.

txjax plan --config=benchmarks/full_size.py:gpt2-124M --devices=1 --chip=H100
"""

from models import Noise, experiment, vocab_of  # beside this file

from txjax.experiment import Experiment
from txjax.models.text.bert.card import BERT
from txjax.models.text.decoder.card import GPT2, LLAMA
from txjax.optim import Constant


def sized(size: tuple[int, int, int], **more: int) -> dict[str, int]:
    return dict(zip(("width", "depth", "heads"), size, strict=True)) | more


# What `models.experiment` calls them, and their sizes. Vocabularies are multiples of 128.
SIZES: dict[str, tuple[str, dict[str, int]]] = {
    "gpt2-124M": ("gpt", sized(GPT2["124M"], vocab=50304, length=1024, batch=16)),
    "gpt2-350M": ("gpt", sized(GPT2["355M"], vocab=50304, length=1024, batch=8)),
    "bert-base": ("bert", sized(BERT["base"], vocab=30592, length=128, batch=256)),
    "vit-b16": ("vit", sized((768, 12, 12), image=224, patch=16, classes=1000, batch=128)),
    "llama-1B": ("llama", sized(LLAMA["1.3B"], vocab=32000, length=2048, batch=4)),
    "gpt-small": ("gpt", sized((384, 6, 6), vocab=1024, length=256, batch=12)),  # too small to fill an accelerator
}
_TINY = sized((32, 1, 2), batch=2)
_TEXT = _TINY | dict(vocab=1024, length=32)
TINY: dict[str, tuple[str, dict[str, int]]] = {
    name: (kind, _TINY | dict(image=32, patch=16, classes=10) if kind == "vit" else _TEXT)
    for name, (kind, _) in SIZES.items()
}
VARIANTS = (*SIZES, *(f"{name}-tiny" for name in SIZES))


def get_config(variant: str = "gpt2-124M") -> Experiment:
    name = variant.removesuffix("-tiny")
    kind, size = (SIZES if name == variant else TINY)[name]
    run = experiment(kind, size, "bfloat16")
    run.data = Noise(like=run.data, tokens=vocab_of(run), classes=size.get("classes", 2))
    run.optimizer.schedule = Constant()
    run.trackers = ()
    return run
