"""A model can be read: few frames, files and lines lie between `model.apply` and what it computes."""

import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from txjax.models.hierarchical import Stage
from txjax.models.text.decoder import gpt
from txjax.models.vision.res_net import ResNet
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken, MeanTokens
from txjax.nn.adapters import LoRA
from txjax.nn.kernels import attention_dispatch

PACKAGE = Path(__file__).parents[1] / "txjax"
SIZES: dict[str, Any] = {"width": 8, "depth": 2, "heads": 2}
IMAGE = jnp.zeros((1, 8, 8, 3))
TOKENS = jnp.zeros((1, 4), jnp.int32)


def vit(**fields: Any) -> Any:
    return ViT(patch=4, head=Classes(2, FirstToken()), **SIZES, **fields)


def gpt2(**fields: Any) -> Any:
    return gpt(vocab=8, max_length=4, **SIZES, **fields)


def apply(model: Any, x: jax.Array, watch: Any = None) -> None:
    """Traces a call of the model. `watch` is called before, to begin to watch it."""
    variables = model.init(jax.random.key(0), x)
    begin = watch or (lambda: None)
    begin()
    jax.eval_shape(model.apply, variables, x)


def path_to_kernel(monkeypatch: pytest.MonkeyPatch, model: Any, x: jax.Array) -> tuple[int, list[Path]]:
    """Frames of the package from `model.apply` to `dot_product_attention`, and their files."""
    reached: list[list[Path]] = []
    choose = attention_dispatch.choose

    def wrapped(*args: Any) -> Any:
        frames = [Path(frame.filename) for frame in traceback.extract_stack()]
        reached.append([path for path in frames if path.is_relative_to(PACKAGE)])
        return choose(*args)

    apply(model, x, lambda: monkeypatch.setattr(attention_dispatch, "choose", wrapped))
    frames = reached[0]
    return len(frames), sorted(set(frames))


def lines(files: list[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in files)


@pytest.mark.parametrize(("model", "x"), [(vit, IMAGE), (gpt2, TOKENS)])
def test_the_path_to_the_kernel_is_short(monkeypatch, model, x):
    frames, files = path_to_kernel(monkeypatch, model(), x)
    assert frames <= 10
    assert len(files) <= 7, files
    assert lines(files) <= 900, {path.name: lines([path]) for path in files}


@pytest.mark.parametrize(("model", "x"), [(vit, IMAGE), (gpt2, TOKENS)])
def test_an_adapter_adds_one_file_to_the_path(monkeypatch, model, x):
    _, plain = path_to_kernel(monkeypatch, model(), x)
    frames, files = path_to_kernel(monkeypatch, model(adapter=LoRA(rank=2)), x)
    assert frames <= 17
    assert len(set(files) - set(plain)) <= 1
    assert lines(files) <= 1100


def test_a_convolutional_model_is_in_few_files():
    """All files of the package that a forward pass enters, not only those on the stack at one point."""
    entered: set[Path] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            entered.add(Path(frame.f_code.co_filename))

    try:
        model = ResNet(stages=(Stage(8, 2), Stage(16, 2)), head=Classes(2, MeanTokens()))
        apply(model, jnp.zeros((1, 32, 32, 3)), lambda: sys.setprofile(note))
    finally:
        sys.setprofile(None)
    files = sorted(str(path.relative_to(PACKAGE)) for path in entered if path.is_relative_to(PACKAGE))
    assert len(files) <= 20, files
