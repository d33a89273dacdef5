"""The masked autoencoder (He et al. 2022)."""

from txjax.models.vision.mae.mae import MAE

__all__ = ["MAE"]
