"""Adapters of a decoder, and how few parameters are trained."""

import jax
import jax.numpy as jnp

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
    sizes = {
        "/".join(key.key for key in path): leaf.value.size
        for path, leaf in jax.tree.leaves_with_path(params, is_leaf=lambda leaf: hasattr(leaf, "value"))
    }
    print(f"{type(adapter).__name__}: {sum(size for path, size in sizes.items() if optimizer.trained(path)):,}")
# LoRA: 4,096
# RsLoRA: 294,912
# DoRA: 4,608
# IA3: 1,536
# Bottleneck: 17,024
# Prefix: 5,120
# Prompt: 1,280
# BitFit: 2,880
