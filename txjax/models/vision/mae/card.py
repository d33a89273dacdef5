"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import Card, Example, Preset, Size, System
from txjax.models.published_sizes import dimensions_of
from txjax.models.vision.mae.mae import MAE
from txjax.models.vision.vit.card import VIT


def mae(size: str = "B/16", **fields: Any) -> MAE:
    """The masked autoencoder (He et al. 2022): a decoder of width 512, 8 layers and 16 heads."""
    plain = dimensions_of(size, VIT)
    patch = int(size.split("/")[1])
    return MAE(**plain | dict(patch=patch) | fields)


CARD = Card(
    title="MAE",
    examples=(
        Example(
            model=MAE(patch=2, width=8, depth=2, heads=2, decoder_width=8, decoder_depth=1, decoder_heads=2),
            objectives={"MaskedPatch": None},
            returns="pixels `[B N P*P*C]`",
            config="configs/vision/mae_digits.py",
        ),
    ),
    presets=(
        Preset(
            build=mae,
            paper="He et al. 2022",
            remark="decoder of width 512, 8 layers, 16 heads",
            sizes={
                "B/16": Size(111_655_680),
                "L/16": Size(329_239_296),
                "H/14": Size(656_613_964),
            },
            reference="ViTMAEForPreTraining",
        ),
    ),
    systems=(
        System(
            name="MAE",
            config="configs/vision/mae_digits.py",
            score="0.406",
            presets=(mae,),
            equal_to="[ViTMAEForPreTraining](tests/interop/test_parity.py)",
            compiled="H/14 on v5e:16x16",
        ),
    ),
)
