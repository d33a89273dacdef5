"""What rounding the logits to bfloat16 changes of a loss and its gradients: `CrossEntropy(dtype="bfloat16")`.

    python benchmarks/logit_dtype.py

Features in bfloat16 and a kernel, normally distributed, give logits of 50,304 words with a standard deviation of 3 at
4,096 positions; targets are drawn from the softmax. Both losses have the same bfloat16 products.
"""

import jax
import jax.numpy as jnp

from txjax.nn import Logits
from txjax.objectives import CrossEntropy

POSITIONS = 4096
WIDTH = 256
VOCAB = 50_304
DEVIATION = 3.0


def main() -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    features = jax.random.normal(keys[0], (POSITIONS, WIDTH), jnp.bfloat16)[None]
    kernel = DEVIATION / WIDTH**0.5 * jax.random.normal(keys[1], (WIDTH, VOCAB))
    targets = jax.random.categorical(keys[2], Logits(features, kernel).dense())

    def nats(kernel: jax.Array, dtype: str) -> jax.Array:
        loss = CrossEntropy(chunk=512, dtype=dtype)
        terms, _ = loss("loss", Logits(features, kernel), targets, jnp.ones(targets.shape), True)
        return terms["loss"].value

    step = jax.jit(jax.value_and_grad(nats), static_argnums=1)
    exact, of_exact = step(kernel, "float32")
    rounded, of_rounded = step(kernel, "bfloat16")
    print(f"loss: {exact:.6f} nats in float32, {rounded - exact:+.6f} in bfloat16")
    print(
        f"gradient of the kernel: {jnp.linalg.norm(of_rounded - of_exact) / jnp.linalg.norm(of_exact):.2%} of its norm"
    )


if __name__ == "__main__":
    main()
