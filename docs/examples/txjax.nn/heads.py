"""Heads of texts."""

import jax
import jax.numpy as jnp

from txjax.models.text.bert import Bert
from txjax.models.text.decoder import Decoder
from txjax.nn import (
    Classes,
    FirstToken,
    LastToken,
    MeanTokens,
    Projected,
    StartEnd,
    Tied,
    TokenClasses,
    Untied,
)

tokens = jnp.array([[2, 5, 6, 7, 3, 0]])
segments = jnp.array([[1, 1, 1, 1, 1, 0]])
sizes = dict(vocab=10, width=32, depth=1, heads=4)
for head in (Classes(3, FirstToken()), Projected(8, MeanTokens()), TokenClasses(5), StartEnd()):
    output, _ = jax.eval_shape(Bert(**sizes, head=head).init_with_output, jax.random.key(0), tokens, segments)
    print(type(head).__name__, output.shape)
# Classes (1, 3)
# Projected (1, 8)
# TokenClasses (1, 6, 5)
# StartEnd (1, 2, 6)

for head in (Tied(), Untied(), Classes(3, LastToken())):
    variables = jax.eval_shape(Decoder(**sizes, head=head).init, jax.random.key(0), tokens, segments)
    print(type(head).__name__, sorted(variables["params"]))
# Tied ['embed', 'layers', 'norm_final']
# Untied ['embed', 'head', 'layers', 'norm_final']
# Classes ['embed', 'head', 'layers', 'norm_final']
