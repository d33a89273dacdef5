"""A class for each word.

Names in WNUT 17, a prepared set of TFDS.
"""

from txjax.data import TFDS, TokenLabels, Trained, WordPiece

source = TFDS(name="wnut17")
tokenizer = Trained(source=source, features=("tokens",), algorithm=WordPiece(), size=8000)
data = TokenLabels(source=source, text=("tokens",), label="tags", length=64, tokenizer=tokenizer)
print({name: array.shape for name, array in data.spec().items()})
# {'id': (), 'weights': (64,), 'tokens': (64,), 'segments': (64,), 'types': (64,), 'targets': (64,)}
