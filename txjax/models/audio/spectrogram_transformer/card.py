"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from collections.abc import Mapping
from typing import Any

from txjax.models.audio.spectrogram_transformer.spectrogram_transformer import SpectrogramTransformer
from txjax.models.cards import EXAMPLE_TASKS, Card, Example, Preset, Size, System
from txjax.models.vision.vit.card import SIZES
from txjax.nn import Classes, Grid, LayerNorm, Learned, MeanPrefix, NormedPool, patch_count
from txjax.nn.audio.front_ends import AUDIOSET, SPEECH_COMMANDS, audio_spectrogram
from txjax.types import spec


def ast_audioset(**fields: Any) -> SpectrogramTransformer:
    """The Audio Spectrogram Transformer for AudioSet (Gong et al. 2021, 3.1): ten seconds, 527 labels."""
    return published_ast(1024, 527, AUDIOSET, fields)


def ast_speech_commands(**fields: Any) -> SpectrogramTransformer:
    """The same for Speech Commands V2 (Gong et al. 2021, 3.2): a second, 35 words."""
    return published_ast(128, 35, SPEECH_COMMANDS, fields)


def published_ast(
    frames: int, classes: int, statistics: tuple[float, float], fields: Mapping[str, Any]
) -> SpectrogramTransformer:
    """A ViT-B of patches of 16 x 16, 10 apart, of 128 bins (Gong et al. 2021, 2.1).

    Args:
      statistics: mean and deviation of the features.
      fields: that replace these.
    """
    width, depth, heads = SIZES["B"]
    grid = Grid(patch_count(128, 16, 10), patch_count(frames, 16, 10), prefix=2)
    style: dict[str, Any] = dict(
        width=width,
        depth=depth,
        heads=heads,
        front_end=audio_spectrogram(statistics, frames),
        image_size=(128, frames),
        positions=Learned(max_length=grid.prefix + grid.rows * grid.columns),
        reads_padding=True,
        norm=LayerNorm(eps=1e-12),
        head=Classes(classes, NormedPool(MeanPrefix(), name="norm_head")),
    )
    return SpectrogramTransformer(**style | dict(fields))


CARD = Card(
    title="Audio Spectrogram Transformer",
    examples=(
        Example(
            model=SpectrogramTransformer(patch=4, stride=3, width=8, depth=2, heads=2),
            objectives=EXAMPLE_TASKS,
            returns="what its `head` gives",
            config="configs/audio/ast_audioset.py",
        ),
    ),
    presets=(
        Preset(
            build=ast_audioset,
            paper="Gong et al. 2021",
            remark="1,024 frames, 527 classes",
            sizes={"": Size(86_594_063)},
            inputs={"features": spec((1, 1024, 128), "float32")},
            reference="ASTForAudioClassification",
        ),
        Preset(
            build=ast_speech_commands,
            paper="Gong et al. 2021",
            remark="128 frames, 35 classes",
            sizes={"": Size(85_395_491)},
            inputs={"features": spec((1, 128, 128), "float32")},
            reference="ASTForAudioClassification",
        ),
    ),
    systems=(
        System(
            name="Audio Spectrogram Transformer",
            config="configs/audio/ast_digits.py",
            score="93.4% of spoken digits (96.7% from a ViT of images)",
            presets=(ast_audioset, ast_speech_commands),
            equal_to="[ASTForAudioClassification](tests/interop/test_parity.py)",
            compiled="AudioSet's on v5e:2x2",
        ),
    ),
)
