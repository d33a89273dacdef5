"""A plain network of convolutions."""

from txjax.models.vision.conv_net.conv_net import ConvNet

__all__ = ["ConvNet"]
