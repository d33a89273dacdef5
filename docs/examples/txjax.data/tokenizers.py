"""Bytes, characters, a tokenizer of your own."""

import dataclasses

import numpy as np

from txjax.data import Bytes, Characters, Tokenizer


@dataclasses.dataclass
class Bases(Tokenizer):
    """One token for each base of DNA; N stands for any other."""

    letters: str = "NACGT"

    def encode(self, text):
        text = text if isinstance(text, str) else text.decode()
        return np.array([max(self.letters.find(letter), 0) for letter in text.upper()], np.int32)

    def decode(self, ids):
        return "".join(self.letters[i] for i in ids)

    def vocab(self):
        return len(self.letters)


for tokenizer in (Bytes(specials=("[END]",)), Characters(alphabet="ACGTacgt-"), Bases()):
    ids = tokenizer.encode("gat-TACA")
    print(type(tokenizer).__name__, tokenizer.vocab(), ids.tolist(), tokenizer.decode(ids))
# Bytes 257 [103, 97, 116, 45, 84, 65, 67, 65] gat-TACA
# Characters 9 [6, 4, 7, 8, 3, 0, 1, 0] gat-TACA
# Bases 5 [3, 1, 4, 0, 4, 1, 2, 1] GATNTACA
