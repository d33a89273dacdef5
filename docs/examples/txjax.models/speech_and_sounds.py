"""Speech and sounds.

They read frames of features, and give classes of each frame, classes of a recording, or text.
"""

import jax
import jax.numpy as jnp

from txjax.models.audio.branchformer import Branchformer
from txjax.models.audio.conformer import Conformer
from txjax.models.audio.spectrogram_transformer import SpectrogramTransformer
from txjax.models.audio.speech_transformer import SpeechTransformer, WindowEncoder
from txjax.nn import Classes, MeanTokens, TokenClasses
from txjax.nn.audio.sequence_subsampling import SequenceSubsampling

key, features = jax.random.key(0), jnp.zeros([2, 96, 80])  # 96 frames of 80 log mels
sizes = dict(width=32, depth=2, heads=4)
models = (
    Conformer(**sizes, head=TokenClasses(29)),
    Branchformer(**sizes, head=TokenClasses(29)),
    SpectrogramTransformer(**sizes, patch=16, stride=10, head=Classes(10, MeanTokens())),
    WindowEncoder(**sizes, frames=96, subsampling=SequenceSubsampling(), head=Classes(10, MeanTokens())),
)
for model in models:
    logits, _ = jax.eval_shape(model.init_with_output, key, features)
    print(type(model).__name__, logits.shape)
# Conformer (2, 24, 29)
# Branchformer (2, 23, 29)
# SpectrogramTransformer (2, 10)
# WindowEncoder (2, 10)

speech_to_text = SpeechTransformer(**sizes, vocab=30, encoder=Conformer(**sizes, head=None))
logits, _ = jax.eval_shape(speech_to_text.init_with_output, key, jnp.zeros([2, 12], int), features)
print(jax.eval_shape(lambda logits: logits.dense(), logits).shape)
# (2, 12, 30)
