"""ImageNet with the defaults of most published recipes."""

from typing import Any

from txjax.data.images.images import Images
from txjax.data.images.transforms import Transform

TRAIN_IMAGES = 1_281_167  # images of `train` (Russakovsky et al. 2015)


def imagenet(split: str, *transforms: Transform, **fields: Any) -> Images:
    """ILSVRC 2012 (Russakovsky et al. 2015), TFDS's `imagenet2012`, at 224 x 224 pixels.

    Mean and standard deviation of the channels are those of fb.resnet.torch (Gross & Wilber 2016), computed
    there on a random part of the training images; the code of MAE uses them too.

    Args:
      split: TFDS's split, `train` or `validation` or a part of one.
      transforms: their output must be 224 x 224 pixels, unless another `shape` is passed.
      fields: fields of `Images` that override these defaults. With `name=None` an evaluation uses the training data.
    """
    usual: dict[str, Any] = dict(
        name="imagenet2012",
        shape=(224, 224, 3),
        classes=1000,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
    )
    return Images(split=split, transforms=transforms, **usual | fields)
