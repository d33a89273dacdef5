"""Files of text.

Pairs of neighbouring sentences for BERT; half of the second ones come from elsewhere.
"""

from pathlib import Path

import numpy as np

from txjax.data import Bytes, SentencePairs, TextFiles

for n in range(20):
    Path(f"note{n}.txt").write_text(f"The first line of note {n}.\nThe second one.\nThe last one.\n" * 5)
tokenizer = Bytes(specials=("[CLS]", "[SEP]"))
data = SentencePairs(source=TextFiles("*.txt", block=128), length=48, tokenizer=tokenizer, other="elsewhere")
example = data.open().example(0, epoch=0, rng=np.random.default_rng(0))
text = example["weights"] > 0
first, second = (tokenizer.decode(example["tokens"][text & (example["types"] == part)]) for part in (0, 1))
print(repr(first), repr(second), example["next_sentence"])
# 'The first line of note ' 'te 17.\nThe second one.' 0
