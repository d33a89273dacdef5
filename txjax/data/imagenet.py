"""ImageNet as most of its published recipes take it."""

from typing import Any

from txjax.data.images import Images
from txjax.data.transforms import Transform

TRAIN_IMAGES = 1_281_167  # images of `train` (Russakovsky et al. 2015)


def imagenet(split: str, *transforms: Transform, **fields: Any) -> Images:
    """ILSVRC 2012 (Russakovsky et al. 2015), TFDS's `imagenet2012`, as 224 x 224 pixels.

    Mean and standard deviation of the channels are those of fb.resnet.torch (Gross & Wilber 2016), taken there from a
    random part of the training images; the code of MAE has them too.

    Args:
      split: of TFDS, `train` or `validation` or a part of one.
      transforms: must end at 224 x 224 pixels, unless another `shape` is passed.
      fields: of `Images`, in place of those given here. `name=None`: an evaluation that follows the training data.
    """
    usual: dict[str, Any] = dict(
        name="imagenet2012",
        shape=(224, 224, 3),
        classes=1000,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
    )
    return Images(split=split, transforms=transforms, **usual | fields)
