"""Small models of two towers, as CLIP has them and as SigLIP, and the towers alone; with inputs of each."""

from typing import Any

import jax.numpy as jnp

from txjax.models.multimodal.two_towers import CLIPImageTower, FixedLengthText, ProbePool, SigLIPImageTower, TwoTowers
from txjax.models.text.decoder import Decoder
from txjax.nn import MLP, FirstToken, LastToken, LayerNorm, Learned, NormedPool, Pooled, Projected

from helpers.arrays import numbers

VOCAB = 11
IMAGE = {"image": jnp.asarray(numbers(2, 4, 4, 3))}
TOKENS = {"tokens": jnp.asarray([[1, 2, 3, 10, 5], [7, 10, 3, 3, 1]], jnp.int32)}

_PATCHES: dict[str, Any] = {"patch": 2, "width": 8, "depth": 2, "heads": 2}
_TEXTS: dict[str, Any] = {"vocab": VOCAB, "width": 6, "depth": 2, "heads": 2, "positions": Learned(max_length=7)}
CLIP_IMAGES = CLIPImageTower(
    **_PATCHES, positions=Learned(max_length=5), norm=LayerNorm(eps=1e-5), head=Projected(4, NormedPool(FirstToken()))
)
CLIP_TEXTS = Decoder(**_TEXTS, mlp=MLP(hidden=10, activation="quick_gelu"), head=Projected(4, LastToken()))
CLIP = TwoTowers(vision=CLIP_IMAGES, text=CLIP_TEXTS)
SIGLIP_IMAGES = SigLIPImageTower(**_PATCHES, positions=Learned(max_length=4), head=Pooled(ProbePool()))
SIGLIP_TEXTS = FixedLengthText(**_TEXTS, head=Projected(8, LastToken(), use_bias=True))
SIGLIP = TwoTowers(vision=SIGLIP_IMAGES, text=SIGLIP_TEXTS, scale=10.0, bias=-10.0, largest_scale=None)

SMALL_TOWERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "clip": (CLIP, IMAGE | TOKENS),
    "clip-images": (CLIP_IMAGES, IMAGE),
    "clip-images-pooled": (CLIP_IMAGES.clone(head=Pooled(NormedPool(FirstToken()))), IMAGE),
    "clip-texts": (CLIP_TEXTS, TOKENS),
    "clip-texts-pooled": (CLIP_TEXTS.clone(head=Pooled(LastToken())), TOKENS),
    "siglip": (SIGLIP, IMAGE | TOKENS),
    "siglip-images": (SIGLIP_IMAGES, IMAGE),
    "siglip-images-bare": (SIGLIP_IMAGES.clone(head=None), IMAGE),
    "siglip-texts": (SIGLIP_TEXTS, TOKENS),
}
