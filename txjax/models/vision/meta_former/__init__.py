"""MetaFormer and PoolFormer (Yu et al. 2022)."""

from txjax.models.vision.meta_former.meta_former import MetaFormer

__all__ = ["MetaFormer"]
