"""Adapters of a decoder.

The number of trained parameters.
"""

import jax
import jax.numpy as jnp
from flax.traverse_util import flatten_dict

from txjax.models.text.decoder import Decoder
from txjax.nn.adapters import IA3, BitFit, Bottleneck, DoRA, LoRA, Prefix, Prompt, RsLoRA
from txjax.optim import AdamW, train_adapter

everywhere = ".*(query|key|value|out|up|down)"
adapters = (
    LoRA(rank=4),
    RsLoRA(rank=64, paths=everywhere),
    DoRA(rank=4),
    IA3(),
    Bottleneck(size=16),
    Prefix(length=10),
    Prompt(length=20),
    BitFit(),
)
for adapter in adapters:
    model = Decoder(vocab=256, width=64, depth=4, heads=4, adapter=adapter)
    params = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros([1, 8], int))["params"]
    optimizer = AdamW(groups=train_adapter()).tuning(model)
    leaves = flatten_dict(params, sep="/").items()
    trained = sum(leaf.value.size for path, leaf in leaves if optimizer.trained(path))
    print(type(adapter).__name__, trained)
# LoRA 4096
# RsLoRA 294912
# DoRA 4608
# IA3 1536
# Bottleneck 17024
# Prefix 5120
# Prompt 1280
# BitFit 2880
