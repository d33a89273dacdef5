"""Mixup and CutMix.

Two examples mixed into one, and the share of the first.
"""

import numpy as np

from txjax.data import CutMix, Mixup

white, black = np.ones([8, 8, 1], np.float32), np.zeros([8, 8, 1], np.float32)
for mix in (Mixup(alpha=0.8), CutMix(alpha=1.0)):
    image, share = mix(white.copy(), black, np.random.default_rng(1))
    print(type(mix).__name__, f"share {share:.2f}, mean {image.mean():.2f}, values {len(np.unique(image))}")
# Mixup share 0.41, mean 0.41, values 1
# CutMix share 0.61, mean 0.61, values 2
