"""The defaults of ImageNet can be overridden by arguments and by flags."""

from txjax import config
from txjax.data import Flip, Images, Mixup, Resize
from txjax.data.images.imagenet import imagenet


def test_fields_override_the_defaults():
    found = imagenet("validation", Resize(384), Flip(), shape=(384, 384, 3), mix=Mixup())
    assert type(found) is Images and (found.split, found.classes) == ("validation", 1000)
    assert found.transforms == (Resize(384), Flip()) and found.mix == Mixup()
    assert found.spec()["image"].shape == (384, 384, 3) and len(found.mean) == len(found.std) == 3
    assert imagenet("train").shape == (224, 224, 3)


def test_flags_reach_every_field(root):
    source = str(root / "configs/vision/vit_imagenet.py")
    flags = ["--config.data.std=(0.5,)", "--config.evals.valid.data.image_feature=picture"]
    experiment = config.load(source, flags)
    assert experiment.data.std == (0.5,) and experiment.evals["valid"].data.image_feature == "picture"
