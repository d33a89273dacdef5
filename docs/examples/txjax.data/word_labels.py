"""A class for each word: names of entities in WNUT 17, a prepared set of TFDS."""

from txjax.data import TFDS, TokenLabels, Trained, WordPiece

source = TFDS(name="wnut17")
tokenizer = Trained(source=source, features=("tokens",), algorithm=WordPiece(), size=8000)
data = TokenLabels(source=source, text=("tokens",), label="tags", length=64, tokenizer=tokenizer)
print({name: (array.shape, array.dtype.name) for name, array in data.spec().items() if name != "id"})
# {'weights': ((64,), 'float32'), 'tokens': ((64,), 'int32'), 'segments': ((64,), 'int32'), 'types': ((64,), 'int32'), 'targets': ((64,), 'int32')}
