"""Cross entropies.

Training adds terms to them. Each term has a sum and a count; the loss is the sum of the means.
"""

import jax.numpy as jnp

from txjax.objectives import CrossEntropy, SigmoidCrossEntropy

logits = jnp.array([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0], [1.0, 1.0, 1.0]])
weights = jnp.array([1.0, 1.0, 0.0])  # the last one is padding

loss = CrossEntropy(label_smoothing=0.1, z_loss=1e-4)
terms, metrics = loss("next_token", logits, jnp.array([0, 1, 0]), weights, train=True)
print({name: round(float(term.value), 4) for name, term in (terms | metrics).items()})
# {'next_token': 0.1672, 'label_smoothing': 0.1667, 'z_loss': 0.0007, 'accuracy': 1.0}

labels = jnp.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])  # an example may have several classes
terms, metrics = SigmoidCrossEntropy()("classification", logits, labels, weights, train=True)
print({name: round(float(term.value), 4) for name, term in (terms | metrics).items()})
# {'classification': 0.4914, 'accuracy': 1.0}
