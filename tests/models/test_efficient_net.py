"""EfficientNet: its padding, what is refused, and equality with the reference both ways through files."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.interop import huggingface
from txjax.models import Stage
from txjax.models.vision.efficient_net import EfficientNet, InvertedStage, InvertedStem
from txjax.models.vision.max_vit import MaxViTStem, MBConv
from txjax.nn import Classes, MeanTokens, Pooled
from txjax.types import UserError

from helpers.arrays import numbers, on_jax, shapes, variables

# Half the width of B0 and 1.4 times its depth, of three stages: layers 0 and 1, 2 to 4, 5 and 6.
OPTIONS: dict[str, Any] = {
    "width_coefficient": 0.5,
    "depth_coefficient": 1.4,
    "in_channels": [32, 16, 24],
    "out_channels": [16, 24, 40],
    "kernel_sizes": [3, 5, 3],
    "num_block_repeats": [1, 2, 1],
    "expand_ratios": [1, 4, 3],
    "strides": [1, 2, 2],
    "hidden_dim": 640,
    "num_labels": 5,
}


def tiny(**fields: Any) -> EfficientNet:
    small: dict[str, Any] = dict(
        stages=(InvertedStage(8, 2, ratio=1, stride=1), InvertedStage(16, 2, side=5, ratio=2)),
        stem=InvertedStem(channels=8),
        features=320,
        resolution=12,
        head=Classes(3, MeanTokens()),
    )
    return EfficientNet(**small | fields)


def outputs(model: EfficientNet, weights: Any, image: np.ndarray) -> np.ndarray:
    return np.asarray(jax.jit(lambda image: model.apply(on_jax(weights), image))(jnp.asarray(image)))


@pytest.mark.slow
def test_other_images_are_padded_as_those_of_the_resolution() -> None:
    """Of 12 x 12 pixels the second stage has 6 x 6, of 14 x 14 it has 7 x 7, which "SAME" pads by one more zero."""
    model, free = tiny(), tiny(resolution=None)
    weights = variables(model, numbers(1, 12, 12, 1))
    even, odd = numbers(2, 12, 12, 1), numbers(2, 14, 14, 1)
    np.testing.assert_array_equal(outputs(model, weights, even), outputs(free, weights, even))
    np.testing.assert_array_equal(outputs(tiny(resolution=14), weights, odd), outputs(free, weights, odd))
    assert np.abs(outputs(model, weights, odd) - outputs(free, weights, odd)).max() > 1e-3
    sides = [model.clone(head=None).apply(on_jax(weights), jnp.asarray(odd)).grid[:2] for model in (model, free)]
    assert sides == [(3, 3), (4, 4)]


def test_squeezed_channels_are_of_the_input() -> None:
    params = shapes(tiny(), numbers(1, 12, 12, 3))["params"]
    assert params["downsample_1"]["excite"]["down"]["kernel"].shape == (16, 2)
    assert params["stages_1"]["layers"]["block"]["mixer"]["excite"]["down"]["kernel"].shape == (1, 32, 4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"downsample": MBConv()}, r"config.model.downsample: expected InvertedDownsampling\(\), got .MBConv"),
        ({"stem": MaxViTStem()}, r"config.model.stem: expected InvertedStem\(\), got .MaxViTStem"),
        ({"stages": (InvertedStage(8, 1, side=4),)}, r"config.model.stages\[0\].side: expected an odd number, got 4"),
        ({"stages": (Stage(8, 1),)}, r"config.model.stages\[0\]: expected an InvertedStage, got .Stage"),
        ({"stages": (InvertedStage(8, 1),) * 6}, "config.model.stages: expected images of at least 3 rows"),
    ],
)
def test_parts_that_do_not_fit(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        shapes(tiny(**fields), numbers(1, 4, 4, 1))
    assert "\n" not in str(error.value)


def reference(transformers: Any, torch: Any, architecture: str, **options: Any) -> Any:
    """A model with random weights, none of them zero or one, and positive variances."""
    config = transformers.EfficientNetConfig(**OPTIONS | options)
    model, generator = getattr(transformers, architecture)(config).eval(), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if tensor.ndim:
                tensor.copy_(0.1 + 0.3 * torch.randn(tensor.shape, generator=generator))
            if name.endswith("running_var"):
                tensor.abs_().add_(0.5)
    return model


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the reference has warnings of its own
@pytest.mark.claim("Transfer", "EfficientNet equals the reference's, with odd sides too (needs torch and transformers)")
@pytest.mark.parametrize(
    ("architecture", "output", "options"),
    [
        ("EfficientNetForImageClassification", "logits", {"image_size": 42, "depthwise_padding": [2, 5]}),
        ("EfficientNetForImageClassification", "logits", {"image_size": 48, "depthwise_padding": [16]}),
        (
            "EfficientNetModel",
            "pooler_output",
            {
                "image_size": 44,
                "depthwise_padding": [5],
                "num_channels": 1,
                "squeeze_expansion_ratio": 0.5,
                "batch_norm_eps": 1e-2,
            },
        ),
    ],
)
def test_outputs_agree_both_ways(architecture: str, output: str, options: dict[str, Any], tmp_path: Path) -> None:
    """For images of the padding's size, for others, and for such that aren't square."""
    torch, transformers = (pytest.importorskip(name, reason="txjax[parity]") for name in ("torch", "transformers"))
    theirs = reference(transformers, torch, architecture, **options)
    channels = theirs.config.num_channels
    images = [numbers(2, channels, *sides) for sides in ((options["image_size"],) * 2, (37, 37), (52, 45))]

    def expected(model: Any) -> list[np.ndarray]:
        with torch.no_grad():
            return [model(pixel_values=torch.from_numpy(image))[output].numpy() for image in images]

    wanted = expected(theirs)
    theirs.save_pretrained(tmp_path / "theirs")
    ours, weights = huggingface.load(tmp_path / "theirs")
    assert ours.norm.momentum == 0.99 and ours.resolution == options["image_size"]
    for image, want in zip(images, wanted, strict=True):
        scale = max(1.0, float(np.abs(want).max()))
        got = huggingface.forward(ours, weights, {"pixel_values": image})[output]
        np.testing.assert_allclose(got / scale, want / scale, atol=1e-5)
    huggingface.save(ours, weights, tmp_path / "ours")
    again, info = getattr(transformers, architecture).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    for result, want in zip(expected(again.eval()), wanted, strict=True):
        np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"depthwise_padding": []}, r"depthwise_padding: expected \[2\] among the layers \[2\] with strides"),
        ({"image_size": 15}, r"image_size: expected an even number"),
        ({"hidden_dim": 640}, "hidden_dim: expected 320, got 640"),
        ({"in_channels": [32, 48]}, r"in_channels: expected \[8, 8\] when scaled"),
        ({"kernel_sizes": [3]}, r"kernel_sizes: expected 2 numbers, one a stage, got \[3\]"),
        ({"strides": [1, 3]}, r"strides: expected 1 or 2, got \[1, 3\]"),
        ({"hidden_act": "relu"}, "hidden_act: expected 'swish'"),
        ({"pooling_type": "max"}, "pooling_type: expected 'mean', got 'max'"),
    ],
)
def test_options_that_it_does_not_have(entries: dict[str, Any], message: str, tmp_path: Path) -> None:
    model = tiny(resolution=14)
    huggingface.save(model, variables(model, numbers(1, 14, 14, 3)), tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | entries))
    with pytest.raises(UserError, match=message):
        huggingface.load(tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resolution": None}, "config.model.resolution: expected 224, got None"),
        ({"stem": InvertedStem(channels=16)}, "config.model.stem.channels: expected 8, got 16"),
        ({"stem": InvertedStem(channels=8, conv_stride=1)}, "config.model.stem.conv_stride: expected 2, got 1"),
    ],
)
def test_models_that_files_do_not_have(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    model = tiny(**fields)
    with pytest.raises(UserError, match=message):
        huggingface.save(model, variables(model, numbers(1, 12, 12, 3)), tmp_path)


def test_features_without_a_classifier_are_of_the_last_convolution(tmp_path: Path) -> None:
    model = tiny(head=Pooled(MeanTokens()))
    weights, image = variables(model, numbers(1, 12, 12, 3)), numbers(1, 12, 12, 3)
    assert outputs(model, weights, image).shape == (1, 320)
    huggingface.save(model, weights, tmp_path)
    loaded, weights = huggingface.load(tmp_path)
    np.testing.assert_array_equal(outputs(loaded, weights, image), outputs(model, weights, image))
